//! The seam: `Store` for the log-structured storage manager.

use super::Lfs;
use super::map::shelf;
use super::map::wanted::Wanted;
use super::room::space::OP_MAX_BYTES;
use crate::cache::Fresh;
use crate::digest::Digest;
use crate::error::{FsError, Outcome, Stop, gather_needs};
use crate::fetch::Soon;
use crate::inode::Inode;
use crate::lfs::map::admit::RECORD_MAX_BYTES;
use crate::lfs::map::blockmap::Tariff;
use crate::lfs::map::blockmap::Turn;
use crate::lfs::map::inode::CoreInode;
use crate::lfs::room::demand::{Demand, PRUNE_AT_ONCE};
use crate::lfs::write::commit::Cause;
use crate::lfs::write::log::META_LOG;
use crate::states::{branch_of, local};
use crate::store::content::{Content, ReadyBlock};
use crate::store::{
    Atomicity, BlockKey, Branch, Buf, Extent, Fork, Intent, Op, OpKind, Piece, Preparation, Prepared,
    ReadPlan, Recharge, Scope, Space, States, Store, StoreFacts, Ticket, padded, zero_buf,
};
use firnfs_format::checkpoint::FEATURE_QUOTAS;
use firnfs_format::table::{ImapEntry, UsageEntry};
use firnfs_format::{BlockIndex, BlockPtr, Epoch, InodeNo, PtrKind, SegmentId, TimeNs};
use std::ops::Range;

/// A stream that has come through that many segments is taken to go on into the next one.
const LONG_SEGMENTS: u64 = 3;

/// Pieces of a read for which room is made at once; one of more is rare.
const PIECES_FORESEEN: u64 = 1024;

/// Largest attribute set kept in the inode.
const INLINE_XATTR_MAX_BYTES: u32 = 1024;

impl Lfs {
    /// A data block's key.
    pub(in crate::lfs) fn data_key(ino: InodeNo, fork: Fork, index: u64) -> BlockKey {
        BlockKey { ino, fork, level: 0, index: BlockIndex(index) }
    }

    pub(in crate::lfs) fn blocks_of(&self, at_bytes: u64, len_bytes: u64) -> Range<u64> {
        let block = u64::from(self.geo.block_bytes);
        at_bytes / block..at_bytes.saturating_add(len_bytes).div_ceil(block)
    }

    /// An inode, whether freed or not.
    pub(in crate::lfs) fn load_inode(&mut self, ino: InodeNo) -> Outcome<&CoreInode> {
        if self.views.has(ino) {
            self.load_past_inode(ino)?;
        } else if self.files.get(ino).is_none() {
            let entry = self.tables.imap.get(&mut self.shelf, ino)?;
            if branch_of(ino) != 0 && self.is_origins(ino, &entry) {
                self.load_from_origin(ino, entry)?;
                return Ok(self.core(ino));
            }
            if entry.ptr.is_hole() || local(ino) < InodeNo::ROOT {
                return Err(FsError::NotFound.into());
            }
            self.geo.check(&entry.ptr, RECORD_MAX_BYTES, || format!("inode {ino}"))?;
            let Some(bytes) = self.shelf.in_flight_bytes(&entry.ptr) else {
                return Err(self.shelf.ask(Wanted::Inode(ino, entry.ptr), &entry.ptr));
            };
            let core = CoreInode::decode(ino, &entry, bytes, &self.geo)?;
            self.files.insert(ino, core);
        }
        Ok(self.core(ino))
    }

    /// Overwrites a whole block.
    fn write_whole_block(&mut self, key: BlockKey, bytes: &[u8], ready: Option<&ReadyBlock>, tariff: Tariff) {
        let fresh = match ready {
            Some(ready) => Fresh { buf: ready.buf.clone(), crc: ready.crc },
            None => Fresh { buf: Buf::from(bytes), crc: None },
        };
        self.make_dirty(key, Some(fresh), tariff.of(key.index.0), Turn::Changes);
    }

