//! When blocks are scattered, and when it pays to rewrite them in order (BSD-LFS, section 3.5: coalescing randomly updated
//! files improves sequential reads dramatically).
//!
//! A *seam* is a place where a sequential reader has to seek: two stretches are adjacent in a file, or in a directory's order,
//! but not on the device. Gaps that no layout of the log avoids do not count: the summary between two partial segments of one
//! segment, and the step from the end of one segment to the start of another.
//!
//! The rule. Let Q be the bytes that the device transfers in the time of a request ([`Medium`]; on a disk with a head, of a seek),
//! and r the mean length of a run between seams. Reading b bytes costs b + Q b/r, so rewriting them in order costs b + Q b/r + b,
//! and each later read gains Q b/r: it pays after 1 + 2r/Q reads. Data that was read n times will probably be read about n times
//! more, so r may be up to Q/2 for each time that a reader was seen to cross the seams. For data that nobody has read yet, r may be
//! up to Q/8, which is little more than one read.
//!
//! Reading. Blocks are read in the order of the device. A gap between two of them is read too if that costs less than a
//! request, and if it is no longer than [`GAP_FACTOR`] times the bytes needed before it ([`reads_on`]). So reading never costs
//! more than the rule assumes, and at most [`GAP_FACTOR`] + 1 times the moved bytes are read: a disk with a head passes a
//! longer gap in the same time whether it is read or not, and on a disk without a head other requests can use the bandwidth.
//!
//! Invariants: the functions are pure; data that was just written in order never pays again, whatever the evidence. Caller:
//! `lfs::coalesce`, `lfs::seams`.

use super::medium::Medium;
use firnfs_format::{SECTOR_BYTES, SectorAddr};

/// Longest gap that is read, as a multiple of the bytes needed before it.
pub const GAP_FACTOR: u64 = 3;
/// Observed reads beyond which further ones make no difference.
const READINGS_MAX: u64 = 2;
/// A gap that is read rather than skipped, in sectors (64 KiB): other files' blocks of the same commit.
const SKIP_SECTORS: u32 = 128;
/// How many times a file's rest is doubled at most, once for each time that it was put in order.
const REST_DOUBLINGS: u32 = 12;
/// The longest rest that a file must have, in milliseconds: a day.
const REST_MAX_MS: u64 = 24 * 60 * 60 * 1000;

/// The parts of a volume's geometry that matter for seams. In sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    /// Length of a segment.
    pub segment_sectors: u32,
    /// Length of a block.
    pub block_sectors: u32,
}

impl Grid {
    /// Whether a reader that is at `end` has to seek to continue at `next`.
    #[must_use]
    pub fn is_seam(&self, end: SectorAddr, next: SectorAddr) -> bool {
        if next == end {
            return false;
        }
        let segment = u64::from(self.segment_sectors);
        // The last sector that was read: a run may end exactly at the end of its segment.
        let last = end.0.saturating_sub(1);
        if last / segment == next.0 / segment {
            return next < end || next.0 - end.0 > u64::from(self.gap_sectors());
        }
        // A log continues in another segment when a block and its summary no longer fit.
        let unused = segment - 1 - last % segment;
        let is_at_end = unused < u64::from(2 * self.block_sectors);
        let is_at_start = next.0 % segment <= u64::from(self.gap_sectors());
        !(is_at_end && is_at_start)
    }

    /// Longest gap that a summary makes, or that is read anyway.
    fn gap_sectors(&self) -> u32 {
        // 40 bytes of summary for each block of a segment, rounded up.
        let summary = self.segment_sectors / self.block_sectors.max(1) * 40 / SECTOR_BYTES + 8;
        SKIP_SECTORS.max(summary)
    }

    fn segment_bytes(&self) -> u64 {
        u64::from(self.segment_sectors) * u64::from(SECTOR_BYTES)
    }
}

/// Stored blocks in the order in which a reader visits them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stretch {
    /// Their length in bytes, as stored.
    pub bytes: u64,
    /// Seams between them.
    pub seams: u64,
    end: Option<SectorAddr>,
}

