//! A histogram of durations in fixed memory: four buckets for each doubling, from 1 us to 137 s.
//!
//! A quantile is the upper end of its bucket, so it is never too small and at most a quarter too large. Recording is one relaxed
//! addition. The waits for room have one histogram ([`crate::Stalls`]), and so does each kind of request of an adapter.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Log2 of the buckets for each doubling.
const SPLIT_BITS: u32 = 2;
/// Log2 of the nanoseconds below which all durations share the first bucket.
const LEAST_BITS: u32 = 10;
/// Log2 of the nanoseconds from which all durations share the last bucket.
const MOST_BITS: u32 = 37;
/// The first, the last, and those between.
const BUCKETS: usize = 2 + (((MOST_BITS - LEAST_BITS) as usize) << SPLIT_BITS);

/// Durations by length.
pub struct Latency {
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Latency {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Latency {
    /// Counts one duration, in nanoseconds.
    pub fn record(&self, ns: u64) {
        self.buckets[bucket_of(ns)].fetch_add(1, Relaxed);
    }

    /// The duration, in nanoseconds, that the fraction `part` (0 to 1) of all durations did not exceed; `None` before the first.
    /// Durations beyond 137 s count as 137 s.
    #[must_use]
    pub fn quantile_ns(&self, part: f64) -> Option<u64> {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        let all: u64 = counts.iter().sum();
        let wanted = ((all as f64 * part).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        counts
            .iter()
            .position(|count| {
                seen += count;
                seen >= wanted
            })
            .map(end_ns)
    }
}

fn bucket_of(ns: u64) -> usize {
    let bits = ns.checked_ilog2().unwrap_or(0);
    match bits {
        0..LEAST_BITS => 0,
        MOST_BITS.. => BUCKETS - 1,
        _ => {
            let split = (ns >> (bits - SPLIT_BITS)) as usize & ((1 << SPLIT_BITS) - 1);
            1 + (((bits - LEAST_BITS) as usize) << SPLIT_BITS) + split
        }
    }
}

/// Where the durations of a bucket end.
fn end_ns(bucket: usize) -> u64 {
    if bucket == BUCKETS - 1 {
        return 1 << MOST_BITS;
    }
    // The first bucket ends where the first split of the first doubling begins.
    let (doubling, split) = ((bucket >> SPLIT_BITS) as u32, (bucket & ((1 << SPLIT_BITS) - 1)) as u64);
    ((1 << SPLIT_BITS) + split) << (LEAST_BITS + doubling - SPLIT_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_a_bucket_that_ends_at_most_a_quarter_later() {
        for bits in LEAST_BITS..MOST_BITS {
            for ns in [1 << bits, (1 << bits) + 1, (1 << bits) * 5 / 4, (1 << bits) * 7 / 4, (2 << bits) - 1]
            {
                let end = end_ns(bucket_of(ns));
                assert!(end > ns && end <= ns + ns / 4 + 1, "{ns} in a bucket that ends at {end}");
            }
        }
        assert_eq!((bucket_of(0), end_ns(0)), (0, 1 << LEAST_BITS));
        assert_eq!((bucket_of(u64::MAX), end_ns(BUCKETS - 1)), (BUCKETS - 1, 1 << MOST_BITS));
    }

    #[test]
    fn quantiles_are_those_of_the_durations() {
        let latency = Latency::default();
        assert_eq!(latency.quantile_ns(0.5), None);
        for us in 1..=1000 {
            latency.record(us * 1000);
        }
        for (part, exact) in [(0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000), (0.0, 1000)] {
            let found = latency.quantile_ns(part).unwrap();
            assert!(found >= exact && found <= exact * 5 / 4 + 1, "{part}: {found} for {exact}");
        }
    }
}
