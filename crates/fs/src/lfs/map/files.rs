//! Files in memory: inodes, which of them are dirty and in which order, which were freed, and which have blocks still to be
//! freed.
//!
//! Invariants:
//! - `inode_bytes` is the memory counted for all inodes here, `dirty_record_bytes` the charge for the records of the dirty
//!   ones;
//! - a dirty inode is in the order exactly once, a clean one not at all;
//! - an inode with blocks that are still to be dropped is in the queue of the background, and stays in memory until they are
//!   dropped.
//!
//! Their blocks are in the [`Shelf`](super::shelf::Shelf).

use super::blockmap::Turn;
use super::inode::{CoreInode, DirtyInode};
use crate::cache::ClockMap;
use firnfs_format::InodeNo;
use std::collections::{BTreeMap, VecDeque};

/// Clean inodes that stay in memory no matter how many others are dirty: more than one operation needs.
pub(in crate::lfs) const KEPT_INODES: usize = 64;

/// A change of the charge for a dirty inode's record, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lfs) struct Recharge {
    pub was_bytes: u32,
    pub now_bytes: u32,
}

/// See the module's head.
#[derive(Default)]
pub(in crate::lfs) struct Files {
    inodes: ClockMap<InodeNo, Box<CoreInode>>,
    inode_bytes: u64,
    /// Dirty inodes in the order in which they turned dirty.
    dirty_order: BTreeMap<u64, InodeNo>,
    next_order: u64,
    dirty_record_bytes: u64,
    /// Freed since the last commit, with their versions: the log has to say so.
    freed: BTreeMap<InodeNo, u32>,
    /// The same for the batch that is being laid out.
    freed_frozen: BTreeMap<InodeNo, u32>,
    /// Inodes with blocks to be dropped in the background.
    reap: VecDeque<InodeNo>,
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

    /// True for an inode in memory.
    pub fn has(&self, ino: InodeNo) -> bool {
        self.inodes.peek(&ino).is_some()
    }

    /// Adds an inode; if it has blocks still to be dropped, it also joins the queue of the background.
    pub fn insert(&mut self, ino: InodeNo, mut core: CoreInode) {
        if core.reap_from.is_some() {
            self.reap.push_back(ino);
        }
        core.counted_bytes = core.memory_bytes();
        self.inode_bytes += core.counted_bytes;
        if let Some(old) = self.inodes.insert(ino, Box::new(core), 1) {
            self.inode_bytes -= old.counted_bytes;
        }
    }

    /// Removes an inode from memory; unwritten changes in it are lost.
    pub fn remove(&mut self, ino: InodeNo) -> Option<Box<CoreInode>> {
        if self.has(ino) {
            self.clean(ino);
        }
        let core = self.inodes.remove(&ino)?;
        self.inode_bytes -= core.counted_bytes;
        Some(core)
    }

    /// Forgets everything. Nothing may be dirty.
    pub fn clear(&mut self) {
        debug_assert!(!self.are_dirty(), "what is dirty is not forgotten");
        *self = Self { next_order: self.next_order, ..Self::default() };
    }

    /// Turns an inode in memory dirty; `names`: every commit has to write it. True if it was clean.
    pub fn mark(&mut self, ino: InodeNo, names: bool, turn: Turn) -> bool {
        let core = self.inodes.get(&ino).expect("the inode was looked at in this operation");
        core.only_moves = turn == Turn::Moves && (core.only_moves || core.dirty.is_none());
        if let Some(dirty) = &mut core.dirty {
            dirty.names |= names;
            return false;
        }
        core.dirty = Some(DirtyInode { order: self.next_order, names });
        self.dirty_record_bytes += u64::from(core.record_charge_bytes);
        self.dirty_order.insert(self.next_order, ino);
        self.next_order += 1;
        true
    }

    /// Makes a dirty inode the last in the order.
    pub fn postpone(&mut self, ino: InodeNo) {
        let Some(dirty) = self.inodes.get(&ino).and_then(|core| core.dirty.as_mut()) else { return };
        self.dirty_order.remove(&dirty.order);
        dirty.order = self.next_order;
        self.dirty_order.insert(self.next_order, ino);
        self.next_order += 1;
    }

    /// Notes that the record of an inode in memory is laid out: the inode is clean.
    pub fn clean(&mut self, ino: InodeNo) {
        let core = self.inodes.get(&ino).expect("the inode is in memory");
        if let Some(dirty) = core.dirty.take() {
            self.dirty_order.remove(&dirty.order);
            self.dirty_record_bytes -= u64::from(core.record_charge_bytes);
        }
    }

