//! The seam: `Store` for the Fast File System.

use super::Ffs;
use super::base::{Geo, addr_of, is_written};
use super::inode::{CoreInode, file_max_bytes};
use super::map::data_key;
use super::operation::{Before, OP_MAX_BYTES, blocks_of};
use crate::digest::Digest;
use crate::dirent::DIR_UNIT_MIN_BYTES;
use crate::error::{FsError, Outcome, Stop, gather_needs};
use crate::inode::Inode;
use crate::store::content::Content;
use crate::store::{
    Atomicity, BlockKey, Buf, Extent, Fork, Intent, Op, OpKind, Piece, ReadPlan, Recharge, Scope, Space,
    Store, StoreFacts, Ticket, zero_buf,
};
use firnfs_format::ffs::Superblock;
use firnfs_format::{BlockIndex, InodeNo, TimeNs};

/// Longest read that is planned at once, in bytes.
const READ_MAX_BYTES: u64 = 1 << 20;
/// Clean blocks that stay in memory even if it is short: as many as an operation or a read needs at once.
const KEPT_BYTES: u64 = 2 * READ_MAX_BYTES;
/// Blocks that one search for an extent passes.
const EXTENT_BLOCKS: u32 = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Hole,
    Unwritten,
    Data,
}

impl Ffs {
    /// One block of a read that is in memory, or is zeros.
    fn piece(&mut self, key: &BlockKey, start: usize, len_bytes: usize) -> Outcome<Result<Piece, u32>> {
        let ptr = self.ptr(key)?;
        if !is_written(ptr) {
            return Ok(Ok(Piece::Zeros { len_bytes }));
        }
        let found = self.cache.get(key, addr_of(ptr));
        Ok(found.map(|buf| Piece::Memory { buf: buf.clone(), start, len_bytes }).ok_or(ptr))
    }

    fn kind_at(&mut self, ino: InodeNo, index: u64) -> Outcome<(u64, BlockKind)> {
        let ptr = self.ptr(&data_key(ino, Fork::Data, index))?;
        match ptr {
            0 => {}
            _ if is_written(ptr) => return Ok((1, BlockKind::Data)),
            _ => return Ok((1, BlockKind::Unwritten)),
        }
        let way: Vec<_> = self.geo.map.path(BlockIndex(index)).collect();
        for (level, at) in way.into_iter().rev().filter(|(level, _)| *level <= Geo::levels(Fork::Data)) {
            if self.ptr(&BlockKey { ino, fork: Fork::Data, level, index: at })? == 0 {
                let end = self.geo.map.first_data(level, at).0.saturating_add(self.geo.map.span(level));
                return Ok((end - index, BlockKind::Hole));
            }
        }
        Ok((u64::MAX - index, BlockKind::Hole))
    }

    /// Keeps memory within its bound by dropping what is idle and cold.
    pub(super) fn shrink_memory(&mut self) {
        let limit = self.options.cache_bytes;
        self.files.shrink(limit / 4);
        self.inode_blocks.shrink();
        self.cache.shrink((limit - limit / 4).max(KEPT_BYTES));
    }
}

/// Inode numbers that one [`Store::inodes_from`] looks at: those of a block of the table or more.
const LISTED_AT_ONCE: u64 = 256;

/// Sizes and promises of a volume.
pub(crate) fn facts_of(sb: &Superblock) -> StoreFacts {
    // With reallocation the last blocks of a file move before a place is sought for the next one, as 4.4BSD's write(2) did it.
    let op_max_bytes = if sb.tuning.reallocates { sb.layout.block_bytes.into() } else { OP_MAX_BYTES };
    StoreFacts {
        block_bytes: sb.layout.block_bytes,
        inline_max_bytes: 0,
        inline_xattr_max_bytes: 0,
        file_max_bytes: file_max_bytes(&Geo::new(sb.layout)),
        op_max_bytes,
        read_max_bytes: READ_MAX_BYTES,
        dir_unit_bytes: DIR_UNIT_MIN_BYTES as u32,
        hash_key: sb.hash_key,
        atomicity: Atomicity::Ordered,
        has_checksums: false,
        keeps_content: true,
    }
}

