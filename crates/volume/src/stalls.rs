//! Stalls: how often and how long operations waited because room or memory ran short, by the volume's clock.
//!
//! One stall is all the waiting of one operation, from its first refusal for lack of room until it succeeds or fails. Waiting
//! for a block to be read, or for a flush, does not count.

use crate::latency::Latency;
use crate::sync::Mutex;

/// Stalls since the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Operations that waited for room.
    pub count: u64,
    /// Their total waiting time, in nanoseconds.
    pub total_ns: u64,
    /// The longest wait of one operation, in nanoseconds.
    pub longest_ns: u64,
    /// The wait, in nanoseconds, that half of them did not exceed, at most a quarter too large; `None` before the first.
    pub p50_ns: Option<u64>,
    /// The same of 99 in 100.
    pub p99_ns: Option<u64>,
}

#[derive(Default)]
struct Waits {
    count: u64,
    total_ns: u64,
    longest_ns: u64,
}

/// Counts stalls; threads share one.
#[derive(Default)]
pub(crate) struct StallCount {
    waits: Mutex<Waits>,
    by_length: Latency,
}

impl StallCount {
    /// Adds an operation that waited that long. If the clock was set back, the wait counts as zero.
    pub fn add(&self, waited_ns: i64) {
        let waited_ns = u64::try_from(waited_ns).unwrap_or(0);
        let mut waits = self.waits.lock();
        waits.count += 1;
        waits.total_ns = waits.total_ns.saturating_add(waited_ns);
        waits.longest_ns = waits.longest_ns.max(waited_ns);
        self.by_length.record(waited_ns);
    }

    /// The counts so far.
    pub fn so_far(&self) -> Stalls {
        let waits = self.waits.lock();
        let quantile_ns = |part| self.by_length.quantile_ns(part).map(|end_ns| end_ns.min(waits.longest_ns));
        Stalls {
            count: waits.count,
            total_ns: waits.total_ns,
            longest_ns: waits.longest_ns,
            p50_ns: quantile_ns(0.5),
            p99_ns: quantile_ns(0.99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_waits_are_short_and_one_in_twenty_is_long() {
        let stalls = StallCount::default();
        assert_eq!(stalls.so_far(), Stalls::default());
        for n in 0..100 {
            stalls.add(if n % 20 == 0 { 900_000_000 } else { 1_000_000 });
        }
        stalls.add(-5);
        let Stalls { count, total_ns, longest_ns, p50_ns, p99_ns } = stalls.so_far();
        assert_eq!((count, total_ns, longest_ns), (101, 4_595_000_000, 900_000_000));
        assert!((1_000_000..=1_250_001).contains(&p50_ns.unwrap()), "{p50_ns:?}");
        assert_eq!(p99_ns, Some(900_000_000), "no quantile is above the longest wait");
    }
}
