//! Segments by utilisation, in fiftieths, as the papers draw them.

use serde::Serialize;

/// Bars.
pub const BARS: usize = 50;

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Histogram {
    counts: Vec<u64>,
    sum: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BARS], sum: 0.0 }
    }
}

impl Histogram {
    pub(super) fn add(&mut self, live: u32, segment_blocks: u32) {
        let bar = (live as usize * BARS).checked_div(segment_blocks as usize).unwrap_or(0);
        self.counts[bar.min(BARS - 1)] += 1;
        self.sum += f64::from(live) / f64::from(segment_blocks);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        self.sum += other.sum;
    }

    /// How many segments it counts.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Mean utilisation, 0 if it is empty.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.total() == 0 { 0.0 } else { self.sum / self.total() as f64 }
    }

    /// Shares of all, for the middle of each bar.
    #[must_use]
    pub fn shares(&self) -> Vec<(f64, f64)> {
        let total = self.total().max(1) as f64;
        let middle = |bar: usize| (bar as f64 + 0.5) / BARS as f64;
        self.counts.iter().enumerate().map(|(bar, &n)| (middle(bar), n as f64 / total)).collect()
    }
}
