//! The facts that a policy knows about a segment.

use firnfs_format::{SegmentId, TimeNs};

/// A segment that could be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The segment.
    pub segment: SegmentId,
    /// Live bytes.
    pub live_bytes: u32,
    /// When it was last written.
    pub written: TimeNs,
    /// Youngest modification time of its blocks.
    pub youngest: TimeNs,
    /// The log that wrote it.
    pub log: u8,
}

/// Values that are the same for all candidates of one choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    now: TimeNs,
    turn: u64,
    // Reciprocals: a choice looks at every segment, and divisions would dominate its time.
    per_byte: f64,
    per_ns: f64,
}

impl Terms {
    /// `grain_ns` is the shortest age that matters, in nanoseconds, at least 1. Ages start at one grain, so that segments
    /// that were just written still differ by their utilisation.
    #[must_use]
    pub fn new(segment_bytes: u32, now: TimeNs, grain_ns: u64) -> Self {
        Self {
            now,
            turn: 0,
            per_byte: 1.0 / f64::from(segment_bytes.max(1)),
            per_ns: 1.0 / grain_ns.max(1) as f64,
        }
    }

    /// For randomised policies: a number that differs for each choice, even at the same moment.
    #[must_use]
    pub fn with_turn(self, turn: u64) -> Self {
        Self { turn, ..self }
    }

    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    /// Live share of a segment, 0 to 1.
    #[must_use]
    #[inline]
    pub fn utilisation(&self, candidate: &Candidate) -> f64 {
        (f64::from(candidate.live_bytes) * self.per_byte).min(1.0)
    }

    /// Age of something that happened at `then`, in grains, at least 1 (also if the clock went backwards).
    #[must_use]
    #[inline]
    pub fn age(&self, then: TimeNs) -> f64 {
        1.0 + self.now.0.saturating_sub(then.0).max(0) as f64 * self.per_ns
    }
}
