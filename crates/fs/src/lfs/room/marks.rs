//! Marks of the cleaner that somebody sets instead of those that follow from the size of the volume and how full it is.
//!
//! Invariant: whatever is set, the reserve stays, and marks come in order ([`Room::low`] and its neighbours see to it): a
//! volume may have become fuller since. [`Room::judge`] refuses what makes no sense when it is set.

use crate::lfs::Lfs;
use crate::lfs::room::segments::Room;
use std::fmt;

/// Clean segments at which the cleaner starts and stops; `None`: as follows from the size of the volume and how full it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Thresholds {
    /// Below this many it starts, on demand.
    pub low: Option<u64>,
    /// At this many it stops while users are active.
    pub high: Option<u64>,
    /// At this many it stops in idle time.
    pub idle: Option<u64>,
}

/// One of the [`Thresholds`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// [`Thresholds::low`].
    Low,
    /// [`Thresholds::high`].
    High,
    /// [`Thresholds::idle`].
    Idle,
}

/// Why a mark cannot be set. Counts are clean segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnfitMark {
    /// Checkpoints and the cleaner itself need more.
    #[error("{mark} mark: {wanted} clean segments are too few, checkpoints and the cleaner need {least}")]
    TooLow {
        /// Which.
        mark: Mark,
        /// The value refused.
        wanted: u64,
        /// The least that can be set.
        least: u64,
    },
    /// The files do not leave that many, or cleaning would rewrite nearly all of them for each clean segment.
    #[error("{mark} mark: the files leave at most {most} clean segments, fewer than {wanted}")]
    TooHigh {
        /// Which.
        mark: Mark,
        /// The value refused.
        wanted: u64,
        /// The most that can be set now.
        most: u64,
    },
    /// The cleaner would stop before it starts, or do less in idle time than on demand.
    #[error("{mark} mark: {wanted} is below the {below} mark, {than}")]
    OutOfOrder {
        /// Which.
        mark: Mark,
        /// The value refused.
        wanted: u64,
        /// The mark that it may not be below,
        below: Mark,
        /// and the value of that.
        than: u64,
    },
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Low => "low",
            Self::High => "high",
            Self::Idle => "idle",
        })
    }
}

impl Thresholds {
    /// Refuses marks that contradict each other on every volume.
    ///
    /// # Errors
    /// [`UnfitMark::OutOfOrder`].
    pub fn judge(&self) -> Result<(), UnfitMark> {
        let pairs = [
            (Mark::High, self.high, Mark::Low, self.low),
            (Mark::Idle, self.idle, Mark::High, self.high),
            (Mark::Idle, self.idle, Mark::Low, self.low),
        ];
        for (mark, wanted, below, than) in pairs {
            if let (Some(wanted), Some(than)) = (wanted, than) {
                in_order(mark, wanted, below, than)?;
            }
        }
        Ok(())
    }
}

impl Room {
    /// The fewest clean segments below which the cleaner can start: at the reserve writes wait for it already.
    pub fn least(&self) -> u64 {
        self.reserve + 1
    }

    /// The most clean segments that can be asked for: with more, the segments in use would be nearly full, and each clean one
    /// would cost the cleaner several rewritten.
    pub fn most(&self) -> u64 {
        (self.reserve + self.free() / 4 * 3).max(2 * self.usual_low() - self.reserve)
    }

    /// Refuses thresholds that this volume cannot keep now; `self` has them.
    ///
    /// # Errors
    /// See [`UnfitMark`].
    pub fn judge(&self) -> Result<(), UnfitMark> {
        let Thresholds { low, high, idle } = self.thresholds;
        for (mark, wanted) in [(Mark::Low, low), (Mark::High, high), (Mark::Idle, idle)] {
            let Some(wanted) = wanted else { continue };
            let (least, most) = (self.least(), self.most());
            if wanted < least {
                return Err(UnfitMark::TooLow { mark, wanted, least });
            }
            if wanted > most {
                return Err(UnfitMark::TooHigh { mark, wanted, most });
            }
        }
        high.map_or(Ok(()), |high| in_order(Mark::High, high, Mark::Low, self.low()))?;
        idle.map_or(Ok(()), |idle| in_order(Mark::Idle, idle, Mark::High, self.high()))
    }
}

impl Lfs {
    /// Refuses thresholds that make no sense on this volume, as full as it is.
    ///
    /// # Errors
    /// See [`UnfitMark`].
    pub fn judge_thresholds(&self, thresholds: Thresholds) -> Result<(), UnfitMark> {
        Room { thresholds, ..self.room_now() }.judge()
    }
}

fn in_order(mark: Mark, wanted: u64, below: Mark, than: u64) -> Result<(), UnfitMark> {
    if wanted < than { Err(UnfitMark::OutOfOrder { mark, wanted, below, than }) } else { Ok(()) }
}

#[cfg(test)]
#[path = "marks_tests.rs"]
mod tests;
