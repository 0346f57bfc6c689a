//! The beginning of an operation: what has to be in memory, and the places of everything new.
//!
//! First it examines everything that the intents name, and requests all missing blocks at once. Then it takes a place for each
//! new block and for the new inode (`grants`). If something is missing even then - a group's bitmaps, the block of the table
//! with the new inode - it gives all of them back. So an operation that has begun lacks nothing.

use super::Ffs;
use super::alloc::Run;
use super::base::is_written;
use super::inode::Shape;
use super::map::data_key;
use crate::bmap::DIRECT;
use crate::error::{FsError, Outcome, Stop, gather_needs};
use crate::fetch::Fetch;
use crate::inode::{Inode, Kind};
use crate::store::declared::Declared;
use crate::store::{BlockKey, Buf, Charge, Fork, Intent, OpKind, Owner};
use firnfs_format::InodeNo;
use std::collections::BTreeMap;
use std::ops::Range;

/// Largest range of one operation, in bytes.
pub const OP_MAX_BYTES: u64 = 1 << 20;

/// The place of a new block, or the larger place of a tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// What the file gets.
    pub run: Run,
    /// The first fragments of it that it had before; 0 for a new place.
    pub had: u32,
}

/// A change of the fragments of an inode's last blocks, and of what says how many they have.
#[derive(Clone, Debug)]
pub struct Reshape {
    /// Which inode.
    pub ino: InodeNo,
    /// Its last block of content will be whole.
    pub whole_tail: bool,
    /// Size afterwards, in bytes.
    pub size_bytes: u64,
    /// Direct blocks whose fragments change: index, before, after.
    pub changes: Vec<(u64, u32, u32)>,
}

/// An inode as it was before the operation changed it.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    /// Which inode.
    pub ino: InodeNo,
    /// Its names.
    pub nlink: u32,
    /// Its parent.
    pub parent: InodeNo,
}

/// A change in place of a directory's block.
#[derive(Clone, Debug)]
pub struct Touch {
    /// Which block.
    pub key: BlockKey,
    /// Its content before.
    pub before: Buf,
}

/// The open operation. There is never more than one.
#[derive(Default)]
pub struct OpenOperation {
    /// Its declared changes.
    pub declared: Declared,
    /// It changes names.
    pub is_names: bool,
    /// Places not used yet.
    pub grants: BTreeMap<BlockKey, Grant>,
    /// The new inode and its generation.
    pub new_inode: Option<(InodeNo, u32, bool)>,
    /// Changes of tails.
    pub reshapes: Vec<Reshape>,
    /// Inodes as they were.
    pub before: Vec<Before>,
    /// Inodes that it freed.
    pub freed: Vec<InodeNo>,
    /// Directory blocks that it changed, in order.
    pub touches: Vec<Touch>,
    /// Whole blocks of content that it wrote: inode, block.
    pub written: Vec<(InodeNo, u64)>,
    /// Directories whose blocks of content it dropped.
    pub shrunk: Vec<InodeNo>,
}

/// A range of blocks, given in bytes.
pub fn blocks_of(at_bytes: u64, len_bytes: u64, block_bytes: u64) -> Range<u64> {
    at_bytes / block_bytes..at_bytes.saturating_add(len_bytes).div_ceil(block_bytes)
}

/// The parts of a punched range: up to two blocks cut (with the bytes to clear in them), and the whole blocks.
#[allow(clippy::type_complexity)] // (block, bytes in it) twice, and a range of blocks
pub fn punch_parts(
    at_bytes: u64,
    len_bytes: u64,
    block_bytes: u64,
) -> ([Option<(u64, Range<usize>)>; 2], Range<u64>) {
    let end = at_bytes.saturating_add(len_bytes);
    let (first, last) = (at_bytes / block_bytes, end / block_bytes);
    let (skip, rest) = ((at_bytes % block_bytes) as usize, (end % block_bytes) as usize);
    let full = block_bytes as usize;
    let head = (skip > 0).then_some((first, skip..full));
    if end == u64::MAX {
        return ([head, None], at_bytes.div_ceil(block_bytes)..u64::MAX);
    }
    if first == last {
        return ([Some((first, skip..rest)), None], first..first);
    }
    let tail = (rest > 0).then_some((last, 0..rest));
    ([head, tail], at_bytes.div_ceil(block_bytes)..last)
}

