//! Commit: what is dirty becomes partial segments (Sprite LFS, section 3.1; BSD-LFS, section 4.1).
//!
//! A batch is laid out at once, under the lock, while no operation is open: the copy into the segment buffers is the
//! freeze. Its last partial segment carries END; roll-forward applies whole batches only, so name operations are atomic
//! and ordered. Within a batch inodes go in the order in which they turned dirty; of each inode first its blocks, lowest
//! level first, by number, then its record. What an item refers to comes before it.

use super::Lfs;
use super::inode::BlockPlace;
use super::log::{Log, Planned};
use crate::error::{FsError, Outcome, Stop};
use crate::mutation::{Mutation, is_on};
use crate::store::{BlockKey, Scope, Ticket};
use firnfs_device::AlignedBuf;
use firnfs_format::summary::{
    Entry, EntryKind, FLAG_CLEANER, FLAG_CONT, FLAG_DIROP, FLAG_END, Summary, summary_sectors,
};
use firnfs_format::table::ImapEntry;
use firnfs_format::{BlockPtr, InodeNo, PtrKind, SECTOR_BYTES, TimeNs};
use std::sync::Arc;

/// One thing that a batch writes.
#[derive(Clone, Copy, Debug)]
enum Item {
    Block(InodeNo, BlockPlace),
    Record(InodeNo),
    Freed(InodeNo, u32),
}

/// Items and their stored lengths in sectors.
#[derive(Default)]
struct Batch {
    items: Vec<Item>,
    lens: Vec<u8>,
    has_names: bool,
}

impl Lfs {
    /// Lays a scope out for writing. Returns the serial that makes it durable.
    pub(super) fn commit_scope(
        &mut self,
        now: TimeNs,
        scope: Scope,
        log: u8,
        cleaner: bool,
    ) -> Outcome<Ticket> {
        self.refuse_failed()?;
        let batch = self.gather(scope);
        if !batch.items.is_empty() {
            let sectors = batch.lens.iter().map(|&l| u64::from(l)).sum();
            let needed = Log::segments_needed(&self.geo, batch.items.len(), sectors);
            self.ensure_pool(needed)?;
            let flags = if batch.has_names { FLAG_DIROP } else { 0 } | if cleaner { FLAG_CLEANER } else { 0 };
            self.write_batch(now, &batch, log, flags);
        }
        Ok(Ticket(self.log.serial.0))
    }

    /// An earlier failure of the log ends all commits.
    pub(super) fn refuse_failed(&self) -> Result<(), FsError> {
        match &self.read_only {
            Some(why) => Err(FsError::ReadOnly(why.clone())),
            None => Ok(()),
        }
    }

    fn gather(&self, scope: Scope) -> Batch {
        let mut batch = Batch::default();
        for &ino in self.dirty_order.values() {
            let core = self.core(ino);
            let names = core.dirty.is_some_and(|d| d.names) && !is_on(Mutation::FsyncWithoutNames);
            if !names && matches!(scope, Scope::File(only) if only != ino) {
                continue;
            }
            batch.has_names |= names;
            for &place in &core.dirty_blocks {
                let key = BlockKey { ino, fork: place.fork, level: place.level, index: place.index };
                batch.items.push(Item::Block(ino, place));
                batch.lens.push(self.stored_sectors(&key, core.inode.size_bytes));
            }
            batch.items.push(Item::Record(ino));
            batch.lens.push((core.record_bytes() / SECTOR_BYTES) as u8);
        }
        for (&ino, &version) in &self.freed {
            batch.items.push(Item::Freed(ino, version));
            batch.lens.push(0);
            batch.has_names = true;
        }
        batch
    }

    fn write_batch(&mut self, now: TimeNs, batch: &Batch, log: u8, flags: u16) {
        let plans = self.log.plan(log, &self.geo, &mut self.usage, &batch.lens);
        let last = plans.len() - 1;
        for (n, plan) in plans.iter().enumerate() {
            let more = if n == last { FLAG_END } else { FLAG_CONT };
            let mut writer = PartialWriter::new(plan);
            for at in plan.items.clone() {
                let ptr = BlockPtr { len_sectors: batch.lens[at], ..BlockPtr::HOLE };
                let entry = match batch.items[at] {
                    Item::Block(ino, place) => self.write_block(now, ino, place, ptr, &mut writer),
                    Item::Record(ino) => self.write_record(now, ino, ptr, &mut writer),
                    Item::Freed(ino, version) => {
                        self.freed.remove(&ino);
                        self.imap.give_back(ino);
                        Entry { ino, version, kind: EntryKind::Freed, ptr: BlockPtr::HOLE }
                    }
                };
                writer.entries.push(entry);
            }
            self.finish_partial(now, plan, writer, log, flags | more);
        }
    }

    fn write_block(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        place: BlockPlace,
        ptr: BlockPtr,
        writer: &mut PartialWriter,
    ) -> Entry {
        let key = BlockKey { ino, fork: place.fork, level: place.level, index: place.index };
        let block = self.shelf.cache.peek(&key).expect("dirty blocks are in memory");
        let birth = block.dirty.and_then(|d| d.birth).unwrap_or(self.epoch);
        let buf = block.buf.clone();
        let ptr = writer.put(self, BlockPtr { birth, ..ptr }, |out| {
            let len = out.len();
            out.copy_from_slice(&buf[..len]);
        });
        drop(buf);
        let dirty = self.shelf.cache.set_clean(&key, ptr);
        let is_whole_data =
            key.level == 0 && ptr.stored_bytes() == self.geo.block_bytes && !self.is_directory(ino);
        if is_whole_data && !self.options.cache_file_data {
            self.shelf.cache.recycle(&key);
        }
        self.settle_parent(key, ptr);
        self.refund(ino, dirty.charged_bytes);
        self.charge(ino, ptr.stored_bytes());
        let core = self.core_mut(ino);
        core.dirty_blocks.remove(&place);
        let (version, mtime) = (core.version, core.inode.mtime);
        self.usage.add(self.geo.segment_of(ptr.addr), ptr.stored_bytes(), mtime, now);
        let kind = EntryKind::Block { fork: place.fork as u8, level: place.level, index: place.index.0 };
        Entry { ino, version, kind, ptr }
    }

