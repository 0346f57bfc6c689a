//! The block map of one file in memory: finding pointers, turning blocks dirty, dropping them.
//!
//! A dirty block has a pending pointer in its parent, and its parents are dirty too, up to the inode: all of them will be
//! written, and each is charged when it turns dirty. The version that a dirty block replaces dies at once.

use crate::bmap::{Parent, SLOTS};
use crate::cache::{Dirty, Fresh};
use crate::error::{FsError, Outcome, Stop};
use crate::fetch::Fetch;
use crate::inode::Kind;
use crate::lfs::Lfs;
use crate::lfs::base::kinds::LogKind;
use crate::lfs::map::inode::{BlockPlace, CoreInode};
use crate::states::branch_of;
use crate::store::{BlockKey, Buf, Fork, zero_buf};
use firnfs_format::pointer::POINTER_BYTES;
use firnfs_format::{BlockPtr, InodeNo, PtrKind, SECTOR_BYTES};
use std::ops::Range;

/// A block of an inode and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Which block.
    pub key: BlockKey,
    /// Where; pending while it is dirty.
    pub ptr: BlockPtr,
}

/// Why a block turns dirty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lfs) enum Turn {
    /// Its content changes.
    Changes,
    /// It moves. The content stays what it is, but for the places of what it leads to.
    Moves,
}

/// A range of data blocks to drop, how many may be dropped at once, and the blocks that have to be read first.
pub(in crate::lfs) struct Pruning {
    pub range: Range<u64>,
    /// Blocks that may still be dropped.
    pub budget: u64,
    /// Blocks visited.
    pub seen: u64,
    /// Blocks that have to be read before more can be dropped.
    pub needs: Vec<Fetch>,
}

/// Fetches that one survey gathers before it asks for them.
const NEEDS_AT_ONCE: usize = 16;

pub(in crate::lfs) fn ptr_in(block: &[u8], slot: usize) -> BlockPtr {
    let bytes = &block[slot * POINTER_BYTES..][..POINTER_BYTES];
    BlockPtr::decode(bytes.try_into().expect("a whole pointer"))
}

fn put_ptr(block: &mut [u8], slot: usize, ptr: BlockPtr) {
    block[slot * POINTER_BYTES..][..POINTER_BYTES].copy_from_slice(&ptr.encode());
}

impl Lfs {
    pub(in crate::lfs) fn core(&self, ino: InodeNo) -> &CoreInode {
        self.files.peek(ino).expect("the inode was looked at in this operation")
    }

    pub(in crate::lfs) fn core_mut(&mut self, ino: InodeNo) -> &mut CoreInode {
        self.files.get(ino).expect("the inode was looked at in this operation")
    }

    /// Pointer to a block of an inode in memory.
    pub(in crate::lfs) fn ptr(&mut self, key: BlockKey) -> Outcome<BlockPtr> {
        match self.geo.map.parent(key.level, key.index) {
            None => Ok(BlockPtr::HOLE),
            Some(Parent::Inode(slot)) => Ok(self.core(key.ino).root(key.fork, slot)),
            Some(Parent::Indirect { level, index, slot }) => {
                let parent = BlockKey { level, index, ..key };
                if let Some(block) = self.shelf.cache.get(&parent) {
                    return Ok(ptr_in(&block.buf, slot));
                }
                let ptr = self.ptr(parent)?;
                if ptr.is_hole() {
                    return Ok(BlockPtr::HOLE);
                }
                self.stored_block(parent, ptr).map(|b| ptr_in(&b, slot))
            }
        }
    }

    pub(in crate::lfs) fn stored_block(&mut self, key: BlockKey, ptr: BlockPtr) -> Outcome<Buf> {
        let ptr = self.place_now(&key, ptr)?;
        self.shelf.block(key, ptr)
    }

