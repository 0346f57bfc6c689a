//! Idle time: how long no user has made a request. Work that can wait is done then (Blackwell, Harris and Seltzer,
//! USENIX 1995: a disk that was idle for 2 s stays idle for long). [`Options::idle_after_ms`](crate::lfs::Options) says how long.
//!
//! The driver reports requests; the store has no clock of its own.

use crate::lfs::Lfs;
use firnfs_format::TimeNs;

impl Lfs {
    /// Notes a request of a user. Background work of the driver, checks, and cleaners outside do not count.
    pub(in crate::lfs) fn note_user(&mut self, now: TimeNs) {
        self.upkeep.note_request(now);
        self.note_burst();
    }

    /// If the clock is set back, waiting times do not get longer.
    pub(in crate::lfs) fn settle_clock(&mut self, now: TimeNs) {
        self.upkeep.settle_clock(now);
    }

    /// How long until the volume counts as idle if no request arrives, in milliseconds; 0 if it is idle already.
    #[must_use]
    pub fn idle_in_ms(&self, now: TimeNs) -> u64 {
        self.options.idle_after_ms.saturating_sub(now.millis_since(self.upkeep.last_request()))
    }
}
