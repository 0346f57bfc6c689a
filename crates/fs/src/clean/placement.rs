//! Placement: which open log a block goes to, so that blocks that die together are stored together.

use super::facts::{BlockFacts, Cleaned, Writer};

/// Logs that a placement may use at most. Each one holds a segment that is not yet full.
pub const MAX_OPEN_LOGS: usize = 6;

/// A way to sort blocks into logs.
pub trait Placement: Send {
    /// How many logs it uses, 1 to [`MAX_OPEN_LOGS`].
    fn logs(&self) -> u8;

    /// The log for a block; below [`Placement::logs`].
    fn log_for(&self, block: &BlockFacts) -> u8;

    /// Whether the blocks that the cleaner moves together are written oldest first instead of in file order (Sprite LFS,
    /// section 3.5: age sort).
    fn sorts_by_age(&self) -> bool {
        false
    }

    /// Feedback: a segment was chosen as a victim.
    fn segment_cleaned(&mut self, _cleaned: &Cleaned) {}
}

/// Everything goes to one log (Sprite LFS).
#[derive(Clone, Copy, Debug, Default)]
pub struct OneLog;

impl Placement for OneLog {
    fn logs(&self) -> u8 {
        1
    }

    fn log_for(&self, _block: &BlockFacts) -> u8 {
        0
    }
}

/// One log for users, one for the cleaner.
#[derive(Clone, Copy, Debug, Default)]
pub struct Split;

impl Placement for Split {
    fn logs(&self) -> u8 {
        2
    }

    fn log_for(&self, block: &BlockFacts) -> u8 {
        u8::from(block.writer == Writer::Cleaner)
    }
}

/// [`Split`] with the cleaner's blocks sorted by age, so that long-lived blocks end up together.
#[derive(Clone, Copy, Debug, Default)]
pub struct AgeSort;

impl Placement for AgeSort {
    fn logs(&self) -> u8 {
        Split.logs()
    }

    fn log_for(&self, block: &BlockFacts) -> u8 {
        Split.log_for(block)
    }

    fn sorts_by_age(&self) -> bool {
        true
    }
}

/// MiDA: the number of times that the cleaner has moved the block since a user wrote it.
#[derive(Clone, Copy, Debug)]
pub struct Mida {
    /// Logs, at least 1.
    pub logs: u8,
}

impl Placement for Mida {
    fn logs(&self) -> u8 {
        self.logs
    }

    fn log_for(&self, block: &BlockFacts) -> u8 {
        let moves = match block.writer {
            Writer::User => 0,
            Writer::Cleaner => block.moves.saturating_add(1),
        };
        moves.min(self.logs - 1)
    }
}