impl Ffs {
    /// Prepares an operation; returns who pays for what.
    pub(super) fn prepare(&mut self, kind: OpKind, intents: &[Intent]) -> Outcome<Vec<Charge>> {
        let op = &mut self.operation;
        op.is_names = kind == OpKind::Names;
        assert!(op.grants.is_empty() && op.new_inode.is_none(), "an operation began inside another");
        op.reshapes.clear();
        let mut needs = Vec::new();
        for intent in intents {
            let looked = self.look(intent, intents, &mut needs);
            gather_needs(looked, &mut needs)?;
        }
        if needs.is_empty() {
            let shaped = self.plan_shapes(intents, &mut needs);
            gather_needs(shaped, &mut needs)?;
        }
        if !needs.is_empty() {
            needs.dedup();
            return Err(Stop::Need(needs));
        }
        self.take_places(intents).inspect_err(|_| self.give_back_places())
    }

    /// Looks at what one intent will change.
    fn look(&mut self, intent: &Intent, all: &[Intent], needs: &mut Vec<Fetch>) -> Outcome<()> {
        let block_bytes = self.geo.block_bytes();
        let ino = match *intent {
            Intent::Create { .. } => return Ok(()),
            Intent::Change { ino, .. }
            | Intent::Resize { ino, .. }
            | Intent::Write { ino, .. }
            | Intent::Edit { ino, .. }
            | Intent::Punch { ino, .. }
            | Intent::Reserve { ino, .. }
            | Intent::Free { ino } => ino,
        };
        self.living_inode(ino)?;
        let number = self.geo.inode_block(ino).0;
        gather_needs(self.load_inode_block(number).map(drop), needs)?;
        match *intent {
            // A set of attributes is rewritten as a whole: nothing of the old one is needed.
            Intent::Write { fork: Fork::Xattr, at_bytes, len_bytes, .. } => {
                assert_eq!(at_bytes, 0, "a set is written as a whole");
                if len_bytes.div_ceil(block_bytes) > self.geo.blocks_max(Fork::Xattr) {
                    return Err(FsError::TooLarge.into());
                }
            }
            Intent::Write { fork, at_bytes, len_bytes, .. } => {
                for index in blocks_of(at_bytes, len_bytes, block_bytes) {
                    let end = at_bytes.saturating_add(len_bytes);
                    let is_whole = at_bytes <= index * block_bytes && end >= (index + 1) * block_bytes;
                    gather_needs(self.look_block(&data_key(ino, fork, index), is_whole), needs)?;
                }
            }
            Intent::Edit { fork, at_bytes, .. } => {
                self.look_block(&data_key(ino, fork, at_bytes / block_bytes), false)?;
            }
            Intent::Reserve { at_bytes, len_bytes, .. } => {
                for index in blocks_of(at_bytes, len_bytes, block_bytes) {
                    gather_needs(self.look_block(&data_key(ino, Fork::Data, index), true), needs)?;
                }
            }
            Intent::Punch { fork: Fork::Xattr, .. } => {}
            Intent::Punch { fork, at_bytes, len_bytes, .. } => {
                let (edges, whole) = punch_parts(at_bytes, len_bytes, block_bytes);
                for (index, _) in edges.into_iter().flatten() {
                    gather_needs(self.look_block(&data_key(ino, fork, index), false), needs)?;
                }
                self.look_border(ino, fork, &whole, needs)?;
                if reserves(all, ino) {
                    for index in whole {
                        gather_needs(self.look_block(&data_key(ino, fork, index), true), needs)?;
                    }
                }
            }
            Intent::Create { .. } | Intent::Change { .. } | Intent::Resize { .. } | Intent::Free { .. } => {}
        }
        Ok(())
    }

    /// The way to a block, and its content unless it will be overwritten as a whole.
    fn look_block(&mut self, key: &BlockKey, is_whole: bool) -> Outcome<()> {
        if key.index.0 >= self.geo.blocks_max(key.fork) {
            return Err(FsError::TooLarge.into());
        }
        let ptr = self.ptr(key)?;
        if !is_whole && is_written(ptr) {
            self.load_at(key, ptr)?;
        }
        Ok(())
    }

    /// The indirect blocks that lead both into a range of blocks and out of it: they lose some of their pointers.
    fn look_border(
        &mut self,
        ino: InodeNo,
        fork: Fork,
        range: &Range<u64>,
        needs: &mut Vec<Fetch>,
    ) -> Outcome<()> {
        let ends = [range.start.checked_sub(1), Some(range.start), range.end.checked_sub(1), Some(range.end)];
        let max = self.geo.blocks_max(fork);
        for index in ends.into_iter().flatten().filter(|index| *index < max && !range.is_empty()) {
            gather_needs(self.ptr(&data_key(ino, fork, index)).map(drop), needs)?;
        }
        Ok(())
    }

