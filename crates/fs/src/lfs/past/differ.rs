//! Lists the inodes that differ between two states, one of which may be the present. The walk descends both inode maps together
//! and skips what they share, so its time is proportional to what changed.
//!
//! Caller: `firn diff`, through the driver.

use crate::error::{Outcome, gather_needs};
use crate::fetch::Fetch;
use crate::lfs::Lfs;
use crate::lfs::base::places::{is_unseen, place_of_record};
use crate::lfs::past::need_only;
use crate::lfs::past::states::{StateRoot, entry_in};
use crate::store::Buf;
use firnfs_format::checkpoint::{PointCursor, TableRoot};
use firnfs_format::table::{Node, TABLE_ENTRY_BYTES, TableEntry};
use firnfs_format::{BlockPtr, Epoch, InodeNo};
use std::collections::BTreeMap;

/// Leaves of the inode maps that one call reads at most.
const LEAVES_AT_ONCE: usize = 64;
/// Numbers that one call compares, give or take a leaf.
const NUMBERS_AT_ONCE: usize = 512;
/// Bytes of blocks that one attempt requests, about. The smallest cache holds a few times as much.
const NEEDS_BYTES: usize = 1 << 20;

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
    /// The call covers numbers before this one.
    end: u64,
    /// Leaves that this call may still read.
    leaves_left: usize,
    /// Blocks that have to be read before the walk can descend below them.
    needs: Vec<Fetch>,
    /// Numbers that may differ, with the pointers to their records if a leaf was read for them.
    numbers: BTreeMap<InodeNo, Option<(BlockPtr, BlockPtr)>>,
}

/// A place in both inode maps, and the pointer that each state has to it.
#[derive(Clone, Copy)]
struct Pair {
    level: u32,
    index: u64,
    first: BlockPtr,
    second: BlockPtr,
}