    /// Pointer to a block, if it is known without I/O: for checking that a fetched block is still wanted.
    pub(in crate::lfs) fn peek_ptr(&self, key: &BlockKey) -> Option<BlockPtr> {
        let core = self.files.peek(key.ino)?;
        match self.geo.map.parent(key.level, key.index)? {
            Parent::Inode(slot) => Some(core.root(key.fork, slot)),
            Parent::Indirect { level, index, slot } => {
                let parent = BlockKey { level, index, ..*key };
                self.shelf.cache.peek(&parent).map(|b| ptr_in(&b.buf, slot))
            }
        }
    }

    /// A block of an inode in memory; `None` for a hole or reserved room.
    pub(in crate::lfs) fn load(&mut self, key: BlockKey) -> Outcome<Option<Buf>> {
        if let Some(block) = self.shelf.cache.get(&key) {
            return Ok(Some(block.buf.clone()));
        }
        let ptr = self.ptr(key)?;
        match ptr.kind {
            PtrKind::Hole | PtrKind::Reserved => Ok(None),
            PtrKind::Plain | PtrKind::Unknown(_) => self.stored_block(key, ptr).map(Some),
        }
    }

    /// Brings the blocks that turn dirty together with a block into memory: the indirect blocks above it, up to one
    /// that is dirty already. The cache may have the block itself without these.
    pub(in crate::lfs) fn load_parents(&mut self, key: BlockKey) -> Outcome<()> {
        let mut below = key;
        while let Some(Parent::Indirect { level, index, .. }) = self.geo.map.parent(below.level, below.index)
        {
            let parent = BlockKey { level, index, ..key };
            match self.shelf.cache.peek(&parent) {
                Some(block) if block.dirty().is_some() => return Ok(()),
                Some(_) => {}
                None => {
                    let ptr = self.ptr(parent)?;
                    if !ptr.is_hole() {
                        self.stored_block(parent, ptr)?;
                    }
                }
            }
            below = parent;
        }
        Ok(())
    }

    /// Turns a block and its parents dirty. `content` replaces the block's content; without it the block keeps
    /// its content (which the caller has brought into memory) or starts as zeros. `charge_bytes` of live space
    /// are charged.
    pub(in crate::lfs) fn make_dirty(
        &mut self,
        key: BlockKey,
        content: Option<Fresh>,
        charge_bytes: u32,
        turn: Turn,
    ) {
        if let Some(dirty) = self.shelf.cache.dirty(&key) {
            self.redirty(key, dirty, content, charge_bytes, turn);
            return;
        }
        let old = self.point_parent(key, BlockPtr::PENDING, turn);
        // Before the old version dies: after that its segment may be overwritten.
        let origin = if key.level == 0 { self.origin_of(&old) } else { None };
        self.replace_block(key, &old, charge_bytes, turn);
        if turn == Turn::Changes {
            self.note_chunk(key.ino, &old);
        }
        let moves = (turn == Turn::Moves && old.is_stored()).then_some(old);
        let dirty = Dirty { charged_bytes: charge_bytes, moves, origin };
        match content {
            Some(fresh) => self.shelf.cache.insert_dirty(key, fresh, dirty),
            None if old.is_stored() => self.shelf.cache.set_dirty(&key, dirty),
            None => {
                let zeros = zero_buf(self.geo.block_bytes as usize);
                self.shelf.cache.insert_dirty(key, Fresh { buf: zeros, crc: None }, dirty);
            }
        }
    }

    /// A block turns dirty: its stored version dies or leaves its place, and the new one is charged and listed.
    fn replace_block(&mut self, key: BlockKey, old: &BlockPtr, charge_bytes: u32, turn: Turn) {
        let died_bytes = self.charge_of(old);
        self.recount(u64::from(died_bytes), 0);
        self.recount(0, u64::from(charge_bytes));
        let names = self.operation.is_names;
        let core = self.core_mut(key.ino);
        let kind = LogKind::of_block(key.fork, key.level, core.inode.kind == Kind::Directory);
        core.dirty_blocks.insert(&BlockPlace { level: key.level, fork: key.fork, index: key.index });
        let is_turned = turn == Turn::Moves || !core.only_moves;
        let is_marked = is_turned && core.dirty.is_some_and(|dirty| dirty.names || !names);
        let stated_bytes = core.charged_bytes;
        core.charged_bytes = stated_bytes.saturating_sub(u64::from(died_bytes)) + u64::from(charge_bytes);
        self.note_recharge(key.ino, stated_bytes);
        if stated_bytes < u64::from(died_bytes) {
            self.wrong_account(format!("charge of inode {}", key.ino), u64::from(died_bytes), stated_bytes);
        }
        if !is_marked {
            self.mark_turned(key.ino, turn);
        }
        match turn {
            Turn::Changes => self.bury(&self.place_of(&key), kind, old),
            Turn::Moves => self.vacate(kind, old),
        }
    }

