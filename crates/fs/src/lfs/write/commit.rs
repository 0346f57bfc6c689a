//! Commit: dirty data becomes partial segments (Sprite LFS, section 3.1; BSD-LFS, section 4.1).
//!
//! A batch is the state at one moment between operations. A small one is laid out at once; one that is due and large, in steps
//! (`ahead`, `frozen`). Its last partial segment carries END; roll-forward applies whole batches only, so name operations are atomic
//! and ordered. Within a batch inodes go in the order in which they turned dirty; of each inode first its blocks, lowest
//! level first, by number, then its record, but records with inline content behind the blocks of all files. An item comes after
//! everything that it refers to.

use crate::cache::{LaidOut, Origin};
use crate::clean::Writer;
use crate::error::{Outcome, Stop};
use crate::inode::{Body, Kind};
use crate::lfs::Lfs;
use crate::lfs::base::kinds::LogKind;
use crate::lfs::map::blockmap::Unsettled;
use crate::lfs::map::inode::{BlockPlace, CoreInode};
use crate::lfs::write::log::{DATA_LOGS_MAX, DATA_LOGS_MIN, LogEnd, Planned, data_log};
use crate::lfs::write::partial::PartialWriter;
use crate::mutation::{Mutation, is_on};
use crate::store::{BlockKey, Fork, Scope, Ticket};
use firnfs_format::summary::{Entry, EntryKind, FLAG_CLEANER, FLAG_END, Summary, summary_sectors};
use firnfs_format::table::ImapEntry;
use firnfs_format::{BlockPtr, Epoch, InodeNo, SECTOR_BYTES, TimeNs};
use std::cell::Cell;
use std::ops::Range;
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
pub(super) struct Batch {
    items: Vec<Item>,
    lens: Vec<u8>,
}

impl Batch {
    fn push(&mut self, item: Item, len_sectors: u8) {
        self.items.push(item);
        self.lens.push(len_sectors);
    }

    fn append(&mut self, mut more: Self) {
        self.items.append(&mut more.items);
        self.lens.append(&mut more.lens);
    }

    fn sectors(&self) -> u64 {
        self.lens.iter().map(|&len| u64::from(len)).sum()
    }

    /// Sectors of some of its items that are not written from the cache's own blocks.
    fn own_sectors(&self, items: Range<usize>) -> u32 {
        let is_own = |at: &usize| !matches!(self.items[*at], Item::Block(.., true));
        items.filter(is_own).map(|at| u32::from(self.lens[at])).sum()
    }
}

/// What a commit writes, by how long it is likely to live.
#[derive(Default)]
pub(super) struct Gathered {
    /// Content of files. It refers to nothing in `meta`.
    data: Batch,
    /// For each item of `data` the placement's number of its log.
    logs: Vec<u8>,
    /// Records with inline content, which come behind `data`: see [`Self::push_record`].
    records: Batch,
    /// For each item of `records` the placement's number of its log.
    records_logs: Vec<u8>,
    /// Indirect blocks, records and directories: the next change of a file writes them again.
    meta: Batch,
}

impl Gathered {
    /// Adds a file's own data, for the placement's log of that number.
    pub fn push_content(&mut self, ino: InodeNo, place: BlockPlace, len_sectors: u8, log: u8) {
        self.data.push(Item::Block(ino, place, true), len_sectors);
        self.logs.push(log);
    }

    /// Adds a record with what is inline in it, for the placement's log of that number. It comes behind the blocks of all files: a
    /// program that lists attributes, or removes a tree, reads records alone, so one read should bring many of them.
    fn push_record(&mut self, ino: InodeNo, len_sectors: u8, log: u8) {
        self.records.push(Item::Record(ino), len_sectors);
        self.records_logs.push(log);
    }

    /// Puts the records behind the blocks, before the order matters.
    fn close(&mut self) {
        self.data.append(std::mem::take(&mut self.records));
        self.logs.append(&mut self.records_logs);
    }

