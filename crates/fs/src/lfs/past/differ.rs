//! Which inodes differ between two states, one of which may be the present. The walk goes down both inode maps together and leaves out what
//! they share, so it takes time in proportion to what changed.
//!
//! Caller: `firn diff`, through the driver.

use crate::error::Outcome;
use crate::lfs::Lfs;
use crate::lfs::base::places::{is_unseen, place_of_record};
use crate::lfs::past::states::{StateRoot, entry_in};
use firnfs_format::checkpoint::PointCursor;
use firnfs_format::table::{ImapEntry, TableEntry};
use firnfs_format::{BlockPtr, Epoch, InodeNo};
use std::collections::BTreeSet;

/// Leaves of the inode maps that one call looks at.
const LEAVES_AT_ONCE: usize = 64;

/// An inode that differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Differing {
    /// Its number.
    pub ino: InodeNo,
    /// It is in the first state.
    pub is_in_first: bool,
    /// It is in the second state.
    pub is_in_second: bool,
}

/// How far one call has come.
struct Course {
    first: StateRoot,
    /// `None`: the present.
    second: Option<StateRoot>,
    /// Numbers from here on.
    from: u64,
    /// Numbers before this one were looked at.
    end: u64,
    /// Leaves that this call may still look at.
    leaves_left: usize,
    /// Those that may differ.
    numbers: BTreeSet<InodeNo>,
}

impl Lfs {
    /// Lists inodes that differ between two states, ascending from `from` on, in `found`. `first` may be `None`, a volume without inodes;
    /// `second` is the present if it is `None`. A number that was used again for another file differs. Returns where the rest starts; `None` if that was all.
    ///
    /// # Errors
    /// `NotFound` if one of the states is not retained; `Need`, `Corrupt`.
    pub fn differing_inodes(
        &mut self,
        first: Option<Epoch>,
        second: Option<Epoch>,
        from: InodeNo,
        found: &mut Vec<Differing>,
    ) -> Outcome<Option<InodeNo>> {
        let state = |epoch| self.whole_point(epoch).map(StateRoot::from);
        let (first, second) = (first.map_or(Ok(StateRoot::NOTHING), state)?, second.map(state).transpose()?);
        let (leaves_left, numbers) = (LEAVES_AT_ONCE, BTreeSet::new());
        let mut course = Course { first, second, from: from.0, end: u64::MAX, leaves_left, numbers };
        let second_height =
            course.second.map_or(self.tables.imap.table.root.height, |state| state.map.height);
        let top = first.map.height.max(second_height);
        let is_whole = self.numbers_below(&mut course, top, 0)?;
        if course.second.is_none() {
            self.add_newer(&mut course);
        }
        let mut changed = Vec::new();
        for ino in &course.numbers {
            changed.extend(self.compare_inode(&course, *ino)?);
        }
        found.append(&mut changed);
        Ok((!is_whole).then_some(InodeNo(course.end)))
    }

    /// Gathers the numbers below a block of the map that is not shared; false if there are more than one call looks at.
    fn numbers_below(&mut self, course: &mut Course, level: u32, index: u64) -> Outcome<bool> {
        let fan = self.tables.imap.table.fan();
        let span = fan.saturating_pow(level + 1);
        let start = index.saturating_mul(span);
        if start.saturating_add(span) <= course.from || self.is_shared_map(course, level, index)? {
            return Ok(true);
        }
        if course.leaves_left == 0 {
            course.end = start;
            return Ok(false);
        }
        if level == 0 {
            course.leaves_left -= 1;
            let first = self.leaf_of(Some(&course.first), index)?;
            let second = self.leaf_of(course.second.as_ref(), index)?;
            // A pointer that both have is to the same record, wherever that is now.
            let differs = |ino: &InodeNo| {
                let at = (ino.0 - start) as usize;
                let ptr = |leaf: &[ImapEntry]| leaf.get(at).map_or(BlockPtr::HOLE, |entry| entry.ptr);
                ptr(&first) != ptr(&second)
            };
            let numbers = (start.max(course.from)..start + span).map(InodeNo);
            let seen = numbers.filter(|ino| !is_unseen(*ino) && *ino >= InodeNo::ROOT);
            course.numbers.extend(seen.filter(differs));
            return Ok(true);
        }
        for slot in 0..fan {
            if !self.numbers_below(course, level - 1, index * fan + slot)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The entries of a leaf of a state's map, or of the present's; empty where nothing is in use.
    fn leaf_of(&mut self, state: Option<&StateRoot>, index: u64) -> Outcome<Vec<ImapEntry>> {
        let Some(state) = state else { return self.tables.imap.table.leaf(&mut self.shelf, index) };
        let leaf = self.past_map_ptr(state, 0, index)?;
        if !leaf.is_stored() {
            return Ok(Vec::new());
        }
        let place = self.place_in_map(0, index);
        let block = self.past_block(&place, state.epoch, leaf, self.geo.block_bytes)?;
        Ok((0..self.tables.imap.table.fan()).map(|slot| entry_in(&block, slot)).collect())
    }

    /// True if both states have the same block of the map, or none.
    fn is_shared_map(&mut self, course: &Course, level: u32, index: u64) -> Outcome<bool> {
        let first = self.past_map_ptr(&course.first, level, index)?;
        let place = self.place_in_map(level, index);
        let first = self.followed(&place, course.first.epoch, first)?;
        let second = match &course.second {
            Some(state) => {
                let ptr = self.past_map_ptr(state, level, index)?;
                self.followed(&place, state.epoch, ptr)?
            }
            None => self.tables.imap.table.ptr(&mut self.shelf, level, index)?,
        };
        Ok(first == second)
    }

    fn followed(&mut self, place: &PointCursor, state: Epoch, ptr: BlockPtr) -> Outcome<BlockPtr> {
        if ptr.is_stored() { self.follow(place, state, ptr) } else { Ok(BlockPtr::HOLE) }
    }

    /// Adds inodes of the present that are newer than its map. If there is more to come, only those before it.
    fn add_newer(&self, course: &mut Course) {
        let numbers = course.from..course.end;
        let dirty = self.files.dirty().map(|(ino, _)| ino).filter(|ino| numbers.contains(&ino.0));
        let newer = self.tables.imap.newer_in(numbers.clone());
        course.numbers.extend(newer.chain(dirty).filter(|ino| !is_unseen(*ino) && *ino >= InodeNo::ROOT));
    }

    fn compare_inode(&mut self, course: &Course, ino: InodeNo) -> Outcome<Option<Differing>> {
        let first = self.past_entry(&course.first, ino)?;
        let place = place_of_record(ino);
        let before = self.followed(&place, course.first.epoch, first.ptr)?;
        let (is_in_second, is_same) = match &course.second {
            Some(state) => {
                let second = self.past_entry(state, ino)?;
                let after = self.followed(&place, state.epoch, second.ptr)?;
                (second.is_used(), before == after)
            }
            None => {
                let entry = self.tables.imap.get(&mut self.shelf, ino)?;
                let core = self.files.peek(ino);
                let is_changed = core.is_some_and(|core| core.dirty.is_some() && !core.only_moves);
                let is_used = core.map_or(entry.is_used(), |core| !core.freed);
                (is_used, before == entry.ptr && !is_changed)
            }
        };
        let is_in_first = first.is_used();
        let differs = !is_same && (is_in_first || is_in_second);
        Ok(differs.then_some(Differing { ino, is_in_first, is_in_second }))
    }
}
