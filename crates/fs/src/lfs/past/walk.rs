//! Walks through what only one retained point holds: everything that the point leads to, except what the states before and after
//! it lead to.
//!
//! Only blocks born after the previous point can belong to this point alone; the blocks that lead to them were born after it,
//! too. If the next state has the same block at the same place, it also shares everything below that block. So the walk meets
//! only what this point alone holds, and the blocks at the edge of that. If the point is the newest, the next state is the
//! present, which keeps changing.
//!
//! The walk meets a block after everything that the block leads to. Callers: `upkeep::forget` frees what it meets, `holdings`
//! counts it.

use crate::bmap::{Geometry as Map, SLOTS};
use crate::error::{FsError, Outcome, Stop};
use crate::lfs::Lfs;
use crate::lfs::base::kinds::LogKind;
use crate::lfs::base::places::{is_unseen, place_in_map, place_of_record};
use crate::lfs::past::StateRoot;
use crate::lfs::past::states::{entry_in, node_in, root_of};
use crate::mutation::{Mutation, is_on};
use crate::store::{BlockKey, Fork};
use firnfs_format::checkpoint::{Point, PointCursor};
use firnfs_format::inode::{FORKS, Roots};
use firnfs_format::table::{ImapEntry, TableEntry};
use firnfs_format::{BlockPtr, Epoch, InodeNo};
use std::collections::BTreeSet;

/// Pointers that one step examines, more or less, for each item that a step of a commit lays out.
const STEP_FACTOR: u64 = 8;

const FORK_KINDS: [Fork; FORKS] = [Fork::Data, Fork::Index, Fork::Xattr];

/// A walk, between two steps.
pub(in crate::lfs) struct Walk {
    /// The point.
    state: StateRoot,
    /// Everything up to there has been walked.
    done: PointCursor,
    /// An older point sees what was born by then.
    since: Option<Epoch>,
    /// The next point; `None`: the next state is the present.
    next: Option<StateRoot>,
    purpose: Purpose,
    /// Pointers and blocks of the inode map that this step may still complete.
    left: u64,
}

/// What the walk is for.
pub(in crate::lfs) enum Purpose {
    /// The point is being dropped; its entry notes how far that has come.
    Free,
    /// What it holds is counted, in bytes.
    Count(u64),
}

impl Walk {
    /// Starts from the beginning, or from where the drop of the point has come to.
    pub fn new(before: Option<&Point>, point: &Point, next: Option<&Point>, purpose: Purpose) -> Self {
        Self {
            state: point.into(),
            done: point.dropped_to.unwrap_or_default(),
            since: before.map(|point| point.epoch),
            next: next.map(StateRoot::from),
            purpose,
            left: 0,
        }
    }

    /// Bytes counted so far.
    pub fn counted_bytes(&self) -> u64 {
        match self.purpose {
            Purpose::Free => 0,
            Purpose::Count(bytes) => bytes,
        }
    }
}

/// Where the next state has a block.
enum Next {
    /// The pointer that the point of that epoch has to it.
    Past(Epoch, BlockPtr),
    /// The present: its own trees tell.
    Present,
    /// It has no such inode.
    Nowhere,
}

/// Whether a part of the walk is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lfs) enum Progress {
    Done,
    /// The step is over.
    Pause,
}

impl Lfs {
    /// The next step of a walk.
    ///
    /// # Errors
    /// `Need`, `Corrupt`; the walk can continue where it was.
    pub(in crate::lfs) fn walk_on(&mut self, walk: &mut Walk) -> Outcome<Progress> {
        walk.left = STEP_FACTOR * self.options.commit_step_items as u64;
        let map = walk.state.map;
        self.walk_map(walk, map.height, 0, map.ptr)
    }