    fn sectors(&self) -> u64 {
        self.data.sectors() + self.records.sectors() + self.meta.sectors()
    }

    /// The log that takes most of the data.
    fn main_log(&self) -> u8 {
        let mut sectors = [0; DATA_LOGS_MAX as usize];
        for (&log, &len) in self.logs.iter().zip(&self.data.lens) {
            sectors[usize::from(log)] += u64::from(len);
        }
        let most = sectors.iter().max().filter(|most| **most > 0);
        most.and_then(|most| sectors.iter().position(|s| s == most)).unwrap_or(0) as u8
    }

    /// Lowest birth first. What an item refers to stays before it: a record is rewritten with each block that it leads to, so
    /// it is never older than they are.
    fn sort_data_by(&mut self, birth: impl Fn(&Item) -> Epoch) {
        let mut order: Vec<usize> = (0..self.data.items.len()).collect();
        order.sort_by_cached_key(|&at| birth(&self.data.items[at]));
        self.data.items = order.iter().map(|&at| self.data.items[at]).collect();
        self.data.lens = order.iter().map(|&at| self.data.lens[at]).collect();
        self.logs = order.iter().map(|&at| self.logs[at]).collect();
    }

    /// Adds that an inode was freed.
    pub fn push_freed(&mut self, ino: InodeNo, version: u32) {
        self.meta.push(Item::Freed(ino, version), 0);
    }

    /// How much it is.
    pub fn items(&self) -> usize {
        self.data.items.len() + self.records.items.len() + self.meta.items.len()
    }

    /// Everything in one part, for one log.
    pub fn together(mut self) -> Vec<(u8, Batch)> {
        self.close();
        let log = data_log(self.main_log());
        let mut all = self.data;
        all.append(self.meta);
        vec![(log, all)]
    }

    /// One part for each log, metadata last.
    pub fn apart(mut self, meta_log: u8) -> Vec<(u8, Batch)> {
        self.close();
        let mut parts: [Batch; DATA_LOGS_MAX as usize] = Default::default();
        for ((item, len), log) in self.data.items.into_iter().zip(self.data.lens).zip(self.logs) {
            parts[usize::from(log)].push(item, len);
        }
        let data = (0..).map(data_log).zip(parts);
        data.chain([(meta_log, self.meta)]).collect()
    }
}

/// Why a commit is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::lfs) enum Cause {
    /// Somebody waits for it.
    Wanted,
    /// It is due.
    Due,
    /// The cleaner moves.
    Cleaning,
    /// Coalescing: blocks that are read one after the other stay together, no matter how old each of them is.
    Ordering,
    /// The same for files that are inline in their records: their directory goes to the log of the records, because it is read
    /// with them and, like them, has not changed for a while.
    OrderingInline,
}

impl Cause {
    /// Nothing that users wrote is in it.
    pub(super) fn is_move(self) -> bool {
        matches!(self, Self::Cleaning | Self::Ordering | Self::OrderingInline)
    }

    /// Flags of its partial segments.
    pub(super) fn flags(self) -> u16 {
        if self.is_move() { FLAG_CLEANER } else { 0 }
    }
}

/// Whether a commit of that scope has to lay out a dirty inode: an fsync of one file also what has to do with names.
pub(super) fn is_in_scope(scope: Scope, ino: InodeNo, core: &CoreInode) -> bool {
    let Scope::File(only) = scope else { return true };
    only == ino || core.dirty.is_some_and(|dirty| dirty.names) && !is_on(Mutation::FsyncWithoutNames)
}

/// A volume that sorts content into logs writes a commit to all of them if it has this many write units for each log: what
/// summaries and padding take is a tenth then.
const UNITS_PER_LOG: u64 = 4;

