//! Snapshots: which files a file system has at one moment, and where their blocks lie (File System Aging, section 3.2).
//!
//! [`Snapshot`] is the state; `format` stores it, whole or as the difference to an earlier one, `chain` opens files and follows
//! differences to the snapshot they begin with. `take` makes snapshots of directories and volumes. A snapshot has no names: only the
//! numbers of files and of the directories that they were found in. docs/internals/aging.md has the format.

mod chain;
mod format;
#[cfg(test)]
mod tests;

pub use chain::Chain;
pub use format::{SnapshotError, read_files, read_meta, write};

use super::layout::FreeSpace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Type of a regular file, as in [`Entry::kind`].
pub const REGULAR: u8 = 8;
/// Type of a directory.
pub const DIRECTORY: u8 = 4;

/// A stretch of a file that is contiguous in the file and on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Extent {
    /// Where in the file, in bytes.
    pub file_at_bytes: u64,
    /// Where on the device, in bytes; for a log, in its own address space.
    pub disk_at_bytes: u64,
    /// Its length on the device, in bytes.
    pub len_bytes: u64,
}

impl Extent {
    /// Where it ends on the device, in bytes.
    #[must_use]
    pub fn disk_end_bytes(&self) -> u64 {
        self.disk_at_bytes.saturating_add(self.len_bytes)
    }
}

/// Appends a piece of a file, to the last extent if it continues that one.
pub(super) fn push_extent(extents: &mut Vec<Extent>, next: Extent) {
    match extents.last_mut() {
        Some(last)
            if last.disk_end_bytes() == next.disk_at_bytes
                && last.file_at_bytes.saturating_add(last.len_bytes) == next.file_at_bytes =>
        {
            last.len_bytes = last.len_bytes.saturating_add(next.len_bytes);
        }
        _ => extents.push(next),
    }
}

/// What a snapshot says of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// Changes when the inode number is used for another file; 0: not known.
    pub generation: u64,
    /// File type, as in directory entries (`DT_*`).
    pub kind: u8,
    /// Inode number of the directory in which it was found first; 0 for the root of the snapshot.
    pub dir: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// When its inode was changed last, in nanoseconds since 1970.
    pub ctime_ns: i64,
    /// Where its content lies, in its order. Holes are left out, and so is content that has no place of its own.
    pub extents: Vec<Extent>,
}

/// Cylinder groups, or what a file system has in their place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Groups {
    /// Inodes of a group; at least 1.
    pub inodes: u64,
    /// The first inode number of the first group.
    pub first_inode: u64,
    /// Length of a group in bytes; at least 1.
    pub bytes: u64,
    /// Where the first group begins, in bytes.
    pub first_byte: u64,
}

impl Groups {
    /// The group of an inode.
    #[must_use]
    pub fn of_inode(&self, ino: u64) -> u64 {
        ino.saturating_sub(self.first_inode) / self.inodes.max(1)
    }

    /// The group of a place on the device.
    #[must_use]
    pub fn of_byte(&self, at_bytes: u64) -> u64 {
        at_bytes.saturating_sub(self.first_byte) / self.bytes.max(1)
    }
}

/// What generations are taken from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Generations {
    /// The file system's own.
    Stored,
    /// The time at which the file was made stands in for them.
    Birth,
    /// They are not known: a replaced file looks like a modified one.
    Unknown,
}

/// The snapshot from which the differences are counted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Base {
    /// Its file, in the same directory.
    pub file: String,
    /// Checksum of its state.
    pub state_crc: u32,
}

/// What a snapshot says of the file system.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Meta {
    /// When it was taken, in nanoseconds since 1970.
    pub taken_ns: i64,
    /// The kind of file system: `log`, `ffs`, or as the system calls it.
    pub fs_type: String,
    /// Size of the file system in bytes.
    pub size_bytes: u64,
    /// Length of a block in bytes; at least 1.
    pub block_bytes: u32,
    /// Length of a log's segment in bytes; 0 if it is no log.
    pub segment_bytes: u32,
    /// `None` if there are no groups, or if they are not known.
    pub groups: Option<Groups>,
    /// What generations are taken from.
    pub generations: Generations,
    /// Files of which the blocks could not be found out.
    pub unmapped_files: u64,
    /// `None` if it could not be found out.
    pub free: Option<FreeSpace>,
    /// `None` for a whole snapshot.
    pub base: Option<Base>,
}

/// A file system at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// The file system.
    pub meta: Meta,
    /// Its files by inode number.
    pub files: BTreeMap<u64, Entry>,
}
