//! TPC-B on a disk of a given utilisation, with the cleaner at work: the disk's part of it, as in the comparison (random blocks of
//! the account file are read, and those that leave the program's cache are written).
//!
//! A file that nobody touches fills the disk beside the account file. Before counting begins, the log has been written more often
//! than there was free space, so that every further segment has to be cleaned; while transactions are counted, it is written over the
//! free space one and a half times more, and then until the clean segments have come down to as many as at the beginning. Otherwise
//! the cleaning of some segments would be paid for before or after, and a fuller disk could seem faster.

use crate::error::LabError;
use crate::hardware::rig::{Phase, Program, Rig};
use crate::hardware::{Setup, StoreKind};
use firnfs::inode::Kind;
use firnfs::lfs::Counters;
use firnfs_format::InodeNo;
use firnfs_sim::seeded;
use rand::RngExt;
use std::collections::VecDeque;

const BLOCK_BYTES: u64 = 4096;
/// The program's cache: 4 MB.
const CACHED_BLOCKS: usize = 1024;
const FILE: &str = "account";
const PIECE_BYTES: usize = 64 << 10;
/// The log is written this often over the free space before counting begins.
const WARM_UP: f64 = 1.3;
/// And at least this often while transactions are counted, since cleaning comes in bursts.
const COUNTED: f64 = 1.5;
/// But at most this often.
const COUNTED_MOST: f64 = 4.0;
/// Transactions between two looks at the log.
const STRIDE: u64 = 100;

/// What is run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Load {
    /// Size of the volume.
    pub volume_bytes: u64,
    /// Size of the account file.
    pub account_bytes: u64,
    /// How full the volume is, account file included, in percent.
    pub percent: u64,
    /// Transactions that are counted at least.
    pub transactions: u64,
}

/// What came out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Served {
    /// Transactions a second.
    pub per_s: f64,
    /// Transactions counted.
    pub transactions: u64,
    /// What the log did meanwhile; zeros without a log.
    pub log: Counters,
    /// The machine's and the disk's work meanwhile.
    pub phase: Phase,
}

impl Served {
    /// Mean utilisation of the segments that were cleaned, those of no live block included.
    pub fn cleaned_utilisation(&self, segment_bytes: u32) -> f64 {
        let cleaned = self.log.segments_cleaned as f64 * f64::from(segment_bytes);
        self.log.cleaner_moved_bytes as f64 / cleaned
    }

    /// Share of what was written to the log that the cleaner wrote.
    pub fn cleaner_share(&self) -> f64 {
        self.log.cleaner_moved_bytes as f64 / self.log.log_bytes as f64
    }

    /// Share of all bytes transferred that the cleaner wrote.
    pub fn cleaner_writes_of_all(&self) -> f64 {
        self.log.cleaner_moved_bytes as f64 / self.moved_bytes() as f64
    }

    /// Bytes that moved between disk and memory.
    fn moved_bytes(&self) -> u64 {
        self.phase.disk.asked.read_bytes + self.phase.disk.asked.write_bytes
    }

    /// Transactions for each segment that was cleaned.
    pub fn transactions_per_segment(&self) -> f64 {
        self.transactions as f64 / self.log.segments_cleaned as f64
    }
}

/// Runs the transactions on a new volume.
///
/// # Errors
/// The volume cannot be made or is too small, or the file system failed.
pub(super) fn run(setup: &Setup, load: &Load) -> Result<Served, LabError> {
    let rig = Rig::new(&Setup { size_max_bytes: load.volume_bytes, ..setup.clone() })?;
    let filler_bytes = (load.volume_bytes * load.percent / 100).saturating_sub(load.account_bytes);
    rig.run(|program| {
        fill(program, "filler", filler_bytes)?;
        fill(program, FILE, load.account_bytes)
    })?;
    let has_log = setup.store == StoreKind::Log;
    rig.run(|program| transact(program, load, has_log))
}

fn fill(program: &Program<'_>, name: &str, bytes: u64) -> Result<(), LabError> {
    let ino = program.make(InodeNo::ROOT, name, Kind::Regular, 0)?;
    let content = vec![1; PIECE_BYTES];
    let pieces = bytes / PIECE_BYTES as u64;
    (0..pieces).try_for_each(|n| program.write(ino, n * PIECE_BYTES as u64, &content))?;
    program.fsync(ino)
}

fn transact(program: &Program<'_>, load: &Load, has_log: bool) -> Result<Served, LabError> {
    let blocks = load.account_bytes / PIECE_BYTES as u64 * (PIECE_BYTES as u64 / BLOCK_BYTES);
    let mut rng = seeded(1, "accounts");
    let mut account = || rng.random_range(0..blocks);
    let mut cached: VecDeque<u64> = (0..CACHED_BLOCKS).map(|_| account()).collect();
    let mut content = vec![0; BLOCK_BYTES as usize];
    let ino = program.open(InodeNo::ROOT, FILE, 2)?;
    let mut serve = |transactions: u64| -> Result<(), LabError> {
        for _ in 0..transactions {
            let wanted = account();
            program.read(ino, wanted * BLOCK_BYTES, &mut content)?;
            cached.push_back(wanted);
            if let Some(oldest) = cached.pop_front() {
                program.write(ino, oldest * BLOCK_BYTES, &content)?;
            }
        }
        Ok(())
    };
    let free_bytes = load.volume_bytes * (100 - load.percent) / 100;
    let mut serve_until = |volumes: f64, least: u64, down_to: Option<u64>| -> Result<u64, LabError> {
        let before = program.counters()?;
        let (mut served, mut was_above) = (0, false);
        loop {
            serve(STRIDE)?;
            served += STRIDE;
            let written = program.counters()?.since(&before).log_bytes as f64 / free_bytes as f64;
            let clean_segments = program.clean_segments()?;
            let is_above = down_to.is_some_and(|level| clean_segments > level);
            let is_balanced = down_to.is_none() || was_above && !is_above || written >= COUNTED_MOST;
            was_above = is_above;
            if served >= least && (!has_log || written >= volumes && is_balanced) {
                return Ok(served);
            }
        }
    };
    serve_until(WARM_UP, load.transactions / 4, None)?;
    let (start, before) = (program.moment(), program.counters()?);
    let transactions = serve_until(COUNTED, load.transactions, Some(program.clean_segments()?))?;
    let phase = program.since(&start);
    Ok(Served {
        per_s: transactions as f64 / phase.seconds,
        transactions,
        log: program.counters()?.since(&before),
        phase,
    })
}
