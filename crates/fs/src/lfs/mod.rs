//! The log-structured storage manager.
//!
//! `store` implements the seam towards UFS, `engine` the one towards the driver, `view` and `watch` show the volume to tools,
//! `options` say how it is to be run.
//! The folders are the mechanisms; each uses only those before it:
//! - [`base`]: addresses, kinds of bytes, counters, damaged things;
//! - [`map`]: blocks and inodes in memory, and the trees of pointers between them;
//! - [`tables`]: the inode map and the segment usage table;
//! - [`past`]: retained points, and where what they lead to is now;
//! - [`mod@write`]: the open logs, commits, checkpoints, requests for the device;
//! - [`room`]: what operations need, live space and clean segments, when to clean;
//! - [`upkeep`]: background work: cleaning, freeing, coalescing, discarding;
//! - [`recover`]: mkfs, opening, roll-forward, repair of accounts.
//!
//! [`Lfs`] is the sum of owners, each with its state, its methods and its invariants in the head of its file: `standing`,
//! `accounts`, `shelf`, `files`, `tables`, `writer`, `sorting`, `due`, `operation`, `upkeep`.
//!
//! Invariants of the whole:
//! - nothing on the device that a checkpoint slot can reach, by itself or by roll-forward, is overwritten;
//! - a dirty block's parents are dirty up to its inode, and their pointers to it are pending.

mod base;
mod engine;
mod map;
mod options;
pub(crate) mod past;
mod recover;
mod room;
mod store;
mod tables;
mod upkeep;
pub mod view;
pub mod watch;
mod write;

use crate::store::recharges::Recharges;
use base::accounts::Accounts;
pub use base::counters::Counters;
pub use base::damage::Thing;
pub use base::geometry::Geometry;
pub use base::kinds::{KindBytes, LIVE_SLOT, LogKind};
pub use base::recent::Lately;
pub use base::scan;
pub use base::segment_map::{DeviceNo, Place, SegmentMap};
use base::standing::Standing;
use firnfs_format::superblock::Superblock;
use firnfs_format::{InodeNo, TimeNs};
pub(crate) use map::admit::{INODE_NUMBERS, block as admit_block};
use map::blockmap::Turn;
use map::files::{Files, Recharge};
use map::shelf::Shelf;
pub(crate) use map::shelf::describe;
pub use map::wanted::{Wanted, verify_stored};
pub use options::{Options, Tuning};
pub use past::differ::Differing;
pub use past::differ_blocks::BlockChange;
pub use past::holdings::Holdings;
use past::states::PastBlocks;
use past::views::Views;
pub use past::views::{RECORDS_AT_ONCE, title};
pub use recover::evidence::LostLog;
pub(crate) use recover::mend::Restated;
pub use recover::mkfs::{MkfsOptions, mkfs, mkfs_with_logs};
pub use recover::open::{NotFirnfs, read_superblock};
pub(crate) use recover::open::{newest, read_slots};
pub use recover::recovery::RollForward;
pub use room::marks::{Mark, Thresholds, UnfitMark};
use room::operation::OpenOperation;
pub use room::space::Withheld;
use tables::Tables;
pub use tables::holds::{HoldId, HoldKind};
use upkeep::Upkeep;
pub use upkeep::coalesce::{Coalesced, Shortage};
pub use upkeep::discard::Trimmed;
pub use upkeep::port;
pub use upkeep::shrink::{ShrinkPhase, Shrunk};
pub use upkeep::snapshot::Snapshot;
pub use upkeep::taken::{Taken, TakenSum, WhyTaken};
use write::LogWriter;
use write::due::Due;
pub use write::log::{LogEnd, META_LOG};
use write::sorting::Sorting;

/// Clean blocks that stay in memory no matter how many others are dirty: more than one operation needs.
const KEPT_BLOCKS: u64 = 64;
/// Memory beyond the bound that a checkpoint or the cleaner may use for inodes, and the same for blocks.
const GATHER_BYTES: u64 = 40 << 20;