impl Lfs {
    /// Lays out a scope for writing. Returns the serial that makes it durable.
    ///
    /// Content goes to the log that the placement chooses, the blocks that lead to it to a log of their own. Otherwise a moved
    /// block would leave its indirect block, which dies soon, among blocks that live long, and on a full volume under random
    /// overwrites the cleaner would write more than it frees. [`Self::is_worth_several`] decides whether the batch is split
    /// among logs at all.
    pub(in crate::lfs) fn commit_scope(
        &mut self,
        now: TimeNs,
        scope: Scope,
        cause: Cause,
    ) -> Outcome<Ticket> {
        self.standing.refuse()?;
        self.finish_frozen(now)?;
        self.files.freeze_freed();
        let mut gathered = self.gather(now, scope, cause);
        gathered.close();
        if matches!(cause, Cause::Ordering | Cause::OrderingInline) {
            gathered.logs.fill(self.log_for_coldest());
        }
        if cause == Cause::Cleaning && self.sorts_by_age() {
            gathered.sort_data_by(|item| self.birth_of(item));
        }
        let parts = if self.is_worth_several(gathered.sectors(), scope, cause) {
            gathered.apart(self.writer.log.meta_log())
        } else {
            gathered.together()
        };
        self.write_parts(now, parts, cause.flags(), FLAG_END)?;
        if scope == Scope::All {
            self.writer.ahead = None;
        }
        Ok(Ticket(self.writer.log.end().serial.0))
    }

    /// Writes what goes to each log; the last partial segment is marked with `end`.
    ///
    /// # Errors
    /// `Need`, `Room`: nothing is written then.
    pub(super) fn write_parts(
        &mut self,
        now: TimeNs,
        mut parts: Vec<(u8, Batch)>,
        flags: u16,
        end: u16,
    ) -> Outcome<()> {
        parts.retain(|(_, batch)| !batch.items.is_empty());
        let needed =
            parts.iter().map(|(log, batch)| self.writer.log.segments_entered(*log, &self.geo, &batch.lens));
        self.ensure_pool(needed.sum())?;
        for (n, (log, batch)) in parts.iter().enumerate() {
            let more = if n + 1 == parts.len() { end } else { 0 };
            self.write_batch(now, batch, *log, flags, more);
        }
        Ok(())
    }

    /// Writes the record of an inode to a log, as a batch of its own. Nothing else is dirty.
    ///
    /// # Errors
    /// `Need`, `Room`: nothing is written then.
    pub(in crate::lfs) fn write_record_to(&mut self, now: TimeNs, ino: InodeNo, log: u8) -> Outcome<()> {
        let mut batch = Batch::default();
        batch.push(Item::Record(ino), (self.core(ino).record_bytes() / SECTOR_BYTES) as u8);
        self.write_parts(now, vec![(log, batch)], FLAG_CLEANER, FLAG_END)
    }

    /// Whether a batch of that length is split among the logs. A small one is not worth several writes, nor is one that
    /// somebody waits for, unless it is a segment or more; an fsync of one file ([`Scope::File`]) is never split.
    pub(super) fn is_worth_several(&self, sectors: u64, scope: Scope, cause: Cause) -> bool {
        let segment_sectors = u64::from(self.geo.segment_sectors);
        let least_sectors = match cause {
            Cause::Cleaning | Cause::Ordering | Cause::OrderingInline => return true,
            // The rest of a commit whose beginning was split.
            Cause::Due if self.writer.ahead.as_ref().is_some_and(|ahead| ahead.has_begun) => return true,
            Cause::Wanted => segment_sectors,
            Cause::Due if self.writer.log.data_logs() <= DATA_LOGS_MIN => segment_sectors,
            Cause::Due => self.writer.log.open_logs() * UNITS_PER_LOG * u64::from(self.geo.unit_sectors),
        };
        scope == Scope::All && sectors >= least_sectors.min(segment_sectors)
    }

