//! `Learned`: after how much idle time the cleaner begins, learned from the disk's idle intervals so far.
//!
//! The paper's 2 s are right because an interval that has lasted 2 s nearly always lasts 4 s (5.1). The learner takes the least threshold of
//! [`THRESHOLDS_S`] of which the same is true: of the intervals that lasted so long, at least [`SHARE`] went on for another
//! [`NEEDED_S`]. If none has that share, it takes the one with the largest. Intervals count with weights that halve every
//! 700 intervals, so that the threshold follows the users.
//!
//! It only looks at what has happened; the same intervals give the same thresholds. Caller: `disk`.

/// The thresholds among which it chooses, in seconds.
pub(super) const THRESHOLDS_S: [f64; 7] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];
/// Seconds that an interval has to go on: as from the paper's 2 s to its 4 s. A segment takes the DSP 3501 1.25 s.
const NEEDED_S: f64 = 2.0;
/// The share that has to; the paper's fixed threshold has .96 to .98 in the asynchronous model.
const SHARE: f64 = 0.95;
/// What an interval's weight becomes with each later one.
const DECAY: f64 = 0.999;
/// Before so many intervals the threshold stays as it was given.
const INTERVALS_MIN: u64 = 50;

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(super) struct Learned {
    intervals: u64,
    /// By threshold: intervals that lasted so long, and those of them that went on for long enough; weighted.
    lasted: [(f64, f64); THRESHOLDS_S.len()],
}

impl Learned {
    /// Takes an interval in; returns the threshold from now on, in seconds, once there is one.
    pub fn take(&mut self, interval_s: f64) -> Option<f64> {
        if interval_s < THRESHOLDS_S[0] {
            return None;
        }
        self.intervals += 1;
        for ((all, long), threshold) in self.lasted.iter_mut().zip(THRESHOLDS_S) {
            *all = *all * DECAY + f64::from(u8::from(interval_s >= threshold));
            *long = *long * DECAY + f64::from(u8::from(interval_s >= threshold + NEEDED_S));
        }
        (self.intervals >= INTERVALS_MIN).then(|| self.threshold_s())
    }

    fn threshold_s(&self) -> f64 {
        let shares = self.lasted.map(|(all, long)| if all > 0.0 { long / all } else { 0.0 });
        let most = shares.into_iter().fold(0.0, f64::max);
        let is_enough = |share: &f64| *share >= SHARE.min(most);
        THRESHOLDS_S[shares.iter().position(is_enough).unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(intervals: impl Iterator<Item = f64>) -> Option<f64> {
        let mut learned = Learned::default();
        intervals.map(|interval_s| learned.take(interval_s)).last().flatten()
    }

    #[test]
    fn it_takes_the_least_threshold_after_which_intervals_nearly_always_go_on() {
        // A quarter of the intervals last 0.7 s, the others a minute: after 1 s it is one of those.
        let mixed = |n: u32| if n.is_multiple_of(4) { 0.7 } else { 60.0 };
        assert_eq!(after((0..200).map(mixed)), Some(1.0));
        // All go on.
        assert_eq!(after((0..200).map(|_| 60.0)), Some(0.25));
        // None goes on for two more seconds, wherever one begins, but for those of 5 s: after 2 s half do.
        let short = |n: u32| if n.is_multiple_of(2) { 5.0 } else { 3.0 };
        assert_eq!(after((0..200).map(short)), Some(0.25), "all of them have two seconds after 0.25");
        assert_eq!(after((0..200).map(|n| if n % 2 == 0 { 5.0 } else { 1.0 })), Some(2.0));
        assert_eq!(after((0..INTERVALS_MIN as u32 - 1).map(mixed)), None);
    }

    #[test]
    fn it_follows_the_users() {
        let busy = (0..5000).map(|_| 60.0).chain((0..5000).map(|n| if n % 2 == 0 { 60.0 } else { 5.5 }));
        assert_eq!(after(busy.clone()), Some(0.25), "5.5 s are long enough after 0.25");
        let busier = busy.chain((0..5000).map(|n| if n % 2 == 0 { 60.0 } else { 1.5 }));
        assert_eq!(after(busier), Some(2.0));
    }
}