/// See the module's head. One module owns each part and states its invariants in its head; decisions about several parts are
/// made here and in the folders above them.
pub struct Lfs {
    sb: Superblock,
    geo: Geometry,
    options: Options,
    /// The write threshold that was asked for; `options` has the one that the memory allows.
    wanted_threshold_bytes: u64,
    size_bytes: u64,
    /// Whether the volume may be written.
    standing: Standing,
    /// Live bytes, and counts since mkfs.
    accounts: Accounts,
    /// Blocks in memory and on their way to the device.
    shelf: Shelf,
    /// Blocks of retained points in memory.
    past_blocks: PastBlocks,
    /// Retained points that are looked into.
    views: Views,
    /// Inodes in memory.
    files: Files,
    /// The inode map, the segment usage table, and the checkpoints that have them.
    tables: Tables,
    /// The open logs, requests for the device, and readers' pins.
    writer: LogWriter,
    /// Which log a block goes to.
    sorting: Sorting,
    /// When a commit and a checkpoint are due.
    due: Due,
    /// The operation between `begin` and `end`.
    operation: OpenOperation,
    /// Changes of what inodes are charged, while somebody follows them ([`crate::store::Store::take_recharges`]).
    recharges: Recharges,
    /// Background work.
    upkeep: Upkeep,
    next_generation: u64,
    recovered: RollForward,
}

impl Lfs {
    /// The volume's superblock.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.sb
    }

    /// Where things are.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geo.clone()
    }

    /// How the volume is run.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What roll-forward did when the volume was opened.
    #[must_use]
    pub fn recovered(&self) -> &RollForward {
        &self.recovered
    }

    /// Counts since mkfs.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.accounts.counters
    }

    /// Counts since the volume was opened.
    #[must_use]
    pub fn counters_since_mount(&self) -> Counters {
        self.accounts.since_mount()
    }

    /// Counts of the last minute; `None` before the first background step.
    #[must_use]
    pub fn counters_lately(&self, now: TimeNs) -> Option<Lately> {
        self.accounts.lately(now)
    }

    /// Turns an inode dirty; `names`: every commit has to write it.
    fn mark_inode(&mut self, ino: InodeNo, names: bool) {
        if self.files.mark(ino, names || self.operation.is_names, Turn::Changes) {
            self.due.note_change();
        }
    }

    /// Turns an inode dirty because something that it leads to does, or because it moves itself.
    fn mark_turned(&mut self, ino: InodeNo, turn: Turn) {
        if self.files.mark(ino, self.operation.is_names, turn) {
            self.due.note_change();
        }
    }

    /// Brings the charge for an inode's record, and the memory it counts with, up to its present length.
    fn settle_record(&mut self, ino: InodeNo) {
        if let Some(Recharge { was_bytes, now_bytes }) = self.files.settle(ino) {
            self.recount(u64::from(was_bytes), u64::from(now_bytes));
        }
    }

    /// Keeps memory within its bound: evicts clean blocks and inodes that were not used for long.
    pub(in crate::lfs) fn shrink_memory(&mut self) {
        let spare = if self.upkeep.gathers() { GATHER_BYTES } else { 0 };
        let limit = self.options.cache_bytes;
        // Inodes may take a quarter; blocks take the rest.
        self.files.shrink(limit / 4 + spare);
        // Writes in flight, and their copies for the device.
        let in_flight = 2 * self.writer.jobs.in_flight_bytes();
        let blocks = limit.saturating_sub(self.files.inode_bytes().min(limit / 2) + in_flight) + spare;
        let staying = self.shelf.cache.dirty_bytes() + KEPT_BLOCKS * u64::from(self.geo.block_bytes);
        self.shelf.cache.shrink(blocks.max(staying));
    }

    /// Memory in use for blocks, inodes and writes under way, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.shelf.cache.bytes() + self.files.inode_bytes() + 2 * self.writer.jobs.in_flight_bytes()
    }
}
