//! Live space, the only source of ENOSPC, and the sizes of dirty data and reserves. `segments` computes log room from them, the
//! lack of which only makes operations wait.

use crate::lfs::Lfs;
use crate::lfs::base::geometry::Geometry;
use crate::lfs::room::segments::Room;
use crate::lfs::write::checkpoint::CHECKPOINT_SEGMENTS;
use crate::lfs::write::log::{DATA_LOGS_MAX, DATA_LOGS_MIN, Log};
use crate::lfs::write::shrinking::Shrinking;
use firnfs_format::table::TABLE_ENTRY_BYTES;
use firnfs_format::{InodeNo, SECTOR_BYTES};

/// Largest range of one operation, in bytes.
pub(in crate::lfs) const OP_MAX_BYTES: u64 = 1 << 20;
/// Part of a segment that summaries, padding and unused ends take at most, in 1/1024.
const SUMMARY_SHARE: u64 = 48;
/// Space that a file takes beyond its blocks and its record, in bytes: the entry of the record in a summary, which for a
/// small record is a larger share than [`SUMMARY_SHARE`].
const INODE_SUMMARY_BYTES: u64 = 32;
/// The same with its entry in the inode map.
pub(in crate::lfs) const INODE_EXTRA_BYTES: u64 = INODE_SUMMARY_BYTES + TABLE_ENTRY_BYTES as u64;
/// Over-provision: the percentage of segments that users cannot fill, so that cleaning stays cheap.
const OVER_PROVISION_PERCENT: u64 = 7;
/// Levels of indirect blocks that matter for the room that a range of a file needs; higher levels add at most one block each.
const INDIRECT_LEVELS: u32 = 4;
/// The most that one operation asks for beyond what it uses in the end, in bytes.
const PART_SPARE_BYTES: u64 = 16 << 10;
/// Log bytes that the entry of a freed inode takes at most.
const FREED_BYTES: u64 = 64;
/// Clean segments that users' writes leave to checkpoints and the cleaner.
pub(in crate::lfs) const RESERVE_SEGMENTS: u64 = CHECKPOINT_SEGMENTS as u64 + 8;
/// Fewest segments a volume can have: the reserve, three open logs, and some room for data.
pub const MIN_SEGMENTS: u64 = RESERVE_SEGMENTS + 16;
/// Segments that each additional log takes: the one it is in, and the one in which it will continue.
const SEGMENTS_OF_A_LOG: u64 = 2;
/// A volume has one more log for data for each this many segments: such a log takes less than a hundredth of the volume,
/// and seven hundredths are over-provision.
const SEGMENTS_PER_LOG: u64 = 256;

/// Logs for data of a new volume with that geometry. On a small volume additional logs are too expensive, because open
/// segments cannot be cleaned.
pub(in crate::lfs) fn data_logs_for(geo: &Geometry) -> u8 {
    let more = (geo.segments / SEGMENTS_PER_LOG).min(u64::from(DATA_LOGS_MAX - DATA_LOGS_MIN));
    DATA_LOGS_MIN + more as u8
}

/// Clean segments for the logs beyond those that every volume has.
pub(in crate::lfs) fn segments_of_more(data_logs: u8) -> u64 {
    SEGMENTS_OF_A_LOG * u64::from(data_logs.saturating_sub(DATA_LOGS_MIN))
}

/// Live bytes that users can fill on a volume of that geometry with that many logs for data.
#[must_use]
pub(in crate::lfs) fn capacity_bytes(geo: &Geometry, data_logs: u8) -> u64 {
    // However full the volume is, the rest must have room for the reserve, the unused ends of the open logs, and one operation.
    let operation = (OP_MAX_BYTES * 4 / 3).div_ceil(u64::from(geo.segment_bytes));
    let least = RESERVE_SEGMENTS + segments_of_more(data_logs) + 4 + operation;
    let over = (geo.segments * OVER_PROVISION_PERCENT).div_ceil(100).max(least);
    geo.segments.saturating_sub(over) * usable_bytes(geo)
}

