//! Retained points, each as a volume of its own ([`super::Depth::AllPoints`]): phases 1 to 4 through the trees that a reader of the past
//! goes through, and every block where it is now.
//!
//! `points` has read what only points hold, each block once, and trusts that what a point shares is what it was. This does not: of what
//! several points have, the oldest reads it, and a newer one reads it again only if remnants lead it elsewhere. So all points together read no
//! more than there is, and their maps, records and directories once for each point.
//!
//! A finding has the inode's number in that state, and a path in `.firn/history`. No repair changes the past; a point can be deleted.

use super::finding::Problem;
use super::state::{Check, Past, Totals};
use crate::engine::Engine;
use crate::error::FsError;
use crate::lfs::title;
use firnfs_format::checkpoint::Point;

impl Check<'_> {
    /// Examines all points that are whole.
    pub fn all_points(&mut self) {
        let is_whole =
            |point: &&Point| point.dropped_to.is_none() && !self.lost_points.contains(&point.epoch);
        let points: Vec<Point> = self.lfs.points().iter().filter(is_whole).cloned().collect();
        // The accounts do not depend on what is found here.
        let (totals, torn) = (self.totals, self.torn);
        let mut older = None;
        for (at, point) in (0..).zip(&points) {
            if self.is_stopped() {
                break;
            }
            self.past = Some(Past { older, at, of: points.len() as u64 });
            if let Err(reason) = self.state(point) {
                self.report(None, Problem::Point { name: title(point), epoch: point.epoch, reason });
            }
            self.lfs.shrink_caches();
            older = Some(point.epoch);
        }
        self.past = None;
        (self.totals, self.torn) = (Totals { points: points.len() as u64, ..totals }, torn);
    }

    fn state(&mut self, point: &Point) -> Result<(), FsError> {
        let root = self.lfs.view_of_point(point.epoch)?;
        let inodes = self.inodes_of_state(root, point.epoch)?;
        self.examine_tree(root, format!("/.firn/history/{}", title(point)), inodes, true);
        Ok(())
    }
}