    fn redirty(
        &mut self,
        key: BlockKey,
        mut dirty: Dirty,
        content: Option<Fresh>,
        charge_bytes: u32,
        turn: Turn,
    ) {
        if let Some(old) = dirty.moves.filter(|_| turn == Turn::Changes) {
            // The blocks above moved with it, and change with it.
            self.point_parent(key, BlockPtr::PENDING, turn);
            self.bury_vacated(&self.place_of(&key), self.kind_of(&key), &old);
            self.shelf.cache.note_change(&key);
            dirty.moves = None;
        }
        if let Some(fresh) = content.filter(|_| turn == Turn::Changes) {
            self.shelf.cache.insert_dirty(key, fresh, dirty);
        }
        if charge_bytes > dirty.charged_bytes {
            self.charge(key.ino, charge_bytes - dirty.charged_bytes);
            self.shelf.cache.recharge(&key, charge_bytes);
        }
    }

    /// Sets the pointer to a block in its parent, which turns dirty. Returns the pointer it had.
    pub(in crate::lfs) fn point_parent(&mut self, key: BlockKey, ptr: BlockPtr, turn: Turn) -> BlockPtr {
        match self.geo.map.parent(key.level, key.index).expect("begin checked the reach of the block map") {
            Parent::Inode(slot) => {
                let core = self.core_mut(key.ino);
                let old = core.root(key.fork, slot);
                core.set_root(key.fork, slot, ptr);
                self.mark_turned(key.ino, turn);
                old
            }
            Parent::Indirect { level, index, slot } => {
                let parent = BlockKey { level, index, ..key };
                let block_bytes = self.geo.block_bytes;
                let is_ready = self.shelf.cache.dirty(&parent).is_some_and(|dirty| {
                    dirty.charged_bytes >= block_bytes && (turn == Turn::Moves || dirty.moves.is_none())
                });
                if !is_ready {
                    self.make_dirty(parent, None, block_bytes, turn);
                }
                let block = self.shelf.cache.content_mut(&parent).expect("dirty blocks are in memory");
                let old = ptr_in(block, slot);
                put_ptr(block, slot, ptr);
                old
            }
        }
    }

    /// Notes the address of a block that is being laid out, for its parent, which is dirty anyway.
    pub(in crate::lfs) fn note_placed(&mut self, key: BlockKey, ptr: BlockPtr, unsettled: &mut Unsettled) {
        match self.geo.map.parent(key.level, key.index).expect("only blocks within reach turn dirty") {
            Parent::Inode(slot) => self.core_mut(key.ino).set_root(key.fork, slot, ptr),
            Parent::Indirect { level, index, slot } => {
                let parent = BlockKey { level, index, ..key };
                if unsettled.parent != Some(parent) {
                    self.settle(unsettled);
                    unsettled.parent = Some(parent);
                }
                unsettled.ptrs.push((slot, ptr));
            }
        }
    }

    /// Puts noted addresses into their parent.
    pub(in crate::lfs) fn settle(&mut self, unsettled: &mut Unsettled) {
        let Some(parent) = unsettled.parent.take() else { return };
        let block = self.shelf.cache.content_mut(&parent).expect("parents of dirty blocks are dirty");
        for (slot, ptr) in unsettled.ptrs.drain(..) {
            put_ptr(block, slot, ptr);
        }
    }

