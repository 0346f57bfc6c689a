//! The changes of an operation that has begun: blocks get their places, turn dirty, are dropped. Nothing here can stop.

use super::Ffs;
use super::alloc::Run;
use super::base::{BlockPlace, SLOTS, addr_of, is_written};
use super::inode::Fresh;
use super::map::{data_key, put_pointer};
use super::operation::{Reshape, punch_parts, reserves};
use super::release::{Freed, Tree};
use crate::bmap::{DIRECT, Parent};
use crate::mutation::{Mutation, is_on};
use crate::store::content::Content;
use crate::store::{BlockKey, Buf, Fork, zero_buf};
use firnfs_format::InodeNo;
use firnfs_format::ffs::UNWRITTEN;
use std::ops::Range;

/// What is left of an indirect block after some of its pointers were dropped.
#[derive(PartialEq, Eq)]
enum Left {
    Nothing,
    Something,
}

impl Ffs {
    /// Sets the pointer to a block, in an inode or in an indirect block, which turns dirty.
    fn set_ptr(&mut self, key: &BlockKey, ptr: u32) {
        match self.geo.map.parent(key.level, key.index).expect("begin checked the reach of the fork") {
            Parent::Inode(slot) => {
                self.files.core_mut(key.ino).map.roots[key.fork as usize][slot] = ptr;
                self.files.mark(key.ino);
            }
            Parent::Indirect { level, index, slot } => {
                let parent = BlockKey { level, index, ..*key };
                self.make_dirty(&parent);
                put_pointer(self.content_mut(&parent), slot, ptr);
            }
        }
    }

    /// Turns a block dirty that has its place and is in memory.
    fn make_dirty(&mut self, key: &BlockKey) {
        let addr = addr_of(self.known_ptr(key));
        self.cache.set_dirty(key, addr);
        self.note_dirty_block(key);
    }

    fn note_dirty_block(&mut self, key: &BlockKey) {
        self.files.core_mut(key.ino).dirty_blocks.insert(BlockPlace::of(key));
        self.files.mark(key.ino);
    }

    fn content_mut(&mut self, key: &BlockKey) -> &mut [u8] {
        self.cache.content_mut(key).expect("dirty blocks are in memory")
    }

    /// Gives a block the place that was taken for it, and its indirect blocks theirs. The caller fills it.
    fn place_block(&mut self, key: &BlockKey, flag: u32) -> u32 {
        if let Some(Parent::Indirect { level, index, .. }) = self.geo.map.parent(key.level, key.index) {
            let parent = BlockKey { level, index, ..*key };
            if self.known_ptr(&parent) == 0 {
                let addr = self.place_block(&parent, 0);
                let zeros = zero_buf(self.geo.layout.block_bytes as usize);
                self.cache.insert(parent, addr, zeros, true);
                self.note_dirty_block(&parent);
            }
        }
        let grant = self.operation.grants.remove(key).expect("begin took a place for each new block");
        self.set_ptr(key, grant.run.addr | flag);
        self.count_frags(key.ino, grant.run.frags.into());
        if flag == 0 {
            self.files
                .core_mut(key.ino)
                .fresh
                .insert(BlockPlace::of(key), Fresh { write: None, was_held: false });
        }
        grant.run.addr
    }

    /// A block that is about to change: it has its place, is in memory and dirty. `whole` replaces its content.
    fn change_block(&mut self, key: &BlockKey, whole: Option<Buf>) {
        let ptr = self.known_ptr(key);
        let zeros = |this: &Self| zero_buf(this.geo.layout.block_bytes as usize);
        if ptr == 0 {
            let addr = self.place_block(key, 0);
            let content = whole.unwrap_or_else(|| zeros(self));
            self.cache.insert(*key, addr, content, true);
        } else if !is_written(ptr) {
            self.set_ptr(key, addr_of(ptr));
            let place = BlockPlace::of(key);
            self.files.core_mut(key.ino).fresh.insert(place, Fresh { write: None, was_held: true });
            let content = whole.unwrap_or_else(|| zeros(self));
            self.cache.insert(*key, addr_of(ptr), content, true);
        } else if let Some(content) = whole {
            self.cache.insert(*key, ptr, content, true);
        } else {
            self.cache.set_dirty(key, ptr);
        }
        self.note_dirty_block(key);
    }

