//! Stalls: how often and how long operations waited because room or memory ran short, by the volume's clock.
//!
//! One stall is all the waiting of one operation, from its first refusal for lack of room until it succeeds or fails. Waiting
//! for a block to be read, or for a flush, does not count.

use crate::sync::Mutex;

/// Stalls since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Operations that waited for room.
    pub count: u64,
    /// Their total waiting time, in nanoseconds.
    pub total_ns: u64,
    /// The longest wait of one operation, in nanoseconds.
    pub longest_ns: u64,
}

/// Counts stalls; threads share one.
#[derive(Default)]
pub(crate) struct StallCount(Mutex<Stalls>);

impl StallCount {
    /// Adds an operation that waited that long. If the clock was set back, the wait counts as zero.
    pub fn add(&self, waited_ns: i64) {
        let waited_ns = u64::try_from(waited_ns).unwrap_or(0);
        let mut stalls = self.0.lock();
        stalls.count += 1;
        stalls.total_ns = stalls.total_ns.saturating_add(waited_ns);
        stalls.longest_ns = stalls.longest_ns.max(waited_ns);
    }

    /// The counts so far.
    pub fn so_far(&self) -> Stalls {
        *self.0.lock()
    }
}
