//! Views of a volume for people and tools: what `firn dump` and `firn stat` show (4BSD's dumpfs).

use super::Lfs;
use crate::error::Outcome;
use firnfs_format::table::{ImapEntry, UsageEntry};
use firnfs_format::{InodeNo, SegmentId};

impl Lfs {
    /// Segments of one leaf of the usage table with their present state; empty past the last leaf.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn usage_leaf(&mut self, leaf: u64) -> Outcome<Vec<(SegmentId, UsageEntry)>> {
        if leaf >= self.usage.leaves() { Ok(Vec::new()) } else { self.usage.leaf(&mut self.shelf, leaf) }
    }

    /// The inode map's entry of an inode.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn imap_entry(&mut self, ino: InodeNo) -> Outcome<ImapEntry> {
        self.imap.get(&mut self.shelf, ino)
    }

    /// First inode number never used.
    #[must_use]
    pub fn next_ino(&self) -> InodeNo {
        self.imap.next_ino
    }
}
