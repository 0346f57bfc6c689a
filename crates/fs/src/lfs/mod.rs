//! The log-structured storage manager.
//!
//! `store` implements the seam towards UFS, `engine` the one towards the driver, `view` shows the volume to tools. The folders are
//! the mechanisms, each of which leans only on those before it:
//! - [`base`]: addresses, kinds of bytes, counters, damaged things;
//! - [`map`]: blocks and inodes in memory, and the trees of pointers between them;
//! - [`tables`]: the inode map and the segment usage table;
//! - [`write`]: the open logs, commits, checkpoints, requests for the device;
//! - [`room`]: what operations need, live space and clean segments, when to clean;
//! - [`upkeep`]: background work: cleaning, freeing, coalescing, discarding;
//! - [`recover`]: mkfs, opening, roll-forward, repair of accounts.
//!
//! Invariants:
//! - nothing on the device that a checkpoint slot can reach, by itself or by roll-forward, is overwritten;
//! - a dirty block's parents are dirty up to its inode, and their pointers to it are pending;
//! - `live_bytes` is the sum of all segments' live bytes plus what dirty blocks and records were charged less what they
//!   replace, at every moment between operations.

mod base;
mod engine;
mod map;
mod options;
mod recover;
mod room;
mod store;
mod tables;
mod upkeep;
pub mod view;
mod write;

use crate::cache::ClockMap;
use crate::store::declared::Declared;
pub use base::counters::Counters;
use base::damage::Quarantine;
pub use base::damage::Thing;
pub use base::geometry::Geometry;
pub use base::kinds::{KindBytes, LIVE_SLOT, LogKind};
pub use base::scan;
use base::standing::Standing;
use firnfs_format::checkpoint::{Checkpoint, Features, Span};
use firnfs_format::superblock::Superblock;
use firnfs_format::{Epoch, InodeNo, SegmentId, TimeNs};
pub(crate) use map::admit::{INODE_NUMBERS, block as admit_block};
use map::inode::{CoreInode, DirtyInode};
use map::shelf::Shelf;
pub(crate) use map::shelf::describe;
pub use map::wanted::{Wanted, verify_stored};
pub use options::Options;
pub use recover::evidence::LostLog;
pub(crate) use recover::mend::Restated;
pub use recover::mkfs::{MkfsOptions, mkfs, mkfs_with_logs};
pub use recover::open::{DeviceReader, NotFirnfs, read_superblock};
pub(crate) use recover::open::{newest, read_slots};
pub use recover::recovery::RollForward;
use room::throttle::Throttle;
use std::collections::{BTreeMap, VecDeque};
use tables::imap::Imap;
use tables::usage::Usage;
use upkeep::clean::Cleaning;
pub use upkeep::coalesce::Coalesced;
use upkeep::coalesce::Coalescing;
use upkeep::discard::DiscardScan;
pub use upkeep::discard::Trimmed;
pub use upkeep::port;
pub use upkeep::snapshot::Snapshot;
use write::jobs::Jobs;
use write::log::Log;
pub use write::log::{LogEnd, META_LOG};
use write::pins::Pins;
use write::sorting::Sorting;

/// Clean inodes and blocks that stay in memory however much of the rest is dirty: more than one operation needs.
const KEPT_INODES: usize = 64;
const KEPT_BLOCKS: u64 = 64;
/// Memory beyond the bound that a checkpoint or the cleaner may use for inodes, and again for blocks.
const GATHER_BYTES: u64 = 40 << 20;

