//! Checkpoint: inode map and usage table go to the log, their roots to a checkpoint slot (Sprite LFS, section 4.1).
//!
//! The usage table also describes the segments in which its own blocks lie. So that writing it does not change it without
//! end, the set of its blocks to be written is closed first: with every block in the set, the blocks describing the
//! segment it leaves and the segments it may go to are in the set too. Then all blocks get their places, the table is
//! updated, and it is written.

use crate::error::{Outcome, Stop};
use crate::lfs::Lfs;
use crate::lfs::base::kinds::LogKind;
use crate::lfs::base::occasion::Occasion;
use crate::lfs::base::places::place_in_map;
use crate::lfs::tables::table::Staged;
use crate::lfs::write::commit::Cause;
use crate::lfs::write::log::Log;
use crate::lfs::write::partial::PartialWriter;
use crate::mutation::{Mutation, is_on};
use crate::store::{Scope, Ticket};
use firnfs_device::AlignedBuf;
use firnfs_format::checkpoint::{Checkpoint, Span, TableRoot};
use firnfs_format::summary::{Entry, EntryKind};
use firnfs_format::{BlockPtr, InodeNo, SECTOR_BYTES, SegmentId, TimeNs};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Clean segments that a checkpoint may take beyond those of the batch it begins with.
pub(in crate::lfs) const CHECKPOINT_SEGMENTS: usize = 4;

impl Lfs {
    /// Commits everything, writes both tables and queues the checkpoint slot.
    ///
    /// # Errors
    /// `Need`; `Room` while a checkpoint is under way or clean segments are short; `ReadOnly`.
    pub(in crate::lfs) fn checkpoint(&mut self, now: TimeNs, occasion: Occasion) -> Outcome<()> {
        let result = self.try_checkpoint(now, occasion);
        self.upkeep.gather(matches!(result, Err(Stop::Need(_))));
        result
    }

    /// Commits a scope for somebody who waits for it. A commit of the whole volume is a checkpoint if retention keeps each of them.
    /// While the one before it is under way, a commit is all that it is; the driver waits for that ([`Engine::holds_commit`]).
    ///
    /// [`Engine::holds_commit`]: crate::engine::Engine::holds_commit
    ///
    /// # Errors
    /// As [`Self::commit_scope`].
    pub(in crate::lfs) fn commit_as_point(&mut self, now: TimeNs, scope: Scope) -> Outcome<Ticket> {
        if self.is_point(scope) && !self.writer.jobs.checkpoint_under_way() {
            match self.checkpoint(now, Occasion::Due) {
                Err(Stop::Room) => {}
                other => return other.map(|()| Ticket(self.writer.log.end().serial.0)),
            }
        }
        self.commit_scope(now, scope, Cause::Wanted)
    }

    fn try_checkpoint(&mut self, now: TimeNs, occasion: Occasion) -> Outcome<()> {
        self.standing.refuse()?;
        if self.writer.jobs.checkpoint_under_way()
            || self.writer.is_held_back && !self.tables.points.are_requested()
        {
            return Err(Stop::Room);
        }
        self.finish_frozen(now)?;
        self.close_remnants()?;
        self.put_rows(now)?;
        self.put_remnants(now)?;
        self.commit_scope(now, Scope::All, Cause::Due)?;
        // The commit may have laid out what only moves.
        while !self.tables.remnants.is_empty() {
            self.put_remnants(now)?;
            self.commit_scope(now, Scope::All, Cause::Due)?;
        }
        let imap_leaves = self.tables.imap.changed_leaves();
        let imap_old = self.tables.imap.table.rewritten(&mut self.shelf, &imap_leaves)?;
        let imap_blocks = self.tables.imap.table.blocks_written(&imap_leaves, self.tables.imap.limit()).len();
        let leaving = imap_old.values().copied().collect();
        let (usage_leaves, usage_old) = self.close_usage_set(leaving, imap_blocks)?;
        // From here on nothing stops.
        self.write_imap(now, &imap_leaves, &imap_old, occasion.flags());
        let emptied = self.write_usage(now, &usage_leaves, &usage_old, occasion.flags());
        if let Some((segment, live_bytes)) = self.tables.usage.take_wrong() {
            // The accounts on the device are wrong: no checkpoint is built on them.
            let what = format!("live bytes of segment {segment}");
            self.wrong_account(what, 0, live_bytes);
        }
        self.standing.refuse()?;
        self.queue_slot(now, occasion, emptied);
        Ok(())
    }