    /// Overwrites bytes of one block.
    fn write_block_part(&mut self, key: BlockKey, skip: usize, bytes: &[u8], tariff: Tariff) {
        self.make_dirty(key, None, tariff.of(key.index.0), Turn::Changes);
        let block = self.shelf.cache.content_mut(&key).expect("dirty blocks are in memory");
        block[skip..skip + bytes.len()].copy_from_slice(bytes);
    }

    /// One block of a read, and its place if it is to be read from the device.
    fn piece(&mut self, key: BlockKey, start: usize, len_bytes: usize) -> Outcome<(Piece, Option<BlockPtr>)> {
        if let Some(block) = self.shelf.cache.get(&key) {
            return Ok((Piece::Memory { buf: block.buf.clone(), start, len_bytes }, None));
        }
        let ptr = self.ptr(key)?;
        if matches!(ptr.kind, PtrKind::Hole | PtrKind::Reserved) {
            return Ok((Piece::Zeros { len_bytes }, None));
        }
        let ptr = self.place_now(&key, ptr)?;
        self.geo.check(&ptr, self.geo.block_bytes, || shelf::describe(&key))?;
        if let Some(bytes) = self.shelf.in_flight_bytes(&ptr) {
            let buf = padded(bytes, self.geo.block_bytes);
            return Ok((Piece::Memory { buf, start, len_bytes }, None));
        }
        let token = Wanted::Block(key, ptr).token();
        let (at_bytes, stored_bytes) = (self.geo.device_bytes(ptr.addr), ptr.stored_bytes());
        Ok((Piece::Stored { token, at_bytes, stored_bytes, start, len_bytes }, Some(ptr)))
    }

    /// What to start reading beyond the last place of a read.
    fn read_ahead(&mut self, places: &[Option<BlockPtr>]) -> Option<Soon> {
        let mut run: Option<(u64, u64)> = None;
        for ptr in places.iter().flatten() {
            let (at_bytes, len_bytes) = (self.geo.device_bytes(ptr.addr), u64::from(ptr.stored_bytes()));
            run = match run {
                Some((start, end)) if end == at_bytes => Some((start, end + len_bytes)),
                Some((start, end)) => {
                    self.shelf.streams.pass(start, end - start);
                    Some((at_bytes, at_bytes + len_bytes))
                }
                None => Some((at_bytes, at_bytes + len_bytes)),
            };
        }
        let (start, end) = run?;
        let soon = self.shelf.streams.note(start, end - start)?;
        let last = places.iter().flatten().last()?;
        self.within_live(self.geo.segment_of(last.addr), soon)
    }

    /// What is to be read ahead of a stream in that segment, as far as the segments behind it are known to have live content. Most streams
    /// end with a segment, and their readers would wait in vain for what is under way beyond it. Where the table of segments is not in
    /// memory, a stream that has come a long way is taken to go on.
    fn within_live(&mut self, segment: SegmentId, soon: Soon) -> Option<Soon> {
        let until = soon.at_bytes + u64::from(soon.len_bytes);
        let long_bytes = LONG_SEGMENTS * u64::from(self.geo.segment_bytes);
        for behind in (segment.0 + 1..self.geo.segments).map(SegmentId) {
            let at_bytes = self.geo.device_bytes(self.geo.addr(behind, 0));
            if at_bytes >= until {
                break;
            }
            let is_live = |entry: UsageEntry| entry.live_bytes > 0 && entry.log != META_LOG;
            let entry = self.tables.usage.peek(&self.shelf, behind);
            if !entry.map_or_else(|| self.shelf.streams.asked_bytes() >= long_bytes, is_live) {
                self.shelf.streams.cut(at_bytes);
                let len_bytes = at_bytes.checked_sub(soon.at_bytes).filter(|len| *len > 0)?;
                return Some(Soon { len_bytes: len_bytes as u32, ..soon });
            }
        }
        Some(soon)
    }
}

