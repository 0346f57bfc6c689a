//! The log-structured storage manager.
//!
//! Top-down: `open` and `mkfs` make one, `store` implements the seam, `blockmap` and `inode` keep a file's tree in memory,
//! `commit` lays out what is dirty, in the log that `sorting` says, `checkpoint` makes it the new starting point, `recovery` rolls
//! forward from there, `clean` makes room, `coalesce` puts files in order, `step` says when. `log`, `jobs`, `imap`, `usage`, `table`
//! and `shelf` are the parts.
//!
//! Invariants:
//! - nothing on the device that a checkpoint slot can reach, by itself or by roll-forward, is overwritten;
//! - a dirty block's parents are dirty up to its inode, and their pointers to it are pending;
//! - `live_bytes` is the sum of all segments' live bytes plus what dirty blocks and records were charged less what they
//!   replace, at every moment between operations.

mod admit;
mod blockmap;
mod checkpoint;
mod clean;
mod coalesce;
mod coalesce_plan;
mod commit;
mod counters;
mod demand;
mod discard;
mod eras;
mod evidence;
mod geometry;
mod hints;
mod imap;
mod inode;
mod jobs;
mod kinds;
mod log;
mod mend;
mod mkfs;
mod open;
mod pace;
mod parcel;
mod pins;
pub mod port;
mod quiet;
mod reap;
mod recovery;
pub mod scan;
mod seams;
mod shelf;
mod sorting;
mod space;
mod step;
mod still;
mod store;
mod table;
mod tally;
mod trouble;
mod usage;
pub mod view;

use crate::cache::ClockMap;
use crate::clean::{PlacementName, Policy};
use crate::error::{FetchKind, FsError, Stop};
use crate::store::{Buf, Ticket, padded};
pub(crate) use admit::{INODE_NUMBERS, block as admit_block};
pub use coalesce::Coalesced;
pub use counters::Counters;
pub use discard::Trimmed;
pub use evidence::LostLog;
use firnfs_device::DeviceError;
use firnfs_format::checkpoint::{Checkpoint, Features, Span};
use firnfs_format::superblock::Superblock;
use firnfs_format::{Epoch, InodeNo, SegmentId, Serial, TimeNs};
pub use geometry::Geometry;
use imap::Imap;
use inode::{CoreInode, DirtyInode};
pub use jobs::{Job, JobId};
use jobs::{Jobs, Landed};
pub use kinds::{KindBytes, LIVE_SLOT, LogKind};
use log::Log;
pub use log::META_LOG;
pub(crate) use mend::Restated;
pub use mkfs::{MkfsOptions, mkfs, mkfs_with_logs};
pub use open::{DeviceReader, NotFirnfs, read_superblock};
pub(crate) use open::{newest, read_slots};
use pins::Pins;
pub use recovery::RollForward;
use shelf::Shelf;
pub(crate) use shelf::describe;
pub use shelf::{verify, verify_stored};
use std::collections::{BTreeMap, VecDeque};
pub use step::{Pressure, Step};
pub use still::Still;
pub use trouble::Thing;
use usage::Usage;

/// Clean inodes and blocks that stay in memory however much of the rest is dirty: more than one operation needs.
const KEPT_INODES: usize = 64;
const KEPT_BLOCKS: u64 = 64;
/// Memory beyond the bound that a checkpoint or the cleaner may use for inodes, and again for blocks.
const GATHER_BYTES: u64 = 40 << 20;

/// How a volume is to be run. Times in milliseconds, sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Memory for blocks and inodes; at least 4 MiB are used. Checkpoints and the cleaner may need up to 80 MiB more.
    pub cache_bytes: u64,
    /// Dirty bytes at which a commit starts by itself (the write threshold); at most an eighth of the memory.
    pub write_threshold_bytes: u64,
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
    /// File data stays in memory once it is written. Off where somebody above caches it (the kernel, behind FUSE).
    pub cache_file_data: bool,
    /// Which segments are cleaned.
    pub cleaning_policy: Policy,
    /// Which log content goes to, with no more logs than the volume was made with. `None`: what suits their number.
    pub placement: Option<PlacementName>,
    /// How long a file has to be left alone before idle time is used to put its blocks in order; `None`: never.
    pub coalesce_age_ms: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            write_threshold_bytes: 16 << 20,
            commit_interval_ms: 5_000,
            checkpoint_interval_ms: 30_000,
            checkpoint_bytes: 256 << 20,
            read_only: false,
            discard: false,
            cache_file_data: true,
            cleaning_policy: Policy::default(),
            placement: None,
            coalesce_age_ms: Some(60_000),
        }
    }
}

