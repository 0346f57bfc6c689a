//! The last victims of the cleaner, so that a display can show each as it is taken, however seldom it looks.
//!
//! Invariants: serial numbers rise by one from 1; at most [`KEPT`] victims are kept, the newest; all are in the sums. Nothing is
//! written to the device. Callers: `clean` and `port` add, [`crate::lfs::watch`] reads.

use crate::clean::Candidate;
use firnfs_format::TimeNs;
use std::collections::VecDeque;

/// Victims that are kept: some hundred passes.
const KEPT: usize = 1024;

/// Why the cleaner took a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhyTaken {
    /// The policy chose it, while users were active.
    Policy,
    /// The policy chose it, in idle time.
    Idle,
    /// It was among the emptiest: room was short, or the policy's choice would have gained nothing.
    Emptiest,
    /// It lies at the end of a volume that is to become smaller.
    Leaving,
    /// A cleaner outside the file system chose it.
    Asked,
}

impl WhyTaken {
    /// All reasons, in the order of their declaration.
    pub const ALL: [Self; 5] = [Self::Policy, Self::Idle, Self::Emptiest, Self::Leaving, Self::Asked];

    /// One word for it, for machines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Idle => "idle",
            Self::Emptiest => "emptiest",
            Self::Leaving => "leaving",
            Self::Asked => "asked",
        }
    }
}

/// All victims of one reason since the volume was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TakenSum {
    /// How many.
    pub segments: u64,
    /// The live bytes for which they were chosen: what had to be moved.
    pub live_bytes: u64,
}

/// A segment that a pass has emptied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Counts all victims since the volume was opened, from 1.
    pub serial: u64,
    /// The facts for which it was chosen.
    pub candidate: Candidate,
    /// When its blocks moved.
    pub at: TimeNs,
    /// Why.
    pub why: WhyTaken,
}

/// See the module's head.
#[derive(Default)]
pub(in crate::lfs) struct TakenVictims {
    last_serial: u64,
    sums: [TakenSum; WhyTaken::ALL.len()],
    kept: VecDeque<Taken>,
}

impl TakenVictims {
    /// Adds a victim.
    pub fn add(&mut self, candidate: Candidate, at: TimeNs, why: WhyTaken) {
        self.last_serial += 1;
        let sum = &mut self.sums[why as usize];
        sum.segments += 1;
        sum.live_bytes += u64::from(candidate.live_bytes);
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(Taken { serial: self.last_serial, candidate, at, why });
    }

    /// Victims after that serial number, oldest first. If some of them are forgotten, the first serial number shows it.
    pub fn since(&self, serial: u64) -> impl Iterator<Item = &Taken> {
        self.kept.iter().filter(move |taken| taken.serial > serial)
    }

    /// The victims of one reason.
    pub fn sum(&self, why: WhyTaken) -> TakenSum {
        self.sums[why as usize]
    }

    /// Victims so far.
    pub fn last_serial(&self) -> u64 {
        self.last_serial
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs_format::SegmentId;

    #[test]
    fn the_newest_victims_are_kept_and_serials_show_what_is_forgotten() {
        let mut taken = TakenVictims::default();
        let total = KEPT as u64 + 10;
        for n in 1..=total {
            let (written, youngest) = (TimeNs(0), TimeNs(0));
            let candidate = Candidate { segment: SegmentId(n), live_bytes: 1, written, youngest, log: 0 };
            let why = if n <= 3 { WhyTaken::Idle } else { WhyTaken::Policy };
            taken.add(candidate, TimeNs(n as i64), why);
        }
        let sums = WhyTaken::ALL.map(|why| (taken.sum(why).segments, taken.sum(why).live_bytes));
        assert_eq!(sums, [(total - 3, total - 3), (3, 3), (0, 0), (0, 0), (0, 0)], "forgotten victims count");
        assert_eq!(taken.last_serial(), total);
        let all: Vec<u64> = taken.since(0).map(|t| t.serial).collect();
        assert_eq!((all.len(), all[0], all[KEPT - 1]), (KEPT, 11, total));
        assert_eq!(
            taken.since(total - 2).map(|t| t.candidate.segment.0).collect::<Vec<_>>(),
            [total - 1, total]
        );
        assert_eq!(taken.since(total).count(), 0);
    }
}
