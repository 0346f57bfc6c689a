//! How well the files of a snapshot are laid out: layout scores, split files, the seams that a reader of a log meets, free space
//! (`free`).
//!
//! A block is *optimally placed* if it lies right after the block before it in the file (section 3.4). First blocks cannot be, and files of
//! one block have no score. The score of a set is the share of optimal blocks among all its blocks that could be: a pooled share,
//! not a mean of the files' scores. Holes are passed over. Callers: `firn age layout`, and the experiments on aging.

mod free;
#[cfg(test)]
mod tests;

pub use free::{FreeClass, FreeSpace};

use super::snapshot::{Entry, Extent, Groups, Meta, REGULAR, Snapshot};
use firnfs::clean::scatter::{Grid, Stretch};
use firnfs_format::{SECTOR_BYTES, SectorAddr};
use std::collections::BTreeMap;

const DAY_NS: i64 = 86_400_000_000_000;
/// Ages that files are sorted by, in days.
pub const AGES_DAYS: [u64; 5] = [1, 7, 30, 90, 365];

/// Blocks that could be placed optimally, and those that are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Score {
    /// Blocks other than the first of a file.
    pub blocks: u64,
    /// Those that lie right after the block before.
    pub optimal: u64,
}

impl Score {
    /// The blocks of one file.
    #[must_use]
    pub fn of(extents: &[Extent], block_bytes: u32) -> Self {
        let mut score = Self::default();
        let mut end = None;
        for extent in extents {
            let blocks = blocks_of(extent, block_bytes);
            let is_next = end == Some(extent.disk_at_bytes);
            // A snapshot is a file, and may claim anything.
            score.blocks = score.blocks.saturating_add(blocks - u64::from(end.is_none()));
            score.optimal = score.optimal.saturating_add(blocks - u64::from(!is_next));
            end = Some(extent.disk_end_bytes());
        }
        score
    }

    /// Both together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let blocks = self.blocks.saturating_add(other.blocks);
        Self { blocks, optimal: self.optimal.saturating_add(other.optimal) }
    }

    /// The layout score, 0 to 1; `None` if no block could be placed optimally.
    #[must_use]
    pub fn value(self) -> Option<f64> {
        (self.blocks > 0).then(|| self.optimal as f64 / self.blocks as f64)
    }
}

/// Blocks of an extent; the last may be shorter.
fn blocks_of(extent: &Extent, block_bytes: u32) -> u64 {
    let block = u64::from(block_bytes.max(1));
    (extent.file_at_bytes % block).saturating_add(extent.len_bytes).div_ceil(block).max(1)
}

/// Files of one class.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Class {
    /// Files with a place.
    pub files: u64,
    /// Their size together, in bytes.
    pub bytes: u64,
    /// Their blocks.
    pub score: Score,
}

impl Class {
    fn add(&mut self, size_bytes: u64, score: Score) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(size_bytes);
        self.score = self.score.with(score);
    }
}

/// Files whose inode and first block lie in different groups (section 4.1).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Splits {
    /// Files by the distance in groups; only those with a distance.
    pub by_distance: BTreeMap<u64, u64>,
}

impl Splits {
    /// Split files.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.by_distance.values().sum()
    }

    /// Split files with a distance of at most that many groups.
    #[must_use]
    pub fn within(&self, groups: u64) -> u64 {
        self.by_distance.range(..=groups).map(|(_, files)| files).sum()
    }
}

/// What a reader of all files meets in a log, each file from its beginning to its end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Seams {
    /// Bytes that are stored.
    pub bytes: u64,
    /// Places within files where a reader has to seek.
    pub seams: u64,
    /// Files with at least one.
    pub files: u64,
}

impl Seams {
    /// Mean length of a run between seams and ends of files, in bytes; `files`: all files that are stored.
    #[must_use]
    pub fn mean_run_bytes(&self, files: u64) -> u64 {
        self.bytes / (self.seams + files).max(1)
    }
}

/// See the module's head.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Layout {
    /// Regular files, also those without a place.
    pub files: u64,
    /// All files with a place.
    pub all: Class,
    /// By size, rounded up to whole blocks: the key is the largest size of the class in bytes, a power of two.
    pub by_size: BTreeMap<u64, Class>,
    /// By the time from a file's last change to that of the file changed last: less than so many of [`AGES_DAYS`]; the last: the others.
    /// Files that a replay aged have the times of the workload.
    pub by_age: [Class; AGES_DAYS.len() + 1],
    /// `None` without groups.
    pub splits: Option<Splits>,
    /// `None` if it is no log.
    pub seams: Option<Seams>,
}

impl Layout {
    /// The layout of all regular files.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut layout = Self::empty(&snapshot.meta);
        let regular = || snapshot.files.iter().filter(|(_, entry)| entry.kind == REGULAR);
        let newest_ns = regular().map(|(_, entry)| entry.ctime_ns).max().unwrap_or(0);
        regular().for_each(|(&ino, entry)| layout.add(&snapshot.meta, newest_ns, ino, entry));
        layout
    }

    fn empty(meta: &Meta) -> Self {
        let splits = meta.groups.map(|_| Splits::default());
        let seams = (meta.segment_bytes > 0).then(Seams::default);
        Self { splits, seams, ..Self::default() }
    }

    fn add(&mut self, meta: &Meta, newest_ns: i64, ino: u64, entry: &Entry) {
        self.files += 1;
        let Some(first) = entry.extents.first() else { return };
        let score = Score::of(&entry.extents, meta.block_bytes);
        let size_bytes = entry.size_bytes.max(1).checked_next_multiple_of(u64::from(meta.block_bytes));
        self.all.add(entry.size_bytes, score);
        let class_bytes = size_bytes.and_then(u64::checked_next_power_of_two).unwrap_or(u64::MAX);
        self.by_size.entry(class_bytes).or_default().add(entry.size_bytes, score);
        let age_days = newest_ns.saturating_sub(entry.ctime_ns).max(0) / DAY_NS;
        let age = AGES_DAYS.iter().position(|&days| age_days.cast_unsigned() < days);
        self.by_age[age.unwrap_or(AGES_DAYS.len())].add(entry.size_bytes, score);
        if let (Some(splits), Some(groups)) = (&mut self.splits, &meta.groups) {
            splits.add(groups, ino, first);
        }
        if let Some(seams) = &mut self.seams {
            seams.add(meta, &entry.extents);
        }
    }
}

impl Splits {
    fn add(&mut self, groups: &Groups, ino: u64, first: &Extent) {
        let distance = groups.of_inode(ino).abs_diff(groups.of_byte(first.disk_at_bytes));
        if distance > 0 {
            *self.by_distance.entry(distance).or_default() += 1;
        }
    }
}

impl Seams {
    fn add(&mut self, meta: &Meta, extents: &[Extent]) {
        let sector = u64::from(SECTOR_BYTES);
        let grid = Grid {
            segment_sectors: (meta.segment_bytes / SECTOR_BYTES).max(1),
            block_sectors: (meta.block_bytes / SECTOR_BYTES).max(1),
        };
        let mut stretch = Stretch::default();
        for extent in extents {
            // Where it begins says whether there is a seam; then the visit ends with its last sector.
            let start = SectorAddr(extent.disk_at_bytes / sector);
            stretch.add(&grid, start, 0);
            let last = (extent.disk_end_bytes() / sector).saturating_sub(1).max(start.0);
            stretch.interrupt();
            stretch.add(&grid, SectorAddr(last), 1);
            self.bytes = self.bytes.saturating_add(extent.len_bytes);
        }
        self.seams += stretch.seams;
        self.files += u64::from(stretch.seams > 0);
    }
}