impl Lfs {
    /// Appends to `found` the inodes that differ between two states, ascending from `from`. `first` is a volume without inodes if
    /// it is `None`; `second` is the present if it is `None`. A number that another file has now differs, too. Returns where the
    /// rest starts, `None` if there is none.
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
        let mut state = |epoch| self.whole_point(epoch).map(StateRoot::from);
        let first = first.map_or(Ok(StateRoot::NOTHING), &mut state)?;
        let second = second.map(state).transpose()?;
        let mut course = Course {
            first,
            second,
            from: from.0,
            end: u64::MAX,
            leaves_left: LEAVES_AT_ONCE.min(self.needs_at_once()),
            needs: Vec::new(),
            numbers: BTreeMap::new(),
        };
        let level = first.map.height.max(self.root_of_second(&course).height);
        let top = Pair {
            level,
            index: 0,
            first: top_of(&first.map, level),
            second: top_of(&self.root_of_second(&course), level),
        };
        let is_whole = self.numbers_below(&mut course, top)?;
        if !course.needs.is_empty() {
            return Err(need_only(course.needs));
        }
        if course.second.is_none() {
            self.add_newer(&mut course);
        }
        let (mut changed, mut needs) = (Vec::new(), Vec::new());
        for (ino, ptrs) in &course.numbers {
            changed.extend(gather_needs(self.compare_inode(&course, *ino, *ptrs), &mut needs)?.flatten());
        }
        if !needs.is_empty() {
            return Err(need_only(needs));
        }
        found.append(&mut changed);
        Ok((!is_whole).then_some(InodeNo(course.end)))
    }

    fn needs_at_once(&self) -> usize {
        NEEDS_BYTES / self.geo.block_bytes as usize
    }

    fn root_of_second(&self, course: &Course) -> TableRoot {
        course.second.map_or(self.tables.imap.table.root, |state| state.map)
    }

    /// Gathers the numbers below a block of the map unless both states share it; false if one call cannot gather all of them.
    fn numbers_below(&mut self, course: &mut Course, pair: Pair) -> Outcome<bool> {
        let Pair { level, index, .. } = pair;
        let fan = self.tables.imap.table.fan();
        let span = fan.saturating_pow(level + 1);
        let start = index.saturating_mul(span);
        if start.saturating_add(span) <= course.from {
            return Ok(true);
        }
        // Levels above the top of the lower map are in one map only.
        let lower_height = course.first.map.height.min(self.root_of_second(course).height);
        let place = self.place_in_map(level, index);
        if level <= lower_height && self.is_same(course, &place, pair.first, pair.second)? {
            return Ok(true);
        }
        let is_full = course.numbers.len() >= NUMBERS_AT_ONCE || course.needs.len() >= self.needs_at_once();
        if course.leaves_left == 0 || is_full {
            course.end = start;
            return Ok(false);
        }
        if level == 0 {
            course.leaves_left -= 1;
            self.numbers_in_leaf(course, pair)?;
            return Ok(true);
        }
        let first = self.ptrs_below(&course.first, pair, pair.first);
        let first = gather_needs(first, &mut course.needs)?;
        let second = self.ptrs_below_second(course, pair);
        let second = gather_needs(second, &mut course.needs)?;
        let (Some(first), Some(second)) = (first, second) else { return Ok(true) };
        let below = |ptrs: &[BlockPtr], slot| ptrs.get(slot as usize).copied().unwrap_or(BlockPtr::HOLE);
        for slot in 0..fan.min(first.len().max(second.len()) as u64) {
            let (first, second) = (below(&first, slot), below(&second, slot));
            let pair = Pair { level: level - 1, index: index * fan + slot, first, second };
            let is_whole = self.numbers_below(course, pair);
            if gather_needs(is_whole, &mut course.needs)? == Some(false) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds the numbers whose pointers differ in a leaf. Equal pointers lead to the same record, wherever it is now.
    fn numbers_in_leaf(&mut self, course: &mut Course, pair: Pair) -> Outcome<()> {
        let fan = self.tables.imap.table.fan();
        let first = self.block_of_map(&course.first, pair, pair.first);
        let first = gather_needs(first, &mut course.needs)?;
        let second = match course.second {
            Some(state) => self.block_of_map(&state, pair, pair.second),
            None => self.tables.imap.table.block(&mut self.shelf, 0, pair.index),
        };
        let second = gather_needs(second, &mut course.needs)?;
        let (Some(first), Some(second)) = (first, second) else { return Ok(()) };
        let start = pair.index * fan;
        for slot in course.from.saturating_sub(start)..fan {
            let ptr =
                |leaf: &Option<Buf>| leaf.as_ref().map_or(BlockPtr::HOLE, |leaf| entry_in(leaf, slot).ptr);
            let (first, second, ino) = (ptr(&first), ptr(&second), InodeNo(start + slot));
            if first != second && !is_unseen(ino) && ino >= InodeNo::ROOT {
                course.numbers.insert(ino, Some((first, second)));
            }
        }
        Ok(())
    }

    /// The stored bytes of a block of a state's map; `None` where nothing is in use.
    fn block_of_map(&mut self, state: &StateRoot, at: Pair, ptr: BlockPtr) -> Outcome<Option<Buf>> {
        if !ptr.is_stored() {
            return Ok(None);
        }
        let place = self.place_in_map(at.level, at.index);
        self.past_block(&place, state.epoch, ptr, self.geo.block_bytes).map(Some)
    }

    /// The pointers in the second state's block; fewer than the map's fan if the rest is not in use.
    fn ptrs_below_second(&mut self, course: &Course, at: Pair) -> Outcome<Vec<BlockPtr>> {
        if let Some(state) = &course.second {
            return self.ptrs_below(state, at, at.second);
        }
        let root = self.tables.imap.table.root;
        if at.level > root.height {
            return Ok(below_top(&root, at));
        }
        let block = self.tables.imap.table.block(&mut self.shelf, at.level, at.index)?;
        Ok(block.map_or_else(Vec::new, |block| ptrs_in(&block)))
    }

    fn ptrs_below(&mut self, state: &StateRoot, at: Pair, ptr: BlockPtr) -> Outcome<Vec<BlockPtr>> {
        if at.level > state.map.height {
            return Ok(below_top(&state.map, at));
        }
        Ok(self.block_of_map(state, at, ptr)?.map_or_else(Vec::new, |block| ptrs_in(&block)))
    }

    fn is_same(
        &mut self,
        course: &Course,
        place: &PointCursor,
        first: BlockPtr,
        second: BlockPtr,
    ) -> Outcome<bool> {
        let second_state = course.second.map(|state| state.epoch);
        self.is_same_then(place, (course.first.epoch, first), (second_state, second))
    }

    /// Adds inodes of the present that are newer than its map. If the walk has not ended, adds only those before its end.
    fn add_newer(&self, course: &mut Course) {
        let numbers = course.from..course.end;
        let dirty = self.files.dirty().map(|(ino, _)| ino).filter(|ino| numbers.contains(&ino.0));
        let newer = self.tables.imap.newer_in(numbers.clone());
        for ino in newer.chain(dirty).filter(|ino| !is_unseen(*ino) && *ino >= InodeNo::ROOT) {
            course.numbers.entry(ino).or_insert(None);
        }
    }

    /// Compares an inode. `ptrs` are the pointers in the leaves of both maps, if those were read.
    fn compare_inode(
        &mut self,
        course: &Course,
        ino: InodeNo,
        ptrs: Option<(BlockPtr, BlockPtr)>,
    ) -> Outcome<Option<Differing>> {
        let first = match ptrs {
            Some((first, _)) => first,
            None => self.past_entry(&course.first, ino)?.ptr,
        };
        let (second, is_in_second, is_changed) = match (&course.second, ptrs) {
            (Some(_), Some((_, second))) => (second, !second.is_hole(), false),
            (Some(state), None) => {
                let second = self.past_entry(state, ino)?.ptr;
                (second, !second.is_hole(), false)
            }
            (None, _) => {
                let entry = self.tables.imap.get(&mut self.shelf, ino)?;
                let core = self.files.peek(ino);
                let is_changed = core.is_some_and(|core| core.dirty.is_some() && !core.only_moves);
                let is_used = core.map_or(entry.is_used(), |core| !core.freed);
                (entry.ptr, is_used, is_changed)
            }
        };
        let is_in_first = !first.is_hole();
        if !is_in_first && !is_in_second
            || !is_changed && self.is_same(course, &place_of_record(ino), first, second)?
        {
            return Ok(None);
        }
        Ok(Some(Differing { ino, is_in_first, is_in_second }))
    }
}

/// The pointer to the single block of a map's top level; a hole for the levels above it.
fn top_of(map: &TableRoot, level: u32) -> BlockPtr {
    if level == map.height { map.ptr } else { BlockPtr::HOLE }
}

/// The pointers below a level that a map does not have: only the first block there has a child, the map's own top.
fn below_top(map: &TableRoot, at: Pair) -> Vec<BlockPtr> {
    if at.index == 0 { vec![top_of(map, at.level - 1)] } else { Vec::new() }
}

/// The pointers in a stored block of the inode map; its stored part ends after the last entry that can be in use.
fn ptrs_in(block: &[u8]) -> Vec<BlockPtr> {
    block.as_chunks::<TABLE_ENTRY_BYTES>().0.iter().map(|node| Node::decode(node).ptr).collect()
}
