//! Inodes in memory, and which of them are dirty. Invariant: `dirty` has exactly the inodes whose `is_dirty` is set.

use super::inode::CoreInode;
use crate::cache::ClockMap;
use firnfs_format::InodeNo;
use std::collections::BTreeSet;

/// Inodes that stay in memory even if it is short.
const KEPT_INODES: usize = 64;

/// See the module's head.
#[derive(Default)]
pub struct Files {
    inodes: ClockMap<InodeNo, Box<CoreInode>>,
    dirty: BTreeSet<InodeNo>,
}

impl Files {
    /// The inode, if it is in memory; warms it.
    pub fn get(&mut self, ino: InodeNo) -> Option<&mut CoreInode> {
        self.inodes.get(&ino).map(|core| &mut **core)
    }

    /// The inode, if it is in memory; does not warm it.
    pub fn peek(&self, ino: InodeNo) -> Option<&CoreInode> {
        self.inodes.peek(&ino).map(|core| &**core)
    }

    /// An inode that is certain to be in memory.
    pub fn core(&self, ino: InodeNo) -> &CoreInode {
        self.peek(ino).expect("the inode was looked at in this operation")
    }

    /// An inode that is certain to be in memory, to change.
    pub fn core_mut(&mut self, ino: InodeNo) -> &mut CoreInode {
        self.get(ino).expect("the inode was looked at in this operation")
    }

    /// Puts an inode in.
    pub fn insert(&mut self, ino: InodeNo, core: CoreInode) {
        self.inodes.insert(ino, Box::new(core), 1);
    }

    /// Takes an inode out.
    pub fn remove(&mut self, ino: InodeNo) {
        self.inodes.remove(&ino);
        self.dirty.remove(&ino);
    }

    /// Turns an inode dirty.
    pub fn mark(&mut self, ino: InodeNo) {
        let core = self.core_mut(ino);
        (core.is_dirty, core.is_closed) = (true, false);
        self.dirty.insert(ino);
    }

    /// Marks an inode clean: all its writes are queued.
    pub fn clean(&mut self, ino: InodeNo) {
        self.core_mut(ino).is_dirty = false;
        self.dirty.remove(&ino);
    }

    /// Dirty inodes, by number.
    pub fn dirty(&self) -> Vec<InodeNo> {
        self.dirty.iter().copied().collect()
    }

    /// True if any is dirty.
    pub fn are_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Drops idle inodes that were not used for long until they take at most `limit_bytes`.
    pub fn shrink(&mut self, limit_bytes: u64) {
        let each = size_of::<CoreInode>() as u64 + 128;
        let keep = ((limit_bytes / each) as usize).max(KEPT_INODES);
        while self.inodes.len() > keep + self.dirty.len() {
            if self.inodes.evict(|_, core| core.is_idle()).is_none() {
                return;
            }
        }
    }
}
