//! Checks each retained point as a volume of its own ([`super::Depth::AllPoints`]): phases 1 to 4 through the same trees as a
//! reader of the past, and every block where it is now.
//!
//! `points` has read each block that only points hold once, and trusts the blocks that a point shares. This check does not trust
//! them. If several points share a block, the check of the oldest one reads it; a newer one reads it again only if remnants lead
//! it elsewhere. So all points together read each block about once, but the maps, records and directories once for each point.
//!
//! A finding has the inode's number in that state, and a path in `.firn/history`. No repair changes the past; users can delete a
//! point.

use super::finding::Problem;
use super::state::{Check, Past, Totals};
use crate::engine::Engine;
use crate::error::FsError;
use crate::lfs::title;
use firnfs_format::checkpoint::Point;

impl Check<'_> {
    /// Checks all points that are neither lost nor being dropped.
    pub fn all_points(&mut self) {
        let is_whole =
            |point: &&Point| point.dropped_to.is_none() && !self.lost_points.contains(&point.epoch);
        let points: Vec<Point> = self.lfs.known_points().iter().filter(is_whole).cloned().collect();
        // The accounts do not depend on what this check finds.
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
        self.lfs.make_room_for_a_view();
        let root = self.lfs.drive(self.sweep.read, |lfs| lfs.view_of_point(point.epoch))?;
        let inodes = self.inodes_of_state(root, point.epoch)?;
        self.examine_tree(root, format!("/.firn/history/{}", title(point)), inodes, true);
        Ok(())
    }
}