    /// The operation ends: last blocks that wait to be laid out are charged up to the new ends of their files, as was admitted. After an
    /// operation that was abandoned the ends are the old ones.
    pub(in crate::lfs) fn charge_tails(&mut self) {
        while let Some((key, paid_bytes)) = self.operation.next_tail() {
            let Some(dirty) = self.shelf.cache.dirty(&key) else { continue };
            let charge_bytes = self.tariff(key.ino, Fork::Data, 0).of(key.index.0).min(paid_bytes);
            self.redirty(key, dirty, None, charge_bytes, Turn::Changes);
        }
    }

    pub(in crate::lfs) fn charge(&mut self, ino: InodeNo, bytes: u32) {
        self.recount(0, u64::from(bytes));
        let core = self.core_mut(ino);
        let before_bytes = core.charged_bytes;
        core.charged_bytes += u64::from(bytes);
        self.note_recharge(ino, before_bytes);
    }

    /// For those who follow charges: what an inode in use is charged has changed. Nobody is charged for what is in clones.
    fn note_recharge(&mut self, ino: InodeNo, before_bytes: u64) {
        if !self.recharges.are_followed() {
            return;
        }
        if let Some(core) = self.files.peek(ino).filter(|core| !core.freed && branch_of(ino) == 0) {
            self.recharges.note(ino, &core.inode, before_bytes, core.charged_bytes);
        }
    }

    pub(in crate::lfs) fn refund(&mut self, ino: InodeNo, bytes: u32) {
        let bytes = u64::from(bytes);
        self.recount(bytes, 0);
        let core = self.core_mut(ino);
        let stated = core.charged_bytes;
        core.charged_bytes = stated.saturating_sub(bytes);
        self.note_recharge(ino, stated);
        if stated < bytes {
            self.wrong_account(format!("charge of inode {ino}"), bytes, stated);
        }
    }

    /// The block that a pointer referred to dies.
    fn release(&mut self, key: &BlockKey, ptr: &BlockPtr) {
        let bytes = self.charge_of(ptr);
        self.bury(&self.place_of(key), self.kind_of(key), ptr);
        self.refund(key.ino, bytes);
    }

    /// Live bytes charged for the block of a pointer (not a pending one).
    pub(in crate::lfs) fn charge_of(&self, ptr: &BlockPtr) -> u32 {
        match ptr.kind {
            PtrKind::Hole => 0,
            PtrKind::Reserved => self.geo.block_bytes,
            PtrKind::Plain | PtrKind::Unknown(_) => ptr.stored_bytes(),
        }
    }

    /// Drops one block whose pointer was `ptr`; the caller changes the parent's pointer.
    fn drop_block(&mut self, key: BlockKey, ptr: &BlockPtr) {
        let cached = self.shelf.cache.remove(&key);
        if ptr.is_pending() {
            let dirty = cached.and_then(|b| b.dirty()).expect("pending blocks are dirty in memory");
            if let Some(old) = dirty.moves {
                self.bury_vacated(&self.place_of(&key), self.kind_of(&key), &old);
            }
            self.refund(key.ino, dirty.charged_bytes);
            let place = BlockPlace { level: key.level, fork: key.fork, index: key.index };
            self.core_mut(key.ino).dirty_blocks.remove(&place);
        } else {
            self.release(&key, ptr);
        }
    }

    /// Finds the blocks that dropping a range would touch, and drops none: fills in `needs`, counts down the budget.
    pub(in crate::lfs) fn survey(&mut self, ino: InodeNo, fork: Fork, pruning: &mut Pruning) -> Outcome<()> {
        for slot in (0..SLOTS).rev() {
            let (level, index) = crate::bmap::Geometry::root(slot);
            let ptr = self.core(ino).root(fork, slot);
            self.survey_below(BlockKey { ino, fork, level, index }, &ptr, pruning)?;
        }
        Ok(())
    }

