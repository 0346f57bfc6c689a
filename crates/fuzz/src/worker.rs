//! The worker: runs one target again and again in a process with little memory, and says which input it is at.
//!
//! Nothing is caught here: a panic, a failed allocation or a stack that overflows ends the process, and whoever watches it
//! ([`crate::campaign`]) knows the input by the number in the progress file, and makes it again.

use crate::targets::Target;
use crate::{corpus, mutate};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a worker is told.
#[derive(Clone, Debug)]
pub struct Orders<'a> {
    /// Where the corpus is.
    pub home: &'a Path,
    /// Seed of all inputs.
    pub seed: u64,
    /// First input.
    pub from: u64,
    /// How long to go on.
    pub time: Duration,
    /// Where the number of the input under way is written, 8 bytes, little endian.
    pub progress: &'a Path,
}

/// Lowers the limit of this process's memory (of addresses, which is more than what it touches).
///
/// # Errors
/// The system refuses.
pub fn limit_memory(bytes: u64) -> io::Result<()> {
    let now = getrlimit(Resource::As);
    setrlimit(Resource::As, Rlimit { current: Some(bytes), maximum: now.maximum })?;
    // A core of each canary is of no use to anybody.
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum })?)
}

/// Runs inputs until the time is over; returns how many.
///
/// # Errors
/// The corpus cannot be read or the progress not written.
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
