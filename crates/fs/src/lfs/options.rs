//! How a volume is to be run.

use crate::clean::{Medium, PlacementName, Policy};
use crate::lfs::Lfs;
use crate::lfs::room::marks::Thresholds;
use firnfs_format::checkpoint::MAX_SLOT_POINTS;

/// Times in milliseconds, sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Memory for blocks and inodes; at least 4 MiB are used. Checkpoints and the cleaner may need up to 80 MiB more.
    pub cache_bytes: u64,
    /// Dirty bytes at which a commit starts by itself (the write threshold); at most an eighth of the memory.
    pub write_threshold_bytes: u64,
    /// Dirty indirect blocks that stay in memory when a commit starts by the write threshold: random writes to a large file change
    /// the same ones again and again. The next sync, checkpoint or commit by age writes them. At most an eighth of the memory;
    /// 0: each commit writes them.
    pub held_indirect_bytes: u64,
    /// About how many inodes and blocks one step of a commit lays out, at least 1: users' operations wait for no more than
    /// one step.
    pub commit_step_items: usize,
    /// Dirty blocks of content of one file, at least 8, that go to the log although no commit is due; of blocks that are scattered over
    /// the file, twice as many have to be dirty.
    pub chunk_blocks: usize,
    /// Age of the oldest change at which a commit starts by itself.
    pub commit_interval_ms: u64,
    /// Time between checkpoints while there are changes.
    pub checkpoint_interval_ms: u64,
    /// Log bytes between checkpoints: bounds roll-forward.
    pub checkpoint_bytes: u64,
    /// Nothing is written to the device.
    pub read_only: bool,
    /// Emptied segments are discarded.
    pub discard: bool,
    /// File data stays in memory once it is written. Off where another layer caches it (with FUSE the kernel).
    pub cache_file_data: bool,
    /// Which segments are cleaned.
    pub cleaning_policy: Policy,
    /// How many clean segments the cleaner makes, and when it begins.
    pub thresholds: Thresholds,
    /// Which log content goes to, with no more logs than the volume was made with. `None`: the placement that suits the
    /// number of logs.
    pub placement: Option<PlacementName>,
    /// How long a file must be unchanged before idle time is used to put its blocks in order; `None`: never.
    pub coalesce_age_ms: Option<u64>,
    /// How long no request must have arrived before work that can wait begins.
    pub idle_after_ms: u64,
    /// How much of the device idle cleaning and coalescing may use, in bytes read and written a second on average; at least
    /// 64 KiB. `None`: all that nobody else uses.
    pub idle_bytes_per_s: Option<u64>,
    /// Retained points that a checkpoint slot may have before older ones become rows of a file, 2 to 256.
    pub slot_points: usize,
    /// How long the device takes to read. The cleaner decides from it how much of a segment to read, and coalescing which files
    /// pay.
    pub medium: Medium,
}

/// The options that can change while a volume is open: as the fields of the same names in [`Options`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// Memory for blocks and inodes. The write threshold stays within an eighth of it.
    pub cache_bytes: u64,
    /// Age of the oldest change at which a commit starts by itself.
    pub commit_interval_ms: u64,
    /// Time between checkpoints while there are changes.
    pub checkpoint_interval_ms: u64,
    /// Log bytes between checkpoints.
    pub checkpoint_bytes: u64,
    /// Which segments are cleaned from the next pass on.
    pub cleaning_policy: Policy,
    /// How many clean segments the cleaner makes, and when it begins.
    pub thresholds: Thresholds,
    /// How long a file must be unchanged before idle time is used to put its blocks in order; `None`: never.
    pub coalesce_age_ms: Option<u64>,
    /// How long no request must have arrived before work that can wait begins.
    pub idle_after_ms: u64,
    /// How much of the device idle cleaning and coalescing may use.
    pub idle_bytes_per_s: Option<u64>,
    /// Which log content goes to from the next batch on. Another placement than now begins without what the present one has
    /// learned.
    pub placement: Option<PlacementName>,
    /// Segments that become empty from now on are discarded.
    pub discard: bool,
}

