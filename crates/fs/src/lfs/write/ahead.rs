//! Content ahead of its batch: before a commit, most of the content of large files is laid out, some at a time.
//!
//! No operation runs while a batch is laid out, so a long batch makes a writer wait. File content need not be in the batch:
//! nobody finds it before the batch has written the inode that leads to it, and after a crash each block may have any version
//! since the last sync. So it goes out in chunks beforehand, each a step of its own, and operations go on in between. Blocks
//! that turn dirty again meanwhile are written again, with the batch, and so is the content of smaller files, whose best
//! place is beside their inodes.
//!
//! Content of which a file has a *chunk* - `chunk_blocks`, or twice as many if they are scattered over the file - does not wait for
//! a commit (decision 0128): what was written a moment ago is still in the processor's caches. Chunks of a file follow one another
//! through the file and begin again at its start, so that scattered blocks wait until there are twice as many beside them:
//! replacement selection, which makes runs of twice the memory (Knuth, The Art of Computer Programming, volume 3, 5.4.1).
//!
//! Invariants:
//! - a chunk leaves the volume as any commit leaves it: its blocks are clean and have addresses, and their parents are dirty;
//! - its partial segments do not end a batch: recovery treats their entries as part of the batch that follows;
//! - it ends, however fast users write: it takes no more blocks than were dirty when it began.
//!
//! Callers: `prepare`; for chunks `make_dirty` and `step`.

use super::commit::{Batch, Cause, Gathered};
use crate::error::{Outcome, Stop};
use crate::inode::Kind;
use crate::lfs::Lfs;
use crate::lfs::map::inode::{BlockPlace, CoreInode};
use crate::store::Fork;
use firnfs_format::{BlockIndex, BlockPtr, InodeNo, TimeNs};
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
    content_from(core, BlockIndex(0))
}

/// The same from a block on.
fn content_from(core: &CoreInode, index: BlockIndex) -> impl Iterator<Item = BlockPlace> {
    let is_file = core.inode.kind != Kind::Directory && !core.freed;
    let places = core.dirty_blocks.iter_from(BlockPlace { level: 0, fork: Fork::Data, index });
    places.take_while(move |place| is_file && place.level == 0 && place.fork == Fork::Data)
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

    /// A block of a file turned dirty, in place of `old`. If the file has a chunk now, it need not wait for a commit; but what was
    /// written a moment ago may be written again, and waits.
    pub(in crate::lfs) fn note_chunk(&mut self, ino: InodeNo, old: &BlockPtr) {
        let is_new = !old.is_stored() || old.birth != self.tables.slots.epoch();
        let core = self.core(ino);
        let has_chunk = core.dirty_blocks.has_chunk(self.options.chunk_blocks);
        if is_new && has_chunk && core.inode.kind != Kind::Directory {
            self.writer.chunk_of = Some(ino);
        }
    }

    /// Lays out a chunk, although no commit is due. False if there is none, or no room for it: the next commit takes it.
    ///
    /// # Errors
    /// As [`Self::write_ahead`], but for `Room`.
    pub(in crate::lfs) fn write_chunk(&mut self, now: TimeNs) -> Outcome<bool> {
        let Some((ino, places)) = self.writer.chunk_of.and_then(|ino| Some((ino, self.chunk(ino)?))) else {
            self.writer.chunk_of = None;
            return Ok(false);
        };
        let parts = self.gather_content(now, ino, &places).apart(self.writer.log.meta_log());
        match self.lay_out_content(now, ino, &places, parts, Cause::Due) {
            Err(Stop::Room) => {
                self.writer.chunk_of = None;
                Ok(false)
            }
            other => other.map(|()| true),
        }
    }

    /// The next chunk of a file that has one.
    fn chunk(&self, ino: InodeNo) -> Option<Vec<BlockPlace>> {
        let len = self.options.chunk_blocks;
        let core = self.files.peek(ino).filter(|core| core.dirty_blocks.has_chunk(len))?;
        let rest: Vec<BlockPlace> = content_from(core, core.laid_out_to).take(len).collect();
        let is_short = rest.len() < len / FILE_PART_MIN;
        let places = if is_short { content(core).take(len).collect() } else { rest };
        (!places.is_empty()).then_some(places)
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
        core.laid_out_to = places.last().map_or(BlockIndex(0), |last| BlockIndex(last.index.0 + 1));
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
