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

/// What a file was in the first state.
enum Before {
    /// It was not there, or had no content.
    Nothing,
    /// Its record has not been read: all that is known is which births the state has.
    Unread(Epoch),
    /// Its root pointers, and how many bytes of content were in the record itself.
    Known(Epoch, Box<[Roots; FORKS]>, usize),
}

/// A pointer of the first state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Old {
    Known(BlockPtr),
    /// See [`Before::Unread`].
    Unread,
}

/// How far one call has come.
struct Course<'f> {
    /// The file.
    ino: InodeNo,
    before: Before,
    second: Epoch,
    /// The older record has to be read: there is a hole that may have had content.
    needs_before: bool,
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
    /// `second`. Returns where the rest starts, `None` if there is none. In state `second` the content is in blocks.
    ///
    /// A block that was born after the first state differs, and one that is older does not. So the older record is read only if there are
    /// holes before `end`.
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
        let (after, _) = self.content_of(second, ino)?;
        let before = first.map_or(Before::Nothing, Before::Unread);
        let found_before = found.len();
        let mut course = Course {
            ino,
            before,
            second,
            needs_before: false,
            from,
            end,
            left: POINTERS_AT_ONCE,
            rest: None,
            found,
        };
        self.differ_in(&mut course, &after)?;
        if let Some(state) = first.filter(|_| course.needs_before) {
            let (roots, inline_bytes) = self.content_of(state, ino)?;
            course.before = Before::Known(state, roots, inline_bytes);
            (course.needs_before, course.left, course.rest) = (false, POINTERS_AT_ONCE, None);
            course.found.truncate(found_before);
            self.differ_in(&mut course, &after)?;
        }
        Ok(course.rest)
    }

    /// Walks all trees of the content, as far as one call goes.
    fn differ_in(&mut self, course: &mut Course<'_>, after: &[Roots; FORKS]) -> Outcome<()> {
        for slot in 0..SLOTS {
            let (level, index) = Map::root(slot);
            let new = root_of(&after[Fork::Data as usize], slot);
            let old = match &course.before {
                Before::Nothing => Old::Known(BlockPtr::HOLE),
                Before::Unread(_) => Old::Unread,
                // Content in the record was what the first block has.
                Before::Known(_, _, 1..) if slot == 0 && new == BlockPtr::HOLE && course.from.0 == 0 => {
                    course.note(0..1, &new);
                    continue;
                }
                Before::Known(_, roots, _) => Old::Known(root_of(&roots[Fork::Data as usize], slot)),
            };
            self.differ_below(course, (level, index), old, new)?;
            if course.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// The root pointers of a file, and how many bytes of content its record has.
    fn content_of(&mut self, state: Epoch, ino: InodeNo) -> Outcome<(Box<[Roots; FORKS]>, usize)> {
        let root = StateRoot::from(self.whole_point(state)?);
        let entry = self.past_entry(&root, ino)?;
        if !entry.is_used() {
            return Err(FsError::NotFound.into());
        }
        self.past_body(state, ino, entry.ptr)
    }

    fn differ_below(
        &mut self,
        course: &mut Course<'_>,
        (level, index): (u8, BlockIndex),
        old: Old,
        new: BlockPtr,
    ) -> Outcome<()> {
        let map = self.geo.map;
        let first = map.first_data(level, index).0;
        let below = first..first.saturating_add(map.span(level));
        if below.end <= course.from.0 || old == Old::Known(BlockPtr::HOLE) && new == BlockPtr::HOLE {
            return Ok(());
        }
        if course.left == 0 {
            course.rest = Some(BlockIndex(below.start.max(course.from.0)));
            return Ok(());
        }
        course.left -= 1;
        let place = self.place_of(&BlockKey { ino: course.ino, fork: Fork::Data, level, index });
        let is_same = match (old, &course.before) {
            (Old::Unread, _) if !new.is_stored() => {
                let is_behind = new == BlockPtr::HOLE && below.start >= course.end.0;
                course.needs_before |= !is_behind;
                return Ok(());
            }
            (Old::Unread, _) => course.is_in_first(&new),
            (Old::Known(old), Before::Known(state, ..)) => {
                self.is_same_then(&place, (*state, old), (Some(course.second), new))?
            }
            (Old::Known(_), _) => false,
        };
        if is_same {
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
            let is_new = level == 1 && now.is_stored() && !course.is_in_first(&now);
            let child = match (old, &course.before) {
                (Old::Unread, _) => Old::Unread,
                (Old::Known(old), Before::Known(state, ..)) if old.is_stored() && !is_new && !is_behind => {
                    Old::Known(self.past_child(&place, *state, old, slot)?)
                }
                _ => Old::Known(BlockPtr::HOLE),
            };
            self.differ_below(course, (level - 1, index), child, now)?;
            if course.is_over() {
                break;
            }
        }
        Ok(())
    }
}

impl Course<'_> {
    /// Whether the first state has a block, by its birth. A block that moves keeps it.
    fn is_in_first(&self, ptr: &BlockPtr) -> bool {
        match self.before {
            Before::Nothing => false,
            Before::Unread(state) | Before::Known(state, ..) => ptr.birth <= state,
        }
    }

    /// Whether the call ends here.
    fn is_over(&self) -> bool {
        self.rest.is_some() || self.needs_before
    }

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