impl Store for Lfs {
    fn facts(&self) -> StoreFacts {
        StoreFacts {
            block_bytes: self.geo.block_bytes,
            inline_max_bytes: self.sb.inline_max_bytes,
            inline_xattr_max_bytes: INLINE_XATTR_MAX_BYTES,
            file_max_bytes: self.geo.map.max_bytes(self.geo.block_bytes),
            op_max_bytes: OP_MAX_BYTES,
            read_max_bytes: u64::MAX,
            dir_unit_bytes: self.geo.block_bytes,
            hash_key: self.sb.hash_key,
            atomicity: Atomicity::Whole,
            has_checksums: true,
            keeps_content: self.options.cache_file_data,
        }
    }

    fn space(&self) -> Space {
        self.space_now()
    }

    fn inode(&mut self, ino: InodeNo) -> Outcome<&Inode> {
        if self.tables.branches.is_gone(ino) && !self.views.has(ino) {
            return Err(FsError::Stale.into());
        }
        let core = self.load_inode(ino).map_err(|stop| match stop {
            Stop::Fail(FsError::NotFound) => no_inode(ino).into(),
            other => other,
        })?;
        if core.freed { Err(FsError::NotFound.into()) } else { Ok(&core.inode) }
    }

    fn block(&mut self, ino: InodeNo, fork: Fork, index: BlockIndex) -> Outcome<Buf> {
        self.load_inode(ino)?;
        let block = self.load(BlockKey { ino, fork, level: 0, index })?;
        Ok(block.unwrap_or_else(|| zero_buf(self.geo.block_bytes as usize)))
    }

    fn digest(&mut self, ino: InodeNo, fork: Fork, index: BlockIndex) -> Option<&Digest> {
        self.shelf.cache.digest(&BlockKey { ino, fork, level: 0, index })
    }

    fn keep_digest(&mut self, ino: InodeNo, fork: Fork, index: BlockIndex, digest: Digest) {
        self.shelf.cache.keep_digest(&BlockKey { ino, fork, level: 0, index }, digest);
    }

    fn read(&mut self, ino: InodeNo, at_bytes: u64, len_bytes: u64) -> Outcome<ReadPlan> {
        self.load_inode(ino)?;
        let block_bytes = u64::from(self.geo.block_bytes);
        let end = at_bytes + len_bytes;
        let blocks = (end.div_ceil(block_bytes) - at_bytes / block_bytes).min(PIECES_FORESEEN) as usize;
        let mut pieces = Vec::with_capacity(blocks);
        let mut places = Vec::with_capacity(blocks);
        let mut needs = Vec::new();
        let mut at = at_bytes;
        while at < end {
            let key = Self::data_key(ino, Fork::Data, at / block_bytes);
            let start = (at % block_bytes) as usize;
            let len = (block_bytes - start as u64).min(end - at) as usize;
            if let Some((piece, place)) = gather_needs(self.piece(key, start, len), &mut needs)? {
                pieces.push(piece);
                places.push(place);
            }
            at += len as u64;
        }
        needs.dedup();
        if !needs.is_empty() {
            return Err(Stop::Need(needs));
        }
        let stored = places.iter().flatten();
        let pin = self.writer.pins.pin(stored.map(|ptr| self.geo.segment_of(ptr.addr)).collect());
        if !self.views.has(ino) {
            self.note_read(ino, at_bytes / block_bytes, &places);
        }
        let soon = self.read_ahead(&places).into_iter().collect();
        Ok(ReadPlan { pieces, soon, pin })
    }

    fn note_access(&mut self, dir: InodeNo, ino: InodeNo) {
        if !self.views.has(ino) {
            self.note_found(dir, ino);
        }
    }

    fn extent(&mut self, ino: InodeNo, at_bytes: u64, limit_bytes: u64) -> Outcome<Extent> {
        self.load_inode(ino)?;
        let block_bytes = u64::from(self.geo.block_bytes);
        let end = at_bytes.saturating_add(limit_bytes);
        let (mut at, mut kind) = (at_bytes, None);
        // Enough to cross many indirect blocks; the caller asks again for the rest.
        for _ in 0..4096 {
            if at >= end {
                break;
            }
            let (blocks, kind_here) = self.extent_at(ino, BlockIndex(at / block_bytes))?;
            if *kind.get_or_insert(kind_here) != kind_here {
                break;
            }
            at = (at / block_bytes).saturating_add(blocks).saturating_mul(block_bytes);
        }
        let kind = kind.unwrap_or(PtrKind::Hole);
        let is_charged = kind != PtrKind::Hole;
        let is_data = is_charged && kind != PtrKind::Reserved;
        Ok(Extent { len_bytes: at.min(end) - at_bytes, is_data, is_charged })
    }

