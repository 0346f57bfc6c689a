//! The volume as a display of the running file system sees it (Matthews et al., 1997, watched cleaning in this way): the
//! state of each segment, the marks of the cleaner, and its victims.
//!
//! Reading it changes nothing but caches. Caller: the daemon's `watch` operation.

use super::{Lfs, Taken, TakenSum, WhyTaken};
use crate::clean::{Candidate, Terms};
use crate::error::Outcome;
use crate::lfs::base::damage::Thing;
use firnfs_format::table::UsageEntry;
use firnfs_format::{SegmentId, TimeNs};

/// What is being done with a segment now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentState {
    /// Clean, and may be written.
    Clean,
    /// Clean, but to be written only after checkpoints.
    Waiting,
    /// Closed, with data.
    Closed,
    /// A log writes to it.
    Head,
    /// Clean; a log will continue in it.
    Next,
    /// The pass under way empties it.
    Victim,
    /// Emptied; a checkpoint makes it clean.
    Emptied,
    /// Damaged: it is not cleaned.
    Damaged,
}

/// A segment as a display sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchedSegment {
    /// Which.
    pub segment: SegmentId,
    /// Its present entry in the usage table.
    pub usage: UsageEntry,
    /// What is being done with it.
    pub state: SegmentState,
    /// What a cleaning policy would see of it; `None` if the cleaner would not consider it now.
    pub candidate: Option<Candidate>,
}

/// Clean segments, and the marks between which the cleaner works. All are counts of segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    /// Clean, and may be written now.
    pub ready: u64,
    /// Clean, but to be written only after checkpoints.
    pub waiting: u64,
    /// Kept for checkpoints and the cleaner: users' writes wait here.
    pub reserve: u64,
    /// The cleaner starts below it.
    pub low: u64,
    /// The cleaner stops at it while users are active.
    pub high: u64,
    /// The cleaner stops at it in idle time.
    pub idle_target: u64,
}

impl Lfs {
    /// Segments of one leaf of the usage table; empty past the last leaf.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn watch_leaf(&mut self, leaf: u64) -> Outcome<Vec<WatchedSegment>> {
        let entries = self.usage_leaf(leaf)?;
        let watched = |(segment, usage)| WatchedSegment {
            segment,
            usage,
            state: self.state_of(segment, &usage),
            candidate: self.candidate_now(segment, &usage),
        };
        Ok(entries.into_iter().map(watched).collect())
    }

    fn state_of(&self, segment: SegmentId, usage: &UsageEntry) -> SegmentState {
        let cleaning = &self.upkeep.cleaning;
        if self.why_quarantined(Thing::Segment(segment)).is_some() {
            SegmentState::Damaged
        } else if self.writer.log.is_open(segment) {
            if usage.in_use { SegmentState::Head } else { SegmentState::Next }
        } else if cleaning.has_victim(segment) {
            SegmentState::Victim
        } else if usage.in_use && (usage.live_bytes == 0 || cleaning.has_emptied(segment)) {
            SegmentState::Emptied
        } else if usage.in_use {
            SegmentState::Closed
        } else if self.tables.usage.is_ready(usage, self.tables.slots.durable()) {
            SegmentState::Clean
        } else {
            SegmentState::Waiting
        }
    }

    /// Clean segments and marks now.
    #[must_use]
    pub fn marks(&self) -> Marks {
        let room = self.room_now();
        Marks {
            ready: room.ready,
            waiting: room.waiting,
            reserve: room.reserve,
            low: room.low(),
            high: room.high(),
            idle_target: room.idle_target(),
        }
    }

    /// The terms on which the next victims will be chosen, for a policy that is asked what it would take.
    #[must_use]
    pub fn next_terms(&self, now: TimeNs) -> Terms {
        self.terms(now)
    }

    /// Victims after a serial number, oldest first; 0 for all that are still known.
    pub fn taken_since(&self, serial: u64) -> impl Iterator<Item = &Taken> {
        self.upkeep.cleaning.taken.since(serial)
    }

    /// The victims taken for one reason since the volume was opened.
    #[must_use]
    pub fn taken_for(&self, why: WhyTaken) -> TakenSum {
        self.upkeep.cleaning.taken.sum(why)
    }

    /// How many victims were taken since the volume was opened.
    #[must_use]
    pub fn taken_so_far(&self) -> u64 {
        self.upkeep.cleaning.taken.last_serial()
    }
}
