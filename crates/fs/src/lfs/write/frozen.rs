//! A frozen batch: many inodes are laid out some at a time, and operations go on in between.
//!
//! A batch is the state at one moment: after a crash all of it is there or nothing. For a commit of many inodes that
//! moment is the freeze. It costs nothing: dirty inodes have an order, so the batch is all inodes of its scope before a mark in
//! that order. Each step lays the next of them out. An operation declares its changes before it begins, so those inodes that
//! are before the mark are laid out first, as they were at the freeze; when the operation then changes them, they are younger.
//! (Those outside the scope as well: the operation may bring them into it.)
//!
//! A pass of the cleaner is such a batch, too, but its blocks are what they were wherever they are: an operation need not wait for
//! them. It takes its inodes out of the batch, and what the cleaner moved of them goes with the next one. If it takes all that are
//! left, the batch has no end in the log and its parts count with the next one, too. Nobody waits for it: users' changes from before it
//! are in a batch of their own.
//!
//! Invariants:
//! - an inode in the batch is as it was at the freeze until it is laid out; nothing else changes inodes: background work that
//!   would, and any other commit, comes after the batch;
//! - inodes freed after the freeze are not in the batch;
//! - the clean segments for all of it are in the pool before it begins, so that it need not stop half-way.
//!
//! Callers: `prepare`; `commit` and an operation that begins, while there is one.

use super::commit::{Cause, Gathered, is_in_scope};
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
    scope: Scope,
    cause: Cause,
}

impl Lfs {
    /// True while a frozen batch is laid out.
    pub(in crate::lfs) fn has_frozen(&self) -> bool {
        self.writer.frozen.is_some()
    }

    /// The batch that is laid out: its mark, and what of users' changes before the mark is in it.
    pub(super) fn frozen(&self) -> Option<(u64, Option<Scope>)> {
        self.writer.frozen.map(|frozen| (frozen.before, (!frozen.cause.is_move()).then_some(frozen.scope)))
    }

    /// Freezes what is dirty in a scope and lays out the first of it. False if there is little, or if clean segments are too
    /// short to begin: a commit at once does it.
    ///
    /// # Errors
    /// `Need`.
    pub(in crate::lfs) fn freeze(&mut self, now: TimeNs, scope: Scope, cause: Cause) -> Outcome<bool> {
        let blocks = self.shelf.cache.dirty_bytes() / u64::from(self.geo.block_bytes);
        let items = self.files.dirty_len() + blocks as usize + self.files.freed_len();
        // Sorting takes the whole batch at once.
        if cause == Cause::Cleaning && self.sorts_by_age() {
            return Ok(false);
        }
        if !self.is_worth_steps(scope) || !self.has_pool(self.segments_for_frozen(items))? {
            return Ok(false);
        }
        let sectors = (self.dirty_bytes() / u64::from(SECTOR_BYTES)).max(1);
        let is_apart = self.is_worth_several(sectors, scope, cause);
        self.writer.frozen = Some(Frozen { before: self.files.next_order(), is_apart, scope, cause });
        self.files.freeze_freed();
        self.lay_out_frozen(now, &BTreeSet::new())?;
        Ok(true)
    }

    /// True if a scope has more than two steps to lay out, in several inodes.
    fn is_worth_steps(&self, scope: Scope) -> bool {
        let few = 2 * self.options.commit_step_items;
        let (mut inodes, mut items) = (0, self.files.freed_len());
        for (_, core) in self.files.dirty().filter(|(ino, core)| is_in_scope(scope, *ino, core)) {
            inodes += 1;
            items += 1 + core.dirty_blocks.len();
            if inodes > 1 && items > few {
                return true;
            }
        }
        false
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
    pub(super) fn lay_out_frozen_step(&mut self, now: TimeNs) -> Outcome<()> {
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
        if frozen.cause.is_move() {
            declared.iter().for_each(|ino| self.files.postpone(*ino));
            return Ok(());
        }
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
        let next =
            self.files.dirty_before(frozen.before).find(|(ino, core)| is_in_scope(frozen.scope, *ino, core));
        if let Some((ino, _)) = next.filter(|(_, core)| first.is_empty() && self.is_long(core)) {
            return self.lay_out_some_content(now, ino, frozen.is_apart, frozen.cause);
        }
        let mut gathered = Gathered::default();
        for &ino in first {
            self.gather_inode(now, ino, self.core(ino), frozen.cause, &mut gathered);
        }
        for (ino, version) in self.files.freed_frozen().take(most) {
            gathered.push_freed(ino, version);
        }
        let mut is_last = self.files.freed_frozen().nth(most).is_none();
        let in_scope = self
            .files
            .dirty_before(frozen.before)
            .filter(|(ino, core)| !first.contains(ino) && is_in_scope(frozen.scope, *ino, core));
        for (ino, core) in in_scope {
            if gathered.items() >= most || self.is_long(core) {
                is_last = false;
                break;
            }
            self.gather_inode(now, ino, core, frozen.cause, &mut gathered);
        }
        // After a crash a batch without its end does not count.
        debug_assert!(
            gathered.items() > 0 || frozen.cause.is_move(),
            "each step has something to lay out, so the last one can mark the end"
        );
        let parts =
            if frozen.is_apart { gathered.apart(self.writer.log.meta_log()) } else { gathered.together() };
        self.write_parts(now, parts, frozen.cause.flags(), if is_last { FLAG_END } else { 0 })?;
        if is_last {
            self.writer.frozen = None;
            if frozen.scope == Scope::All {
                self.writer.ahead = None;
            }
        }
        Ok(())
    }
}