    fn refuse_growth(&mut self, blocks: u64) -> Outcome<()> {
        if self.has_space_for_blocks(blocks) {
            return Ok(());
        }
        self.no_space()
    }

    fn begin(&mut self, now: TimeNs, kind: OpKind, intents: &[Intent]) -> Outcome<Op> {
        self.standing.refuse()?;
        self.lay_out_declared(now, intents)?;
        self.operation.clear();
        let mut demand = Demand::default();
        for intent in intents {
            let looked = self.look_and_charge(intent, &mut demand);
            gather_needs(looked, &mut demand.needs)?;
        }
        if !demand.needs.is_empty() {
            demand.needs.dedup();
            return Err(Stop::Need(demand.needs));
        }
        if demand.growth_bytes > 0 && !self.has_space(demand.growth_bytes) {
            self.no_space()?;
        }
        let room = self.room_now();
        if !room.admits(demand.log_bytes) || self.must_wait(&room) {
            return Err(Stop::Room);
        }
        self.operation.is_names = kind == OpKind::Names;
        self.due.note_dirty(now);
        self.operation.declared.start(intents);
        Ok(Op::granted(now, kind, demand.charges))
    }

    fn inode_alloc(&mut self, _op: &mut Op, inode: Inode) -> InodeNo {
        let (ino, version) = self.operation.chosen_ino.take().expect("the new inode was declared");
        let mut core = CoreInode::fresh(inode, version);
        self.next_generation += 1;
        core.inode.generation = self.next_generation;
        self.tables.imap.take(ino);
        self.files.insert(ino, core);
        self.mark_inode(ino, false);
        self.operation.declared.created(ino);
        self.operation.touch(ino);
        ino
    }

    fn inode_mut(&mut self, _op: &mut Op, ino: InodeNo) -> &mut Inode {
        self.mark_inode(ino, false);
        self.operation.touch(ino);
        let core = self.files.get(ino).expect("an operation declares inodes it has looked at");
        self.operation.declared.check_inode(ino, &core.inode);
        &mut core.inode
    }

    fn inode_free(&mut self, _op: &mut Op, ino: InodeNo) {
        self.operation.declared.check_free(ino);
        self.free_inode(ino, PRUNE_AT_ONCE);
    }

    fn write(&mut self, _op: &mut Op, ino: InodeNo, fork: Fork, at_bytes: u64, content: Content<'_>) {
        let bytes = content.bytes();
        let block_bytes = u64::from(self.geo.block_bytes);
        let end = at_bytes + bytes.len() as u64;
        self.operation.declared.check_write(ino, fork, at_bytes, bytes.len() as u64);
        self.note_write(ino, fork, at_bytes);
        let tariff = self.tariff(ino, fork, end);
        let mut done = 0;
        while done < bytes.len() {
            let at = at_bytes + done as u64;
            let skip = (at % block_bytes) as usize;
            let len = (block_bytes as usize - skip).min(bytes.len() - done);
            let key = Self::data_key(ino, fork, at / block_bytes);
            let part = &bytes[done..done + len];
            if len as u64 == block_bytes {
                self.write_whole_block(key, part, content.ready(key.index.0), tariff);
            } else {
                self.write_block_part(key, skip, part, tariff);
            }
            done += len;
        }
        self.accounts.counters.user_bytes += bytes.len() as u64;
        self.operation.touch(ino);
    }

    fn block_mut(&mut self, _op: &mut Op, ino: InodeNo, fork: Fork, index: BlockIndex) -> &mut [u8] {
        let key = BlockKey { ino, fork, level: 0, index };
        self.operation.declared.check_in_place(ino, fork, index, u64::from(self.geo.block_bytes));
        self.make_dirty(key, None, self.geo.block_bytes, Turn::Changes);
        self.operation.touch(ino);
        self.shelf.cache.content_mut(&key).expect("dirty blocks are in memory")
    }

