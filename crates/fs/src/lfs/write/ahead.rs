//! Content ahead of its batch: before a commit that is due, most of the content of large files is laid out, some at a time.
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
//! Caller: `step`, when a commit is due.

use super::commit::Gathered;
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
    content.filter(move |_| is_file).copied()
}

impl Lfs {
    /// Lays out the next chunk. False if there is no more: the commit comes now.
    ///
    /// # Errors
    /// `Need`; `Room` if clean segments are short; `ReadOnly`.
    pub(in crate::lfs) fn write_ahead(&mut self, now: TimeNs) -> Outcome<bool> {
        self.standing.refuse()?;
        let mut ahead = self.writer.ahead.take().unwrap_or_else(|| self.plan_ahead());
        let chunk = self.next_chunk(&mut ahead);
        self.writer.ahead = (ahead.has_begun || chunk.is_some()).then_some(ahead);
        let Some((ino, places)) = chunk else { return Ok(false) };
        let mut gathered = Gathered::default();
        let mut last = None;
        let size_bytes = self.core(ino).inode.size_bytes;
        for &place in &places {
            let key = place.key(ino);
            let log = self.block_log(now, &key, &mut last);
            gathered.push_content(ino, place, self.stored_sectors(&key, true, size_bytes), log);
        }
        self.write_parts(now, gathered.apart(self.writer.log.meta_log()), 0, 0)?;
        let core = self.core_mut(ino);
        for place in &places {
            core.dirty_blocks.remove(place);
        }
        self.settle_record(ino);
        if let Some(ahead) = &mut self.writer.ahead {
            ahead.blocks -= places.len();
            ahead.has_begun = true;
        }
        Ok(true)
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
    fn next_chunk(&self, ahead: &mut Ahead) -> Option<(InodeNo, Vec<BlockPlace>)> {
        let most = ahead.blocks.min(self.options.commit_step_items);
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
