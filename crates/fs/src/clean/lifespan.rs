//! SepBIT (Wang et al., FAST 2022): infers how long a block will live from the life span of its last version (users' writes)
//! or from its age (moves), relative to the life span of short-lived segments.

use super::facts::{BlockFacts, Cleaned, Writer};
use super::placement::{MAX_OPEN_LOGS, Placement};
use std::collections::VecDeque;

/// Number of cleaned segments of log 0 over which the threshold is the mean.
const REMEMBERED: usize = 16;

/// See the module's head. A user's block goes to log 0 if the version that it replaces lived shorter than l, else to 1. A
/// moved block goes from log 0 to 2, otherwise by age: below 4 l to 3, below 16 l to 4, older to 5. With fewer logs the
/// oldest share the last.
#[derive(Clone, Debug)]
pub struct SepBit {
    logs: u8,
    ages: VecDeque<u64>,
}

impl Default for SepBit {
    fn default() -> Self {
        Self::with_logs(MAX_OPEN_LOGS as u8)
    }
}

impl SepBit {
    /// With this many logs, 1 to [`MAX_OPEN_LOGS`].
    #[must_use]
    pub fn with_logs(logs: u8) -> Self {
        Self { logs, ages: VecDeque::new() }
    }

    /// l: mean age at which the last segments of log 0 were cleaned; unbounded before the first one.
    fn threshold(&self) -> u64 {
        // Ages come from the device: their sum may need more than 64 bits.
        let sum: u128 = self.ages.iter().map(|&age| u128::from(age)).sum();
        let mean = sum.checked_div(self.ages.len() as u128);
        mean.and_then(|mean| u64::try_from(mean).ok()).unwrap_or(u64::MAX)
    }
}

impl Placement for SepBit {
    fn logs(&self) -> u8 {
        self.logs
    }

    fn log_for(&self, block: &BlockFacts) -> u8 {
        let l = self.threshold();
        let class = match (block.writer, block.age) {
            (Writer::User, Some(life_span)) if life_span < l => 0,
            (Writer::User, _) => 1,
            (Writer::Cleaner, _) if block.log == Some(0) => 2,
            (Writer::Cleaner, Some(age)) if age < l.saturating_mul(4) => 3,
            (Writer::Cleaner, Some(age)) if age < l.saturating_mul(16) => 4,
            (Writer::Cleaner, _) => 5,
        };
        class.min(self.logs - 1)
    }

    fn segment_cleaned(&mut self, cleaned: &Cleaned) {
        if cleaned.log == 0 {
            self.ages.push_back(cleaned.age);
            if self.ages.len() > REMEMBERED {
                self.ages.pop_front();
            }
        }
    }
}