    /// The usage leaves to write and the blocks they replace; see the module's head. `leaving` are pointers that the
    /// inode map gives up, `imap_blocks` how many blocks it writes. Makes sure of the clean segments for all of it.
    #[allow(clippy::type_complexity)] // (leaves, blocks replaced by level and index)
    fn close_usage_set(
        &mut self,
        leaving: Vec<BlockPtr>,
        imap_blocks: usize,
    ) -> Outcome<(BTreeSet<u64>, BTreeMap<(u32, u64), BlockPtr>)> {
        let mut segments: BTreeSet<SegmentId> = self.tables.usage.changed().collect();
        segments.extend(leaving.iter().filter(|p| p.is_stored()).map(|p| self.geo.segment_of(p.addr)));
        loop {
            let before = segments.len();
            let leaves = self.tables.usage.leaves_of(segments.iter().copied());
            let old = self.tables.usage.table.rewritten(&mut self.shelf, &leaves)?;
            segments.extend(old.values().filter(|p| p.is_stored()).map(|p| self.geo.segment_of(p.addr)));
            let usage_blocks = self.tables.usage.table.blocks_written(&leaves, self.geo.segments).len();
            let blocks = imap_blocks + usage_blocks;
            let sectors = blocks as u64 * u64::from(self.geo.block_bytes / SECTOR_BYTES);
            let needed = Log::segments_needed(&self.geo, blocks, sectors);
            self.ensure_pool(needed)?;
            segments.extend(self.writer.log.upcoming(self.writer.log.meta_log(), needed));
            if segments.len() == before {
                return Ok((leaves, old));
            }
        }
    }

    fn write_imap(
        &mut self,
        now: TimeNs,
        leaves: &BTreeSet<u64>,
        old: &BTreeMap<(u32, u64), BlockPtr>,
        flags: u16,
    ) {
        let limit = self.tables.imap.limit();
        let written = self.tables.imap.table.blocks_written(leaves, limit);
        if leaves.is_empty() {
            return;
        }
        let updates = self.tables.imap.take_newer();
        let mut staged =
            self.tables.imap.table.stage(&mut self.shelf, leaves, &updates, limit, self.geo.block_bytes);
        self.leave(LogKind::InodeMap, old);
        self.tables.remnants.forget_copied();
        let lens: Vec<u8> =
            written.iter().map(|&(l, i)| self.tables.imap.table.stored_sectors(l, i, limit)).collect();
        let log = self.writer.log.meta_log();
        for plan in self.writer.log.plan(log, &self.geo, &mut self.tables.usage, &lens) {
            let mut writer = PartialWriter::new(&self.geo, &plan, plan.len_sectors - plan.summary_sectors);
            for at in plan.items.clone() {
                let (level, index) = written[at];
                let ptr = self.put_table_block(&mut writer, &staged, (level, index), lens[at]);
                writer.adds_live(LogKind::InodeMap, &ptr, now);
                self.tables.usage.add(plan.segment, LogKind::InodeMap, ptr.stored_bytes(), now, now);
                self.recount(0, u64::from(ptr.stored_bytes()));
                self.tables.imap.table.placed(&mut self.shelf, &mut staged, level, index, ptr);
                writer.entries.push(table_entry(InodeNo::INODE_MAP, level, index, ptr));
            }
            self.finish_partial(now, &plan, writer, log, flags);
        }
    }

    /// Returns the segments found empty.
    fn write_usage(
        &mut self,
        now: TimeNs,
        leaves: &BTreeSet<u64>,
        old: &BTreeMap<(u32, u64), BlockPtr>,
        flags: u16,
    ) -> Vec<SegmentId> {
        let limit = self.geo.segments;
        let written = self.tables.usage.table.blocks_written(leaves, limit);
        let lens: Vec<u8> =
            written.iter().map(|&(l, i)| self.tables.usage.table.stored_sectors(l, i, limit)).collect();
        self.leave(LogKind::UsageTable, old);
        let own_log = self.writer.log.meta_log();
        let plans = self.writer.log.plan(own_log, &self.geo, &mut self.tables.usage, &lens);
        for plan in &plans {
            let bytes: u32 = lens[plan.items.clone()].iter().map(|&l| u32::from(l) * SECTOR_BYTES).sum();
            self.tables.usage.add(plan.segment, LogKind::UsageTable, bytes, now, now);
            self.recount(0, u64::from(bytes));
        }
        let log = &self.writer.log;
        let open = |segment| log.is_open(segment);
        let (updates, emptied) = self.tables.usage.merge(&mut self.shelf, self.tables.slots.epoch(), &open);
        self.count_died(&emptied);
        let block_bytes = self.geo.block_bytes;
        let mut staged = self.tables.usage.table.stage(&mut self.shelf, leaves, &updates, limit, block_bytes);
        for plan in &plans {
            let mut writer = PartialWriter::new(&self.geo, plan, plan.len_sectors - plan.summary_sectors);
            for at in plan.items.clone() {
                let (level, index) = written[at];
                let ptr = self.put_table_block(&mut writer, &staged, (level, index), lens[at]);
                writer.adds_live(LogKind::UsageTable, &ptr, now);
                self.tables.usage.table.placed(&mut self.shelf, &mut staged, level, index, ptr);
                writer.entries.push(table_entry(InodeNo::SEGMENT_USAGE, level, index, ptr));
            }
            self.finish_partial(now, plan, writer, own_log, flags);
        }
        emptied
    }

