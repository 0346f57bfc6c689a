//! Why a checkpoint is written: whoever asks for one says so. It decides whether the checkpoint makes a point by itself, and on whose
//! account it goes.

use firnfs_format::summary::{FLAG_CHECKPOINT, FLAG_CLEANER, FLAG_END};

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lfs) enum Occasion {
    /// It is due, or somebody asked for it.
    Due,
    /// Upkeep needs it: only checkpoints find emptied segments and make them ready. What it writes of the tables counts as upkeep's.
    Room,
    /// It is the mount's last.
    Unmount,
}

impl Occasion {
    /// Flags of the partial segments with the tables.
    pub fn flags(self) -> u16 {
        let cause = if self == Self::Room { FLAG_CLEANER } else { 0 };
        FLAG_CHECKPOINT | FLAG_END | cause
    }
}
