//! The worker: runs one target again and again in a process with little memory, and records the number of the current
//! input.
//!
//! It catches nothing: a panic, a failed allocation or a stack overflow ends the process. The campaign
//! ([`crate::campaign`]) reads the input's number from the progress file, and rebuilds the input.

use crate::targets::Target;
use crate::{corpus, mutate};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Orders for a worker.
#[derive(Clone, Debug)]
pub struct Orders<'a> {
    /// Directory of the corpus.
    pub home: &'a Path,
    /// Seed of all inputs.
    pub seed: u64,
    /// First input.
    pub from: u64,
    /// How long to run.
    pub time: Duration,
    /// File for the number of the current input, 8 bytes, little endian.
    pub progress: &'a Path,
}

/// Lowers this process's limit of address space (which is more than the memory that it touches).
///
/// # Errors
/// The system refuses.
pub fn limit_memory(bytes: u64) -> io::Result<()> {
    let now = getrlimit(Resource::As);
    setrlimit(Resource::As, Rlimit { current: Some(bytes), maximum: now.maximum })?;
    // A core dump of each canary would be useless.
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum })?)
}

/// Runs inputs until the time is over; returns how many.
///
/// # Errors
/// The corpus cannot be read, or the progress cannot be written.
pub fn work(target: &Target, orders: &Orders<'_>) -> io::Result<u64> {
    let corpus = corpus::load(orders.home, target)?;
    let progress = File::create(orders.progress)?;
    limit_memory(target.memory_max_bytes)?;
    let end = Instant::now() + orders.time;
    let mut number = orders.from;
    while Instant::now() < end {
        progress.write_all_at(&number.to_le_bytes(), 0)?;
        (target.run)(&mutate::input(&corpus, orders.seed, number));
        number += 1;
    }
    Ok(number - orders.from)
}