    /// Writes bytes of a fork.
    pub(super) fn write_bytes(&mut self, ino: InodeNo, fork: Fork, at_bytes: u64, content: Content<'_>) {
        let bytes = content.bytes();
        let block_bytes = self.geo.block_bytes();
        if fork == Fork::Xattr {
            self.drop_fork(ino, fork);
        }
        let mut done = 0;
        while done < bytes.len() {
            let at = at_bytes + done as u64;
            let skip = (at % block_bytes) as usize;
            let len = (block_bytes as usize - skip).min(bytes.len() - done);
            let key = data_key(ino, fork, at / block_bytes);
            let part = &bytes[done..done + len];
            if len as u64 == block_bytes {
                let ready = content.ready(key.index.0).map(|ready| ready.buf.clone());
                self.change_block(&key, Some(ready.unwrap_or_else(|| Buf::from(part))));
                if fork == Fork::Data {
                    self.operation.written.push((ino, key.index.0));
                }
            } else {
                self.change_block(&key, None);
                self.content_mut(&key)[skip..skip + len].copy_from_slice(part);
                if fork == Fork::Data && skip + len == block_bytes as usize {
                    self.operation.written.push((ino, key.index.0));
                }
            }
            done += len;
        }
    }

    /// One whole block to change in place.
    pub(super) fn block_in_place(&mut self, key: &BlockKey) -> &mut [u8] {
        self.change_block(key, None);
        self.content_mut(key)
    }

    /// Charges the holes of a range: they get places, and read as zeros.
    pub(super) fn reserve_range(&mut self, ino: InodeNo, blocks: Range<u64>) {
        for index in blocks {
            let key = data_key(ino, Fork::Data, index);
            if self.known_ptr(&key) == 0 {
                self.place_block(&key, UNWRITTEN);
            }
        }
    }

    /// Drops bytes of a fork: whole blocks become holes - or unwritten, if the operation reserves them -, parts of blocks zeros.
    pub(super) fn punch_bytes(&mut self, ino: InodeNo, fork: Fork, at_bytes: u64, len_bytes: u64) {
        if fork == Fork::Xattr {
            // A shorter set follows, which replaces all of this one.
            if at_bytes == 0 {
                self.drop_fork(ino, fork);
            }
            return;
        }
        let (edges, whole) = punch_parts(at_bytes, len_bytes, self.geo.block_bytes());
        for (index, bytes) in edges.into_iter().flatten() {
            let key = data_key(ino, fork, index);
            if is_written(self.known_ptr(&key)) {
                self.change_block(&key, None);
                self.content_mut(&key)[bytes].fill(0);
            }
        }
        if reserves(self.operation.declared.intents(), ino) {
            whole.for_each(|index| self.unwrite(&data_key(ino, fork, index)));
        } else {
            self.drop_range(ino, fork, &whole);
        }
        if self.operation.is_names && fork == Fork::Data {
            self.operation.shrunk.push(ino);
        }
    }

    /// Makes a block that has its place read as zeros.
    fn unwrite(&mut self, key: &BlockKey) {
        let ptr = self.known_ptr(key);
        if !is_written(ptr) {
            return;
        }
        self.set_ptr(key, ptr | UNWRITTEN);
        self.forget_block(key);
    }

    /// A block has no content any more.
    fn forget_block(&mut self, key: &BlockKey) -> Option<Fresh> {
        self.cache.remove(key);
        let core = self.files.core_mut(key.ino);
        core.dirty_blocks.remove(&BlockPlace::of(key));
        core.fresh.remove(&BlockPlace::of(key))
    }

    /// Drops all blocks of a fork.
    pub(super) fn drop_fork(&mut self, ino: InodeNo, fork: Fork) {
        self.drop_range(ino, fork, &(0..u64::MAX));
    }