    fn write_record(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        ptr: BlockPtr,
        writer: &mut PartialWriter,
    ) -> Entry {
        let ptr = BlockPtr { birth: self.epoch, ..ptr };
        let ptr = writer.put(self, ptr, |out| {
            out.fill(0);
            self.core(ino).encode(ino, out);
        });
        self.clean_inode(ino);
        let core = self.core_mut(ino);
        let old = std::mem::replace(&mut core.record, ptr);
        let was_charged = std::mem::replace(&mut core.record_charge_bytes, ptr.stored_bytes());
        let (version, orphan, atime) = (core.version, core.is_orphan(), core.inode.atime);
        let mtime = core.inode.mtime;
        self.recount(u64::from(was_charged), u64::from(ptr.stored_bytes()));
        if old.is_stored() {
            self.usage.sub(self.geo.segment_of(old.addr), old.stored_bytes());
        }
        self.usage.add(self.geo.segment_of(ptr.addr), ptr.stored_bytes(), mtime, now);
        self.imap.set(ino, ImapEntry { ptr, version, orphan, atime });
        Entry { ino, version, kind: EntryKind::Inode { orphan }, ptr }
    }

    /// Writes the summary of a partial segment and puts it in line.
    pub(super) fn finish_partial(
        &mut self,
        now: TimeNs,
        plan: &Planned,
        mut writer: PartialWriter,
        log: u8,
        flags: u16,
    ) {
        let serial = self.log.serial.next();
        let mut summary = Summary {
            crc: 0,
            uuid: self.sb.uuid,
            serial,
            prev_crc: self.log.prev_crc,
            incarnation: self.log.incarnation,
            durable_through: self.jobs.durable_serial(),
            epoch: self.epoch,
            flags,
            time: now,
            segment: plan.segment,
            next_segment: plan.next_segment,
            start_sector: plan.start_sector,
            len_sectors: plan.len_sectors,
            entries: 0,
            log,
        };
        debug_assert_eq!(summary_sectors(writer.entries.len()), plan.summary_sectors);
        writer.clear_gaps();
        summary.encode_into(&writer.entries, &mut writer.buf);
        self.log.serial = serial;
        self.log.prev_crc = summary.crc;
        let addr = self.geo.addr(plan.segment, plan.start_sector);
        let data = Arc::new(writer.buf);
        self.counters.log_bytes += data.len() as u64;
        self.log_bytes_since_checkpoint += data.len() as u64;
        self.shelf.launch(addr, data.clone());
        self.jobs.push_partial(serial, addr, self.geo.device_bytes(addr), data);
    }

    /// Makes sure that clean segments are at hand for laying out that many.
    ///
    /// # Errors
    /// `Need`; `Room` if there are not enough clean segments now.
    pub(super) fn ensure_pool(&mut self, needed: usize) -> Outcome<()> {
        if self.log.pool_len() >= needed {
            return Ok(());
        }
        // A few more than needed, so that most commits find the pool full.
        let missing = needed + 4 - self.log.pool_len();
        let (log, pins, jobs, geo) = (&self.log, &self.pins, &self.jobs, &self.geo);
        let taken = |segment| {
            let start_bytes = geo.device_bytes(geo.addr(segment, 0));
            log.is_taken(segment) || pins.is_pinned(segment) || jobs.is_discarding(start_bytes)
        };
        let found = self.usage.find_ready(&mut self.shelf, self.durable_epoch, missing, &taken)?;
        self.log.fill_pool(found);
        if self.log.pool_len() >= needed { Ok(()) } else { Err(Stop::Room) }
    }
}

/// Fills one planned partial segment.
pub(super) struct PartialWriter {
    buf: AlignedBuf,
    /// Entries of what was put so far.
    pub entries: Vec<Entry>,
    plan: Planned,
    sector: u32,
}

impl PartialWriter {
    pub(super) fn new(plan: &Planned) -> Self {
        Self {
            buf: AlignedBuf::scratch((plan.len_sectors * SECTOR_BYTES) as usize),
            entries: Vec::with_capacity(plan.items.len()),
            plan: plan.clone(),
            sector: plan.summary_sectors,
        }
    }

    /// Zeros what no block fills: the summary's place and the padding at the end.
    fn clear_gaps(&mut self) {
        let (first, end) = (self.plan.summary_sectors * SECTOR_BYTES, self.sector * SECTOR_BYTES);
        self.buf[..first as usize].fill(0);
        self.buf[end as usize..].fill(0);
    }

    /// Puts the next stored block; `fill` overwrites all its bytes. Returns the pointer with address and checksum.
    pub(super) fn put(&mut self, lfs: &Lfs, ptr: BlockPtr, fill: impl FnOnce(&mut [u8])) -> BlockPtr {
        let from = (self.sector * SECTOR_BYTES) as usize;
        let out = &mut self.buf[from..from + ptr.stored_bytes() as usize];
        fill(out);
        let addr = lfs.geo.addr(self.plan.segment, self.plan.start_sector + self.sector);
        self.sector += u32::from(ptr.len_sectors);
        BlockPtr { addr, kind: PtrKind::Plain, crc: firnfs_format::crc32c(out), ..ptr }
    }
}
