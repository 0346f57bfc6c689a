//! Segments by utilisation, counted by their number of live blocks, in the form of the papers' figures.
//!
//! Each bar covers a whole number of block counts. Bars of width .02 would not: some would cover one count more than
//! others, and show false peaks.

use serde::Serialize;

/// Most bars.
const BARS_MAX: usize = 64;
/// Fewest bars, if there are that many block counts.
const BARS_MIN: usize = 20;

/// See the module's head.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Histogram {
    /// Segments with each number of live blocks, from 0 to all; empty if none was counted.
    counts: Vec<u64>,
}

/// One bar of a drawing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Mean utilisation of its block counts.
    pub utilisation: f64,
    /// Half the distance between two bars.
    pub half_width: f64,
    /// Share of all segments.
    pub share: f64,
}

impl Histogram {
    /// Counts a segment; all have the same number of blocks.
    pub(super) fn add(&mut self, live: u32, segment_blocks: u32) {
        self.counts.resize(segment_blocks as usize + 1, 0);
        self.counts[live as usize] += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
    }

    /// Number of segments counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Mean utilisation; 0 if it is empty.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let live: u64 = self.counts.iter().zip(0..).map(|(n, live)| n * live).sum();
        live as f64 / (self.total() * self.segment_blocks() as u64).max(1) as f64
    }

    /// Shares of all segments, by utilisation. Segments without a live block are clean, and are in no bar.
    #[must_use]
    pub fn bars(&self) -> Vec<Bar> {
        let blocks = self.segment_blocks();
        if blocks == 0 {
            return Vec::new();
        }
        let width = bar_width(blocks);
        let total = self.total().max(1) as f64;
        let bar = |(n, counts): (usize, &[u64])| Bar {
            utilisation: ((n * width) as f64 + (counts.len() + 1) as f64 / 2.0) / blocks as f64,
            half_width: width as f64 / 2.0 / blocks as f64,
            // The last bar may cover fewer block counts.
            share: counts.iter().sum::<u64>() as f64 / total * width as f64 / counts.len() as f64,
        };
        self.counts[1..].chunks(width).enumerate().map(bar).collect()
    }

    fn segment_blocks(&self) -> usize {
        self.counts.len().saturating_sub(1)
    }
}

/// Block counts in a bar; the same number in each if possible.
fn bar_width(blocks: usize) -> usize {
    let least = blocks.div_ceil(BARS_MAX);
    (least..=blocks / BARS_MIN).find(|width| blocks.is_multiple_of(*width)).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_all_utilisations_make_a_flat_histogram_whatever_their_size() {
        for blocks in [1, 10, 64, 97, 100, 128, 256, 1000, 1024] {
            let mut histogram = Histogram::default();
            (1..=blocks).for_each(|live| histogram.add(live, blocks));
            let bars = histogram.bars();
            assert!(bars.len() <= BARS_MAX && (bars.len() >= BARS_MIN || blocks < 64), "{blocks}: {bars:?}");
            let lowest = bars.iter().map(|bar| bar.share).fold(f64::INFINITY, f64::min);
            assert!(bars.iter().all(|bar| (bar.share / lowest - 1.0).abs() < 1e-9), "{blocks}: {bars:?}");
            let mean = bars.iter().map(|bar| bar.utilisation).sum::<f64>() / bars.len() as f64;
            assert!((mean - histogram.mean()).abs() < 0.02, "{blocks}: {mean} and {}", histogram.mean());
        }
    }

    #[test]
    fn merged_histograms_count_as_if_all_had_been_added() {
        let (mut one, mut other, mut both) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        for live in [3, 7, 7] {
            one.add(live, 8);
            both.add(live, 8);
        }
        other.add(8, 8);
        both.add(8, 8);
        other.merge(&one);
        assert_eq!(other, both);
        assert_eq!((both.total(), both.mean()), (4, 25.0 / 32.0));
        assert_eq!(Histogram::default().mean(), 0.0);
        assert!(Histogram::default().bars().is_empty());
    }
}