    /// Plans how the operation changes the fragments of last blocks.
    fn plan_shapes(&mut self, intents: &[Intent], needs: &mut Vec<Fetch>) -> Outcome<()> {
        for intent in intents {
            let ino = match *intent {
                Intent::Resize { ino, .. } | Intent::Reserve { ino, .. } => ino,
                _ => continue,
            };
            if self.operation.reshapes.iter().any(|reshape| reshape.ino == ino) {
                continue;
            }
            let core = self.files.core(ino);
            let size_of = |intent: &Intent| match *intent {
                Intent::Resize { ino: i, size_bytes } if i == ino => Some(size_bytes),
                _ => None,
            };
            let (before, mut shape) = (core.map.shape, core.map.shape);
            shape.size_bytes = intents.iter().find_map(size_of).unwrap_or(shape.size_bytes);
            if core.inode.kind == Kind::Directory {
                shape.whole_tail = false;
            } else {
                shape.whole_tail = self.keeps_whole_tail(ino, &before, &shape, intents)?;
            }
            let changes = self.tail_changes(ino, &before, &shape, needs)?;
            let Shape { size_bytes, whole_tail, .. } = shape;
            self.operation.reshapes.push(Reshape { ino, whole_tail, size_bytes, changes });
        }
        Ok(())
    }

    /// Whether the last block is whole afterwards: if it is now and the file does not shrink, if it was reserved as a whole, or is reserved now.
    fn keeps_whole_tail(
        &mut self,
        ino: InodeNo,
        before: &Shape,
        after: &Shape,
        intents: &[Intent],
    ) -> Outcome<bool> {
        let block_bytes = self.geo.block_bytes();
        let (tail, rest) = (after.size_bytes / block_bytes, after.size_bytes % block_bytes);
        if rest == 0 || tail >= DIRECT {
            return Ok(false);
        }
        let needed = self.geo.frags_at(tail, after.size_bytes, false);
        let had = self.geo.frags_at(tail, before.size_bytes, before.whole_tail);
        let is_there = self.ptr(&data_key(ino, Fork::Data, tail))? != 0;
        if is_there && had > needed && after.size_bytes >= before.size_bytes {
            return Ok(true);
        }
        let tail_end = tail * block_bytes + self.geo.bytes_of(needed) as u64;
        Ok(intents.iter().any(|intent| match *intent {
            Intent::Reserve { ino: i, at_bytes, len_bytes } => {
                i == ino
                    && at_bytes < (tail + 1) * block_bytes
                    && at_bytes.saturating_add(len_bytes) > tail_end
            }
            _ => false,
        }))
    }

    /// The direct blocks that are there, stay, and change their fragments.
    fn tail_changes(
        &mut self,
        ino: InodeNo,
        before: &Shape,
        after: &Shape,
        needs: &mut Vec<Fetch>,
    ) -> Outcome<Vec<(u64, u32, u32)>> {
        let block_bytes = self.geo.block_bytes();
        let mut tails = vec![before.size_bytes / block_bytes, after.size_bytes / block_bytes];
        tails.dedup();
        let mut changes = Vec::new();
        for index in tails.into_iter().filter(|&index| index < DIRECT) {
            let is_cut = index * block_bytes >= after.size_bytes && after.size_bytes < before.size_bytes;
            let from = self.geo.frags_at(index, before.size_bytes, before.whole_tail);
            let to = self.geo.frags_at(index, after.size_bytes, after.whole_tail);
            let key = data_key(ino, Fork::Data, index);
            let ptr = self.ptr(&key)?;
            if is_cut || from == to || ptr == 0 {
                continue;
            }
            if to > from && is_written(ptr) {
                gather_needs(self.load_at(&key, ptr).map(drop), needs)?;
            }
            changes.push((index, from, to));
        }
        Ok(changes)
    }

    /// Takes a place for everything new, within what users may have.
    fn take_places(&mut self, intents: &[Intent]) -> Outcome<Vec<Charge>> {
        let mut charges = Vec::new();
        let before_frags = self.groups.free_frags();
        for intent in intents {
            let free_frags = self.groups.free_frags();
            let (owner, inodes) = self.take_for(intent)?;
            let frags = free_frags - self.groups.free_frags();
            let bytes = frags * u64::from(self.geo.layout.frag_bytes);
            if let Some(owner) = owner.filter(|_| bytes > 0 || inodes > 0) {
                let allocated_bytes = bytes.saturating_sub(self.replaced_bytes(intent));
                charges.push(Charge { owner, bytes, allocated_bytes, inodes });
            }
        }
        let left = self.groups.free_frags();
        if left < before_frags && left < self.reserve_frags() {
            return Err(self.overcome_miss(super::alloc::Miss::Full));
        }
        Ok(charges)
    }

