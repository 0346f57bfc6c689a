//! What users do to a file system, and when: the events of the generators beside this file.

use crate::random::{exponential, normal};
use rand_pcg::Pcg64;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Seconds in nanoseconds.
pub(super) const SECOND_NS: f64 = 1e9;
pub(super) const HOUR_S: f64 = 3600.0;
/// Standard deviation of the natural logarithm of a file's size.
const SIZE_SIGMA: f64 = 1.6;
/// Smallest and largest file. Larger ones would carry less than a hundredth of all bytes.
const SIZE_BYTES: (f64, f64) = (64.0, 4e6);

/// Directories and files have numbers, which are never used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    MakeDirectory(u32),
    /// An empty directory goes.
    RemoveDirectory(u32),
    /// A new file, written as a whole. Directory 0 is the root.
    Make {
        directory: u32,
        file: u32,
        bytes: u64,
    },
    /// A file is cut to nothing and written anew, as a whole.
    Save {
        file: u32,
        bytes: u64,
    },
    /// A part of a file is overwritten, or written for the first time.
    Write {
        file: u32,
        at_bytes: u64,
        bytes: u64,
    },
    Delete(u32),
}

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Event {
    /// Since the beginning.
    pub at_ns: u64,
    pub act: Act,
}

/// What is going to happen, in the order of time; at the same time, in the order in which it was put in.
pub(super) struct Agenda<T> {
    waiting: BinaryHeap<Reverse<(u64, u64, T)>>,
    count: u64,
}

impl<T: Ord> Agenda<T> {
    pub fn new() -> Self {
        Self { waiting: BinaryHeap::new(), count: 0 }
    }

    /// Puts something in, that many seconds after a time.
    pub fn put(&mut self, now_ns: u64, after_s: f64, what: T) {
        self.count += 1;
        self.waiting.push(Reverse((now_ns + (after_s * SECOND_NS) as u64, self.count, what)));
    }

    /// The next, and its time.
    pub fn take(&mut self) -> Option<(u64, T)> {
        self.waiting.pop().map(|Reverse((at_ns, _, what))| (at_ns, what))
    }
}

/// Size of a file in bytes: log-normal with this mean.
pub(super) fn file_bytes(random: &mut Pcg64, mean_bytes: f64) -> u64 {
    let median = mean_bytes * (-SIZE_SIGMA * SIZE_SIGMA / 2.0).exp();
    (median * (SIZE_SIGMA * normal(random)).exp()).clamp(SIZE_BYTES.0, SIZE_BYTES.1) as u64
}

/// A whole number of exponential distribution, about this many on average.
pub(super) fn count(random: &mut Pcg64, mean: f64) -> u64 {
    exponential(random, mean).round() as u64
}

/// Seconds until the next piece of work, after one that writes so many bytes: the long-run rate is exact, whatever the pieces are.
pub(super) fn pause_s(random: &mut Pcg64, bytes: u64, bytes_per_hour: f64) -> f64 {
    exponential(random, bytes as f64 / bytes_per_hour * HOUR_S)
}

/// What a file takes on the volume: its content and its inode, in sectors.
pub(super) fn taken_bytes(bytes: u64) -> u64 {
    bytes.next_multiple_of(512) + 512
}
