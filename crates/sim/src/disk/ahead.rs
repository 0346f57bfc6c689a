//! `ReadAhead`: the disk's track buffer. After a read the disk continues to read the sectors that follow, until the buffer is
//! full or a command needs the arm; a read of sectors that are in the buffer, or will be soon, needs no arm.
//!
//! The buffer keeps one stretch of sectors. [`ReadAhead::catch_up`] computes which sectors were read by a given moment.
//! Invariant: `first <= next <= limit`, and the buffer holds `first..next`, at most its size. Callers: `mechanical`.

use crate::disk::layout::Lbn;
use crate::disk::media::{Arm, Media};

/// See the module's head.
#[derive(Clone, Debug)]
pub struct ReadAhead {
    size: u64,
    first: Lbn,
    next: Lbn,
    /// Where it stops because the buffer is full.
    limit: Lbn,
    /// The arm has not been needed elsewhere since the last read.
    is_on_track: bool,
}

/// When a read's sectors are in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Available {
    /// The first one.
    pub first_ns: i64,
    /// The last one.
    pub last_ns: i64,
}

impl ReadAhead {
    /// An empty buffer of that many sectors; 0 if the disk has none.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self { size, first: Lbn(0), next: Lbn(0), limit: Lbn(0), is_on_track: false }
    }

    /// Reads on until `now_ns`; returns where the arm is by then.
    pub fn catch_up(&mut self, media: &Media, arm: Arm, now_ns: i64) -> Arm {
        let (next, arm) = media.read_until(arm, self.next, self.limit, now_ns);
        self.next = next;
        self.first = self.first.max(Lbn(next.0.saturating_sub(self.size)));
        arm
    }

    /// True if a read is served from here: its sectors are in the buffer, or the first ones are and the disk reads on.
    #[must_use]
    pub fn serves(&self, lbn: Lbn, sectors: u64) -> bool {
        let begins_here = self.first <= lbn && lbn <= self.next && self.first < self.next;
        begins_here && (self.is_on_track || lbn.0 + sectors <= self.next.0)
    }

    /// Serves a read for which [`ReadAhead::serves`] holds, at a moment up to which the buffer has caught up. The disk
    /// continues to read after it.
    pub fn serve(&mut self, media: &Media, arm: &mut Arm, lbn: Lbn, sectors: u64, now_ns: i64) -> Available {
        let end = Lbn(lbn.0 + sectors);
        if !self.is_on_track {
            return Available { first_ns: now_ns, last_ns: now_ns };
        }
        let was_full = self.next >= self.limit;
        self.limit = self.limit_behind(media, end).max(self.limit);
        if end <= self.next {
            if was_full {
                arm.at_ns = arm.at_ns.max(now_ns);
            }
            return Available { first_ns: now_ns, last_ns: now_ns };
        }
        let from = if was_full { now_ns } else { arm.at_ns };
        let passage = media.pass(*arm, self.next, end.0 - self.next.0, from, false);
        let first_ns = if lbn < self.next { now_ns } else { passage.begin_ns + media.sector_ns(lbn) };
        *arm = passage.arm;
        self.next = end;
        self.first = self.first.max(Lbn(end.0.saturating_sub(self.size)));
        Available { first_ns: first_ns.max(now_ns), last_ns: passage.arm.at_ns.max(now_ns) }
    }

    /// Starts again after a read that needed the arm.
    pub fn start(&mut self, media: &Media, lbn: Lbn, sectors: u64) {
        let end = Lbn(lbn.0 + sectors);
        self.first = Lbn(lbn.0.max(end.0.saturating_sub(self.size)));
        self.next = end;
        self.limit = self.limit_behind(media, end);
        self.is_on_track = true;
    }

    /// A command needs the arm: reading ahead stops. The buffer forgets sectors that the command writes, and all after them.
    pub fn stop(&mut self, written: Option<(Lbn, u64)>) {
        self.limit = self.next;
        self.is_on_track = false;
        if let Some((lbn, sectors)) = written
            && lbn < self.next
            && self.first.0 < lbn.0 + sectors
        {
            *self = Self::new(self.size);
        }
    }

    fn limit_behind(&self, media: &Media, end: Lbn) -> Lbn {
        Lbn((end.0 + self.size).min(media.layout.sectors()))
    }
}