    /// What an inode gives up for what an intent writes: a set of attributes gets a new place.
    fn replaced_bytes(&self, intent: &Intent) -> u64 {
        let Intent::Write { ino, fork: Fork::Xattr, .. } = *intent else { return 0 };
        let len_bytes = u64::from(self.files.core(ino).xattr_bytes());
        let blocks = 0..len_bytes.div_ceil(self.geo.block_bytes());
        let frags: u32 = blocks.map(|index| self.geo.frags_at(index, len_bytes, false)).sum();
        u64::from(frags) * u64::from(self.geo.layout.frag_bytes)
    }

    fn take_for(&mut self, intent: &Intent) -> Outcome<(Option<Owner>, u64)> {
        let block_bytes = self.geo.block_bytes();
        match *intent {
            Intent::Create { parent, kind, owner, bytes } => {
                let ino = self.take_inode(parent, kind == Kind::Directory)?;
                let fork = if kind == Kind::Symlink { Fork::Data } else { Fork::Xattr };
                for index in 0..bytes.div_ceil(block_bytes) {
                    self.take_block(
                        &data_key(ino, fork, index),
                        self.geo.frags_at(index, bytes, false),
                        ino,
                    )?;
                }
                return Ok((Some(owner), 1));
            }
            Intent::Write { ino, fork: Fork::Xattr, len_bytes, .. } => {
                for index in 0..len_bytes.div_ceil(block_bytes) {
                    let frags = self.geo.frags_at(index, len_bytes, false);
                    self.take_block(&data_key(ino, Fork::Xattr, index), frags, ino)?;
                }
            }
            Intent::Write { ino, fork, at_bytes, len_bytes } => {
                for index in blocks_of(at_bytes, len_bytes, block_bytes) {
                    self.take_if_hole(ino, fork, index)?;
                }
            }
            Intent::Reserve { ino, at_bytes, len_bytes } => {
                for index in blocks_of(at_bytes, len_bytes, block_bytes) {
                    self.take_if_hole(ino, Fork::Data, index)?;
                }
            }
            Intent::Resize { ino, .. } => self.take_tails(ino)?,
            Intent::Change { .. } | Intent::Edit { .. } | Intent::Punch { .. } | Intent::Free { .. } => {
                return Ok((None, 0));
            }
        }
        let (Intent::Write { ino, .. } | Intent::Reserve { ino, .. } | Intent::Resize { ino, .. }) = *intent
        else {
            return Ok((None, 0));
        };
        if matches!(intent, Intent::Reserve { .. }) {
            self.take_tails(ino)?;
        }
        let Inode { uid, gid, .. } = self.files.core(ino).inode;
        Ok((Some(Owner { uid, gid }), 0))
    }

    fn take_if_hole(&mut self, ino: InodeNo, fork: Fork, index: u64) -> Outcome<()> {
        let key = data_key(ino, fork, index);
        if self.operation.grants.contains_key(&key) || self.ptr(&key)? != 0 {
            return Ok(());
        }
        let mut frags = self.geo.block_frags();
        if fork == Fork::Data {
            let Shape { mut size_bytes, mut whole_tail, .. } = self.files.core(ino).map.shape;
            if let Some(reshape) = self.operation.reshapes.iter().find(|reshape| reshape.ino == ino) {
                (size_bytes, whole_tail) = (reshape.size_bytes, reshape.whole_tail);
            }
            frags = self.geo.frags_at(index, size_bytes, whole_tail);
        }
        self.take_block(&key, frags, ino)
    }

    /// Gives back all places that were not used.
    pub(super) fn give_back_places(&mut self) {
        let grants = std::mem::take(&mut self.operation.grants);
        for grant in grants.into_values() {
            let run = Run { addr: grant.run.addr + grant.had, frags: grant.run.frags - grant.had };
            let given = self.groups.give(run);
            debug_assert_eq!(given, Ok(true), "places taken in this operation can be given back");
        }
        if let Some((ino, _, is_dir)) = self.operation.new_inode.take() {
            let given = self.groups.give_inode(ino.0 as u32, is_dir);
            debug_assert_eq!(given, Ok(true), "places taken in this operation can be given back");
        }
    }
}

/// Whether an operation reserves blocks of an inode: then blocks that it punches are not dropped but become unwritten.
pub fn reserves(intents: &[Intent], ino: InodeNo) -> bool {
    intents.iter().any(|intent| matches!(*intent, Intent::Reserve { ino: i, .. } if i == ino))
}
