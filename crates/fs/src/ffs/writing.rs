//! Queueing writes: blocks of files, inodes, descriptors; and when the store queues them by itself.
//!
//! A block is queued with its fresh children durable before it (rule R4); an inode is staged in its block of the table, which is then queued with all
//! that the staged inodes wait for and free.

use super::Ffs;
use super::alloc::{Run, Wish};
use super::base::{BlockPlace, WriteId};
use super::inode::{CoreInode, Sequence};
use super::map::data_key;
use super::release::Freed;
use super::writes::{NewWrite, Subject};
use crate::bmap::Parent;
use crate::engine::Step;
use crate::error::{FsError, Outcome, Stop, gather_needs};
use crate::inode::Kind;
use crate::mutation::{Mutation, is_on};
use crate::store::{BlockKey, Buf, Fork, Scope, Ticket};
use firnfs_format::ffs::inode::DINODE_BYTES;
use firnfs_format::ffs::{Dinode, State};
use firnfs_format::{BlockIndex, InodeNo, TimeNs};

/// Operations wait when this many times the threshold is dirty or queued.
const DIRTY_MAX_FACTOR: u64 = 4;

impl Ffs {
    /// Queues a write, after the one that marks the volume as in use.
    pub(super) fn queue(&mut self, mut new: NewWrite) -> WriteId {
        if self.mounted > self.writes.durable() {
            new.after.push(self.mounted);
        }
        self.writes.push(new)
    }

    fn block_numbers(&self, addr: u32, frags: u32) -> std::ops::Range<u32> {
        let per_block = self.geo.block_frags();
        addr / per_block..(addr + frags).div_ceil(per_block)
    }

    /// Queues blocks of a file that are dirty and lie in a row.
    fn queue_blocks(&mut self, keys: &[BlockKey], after: &[WriteId]) -> WriteId {
        let mut new = NewWrite { after: after.to_vec(), ..NewWrite::default() };
        let (mut first, mut total) = (None, 0);
        for key in keys {
            // Not by the pointers: an indirect block that has not changed may have left memory.
            let addr = self.cache.place_of(key).expect("dirty blocks are in memory");
            let frags = self.files.core(key.ino).frags_of(&self.geo, key);
            first.get_or_insert(addr);
            total += frags;
            let buf = self.cache.get(key, addr).expect("dirty blocks are in memory").clone();
            new.parts.push((buf, self.geo.bytes_of(frags)));
            new.subjects.push(Subject::Block(*key));
            let place = BlockPlace::of(key);
            let core = self.files.core_mut(key.ino);
            new.frees.extend(core.held.remove(&Some(place)).unwrap_or_default());
            core.dirty_blocks.remove(&place);
            if key.level > 0 {
                new.after.extend(self.take_fresh_below(key));
            }
        }
        let first = first.unwrap_or(0);
        new.at_bytes = self.geo.device_bytes(first);
        new.blocks = self.block_numbers(first, total);
        let id = self.queue(new);
        for key in keys {
            self.cache.queue(key, id);
            if let Some(fresh) = self.files.core_mut(key.ino).fresh.get_mut(&BlockPlace::of(key)) {
                fresh.write.get_or_insert(id);
            }
        }
        id
    }

    /// The writes of the fresh blocks right below an indirect block, which are fresh no more once it is queued.
    fn take_fresh_below(&mut self, parent: &BlockKey) -> Vec<WriteId> {
        let first = self.geo.map.child(parent.level, parent.index, 0);
        let end = BlockIndex(first.0 + self.geo.map.pointers_per_block());
        let place = |index| BlockPlace { level: parent.level - 1, fork: parent.fork, index };
        let core = self.files.core_mut(parent.ino);
        let below: Vec<_> =
            core.fresh.range(place(first)..place(end)).map(|(place, fresh)| (*place, *fresh)).collect();
        let mut writes = Vec::new();
        for (place, fresh) in below {
            core.fresh.remove(&place);
            writes.push(fresh.write.expect("lower levels are queued first"));
        }
        if is_on(Mutation::PointersFirst) {
            writes.clear();
        }
        writes
    }

