//! `State`: an older state of a volume, as a store that retains states lists it; and `Branch`: a clone that began as one.
//!
//! Callers: stores, and `vfs::history`, which shows them as directories.

use firnfs_format::{Epoch, TimeNs};

/// An older state of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// Identifies it; later states have larger ones.
    pub epoch: Epoch,
    /// When it was the present.
    pub time: TimeNs,
    /// The name under which people find it.
    pub name: String,
}

/// A clone: a directory tree that began as an older state, and that people can change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Branch {
    /// In the numbers of its inodes (see `states`); its root directory has the number of the volume's below it.
    pub number: u8,
    /// When it was made.
    pub time: TimeNs,
    /// The state that it began as.
    pub origin: Epoch,
    /// The name under which people find it.
    pub name: String,
}
