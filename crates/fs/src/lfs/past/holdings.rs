//! What retained points hold: the bytes that dropping one would give back.
//!
//! Counted by a walk, since nothing notes the death of a single block: it takes time in proportion to what is held. Caller: `firn log`,
//! through the driver.

use crate::error::{FsError, Outcome};
use crate::lfs::Lfs;
use crate::lfs::past::walk::{Progress, Purpose, Walk};
use firnfs_format::Epoch;
use firnfs_format::checkpoint::Point;

/// A count that goes on.
pub struct Holdings(Walk);

impl Lfs {
    /// Begins to count what dropping a point would give back, in bytes.
    ///
    /// # Errors
    /// `NotFound` if there is no such point, or it is being dropped.
    pub fn count_held_by(&self, epoch: Epoch) -> Result<Holdings, FsError> {
        let points: Vec<&Point> = self.points().iter().filter(|point| point.dropped_to.is_none()).collect();
        let at = points.iter().position(|point| point.epoch == epoch).ok_or(FsError::NotFound)?;
        let before = at.checked_sub(1).map(|before| points[before]);
        Ok(Holdings(Walk::new(before, points[at], points.get(at + 1).copied(), Purpose::Count(0))))
    }

    /// Counts on. Returns the sum when all is counted. It is exact if nothing has changed since the beginning.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn count_on(&mut self, holdings: &mut Holdings) -> Outcome<Option<u64>> {
        let progress = self.walk_on(&mut holdings.0)?;
        Ok((progress == Progress::Done).then(|| holdings.0.counted_bytes()))
    }
}