impl Store for Ffs {
    fn facts(&self) -> StoreFacts {
        facts_of(&self.sb)
    }

    fn space(&self) -> Space {
        let frag_bytes = u64::from(self.geo.layout.frag_bytes);
        let (free, reserve) = (self.groups.free_frags(), self.reserve_frags());
        let inodes = u64::from(self.geo.layout.groups) * u64::from(self.geo.layout.group_inodes);
        let reserved = InodeNo::FIRST_USER.0 - 1;
        Space {
            total_bytes: (self.data_frags() - reserve) * frag_bytes,
            free_bytes: free.saturating_sub(reserve) * frag_bytes,
            inodes_used: inodes.saturating_sub(self.groups.free_inodes() + reserved),
            inodes_free: self.groups.free_inodes(),
        }
    }

    fn inode(&mut self, ino: InodeNo) -> Outcome<&Inode> {
        Ok(&self.living_inode(ino)?.inode)
    }

    fn block(&mut self, ino: InodeNo, fork: Fork, index: BlockIndex) -> Outcome<Buf> {
        self.load_inode(ino)?;
        let block = self.load(&BlockKey { ino, fork, level: 0, index })?;
        Ok(block.unwrap_or_else(|| zero_buf(self.geo.layout.block_bytes as usize)))
    }

    fn digest(&mut self, ino: InodeNo, fork: Fork, index: BlockIndex) -> Option<&Digest> {
        let key = BlockKey { ino, fork, level: 0, index };
        self.files.peek(ino)?;
        let ptr = self.ptr(&key).ok()?;
        self.cache.digest(&key).filter(|(addr, _)| *addr == ptr).map(|(_, digest)| digest)
    }

    fn keep_digest(&mut self, ino: InodeNo, fork: Fork, index: BlockIndex, digest: Digest) {
        let key = BlockKey { ino, fork, level: 0, index };
        if self.files.peek(ino).is_some()
            && let Ok(ptr) = self.ptr(&key)
        {
            self.cache.keep_digest(&key, ptr, digest);
        }
    }

    fn read(&mut self, ino: InodeNo, at_bytes: u64, len_bytes: u64) -> Outcome<ReadPlan> {
        let before = self.load_inode(ino)?.last_read;
        let mut last = before;
        let block_bytes = self.geo.block_bytes();
        let end = at_bytes + len_bytes;
        let (mut pieces, mut needs) = (Vec::new(), Vec::new());
        let (mut at, mut fetched_to) = (at_bytes, 0);
        while at < end {
            let index = at / block_bytes;
            let key = data_key(ino, Fork::Data, index);
            let start = (at % block_bytes) as usize;
            let len = (block_bytes - start as u64).min(end - at) as usize;
            match gather_needs(self.piece(&key, start, len), &mut needs)? {
                Some(Ok(piece)) => pieces.push(piece),
                Some(Err(ptr)) if index >= fetched_to => {
                    let is_sequential = last.is_some_and(|last| last + 1 == index);
                    let fetch = self.fetch_run(&key, ptr, is_sequential)?;
                    fetched_to = index + u64::from(fetch.len_bytes).div_ceil(block_bytes);
                    needs.push(fetch);
                }
                Some(Err(_)) | None => {}
            }
            last = Some(index);
            at += len as u64;
        }
        needs.dedup();
        if !needs.is_empty() {
            return Err(Stop::Need(needs));
        }
        self.files.core_mut(ino).last_read = last;
        let first = at_bytes / block_bytes;
        let soon = self.read_ahead(ino, before, first, last.unwrap_or(first));
        Ok(ReadPlan { pieces, soon: soon.into_iter().collect(), pin: 0 })
    }

