//! DAC (dynamic data clustering, Chiang et al. 1999): a block's log is its temperature. Every write by a user makes it one
//! step hotter, every move by the cleaner one step colder.

use super::facts::{BlockFacts, Cleaned, Writer};
use super::placement::{MAX_OPEN_LOGS, Placement};

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

/// [`Dac`] that heats up in leaps: if the last version of a block lived shorter than segments of a hotter log do, the block
/// goes to that log at once, instead of one step for each write. When the hot part of the data moves, and on full disks,
/// blocks reach the right log sooner. They still cool one step at a time: a block that seems cold may only have been unlucky,
/// and a hot block in a cold log costs more than a cold one in a hot log.
#[derive(Clone, Copy, Debug)]
pub struct LeapingDac {
    steps: Dac,
    /// Age at which segments of each log are cleaned, in the caller's units: a running mean.
    cleaned_at: [f64; MAX_OPEN_LOGS],
}

/// Cleaned segments that a running mean covers.
const MEMORY: f64 = 16.0;

/// As many logs as possible: the default placement for an unknown workload (docs/decisions/0201).
impl Default for LeapingDac {
    fn default() -> Self {
        let logs = MAX_OPEN_LOGS as u8;
        Self::new(Dac { logs, start: logs / 2 })
    }
}

impl LeapingDac {
    /// With the logs of a [`Dac`].
    #[must_use]
    pub fn new(steps: Dac) -> Self {
        Self { steps, cleaned_at: [0.0; MAX_OPEN_LOGS] }
    }
}

impl Placement for LeapingDac {
    fn logs(&self) -> u8 {
        self.steps.logs()
    }

    fn log_for(&self, block: &BlockFacts) -> u8 {
        let step = self.steps.log_for(block);
        let (Writer::User, Some(life_span)) = (block.writer, block.age) else { return step };
        // The hottest log within reach whose segments live longer than the block does; a log without a mean does not attract
        // a leap.
        let lives_longer = |log: &u8| self.cleaned_at[usize::from(*log)] > life_span as f64;
        (step + 1..self.logs()).take_while(lives_longer).last().unwrap_or(step)
    }

    fn segment_cleaned(&mut self, cleaned: &Cleaned) {
        if let Some(mean) = self.cleaned_at.get_mut(usize::from(cleaned.log)) {
            *mean += (cleaned.age as f64 - *mean) / MEMORY;
        }
    }
}
