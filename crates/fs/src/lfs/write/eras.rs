//! `Eras`: how long ago something was written, counted in bytes that users wrote since.
//!
//! Placements compare ages. Time is a poor unit for that: blocks would age on a volume that is idle overnight, and a block
//! pointer names no time, only the epoch of its content. Whenever an epoch begins, the bytes that users have written are noted
//! with the time; values in between are interpolated. So an age is known to within an epoch, 30 s or 256 MiB of log at most,
//! and while the cleaner works, which causes checkpoints, to within a pass.
//!
//! In memory only, and bounded: of older notes every other one goes. After a mount there are two, mkfs and the last checkpoint.
//! The numbers come from the device: any numbers give some age. Caller: [`crate::lfs::write::sorting`].

use firnfs_format::{Epoch, TimeNs};

/// Notes kept.
const MARKS_MAX: usize = 128;

/// An epoch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    epoch: u64,
    at_ns: i64,
    /// Written by users before, in bytes since mkfs.
    written_bytes: u64,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(in crate::lfs) struct Eras {
    /// In order; no field ever goes back.
    marks: Vec<Mark>,
}

/// A moment, in all three counts.
#[derive(Clone, Copy, Debug)]
pub(in crate::lfs) struct Present {
    /// Epoch under way.
    pub epoch: Epoch,
    /// Time.
    pub now: TimeNs,
    /// Bytes written by users since mkfs.
    pub written_bytes: u64,
}

impl Eras {
    /// Begins with mkfs, when nothing was written.
    pub fn since(created: TimeNs) -> Self {
        Self { marks: vec![Mark { epoch: 0, at_ns: created.0, written_bytes: 0 }] }
    }

    /// An epoch begins.
    pub fn begin(&mut self, present: Present) {
        let last = self.last();
        self.marks.push(Mark {
            epoch: u64::from(present.epoch.0).max(last.epoch),
            at_ns: present.now.0.max(last.at_ns),
            written_bytes: present.written_bytes.max(last.written_bytes),
        });
        if self.marks.len() > MARKS_MAX {
            let mut n = 0;
            self.marks.retain(|_| {
                n += 1;
                n % 2 == 1 || n > MARKS_MAX / 2
            });
        }
    }

    fn last(&self) -> Mark {
        *self.marks.last().expect("there is always one")
    }

    /// Age of content made in an epoch, in bytes: as if in its middle.
    pub fn since_epoch(&self, birth: Epoch, present: Present) -> u64 {
        let (first, behind) = (u64::from(birth.0), u64::from(birth.0) + 1);
        let begin = self.written_before(present, |mark| i128::from(mark.epoch), i128::from(first));
        let end = self.written_before(present, |mark| i128::from(mark.epoch), i128::from(behind));
        present.written_bytes.saturating_sub(begin / 2 + end / 2)
    }

    /// Age of what was written at a moment, in bytes.
    pub fn since_moment(&self, written: TimeNs, present: Present) -> u64 {
        let at = self.written_before(present, |mark| i128::from(mark.at_ns), i128::from(written.0));
        present.written_bytes.saturating_sub(at)
    }

    /// What users had written when `coordinate` had that value, in bytes.
    fn written_before(&self, present: Present, coordinate: impl Fn(&Mark) -> i128, value: i128) -> u64 {
        let end = Mark {
            // The epoch under way ends now.
            epoch: u64::from(present.epoch.0) + 1,
            at_ns: present.now.0,
            written_bytes: present.written_bytes,
        };
        let behind = self.marks.partition_point(|mark| coordinate(mark) <= value);
        let Some(before) = behind.checked_sub(1).map(|n| self.marks[n]) else {
            return self.marks[0].written_bytes;
        };
        let after = self.marks.get(behind).copied().unwrap_or(end);
        let span = coordinate(&after) - coordinate(&before);
        let bytes = i128::from(after.written_bytes) - i128::from(before.written_bytes);
        if span <= 0 || bytes <= 0 {
            return before.written_bytes;
        }
        let part = (value - coordinate(&before)).min(span);
        before.written_bytes + (bytes * part / span) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn present(epoch: u32, now: i64, written_bytes: u64) -> Present {
        Present { epoch: Epoch(epoch), now: TimeNs(now), written_bytes }
    }

    #[test]
    fn ages_are_known_to_within_an_epoch() {
        let mut eras = Eras::since(TimeNs(0));
        for epoch in 1..=50u32 {
            eras.begin(present(epoch, i64::from(epoch) * 10, u64::from(epoch) * 1000));
        }
        // Epoch 50 began with 50,000 bytes and is 800 bytes old.
        let now = present(50, 504, 50_800);
        assert_eq!(eras.since_epoch(Epoch(50), now), 400);
        assert_eq!(eras.since_epoch(Epoch(49), now), 50_800 - 49_500);
        assert_eq!(eras.since_epoch(Epoch(3), now), 50_800 - 3500);
        assert_eq!(eras.since_moment(TimeNs(495), now), 50_800 - 49_500);
        assert_eq!(eras.since_moment(TimeNs(502), now), 400);
        // A night without a write makes nothing older.
        let morning = present(50, 1_000_000, 50_800);
        assert_eq!(eras.since_epoch(Epoch(49), morning), 50_800 - 49_500);
    }

    #[test]
    fn many_epochs_take_little_memory_and_old_ones_are_still_told_apart() {
        let mut eras = Eras::since(TimeNs(0));
        for epoch in 1..=100_000u32 {
            eras.begin(present(epoch, i64::from(epoch), u64::from(epoch) * 100));
            assert!(eras.marks.len() <= MARKS_MAX);
        }
        let now = present(100_000, 100_000, 10_000_050);
        for birth in [0, 1, 1000, 50_000, 99_990] {
            let age = eras.since_epoch(Epoch(birth), now);
            assert!(age.abs_diff(10_000_000 - u64::from(birth) * 100) <= 100, "{birth}: {age}");
        }
    }

    #[test]
    fn after_a_mount_what_is_old_is_spread_over_the_life_of_the_volume() {
        let mut eras = Eras::since(TimeNs(0));
        eras.begin(present(1000, 5000, 1_000_000));
        let now = present(1002, 5100, 1_000_000);
        assert_eq!(eras.since_epoch(Epoch(249), now), 750_500);
        assert_eq!(eras.since_moment(TimeNs(2500), now), 500_000);
        assert_eq!(eras.since_epoch(Epoch(1001), now), 0);
    }

    #[test]
    fn numbers_that_cannot_be_give_some_age() {
        let mut eras = Eras::since(TimeNs(i64::MAX));
        eras.begin(present(u32::MAX, i64::MIN, u64::MAX));
        eras.begin(present(1, 0, 1));
        for now in [present(1, 0, 0), present(u32::MAX, i64::MAX, u64::MAX)] {
            for epoch in [0, 1, u32::MAX] {
                assert!(eras.since_epoch(Epoch(epoch), now) <= now.written_bytes);
            }
            for moment in [i64::MIN, 0, i64::MAX] {
                assert!(eras.since_moment(TimeNs(moment), now) <= now.written_bytes);
            }
        }
    }
}
