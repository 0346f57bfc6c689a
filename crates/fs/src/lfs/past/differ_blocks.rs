//! Lists the blocks of a file that differ between two states. The walk descends both block trees together and skips what they
//! share, so its time is proportional to what changed.
//!
//! Caller: sending a state, through the driver.

use crate::bmap::{Geometry as Map, SLOTS};
use crate::error::{FsError, Outcome};
use crate::lfs::Lfs;
use crate::lfs::past::states::{StateRoot, root_of};
use crate::store::{BlockKey, Fork};
use firnfs_format::inode::{FORKS, Roots};
use firnfs_format::table::TableEntry;
use firnfs_format::{BlockIndex, BlockPtr, Epoch, InodeNo};
use std::ops::Range;

/// Pointers that one call compares, more or less.
const POINTERS_AT_ONCE: u32 = 4_096;

/// Blocks of a file's content that differ from an older state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockChange {
    /// A block has content now.
    Stored {
        /// Which block.
        index: BlockIndex,
        /// CRC-32C of its stored bytes, from its pointer.
        crc: u32,
        /// Stored length in bytes; up to the block's length the rest is zeros.
        stored_bytes: u32,
    },
    /// Blocks without content.
    Hole {
        /// The first one.
        first: BlockIndex,
        /// How many.
        count: u64,
    },
    /// A block without content whose space is charged (fallocate).
    Reserved {
        /// Which block.
        index: BlockIndex,
    },
}

/// How far one call has come.
struct Course<'f> {
    /// The file.
    ino: InodeNo,
    first: Option<Epoch>,
    second: Epoch,
    /// The first block to compare.
    from: BlockIndex,
    /// The first block after the end of the file in the second state. From there on both states have a hole, or a truncation
    /// frees the rest.
    end: BlockIndex,
    /// Pointers that this call may still compare.
    left: u32,
    /// Where the rest starts.
    rest: Option<BlockIndex>,
    found: &'f mut Vec<BlockChange>,
}

impl Lfs {
    /// Appends to `found` how the content of a file in state `second` differs from that in state `first`, ascending from block
    /// `from`. Without `first`, the file had no content before. Omits holes from block `end` on, where the file ends in state
    /// `second`. Returns where the rest starts, `None` if there is none. Does not look at content in the inode record.
    ///
    /// # Errors
    /// `NotFound` if a state is not retained, or has no such file; `Need`, `Corrupt`.
    pub fn differing_blocks(
        &mut self,
        first: Option<Epoch>,
        second: Epoch,
        ino: InodeNo,
        Range { start: from, end }: Range<BlockIndex>,
        found: &mut Vec<BlockChange>,
    ) -> Outcome<Option<BlockIndex>> {
        let before = first.map(|state| self.content_roots(state, ino)).transpose()?;
        let after = self.content_roots(second, ino)?;
        let mut course = Course { ino, first, second, from, end, left: POINTERS_AT_ONCE, rest: None, found };
        for slot in 0..SLOTS {
            let (level, index) = Map::root(slot);
            let old =
                before.as_ref().map_or(BlockPtr::HOLE, |roots| root_of(&roots[Fork::Data as usize], slot));
            self.differ_below(&mut course, (level, index), old, root_of(&after[Fork::Data as usize], slot))?;
            if course.rest.is_some() {
                break;
            }
        }
        Ok(course.rest)
    }

    fn content_roots(&mut self, state: Epoch, ino: InodeNo) -> Outcome<Box<[Roots; FORKS]>> {
        let root = StateRoot::from(self.whole_point(state)?);
        let entry = self.past_entry(&root, ino)?;
        if !entry.is_used() {
            return Err(FsError::NotFound.into());
        }
        self.past_roots(state, ino, entry.ptr)
    }

    fn differ_below(
        &mut self,
        course: &mut Course<'_>,
        (level, index): (u8, BlockIndex),
        old: BlockPtr,
        new: BlockPtr,
    ) -> Outcome<()> {
        let map = self.geo.map;
        let first = map.first_data(level, index).0;
        let below = first..first.saturating_add(map.span(level));
        if below.end <= course.from.0 || old == BlockPtr::HOLE && new == BlockPtr::HOLE {
            return Ok(());
        }
        if course.left == 0 {
            course.rest = Some(BlockIndex(below.start.max(course.from.0)));
            return Ok(());
        }
        course.left -= 1;
        let place = self.place_of(&BlockKey { ino: course.ino, fork: Fork::Data, level, index });
        // Without a first state, there is no old pointer.
        let first = course.first.unwrap_or_default();
        if self.is_same_then(&place, (first, old), (Some(course.second), new))? {
            return Ok(());
        }
        if level == 0 || !new.is_stored() {
            course.note(below, &new);
            return Ok(());
        }
        for slot in 0..map.pointers_per_block() as usize {
            let now = self.past_child(&place, course.second, new, slot)?;
            let index = map.child(level, index, slot);
            let is_behind = now == BlockPtr::HOLE && map.first_data(level - 1, index) >= course.end;
            // Blocks born after the first state differ, so the old pointers need not be read.
            let is_new = level == 1 && now.is_stored() && course.first.is_some_and(|state| now.birth > state);
            let child = match course.first {
                Some(state) if old.is_stored() && !is_new && !is_behind => {
                    self.past_child(&place, state, old, slot)?
                }
                _ => BlockPtr::HOLE,
            };
            self.differ_below(course, (level - 1, index), child, now)?;
            if course.rest.is_some() {
                break;
            }
        }
        Ok(())
    }
}

impl Course<'_> {
    fn note(&mut self, blocks: Range<u64>, ptr: &BlockPtr) {
        let index = BlockIndex(blocks.start);
        let change = if ptr.is_stored() {
            BlockChange::Stored { index, crc: ptr.crc, stored_bytes: ptr.stored_bytes() }
        } else if ptr.is_hole() {
            let first = index.max(self.from);
            let count = blocks.end - first.0;
            match self.found.last_mut() {
                Some(BlockChange::Hole { first: begun, count: so_far }) if begun.0 + *so_far == first.0 => {
                    *so_far += count;
                    return;
                }
                _ => BlockChange::Hole { first, count },
            }
        } else {
            BlockChange::Reserved { index }
        };
        self.found.push(change);
    }
}
