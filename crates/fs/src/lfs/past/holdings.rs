//! What retained points hold: the bytes that dropping one would give back, and those that named ones keep from users.
//!
//! Counted by a walk, since nothing notes the death of a single block: it takes time in proportion to what is held. Callers: `firn log` and
//! `firn df`, through the driver.

use crate::error::{FsError, Outcome};
use crate::lfs::Lfs;
use crate::lfs::past::walk::{Progress, Purpose, Walk};
use firnfs_format::Epoch;
use firnfs_format::checkpoint::Point;

/// A count that goes on.
pub struct Holdings {
    /// Of the points still to be counted, the first is under way.
    walks: Vec<Walk>,
    done_bytes: u64,
}

impl Lfs {
    /// Begins to count what dropping a point would give back, in bytes.
    ///
    /// # Errors
    /// `NotFound` if there is no such point, or it is being dropped.
    pub fn count_held_by(&self, epoch: Epoch) -> Result<Holdings, FsError> {
        let points = self.whole_points(|_| true);
        let at = points.iter().position(|point| point.epoch == epoch).ok_or(FsError::NotFound)?;
        Ok(Holdings { walks: vec![walk_between(&points, at)], done_bytes: 0 })
    }

    /// Begins to count what would be held, in bytes, if the automatic points were dropped.
    #[must_use]
    pub fn count_held_by_named(&self) -> Holdings {
        let points = self.whole_points(|point| !point.is_automatic);
        let walks = (0..points.len()).map(|at| walk_between(&points, at)).collect();
        Holdings { walks, done_bytes: 0 }
    }

    /// Counts on. Returns the sum when all is counted. It is exact if nothing has changed since the beginning.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn count_on(&mut self, holdings: &mut Holdings) -> Outcome<Option<u64>> {
        let Some(walk) = holdings.walks.last_mut() else { return Ok(Some(holdings.done_bytes)) };
        if self.walk_on(walk)? == Progress::Done {
            holdings.done_bytes += walk.counted_bytes();
            holdings.walks.pop();
        }
        Ok(None)
    }

    fn whole_points(&self, is_wanted: impl Fn(&Point) -> bool) -> Vec<Point> {
        let points = self.points().iter().filter(|point| point.dropped_to.is_none() && is_wanted(point));
        points.cloned().collect()
    }
}

/// The walk through what a point holds alone among these.
fn walk_between(points: &[Point], at: usize) -> Walk {
    let before = at.checked_sub(1).map(|before| &points[before]);
    Walk::new(before, &points[at], points.get(at + 1), Purpose::Count(0))
}