/// The fewest segments in which that many bytes fit, on a volume with that many logs for data.
fn least_segments(taken_bytes: u64, geo: &Geometry, data_logs: u8) -> u64 {
    let fits =
        |segments: u64| capacity_bytes(&Geometry { segments, ..geo.clone() }, data_logs) >= taken_bytes;
    let (mut low, mut high) = (MIN_SEGMENTS + segments_of_more(data_logs), geo.segments);
    while low < high {
        let middle = low.midpoint(high);
        if fits(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// The bytes in segments that [`Lfs::space_now`] shows to nobody, by purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Withheld {
    /// Segments for checkpoints and the cleaner ([`Lfs::reserve_segments`]).
    pub reserve_bytes: u64,
    /// Further segments that stay without live data: the emptier the rest is, the less cleaning costs.
    pub cleaning_bytes: u64,
    /// Summaries in all other segments.
    pub summary_bytes: u64,
    /// Indirect blocks of files, and room for their dead versions.
    pub metadata_bytes: u64,
}

/// Bytes of a segment that can hold live data.
pub(in crate::lfs) fn usable_bytes(geo: &Geometry) -> u64 {
    u64::from(geo.segment_bytes) * (1024 - SUMMARY_SHARE) / 1024
}

/// Room for the metadata that the cleaner itself lets die: moving a block rewrites its indirect block, moving a record
/// rewrites its block of the inode map. This metadata needs about three times its size, or cleaning a full volume would gain
/// nothing.
fn churn_bytes(live_bytes: u64, inodes: u64, geo: &Geometry) -> u64 {
    2 * (live_bytes / geo.map.pointers_per_block() + inodes * TABLE_ENTRY_BYTES as u64)
}

/// Bytes of content that fit into that many live bytes: each block also needs its share of the indirect blocks above it, and of
/// the room for their dead versions ([`churn_bytes`]), three pointers in all.
fn content_bytes(live_bytes: u64, geo: &Geometry) -> u64 {
    let pointers = geo.map.pointers_per_block();
    live_bytes / pointers * (pointers - 3)
}

/// Blocks of the inode map that one pass of the cleaner can touch, in bytes.
const CHECKPOINT_MAP_BYTES: u64 = 8 << 20;

impl Lfs {
    /// The geometry of the segments that can be filled: while the volume is about to become smaller, what it will have.
    fn room_geo(&self) -> &Geometry {
        self.writer.shrinking().map_or(&self.geo, Shrinking::geo)
    }

    /// Live bytes that users can fill.
    pub(in crate::lfs) fn capacity_bytes(&self) -> u64 {
        capacity_bytes(self.room_geo(), self.writer.log.data_logs())
    }

    /// The least size in bytes to which the volume can shrink, as far as room is concerned; at most its present size.
    #[must_use]
    pub fn least_size_bytes(&self) -> u64 {
        let taken_bytes = self.taken_bytes().saturating_sub(self.yielding_bytes());
        let segments = least_segments(taken_bytes, &self.geo, self.writer.log.data_logs());
        let around_bytes = self.sb.log_start_bytes + u64::from(self.sb.write_unit_bytes);
        (around_bytes + segments * u64::from(self.geo.segment_bytes)).min(self.size_bytes)
    }

    /// True if that many more live bytes fit.
    pub(in crate::lfs) fn has_space(&self, growth_bytes: u64) -> bool {
        self.taken_bytes().saturating_add(growth_bytes) <= self.capacity_bytes()
    }

    /// True if that many more blocks of content fit, with the most indirect blocks that they can need: at each end of a range
    /// one partly filled block of each level.
    pub(in crate::lfs) fn has_space_for_blocks(&self, blocks: u64) -> bool {
        let block_bytes = u64::from(self.geo.block_bytes);
        let pointers = self.geo.map.pointers_per_block();
        let (mut all, mut level) = (blocks, blocks);
        for _ in 0..INDIRECT_LEVELS {
            level /= pointers;
            all = all.saturating_add(level + 2);
        }
        let Some(growth_bytes) = all.checked_mul(block_bytes) else { return false };
        let churn_bytes = churn_bytes(growth_bytes, 0, &self.geo);
        self.has_space(growth_bytes.saturating_add(churn_bytes).saturating_add(PART_SPARE_BYTES))
    }

    /// Bytes of [`Self::taken_bytes`] that are there for automatic points alone; 0 if a point with a name, or with a clone, may hold some of
    /// them.
    fn yielding_bytes(&self) -> u64 {
        let points = &self.tables.points;
        if points.is_empty() || points.are_named() || !self.tables.branches.is_empty() {
            return 0;
        }
        self.past_bytes() + self.metadata_bytes()
    }

    /// What automatic points may hold without making the cleaner's work hard: half of what users leave free. The cleaner reads and moves the
    /// more, the less is free: see `docs/bench/history.md`.
    pub(in crate::lfs) fn past_bytes_at_ease(&self) -> u64 {
        let present_bytes = self.taken_bytes().saturating_sub(self.past_bytes());
        self.capacity_bytes().saturating_sub(present_bytes) / 2
    }

    /// Live bytes, and the space they need that is not live yet or never is: without it many small files would fill
    /// the log with their summaries and with the inode map, until the cleaner has no room to move blocks and deletes
    /// have none. While there are retained points, metadata may die once without giving its room back.
    fn taken_bytes(&self) -> u64 {
        self.accounts.live_bytes()
            + self.tables.imap.used() * INODE_SUMMARY_BYTES
            + self.tables.imap.growth_bytes()
            + churn_bytes(self.accounts.live_bytes(), self.tables.imap.used(), &self.geo)
            + if self.tables.points.is_empty() { 0 } else { self.metadata_bytes() }
    }

    /// Dirty bytes, as they will go to the log.
    pub(in crate::lfs) fn dirty_bytes(&self) -> u64 {
        let freed = self.files.freed_len() as u64 * FREED_BYTES;
        self.shelf.cache.dirty_bytes() + self.files.dirty_record_bytes() + freed
    }

    /// An upper bound of the bytes that dirty data and the tables will take in the log. They take more in memory: an indirect
    /// block of a short file is trimmed to a sector in the log. A pass that counted the memory would move so little that its
    /// checkpoints would use up its gain.
    pub(in crate::lfs) fn taken_log_bytes(&self) -> u64 {
        let freed = self.files.freed_len() as u64 * FREED_BYTES;
        self.shelf.cache.owed_bytes() + self.files.dirty_record_bytes() + freed + self.changed_table_bytes()
    }

    /// Clean segments that users' writes leave to checkpoints and the cleaner.
    pub(in crate::lfs) fn reserve_segments(&self) -> u64 {
        RESERVE_SEGMENTS + segments_of_more(self.writer.log.data_logs()) + 2 * self.checkpoint_segments()
    }

    /// Clean segments that the inode map may take in the checkpoint after a pass of the cleaner: each inode that moves
    /// rewrites a block of it, in the worst case all blocks.
    pub(in crate::lfs) fn checkpoint_segments(&self) -> u64 {
        let map_bytes = self.tables.imap.used() * TABLE_ENTRY_BYTES as u64;
        map_bytes.min(CHECKPOINT_MAP_BYTES).div_ceil(u64::from(self.geo.segment_bytes))
    }

    /// The present state of clean segments, and who may take them. A caller that has a [`Room`] computes another one only after it
    /// has changed something.
    pub(in crate::lfs) fn room_now(&self) -> Room {
        let segment_bytes = u64::from(self.geo.segment_bytes);
        let (ready, waiting) = self.tables.usage.clean_segments(self.tables.slots.durable());
        let is_ready = |found_by| self.tables.usage.is_ready_since(found_by, self.tables.slots.durable());
        Room {
            segments: self.room_geo().segments,
            ready,
            waiting,
            emptied: self.upkeep.cleaning.emptied_segments(),
            pinned: self.writer.pins.clean_segments(is_ready),
            discarding: self.writer.jobs.discarding_bytes() / segment_bytes,
            reserve: self.reserve_segments(),
            checkpoint: Log::segments_needed(&self.geo, 0, 0) as u64 + 1,
            open_logs: self.writer.log.open_logs(),
            live: self.accounts.live_bytes().div_ceil(segment_bytes),
            commits: (2 * self.options.write_threshold_bytes / segment_bytes)
                .min(self.room_geo().segments / 32),
            usable_bytes: usable_bytes(&self.geo),
            segment_bytes,
            dirty_bytes: self.dirty_bytes(),
            holdable_bytes: self.shelf.cache.dirty_indirect_bytes().min(self.options.held_indirect_bytes),
            tables_bytes: self.changed_table_bytes().saturating_sub(self.table_reserve_bytes()),
            burst_bytes: self.largest_burst_bytes(),
            thresholds: self.options.thresholds,
        }
    }

    /// Bytes of table blocks that the next checkpoint has to write, not counting those above the leaves.
    pub(in crate::lfs) fn changed_table_bytes(&self) -> u64 {
        (self.tables.imap.changed_blocks() + self.tables.usage.changed_blocks())
            * u64::from(self.geo.block_bytes)
    }

    /// Bytes of table blocks that the reserve has room for: a checkpoint is due before there are more.
    pub(in crate::lfs) fn table_reserve_bytes(&self) -> u64 {
        u64::from(self.geo.segment_bytes) * CHECKPOINT_SEGMENTS as u64 / 2
    }

    /// What the size that statfs shows leaves out of the segments.
    #[must_use]
    pub fn withheld(&self) -> Withheld {
        let segment_bytes = u64::from(self.geo.segment_bytes);
        let capacity_bytes = self.capacity_bytes();
        let filled = capacity_bytes / usable_bytes(&self.geo).max(1);
        let over_bytes = (self.geo.segments - filled.min(self.geo.segments)) * segment_bytes;
        let reserve_bytes = (self.reserve_segments() * segment_bytes).min(over_bytes);
        Withheld {
            reserve_bytes,
            cleaning_bytes: over_bytes - reserve_bytes,
            summary_bytes: (filled * segment_bytes).saturating_sub(capacity_bytes),
            metadata_bytes: capacity_bytes - content_bytes(capacity_bytes, &self.geo),
        }
    }

    /// Space as statfs shows it, in bytes of content: a file as large as the free space fits. It does not include the
    /// over-provision. What gives way to users counts as free: they can fill it.
    pub(in crate::lfs) fn space_now(&self) -> crate::store::Space {
        let capacity_bytes = self.capacity_bytes();
        let taken_bytes = self.taken_bytes().saturating_sub(self.yielding_bytes());
        let free_bytes = capacity_bytes.saturating_sub(taken_bytes);
        crate::store::Space {
            total_bytes: content_bytes(capacity_bytes, &self.geo),
            free_bytes: content_bytes(free_bytes, &self.geo),
            inodes_used: self.tables.imap.used(),
            inodes_free: (free_bytes / (u64::from(SECTOR_BYTES) + 3 * INODE_EXTRA_BYTES))
                .min(u64::MAX - InodeNo::FIRST_USER.0),
        }
    }
}
