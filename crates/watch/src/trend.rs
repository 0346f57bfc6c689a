//! The used space of the last minute, by the ticks' own clock and however often they come.
//!
//! Invariant: points are those of a minute and the one before, on average a tenth of a second apart or more.

use std::collections::VecDeque;

/// Growth is that of this time.
const SPAN_NS: i64 = 60_000_000_000;
/// Points that are closer to each other than this are one.
const APART_NS: i64 = SPAN_NS / 600;
/// Growth is unknown before this much is known.
const LEAST_NS: i64 = 5_000_000_000;

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub struct Trend {
    /// Times in nanoseconds and used bytes, the newest last.
    points: VecDeque<(i64, u64)>,
}

impl Trend {
    /// Adds the used bytes of a time. A clock that was set back begins anew.
    pub fn add(&mut self, now_ns: i64, used_bytes: u64) {
        if self.points.back().is_some_and(|(last_ns, _)| now_ns < *last_ns) {
            self.points.clear();
        }
        let before_last = self.points.len().checked_sub(2).and_then(|index| self.points.get(index));
        if before_last.is_some_and(|(ns, _)| now_ns.saturating_sub(*ns) < APART_NS) {
            self.points.pop_back();
        }
        self.points.push_back((now_ns, used_bytes));
        let is_old = |(ns, _): &(i64, u64)| now_ns.saturating_sub(*ns) >= SPAN_NS;
        while self.points.len() > 2 && self.points.get(1).is_some_and(is_old) {
            self.points.pop_front();
        }
    }

    /// Seconds and how many bytes the used space grew in them; negative if it shrank. `None` if too little is known.
    pub fn growth(&self) -> Option<(f64, f64)> {
        let (&(first_ns, was), &(last_ns, is)) = (self.points.front()?, self.points.back()?);
        let span_ns = last_ns.saturating_sub(first_ns);
        (span_ns >= LEAST_NS).then(|| (span_ns as f64 / 1e9, is as f64 - was as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at so many milliseconds from each other, at a volume that grew 10 bytes a second until `until_s`.
    fn trend(apart_ms: i64, until_s: i64, looks: i64) -> Trend {
        let mut trend = Trend::default();
        for n in 0..=looks {
            let now_ns = n * apart_ms * 1_000_000;
            trend.add(now_ns, (now_ns.min(until_s * 1_000_000_000) / 100_000_000) as u64);
        }
        trend
    }

    #[test]
    fn growth_is_that_of_a_minute_however_often_somebody_looks() {
        for apart_ms in [10, 100, 250, 1000, 5000] {
            let looks = 200_000 / apart_ms;
            let (seconds, grown) = trend(apart_ms, 170, looks).growth().unwrap();
            assert!((seconds - 60.0).abs() < 0.2, "{seconds} s at {apart_ms} ms");
            assert!((grown - 300.0).abs() < 3.0, "{grown} at {apart_ms} ms: it grew for 30 s of the minute");
        }
        let rarely = trend(120_000, 1_000_000, 9).growth().unwrap();
        assert_eq!(rarely, (120.0, 1200.0), "between the last two looks");
    }

    #[test]
    fn points_are_few_and_a_clock_that_is_set_back_begins_anew() {
        let mut trend = trend(1, 100, 100_000);
        assert!(trend.points.len() <= 700, "{}", trend.points.len());
        trend.add(5, 7);
        assert_eq!((trend.points.len(), trend.growth()), (1, None));
    }
}