    fn gather(&self, now: TimeNs, scope: Scope, cause: Cause) -> Gathered {
        let mut gathered = Gathered::default();
        for (ino, core) in self.files.dirty() {
            if !is_in_scope(scope, ino, core) {
                continue;
            }
            self.gather_inode(now, ino, core, cause, &mut gathered);
        }
        self.files.freed_frozen().for_each(|(ino, version)| gathered.push_freed(ino, version));
        gathered
    }

    /// The dirty blocks of an inode, lowest level first, then its record.
    pub(super) fn gather_inode(
        &self,
        now: TimeNs,
        ino: InodeNo,
        core: &CoreInode,
        cause: Cause,
        gathered: &mut Gathered,
    ) {
        let is_directory = core.inode.kind == Kind::Directory;
        let has_blocks = matches!(core.inode.body, Body::Blocks);
        let goes_along = is_directory && cause == Cause::OrderingInline;
        let mut leads_on = !goes_along && (is_directory || has_blocks);
        let mut record_log = None;
        let mut last = None;
        self.shelf.cache.prefetch_dirty(core.dirty_blocks.iter().map(|place| place.key(ino)));
        for place in core.dirty_blocks.iter() {
            let is_data = place.level == 0 && place.fork == Fork::Data && !is_directory;
            let is_content = place.level == 0 && place.fork != Fork::Index && !is_directory || goes_along;
            leads_on |= !is_content;
            let len_sectors = self.stored_sectors(&place.key(ino), is_data, core.inode.size_bytes);
            if !is_content {
                gathered.meta.push(Item::Block(ino, place, is_data), len_sectors);
                continue;
            }
            gathered.data.push(Item::Block(ino, place, is_data), len_sectors);
            // A record beside the content that it leads to comes behind it, so it is in the same log.
            let log = match record_log {
                Some(log) => log,
                None => self.block_log(now, &place.key(ino), &mut last),
            };
            record_log = record_log.or(Some(log).filter(|_| !has_blocks));
            gathered.logs.push(log);
        }
        let len_sectors = (core.record_bytes() / SECTOR_BYTES) as u8;
        if leads_on {
            gathered.meta.push(Item::Record(ino), len_sectors);
            return;
        }
        let log = record_log.unwrap_or_else(|| self.record_log(now, core, cause));
        gathered.push_record(ino, len_sectors, log);
    }

    /// The log for a dirty block. `last` is the placement's answer for the previous block: neighbours mostly come from one
    /// place.
    pub(super) fn block_log(
        &self,
        now: TimeNs,
        key: &BlockKey,
        last: &mut Option<(Writer, Option<Origin>, u8)>,
    ) -> u8 {
        let dirty = self.shelf.cache.dirty(key).expect("only dirty blocks are gathered");
        // The cleaner keeps the births of the blocks that it moves.
        let writer = if dirty.moves.is_some() { Writer::Cleaner } else { Writer::User };
        match *last {
            Some((same_writer, same_origin, log)) if (same_writer, same_origin) == (writer, dirty.origin) => {
                log
            }
            _ => {
                let log = self.log_for(now, writer, dirty.origin);
                *last = Some((writer, dirty.origin, log));
                log
            }
        }
    }

    /// When a user wrote the block that is about to move; for an inode, when its record was written.
    fn birth_of(&self, item: &Item) -> Epoch {
        match *item {
            Item::Block(ino, place, _) => {
                let dirty = self.shelf.cache.dirty(&place.key(ino));
                dirty.and_then(|dirty| dirty.moves).map_or(self.tables.slots.epoch(), |from| from.birth)
            }
            Item::Record(ino) => self.core(ino).record.birth,
            Item::Freed(..) => self.tables.slots.epoch(),
        }
    }

    /// The log for an inode with what is inline in it.
    fn record_log(&self, now: TimeNs, core: &CoreInode, cause: Cause) -> u8 {
        let writer = if cause.is_move() { Writer::Cleaner } else { Writer::User };
        self.log_for(now, writer, self.origin_of(&core.record))
    }

