//! Workloads that age a file system: months of creates, changes and deletes, in the format of `firnfs-workload`.
//!
//! `snapshots` derives them from a series of snapshots (File System Aging, section 3.2; `changes` says what happened between
//! two), with short-lived files from [`profile`]; `git` from the history of a repository; `random` is the ager of Herrin and
//! Finkel, as a contrast. All of them make [`Event`]s, which `emit` turns into records. Same input and seed, same bytes.
//!
//! A workload has one level of directories below its root: a file's neighbours matter, not its path. Numbers of files and directories are those
//! of the original where there is one, so that a replay can place files by the original's groups.

mod changes;
mod emit;
mod git;
mod profile;
mod random;
mod snapshots;
#[cfg(test)]
mod tests;

pub use emit::{Counts, Emitter};
pub use git::{Repository, from_git};
pub use profile::{Preset, Profile, ShortFile, cut};
pub use random::{Random, random};
pub use snapshots::{Series, from_snapshots};

use crate::error::LabError;

/// The root directory of a workload.
pub const ROOT: u64 = 1;
/// The first number of short-lived files, which have none in the original.
pub const SHORT_LIVED: u64 = 1 << 48;

/// What happens to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// It is made, and written from its beginning to its end.
    Create {
        /// Its size in bytes.
        size_bytes: u64,
    },
    /// Its end is written.
    Grow {
        /// Its size before, in bytes.
        from_bytes: u64,
        /// Its size after, in bytes.
        size_bytes: u64,
    },
    /// It is emptied and written anew.
    Rewrite {
        /// Its size after, in bytes.
        size_bytes: u64,
    },
    /// Only its attributes change.
    Touch,
    /// It moves to that directory.
    Move {
        /// The directory.
        to_dir: u64,
    },
    /// It is removed.
    Delete,
    /// A directory is removed, if nothing is in it.
    RemoveDirectory,
}

/// Something that happens at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// When, in nanoseconds since 1970.
    pub time_ns: i64,
    /// The directory of the file; for [`Act::RemoveDirectory`] the directory itself.
    pub dir: u64,
    /// The file.
    pub file: u64,
    /// What.
    pub act: Act,
}

fn unwritten(error: firnfs_workload::Error) -> LabError {
    LabError::Setup(format!("the workload cannot be written: {error}"))
}
