//! Victim selection.

use firnfs_format::{SegmentId, TimeNs};

/// A segment that could be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub segment: SegmentId,
    /// Live bytes.
    pub live_bytes: u32,
    /// When it was last written.
    pub written: TimeNs,
    /// Youngest modification time of its blocks.
    pub youngest: TimeNs,
}

/// A way to choose victims.
pub trait Policy: Send {
    /// The candidates to clean, best first; at most `count`.
    fn choose(
        &self,
        candidates: &[Candidate],
        segment_bytes: u32,
        now: TimeNs,
        count: usize,
    ) -> Vec<Candidate>;
}

/// Cost-benefit (Sprite LFS, section 3.5) by the age of the segment: largest (1-u) * age / u first. Ages are counted from a
/// second on, so that what was just written still differs by its utilisation.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostBenefit;

impl Policy for CostBenefit {
    fn choose(
        &self,
        candidates: &[Candidate],
        segment_bytes: u32,
        now: TimeNs,
        count: usize,
    ) -> Vec<Candidate> {
        let benefit = |c: &Candidate| {
            let u = f64::from(c.live_bytes) / f64::from(segment_bytes);
            let age_s = now.millis_since(c.written) as f64 / 1000.0 + 1.0;
            (1.0 - u).max(0.0) * age_s / u.max(1e-9)
        };
        let mut ranked: Vec<_> = candidates.iter().map(|c| (benefit(c), *c)).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.segment.cmp(&b.1.segment)));
        ranked.truncate(count);
        ranked.into_iter().map(|(_, c)| c).collect()
    }
}

/// The emptiest first (Sprite LFS, section 3.4).
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl Policy for Greedy {
    fn choose(
        &self,
        candidates: &[Candidate],
        _segment_bytes: u32,
        _now: TimeNs,
        count: usize,
    ) -> Vec<Candidate> {
        let mut ranked = candidates.to_vec();
        ranked.sort_by_key(|c| (c.live_bytes, c.segment));
        ranked.truncate(count);
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_empty_goes_before_young_and_full() {
        let candidate = |n, live_bytes, written_s: i64| Candidate {
            segment: SegmentId(n),
            live_bytes,
            written: TimeNs(written_s * 1_000_000_000),
            youngest: TimeNs(0),
        };
        // u, age: (.5, 10 s), (.5, 90 s), (.9, 90 s), (.1, 10 s)
        let all =
            [candidate(0, 500, 90), candidate(1, 500, 10), candidate(2, 900, 10), candidate(3, 100, 90)];
        let order: Vec<u64> =
            CostBenefit.choose(&all, 1000, TimeNs(100_000_000_000), 4).iter().map(|c| c.segment.0).collect();
        assert_eq!(order, [3, 1, 0, 2]);
    }
}