    fn drop_range(&mut self, ino: InodeNo, fork: Fork, range: &Range<u64>) {
        for slot in 0..SLOTS {
            let (level, index) = crate::bmap::Geometry::root(slot);
            if level > super::Geo::levels(fork) {
                break;
            }
            let key = BlockKey { ino, fork, level, index };
            let ptr = self.files.core(ino).map.roots[fork as usize][slot];
            if ptr != 0 && self.drop_below(&key, ptr, range, None) == Left::Nothing {
                self.files.core_mut(ino).map.roots[fork as usize][slot] = 0;
                self.files.mark(ino);
            }
        }
    }

    /// Drops a block and those below it as far as they lie in a range; `holder` has the pointer to it.
    fn drop_below(
        &mut self,
        key: &BlockKey,
        ptr: u32,
        range: &Range<u64>,
        holder: Option<BlockPlace>,
    ) -> Left {
        let first = self.geo.map.first_data(key.level, key.index).0;
        let end = first.saturating_add(self.geo.map.span(key.level));
        if first >= range.end || end <= range.start {
            return Left::Something;
        }
        let end = end.min(self.geo.blocks_max(key.fork));
        if range.start <= first && end <= range.end {
            self.detach(key, ptr, holder);
            return Left::Nothing;
        }
        let me = Some(BlockPlace::of(key));
        let mut left = false;
        let mut gone = Vec::new();
        for slot in 0..self.geo.pointers() {
            let child_ptr = self.known_pointer_in(key, ptr, slot);
            if child_ptr == 0 {
                continue;
            }
            match self.drop_below(&self.child_of(key, slot), child_ptr, range, me) {
                Left::Nothing => gone.push(slot),
                Left::Something => left = true,
            }
        }
        if !gone.is_empty() {
            self.make_dirty(key);
            let content = self.content_mut(key);
            gone.into_iter().for_each(|slot| put_pointer(content, slot, 0));
        }
        if left {
            return Left::Something;
        }
        self.detach(key, ptr, holder);
        Left::Nothing
    }

    /// Detaches a block and those below it from a file; `holder` had the pointer.
    fn detach(&mut self, key: &BlockKey, ptr: u32, holder: Option<BlockPlace>) {
        let addr = addr_of(ptr);
        let frags = self.files.core(key.ino).frags_of(&self.geo, key);
        if key.level == 0 {
            let fresh = self.forget_block(key);
            self.count_frags(key.ino, -i64::from(frags));
            self.drop_run(key.ino, Run { addr, frags }, fresh, holder);
            return;
        }
        let content = self.cache.get(key, addr).cloned();
        let me = BlockPlace::of(key);
        // The runs that this block's next write would have freed are freed with the write of its holder.
        if let Some(held) = self.files.core_mut(key.ino).held.remove(&Some(me)) {
            self.files.core_mut(key.ino).held.entry(holder).or_default().extend(held);
        }
        match content {
            Some(content) => {
                for slot in 0..self.geo.pointers() {
                    let child_ptr = super::map::pointer_at(&content, slot);
                    if child_ptr != 0 {
                        self.detach(&self.child_of(key, slot), child_ptr, holder);
                    }
                }
                let fresh = self.forget_block(key);
                self.count_frags(key.ino, -i64::from(frags));
                self.drop_run(key.ino, Run { addr, frags }, fresh, holder);
            }
            None => {
                let fresh = self.forget_block(key);
                let core = self.files.core_mut(key.ino);
                core.trees += 1;
                let generation = core.inode.generation;
                let tree = Tree { addr, level: key.level, ino: key.ino, generation, content: None };
                match fresh {
                    Some(Fresh { was_held: false, .. }) => self.free_now(Freed::Tree(tree)),
                    _ => self.hold(key.ino, holder, Freed::Tree(tree)),
                }
            }
        }
    }