    fn punch(&mut self, _op: &mut Op, ino: InodeNo, fork: Fork, at_bytes: u64, len_bytes: u64) {
        self.operation.declared.check_punch(ino, fork, at_bytes, len_bytes);
        let (edges, whole) = self.punch_parts(at_bytes, len_bytes);
        for (index, bytes) in edges.into_iter().flatten() {
            let key = Self::data_key(ino, fork, index);
            let ptr = self.ptr(key).unwrap_or(BlockPtr::HOLE);
            if ptr.is_stored() || ptr.is_pending() {
                let charge = self.shelf.cache.dirty(&key).map(|d| d.charged_bytes);
                self.make_dirty(key, None, charge.unwrap_or_else(|| self.charge_of(&ptr)), Turn::Changes);
                let block = self.shelf.cache.content_mut(&key).expect("dirty blocks are in memory");
                block[bytes].fill(0);
            }
        }
        self.drop_range(ino, fork, whole, len_bytes == u64::MAX);
        if fork == Fork::Data && at_bytes == 0 && len_bytes == u64::MAX {
            self.bump_version(ino);
        }
        self.operation.touch(ino);
    }

    fn reserve(&mut self, _op: &mut Op, ino: InodeNo, at_bytes: u64, len_bytes: u64) {
        self.operation.declared.check_reserve(ino, at_bytes, len_bytes);
        for index in self.blocks_of(at_bytes, len_bytes) {
            let key = Self::data_key(ino, Fork::Data, index);
            if self.ptr(key).is_ok_and(|ptr| ptr.is_hole()) {
                self.point_parent(key, BlockPtr::RESERVED, Turn::Changes);
                self.charge(ino, self.geo.block_bytes);
            }
        }
        self.operation.touch(ino);
    }

    fn end(&mut self, op: Op) -> Option<Ticket> {
        drop(op);
        let files = &self.files;
        self.operation
            .declared
            .finish(|ino| files.peek(ino).filter(|core| !core.freed).map(|core| &core.inode));
        self.charge_tails();
        let touched = self.operation.end();
        for &ino in &touched {
            self.settle_record(ino);
        }
        self.operation.give_back(touched);
        if self.memory_bytes() > self.options.cache_bytes {
            self.shrink_memory();
        }
        // The caller need not wait: the change is durable with the next commit, and in order.
        None
    }

    fn set_atime(&mut self, ino: InodeNo, atime: TimeNs) {
        if self.views.has(ino) {
            return;
        }
        let may_write = self.standing.may_write();
        let Some(core) = self.files.get(ino) else { return };
        core.inode.atime = atime;
        // A dirty inode's record will include the access time; otherwise only the inode map has it.
        if core.dirty.is_none() && may_write {
            let (ptr, version, orphan) = (core.record, core.version, core.is_orphan());
            if std::mem::take(&mut core.is_origins) {
                self.tables.imap.inode_parted();
            }
            self.tables.imap.set(ino, ImapEntry { ptr, version, orphan, atime });
            self.due.note_change();
        }
    }

    fn allocated_bytes(&self, ino: InodeNo) -> u64 {
        self.files.peek(ino).map_or(0, |core| {
            let inline =
                matches!(core.inode.body, crate::inode::Body::Inline(_)) && core.inode.size_bytes > 0;
            core.charged_bytes + if inline { core.inode.size_bytes.next_multiple_of(512) } else { 0 }
        })
    }

    fn may_have_quotas(&self) -> bool {
        // After a crash they may have been turned on since the checkpoint.
        self.tables.features().compat & FEATURE_QUOTAS != 0 || !self.recovered.was_clean
    }

    fn note_quotas(&mut self) {
        self.tables.add_features(FEATURE_QUOTAS);
    }

    fn follow_charges(&mut self, follow: bool) {
        self.recharges.follow(follow);
    }

    fn take_recharges(&mut self) -> Vec<Recharge> {
        self.recharges.take()
    }