    fn survey_below(&mut self, key: BlockKey, ptr: &BlockPtr, pruning: &mut Pruning) -> Outcome<()> {
        if ptr.is_hole() || pruning.is_done() || !self.overlaps(&key, &pruning.range) {
            return Ok(());
        }
        pruning.seen += 1;
        self.check_tree(key.ino, pruning.seen)?;
        if key.level > 0 {
            let block = match self.stored_block(key, *ptr) {
                Err(Stop::Need(more)) => {
                    pruning.needs.extend(more);
                    return Ok(());
                }
                other => other?,
            };
            for slot in (0..self.geo.map.pointers_per_block() as usize).rev() {
                let index = self.geo.map.child(key.level, key.index, slot);
                let child = BlockKey { level: key.level - 1, index, ..key };
                self.survey_below(child, &ptr_in(&block, slot), pruning)?;
            }
        }
        pruning.budget = pruning.budget.saturating_sub(1);
        Ok(())
    }

    /// Makes sure that a walk through the block tree of an inode ends: each block in it is charged a sector at least, so
    /// a tree with more blocks than charged sectors leads into itself.
    pub(in crate::lfs) fn check_tree(&self, ino: InodeNo, seen_blocks: u64) -> Result<(), FsError> {
        let charged_bytes = self.core(ino).charged_bytes;
        if seen_blocks <= charged_bytes / u64::from(SECTOR_BYTES) {
            return Ok(());
        }
        Err(FsError::Corrupt {
            what: format!("block tree of inode {ino}"),
            at: self.geo.place(self.core(ino).record.addr),
            expected: format!("no more blocks than the {charged_bytes} bytes charged have room for"),
            found: format!("{seen_blocks} blocks"),
        })
    }

    fn overlaps(&self, key: &BlockKey, range: &Range<u64>) -> bool {
        let first = self.geo.map.first_data(key.level, key.index).0;
        first < range.end && first.saturating_add(self.geo.map.span(key.level)) > range.start
    }

    /// Drops a range of data blocks and the indirect blocks that become empty, from its end, until the budget is spent.
    /// All blocks that it needs are in memory, because [`Self::survey`] ran with the same budget. Returns true if all
    /// are dropped.
    pub(in crate::lfs) fn prune(&mut self, ino: InodeNo, fork: Fork, pruning: &mut Pruning) -> bool {
        for slot in (0..SLOTS).rev() {
            let (level, index) = crate::bmap::Geometry::root(slot);
            let ptr = self.core(ino).root(fork, slot);
            let key = BlockKey { ino, fork, level, index };
            if self.prune_below(key, &ptr, pruning) == Pruned::Gone {
                self.core_mut(ino).set_root(fork, slot, BlockPtr::HOLE);
                self.mark_inode(ino, false);
            }
        }
        pruning.budget > 0
    }

    fn prune_below(&mut self, key: BlockKey, ptr: &BlockPtr, pruning: &mut Pruning) -> Pruned {
        if ptr.is_hole() || pruning.budget == 0 || !self.overlaps(&key, &pruning.range) {
            return Pruned::Stays;
        }
        if key.level > 0 && !self.prune_children(key, ptr, pruning) {
            return Pruned::Stays;
        }
        self.drop_block(key, ptr);
        pruning.budget = pruning.budget.saturating_sub(1);
        Pruned::Gone
    }

    /// Returns true if no child is left.
    fn prune_children(&mut self, key: BlockKey, ptr: &BlockPtr, pruning: &mut Pruning) -> bool {
        let Ok(block) = self.stored_block(key, *ptr) else {
            pruning.budget = 0;
            return false;
        };
        let mut gone = Vec::new();
        let mut left = false;
        for slot in (0..self.geo.map.pointers_per_block() as usize).rev() {
            let child_ptr = ptr_in(&block, slot);
            if child_ptr.is_hole() {
                continue;
            }
            let index = self.geo.map.child(key.level, key.index, slot);
            match self.prune_below(BlockKey { level: key.level - 1, index, ..key }, &child_ptr, pruning) {
                Pruned::Gone => gone.push(slot),
                Pruned::Stays => left = true,
            }
        }
        if !left || gone.is_empty() {
            return !left;
        }
        self.make_dirty(key, None, self.geo.block_bytes, Turn::Changes);
        let block = self.shelf.cache.content_mut(&key).expect("dirty blocks are in memory");
        for slot in gone {
            put_ptr(block, slot, BlockPtr::HOLE);
        }
        false
    }

