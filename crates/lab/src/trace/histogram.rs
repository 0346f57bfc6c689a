//! `Histogram`: how often values of each size occurred, in quarters of a doubling, so that a power of two is always a boundary.
//!
//! Callers: `disk` and `driver` count, `figures` draw.

use std::collections::BTreeMap;

/// Bins in a doubling.
const PER_DOUBLING: f64 = 4.0;

/// See the module's head. Values are positive or zero.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Histogram {
    zeros: u64,
    bins: BTreeMap<i32, u64>,
    count: u64,
    sum: f64,
    max: f64,
}

impl Histogram {
    /// Counts a value.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.max = self.max.max(value);
        if value > 0.0 {
            *self.bins.entry((value.log2() * PER_DOUBLING).floor() as i32).or_default() += 1;
        } else {
            self.zeros += 1;
        }
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many of them are zero.
    #[must_use]
    pub fn zeros(&self) -> u64 {
        self.zeros
    }

    /// The largest.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The mean; 0 without values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    /// How many values are at least this, which has to be a power of two.
    #[must_use]
    pub fn at_least(&self, value: f64) -> u64 {
        let first = (value.log2() * PER_DOUBLING).round() as i32;
        self.bins.range(first..).map(|(_, count)| count).sum()
    }

    /// The share of values below a power of two; 1 without values.
    #[must_use]
    pub fn share_below(&self, value: f64) -> f64 {
        if self.count == 0 { 1.0 } else { 1.0 - self.at_least(value) as f64 / self.count as f64 }
    }

    /// Lower bounds of doublings from a power of two on, and how many values each has, up to the largest value.
    #[must_use]
    pub fn doublings(&self, from: f64) -> Vec<(f64, u64)> {
        let bounds = std::iter::successors(Some(from), |at| Some(at * 2.0)).take_while(|at| *at <= self.max);
        bounds.map(|at| (at, self.at_least(at) - self.at_least(at * 2.0))).collect()
    }

    /// The share of the values from `from` on that are below each boundary of a quarter of a doubling: a cumulative curve.
    #[must_use]
    pub fn cumulative(&self, from: f64) -> Vec<(f64, f64)> {
        let all = self.at_least(from);
        let first = (from.log2() * PER_DOUBLING).round() as i32;
        let mut below = 0;
        let steps = self.bins.range(first..).map(|(bin, count)| {
            below += count;
            (f64::from(bin + 1) / PER_DOUBLING, below as f64 / all.max(1) as f64)
        });
        steps.map(|(log2, share)| (log2.exp2(), share)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_boundaries() {
        let mut histogram = Histogram::default();
        [0.0, 0.5, 1.99, 2.0, 3.0, 3.999, 4.0, 100.0].into_iter().for_each(|value| histogram.add(value));
        assert_eq!((histogram.count(), histogram.zeros(), histogram.max()), (8, 1, 100.0));
        assert_eq!((histogram.at_least(2.0), histogram.at_least(4.0), histogram.at_least(128.0)), (5, 2, 0));
        assert_eq!(histogram.share_below(4.0), 0.75);
        assert_eq!(histogram.doublings(1.0)[..3], [(1.0, 1), (2.0, 3), (4.0, 1)]);
        let cumulative = histogram.cumulative(2.0);
        assert_eq!(cumulative.last().map(|(_, share)| *share), Some(1.0));
        assert!(cumulative.iter().any(|(at, share)| (*at - 4.0).abs() < 1e-9 && (*share - 0.6).abs() < 1e-9));
        assert_eq!(Histogram::default().share_below(1.0), 1.0);
    }
}
