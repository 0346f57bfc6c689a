//! How long the core's one lock is held, and waited for: what bounds the operations of many processors.
//!
//! One turn in [`SAMPLED_ONE_IN`] of the operations is measured, by the volume's clock, and every step of background work. The rest of
//! background work (supplying blocks, reporting requests) is not: its turns are short and few. A clock that is set back counts as no time.

// Not those of `sync`: nothing depends on the order of counts, so the model checker need not try it.
use std::sync::atomic::{AtomicU64, Ordering};

/// Of so many turns of operations one is measured.
pub const SAMPLED_ONE_IN: u64 = 32;

/// Times of the core's lock since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockTimes {
    /// Turns of operations: an operation that has to read or to wait has several.
    pub turns: u64,
    /// Those that were measured.
    pub measured: u64,
    /// How long the measured ones waited for the lock, in nanoseconds.
    pub waited_ns: u64,
    /// How long they held it, in nanoseconds.
    pub held_ns: u64,
    /// Steps of background work.
    pub steps: u64,
    /// How long these held it, in nanoseconds.
    pub steps_held_ns: u64,
}

impl LockTimes {
    /// Time for which operations and steps have held the lock, in nanoseconds, estimated from the measured turns.
    #[must_use]
    pub fn held_in_all_ns(&self) -> u64 {
        let held_ns = u128::from(self.held_ns) * u128::from(self.turns) / u128::from(self.measured.max(1));
        u64::try_from(held_ns).unwrap_or(u64::MAX).saturating_add(self.steps_held_ns)
    }
}

/// Counts; threads share one.
#[derive(Default)]
pub(crate) struct LockTime {
    turns: AtomicU64,
    measured: AtomicU64,
    waited_ns: AtomicU64,
    held_ns: AtomicU64,
    steps: AtomicU64,
    steps_held_ns: AtomicU64,
}

impl LockTime {
    /// Counts a turn; true if it is to be measured.
    pub fn is_measured(&self) -> bool {
        self.turns.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAMPLED_ONE_IN)
    }

    /// A measured turn: when it asked for the lock, had it, and gave it back.
    pub fn turn(&self, (asked_ns, had_ns, gave_ns): (i64, i64, i64)) {
        self.measured.fetch_add(1, Ordering::Relaxed);
        self.waited_ns.fetch_add(between(asked_ns, had_ns), Ordering::Relaxed);
        self.held_ns.fetch_add(between(had_ns, gave_ns), Ordering::Relaxed);
    }

    /// A step of background work.
    pub fn step(&self, had_ns: i64, gave_ns: i64) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.steps_held_ns.fetch_add(between(had_ns, gave_ns), Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn so_far(&self) -> LockTimes {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LockTimes {
            turns: read(&self.turns),
            measured: read(&self.measured),
            waited_ns: read(&self.waited_ns),
            held_ns: read(&self.held_ns),
            steps: read(&self.steps),
            steps_held_ns: read(&self.steps_held_ns),
        }
    }
}

fn between(before_ns: i64, after_ns: i64) -> u64 {
    u64::try_from(after_ns.saturating_sub(before_ns)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_all_turns_is_estimated_from_the_measured_ones() {
        let time = LockTime::default();
        let measured = (0..64).filter(|_| time.is_measured()).count();
        assert_eq!(measured, 2);
        time.turn((10, 15, 115));
        // The clock was set back in the meantime.
        time.turn((10, 5, 305));
        time.step(0, 1000);
        let times = time.so_far();
        assert_eq!((times.turns, times.measured, times.waited_ns, times.held_ns), (64, 2, 5, 400));
        assert_eq!(times.held_in_all_ns(), 64 * 200 + 1000);
        assert_eq!(LockTimes::default().held_in_all_ns(), 0);
    }
}