    /// Writes a batch or a part of one, whose last partial segment is marked with `end`.
    fn write_batch(&mut self, now: TimeNs, batch: &Batch, log: u8, flags: u16, end: u16) {
        let plans = self.writer.log.plan(log, &self.geo, &mut self.tables.usage, &batch.lens);
        let last = plans.len() - 1;
        let mut unsettled = Unsettled::default();
        for (n, plan) in plans.iter().enumerate() {
            let more = if n == last { end } else { 0 };
            let mut writer = PartialWriter::new(&self.geo, plan, batch.own_sectors(plan.items.clone()));
            for at in plan.items.clone() {
                let ptr = BlockPtr { len_sectors: batch.lens[at], ..BlockPtr::HOLE };
                let entry = match batch.items[at] {
                    Item::Block(ino, place, is_data) => {
                        let key = place.key(ino);
                        if unsettled.belong_in(&key) {
                            self.settle(&mut unsettled);
                        }
                        let ptr = self.write_block(key, is_data, ptr, &mut writer);
                        self.note_placed(key, ptr, &mut unsettled);
                        self.entry_of_block(key, ptr, &mut writer)
                    }
                    Item::Record(ino) => self.write_record(ino, ptr, &mut writer),
                    Item::Freed(ino, version) => {
                        self.files.forget_freed(ino);
                        self.tables.imap.give_back(ino);
                        Entry { ino, version, kind: EntryKind::Freed, ptr: BlockPtr::HOLE }
                    }
                };
                writer.entries.push(entry);
            }
            for (kind, bytes) in writer.placed.iter().filter(|(_, bytes)| *bytes > 0) {
                self.tables.usage.add(plan.segment, kind, bytes as u32, writer.youngest, now);
            }
            self.finish_partial(now, plan, writer, log, flags | more);
        }
        self.settle(&mut unsettled);
    }

    /// The inode's own list of dirty blocks is emptied when its record is written.
    fn write_block(
        &mut self,
        key: BlockKey,
        is_data: bool,
        ptr: BlockPtr,
        writer: &mut PartialWriter,
    ) -> BlockPtr {
        let is_whole_data = is_data && ptr.stored_bytes() == self.geo.block_bytes;
        let keep = self.options.cache_file_data || !is_whole_data;
        let LaidOut { buf, crc, dirty } = self.shelf.cache.lay_out(&key, keep);
        let birth = dirty.moves.map_or(self.tables.slots.epoch(), |from| from.birth);
        let ptr = BlockPtr { birth, ..ptr };
        let ptr = if is_data { writer.put_data(ptr, buf, crc) } else { writer.put_copy(ptr, &buf) };
        if let Some(from) = dirty.moves {
            self.note_move(&self.place_of(&key), &from, &ptr);
        }
        if dirty.charged_bytes != ptr.stored_bytes() {
            self.refund(key.ino, dirty.charged_bytes);
            self.charge(key.ino, ptr.stored_bytes());
        }
        ptr
    }

    fn entry_of_block(&self, key: BlockKey, ptr: BlockPtr, writer: &mut PartialWriter) -> Entry {
        let core = self.core(key.ino);
        let is_directory = core.inode.kind == Kind::Directory;
        let log_kind = LogKind::of_block(key.fork, key.level, is_directory);
        writer.adds_live(log_kind, &ptr, core.inode.mtime);
        let kind = EntryKind::Block { fork: key.fork as u8, level: key.level, index: key.index.0 };
        Entry { ino: key.ino, version: core.version, kind, ptr }
    }

