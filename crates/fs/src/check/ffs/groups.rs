//! Phase 5: the bitmaps and counts of every group, from the claims of phase 1.

use super::FfsProblem;
use super::ahead::AHEAD_BYTES;
use super::walk::Walk;
use crate::device_reader::Extent;
use crate::error::FsError;
use crate::ffs::alloc::{Group, bits};
use firnfs_format::InodeNo;
use firnfs_format::ffs::{Descriptor, Summary};

impl Walk<'_> {
    /// Compares all groups.
    pub fn all_groups(&mut self) -> Result<(), FsError> {
        let layout = self.geo.layout;
        let at_bytes = self.geo.device_bytes(layout.summaries_at());
        let len_bytes = layout.summaries_bytes().next_multiple_of(self.geo.block_bytes());
        let len_bytes = u32::try_from(len_bytes).map_err(|_| FsError::Invalid("more groups than can be"))?;
        let mut summaries = self.bytes(at_bytes, len_bytes)?;
        let before = summaries.clone();
        for number in 0..layout.groups {
            self.descriptors_ahead(number);
            let right = self.group(number)?;
            let slot = &mut summaries[number as usize * 16..][..16];
            if slot != right.encode() {
                slot.copy_from_slice(&right.encode());
                self.report(None, FfsProblem::Summary { group: number });
            }
        }
        if summaries != before {
            self.mend.writes.insert(at_bytes, summaries);
        }
        Ok(())
    }

    /// Reads the descriptors of the next groups together.
    fn descriptors_ahead(&mut self, number: u32) {
        let per_read = (AHEAD_BYTES / self.geo.block_bytes()) as u32;
        if number.is_multiple_of(per_read) {
            let groups = number..self.geo.layout.groups.min(number + per_read);
            let geo = self.geo;
            let extent =
                |group| Extent::new(geo.device_bytes(geo.descriptor_addr(group)), geo.layout.block_bytes);
            self.ahead.fill(self.read, groups.map(extent));
        }
    }

    /// The right content of a group.
    fn right_group(&self, number: u32) -> Group {
        let layout = &self.geo.layout;
        let mut right = Group::empty(layout, number);
        let first_ino = number * layout.group_inodes;
        for ino in 0..layout.group_inodes {
            let is_reserved = u64::from(first_ino + ino) < InodeNo::FIRST_USER.0;
            if is_reserved || bits::get(&self.used, first_ino + ino) {
                right.take_inode(Some(ino), false);
            }
        }
        let first = number * layout.group_frags;
        for frag in layout.data_at(number)..layout.frags_in(number) {
            if bits::get(&self.claims, first + frag) {
                right.take_exactly(frag, 1);
            }
        }
        right.recount(self.dirs[number as usize]);
        right
    }

    /// Compares one group; returns its right counts.
    fn group(&mut self, number: u32) -> Result<Summary, FsError> {
        let layout = self.geo.layout;
        let right = self.right_group(number);
        let at_bytes = self.geo.device_bytes(self.geo.descriptor_addr(number));
        let block = self.bytes(at_bytes, layout.block_bytes)?;
        let stored = match Descriptor::decode(&layout, number, &block) {
            Ok(stored) => Some(stored),
            Err(why) => {
                self.report(None, FfsProblem::Descriptor { group: number, reason: why.to_string() });
                None
            }
        };
        if let Some(stored) = &stored
            && !self.compare(number, stored, &right)
        {
            return Ok(right.summary());
        }
        let mut mended = right.descriptor().clone();
        if let Some(stored) = stored {
            (mended.block_rotor, mended.frag_rotor) = (stored.block_rotor, stored.frag_rotor);
            mended.inode_rotor = stored.inode_rotor;
        }
        self.mend.writes.insert(at_bytes, mended.encode(&layout, 0));
        Ok(right.summary())
    }

    /// Reports the differences; true if there are any.
    fn compare(&mut self, group: u32, stored: &Descriptor, right: &Group) -> bool {
        let right = right.descriptor();
        let differ = |a: &[u8], b: &[u8]| a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
        let only = |a: &[u8], b: &[u8]| a.iter().zip(b).map(|(a, b)| (a & !b).count_ones()).sum::<u32>();
        let wrong = differ(&stored.used_inodes, &right.used_inodes);
        if wrong > 0 {
            self.report(None, FfsProblem::UsedInodes { group, wrong });
        }
        let in_use = only(&stored.free_frags, &right.free_frags);
        let lost = only(&right.free_frags, &stored.free_frags);
        if in_use + lost > 0 {
            self.report(None, FfsProblem::FreeFrags { group, in_use, lost });
        }
        let counts_differ = stored.free_blocks != right.free_blocks
            || stored.summary != right.summary
            || stored.runs != right.runs;
        if counts_differ {
            self.report(None, FfsProblem::Counts { group });
        }
        wrong + in_use + lost > 0 || counts_differ
    }
}