impl Options {
    /// With memory and write threshold brought within what the store can work with.
    fn within_bounds(self) -> Self {
        let cache_bytes = self.cache_bytes.max(4 << 20);
        let write_threshold_bytes = self.write_threshold_bytes.clamp(4096, cache_bytes / 8);
        Self { cache_bytes, write_threshold_bytes, ..self }
    }
}

/// Where a log ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogEnd {
    /// Its last serial.
    pub serial: Serial,
    /// CRC of that serial's summary, which covers those of all before.
    pub crc: u32,
}

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
    discard_scan: discard::DiscardScan,
    counters: Counters,
    counters_at_mount: Counters,
    read_only: Option<String>,
    /// A clean checkpoint is in line. It says that nothing follows it, so nothing may.
    closed: bool,
    /// Read-only because of a check, and for no other reason.
    is_doubted: bool,
    /// Read-only because the log could not be written, and for no other reason.
    log_failed: bool,
    next_generation: u64,
    /// The number that `begin` found for the operation's new inode.
    chosen_ino: Option<(InodeNo, u32)>,
    /// Inodes whose record may have changed its length in the open operation.
    touched: Vec<InodeNo>,
    op_is_names: bool,
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
    cleaning: clean::Cleaning,
    sorting: sorting::Sorting,
    coalescing: coalesce::Coalescing,
    pace: pace::Pace,
    /// Damaged things that background work leaves alone.
    aside: trouble::SetAside,
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

    /// Puts in what was fetched; its checksum was verified outside the lock (see [`verify`]).
    ///
    /// # Errors
    /// `Corrupt` if an inode record is not one.
    pub fn supply(&mut self, what: FetchKind, bytes: &[u8]) -> Result<(), FsError> {
        match what {
            FetchKind::Block(key, ptr) => {
                let current = match key.ino {
                    InodeNo::INODE_MAP => {
                        self.imap.table.peek_ptr(&self.shelf, u32::from(key.level), key.index.0)
                    }
                    InodeNo::SEGMENT_USAGE => {
                        self.usage.table.peek_ptr(&self.shelf, u32::from(key.level), key.index.0)
                    }
                    _ => self.peek_ptr(&key),
                };
                if current == Some(ptr) && self.shelf.cache.peek(&key).is_none() {
                    let buf: Buf = padded(bytes, self.geo.block_bytes);
                    self.shelf.cache.insert_clean(key, buf);
                }
            }
            FetchKind::Inode(ino, ptr) => {
                let entry = self.imap.get(&mut self.shelf, ino);
                if let Ok(entry) = entry
                    && entry.ptr == ptr
                    && self.inodes.peek(&ino).is_none()
                {
                    let core = CoreInode::decode(ino, &entry, bytes, &self.geo)?;
                    self.insert_inode(ino, core);
                    self.coalescing.seams.note_fetched(ino);
                }
            }
            FetchKind::Raw(segment) => self.cleaning.supply(segment, bytes),
        }
        Ok(())
    }

    /// The next request for the device; report it with [`Self::job_done`] when it is complete.
    pub fn next_job(&mut self) -> Option<Job> {
        self.jobs.next()
    }

    /// A request is complete. A failed log write or flush turns the volume read-only.
    pub fn job_done(&mut self, id: JobId, result: Result<(), DeviceError>) {
        match result {
            Ok(()) => match self.jobs.done(id) {
                Landed::Partial(addr) => self.shelf.landed(addr),
                Landed::Checkpoint(epoch) => self.checkpoint_durable(epoch),
                Landed::Nothing => {}
            },
            Err(e) => {
                if !self.jobs.failed(id) {
                    self.note_refused_discard(e.to_string());
                } else if self.read_only.is_none() {
                    self.read_only = Some(format!("the log could not be written: {e}"));
                    self.log_failed = true;
                }
            }
        }
    }

    fn checkpoint_durable(&mut self, epoch: Epoch) {
        self.durable_epoch = epoch;
        self.counters.checkpoints += 1;
        if let Some(again) = self.second_slot.take() {
            self.push_checkpoint(&again);
            return;
        }
        self.jobs.release_partials();
        self.discard_emptied(epoch);
    }

    /// What is durable.
    #[must_use]
    pub fn durable(&self) -> Ticket {
        self.jobs.durable()
    }

    /// True if no request is under way or waiting.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.jobs.is_idle()
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
    pub fn shrink_caches(&mut self) {
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

/// For looks that gather what they need: keeps going until something else stops them.
fn gather_needs<T>(result: Result<T, Stop>, needs: &mut Vec<crate::error::Fetch>) -> Result<Option<T>, Stop> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Stop::Need(more)) => {
            needs.extend(more);
            Ok(None)
        }
        Err(stop) => Err(stop),
    }
}