    /// Queues all dirty blocks of an inode, lower levels first, one by one.
    pub(super) fn push_blocks(&mut self, ino: InodeNo, after: &[WriteId]) {
        if let Some(core) = self.files.get(ino) {
            core.sequence = None;
        }
        while let Some(place) = self.files.peek(ino).and_then(|core| core.dirty_blocks.first().copied()) {
            self.queue_blocks(&[place.key(ino)], after);
        }
    }

    /// Queues only the dirty blocks of content of an inode.
    fn push_content(&mut self, ino: InodeNo) {
        self.files.core_mut(ino).sequence = None;
        let end = BlockPlace { level: 1, fork: Fork::Data, index: BlockIndex(0) };
        while let Some(place) = self.files.core(ino).dirty_blocks.range(..end).next().copied() {
            self.queue_blocks(&[place.key(ino)], &[]);
        }
    }

    /// Puts an inode with all that is new about it into its block of the table; its blocks are queued before.
    pub(super) fn stage_whole(&mut self, ino: InodeNo, after: &[WriteId]) {
        self.push_blocks(ino, after);
        let core = self.files.core_mut(ino);
        let fresh = std::mem::take(&mut core.fresh);
        let mut waits = after.to_vec();
        if !is_on(Mutation::PointersFirst) {
            waits.extend(fresh.values().map(|fresh| fresh.write.expect("dirty blocks were queued")));
        }
        let frees = core.held.remove(&None).unwrap_or_default();
        debug_assert!(core.held.is_empty(), "indirect blocks that hold something are dirty");
        core.stable = core.map.clone();
        let stored = match core.is_freed {
            true => Dinode::free(core.inode.generation as u32),
            false => core.encode(&core.map),
        };
        self.files.clean(ino);
        self.put_staged(ino, &stored);
        let block = self.inode_blocks.get(self.geo.inode_block(ino).0).expect("staged above");
        block.after.extend(waits);
        block.frees.extend(frees);
    }

    /// Puts an inode with its new attributes and its old blocks into its block of the table.
    pub(super) fn stage_attributes(&mut self, ino: InodeNo, after: &[WriteId]) {
        let core = self.files.core(ino);
        let stored = core.encode(&core.stable);
        self.put_staged(ino, &stored);
        let block = self.inode_blocks.get(self.geo.inode_block(ino).0).expect("staged above");
        block.after.extend_from_slice(after);
    }

    /// Puts an inode into its block as far as that needs nothing that is not queued.
    pub(super) fn stage(&mut self, ino: InodeNo, after: &[WriteId]) {
        let core = self.files.core(ino);
        if core.fresh.is_empty() && core.dirty_blocks.is_empty() {
            self.stage_whole(ino, after);
        } else {
            self.stage_attributes(ino, after);
        }
    }

    fn put_staged(&mut self, ino: InodeNo, stored: &Dinode) {
        let (number, at) = self.geo.inode_block(ino);
        let block = self
            .inode_blocks
            .get(number)
            .expect("begin or commit brought the block of the table into memory");
        let buf: &mut Buf = block.buf.as_mut().expect("blocks in memory have their bytes");
        buf.make_mut()[at..at + DINODE_BYTES].copy_from_slice(&stored.encode());
        block.is_dirty = true;
    }

    /// Queues the block of the table that holds an inode.
    pub(super) fn push_inode_block(&mut self, number: u32) -> WriteId {
        let block = self.inode_blocks.get(number).expect("dirty blocks of the table are in memory");
        let buf = block.buf.as_ref().expect("blocks in memory have their bytes").clone();
        let mut after = std::mem::take(&mut block.after);
        after.sort_unstable();
        after.dedup();
        let frees = std::mem::take(&mut block.frees);
        let addr = self.geo.inode_block_addr(number);
        let id = self.queue(NewWrite {
            at_bytes: self.geo.device_bytes(addr),
            parts: vec![(buf, self.geo.layout.block_bytes as usize)],
            blocks: self.block_numbers(addr, self.geo.block_frags()),
            after,
            subjects: vec![Subject::InodeBlock(number)],
            frees,
            is_fenced: false,
        });
        self.inode_blocks.queue(number, id);
        id
    }