    /// Sectors that a block takes when it is stored now: a file's data up to its end, but no more than it is charged (beyond
    /// that are zeros: the file was extended while the block was stored, and now the block moves); metadata up to its last byte
    /// that is not zero. At least one sector. An account that is wrong cuts nothing off.
    pub(in crate::lfs) fn stored_sectors(&self, key: &BlockKey, is_data: bool, size_bytes: u64) -> u8 {
        let block_bytes = u64::from(self.geo.block_bytes);
        let block = self.shelf.cache.peek(key).expect("only blocks in memory are stored");
        let len = if is_data {
            let end = size_bytes.saturating_sub(key.index.0 * block_bytes).min(block_bytes);
            let charged_bytes = block.dirty().map_or(block_bytes, |dirty| u64::from(dirty.charged_bytes));
            if charged_bytes >= end {
                end
            } else {
                let used_bytes = used_bytes(&block.buf) as u64;
                debug_assert!(used_bytes <= charged_bytes, "content that nobody has paid for");
                end.min(charged_bytes.max(used_bytes))
            }
        } else {
            used_bytes(&block.buf) as u64
        };
        len.div_ceil(u64::from(SECTOR_BYTES)).max(1) as u8
    }

    /// The kind of a block of an inode in memory.
    pub(in crate::lfs) fn kind_of(&self, key: &BlockKey) -> LogKind {
        LogKind::of_block(key.fork, key.level, self.is_directory(key.ino))
    }

    pub(in crate::lfs) fn is_directory(&self, ino: InodeNo) -> bool {
        self.files.peek(ino).is_some_and(|c| c.inode.kind == Kind::Directory)
    }

    /// The charges for blocks of a fork that is about to be written up to byte `end_bytes`.
    pub(in crate::lfs) fn tariff(&self, ino: InodeNo, fork: Fork, end_bytes: u64) -> Tariff {
        let inode = &self.core(ino).inode;
        let is_trimmed = fork == Fork::Data && inode.kind != Kind::Directory;
        Tariff {
            block_bytes: self.geo.block_bytes,
            size_bytes: if is_trimmed { inode.size_bytes.max(end_bytes) } else { u64::MAX },
        }
    }
}

/// Addresses of blocks that were just laid out, to be put into their parent: those of neighbours go there together.
#[derive(Default)]
pub(in crate::lfs) struct Unsettled {
    parent: Option<BlockKey>,
    /// By slot.
    ptrs: Vec<(usize, BlockPtr)>,
}

impl Unsettled {
    /// True if addresses are missing in that block.
    pub fn belong_in(&self, key: &BlockKey) -> bool {
        self.parent == Some(*key)
    }
}

/// Live bytes to charge for the data blocks of a fork: those of a file end where the file ends, others are charged whole.
#[derive(Clone, Copy)]
pub(in crate::lfs) struct Tariff {
    block_bytes: u32,
    size_bytes: u64,
}

impl Tariff {
    /// For one block, in bytes: whole sectors, one at least.
    pub fn of(&self, index: u64) -> u32 {
        let block_bytes = u64::from(self.block_bytes);
        let len = self.size_bytes.saturating_sub(index.saturating_mul(block_bytes)).min(block_bytes) as u32;
        len.next_multiple_of(SECTOR_BYTES).max(SECTOR_BYTES)
    }
}

#[derive(PartialEq, Eq)]
enum Pruned {
    Gone,
    Stays,
}

impl Pruning {
    /// Nothing seen yet.
    pub(in crate::lfs) fn new(range: Range<u64>, budget: u64) -> Self {
        Self { range, budget, seen: 0, needs: Vec::new() }
    }

    fn is_done(&self) -> bool {
        self.budget == 0 || self.needs.len() >= NEEDS_AT_ONCE
    }
}

/// Length of a block without its trailing zeros.
fn used_bytes(block: &[u8]) -> usize {
    block.chunks_exact(16).rposition(|c| c != [0; 16]).map_or(0, |last| (last + 1) * 16)
}
