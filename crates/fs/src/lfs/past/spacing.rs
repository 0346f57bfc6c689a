//! How far apart automatic points are while room is so short that none of them lasts.
//!
//! A point that has to give way within seconds is of no use to anybody, but everything that dies meanwhile is held for it, and a walk
//! frees that again. So after such a point the next ones are made less often: ten seconds apart, twenty, and so on, up to a minute. A
//! state that had to wait becomes a point then, even if nothing changes any more. As soon as a point is still there when the next one is
//! made, each commit becomes one again.
//!
//! Owner: `upkeep`. Not stored: after a mount each commit is a point.

use firnfs_format::TimeNs;

/// A point that has to give way sooner has not lasted.
const LASTS_MS: u64 = 10_000;
/// The least and the most between two points after one that has not lasted.
const GAP_LEAST_MS: u64 = 10_000;
const GAP_MOST_MS: u64 = 60_000;

/// See the module's head.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::lfs) struct Spacing {
    /// The least between two points; 0: no limit.
    gap_ms: u64,
    /// When the last point was made, if it has not given way since.
    lasting: Option<TimeNs>,
    /// When the last point was made.
    made: Option<TimeNs>,
    /// A state had to wait.
    is_owed: bool,
}

impl Spacing {
    /// False if the last points have not lasted, and the present state has to wait.
    pub fn ask(&mut self, now: TimeNs) -> bool {
        self.is_owed = self.wait_ms(now) > 0;
        !self.is_owed
    }

    /// True if a state had to wait.
    pub fn is_owed(&self) -> bool {
        self.is_owed
    }

    /// No state waits: the present one is newer.
    pub fn owe_nothing(&mut self) {
        self.is_owed = false;
    }

    /// How long until a state that had to wait may become a point, in milliseconds; `u64::MAX` if none waits.
    pub fn owed_in_ms(&self, now: TimeNs) -> u64 {
        if self.is_owed { self.wait_ms(now) } else { u64::MAX }
    }

    fn wait_ms(&self, now: TimeNs) -> u64 {
        let since_ms = self.made.map_or(u64::MAX, |made| now.millis_since(made));
        self.gap_ms.saturating_sub(since_ms)
    }

    /// A point is made.
    pub fn note_made(&mut self, now: TimeNs) {
        if self.lasting.is_some() {
            self.gap_ms = 0;
        }
        (self.made, self.lasting) = (Some(now), Some(now));
    }

    /// The point that was made at `time` gives way to users.
    pub fn note_gave_way(&mut self, time: TimeNs, now: TimeNs) {
        if self.lasting != Some(time) {
            return;
        }
        self.lasting = None;
        if now.millis_since(time) < LASTS_MS {
            self.gap_ms = (2 * self.gap_ms).clamp(GAP_LEAST_MS, GAP_MOST_MS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> TimeNs {
        TimeNs(ms * 1_000_000)
    }

    #[test]
    fn points_that_do_not_last_are_made_less_and_less_often_until_one_lasts() {
        let mut spacing = Spacing::default();
        let mut made = Vec::new();
        // A commit every 5 s; each point gives way after 2 s.
        for now in (0..600_000).step_by(5_000) {
            if spacing.ask(at(now)) {
                spacing.note_made(at(now));
                spacing.note_gave_way(at(now), at(now + 2_000));
                made.push(now / 1_000);
            }
        }
        assert_eq!(made, [0, 10, 30, 70, 130, 190, 250, 310, 370, 430, 490, 550]);
        // From now on they last.
        assert!(!spacing.ask(at(600_000)));
        assert_eq!((spacing.owed_in_ms(at(600_000)), spacing.owed_in_ms(at(620_000))), (10_000, 0));
        assert!(spacing.ask(at(610_000)));
        spacing.note_made(at(610_000));
        assert_eq!(spacing.owed_in_ms(at(611_000)), u64::MAX);
        assert!(!spacing.ask(at(615_000)), "nobody knows yet");
        assert!(spacing.ask(at(670_000)));
        spacing.note_made(at(670_000));
        assert!(spacing.ask(at(675_000)));
    }

    #[test]
    fn old_points_that_give_way_change_nothing() {
        let mut spacing = Spacing::default();
        for now in (0..60_000).step_by(5_000) {
            assert!(spacing.ask(at(now)));
            spacing.note_made(at(now));
            spacing.note_gave_way(at(now - 5_000), at(now));
            spacing.note_gave_way(at(now - 30_000), at(now));
        }
        spacing.note_gave_way(at(55_000), at(66_000));
        assert!(spacing.ask(at(66_000)), "it lasted");
    }
}