    fn walk_map(&mut self, walk: &mut Walk, level: u32, index: u64, ptr: BlockPtr) -> Outcome<Progress> {
        let fan = self.tables.imap.table.fan();
        let at = place_in_map(fan, level, index);
        if !ptr.is_stored() || at <= walk.done || walk.is_older(&ptr) {
            return Ok(Progress::Done);
        }
        if walk.is_over() {
            return Ok(Progress::Pause);
        }
        let here = self.follow(&at, walk.state.epoch, ptr)?;
        let next = match walk.next {
            Some(state) => {
                let next = self.past_map_ptr(&state, level, index)?;
                if next.is_stored() { self.follow(&at, state.epoch, next)? } else { next }
            }
            None => self.tables.imap.table.ptr(&mut self.shelf, level, index)?,
        };
        let is_shared = next == here;
        // Copies that the cleaner has made for points belong to the points, although the present still has the same block.
        let has_copies = walk.next.is_none() && self.tables.remnants.has_copied_below(fan, level, index);
        if is_shared && !has_copies {
            return self.walk_shared_map(walk, level, index, at);
        }
        let block = self.past_block(&at, walk.state.epoch, ptr, self.geo.block_bytes)?;
        for slot in 0..fan {
            let below = index * fan + slot;
            let progress = if level > 0 {
                let child = node_in(&block, slot).map_or(BlockPtr::HOLE, |node| node.ptr);
                self.walk_map(walk, level - 1, below, child)?
            } else {
                self.walk_inode(walk, InodeNo(below), entry_in(&block, slot))?
            };
            if progress == Progress::Pause {
                return Ok(Progress::Pause);
            }
        }
        // Blocks passed on the way down cost nothing, so each step completes something.
        walk.left = walk.left.saturating_sub(1);
        if is_shared {
            self.pass(walk, at);
        } else {
            self.pass_own(walk, at, &here);
        }
        Ok(Progress::Done)
    }

    /// Walks below a block of the inode map that the next state shares. In the present, inodes may have changed since the block
    /// was written.
    fn walk_shared_map(
        &mut self,
        walk: &mut Walk,
        level: u32,
        index: u64,
        at: PointCursor,
    ) -> Outcome<Progress> {
        if walk.next.is_none() {
            let below = self.tables.imap.table.fan().saturating_pow(level + 1);
            let first = index * below;
            let numbers = first..first.saturating_add(below);
            let newer = self.tables.imap.newer_in(numbers.clone());
            let dirty = self.files.dirty().map(|(ino, _)| ino).filter(|ino| numbers.contains(&ino.0));
            let changed: BTreeSet<InodeNo> = newer.chain(dirty).collect();
            for ino in changed {
                let entry = self.past_entry(&walk.state, ino)?;
                if self.walk_inode(walk, ino, entry)? == Progress::Pause {
                    return Ok(Progress::Pause);
                }
            }
        }
        walk.left = walk.left.saturating_sub(1);
        self.pass(walk, at);
        Ok(Progress::Done)
    }

    fn walk_inode(&mut self, walk: &mut Walk, ino: InodeNo, entry: ImapEntry) -> Outcome<Progress> {
        let at = place_of_record(ino);
        if !entry.is_used() || is_unseen(ino) || at <= walk.done || walk.is_older(&entry.ptr) {
            return Ok(Progress::Done);
        }
        if walk.is_over() {
            return Ok(Progress::Pause);
        }
        let here = self.follow(&at, walk.state.epoch, entry.ptr)?;
        let (next, next_roots) = self.next_inode(walk, ino)?;
        let is_dirty = self.files.peek(ino).is_some_and(|core| core.dirty.is_some());
        let is_shared = next == here;
        if is_shared && (walk.next.is_some() || !is_dirty) {
            self.pass(walk, at);
            return Ok(Progress::Done);
        }
        let roots = self.past_roots(walk.state.epoch, ino, entry.ptr)?;
        for (fork, roots) in FORK_KINDS.into_iter().zip(&*roots) {
            for slot in 0..SLOTS {
                let (level, index) = Map::root(slot);
                let key = BlockKey { ino, fork, level, index };
                let next = match &next_roots {
                    NextRoots::Past(state, all) => Next::Past(*state, root_of(&all[fork as usize], slot)),
                    NextRoots::Present => Next::Present,
                    NextRoots::Nowhere => Next::Nowhere,
                };
                if self.walk_block(walk, key, root_of(roots, slot), &next)? == Progress::Pause {
                    return Ok(Progress::Pause);
                }
            }
        }
        if is_shared {
            self.pass(walk, at);
        } else {
            self.pass_own(walk, at, &here);
        }
        Ok(Progress::Done)
    }

    /// The record of an inode in the next state, and where its roots are.
    fn next_inode(&mut self, walk: &Walk, ino: InodeNo) -> Outcome<(BlockPtr, NextRoots)> {
        let Some(state) = walk.next else {
            let record = self.tables.imap.get(&mut self.shelf, ino)?.ptr;
            return match self.load_inode(ino) {
                Ok(_) => Ok((record, NextRoots::Present)),
                Err(Stop::Fail(FsError::NotFound)) => Ok((record, NextRoots::Nowhere)),
                Err(stop) => Err(stop),
            };
        };
        let record = self.past_entry(&state, ino)?.ptr;
        if !record.is_stored() {
            return Ok((record, NextRoots::Nowhere));
        }
        let roots = self.past_roots(state.epoch, ino, record)?;
        Ok((self.follow(&place_of_record(ino), state.epoch, record)?, NextRoots::Past(state.epoch, roots)))
    }