    /// Fragments are no longer a file's: they are free now if nothing on disk ever referred to them, otherwise once `holder` is
    /// written.
    fn drop_run(&mut self, ino: InodeNo, run: Run, fresh: Option<Fresh>, holder: Option<BlockPlace>) {
        if run.frags == 0 {
            return;
        }
        match fresh {
            Some(Fresh { was_held: false, .. }) => self.free_now(Freed::Run(run)),
            _ if is_on(Mutation::FreeAtOnce) => self.free_now(Freed::Run(run)),
            _ => self.hold(ino, holder, Freed::Run(run)),
        }
    }

    /// Frees an inode with all its blocks.
    pub(super) fn free_inode(&mut self, ino: InodeNo) {
        for fork in [Fork::Data, Fork::Index, Fork::Xattr] {
            self.drop_fork(ino, fork);
        }
        let core = self.files.core_mut(ino);
        // The runs that its blocks held are freed with the inode's last write.
        let held: Vec<Freed> = std::mem::take(&mut core.held).into_values().flatten().collect();
        if !held.is_empty() {
            core.held.insert(None, held);
        }
        core.dirty_blocks.clear();
        core.fresh.clear();
        core.sequence = None;
        core.is_freed = true;
        let is_dir = core.inode.kind == crate::inode::Kind::Directory;
        self.hold(ino, None, Freed::Inode { ino, is_dir });
        self.files.mark(ino);
        self.nameless.remove(&ino);
        self.operation.freed.push(ino);
    }

    /// Gives a dirty block that nothing refers to yet another place.
    pub(super) fn move_block(&mut self, key: &BlockKey, addr: u32) {
        self.set_ptr(key, addr);
        self.cache.set_dirty(key, addr);
    }

    /// Gives the last blocks of a file the fragments that its new size needs.
    pub(super) fn reshape(&mut self, reshape: &Reshape) {
        let ino = reshape.ino;
        for &(index, from, to) in &reshape.changes {
            debug_assert!(index < DIRECT, "only direct blocks have fewer fragments");
            let key = data_key(ino, Fork::Data, index);
            let ptr = self.known_ptr(&key);
            if ptr == 0 {
                continue;
            }
            if to < from {
                let rest = Run { addr: addr_of(ptr) + to, frags: from - to };
                let fresh = self.files.core(ino).fresh.get(&BlockPlace::of(&key)).copied();
                self.count_frags(ino, -i64::from(rest.frags));
                self.drop_run(ino, rest, fresh, None);
                self.files.mark(ino);
                continue;
            }
            let grant =
                self.operation.grants.remove(&key).expect("begin took the fragments that a tail needs");
            self.grow_tail(&key, ptr, from, grant.run);
        }
        self.files.core_mut(ino).map.shape.whole_tail = reshape.whole_tail;
    }

    fn grow_tail(&mut self, key: &BlockKey, ptr: u32, from: u32, to: Run) {
        let old = Run { addr: addr_of(ptr), frags: from };
        let place = BlockPlace::of(key);
        let fresh = self.files.core(key.ino).fresh.get(&place).copied();
        self.count_frags(key.ino, i64::from(to.frags - from));
        let is_moved = to.addr != old.addr;
        if is_moved {
            self.drop_run(key.ino, old, fresh, None);
            let flag = if is_written(ptr) { 0 } else { UNWRITTEN };
            self.set_ptr(key, to.addr | flag);
        }
        self.files.mark(key.ino);
        if !is_written(ptr) {
            return;
        }
        let was_held = !is_moved && fresh.is_none_or(|fresh| fresh.was_held);
        let core = self.files.core_mut(key.ino);
        core.fresh.insert(place, Fresh { write: None, was_held });
        self.cache.set_dirty(key, to.addr);
        self.note_dirty_block(key);
    }

    /// An inode's new shape, at the end of an operation.
    pub(super) fn settle(&mut self, ino: InodeNo) {
        let core = self.files.core_mut(ino);
        let (size_bytes, xattr_bytes) = (core.inode.size_bytes, core.xattr_bytes());
        core.map.shape.size_bytes = size_bytes;
        core.map.shape.xattr_bytes = xattr_bytes;
        core.map.mode = core.inode.mode;
        core.map.index_blocks = u32::try_from(core.inode.index_blocks).unwrap_or(u32::MAX);
    }
}
