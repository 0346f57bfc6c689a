//! Accounts: the live bytes of the volume, and what was counted since mkfs, since the volume was opened, and lately.
//!
//! Invariant: `live_bytes` is the sum of all segments' live bytes plus what dirty blocks and records were charged less what they
//! replace, at every moment between operations. If more bytes die than there are, an account on the device was wrong.

use super::counters::Counters;
use super::recent::{Lately, Recent};
use firnfs_format::TimeNs;

/// An account has fewer bytes than are to be taken from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lfs) struct Overdrawn {
    pub taken_bytes: u64,
    pub stated_bytes: u64,
}

/// See the module's head.
pub(in crate::lfs) struct Accounts {
    live_bytes: u64,
    /// Since mkfs.
    pub counters: Counters,
    /// The same when the volume was opened.
    at_mount: Counters,
    recent: Recent,
}

impl Accounts {
    /// As a checkpoint states them.
    pub fn new(live_bytes: u64, counters: Counters) -> Self {
        Self { live_bytes, counters, at_mount: counters, recent: Recent::default() }
    }

    /// Live bytes of the volume, dirty data included.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Takes live bytes that died, and adds new ones.
    ///
    /// # Errors
    /// More died than there were; none are left then.
    pub fn recount(&mut self, died_bytes: u64, came_bytes: u64) -> Result<(), Overdrawn> {
        let stated_bytes = self.live_bytes + came_bytes;
        self.live_bytes = stated_bytes.saturating_sub(died_bytes);
        if died_bytes > stated_bytes {
            return Err(Overdrawn { taken_bytes: died_bytes, stated_bytes });
        }
        Ok(())
    }

    /// Sets the live bytes that a repair counted.
    pub fn restate(&mut self, live_bytes: u64) {
        self.live_bytes = live_bytes;
    }

    /// Marks the counts so far as those before this mount.
    pub fn begin_mount(&mut self) {
        self.at_mount = self.counters;
    }

    /// Counts since the volume was opened.
    pub fn since_mount(&self) -> Counters {
        self.counters.since(&self.at_mount)
    }

    /// Remembers the counts of now, for [`Accounts::lately`].
    pub fn note_time(&mut self, now: TimeNs) {
        self.recent.note(now, &self.counters);
    }

    /// Counts of the last minute; `None` before the first background step.
    pub fn lately(&self, now: TimeNs) -> Option<Lately> {
        self.recent.lately(now, &self.counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_deaths_than_live_bytes_are_reported_and_leave_none() {
        let mut accounts = Accounts::new(100, Counters::default());
        assert_eq!(accounts.recount(60, 10), Ok(()));
        assert_eq!(accounts.live_bytes(), 50);
        assert_eq!(accounts.recount(70, 10), Err(Overdrawn { taken_bytes: 70, stated_bytes: 60 }));
        assert_eq!(accounts.live_bytes(), 0);
    }
}