    fn extent(&mut self, ino: InodeNo, at_bytes: u64, limit_bytes: u64) -> Outcome<Extent> {
        self.load_inode(ino)?;
        let block_bytes = self.geo.block_bytes();
        let end = at_bytes.saturating_add(limit_bytes);
        let (mut at, mut kind) = (at_bytes, None);
        for _ in 0..EXTENT_BLOCKS {
            if at >= end {
                break;
            }
            let (blocks, kind_here) = self.kind_at(ino, at / block_bytes)?;
            if *kind.get_or_insert(kind_here) != kind_here {
                break;
            }
            at = (at / block_bytes).saturating_add(blocks).saturating_mul(block_bytes);
        }
        let kind = kind.unwrap_or(BlockKind::Hole);
        let (is_data, is_charged) = (kind == BlockKind::Data, kind != BlockKind::Hole);
        Ok(Extent { len_bytes: at.min(end) - at_bytes, is_data, is_charged })
    }

    fn refuse_growth(&mut self, blocks: u64) -> Outcome<()> {
        let pointers = self.geo.map.pointers_per_block();
        let indirect = blocks / pointers + 3;
        let frags = blocks.saturating_add(indirect).saturating_mul(self.geo.block_frags().into());
        if self.groups.free_frags().saturating_sub(self.reserve_frags()) >= frags {
            return Ok(());
        }
        Err(self.overcome_miss(super::alloc::Miss::Full))
    }

    fn begin(&mut self, now: TimeNs, kind: OpKind, intents: &[Intent]) -> Outcome<Op> {
        if let Some(why) = &self.standing.read_only {
            return Err(FsError::ReadOnly(why.clone()).into());
        }
        if self.closed.is_some() {
            return Err(FsError::ReadOnly("the volume was closed".to_owned()).into());
        }
        if self.must_wait() {
            return Err(Stop::Room);
        }
        let charges = self.prepare(kind, intents)?;
        self.note_dirty(now);
        self.operation.declared.start(intents);
        Ok(Op::granted(now, kind, charges))
    }

    fn inode_alloc(&mut self, _op: &mut Op, mut inode: Inode) -> InodeNo {
        let (ino, generation, _) = self.operation.new_inode.take().expect("the new inode was declared");
        inode.generation = generation.into();
        self.files.insert(ino, CoreInode::fresh(inode));
        self.files.mark(ino);
        self.operation.declared.created(ino);
        // Its tail is as long as its content.
        self.settle(ino);
        ino
    }

    fn inode_mut(&mut self, _op: &mut Op, ino: InodeNo) -> &mut Inode {
        self.files.mark(ino);
        let core = self.files.core_mut(ino);
        self.operation.declared.check_inode(ino, &core.inode);
        let is_known = |before: &Before| before.ino == ino;
        if !self.operation.before.iter().any(is_known) {
            let Inode { nlink, parent, .. } = core.inode;
            self.operation.before.push(Before { ino, nlink, parent });
        }
        &mut core.inode
    }

    fn inode_free(&mut self, _op: &mut Op, ino: InodeNo) {
        self.operation.declared.check_free(ino);
        self.free_inode(ino);
    }

    fn write(&mut self, _op: &mut Op, ino: InodeNo, fork: Fork, at_bytes: u64, content: Content<'_>) {
        self.operation.declared.check_write(ino, fork, at_bytes, content.len_bytes() as u64);
        self.write_bytes(ino, fork, at_bytes, content);
    }

    fn block_mut(&mut self, _op: &mut Op, ino: InodeNo, fork: Fork, index: BlockIndex) -> &mut [u8] {
        self.operation.declared.check_in_place(ino, fork, index, self.geo.block_bytes());
        let key = BlockKey { ino, fork, level: 0, index };
        self.note_touch(&key);
        self.block_in_place(&key)
    }

    fn punch(&mut self, _op: &mut Op, ino: InodeNo, fork: Fork, at_bytes: u64, len_bytes: u64) {
        self.operation.declared.check_punch(ino, fork, at_bytes, len_bytes);
        self.punch_bytes(ino, fork, at_bytes, len_bytes);
    }

    fn reserve(&mut self, _op: &mut Op, ino: InodeNo, at_bytes: u64, len_bytes: u64) {
        self.operation.declared.check_reserve(ino, at_bytes, len_bytes);
        self.reserve_range(ino, blocks_of(at_bytes, len_bytes, self.geo.block_bytes()));
    }

