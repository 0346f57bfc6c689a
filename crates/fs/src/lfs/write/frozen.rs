//! A frozen batch: many inodes are laid out some at a time, and operations go on in between.
//!
//! A batch is the state at one moment: after a crash all of it is there or nothing. When a commit of many inodes is due, that
//! moment is the freeze. It costs nothing: dirty inodes have an order, so the batch is all inodes before a mark in that order.
//! Each step lays the next of them out. An operation declares its changes before it begins, so those inodes that are in the
//! batch are laid out first, as they were at the freeze; when the operation then changes them, they are younger than the mark.
//!
//! Invariants:
//! - an inode in the batch is as it was at the freeze until it is laid out; nothing else changes inodes: background work that
//!   would, and any other commit, comes after the batch;
//! - inodes freed after the freeze are not in the batch;
//! - the clean segments for all of it are in the pool before it begins, so that it need not stop half-way.
//!
//! Callers: `step`; `commit` and an operation that begins, while there is one.

use super::commit::{Cause, Gathered};
use crate::error::Outcome;
use crate::lfs::Lfs;
use crate::lfs::write::log::Log;
use crate::mutation::{Mutation, is_on};
use crate::store::{Intent, Scope};
use firnfs_format::summary::{FLAG_END, summary_sectors};
use firnfs_format::{InodeNo, SECTOR_BYTES, TimeNs};
use std::collections::BTreeSet;

/// See the module's head.
#[derive(Clone, Copy)]
pub(in crate::lfs) struct Frozen {
    /// Inodes that turned dirty before this one are in the batch, as long as they are dirty.
    before: u64,
    /// Content and metadata go to different logs.
    is_apart: bool,
}

impl Lfs {
    /// True while a frozen batch is laid out.
    pub(in crate::lfs) fn has_frozen(&self) -> bool {
        self.writer.frozen.is_some()
    }

    /// Freezes all that is dirty and lays out the first of it. False if there is little, or if clean segments are too short
    /// to begin: a commit at once does it.
    ///
    /// # Errors
    /// `Need`.
    pub(in crate::lfs) fn freeze(&mut self, now: TimeNs) -> Outcome<bool> {
        let blocks = self.shelf.cache.dirty_bytes() / u64::from(self.geo.block_bytes);
        let items = self.files.dirty_len() + blocks as usize + self.files.freed_len();
        let is_small = self.files.dirty_len() < 2 || items <= 2 * self.options.commit_step_items;
        if is_small || !self.has_pool(self.segments_for_frozen(items))? {
            return Ok(false);
        }
        let sectors = (self.dirty_bytes() / u64::from(SECTOR_BYTES)).max(1);
        let is_apart = self.is_worth_several(sectors, Scope::All, Cause::Due);
        self.writer.frozen = Some(Frozen { before: self.files.next_order(), is_apart });
        self.files.freeze_freed();
        self.lay_out_frozen(now, &BTreeSet::new())?;
        Ok(true)
    }

    /// Segments that a batch of that many items takes at most, however it is cut.
    fn segments_for_frozen(&self, items: usize) -> usize {
        let logs = self.writer.log.open_logs();
        let bytes = self.shelf.cache.dirty_bytes() + self.files.dirty_record_bytes();
        let cuts = (items / self.options.commit_step_items + 2) as u64 * logs;
        let padding = cuts * u64::from(self.geo.unit_sectors + summary_sectors(1));
        let sectors = bytes / u64::from(SECTOR_BYTES) + padding;
        Log::segments_needed(&self.geo, items, sectors) + 2 * logs as usize
    }

    /// The next step of a frozen batch.
    ///
    /// # Errors
    /// As [`Self::commit_scope`].
    pub(in crate::lfs) fn frozen_step(&mut self, now: TimeNs) -> Outcome<()> {
        self.standing.refuse()?;
        self.lay_out_frozen(now, &BTreeSet::new())
    }

    /// Before an operation changes something: lays out those of its inodes that are in the batch, and others up to the size
    /// of a step.
    ///
    /// # Errors
    /// As [`Self::commit_scope`].
    pub(in crate::lfs) fn lay_out_declared(&mut self, now: TimeNs, intents: &[Intent]) -> Outcome<()> {
        let Some(frozen) = self.writer.frozen.filter(|_| !is_on(Mutation::ThawedBatch)) else {
            return Ok(());
        };
        let in_batch = |ino: &InodeNo| self.files.is_dirty_before(*ino, frozen.before);
        // More than one intent may be about an inode.
        let declared: BTreeSet<InodeNo> = intents.iter().filter_map(Intent::ino).filter(in_batch).collect();
        if declared.is_empty() { Ok(()) } else { self.lay_out_frozen(now, &declared) }
    }

    /// Lays out all that is left of a frozen batch.
    ///
    /// # Errors
    /// As [`Self::commit_scope`].
    pub(in crate::lfs) fn finish_frozen(&mut self, now: TimeNs) -> Outcome<()> {
        while self.has_frozen() {
            self.lay_out_frozen(now, &BTreeSet::new())?;
        }
        Ok(())
    }

    fn lay_out_frozen(&mut self, now: TimeNs, first: &BTreeSet<InodeNo>) -> Outcome<()> {
        let Some(frozen) = self.writer.frozen else { return Ok(()) };
        let most = self.options.commit_step_items;
        let mut gathered = Gathered::default();
        for &ino in first {
            self.gather_inode(now, ino, self.core(ino), Cause::Due, &mut gathered);
        }
        for (ino, version) in self.files.freed_frozen().take(most) {
            gathered.push_freed(ino, version);
        }
        let mut is_last = self.files.freed_frozen().nth(most).is_none();
        for (ino, core) in self.files.dirty_before(frozen.before) {
            if gathered.items() >= most {
                is_last = false;
                break;
            }
            if !first.contains(&ino) {
                self.gather_inode(now, ino, core, Cause::Due, &mut gathered);
            }
        }
        let parts =
            if frozen.is_apart { gathered.apart(self.writer.log.meta_log()) } else { gathered.together() };
        self.write_parts(now, parts, 0, if is_last { FLAG_END } else { 0 })?;
        if is_last {
            self.writer.frozen = None;
            self.writer.ahead = None;
        }
        Ok(())
    }
}
