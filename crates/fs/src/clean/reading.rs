//! How the cleaner reads a victim: whole, or its summaries and then the live runs (Sprite LFS, section 3.4: "it may be faster
//! to read just the live blocks, particularly if the utilization is very low").
//!
//! The costs are those of a [`Medium`], in bytes: a request costs Q, the bytes that are transferred in its time. A segment of S
//! bytes with L live ones, read whole, costs Q + S. Its parts cost, for each summary, Q + [`SUMMARY_READ_BYTES`], and for each run
//! Q and its bytes. Where the live blocks lie is known only from the summaries, so there are three decisions:
//!
//! 1. [`summaries_first`]: at best the segment is one partial segment and all live blocks are one run; then reading the parts
//!    saves S - L - C - Q (C: the bytes of the first read). At worst the rest is read whole, and Q is lost. The summaries are
//!    read first if the gain is at least the loss: dead bytes of C + 2 Q or more, 66 KB without a head, 2 MiB with one.
//! 2. [`goes_on`]: reading another summary costs Q + C and allows the reader to skip the dead bytes of its partial segment, D/S
//!    of its length if D bytes of the segment are dead. The mean length so far stands for the next. If it is too short, the
//!    rest of the segment is read whole.
//! 3. [`merged`]: two runs are read as one if the gap between them is at most Q. So the runs never cost more than reading
//!    everything from the first to the last.
//!
//! Caller: `lfs::upkeep::victim`.

use super::medium::Medium;
use firnfs_format::SECTOR_BYTES;

/// Bytes that are read where a summary begins: the summary of 400 blocks, or several short partial segments.
pub const SUMMARY_READ_BYTES: u32 = 16 << 10;

/// Sectors of a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Run {
    /// The first.
    pub from: u32,
    /// How many.
    pub len: u32,
}

impl Run {
    /// The sectors from one on, up to but not including another.
    #[must_use]
    pub fn between(from: u32, end: u32) -> Self {
        Self { from, len: end.saturating_sub(from) }
    }

    /// The first sector after it.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.from.saturating_add(self.len)
    }

    /// Its length in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.len) * u64::from(SECTOR_BYTES)
    }
}

/// Whether the summaries of a victim are read before anything else.
#[must_use]
pub fn summaries_first(medium: &Medium, segment_bytes: u32, live_bytes: u32) -> bool {
    let dead_bytes = u64::from(segment_bytes.saturating_sub(live_bytes));
    dead_bytes >= medium.cost_bytes(2, u64::from(SUMMARY_READ_BYTES))
}

/// Whether the next summary of a victim is read alone; `mean_bytes`: mean length of the partial segments found so far.
#[must_use]
pub fn goes_on(medium: &Medium, segment_bytes: u32, live_bytes: u32, mean_bytes: u64) -> bool {
    let dead_bytes = u64::from(segment_bytes.saturating_sub(live_bytes));
    let skipped_bytes = mean_bytes.saturating_mul(dead_bytes) / u64::from(segment_bytes.max(1));
    skipped_bytes > medium.cost_bytes(1, u64::from(SUMMARY_READ_BYTES))
}

/// The runs to be read, merged where that is cheaper, given pieces in any order.
#[must_use]
pub fn merged(medium: &Medium, mut pieces: Vec<Run>) -> Vec<Run> {
    let gap_sectors = u32::try_from(medium.request_bytes() / u64::from(SECTOR_BYTES)).unwrap_or(u32::MAX);
    pieces.sort_unstable();
    let mut runs: Vec<Run> = Vec::new();
    for piece in pieces {
        match runs.last_mut() {
            Some(last) if piece.from <= last.end().saturating_add(gap_sectors) => {
                last.len = piece.end().max(last.end()) - last.from;
            }
            _ => runs.push(piece),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u32 = 1 << 20;

    /// A disk whose request is worth 8 sectors.
    const TINY: Medium = Medium { request_ns: 4096, byte_ps: 1000 };

    fn run(from: u32, len: u32) -> Run {
        Run { from, len }
    }

    #[test]
    fn a_device_with_a_head_reads_segments_of_1_mib_whole_however_sparse() {
        assert!(!summaries_first(&Medium::HEAD, MIB, 4096));
        assert!(summaries_first(&Medium::HEAD, 8 * MIB, MIB));
        assert!(!summaries_first(&Medium::HEAD, 8 * MIB, 7 * MIB));
    }

    #[test]
    fn without_a_head_the_break_even_is_66_kb_of_dead_space() {
        let reads_at = |dead_bytes: u32| summaries_first(&Medium::HEADLESS, MIB, MIB - dead_bytes);
        assert!(reads_at(MIB) && reads_at(66_384) && !reads_at(66_383));
        assert!(!summaries_first(&Medium::HEADLESS, MIB, 2 * MIB), "more live than there can be");
    }

    #[test]
    fn short_partial_segments_end_the_walk() {
        let goes_on_at = |mean: u64, live: u32| goes_on(&Medium::HEADLESS, MIB, live, mean);
        // 41384 bytes have to be skipped for a request and the summary.
        assert!(goes_on_at(41_385, 0) && !goes_on_at(41_384, 0));
        assert!(goes_on_at(82_770, MIB / 2) && !goes_on_at(82_769, MIB / 2));
        assert!(!goes_on(&Medium::HEADLESS, 0, 0, 1 << 20));
    }

    #[test]
    fn gaps_worth_less_than_a_request_are_read() {
        let pieces = vec![run(100, 8), run(0, 8), run(16, 8), run(33, 1)];
        assert_eq!(merged(&TINY, pieces), [run(0, 24), run(33, 1), run(100, 8)]);
        assert_eq!(merged(&TINY, vec![run(0, 20), run(4, 2)]), [run(0, 20)]);
        assert_eq!(merged(&Medium::HEAD, vec![run(2000, 8), run(0, 8)]), [run(0, 2008)]);
        assert_eq!(merged(&TINY, Vec::new()), []);
    }

    /// Merging costs no more than any other way to cut the same pieces into runs.
    #[test]
    fn merged_runs_are_the_cheapest() {
        let mut state = 1u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        for _ in 0..200 {
            let mut at = 0;
            let pieces: Vec<Run> = (0..8)
                .map(|_| {
                    at += noise() % 20 + 1;
                    let piece = run(at, noise() % 6 + 1);
                    at = piece.end();
                    piece
                })
                .collect();
            let cost = |runs: &[Run]| TINY.cost_bytes(runs.len() as u64, runs.iter().map(Run::bytes).sum());
            let best = (0..1u32 << 7).map(|cuts| {
                let mut runs = vec![pieces[0]];
                for (n, piece) in pieces.iter().enumerate().skip(1) {
                    match runs.last_mut() {
                        Some(last) if cuts >> (n - 1) & 1 == 0 => last.len = piece.end() - last.from,
                        _ => runs.push(*piece),
                    }
                }
                cost(&runs)
            });
            assert_eq!(Some(cost(&merged(&TINY, pieces.clone()))), best.min());
        }
    }
}