    /// Updates the memory counted for an inode, and, if it is dirty, the charge for its record; returns the change of the
    /// charge.
    pub fn settle(&mut self, ino: InodeNo) -> Option<Recharge> {
        let core = self.inodes.get(&ino)?;
        let memory_bytes = core.memory_bytes();
        self.inode_bytes = self.inode_bytes + memory_bytes - core.counted_bytes;
        core.counted_bytes = memory_bytes;
        core.dirty?;
        let now_bytes = core.record_bytes();
        let was_bytes = std::mem::replace(&mut core.record_charge_bytes, now_bytes);
        self.dirty_record_bytes = self.dirty_record_bytes + u64::from(now_bytes) - u64::from(was_bytes);
        Some(Recharge { was_bytes, now_bytes })
    }

    /// Dirty inodes in the order in which they turned dirty.
    pub fn dirty(&self) -> impl Iterator<Item = (InodeNo, &CoreInode)> {
        let core = |ino: &InodeNo| self.peek(*ino).expect("dirty inodes are in memory");
        self.dirty_order.values().map(move |ino| (*ino, core(ino)))
    }

    /// Those that turned dirty before that place in the order.
    pub fn dirty_before(&self, order: u64) -> impl Iterator<Item = (InodeNo, &CoreInode)> {
        let core = |ino: &InodeNo| self.peek(*ino).expect("dirty inodes are in memory");
        self.dirty_order.range(..order).map(move |(_, ino)| (*ino, core(ino)))
    }

    /// True for an inode that has been dirty since before that place in the order.
    pub fn is_dirty_before(&self, ino: InodeNo, order: u64) -> bool {
        self.peek(ino).and_then(|core| core.dirty).is_some_and(|dirty| dirty.order < order)
    }

    /// The place in the order of the next inode that turns dirty.
    pub fn next_order(&self) -> u64 {
        self.next_order
    }

    /// How many inodes are dirty.
    pub fn dirty_len(&self) -> usize {
        self.dirty_order.len()
    }

    /// The charge for the records of dirty inodes, in bytes.
    pub fn dirty_record_bytes(&self) -> u64 {
        self.dirty_record_bytes
    }

    /// True if an inode is dirty or was freed since the last commit.
    pub fn are_dirty(&self) -> bool {
        !self.dirty_order.is_empty() || self.freed_len() > 0
    }

    /// Notes that the log has to say that an inode was freed.
    pub fn note_freed(&mut self, ino: InodeNo, version: u32) {
        self.freed.insert(ino, version);
    }

    /// The opposite of [`Self::note_freed`]: the log says so now, or the number is in use again.
    pub fn forget_freed(&mut self, ino: InodeNo) {
        if self.freed_frozen.remove(&ino).is_none() {
            self.freed.remove(&ino);
        }
    }

    /// True for an inode that was freed while the log does not say so yet.
    pub fn is_freed(&self, ino: InodeNo) -> bool {
        self.freed.contains_key(&ino) || self.freed_frozen.contains_key(&ino)
    }

    /// How many freed inodes the log does not name yet.
    pub fn freed_len(&self) -> usize {
        self.freed.len() + self.freed_frozen.len()
    }

    /// Assigns the inodes freed up to now to the batch that begins.
    pub fn freeze_freed(&mut self) {
        self.freed_frozen.append(&mut self.freed);
    }

    /// Inodes freed before the batch that is being laid out began, by number, with their versions.
    pub fn freed_frozen(&self) -> impl Iterator<Item = (InodeNo, u32)> {
        self.freed_frozen.iter().map(|(&ino, &version)| (ino, version))
    }

    /// Puts an inode with blocks to be dropped into the queue.
    pub fn reap_later(&mut self, ino: InodeNo) {
        self.reap.push_back(ino);
    }

    /// The inode whose blocks are to be dropped next.
    pub fn reap_next(&self) -> Option<InodeNo> {
        self.reap.front().copied()
    }

    /// Removes the first inode of the queue: it is done, or is given up.
    pub fn reaped(&mut self) {
        self.reap.pop_front();
    }

    /// How many inodes are in the queue.
    pub fn reap_len(&self) -> usize {
        self.reap.len()
    }

    /// Memory of all inodes, in bytes.
    pub fn inode_bytes(&self) -> u64 {
        self.inode_bytes
    }

    /// Drops clean inodes that were not used for long until the rest take no more than `limit_bytes`. Those just fetched stay:
    /// otherwise the operation that waits for them would never end.
    pub fn shrink(&mut self, limit_bytes: u64) {
        let staying = self.dirty_order.len() + self.reap.len() + KEPT_INODES;
        while self.inode_bytes > limit_bytes && self.inodes.len() > staying {
            let gone = self.inodes.evict(|_, c| c.dirty.is_none() && c.reap_from.is_none() && !c.freed);
            let Some((_, core)) = gone else { break };
            self.inode_bytes -= core.counted_bytes;
        }
    }
}