    fn abandon(&mut self, op: Op) {
        self.operation.reshapes.clear();
        // Nothing was changed, so nothing is written.
        let _no_ticket = self.end(op);
    }

    fn end(&mut self, op: Op) -> Option<Ticket> {
        drop(op);
        for reshape in std::mem::take(&mut self.operation.reshapes) {
            if self.files.peek(reshape.ino).is_some_and(|core| !core.is_freed) {
                self.reshape(&reshape);
            }
        }
        let files = &self.files;
        let living = |ino| files.peek(ino).filter(|core| !core.is_freed).map(|core| &core.inode);
        self.operation.declared.finish(living);
        let touched: Vec<InodeNo> = self.operation.declared.inodes().collect();
        for &ino in &touched {
            let Some(core) = self.files.peek(ino).filter(|core| !core.is_freed) else { continue };
            if core.inode.nlink == 0 {
                self.nameless.insert(ino);
            } else {
                self.nameless.remove(&ino);
            }
            self.settle(ino);
        }
        self.give_back_places();
        let ticket = if self.operation.is_names { self.write_names() } else { None };
        self.write_behind();
        self.operation.before.clear();
        self.operation.touches.clear();
        self.operation.shrunk.clear();
        self.operation.freed.clear();
        self.release_ready();
        self.shrink_memory();
        ticket
    }

    fn note_access(&mut self, _dir: InodeNo, _ino: InodeNo) {}

    fn set_atime(&mut self, ino: InodeNo, atime: TimeNs) {
        if let Some(core) = self.files.get(ino) {
            core.inode.atime = atime;
            if self.standing.read_only.is_none() && self.closed.is_none() && !core.is_freed {
                self.files.mark(ino);
                self.note_dirty(atime);
            }
        }
    }

    fn allocated_bytes(&self, ino: InodeNo) -> u64 {
        self.files
            .peek(ino)
            .map_or(0, |core| u64::from(core.map.frags) * u64::from(self.geo.layout.frag_bytes))
    }

    fn follow_charges(&mut self, follow: bool) {
        self.recharges.follow(follow);
    }

    fn take_recharges(&mut self) -> Vec<Recharge> {
        self.recharges.take()
    }

    fn inodes_from(&mut self, from: InodeNo, found: &mut Vec<InodeNo>) -> Outcome<Option<InodeNo>> {
        let layout = &self.geo.layout;
        let (first, all) =
            (from.max(InodeNo::ROOT).0, u64::from(layout.groups) * u64::from(layout.group_inodes));
        let end = all.min(first.saturating_add(LISTED_AT_ONCE));
        let before = found.len();
        for ino in first..end {
            match self.groups.is_used_inode(ino as u32) {
                Ok(true) => found.push(InodeNo(ino)),
                Ok(false) => {}
                Err(miss) => {
                    found.truncate(before);
                    return Err(self.overcome_miss(miss));
                }
            }
        }
        Ok((end < all).then_some(InodeNo(end)))
    }

    fn commit(&mut self, now: TimeNs, scope: Scope) -> Outcome<Ticket> {
        if self.options.read_only || self.closed.is_some() {
            return Ok(Ticket(self.writes.durable().0));
        }
        self.commit_scope(now, scope)
    }

    fn hears_of_closes(&self) -> bool {
        true
    }

    fn file_closed(&mut self, ino: InodeNo) -> Outcome<Option<Ticket>> {
        self.write_closed(ino)
    }

    fn orphans(&mut self) -> Outcome<Vec<InodeNo>> {
        Ok(self.nameless.iter().copied().collect())
    }

    fn is_nameless(&mut self, ino: InodeNo) -> Outcome<bool> {
        match self.load_inode(ino) {
            Ok(core) => Ok(!core.is_freed && core.inode.nlink == 0),
            Err(Stop::Fail(FsError::NotFound)) => Ok(false),
            Err(stop) => Err(stop),
        }
    }

    fn read_only(&self) -> Option<&str> {
        self.standing.read_only.as_deref()
    }
}