    fn inodes_from(&mut self, from: InodeNo, found: &mut Vec<InodeNo>) -> Outcome<Option<InodeNo>> {
        self.list_inodes(from, found)
    }

    fn prepare_commit(
        &mut self,
        now: TimeNs,
        scope: Scope,
        preparation: &mut Preparation,
    ) -> Outcome<Prepared> {
        if self.options.read_only {
            return Ok(Prepared::Rest);
        }
        let prepared = self.prepare(now, scope, Cause::Wanted, preparation)?;
        if let Prepared::Whole(_) = prepared {
            self.writer.jobs.want(self.writer.log.end().serial);
        }
        Ok(prepared)
    }

    fn commit(&mut self, now: TimeNs, scope: Scope) -> Outcome<Ticket> {
        if self.options.read_only {
            // Nothing was changed, so everything is durable.
            return Ok(self.writer.jobs.durable());
        }
        let ticket = self.commit_as_point(now, scope)?;
        self.writer.jobs.want(self.writer.log.end().serial);
        if scope == Scope::All {
            self.due.note_clean(self.writer.log.end().serial, self.writer.jobs.durable_serial());
        }
        Ok(ticket)
    }

    fn orphans(&mut self) -> Outcome<Vec<InodeNo>> {
        self.find_orphans()
    }

    fn is_nameless(&mut self, ino: InodeNo) -> Outcome<bool> {
        match self.load_inode(ino) {
            Ok(core) => Ok(!core.freed && core.inode.nlink == 0),
            Err(Stop::Fail(FsError::NotFound)) => Ok(false),
            Err(stop) => Err(stop),
        }
    }

    fn read_only(&self) -> Option<&str> {
        self.standing.read_only()
    }

    fn states(&mut self, from: Epoch) -> Outcome<Option<States<'_>>> {
        self.states_from(from).map(Some)
    }

    fn look_into(&mut self, epoch: Epoch) -> Outcome<InodeNo> {
        self.view_of_point(epoch)
    }

    fn root_looked_into(&self, epoch: Epoch) -> Option<InodeNo> {
        self.views.root_of(epoch)
    }

    fn branches(&self) -> Option<Vec<Branch>> {
        Some(self.tables.branches.listed(self.tables.slots.durable()).collect())
    }
}

/// The error for a missing inode. A volume always has a root directory, so a volume without one has lost the part of the log
/// that made it.
fn no_inode(ino: InodeNo) -> FsError {
    if ino != InodeNo::ROOT {
        return FsError::NotFound;
    }
    FsError::Corrupt {
        what: "root directory".to_owned(),
        at: "the inode map".to_owned(),
        expected: "an inode record".to_owned(),
        found: "none (run a check of the volume)".to_owned(),
    }
}

impl Lfs {
    /// If the background is about to free space, the operation waits for that instead of failing.
    pub(in crate::lfs) fn no_space(&mut self) -> Outcome<()> {
        let may_help = self.files.reap_len() > 0 || self.give_way()?;
        Err(if may_help { Stop::Room } else { FsError::NoSpace.into() })
    }

    /// The kind of a block (a hole, reserved, or data of any kind), and how many blocks from it on are of the same kind, as far
    /// as one lookup tells.
    pub(in crate::lfs) fn extent_at(&mut self, ino: InodeNo, block: BlockIndex) -> Outcome<(u64, PtrKind)> {
        let ptr = self.ptr(Self::data_key(ino, Fork::Data, block.0))?;
        match ptr.kind {
            PtrKind::Hole => {}
            PtrKind::Reserved => return Ok((1, PtrKind::Reserved)),
            _ => return Ok((1, PtrKind::Plain)),
        }
        let path: Vec<_> = self.geo.map.path(block).collect();
        for (level, index) in path.into_iter().rev() {
            if self.ptr(BlockKey { ino, fork: Fork::Data, level, index })?.is_hole() {
                let end = self.geo.map.first_data(level, index).0.saturating_add(self.geo.map.span(level));
                return Ok((end - block.0, PtrKind::Hole));
            }
        }
        // Beyond the last block that the map can have.
        Ok((u64::MAX - block.0, PtrKind::Hole))
    }
}