    fn put_table_block(
        &self,
        writer: &mut PartialWriter,
        staged: &Staged,
        (level, index): (u32, u64),
        len_sectors: u8,
    ) -> BlockPtr {
        let ptr = BlockPtr { len_sectors, birth: self.tables.slots.epoch(), ..BlockPtr::HOLE };
        writer.put_copy(ptr, staged.bytes(level, index))
    }

    /// Counts the segments that a checkpoint finds empty and that the cleaner did not empty.
    fn count_died(&mut self, emptied: &[SegmentId]) {
        let cleaned = self.upkeep.cleaning.take_emptied();
        self.accounts.counters.segments_cleaned_empty +=
            emptied.iter().filter(|s| !cleaned.contains(s)).count() as u64;
    }

    /// Table blocks that are about to be replaced die.
    fn leave(&mut self, kind: LogKind, old: &BTreeMap<(u32, u64), BlockPtr>) {
        let fan = self.tables.imap.table.fan();
        for ((level, index), ptr) in old.iter().filter(|(_, p)| p.is_stored()) {
            if !self.tables.remnants.has_copied(ptr) {
                self.bury(&place_in_map(fan, *level, *index), kind, ptr);
            } else {
                self.vacate(kind, ptr);
            }
            self.recount(u64::from(ptr.stored_bytes()), 0);
        }
    }

    /// Puts the slot in line, after everything it refers to.
    pub(in crate::lfs) fn queue_slot(&mut self, now: TimeNs, occasion: Occasion, emptied: Vec<SegmentId>) {
        // One incarnation wrote all that may follow this checkpoint.
        let from = self.writer.log.end().serial.next();
        self.tables.note_spans(vec![Span { from, incarnation: self.writer.log.incarnation() }]);
        let (_, segments) = self.stated_size();
        self.writer.is_held_back = false;
        debug_assert!(self.tables.points.rows.is_written(), "the file has the rows that this checkpoint has");
        self.add_point(now, occasion);
        self.add_branch();
        let checkpoint = self.snapshot(
            now,
            occasion == Occasion::Unmount,
            emptied.iter().filter(|segment| segment.0 < segments).count() as u32,
            self.tables.imap.table.root,
            self.tables.usage.table.root,
        );
        self.writer.pins.note_emptied(self.tables.slots.epoch(), &emptied);
        self.upkeep.discard.note_emptied(self.tables.slots.epoch(), emptied);
        self.push_checkpoint(&checkpoint);
        self.tables.slots.repeat_if_wanted(checkpoint);
        self.begin_era(now);
        self.due.note_checkpoint(now);
    }

    /// The state of the volume as a checkpoint stores it.
    pub(in crate::lfs) fn snapshot(
        &self,
        now: TimeNs,
        clean: bool,
        emptied: u32,
        imap: TableRoot,
        usage: TableRoot,
    ) -> Checkpoint {
        let (size_bytes, segments) = self.stated_size();
        let mut counters = self.accounts.counters.encode();
        if let Some(live) = self.tables.usage.live() {
            live.put_live(&mut counters);
        }
        Checkpoint {
            uuid: self.sb.uuid,
            epoch: self.tables.slots.epoch(),
            incarnation: self.writer.log.incarnation(),
            clean,
            time: now,
            serial: self.writer.log.end().serial,
            serial_crc: self.writer.log.end().crc,
            imap,
            usage,
            emptied,
            next_ino: self.tables.imap.next_ino(),
            size_bytes,
            segments,
            live_bytes: self.accounts.live_bytes(),
            tails: self.writer.log.tails(),
            spans: self.tables.spans().to_vec(),
            features: self.tables.features(),
            points: self.tables.points.in_slot(),
            point_rows: self.tables.points.rows_len() as u32,
            retention: self.tables.points.retention().clone(),
            branches: self.stored_branches(),
            counters,
        }
    }

    /// Queues a checkpoint's bytes for its slot; the next one has the next number.
    pub(in crate::lfs) fn push_checkpoint(&mut self, checkpoint: &Checkpoint) {
        let bytes = checkpoint.encode(self.sb.write_unit_bytes);
        let slot = if is_on(Mutation::OneSlot) { 0 } else { (checkpoint.epoch.0 % 2) as usize };
        let data = Arc::new(AlignedBuf::copy_of(&bytes));
        self.writer.jobs.push_slot(
            checkpoint.serial,
            checkpoint.epoch,
            self.sb.checkpoint_at_bytes[slot],
            data,
        );
        self.tables.slots.queued(checkpoint.epoch);
    }
}

fn table_entry(ino: InodeNo, level: u32, index: u64, ptr: BlockPtr) -> Entry {
    Entry { ino, version: 0, kind: EntryKind::Block { fork: 0, level: level as u8, index }, ptr }
}
