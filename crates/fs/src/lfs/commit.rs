//! Commit: what is dirty becomes partial segments (Sprite LFS, section 3.1; BSD-LFS, section 4.1).
//!
//! A batch is laid out at once, under the lock, while no operation is open: the copy into the segment buffers is the
//! freeze. Its last partial segment carries END; roll-forward applies whole batches only, so name operations are atomic
//! and ordered. Within a batch inodes go in the order in which they turned dirty; of each inode first its blocks, lowest
//! level first, by number, then its record. What an item refers to comes before it.

use super::Lfs;
use super::geometry::Geometry;
use super::inode::{BlockPlace, CoreInode};
use super::kinds::{KindBytes, LogKind};
use super::log::{CLEANER_LOG, Log, Planned, USER_LOG};
use super::parcel::Parcel;
use crate::cache::LaidOut;
use crate::error::{FsError, Outcome, Stop};
use crate::inode::{Body, Kind};
use crate::mutation::{Mutation, is_on};
use crate::store::{Buf, Fork, Scope, Ticket};
use firnfs_format::summary::{
    Entry, EntryKind, FLAG_CLEANER, FLAG_CONT, FLAG_DIROP, FLAG_END, Summary, summary_sectors,
};
use firnfs_format::table::ImapEntry;
use firnfs_format::{BlockPtr, InodeNo, PtrKind, SECTOR_BYTES, SectorAddr, TimeNs};
use std::sync::Arc;

/// One thing that a batch writes.
#[derive(Clone, Copy, Debug)]
enum Item {
    /// A block; whether it is a file's own data.
    Block(InodeNo, BlockPlace, bool),
    Record(InodeNo),
    Freed(InodeNo, u32),
}

/// Items and their stored lengths in sectors.
#[derive(Default)]
struct Batch {
    items: Vec<Item>,
    lens: Vec<u8>,
}

impl Batch {
    fn push(&mut self, item: Item, len_sectors: u8) {
        self.items.push(item);
        self.lens.push(len_sectors);
    }

    fn sectors(&self) -> u64 {
        self.lens.iter().map(|&len| u64::from(len)).sum()
    }
}

/// What a commit writes, by how long it is likely to live.
#[derive(Default)]
struct Gathered {
    /// Content of files. It refers to nothing in `meta`.
    data: Batch,
    /// What leads to content, and directories: the next change of a file writes it again.
    meta: Batch,
    has_names: bool,
}

