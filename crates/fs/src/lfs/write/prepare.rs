//! What comes before a commit, some at a time, so that nobody waits for all of it: the rest of an older batch, most of the content
//! of large files (`ahead`), and a batch of many inodes (`frozen`). What is left is short.
//!
//! It ends, however fast users write: it takes no more content than was dirty when it began, and begins one batch.
//!
//! Callers: the driver, before it has a scope committed ([`Store::prepare_commit`](crate::store::Store::prepare_commit)); `step`,
//! for commits that are due and before checkpoints and passes of the cleaner.

use crate::error::Outcome;
use crate::lfs::Lfs;
use crate::lfs::write::commit::Cause;
use crate::store::{Preparation, Prepared, Scope, Ticket};
use firnfs_format::TimeNs;

/// A commit by size goes on to its batch if more than this part of the write threshold is left after the content of large
/// files, beside indirect blocks that may stay in memory.
const BATCH_PART: u64 = 4;

impl Lfs {
    /// A step of a commit by size that may leave indirect blocks in memory: lays out content of large files, or ends the commit if
    /// little else is left. False if the commit goes on to its batch.
    ///
    /// # Errors
    /// As [`Self::commit_scope`].
    pub(in crate::lfs) fn content_step(&mut self, now: TimeNs) -> Outcome<bool> {
        if self.has_frozen() || self.options.held_indirect_bytes == 0 {
            return Ok(false);
        }
        let dirty_blocks = self.shelf.cache.dirty_bytes() / u64::from(self.geo.block_bytes);
        if self.write_ahead(now, dirty_blocks as usize)? > 0 {
            return Ok(true);
        }
        let has_begun = self.writer.ahead.as_ref().is_some_and(|ahead| ahead.has_begun);
        let is_over = has_begun
            && self.room_now().committable_bytes() < self.options.write_threshold_bytes / BATCH_PART;
        if is_over {
            self.writer.ahead = None;
        }
        Ok(is_over)
    }

    /// Does the next part.
    ///
    /// # Errors
    /// As [`Self::commit_scope`].
    pub(in crate::lfs) fn prepare(
        &mut self,
        now: TimeNs,
        scope: Scope,
        cause: Cause,
        preparation: &mut Preparation,
    ) -> Outcome<Prepared> {
        self.standing.refuse()?;
        let start = *preparation.start.get_or_insert(self.files.next_order());
        if let Some((before, holds)) =
            self.frozen().filter(|(before, _)| preparation.batch.unwrap_or(*before) == *before)
        {
            self.lay_out_frozen_step(now)?;
            // A batch that began later serves as well, whoever began it.
            if before >= start && holds.is_some_and(|holds| holds == Scope::All || holds == scope) {
                preparation.batch = Some(before);
            }
            return Ok(Prepared::Part);
        }
        if preparation.batch.is_some() {
            // A point holds also what was changed meanwhile.
            let is_point = scope == Scope::All && cause == Cause::Wanted && self.keeps_commits();
            let ticket = Ticket(self.writer.log.end().serial.0);
            return Ok(if is_point { Prepared::Rest } else { Prepared::Whole(ticket) });
        }
        let dirty_blocks = self.shelf.cache.dirty_bytes() / u64::from(self.geo.block_bytes);
        let left = *preparation.content_blocks.get_or_insert(dirty_blocks as usize);
        let taken = match scope {
            Scope::All => self.write_ahead(now, left)?,
            Scope::File(ino) => self.write_ahead_of(now, ino, left)?,
        };
        if taken > 0 {
            preparation.content_blocks = Some(left - taken);
            return Ok(Prepared::Part);
        }
        if !self.freeze(now, scope, cause)? {
            return Ok(Prepared::Rest);
        }
        // One step may have been all of it.
        preparation.batch = Some(self.frozen().map_or(start, |(before, _)| before));
        Ok(Prepared::Part)
    }
}