impl Stretch {
    /// Visits the next block; returns whether there is a seam before it.
    pub fn add(&mut self, grid: &Grid, addr: SectorAddr, len_sectors: u8) -> bool {
        let is_seam = self.end.is_some_and(|end| grid.is_seam(end, addr));
        self.seams += u64::from(is_seam);
        self.bytes += u64::from(len_sectors) * u64::from(SECTOR_BYTES);
        self.end = Some(SectorAddr(addr.0 + u64::from(len_sectors)));
        is_seam
    }

    /// Visits something that is not read from the device: there is no seam before the next block.
    pub fn interrupt(&mut self) {
        self.end = None;
    }

    /// The sum of both: two streams that are read in parallel.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self { bytes: self.bytes + other.bytes, seams: self.seams + other.seams, end: None }
    }

    /// Mean length of a run, in bytes.
    #[must_use]
    pub fn mean_run_bytes(&self) -> u64 {
        self.bytes / (self.seams + 1)
    }
}

/// Why blocks should be put in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// They were overwritten in random places; no reader was seen to read them in sequence.
    Overwritten,
    /// Readers crossed the seams this many times.
    Crossed(u8),
    /// A user requests it.
    Asked,
}

impl Evidence {
    /// The longest mean run that is worth lengthening, in bytes. A user who requests order may have a reason of her own: the
    /// volume may later be copied to a disk with a head.
    fn run_max_bytes(self, medium: &Medium) -> u64 {
        match self {
            Self::Overwritten | Self::Crossed(0) => medium.request_bytes() / 8,
            Self::Crossed(times) => medium.request_bytes() / 2 * u64::from(times).min(READINGS_MAX),
            Self::Asked => Medium::HEAD.request_bytes() / 2 * READINGS_MAX,
        }
    }
}

/// Whether a reader that fetches blocks in the order of the device also reads a gap; `len_bytes`: bytes fetched since the last
/// gap.
#[must_use]
pub fn reads_on(medium: &Medium, len_bytes: u64, gap_bytes: u64) -> bool {
    gap_bytes <= medium.request_bytes() && gap_bytes <= len_bytes.saturating_mul(GAP_FACTOR)
}

/// Whether rewriting a stretch in order pays. It never does if its runs are about as long as the log can make them: segments.
#[must_use]
pub fn pays(stretch: &Stretch, evidence: Evidence, grid: &Grid, medium: &Medium) -> bool {
    let run_max_bytes = evidence.run_max_bytes(medium).min(grid.segment_bytes() / 4 * 3);
    stretch.seams > 0 && stretch.mean_run_bytes() <= run_max_bytes
}

