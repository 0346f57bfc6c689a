//! The tables of the two designs: which of their blocks each event makes dirty, and how large they are.
//!
//! *Remnants*: one row for each run of blocks that the cleaner moved from one segment and that a retained point sees. Rows are
//! appended, and a row goes when no retained point is older than the move. *Virtual numbers* (NILFS2): an entry for each version,
//! with its place, birth and death; writing, moving and dropping a version changes it.
//!
//! Caller: [`super::engine`], which writes the dirty blocks with each commit.

use std::collections::{BTreeSet, VecDeque};

/// Bytes of a block.
const BLOCK_BYTES: u64 = 4096;
/// Segment, epoch, count and checksum, before the rows of a segment.
const REMNANT_HEAD_BYTES: u64 = 32;
/// Place in the segment, length, and where the run went.
const REMNANT_RUN_BYTES: u64 = 16;
/// Place, birth and death. (NILFS2's has 32 bytes; checksums are in firnfs's pointers.)
const NUMBER_BYTES: u64 = 24;

/// Rows about moved segments, oldest first.
#[derive(Default)]
pub(super) struct Remnants {
    /// Bytes appended in all, and how many of those have gone.
    appended_bytes: u64,
    gone_bytes: u64,
    /// When each segment was emptied, and where its rows end.
    rows: VecDeque<(u32, u64)>,
    /// Up to here they are written.
    written_bytes: u64,
}

impl Remnants {
    /// A segment was emptied, and `runs` runs of it have to be found again.
    pub fn add(&mut self, now: u32, runs: u64) {
        if runs > 0 {
            self.appended_bytes += REMNANT_HEAD_BYTES + runs * REMNANT_RUN_BYTES;
            self.rows.push_back((now, self.appended_bytes));
        }
    }

    /// The oldest retained point is from `oldest`; `None` if there is none. Returns the blocks that have gone.
    pub fn forget(&mut self, oldest: Option<u32>) -> std::ops::Range<u32> {
        let before = self.gone_bytes;
        while let Some(&(moved, end_bytes)) = self.rows.front() {
            if oldest.is_some_and(|oldest| oldest < moved) {
                break;
            }
            self.gone_bytes = end_bytes;
            self.rows.pop_front();
        }
        (before / BLOCK_BYTES) as u32..(self.gone_bytes / BLOCK_BYTES) as u32
    }

    /// The blocks to write now.
    pub fn take_dirty(&mut self) -> Vec<u32> {
        let from = self.written_bytes.max(self.gone_bytes) / BLOCK_BYTES;
        let to = self.appended_bytes.div_ceil(BLOCK_BYTES);
        let is_new = self.written_bytes < self.appended_bytes;
        self.written_bytes = self.appended_bytes;
        if is_new { (from as u32..to as u32).collect() } else { Vec::new() }
    }

    /// Bytes appended in all.
    pub fn appended_bytes(&self) -> u64 {
        self.appended_bytes
    }
}

/// The entries of all versions.
#[derive(Default)]
pub(super) struct Numbers {
    /// The number of each version.
    of: Vec<u32>,
    free: BTreeSet<u32>,
    /// Where the search for a free number goes on: numbers given out together lie together.
    next: u32,
    len: u32,
    dirty: BTreeSet<u32>,
}

impl Numbers {
    /// A version gets a number.
    pub fn add(&mut self, version: u32) {
        let number = match self.free.range(self.next..).next().or_else(|| self.free.first()).copied() {
            // A table that is nearly full of used numbers grows, so that free ones lie together.
            Some(number) if self.free.len() as u32 > self.len / 16 => {
                self.free.remove(&number);
                number
            }
            _ => {
                self.len += 1;
                self.len - 1
            }
        };
        self.next = number + 1;
        let version = version as usize;
        if self.of.len() <= version {
            self.of.resize(version + 1, 0);
        }
        self.of[version] = number;
        self.touch(number);
    }

    /// A version died or was moved.
    pub fn change(&mut self, version: u32) {
        self.touch(self.of[version as usize]);
    }

    /// A version is gone.
    pub fn drop(&mut self, version: u32) {
        let number = self.of[version as usize];
        self.free.insert(number);
        self.touch(number);
    }

    fn touch(&mut self, number: u32) {
        self.dirty.insert((u64::from(number) * NUMBER_BYTES / BLOCK_BYTES) as u32);
    }

    /// The blocks to write now.
    pub fn take_dirty(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.dirty).into_iter().collect()
    }
}
