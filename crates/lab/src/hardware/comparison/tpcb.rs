//! USENIX'95, section 4: the disk's work of TPC-B. Each transaction reads a random block of the account file into a cache of the
//! program's own, and writes the oldest block of that cache, which a transaction has changed.
//!
//! As in the paper's model, the log of the database (on a disk of its own) and the program's own work take no time.

use crate::error::LabError;
use crate::hardware::Setup;
use crate::hardware::rig::{Program, Rig};
use firnfs::inode::Kind;
use firnfs_format::InodeNo;
use firnfs_sim::seeded;
use rand::RngExt;
use std::collections::VecDeque;

const BLOCK_BYTES: u64 = 4096;
/// The program's cache: 4 MB.
const CACHED_BLOCKS: u64 = 1024;
const FILE: &str = "account";

/// Transactions a second, once the cache is full, in an account file of that many bytes.
///
/// # Errors
/// The volume cannot be made, or the file system failed.
pub(in crate::hardware) fn run(
    setup: &Setup,
    account_bytes: u64,
    transactions: u64,
) -> Result<f64, LabError> {
    let rig = Rig::new(setup)?;
    let blocks = account_bytes / BLOCK_BYTES;
    rig.run(|program| {
        let ino = program.make(InodeNo::ROOT, FILE, Kind::Regular, 0)?;
        let content = vec![1; 64 << 10];
        let units = (0..blocks * BLOCK_BYTES).step_by(content.len());
        units.into_iter().try_for_each(|at| program.write(ino, at, &content))?;
        program.fsync(ino)
    })?;
    let seconds = rig.run(|program| transact(program, blocks, transactions))?;
    Ok(transactions as f64 / seconds)
}

fn transact(program: &Program<'_>, blocks: u64, transactions: u64) -> Result<f64, LabError> {
    let mut rng = seeded(1, "accounts");
    let mut account = || rng.random_range(0..blocks);
    let mut cached: VecDeque<u64> = (0..CACHED_BLOCKS).map(|_| account()).collect();
    let mut content = vec![0; BLOCK_BYTES as usize];
    let ino = program.open(InodeNo::ROOT, FILE, 1)?;
    // Half a minute's worth first, so that the file system's cache has its steady share of dirty blocks.
    let warm_up = transactions / 4;
    let mut start = program.moment();
    for transaction in 0..warm_up + transactions {
        if transaction == warm_up {
            start = program.moment();
        }
        let wanted = account();
        program.read(ino, wanted * BLOCK_BYTES, &mut content)?;
        cached.push_back(wanted);
        if let Some(oldest) = cached.pop_front() {
            program.write(ino, oldest * BLOCK_BYTES, &content)?;
        }
    }
    Ok(program.since(&start).seconds)
}