/// How long a file must rest before it is put in order, in milliseconds: `age_ms`, doubled for each time that it was put in
/// order before, up to a day or `age_ms`. So a file that is overwritten again and again is not rewritten again and again.
#[must_use]
pub fn rest_ms(age_ms: u64, times_before: u32) -> u64 {
    age_ms.saturating_mul(1 << times_before.min(REST_DOUBLINGS)).min(REST_MAX_MS.max(age_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of 1 MiB, blocks of 4 KiB.
    const GRID: Grid = Grid { segment_sectors: 2048, block_sectors: 8 };

    fn stretch(blocks: &[u64]) -> Stretch {
        let mut stretch = Stretch::default();
        for &at in blocks {
            stretch.add(&GRID, SectorAddr(at), 8);
        }
        stretch
    }

    fn scattered(bytes: u64, run_bytes: u64) -> Stretch {
        Stretch { bytes, seams: bytes / run_bytes - 1, end: None }
    }

    #[test]
    fn adjacent_blocks_have_no_seams() {
        assert_eq!(stretch(&[100, 108, 116]), Stretch { bytes: 12288, seams: 0, end: Some(SectorAddr(124)) });
        // A summary in between, and the steps to a segment that follows and to one that lies elsewhere.
        assert_eq!(stretch(&[100, 108, 116 + 24]).seams, 0);
        assert_eq!(stretch(&[2032, 2040, 2048 + 24]).seams, 0);
        assert_eq!(stretch(&[2032, 50 * 2048 + 24, 50 * 2048 + 32]).seams, 0);
    }

    #[test]
    fn going_back_and_going_far_are_seams() {
        assert_eq!(stretch(&[108, 100]).seams, 1);
        assert_eq!(stretch(&[100, 100]).seams, 1);
        assert_eq!(stretch(&[100, 108 + 129]).seams, 1);
        assert_eq!(stretch(&[100, 50 * 2048 + 24]).seams, 1);
        assert_eq!(stretch(&[2040, 50 * 2048 + 1000]).seams, 1);
        assert_eq!(stretch(&[100, 5000, 108, 9000, 9008]).seams, 3);
    }

    #[test]
    fn blocks_not_on_the_device_interrupt() {
        let mut stretch = stretch(&[100]);
        stretch.interrupt();
        assert!(!stretch.add(&GRID, SectorAddr(90_000), 8));
        assert_eq!((stretch.bytes, stretch.seams), (8192, 0));
    }

    #[test]
    fn large_segments_of_small_blocks_have_long_summaries() {
        let grid = Grid { segment_sectors: 1 << 17, block_sectors: 8 };
        assert!(!grid.is_seam(SectorAddr(1000), SectorAddr(1000 + 1280)));
        assert!(grid.is_seam(SectorAddr(1000), SectorAddr(1000 + 1400)));
    }

    #[test]
    fn the_more_it_was_read_the_longer_runs_are_worth_joining() {
        let pays_at =
            |run_kib: u64, evidence| pays(&scattered(8 << 20, run_kib << 10), evidence, &GRID, &Medium::HEAD);
        assert!(pays_at(128, Evidence::Overwritten) && !pays_at(256, Evidence::Overwritten));
        assert!(pays_at(512, Evidence::Crossed(1)) && !pays_at(1024, Evidence::Crossed(1)));
        assert!(pays_at(512, Evidence::Crossed(9)) && pays_at(512, Evidence::Asked));
        let large = Grid { segment_sectors: 16384, ..GRID };
        assert!(pays(&scattered(8 << 20, 1 << 20), Evidence::Crossed(2), &large, &Medium::HEAD));
        assert!(!pays(&scattered(8 << 20, 1 << 20), Evidence::Crossed(1), &large, &Medium::HEAD));
    }

    #[test]
    fn runs_as_long_as_segments_and_single_runs_are_left() {
        let small = Grid { segment_sectors: 512, ..GRID };
        assert!(!pays(&scattered(8 << 20, 240 << 10), Evidence::Asked, &small, &Medium::HEAD));
        assert!(!pays(&Stretch { bytes: 4096, ..Stretch::default() }, Evidence::Asked, &GRID, &Medium::HEAD));
        assert!(pays(&stretch(&[100, 50]), Evidence::Overwritten, &GRID, &Medium::HEAD));
    }

    #[test]
    fn without_a_head_only_short_runs_are_worth_joining_unless_a_user_requests_it() {
        let pays_at = |run: u64, evidence| pays(&scattered(8 << 20, run), evidence, &GRID, &Medium::HEADLESS);
        assert!(pays_at(2048, Evidence::Overwritten) && !pays_at(4096, Evidence::Overwritten));
        assert!(pays_at(8192, Evidence::Crossed(1)) && !pays_at(16384, Evidence::Crossed(1)));
        assert!(pays_at(16384, Evidence::Crossed(2)) && !pays_at(32768, Evidence::Crossed(9)));
        assert!(pays_at(512 << 10, Evidence::Asked));
    }

    #[test]
    fn gaps_are_read_if_that_is_faster_and_reads_little_more() {
        assert!(reads_on(&Medium::HEAD, 1000, 3000) && !reads_on(&Medium::HEAD, 1000, 3001));
        assert!(
            reads_on(&Medium::HEAD, 1 << 30, 1 << 20) && !reads_on(&Medium::HEAD, 1 << 30, (1 << 20) + 1)
        );
        assert!(
            reads_on(&Medium::HEADLESS, 1 << 20, 25_000) && !reads_on(&Medium::HEADLESS, 1 << 20, 25_001)
        );
    }

    #[test]
    fn rests_double_up_to_a_day() {
        assert_eq!(rest_ms(60_000, 0), 60_000);
        assert_eq!(rest_ms(60_000, 3), 480_000);
        assert_eq!(rest_ms(60_000, 60), REST_MAX_MS);
        assert_eq!(rest_ms(u64::MAX, 2), u64::MAX);
        assert_eq!(rest_ms(0, 7), 0);
    }
}