    fn walk_block(
        &mut self,
        walk: &mut Walk,
        key: BlockKey,
        ptr: BlockPtr,
        next: &Next,
    ) -> Outcome<Progress> {
        let at = self.place_of(&key);
        if !ptr.is_stored() || at <= walk.done || walk.is_older(&ptr) {
            return Ok(Progress::Done);
        }
        if walk.is_over() {
            return Ok(Progress::Pause);
        }
        walk.left = walk.left.saturating_sub(1);
        if self.is_named(&key, &ptr, next)? {
            self.pass(walk, at);
            return Ok(Progress::Done);
        }
        let here = self.follow(&at, walk.state.epoch, ptr)?;
        if self.is_at(&key, &here, next)? {
            self.pass(walk, at);
            return Ok(Progress::Done);
        }
        if key.level > 0 {
            let block_bytes = self.geo.block_bytes;
            let block = self.past_block(&at, walk.state.epoch, ptr, block_bytes)?;
            let next_block = match next {
                Next::Past(state, next) if next.is_stored() => {
                    Some(self.past_block(&at, *state, *next, block_bytes)?)
                }
                _ => None,
            };
            for slot in 0..self.geo.map.pointers_per_block() as usize {
                let child = self.child_in(&ptr, &block, slot)?;
                if !child.is_stored() {
                    continue;
                }
                let next = match (next, &next_block) {
                    (Next::Past(state, next), Some(block)) => {
                        Next::Past(*state, self.child_in(next, block, slot)?)
                    }
                    (Next::Past(state, _), None) => Next::Past(*state, BlockPtr::HOLE),
                    (Next::Present, _) => Next::Present,
                    (Next::Nowhere, _) => Next::Nowhere,
                };
                let index = self.geo.map.child(key.level, key.index, slot);
                let below = BlockKey { level: key.level - 1, index, ..key };
                if self.walk_block(walk, below, child, &next)? == Progress::Pause {
                    return Ok(Progress::Pause);
                }
            }
        }
        self.pass_own(walk, at, &here);
        Ok(Progress::Done)
    }

    /// True if the next state names the very place that a pointer of this one names: then both have the same block, wherever it has gone
    /// meanwhile. A block above many others has mostly such pointers when a few of them change, and it takes much longer to follow them.
    fn is_named(&mut self, key: &BlockKey, ptr: &BlockPtr, next: &Next) -> Outcome<bool> {
        match next {
            Next::Past(..) if is_on(Mutation::NewerFreed) => Ok(false),
            Next::Past(_, next) => Ok(next == ptr),
            Next::Present => Ok(self.ptr(*key)? == *ptr),
            Next::Nowhere => Ok(false),
        }
    }

    /// True if the next state has the same block at that place; then it has everything below it, too.
    fn is_at(&mut self, key: &BlockKey, here: &BlockPtr, next: &Next) -> Outcome<bool> {
        match next {
            Next::Nowhere => Ok(false),
            Next::Past(..) if is_on(Mutation::NewerFreed) => Ok(false),
            Next::Past(state, next) => {
                Ok(next.is_stored() && self.follow(&self.place_of(key), *state, *next)? == *here)
            }
            Next::Present => {
                let ptr = self.ptr(*key)?;
                if !ptr.is_pending() {
                    return Ok(ptr == *here);
                }
                // The block only moves, and so does everything below it.
                Ok(self.shelf.cache.dirty(key).and_then(|dirty| dirty.moves) == Some(*here))
            }
        }
    }

    /// Notes that everything up to there has been walked.
    fn pass(&mut self, walk: &mut Walk, at: PointCursor) {
        match walk.purpose {
            Purpose::Free => self.tables.points.go_to(at),
            Purpose::Count(_) => walk.done = at,
        }
    }

    /// The same for something that only the point holds: frees or counts it first.
    fn pass_own(&mut self, walk: &mut Walk, at: PointCursor, ptr: &BlockPtr) {
        match &mut walk.purpose {
            Purpose::Free => {
                self.vacate(LogKind::Past, ptr);
                self.recount(u64::from(ptr.stored_bytes()), 0);
            }
            Purpose::Count(bytes) => *bytes += u64::from(ptr.stored_bytes()),
        }
        self.pass(walk, at);
    }
}

/// Where the root pointers of an inode are in the next state.
enum NextRoots {
    Past(Epoch, Box<[Roots; FORKS]>),
    Present,
    Nowhere,
}

impl Walk {
    /// True if an older point sees it; then that point sees everything below it, too.
    fn is_older(&self, ptr: &BlockPtr) -> bool {
        self.since.is_some_and(|since| ptr.birth <= since) && !is_on(Mutation::OlderFreed)
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }
}
