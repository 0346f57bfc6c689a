//! Content ahead of its batch: before a commit, most of the content of large files is laid out, some at a time.
//!
//! No operation runs while a batch is laid out, so a long batch makes a writer wait. File content need not be in the batch:
//! nobody finds it before the batch has written the inode that leads to it, and after a crash each block may have any version
//! since the last sync. So it goes out in chunks beforehand, each a step of its own, and operations go on in between. Blocks
//! that turn dirty again meanwhile are written again, with the batch, and so is the content of smaller files, whose best
//! place is beside their inodes.
//!
//! Invariants:
//! - a chunk leaves the volume as any commit leaves it: its blocks are clean and have addresses, and their parents are dirty;
//! - its partial segments do not end a batch: recovery treats their entries as part of the batch that follows;
//! - it ends, however fast users write: it takes no more blocks than were dirty when it began.
//!
//! Caller: `prepare`.

use super::commit::{Batch, Cause, Gathered};
use crate::error::Outcome;
use crate::inode::Kind;
use crate::lfs::Lfs;
use crate::lfs::map::inode::{BlockPlace, CoreInode};
use crate::store::Fork;
use firnfs_format::{InodeNo, TimeNs};
use std::collections::VecDeque;

/// Files with fewer dirty blocks than this part of a step are left to the batch.
const FILE_PART_MIN: usize = 8;
/// The same in blocks, however short the steps are.
const FILE_BLOCKS_MIN: usize = 8;

/// What is still to be laid out before the commit.
pub(in crate::lfs) struct Ahead {
    inos: VecDeque<InodeNo>,
    blocks: usize,
    /// Some is laid out.
    pub has_begun: bool,
}

/// Dirty content of a file, in its order.
fn content(core: &CoreInode) -> impl Iterator<Item = BlockPlace> {
    let is_file = core.inode.kind != Kind::Directory && !core.freed;
    let content = core.dirty_blocks.iter().take_while(|place| place.level == 0 && place.fork == Fork::Data);
    content.filter(move |_| is_file)
}

impl Lfs {
    /// Lays out the next chunk, of `most` blocks at most. Returns how many it has; 0 if there is no more: the commit comes now.
    ///
    /// # Errors
    /// `Need`; `Room` if clean segments are short; `ReadOnly`.
    pub(super) fn write_ahead(&mut self, now: TimeNs, most: usize) -> Outcome<usize> {
        self.standing.refuse()?;
        let mut ahead = self.writer.ahead.take().unwrap_or_else(|| self.plan_ahead());
        let chunk = self.next_chunk(&mut ahead, most);
        self.writer.ahead = (ahead.has_begun || chunk.is_some()).then_some(ahead);
        let Some((ino, places)) = chunk else { return Ok(0) };
        let parts = self.gather_content(now, ino, &places).apart(self.writer.log.meta_log());
        self.lay_out_content(now, ino, &places, parts, Cause::Due)?;
        if let Some(ahead) = &mut self.writer.ahead {
            ahead.blocks -= places.len();
            ahead.has_begun = true;
        }
        Ok(places.len())
    }

    /// The same before an fsync of one file, as long as it has more than fits a step. Its blocks stay together, as those of any
    /// fsync.
    ///
    /// # Errors
    /// As [`Self::write_ahead`].
    pub(super) fn write_ahead_of(&mut self, now: TimeNs, ino: InodeNo, most: usize) -> Outcome<usize> {
        let step = self.options.commit_step_items;
        if most < 2 * step || self.files.peek(ino).is_none_or(|core| !self.is_long(core)) {
            return Ok(0);
        }
        self.lay_out_some_content(now, ino, false, Cause::Wanted)?;
        Ok(step)
    }

    /// More content than two steps lay out.
    pub(super) fn is_long(&self, core: &CoreInode) -> bool {
        content(core).nth(2 * self.options.commit_step_items - 1).is_some()
    }

    /// A step of the content of one file.
    ///
    /// # Errors
    /// As [`Self::write_ahead`].
    pub(super) fn lay_out_some_content(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        is_apart: bool,
        cause: Cause,
    ) -> Outcome<()> {
        let places: Vec<BlockPlace> = content(self.core(ino)).take(self.options.commit_step_items).collect();
        let gathered = self.gather_content(now, ino, &places);
        let parts = if is_apart { gathered.apart(self.writer.log.meta_log()) } else { gathered.together() };
        self.lay_out_content(now, ino, &places, parts, cause)
    }

    fn gather_content(&self, now: TimeNs, ino: InodeNo, places: &[BlockPlace]) -> Gathered {
        self.shelf.cache.prefetch_dirty(places.iter().map(|place| place.key(ino)));
        let mut gathered = Gathered::default();
        let mut last = None;
        let size_bytes = self.core(ino).inode.size_bytes;
        for &place in places {
            let key = place.key(ino);
            let log = self.block_log(now, &key, &mut last);
            gathered.push_content(ino, place, self.stored_sectors(&key, true, size_bytes), log);
        }
        gathered
    }

    /// Writes the content of a file without ending a batch; its blocks are clean then.
    fn lay_out_content(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        places: &[BlockPlace],
        parts: Vec<(u8, Batch)>,
        cause: Cause,
    ) -> Outcome<()> {
        self.write_parts(now, parts, cause.flags(), 0)?;
        let core = self.core_mut(ino);
        for place in places {
            core.dirty_blocks.remove(place);
        }
        self.settle_record(ino);
        Ok(())
    }

    fn file_blocks_min(&self) -> usize {
        (self.options.commit_step_items / FILE_PART_MIN).max(FILE_BLOCKS_MIN)
    }

    fn plan_ahead(&self) -> Ahead {
        let least = self.file_blocks_min();
        let mut ahead = Ahead { inos: VecDeque::new(), blocks: 0, has_begun: false };
        for (ino, core) in self.files.dirty().filter(|(_, core)| core.dirty_blocks.len() >= least) {
            ahead.inos.push_back(ino);
            ahead.blocks += content(core).count();
        }
        ahead
    }

    /// The next blocks, all of one file.
    fn next_chunk(&self, ahead: &mut Ahead, most: usize) -> Option<(InodeNo, Vec<BlockPlace>)> {
        let most = most.min(ahead.blocks).min(self.options.commit_step_items);
        while let Some(&ino) = ahead.inos.front() {
            if let Some(core) = self.files.peek(ino) {
                let places: Vec<BlockPlace> = content(core).take(most).collect();
                if places.len() >= self.file_blocks_min() {
                    return Some((ino, places));
                }
            }
            ahead.inos.pop_front();
        }
        None
    }
}