/// See the module's head.
pub struct Lfs {
    sb: Superblock,
    geo: Geometry,
    options: Options,
    size_bytes: u64,
    shelf: Shelf,
    inodes: ClockMap<InodeNo, Box<CoreInode>>,
    inode_bytes: u64,
    imap: Imap,
    usage: Usage,
    log: Log,
    jobs: Jobs,
    pins: Pins,
    /// Dirty inodes in the order in which they turned dirty.
    dirty_order: BTreeMap<u64, InodeNo>,
    next_order: u64,
    dirty_record_bytes: u64,
    /// Freed since the last commit, with their versions: the log has to say so.
    freed: BTreeMap<InodeNo, u32>,
    /// Inodes with blocks to be freed in the background.
    reap: VecDeque<InodeNo>,
    live_bytes: u64,
    /// Number of the next checkpoint.
    epoch: Epoch,
    durable_epoch: Epoch,
    spans: Vec<Span>,
    features: Features,
    /// Segments found empty, by checkpoint, until they may be discarded.
    emptied_by: Vec<(Epoch, Vec<SegmentId>)>,
    discard_scan: DiscardScan,
    counters: Counters,
    counters_at_mount: Counters,
    standing: Standing,
    next_generation: u64,
    /// The number that `begin` found for the operation's new inode.
    chosen_ino: Option<(InodeNo, u32)>,
    /// Inodes whose record may have changed its length in the open operation.
    touched: Vec<InodeNo>,
    op_is_names: bool,
    /// What the open operation may change.
    declared: Declared,
    log_bytes_since_checkpoint: u64,
    changed_since_checkpoint: bool,
    checkpointed_at: TimeNs,
    /// When the oldest change that no flush was asked for yet was made.
    dirty_since: Option<TimeNs>,
    /// When somebody last asked for something.
    last_request: TimeNs,
    recovered: RollForward,
    /// The mount's incarnation goes into both slots, one after the other.
    second_slot: Option<Checkpoint>,
    cleaning: Cleaning,
    sorting: Sorting,
    coalescing: Coalescing,
    throttle: Throttle,
    /// Damaged things that background work leaves alone.
    quarantine: Quarantine,
    /// A checkpoint or the cleaner is bringing what it needs into memory, all of it at once.
    gathering: bool,
    /// The same for a cleaner outside, whose requests come between background steps.
    port_gathering: bool,
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
        self.geo
    }

    /// How it is run.
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
        &self.counters
    }

    /// Counts since the volume was opened.
    #[must_use]
    pub fn counters_since_mount(&self) -> Counters {
        self.counters.since(&self.counters_at_mount)
    }

    pub(crate) fn insert_inode(&mut self, ino: InodeNo, mut core: CoreInode) {
        if core.reap_from.is_some() {
            self.reap.push_back(ino);
        }
        core.counted_bytes = core.memory_bytes();
        self.inode_bytes += core.counted_bytes;
        if let Some(old) = self.inodes.insert(ino, Box::new(core), 1) {
            self.inode_bytes -= old.counted_bytes;
        }
    }

    /// Turns an inode dirty; `names`: every commit has to write it.
    fn mark_inode(&mut self, ino: InodeNo, names: bool) {
        let names = names || self.op_is_names;
        let order = self.next_order;
        let core = self.core_mut(ino);
        match &mut core.dirty {
            Some(dirty) => dirty.names |= names,
            None => {
                core.dirty = Some(DirtyInode { order, names });
                let charge = u64::from(core.record_charge_bytes);
                self.next_order += 1;
                self.dirty_order.insert(order, ino);
                self.dirty_record_bytes += charge;
                self.changed_since_checkpoint = true;
            }
        }
    }

    /// An inode's record is laid out.
    fn clean_inode(&mut self, ino: InodeNo) {
        let core = self.core_mut(ino);
        let charge = u64::from(core.record_charge_bytes);
        if let Some(dirty) = core.dirty.take() {
            self.dirty_order.remove(&dirty.order);
            self.dirty_record_bytes -= charge;
        }
    }

    /// Brings the charge for an inode's record, and the memory it counts with, up to its present length.
    fn settle_record(&mut self, ino: InodeNo) {
        let Some(core) = self.inodes.get(&ino) else { return };
        let memory_bytes = core.memory_bytes();
        self.inode_bytes = self.inode_bytes + memory_bytes - core.counted_bytes;
        core.counted_bytes = memory_bytes;
        if core.dirty.is_none() {
            return;
        }
        let now = core.record_bytes();
        let was = std::mem::replace(&mut core.record_charge_bytes, now);
        self.recount(u64::from(was), u64::from(now));
        self.dirty_record_bytes = self.dirty_record_bytes + u64::from(now) - u64::from(was);
    }

    /// Keeps memory within its bound by dropping what is clean and cold.
    pub(in crate::lfs) fn shrink_memory(&mut self) {
        let gathers = self.gathering || self.port_gathering || self.coalescing.is_gathering;
        let spare = if gathers { GATHER_BYTES } else { 0 };
        let limit = self.options.cache_bytes;
        // What cannot go leaves some that were just fetched: else the operation that waits for them never ends.
        let staying = self.dirty_order.len() + self.reap.len() + KEPT_INODES;
        // Inodes may have a quarter; blocks have what is left.
        while self.inode_bytes > limit / 4 + spare && self.inodes.len() > staying {
            let gone = self.inodes.evict(|_, c| c.dirty.is_none() && c.reap_from.is_none() && !c.freed);
            let Some((_, core)) = gone else { break };
            self.inode_bytes -= core.counted_bytes;
        }
        // What is in flight, and its copy for the device.
        let in_flight = 2 * self.jobs.in_flight_bytes();
        let blocks = limit.saturating_sub(self.inode_bytes.min(limit / 2) + in_flight) + spare;
        let staying = self.shelf.cache.dirty_bytes() + KEPT_BLOCKS * u64::from(self.geo.block_bytes);
        self.shelf.cache.shrink(blocks.max(staying));
    }

    /// Memory in use for blocks, inodes and writes under way, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.shelf.cache.bytes() + self.inode_bytes + 2 * self.jobs.in_flight_bytes()
    }
}
