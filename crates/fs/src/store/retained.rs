//! `State`: an older state of a volume, as a store that retains states lists it.
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
