//! The counters of the last minute: samples of them, so that what was counted lately can be told apart from months ago.
//!
//! Invariants: times rise; samples are [`SAMPLE_MS`] apart or more; at most one is older than [`WINDOW_MS`], so that the window
//! is whole. Memory is bounded by that. Nothing is written to the device. Callers: background steps add,
//! [`crate::lfs::Lfs::counters_lately`] reads.

use super::counters::Counters;
use firnfs_format::TimeNs;
use std::collections::VecDeque;

/// Length of the window, in milliseconds. It is longer if no background step was due for a while: then nothing changed.
const WINDOW_MS: u64 = 60_000;
/// Least time between two samples, in milliseconds.
const SAMPLE_MS: u64 = 5_000;

/// What was counted in a window that ends now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lately {
    /// Length of the window, in milliseconds: a minute, less on a volume that was opened later, and more after a rest.
    pub window_ms: u64,
    /// What was counted.
    pub counters: Counters,
}

/// See the module's head.
#[derive(Default)]
pub(in crate::lfs) struct Recent {
    samples: VecDeque<(TimeNs, Counters)>,
}

impl Recent {
    /// Adds a sample if one is due. A clock that was set back begins anew.
    pub fn note(&mut self, now: TimeNs, counters: &Counters) {
        match self.samples.back() {
            Some((last, _)) if now < *last => self.samples.clear(),
            Some((last, _)) if now.millis_since(*last) < SAMPLE_MS => return,
            _ => {}
        }
        self.samples.push_back((now, *counters));
        while self.samples.get(1).is_some_and(|(at, _)| now.millis_since(*at) >= WINDOW_MS) {
            self.samples.pop_front();
        }
    }

    /// What was counted since the newest sample that is a minute old, or since the first; `None` before the first.
    pub fn lately(&self, now: TimeNs, counters: &Counters) -> Option<Lately> {
        let is_whole = |(at, _): &&(TimeNs, Counters)| now.millis_since(*at) >= WINDOW_MS;
        let (at, then) = self.samples.iter().rev().find(is_whole).or_else(|| self.samples.front())?;
        Some(Lately { window_ms: now.millis_since(*at), counters: counters.since(then) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> TimeNs {
        TimeNs(ms * 1_000_000)
    }

    fn counted(user_bytes: u64) -> Counters {
        Counters { user_bytes, ..Counters::default() }
    }

    #[test]
    fn a_minute_of_steady_work_is_told_apart_from_all_of_it() {
        let mut recent = Recent::default();
        assert_eq!(recent.lately(at(0), &counted(0)), None);
        // A byte a millisecond, noted every 100 ms.
        for ms in (0..600_000).step_by(100) {
            recent.note(at(ms), &counted(ms as u64));
            assert!(recent.samples.len() <= (WINDOW_MS / SAMPLE_MS) as usize + 2);
        }
        let Lately { window_ms, counters } = recent.lately(at(600_000), &counted(600_000)).unwrap();
        assert!((WINDOW_MS..WINDOW_MS + SAMPLE_MS).contains(&window_ms), "{window_ms}");
        assert_eq!(counters.user_bytes, window_ms);
    }

    #[test]
    fn a_young_volume_has_a_short_window_and_a_rest_makes_it_longer() {
        let mut recent = Recent::default();
        recent.note(at(1000), &counted(10));
        let told = |recent: &Recent, ms, bytes| {
            let Lately { window_ms, counters } = recent.lately(at(ms), &counted(bytes)).unwrap();
            (window_ms, counters.user_bytes)
        };
        assert_eq!(told(&recent, 8000, 50), (7000, 40));
        recent.note(at(31_000), &counted(50));
        assert_eq!(told(&recent, 90_000, 50), (89_000, 40), "the sample of 31 s is not a minute old");
        assert_eq!(told(&recent, 91_000, 50), (60_000, 0));
        recent.note(at(91_000), &counted(50));
        assert_eq!(told(&recent, 100_000, 60), (69_000, 10));
    }

    #[test]
    fn a_clock_that_was_set_back_begins_anew() {
        let mut recent = Recent::default();
        recent.note(at(500_000), &counted(10));
        recent.note(at(1000), &counted(20));
        assert_eq!(
            recent.lately(at(3000), &counted(25)).map(|l| (l.window_ms, l.counters.user_bytes)),
            Some((2000, 5))
        );
    }
}