impl From<Options> for Tuning {
    /// What a volume with these options has: a tuning that changes nothing.
    fn from(options: Options) -> Self {
        Self {
            cache_bytes: options.cache_bytes,
            commit_interval_ms: options.commit_interval_ms,
            checkpoint_interval_ms: options.checkpoint_interval_ms,
            checkpoint_bytes: options.checkpoint_bytes,
            cleaning_policy: options.cleaning_policy,
            thresholds: options.thresholds,
            coalesce_age_ms: options.coalesce_age_ms,
            idle_after_ms: options.idle_after_ms,
            idle_bytes_per_s: options.idle_bytes_per_s,
            placement: options.placement,
            discard: options.discard,
        }
    }
}

impl Lfs {
    /// Changes how the volume is run from now on. The driver wakes its background work, whose next time may be sooner.
    pub fn tune(&mut self, tuning: &Tuning) {
        let Tuning { cache_bytes, commit_interval_ms, checkpoint_interval_ms, .. } = *tuning;
        let Tuning { checkpoint_bytes, cleaning_policy, coalesce_age_ms, placement, discard, .. } = *tuning;
        let Tuning { idle_after_ms, idle_bytes_per_s, thresholds, .. } = *tuning;
        if placement != self.options.placement {
            self.sorting.change(placement, self.writer.log.data_logs());
        }
        if thresholds != self.options.thresholds {
            self.end_rest();
        }
        let options = Options {
            cache_bytes,
            // Less memory may have lowered it.
            write_threshold_bytes: self.wanted_threshold_bytes,
            commit_interval_ms,
            checkpoint_interval_ms,
            checkpoint_bytes,
            cleaning_policy,
            thresholds,
            coalesce_age_ms,
            idle_after_ms,
            idle_bytes_per_s,
            placement,
            discard,
            ..self.options
        };
        self.options = options.within_bounds();
        self.stop_coalescing();
        self.end_idle_pause();
        self.shrink_memory();
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            write_threshold_bytes: 16 << 20,
            held_indirect_bytes: 16 << 20,
            commit_step_items: 512,
            chunk_blocks: 512,
            commit_interval_ms: 5_000,
            checkpoint_interval_ms: 30_000,
            checkpoint_bytes: 256 << 20,
            read_only: false,
            discard: false,
            cache_file_data: true,
            cleaning_policy: Policy::default(),
            thresholds: Thresholds::default(),
            placement: None,
            coalesce_age_ms: Some(60_000),
            idle_after_ms: 2_000,
            idle_bytes_per_s: None,
            slot_points: 128,
            medium: Medium::HEAD,
        }
    }
}

impl Options {
    /// Least memory that a volume works with; [`Options::cache_bytes`] below it count as this much.
    pub const CACHE_BYTES_LEAST: u64 = 4 << 20;
    /// Least [`Options::chunk_blocks`]; less counts as this much.
    pub const CHUNK_BLOCKS_LEAST: usize = 8;
    /// Least [`Options::idle_bytes_per_s`]; less counts as this much.
    pub const IDLE_RATE_LEAST: u64 = 64 << 10;

    /// The options with memory and write threshold limited to values that the store can work with.
    pub(in crate::lfs) fn within_bounds(self) -> Self {
        let cache_bytes = self.cache_bytes.max(Self::CACHE_BYTES_LEAST);
        let write_threshold_bytes = self.write_threshold_bytes.clamp(4096, cache_bytes / 8);
        let held_indirect_bytes = self.held_indirect_bytes.min(cache_bytes / 8);
        let commit_step_items = self.commit_step_items.max(1);
        let chunk_blocks = self.chunk_blocks.max(Self::CHUNK_BLOCKS_LEAST);
        let idle_bytes_per_s = self.idle_bytes_per_s.map(|rate| rate.max(Self::IDLE_RATE_LEAST));
        let slot_points = self.slot_points.clamp(2, MAX_SLOT_POINTS);
        Self {
            cache_bytes,
            write_threshold_bytes,
            held_indirect_bytes,
            commit_step_items,
            chunk_blocks,
            idle_bytes_per_s,
            slot_points,
            ..self
        }
    }
}