impl Lfs {
    /// Lays a scope out for writing. Returns the serial that makes it durable.
    ///
    /// What somebody may be waiting for goes to one log: it is one write. Larger batches, and all that the cleaner moves,
    /// are separated. Else a block moved would leave its indirect block, about to die, among blocks that live long, and on a
    /// full volume under random overwrites the cleaner would write more than it frees.
    pub(super) fn commit_scope(&mut self, now: TimeNs, scope: Scope, cleaner: bool) -> Outcome<Ticket> {
        self.refuse_failed()?;
        let Gathered { mut data, mut meta, has_names } = self.gather(scope);
        let is_small = data.sectors() + meta.sectors() < u64::from(self.geo.segment_sectors);
        if !cleaner && (is_small || scope != Scope::All) {
            data.items.append(&mut meta.items);
            data.lens.append(&mut meta.lens);
        }
        let data_log = if cleaner { CLEANER_LOG } else { USER_LOG };
        let parts: Vec<_> = [(data_log, data), (self.log.meta_log(), meta)]
            .into_iter()
            .filter(|(_, batch)| !batch.items.is_empty())
            .collect();
        let needed = parts.iter().map(|(_, b)| Log::segments_needed(&self.geo, b.items.len(), b.sectors()));
        self.ensure_pool(needed.sum())?;
        let flags = if has_names { FLAG_DIROP } else { 0 } | if cleaner { FLAG_CLEANER } else { 0 };
        for (n, (log, batch)) in parts.iter().enumerate() {
            let end = if n + 1 == parts.len() { FLAG_END } else { FLAG_CONT };
            self.write_batch(now, batch, *log, flags, end);
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

    fn gather(&self, scope: Scope) -> Gathered {
        let mut gathered = Gathered::default();
        for &ino in self.dirty_order.values() {
            let core = self.core(ino);
            let names = core.dirty.is_some_and(|d| d.names) && !is_on(Mutation::FsyncWithoutNames);
            if !names && matches!(scope, Scope::File(only) if only != ino) {
                continue;
            }
            gathered.has_names |= names;
            self.gather_inode(ino, core, &mut gathered);
        }
        for (&ino, &version) in &self.freed {
            gathered.meta.push(Item::Freed(ino, version), 0);
            gathered.has_names = true;
        }
        gathered
    }

    /// The dirty blocks of an inode, lowest level first, then its record.
    fn gather_inode(&self, ino: InodeNo, core: &CoreInode, gathered: &mut Gathered) {
        let is_directory = core.inode.kind == Kind::Directory;
        let mut leads_on = is_directory || matches!(core.inode.body, Body::Blocks);
        for &place in &core.dirty_blocks {
            let is_data = place.level == 0 && place.fork == Fork::Data && !is_directory;
            let is_content = place.level == 0 && place.fork != Fork::Index && !is_directory;
            leads_on |= !is_content;
            let len_sectors = self.stored_sectors(&place.key(ino), is_data, core.inode.size_bytes);
            let part = if is_content { &mut gathered.data } else { &mut gathered.meta };
            part.push(Item::Block(ino, place, is_data), len_sectors);
        }
        let part = if leads_on { &mut gathered.meta } else { &mut gathered.data };
        part.push(Item::Record(ino), (core.record_bytes() / SECTOR_BYTES) as u8);
    }

    /// Writes a batch or a part of one, whose last partial segment is marked with `end`.
    fn write_batch(&mut self, now: TimeNs, batch: &Batch, log: u8, flags: u16, end: u16) {
        let plans = self.log.plan(log, &self.geo, &mut self.usage, &batch.lens);
        let last = plans.len() - 1;
        for (n, plan) in plans.iter().enumerate() {
            let more = if n == last { end } else { FLAG_CONT };
            let mut writer = PartialWriter::new(&self.geo, plan);
            for at in plan.items.clone() {
                let ptr = BlockPtr { len_sectors: batch.lens[at], ..BlockPtr::HOLE };
                let entry = match batch.items[at] {
                    Item::Block(ino, place, is_data) => {
                        self.write_block(ino, place, is_data, ptr, &mut writer)
                    }
                    Item::Record(ino) => self.write_record(ino, ptr, &mut writer),
                    Item::Freed(ino, version) => {
                        self.freed.remove(&ino);
                        self.imap.give_back(ino);
                        Entry { ino, version, kind: EntryKind::Freed, ptr: BlockPtr::HOLE }
                    }
                };
                writer.entries.push(entry);
            }
            for (kind, bytes) in writer.placed.iter().filter(|(_, bytes)| *bytes > 0) {
                self.usage.add(plan.segment, kind, bytes as u32, writer.youngest, now);
            }
            self.finish_partial(now, plan, writer, log, flags | more);
        }
    }

    /// The inode's own list of dirty blocks is emptied when its record is written.
    fn write_block(
        &mut self,
        ino: InodeNo,
        place: BlockPlace,
        is_data: bool,
        ptr: BlockPtr,
        writer: &mut PartialWriter,
    ) -> Entry {
        let key = place.key(ino);
        let is_whole_data = is_data && ptr.stored_bytes() == self.geo.block_bytes;
        let keep = self.options.cache_file_data || !is_whole_data;
        let LaidOut { buf, crc, dirty } = self.shelf.cache.lay_out(&key, keep);
        let ptr = BlockPtr { birth: dirty.birth.unwrap_or(self.epoch), ..ptr };
        let ptr = if is_data { writer.put_data(ptr, buf, crc) } else { writer.put_copy(ptr, &buf) };
        if keep {
            self.shelf.cache.placed(&key, ptr);
        }
        self.settle_parent(key, ptr);
        if dirty.charged_bytes != ptr.stored_bytes() {
            self.refund(ino, dirty.charged_bytes);
            self.charge(ino, ptr.stored_bytes());
        }
        let core = self.core(ino);
        let is_directory = core.inode.kind == Kind::Directory;
        let log_kind = LogKind::of_block(place.fork, place.level, is_directory);
        writer.adds_live(log_kind, &ptr, core.inode.mtime);
        let kind = EntryKind::Block { fork: place.fork as u8, level: place.level, index: place.index.0 };
        Entry { ino, version: core.version, kind, ptr }
    }

    fn write_record(&mut self, ino: InodeNo, ptr: BlockPtr, writer: &mut PartialWriter) -> Entry {
        let ptr = BlockPtr { birth: self.epoch, ..ptr };
        let ptr = writer.put_own(ptr, |out| self.core(ino).encode(ino, out));
        self.clean_inode(ino);
        let core = self.core_mut(ino);
        core.dirty_blocks.clear();
        let old = std::mem::replace(&mut core.record, ptr);
        let was_charged = std::mem::replace(&mut core.record_charge_bytes, ptr.stored_bytes());
        let (version, orphan, atime) = (core.version, core.is_orphan(), core.inode.atime);
        writer.adds_live(LogKind::Inode, &ptr, core.inode.mtime);
        self.recount(u64::from(was_charged), u64::from(ptr.stored_bytes()));
        if old.is_stored() {
            self.usage.sub(self.geo.segment_of(old.addr), LogKind::Inode, old.stored_bytes());
        }
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
        summary.encode_into(&writer.entries, writer.parcel.summary_mut());
        self.log.serial = serial;
        self.log.prev_crc = summary.crc;
        let addr = self.geo.addr(plan.segment, plan.start_sector);
        let parcel = Arc::new(writer.parcel);
        self.counters.count_partial(parcel.len_bytes() as u64, &writer.placed);
        self.log_bytes_since_checkpoint += parcel.len_bytes() as u64;
        self.shelf.launch(addr, parcel.clone());
        self.jobs.push_partial(serial, addr, self.geo.device_bytes(addr), parcel);
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
    parcel: Parcel,
    /// Entries of what was put so far.
    pub entries: Vec<Entry>,
    /// Where the partial segment begins.
    start: SectorAddr,
    /// Where the next block goes, from the beginning.
    sector: u32,
    /// What was put so far, in bytes.
    placed: KindBytes,
    /// Youngest modification time of that.
    youngest: TimeNs,
}

impl PartialWriter {
    pub(super) fn new(geo: &Geometry, plan: &Planned) -> Self {
        let len_bytes = (plan.len_sectors * SECTOR_BYTES) as usize;
        Self {
            parcel: Parcel::new(len_bytes, (plan.summary_sectors * SECTOR_BYTES) as usize),
            entries: Vec::with_capacity(plan.items.len()),
            start: geo.addr(plan.segment, plan.start_sector),
            sector: plan.summary_sectors,
            placed: KindBytes::default(),
            youngest: TimeNs::default(),
        }
    }

    fn at_bytes(&self) -> usize {
        (self.sector * SECTOR_BYTES) as usize
    }

    /// Gives what was just put its address.
    fn place(&mut self, ptr: BlockPtr, crc: u32) -> BlockPtr {
        let addr = SectorAddr(self.start.0 + u64::from(self.sector));
        self.sector += u32::from(ptr.len_sectors);
        BlockPtr { addr, kind: PtrKind::Plain, crc, ..ptr }
    }

    /// Puts the next stored block; `fill` gets zeros to fill in. Returns the pointer with address and checksum.
    fn put_own(&mut self, ptr: BlockPtr, fill: impl FnOnce(&mut [u8])) -> BlockPtr {
        let out = self.parcel.add_own(self.at_bytes(), ptr.stored_bytes() as usize);
        fill(out);
        let crc = firnfs_format::crc32c(out);
        self.place(ptr, crc)
    }

    /// Puts the next stored block, a copy: metadata changes again soon.
    pub(super) fn put_copy(&mut self, ptr: BlockPtr, block: &[u8]) -> BlockPtr {
        self.put_own(ptr, |out| {
            let len = out.len();
            out.copy_from_slice(&block[..len]);
        })
    }

    /// Puts the next stored block, shared with the cache. `crc` is that of the whole block, if it is known.
    fn put_data(&mut self, ptr: BlockPtr, block: Buf, crc: Option<u32>) -> BlockPtr {
        let len = ptr.stored_bytes() as usize;
        let crc = crc.filter(|_| len == block.len()).unwrap_or_else(|| firnfs_format::crc32c(&block[..len]));
        self.parcel.add_block(self.at_bytes(), len, block);
        self.place(ptr, crc)
    }

    /// Counts what was just put.
    pub(super) fn adds_live(&mut self, kind: LogKind, ptr: &BlockPtr, mtime: TimeNs) {
        self.placed.add(kind, ptr.stored_bytes());
        self.youngest = self.youngest.max(mtime);
    }
}