    fn write_record(&mut self, ino: InodeNo, ptr: BlockPtr, writer: &mut PartialWriter) -> Entry {
        let core = self.core(ino);
        let keeps_birth = core.only_moves && core.record.is_stored();
        let birth = if keeps_birth { core.record.birth } else { self.tables.slots.epoch() };
        let ptr = writer.put_own(BlockPtr { birth, ..ptr }, |out| core.encode(ino, out));
        self.files.clean(ino);
        let core = self.core_mut(ino);
        core.dirty_blocks.clear();
        let old = std::mem::replace(&mut core.record, ptr);
        let was_charged = std::mem::replace(&mut core.record_charge_bytes, ptr.stored_bytes());
        let (version, orphan, atime) = (core.version, core.is_orphan(), core.inode.atime);
        let mtime = core.inode.mtime;
        if std::mem::take(&mut core.is_origins) {
            self.tables.imap.inode_parted();
        }
        writer.adds_live(LogKind::Inode, &ptr, mtime);
        self.recount(u64::from(was_charged), u64::from(ptr.stored_bytes()));
        self.replace_record(ino, &old, &ptr);
        self.tables.imap.set(ino, ImapEntry { ptr, version, orphan, atime });
        Entry { ino, version, kind: EntryKind::Inode { orphan }, ptr }
    }

    /// Writes the summary of a partial segment and puts it in line.
    pub(in crate::lfs) fn finish_partial(
        &mut self,
        now: TimeNs,
        plan: &Planned,
        mut writer: PartialWriter,
        log: u8,
        flags: u16,
    ) {
        let serial = self.writer.log.end().serial.next();
        let flags = self.held_flags(flags);
        let mut summary = Summary {
            crc: 0,
            uuid: self.sb.uuid,
            serial,
            prev_crc: self.writer.log.end().crc,
            incarnation: self.writer.log.incarnation(),
            durable_through: self.writer.jobs.durable_serial(),
            epoch: self.tables.slots.epoch(),
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
        self.writer.log.note_laid_out(LogEnd { serial, crc: summary.crc });
        let addr = self.geo.addr(plan.segment, plan.start_sector);
        let parcel = Arc::new(writer.parcel);
        let len_bytes = parcel.len_bytes() as u64;
        let upkeep_bytes = summary.upkeep_bytes();
        self.accounts.counters.count_log(len_bytes, upkeep_bytes, &writer.placed);
        self.due.note_log(len_bytes);
        self.shelf.launch(addr, parcel.clone());
        self.writer.jobs.push_partial(serial, addr, self.geo.device_bytes(addr), parcel);
    }

    /// Makes sure that clean segments are at hand for laying out that many.
    ///
    /// # Errors
    /// `Need`; `Room` if there are not enough clean segments now.
    pub(in crate::lfs) fn ensure_pool(&mut self, needed: usize) -> Outcome<()> {
        if self.has_pool(needed)? { Ok(()) } else { Err(Stop::Room) }
    }

    /// Puts clean segments at hand for laying out that many; false if there are not enough now.
    ///
    /// # Errors
    /// `Need`.
    pub(super) fn has_pool(&mut self, needed: usize) -> Outcome<bool> {
        if self.writer.log.pool_len() >= needed {
            return Ok(true);
        }
        // A few more than needed, so that most commits find the pool full.
        let missing = needed + 4 - self.writer.log.pool_len();
        let (log, pins, jobs, geo) = (&self.writer.log, &self.writer.pins, &self.writer.jobs, &self.geo);
        let meets_pins = Cell::new(false);
        let taken = |segment| {
            let start_bytes = geo.device_bytes(geo.addr(segment, 0));
            let is_pinned = pins.is_pinned(segment);
            meets_pins.set(meets_pins.get() || is_pinned);
            is_pinned || log.is_taken(segment) || jobs.is_discarding(start_bytes)
        };
        let found =
            self.tables.usage.find_ready(&mut self.shelf, self.tables.slots.durable(), missing, &taken)?;
        found.iter().for_each(|segment| self.upkeep.discard.forget(*segment));
        self.writer.log.fill_pool(found);
        let has_enough = self.writer.log.pool_len() >= needed;
        self.writer.pins.set_awaited(!has_enough && meets_pins.get());
        Ok(has_enough)
    }
}
