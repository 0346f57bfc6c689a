//! DAC (dynamic data clustering, Chiang et al. 1999): a block's log is its temperature. Every write by a user makes it one
//! step hotter, every move by the cleaner one step colder.

use super::facts::{BlockFacts, Writer};
use super::placement::Placement;

/// See the module's head. Log 0 is the coldest.
#[derive(Clone, Copy, Debug)]
pub struct Dac {
    /// Logs, at least 1.
    pub logs: u8,
    /// The log of new blocks, below `logs`.
    pub start: u8,
}

impl Placement for Dac {
    fn logs(&self) -> u8 {
        self.logs
    }

    fn log_for(&self, block: &BlockFacts) -> u8 {
        match (block.log, block.writer) {
            (None, _) => self.start,
            (Some(log), Writer::User) => log.saturating_add(1).min(self.logs - 1),
            (Some(log), Writer::Cleaner) => log.saturating_sub(1).min(self.logs - 1),
        }
    }
}