    /// Queues the blocks of the table with these inodes; returns the writes.
    pub(super) fn push_inodes(&mut self, inodes: &[InodeNo]) -> Vec<WriteId> {
        let mut numbers: Vec<u32> = inodes.iter().map(|&ino| self.geo.inode_block(ino).0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().map(|number| self.push_inode_block(number)).collect()
    }

    /// Queues the descriptors that have changed.
    fn push_groups(&mut self, now: TimeNs) {
        for number in self.groups.dirty() {
            let id = WriteId(self.writes.last().0 + 1);
            let Some(group) = self.groups.to_write(number, id) else { continue };
            let block: Buf = group.descriptor().encode(&self.geo.layout, now.0).into();
            let addr = self.geo.descriptor_addr(number);
            let queued = self.queue(NewWrite {
                at_bytes: self.geo.device_bytes(addr),
                parts: vec![(block, self.geo.layout.block_bytes as usize)],
                blocks: self.block_numbers(addr, self.geo.block_frags()),
                subjects: vec![Subject::Group(number)],
                ..NewWrite::default()
            });
            debug_assert_eq!(queued, id, "the next write has the next number");
        }
    }

    /// Brings the blocks of the table with these inodes into memory.
    fn load_inode_blocks(&mut self, inodes: &[InodeNo]) -> Outcome<()> {
        let mut needs = Vec::new();
        for &ino in inodes {
            let number = self.geo.inode_block(ino).0;
            gather_needs(self.load_inode_block(number).map(drop), &mut needs)?;
        }
        needs.dedup();
        if needs.is_empty() { Ok(()) } else { Err(Stop::Need(needs)) }
    }

    /// Queues a scope; returns the ticket of its last write.
    pub(super) fn commit_scope(&mut self, now: TimeNs, scope: Scope) -> Outcome<Ticket> {
        let inodes = match scope {
            Scope::All => self.files.dirty(),
            Scope::File(ino) => match self.files.peek(ino) {
                Some(core) if core.is_dirty => vec![ino],
                _ => Vec::new(),
            },
        };
        self.load_inode_blocks(&inodes)?;
        for &ino in &inodes {
            self.stage_whole(ino, &[]);
        }
        self.push_inodes(&inodes);
        if scope == Scope::All {
            self.push_groups(now);
            self.dirty_since = None;
        }
        let last = self.writes.last();
        self.writes.want(last);
        Ok(Ticket(last.0))
    }

    /// Queues the inode of a file that was closed, if it has changed, as 4.4BSD wrote it then. Its content stays delayed, so the inode keeps its old
    /// pointers if there is any (R4).
    pub(super) fn write_closed(&mut self, ino: InodeNo) -> Outcome<Option<Ticket>> {
        let is_due = |core: &CoreInode| {
            core.is_dirty && !core.is_closed && core.inode.nlink > 0 && core.inode.kind == Kind::Regular
        };
        let can_write = self.standing.read_only.is_none() && self.closed.is_none();
        if !can_write || !self.files.peek(ino).is_some_and(is_due) {
            return Ok(None);
        }
        self.load_inode_blocks(&[ino])?;
        self.stage(ino, &[]);
        self.files.core_mut(ino).is_closed = true;
        let write = self.push_inode_block(self.geo.inode_block(ino).0);
        self.writes.want(write);
        Ok(Some(Ticket(write.0)))
    }

    /// Content was written as whole blocks: queues the blocks that are to be written at once: without clusters each block; with
    /// them each full cluster, and a shorter one that cannot grow or that the program has left (4.4BSD's `cluster_write`).
    pub(super) fn write_behind(&mut self) {
        let before = self.writes.last();
        let written = std::mem::take(&mut self.operation.written);
        for &(ino, index) in &written {
            let key = data_key(ino, Fork::Data, index);
            let core = self.files.core(ino);
            let is_there =
                core.inode.kind == Kind::Regular && core.dirty_blocks.contains(&BlockPlace::of(&key));
            let is_whole = core.frags_of(&self.geo, &key) == self.geo.block_frags();
            if !is_there || !is_whole {
                continue;
            }
            if self.sb.tuning.maxcontig <= 1 {
                self.queue_blocks(&[key], &[]);
            } else {
                self.extend_sequence(&key);
            }
        }
        self.operation.written = written;
        self.operation.written.clear();
        if self.writes.last() > before {
            self.writes.start_last();
        }
    }

    fn extend_sequence(&mut self, key: &BlockKey) {
        let (ino, index) = (key.ino, key.index.0);
        let alone = Sequence { start: index, len: 1 };
        let next = match self.files.core(ino).sequence {
            Some(run) if run.start + run.len == index => {
                let longer = Sequence { len: run.len + 1, ..run };
                let reallocates = self.sb.tuning.reallocates;
                if self.is_behind(key) || reallocates && self.reallocate(ino, longer) {
                    longer
                } else {
                    self.queue_sequence(ino, run);
                    alone
                }
            }
            Some(run) => {
                // The program has moved on; the blocks behind it are written now.
                self.queue_sequence(ino, run);
                alone
            }
            None => alone,
        };
        let is_full = next.len >= self.sb.tuning.maxcontig.into();
        self.files.core_mut(ino).sequence = (!is_full).then_some(next);
        if is_full {
            self.queue_sequence(ino, next);
        }
    }

    /// True if a block lies right after the one before it; both are in memory.
    fn is_behind(&self, key: &BlockKey) -> bool {
        let before = self.cache.place_of(&data_key(key.ino, key.fork, key.index.0 - 1));
        before.is_some_and(|before| Some(before + self.geo.block_frags()) == self.cache.place_of(key))
    }

    fn keys_of(ino: InodeNo, run: Sequence) -> Vec<BlockKey> {
        (run.start..run.start + run.len).map(|index| data_key(ino, Fork::Data, index)).collect()
    }

    /// Queues a sequence, if all of it is still dirty: each contiguous part of it in one write.
    fn queue_sequence(&mut self, ino: InodeNo, run: Sequence) {
        let keys = Self::keys_of(ino, run);
        let core = self.files.core(ino);
        if !keys.iter().all(|key| core.dirty_blocks.contains(&BlockPlace::of(key))) {
            return;
        }
        let mut start = 0;
        for end in 1..=keys.len() {
            if end == keys.len() || !self.is_behind(&keys[end]) {
                self.queue_blocks(&keys[start..end], &[]);
                start = end;
            }
        }
    }

    /// Moves blocks of which the last does not lie behind the others to contiguous places before they are written for the first time
    /// (`ffs_reallocblks`), if there are such places in groups whose bitmaps are in memory. All pointers are in the inode, or all in one indirect
    /// block. A last block in another group stays: the policy wanted it there. True if they moved.
    fn reallocate(&mut self, ino: InodeNo, run: Sequence) -> bool {
        let keys = Self::keys_of(ino, run);
        let is_new = |core: &super::inode::CoreInode, key: &BlockKey| {
            let fresh = core.fresh.get(&BlockPlace::of(key));
            fresh.is_some_and(|fresh| fresh.write.is_none() && !fresh.was_held)
        };
        let holder = |key: &BlockKey| match self.geo.map.parent(0, key.index) {
            Some(Parent::Indirect { index, .. }) => Some(index),
            _ => None,
        };
        let core = self.files.core(ino);
        let is_one_array = keys.iter().all(|key| holder(key) == holder(&keys[0]));
        if !is_one_array || !keys.iter().all(|key| is_new(core, key)) {
            return false;
        }
        let (first, last) = (self.known_ptr(&keys[0]), self.known_ptr(&keys[keys.len() - 1]));
        if self.groups.group_of(first) != self.groups.group_of(last) {
            return false;
        }
        let Ok(place) = self.groups.take_cluster(keys.len() as u32, Wish::At(first)) else { return false };
        let frags = self.geo.block_frags();
        for (nth, key) in (0..).zip(&keys) {
            let old = self.known_ptr(key);
            self.move_block(key, place + nth * frags);
            self.free_now(Freed::Run(Run { addr: old, frags }));
        }
        true
    }

    /// True if operations that write have to wait until something has landed.
    pub(super) fn must_wait(&self) -> bool {
        let bytes = self.cache.dirty_bytes() + self.writes.pending_bytes();
        bytes > DIRTY_MAX_FACTOR * self.options.write_threshold_bytes
    }

    /// True if background work is due because of recent operations.
    pub(super) fn is_work_due(&self) -> bool {
        !self.writes.is_stopped()
            && (self.cache.dirty_bytes() > self.options.write_threshold_bytes || self.releases.are_due())
    }

    /// How long until something is due by itself, in ms.
    pub(super) fn due_in(&self, now: TimeNs) -> u64 {
        match self.dirty_since {
            _ if self.standing.read_only.is_some() => u64::MAX,
            _ if self.is_work_due() => 0,
            Some(since) => self.options.update_interval_ms.saturating_sub(now.millis_since(since)),
            None => u64::MAX,
        }
    }

    /// One step of background work.
    pub(super) fn background_step(&mut self, now: TimeNs, pressed: bool) -> Outcome<Step> {
        if self.standing.read_only.is_some() || self.closed.is_some() {
            return Ok(Step::Idle(u64::MAX));
        }
        if self.release_some()? {
            return Ok(Step::Worked);
        }
        if self.cache.dirty_bytes() > self.options.write_threshold_bytes {
            let before = self.writes.last();
            self.files.dirty().into_iter().for_each(|ino| self.push_content(ino));
            if self.writes.last() == before {
                // It is metadata that is dirty.
                self.commit_scope(now, Scope::All)?;
            }
            return Ok(Step::Worked);
        }
        if self.due_in(now) == 0 {
            self.commit_scope(now, Scope::All)?;
            return Ok(Step::Worked);
        }
        if !pressed {
            return Ok(Step::Idle(self.due_in(now)));
        }
        // Dropped places are free only after the writes of the inodes that had them.
        if self.releases.are_outstanding() && self.files.are_dirty() {
            self.commit_scope(now, Scope::All)?;
            return Ok(Step::Worked);
        }
        let last = self.writes.last();
        self.writes.want(last);
        Ok(if self.writes.is_idle() { Step::Stuck } else { Step::Waiting })
    }

    /// Queues everything, then the superblock that says so.
    pub(super) fn close_volume(&mut self, now: TimeNs) -> Outcome<()> {
        if self.closed.is_some() || self.options.read_only {
            return Ok(());
        }
        if let Some(why) = &self.standing.read_only {
            return Err(FsError::ReadOnly(why.clone()).into());
        }
        self.release_some()?;
        self.commit_scope(now, Scope::All)?;
        if self.releases.are_outstanding() {
            return Err(Stop::Room);
        }
        self.push_summaries();
        self.sb.state = State::Clean;
        self.sb.changed_ns = now.0;
        let after = self.writes.pending();
        let id = self.queue_superblock(after);
        self.closed = Some(id);
        self.writes.want(id);
        Ok(())
    }

    /// Queues the table of summaries.
    fn push_summaries(&mut self) {
        let mut bytes: Vec<u8> = self.groups.summaries().iter().flat_map(|group| group.encode()).collect();
        bytes.resize(bytes.len().next_multiple_of(self.geo.layout.block_bytes as usize), 0);
        let (addr, len) = (self.geo.layout.summaries_at(), bytes.len());
        let frags = (len / self.geo.layout.frag_bytes as usize) as u32;
        self.queue(NewWrite {
            at_bytes: self.geo.device_bytes(addr),
            parts: vec![(bytes.into(), len)],
            blocks: self.block_numbers(addr, frags),
            ..NewWrite::default()
        });
    }

    /// Queues the first copy of the superblock.
    pub(super) fn queue_superblock(&mut self, after: Vec<WriteId>) -> WriteId {
        // The unit of the write is a block of the device, at most 4096 bytes: what lies around the copy are zeros.
        let mut bytes = self.sb.encode().to_vec();
        bytes.resize(4096, 0);
        let len = bytes.len();
        self.writes.push(NewWrite {
            at_bytes: firnfs_format::ffs::superblock::COPY_AT_BYTES,
            parts: vec![(bytes.into(), len)],
            blocks: self.block_numbers(0, 1),
            after,
            is_fenced: true,
            ..NewWrite::default()
        })
    }
}
