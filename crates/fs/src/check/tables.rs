//! Reads the trees of the two tables, level by level in device order, and checks the sums in their nodes.
//!
//! It returns the entries leaf by leaf; the caller adds entries newer than the trees.

use super::finding::Problem;
use super::state::Check;
use super::sweep::Course;
use crate::error::FsError;
use crate::lfs::view::TableKind;
use crate::lfs::{LogKind, admit_block, describe};
use crate::store::{BlockKey, Fork};
use firnfs_format::checkpoint::TableRoot;
use firnfs_format::table::{Node, TABLE_ENTRY_BYTES, TableEntry};
use firnfs_format::{BlockIndex, BlockPtr, InodeNo, PtrKind};

/// A block of a tree, with the sums that its parent states and the sums found below it.
struct Branch {
    index: u64,
    ptr: BlockPtr,
    stated: (u64, u64),
    /// `None` if a block below could not be read.
    found: Option<(u64, u64)>,
}

/// The result of reading a table.
pub struct Read<E> {
    /// Entries in use, by number.
    pub entries: Vec<(u64, E)>,
    /// Numbers of entries whose blocks could not be read: first and count.
    pub lost: Vec<(u64, u64)>,
}

impl Check<'_> {
    /// Reads a table as of the checkpoint.
    pub fn read_table<E: TableEntry>(&mut self, kind: TableKind) -> Read<E> {
        let root = self.lfs.table_root(kind);
        let mut read = Read { entries: Vec::new(), lost: Vec::new() };
        let mut levels: Vec<Vec<Branch>> = Vec::new();
        let mut here = root_branch(&root);
        for level in (0..=root.height).rev() {
            here.sort_unstable_by_key(|branch| branch.ptr.addr);
            let mut below = Vec::new();
            let mut course = Course::default();
            for at in 0..here.len() {
                let bytes = self.table_block(kind, level, (&here, at), &mut course);
                let branch = &mut here[at];
                match bytes {
                    Ok(bytes) if level == 0 => {
                        branch.found = Some(leaf(&bytes, branch.index, &mut read.entries))
                    }
                    Ok(bytes) => {
                        branch.found = Some((0, 0));
                        below.extend(children(&bytes, branch.index, self.fan()));
                    }
                    Err(reason) => {
                        let index = branch.index;
                        let span = self.fan().saturating_pow(level + 1);
                        read.lost.push((index.saturating_mul(span), span));
                        self.report(None, Problem::TableBlock { table: kind, level, index, reason });
                    }
                }
            }
            self.sweep.end(course);
            levels.push(std::mem::replace(&mut here, below));
        }
        read.entries.sort_unstable_by_key(|entry| entry.0);
        self.check_sums(kind, levels);
        read
    }

    /// Entries in a leaf, and children of a node.
    pub fn fan(&self) -> u64 {
        u64::from(self.geo.block_bytes) / TABLE_ENTRY_BYTES as u64
    }

    fn table_block(
        &mut self,
        kind: TableKind,
        level: u32,
        (branches, at): (&[Branch], usize),
        course: &mut Course,
    ) -> Result<Vec<u8>, FsError> {
        let (ino, log_kind) = match kind {
            TableKind::InodeMap => (InodeNo::INODE_MAP, LogKind::InodeMap),
            TableKind::SegmentUsage => (InodeNo::SEGMENT_USAGE, LogKind::UsageTable),
        };
        let index = BlockIndex(branches[at].index);
        let key = BlockKey { ino, fork: Fork::Data, level: level as u8, index };
        let what = || describe(&key);
        let ptr = branches[at].ptr;
        self.geo.check(&ptr, self.geo.block_bytes, what)?;
        self.table_claims.push(ptr);
        if !self.claims.claim(log_kind, &ptr) {
            return Err(FsError::Corrupt {
                what: what(),
                at: self.geo.place(ptr.addr),
                expected: "a place of its own".to_owned(),
                found: "another block's place".to_owned(),
            });
        }
        let list = |at: usize| branches.get(at).map(|branch| branch.ptr);
        let mut bytes = self.sweep.stored(&ptr, course, (&list, at), what)?;
        admit_block(&self.geo, &key, &ptr, &bytes)?;
        bytes.resize(self.geo.block_bytes as usize, 0);
        Ok(bytes)
    }

    /// Compares the sums of each block with those that its parent states. `levels` go from the root's down to the
    /// leaves.
    fn check_sums(&mut self, kind: TableKind, mut levels: Vec<Vec<Branch>>) {
        let fan = self.fan();
        for depth in (1..levels.len()).rev() {
            let (above, below) = levels.split_at_mut(depth);
            let parents = above.last_mut().expect("depth is at least 1");
            parents.sort_unstable_by_key(|branch| branch.index);
            for branch in &below[0] {
                let Ok(parent) = parents.binary_search_by_key(&(branch.index / fan), |p| p.index) else {
                    continue;
                };
                let found = &mut parents[parent].found;
                *found = found.zip(branch.found).map(|(sum, more)| (sum.0 + more.0, sum.1 + more.1));
            }
        }
        let height = self.lfs.table_root(kind).height;
        for (depth, branches) in levels.iter_mut().enumerate() {
            let level = height - depth as u32;
            branches.sort_unstable_by_key(|branch| branch.index);
            for branch in branches {
                self.compare_sums(kind, level, branch);
            }
        }
    }

    fn compare_sums(&mut self, kind: TableKind, level: u32, branch: &Branch) {
        let Some(found) = branch.found.filter(|found| *found != branch.stated) else { return };
        let versus = |stated, found| super::finding::Versus { stated, found };
        let (used, special) = (versus(branch.stated.0, found.0), versus(branch.stated.1, found.1));
        self.report(None, Problem::Sums { table: kind, level, index: branch.index, used, special });
    }
}

fn root_branch(root: &TableRoot) -> Vec<Branch> {
    let stated = (root.used, root.special);
    let is_empty = root.ptr.kind == PtrKind::Hole && stated == (0, 0);
    if is_empty { Vec::new() } else { vec![Branch { index: 0, ptr: root.ptr, stated, found: None }] }
}

fn children(bytes: &[u8], index: u64, fan: u64) -> Vec<Branch> {
    let nodes = bytes.as_chunks::<TABLE_ENTRY_BYTES>().0.iter().map(Node::decode);
    nodes
        .enumerate()
        .filter(|(_, node)| *node != Node::default())
        .map(|(slot, node)| Branch {
            index: index.saturating_mul(fan).saturating_add(slot as u64),
            ptr: node.ptr,
            stated: (node.used, node.special),
            found: None,
        })
        .collect()
}

/// Takes a leaf's entries; returns how many are used and special.
fn leaf<E: TableEntry>(bytes: &[u8], index: u64, entries: &mut Vec<(u64, E)>) -> (u64, u64) {
    let stored = bytes.as_chunks::<TABLE_ENTRY_BYTES>().0;
    let first = index.saturating_mul(stored.len() as u64);
    let mut sums = (0, 0);
    for (slot, bytes) in stored.iter().enumerate() {
        let entry = E::decode(bytes);
        sums.0 += u64::from(entry.is_used());
        sums.1 += u64::from(entry.is_special());
        if entry != E::default() {
            entries.push((first.saturating_add(slot as u64), entry));
        }
    }
    sums
}
