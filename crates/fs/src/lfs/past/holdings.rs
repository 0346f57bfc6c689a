//! What a retained point holds: the bytes that dropping it would give back.
//!
//! A walk counts them, since nothing records the death of a single block. Its time is proportional to what is held. Caller: `firn
//! log`, through the driver.

use crate::error::Outcome;
use crate::lfs::Lfs;
use crate::lfs::past::walk::{Progress, Purpose, Walk};
use firnfs_format::Epoch;
use firnfs_format::checkpoint::Point;

/// An unfinished count.
pub struct Holdings(Walk);

impl Lfs {
    /// Begins to count what dropping a point would give back, in bytes.
    ///
    /// # Errors
    /// `NotFound` if there is no such point, or it is being dropped; `Need`.
    pub fn count_held_by(&mut self, epoch: Epoch) -> Outcome<Holdings> {
        self.load_rows()?;
        let point = self.whole_point(epoch)?.clone();
        let is_whole = |point: &&Point| point.dropped_to.is_none();
        let (until, mut after) = self.tables.points.around(epoch);
        let (before, next) = (until.rev().find(is_whole), after.find(is_whole));
        Ok(Holdings(Walk::new(before, &point, next, Purpose::Count(0))))
    }

    /// Continues a count. Returns the sum when the count is complete. The sum is exact if nothing has changed since the count
    /// began.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn count_on(&mut self, holdings: &mut Holdings) -> Outcome<Option<u64>> {
        let progress = self.walk_on(&mut holdings.0)?;
        Ok((progress == Progress::Done).then(|| holdings.0.counted_bytes()))
    }
}
