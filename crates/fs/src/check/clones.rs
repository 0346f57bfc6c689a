//! Phases 1 to 4 for each clone: its inodes, names and link counts. The check of the origin has claimed and read what the clone
//! shares with it. This one reads again only the blocks that lead to names.

use super::finding::Problem;
use super::namespace::Namespace;
use super::state::Check;
use crate::error::FsError;
use crate::lfs::past::StateRoot;
use crate::states::{branch_of, in_branch, within};
use crate::store::Store;
use firnfs_format::checkpoint::Branch;
use firnfs_format::table::{ImapEntry, TableEntry};
use firnfs_format::{Epoch, InodeNo};
use std::collections::BTreeMap;

impl Check<'_> {
    /// Examines all clones.
    pub fn clones(&mut self) {
        self.strays();
        for branch in self.lfs.stored_branches() {
            if self.is_stopped() {
                return;
            }
            let examined = match self.lost_points.contains(&branch.origin) {
                true => Err(FsError::Corrupt {
                    what: format!("the state that clone '{}' was made from", branch.name),
                    at: format!("checkpoint {}", branch.origin),
                    expected: "to be readable".to_owned(),
                    found: "damage".to_owned(),
                }),
                false => self.clone(&branch),
            };
            if let Err(reason) = examined {
                let Branch { name, number, .. } = branch;
                self.report(None, Problem::Clone { name, branch: number, reason });
            }
        }
    }

    /// Reports entries that belong to no existing clone.
    fn strays(&mut self) {
        let mut unknown: BTreeMap<u8, u64> = BTreeMap::new();
        for (number, entry) in &self.imap {
            if entry.is_used() && !self.lfs.has_branch(InodeNo(*number)) {
                *unknown.entry(branch_of(InodeNo(*number))).or_default() += 1;
            }
        }
        for (branch, inodes) in unknown {
            let reason = FsError::Corrupt {
                what: "inode map".to_owned(),
                at: format!("inodes {} and up", in_branch(branch, InodeNo(0))),
                expected: "none: there is no such clone".to_owned(),
                found: format!("{inodes} inodes"),
            };
            self.report(None, Problem::Clone { name: String::new(), branch, reason });
        }
    }

    fn clone(&mut self, branch: &Branch) -> Result<(), FsError> {
        let root = in_branch(branch.number, InodeNo::ROOT);
        let mut inodes = match branch.is_dropped {
            // A part of it is gone, so its names may lead nowhere.
            true => BTreeMap::new(),
            false => self.inodes_of_state(root, branch.origin)?,
        };
        let is_own = |(number, _): &&(u64, ImapEntry)| branch_of(InodeNo(*number)) == branch.number;
        for (number, entry) in self.imap.iter().filter(is_own) {
            inodes.insert(*number, *entry);
        }
        let top = format!("/.firn/clones/{}", branch.name);
        self.examine_tree(root, top, inodes, !branch.is_dropped);
        Ok(())
    }

    /// Phases 1 to 4 for a tree beside the volume's own.
    pub fn examine_tree(
        &mut self,
        root: InodeNo,
        top: String,
        inodes: BTreeMap<u64, ImapEntry>,
        has_names: bool,
    ) {
        let order = inodes.into_iter().filter(|(_, entry)| entry.is_used()).collect();
        let names = Namespace { root, ..Namespace::new(&self.lfs.facts()) };
        let of_volume = std::mem::replace(&mut self.names, names);
        let top_of_volume = std::mem::replace(&mut self.top, top.into_bytes());
        self.examine_inodes(order);
        if !self.is_stopped() && has_names {
            self.phases_of_names();
            self.name_findings();
        }
        // Attributes of a clone that is being deleted are not read.
        self.with_attributes.clear();
        self.top = top_of_volume;
        let of_tree = std::mem::replace(&mut self.names, of_volume);
        self.names.more_findings += of_tree.more_findings;
        of_tree.findings.into_iter().for_each(|finding| self.names.keep(finding));
    }

    /// The inodes of a state, with their numbers in the tree below `root`.
    pub fn inodes_of_state(
        &mut self,
        root: InodeNo,
        epoch: Epoch,
    ) -> Result<BTreeMap<u64, ImapEntry>, FsError> {
        let point = self.lfs.known_points().iter().find(|point| point.epoch == epoch);
        let state = point.map(StateRoot::from).ok_or(FsError::NotFound)?;
        let mut inodes = BTreeMap::new();
        let mut from = Some(InodeNo::ROOT);
        // Each call reads at least one leaf, and no map has more leaves than the volume has sectors. The bound ends a map that
        // leads into itself.
        let sectors = self.geo.segments * u64::from(self.geo.segment_sectors);
        let mut calls_left = sectors + 2;
        while let Some(start) = from {
            calls_left = calls_left.checked_sub(1).ok_or_else(|| FsError::Corrupt {
                what: "inode map of the state".to_owned(),
                at: format!("inodes {start} and up"),
                expected: format!("at most {sectors} blocks"),
                found: "more".to_owned(),
            })?;
            let mut found = Vec::new();
            from = self.lfs.drive(self.sweep.read, |lfs| {
                found.clear();
                lfs.differing_inodes(None, Some(epoch), start, &mut found)
            })?;
            let entries = self
                .lfs
                .drive_all(self.sweep.read, &found, |lfs, differing| lfs.past_entry(&state, differing.ino));
            for (differing, entry) in found.iter().zip(entries) {
                inodes.insert(within(root, differing.ino).0, entry?);
            }
        }
        Ok(inodes)
    }
}
