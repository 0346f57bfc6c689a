//! Stalls: how often and how long operations waited because clean segments or memory were short, as the volume's clock says.
//!
//! One stall is all the waiting of one operation, from when it was first turned away for room until it was done or refused. Waiting
//! for a block to be read, or for a flush, is none.

use crate::sync::Mutex;

/// Stalls since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Operations that waited for room.
    pub count: u64,
    /// How long they waited together, in nanoseconds.
    pub total_ns: u64,
    /// How long the one that waited longest did, in nanoseconds.
    pub longest_ns: u64,
}

/// Counts stalls; threads share it.
#[derive(Default)]
pub(crate) struct StallCount(Mutex<Stalls>);

impl StallCount {
    /// An operation waited that long. A clock that was set back counts as no time.
    pub fn add(&self, waited_ns: i64) {
        let waited_ns = u64::try_from(waited_ns).unwrap_or(0);
        let mut stalls = self.0.lock();
        stalls.count += 1;
        stalls.total_ns = stalls.total_ns.saturating_add(waited_ns);
        stalls.longest_ns = stalls.longest_ns.max(waited_ns);
    }

    /// What was counted so far.
    pub fn so_far(&self) -> Stalls {
        *self.0.lock()
    }
}
