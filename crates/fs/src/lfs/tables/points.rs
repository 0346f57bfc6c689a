//! The retained points: older states of the volume whose blocks are kept (decision 0207).
//!
//! A point is a checkpoint: its state is what the inode map of that checkpoint leads to. A block that was born in epoch b and dies now
//! was seen by all points since b. So what dies is held exactly if the newest point is not older than its birth; and of
//! what is dead, the first point at or after its birth sees it, or none does.
//!
//! A point is dropped by a walk through its state (`upkeep::forget`), which frees what no other point sees. While that goes on, the
//! point counts for everything behind the cursor of the walk, and for nothing before it.
//!
//! Invariants: at most one point is being walked through, others wait for their walk; points are in the order of their epochs.

use crate::error::FsError;
use crate::lfs::base::places::is_unseen;
use firnfs_format::checkpoint::{MAX_POINTS, Point, PointCursor, Retention};
use firnfs_format::{Epoch, InodeNo};

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(in crate::lfs) struct Points {
    /// Oldest first.
    list: Vec<Point>,
    /// Which of the automatic ones are kept.
    pub retention: Retention,
}

impl Points {
    /// As a checkpoint has them.
    pub fn new(list: Vec<Point>, retention: Retention) -> Self {
        Self { list, retention }
    }

    /// All of them, oldest first.
    pub fn list(&self) -> &[Point] {
        &self.list
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// True if there is no room for another one.
    pub fn is_full(&self) -> bool {
        self.list.len() >= MAX_POINTS
    }

    /// Adds a point, which is newer than all others.
    pub fn push(&mut self, point: Point) {
        debug_assert!(self.list.last().is_none_or(|last| last.epoch < point.epoch), "points are in order");
        self.list.push(point);
    }

    /// True if what dies at a place and was born in that epoch is kept.
    pub fn hold(&self, at: &PointCursor, birth: Epoch) -> bool {
        !(at.stage < 2 && is_unseen(InodeNo(at.ino)))
            && self.list.iter().rev().find(|point| counts(point, at)).is_some_and(|p| birth <= p.epoch)
    }

    /// The first point that could see what was born in that epoch, and is at that place.
    pub fn first_since(&self, at: &PointCursor, birth: Epoch) -> Option<&Point> {
        self.list.iter().find(|point| point.epoch >= birth && counts(point, at))
    }

    /// True if a state between two epochs, the first of which counts, is kept.
    pub fn is_any_in(&self, from: Epoch, before: Epoch) -> bool {
        self.list.iter().any(|point| point.epoch >= from && point.epoch < before)
    }

    /// The epoch of the newest point.
    pub fn newest(&self) -> Option<Epoch> {
        self.list.last().map(|point| point.epoch)
    }

    /// Begins to drop a point, after those whose drop began before; false if there is no such point, or it is being dropped.
    pub fn begin_drop(&mut self, epoch: Epoch) -> bool {
        let found = self.list.iter_mut().find(|point| point.epoch == epoch && point.dropped_to.is_none());
        let Some(point) = found else { return false };
        point.dropped_to = Some(PointCursor::default());
        true
    }

    /// Gives a point a name, under which it is kept until somebody drops it.
    ///
    /// # Errors
    /// `NotFound` if there is no such point, or it is being dropped.
    pub fn name(&mut self, epoch: Epoch, name: &str) -> Result<(), FsError> {
        let found = self.list.iter_mut().find(|point| point.epoch == epoch && point.dropped_to.is_none());
        let point = found.ok_or(FsError::NotFound)?;
        (point.is_automatic, point.name) = (false, name.to_owned());
        Ok(())
    }

    /// The place of the point that is walked through, or will be next.
    fn walked(&self) -> Option<usize> {
        let under_way = |point: &Point| point.dropped_to.is_some_and(|done| done > PointCursor::default());
        let found = self.list.iter().position(under_way);
        found.or_else(|| self.list.iter().position(|point| point.dropped_to.is_some()))
    }

    /// The point that is walked through, with the one before it and the one after it.
    pub fn dropping(&self) -> Option<(Option<&Point>, &Point, Option<&Point>)> {
        let at = self.walked()?;
        Some((at.checked_sub(1).map(|before| &self.list[before]), &self.list[at], self.list.get(at + 1)))
    }

    /// The walk has come as far as that.
    pub fn go_to(&mut self, at: PointCursor) {
        if let Some(walked) = self.walked() {
            let point = &mut self.list[walked];
            debug_assert!(point.dropped_to < Some(at), "the walk goes forward");
            point.dropped_to = Some(at);
        }
    }

    /// The walk has come to its end: the point is gone.
    pub fn end_drop(&mut self) {
        if let Some(walked) = self.walked() {
            self.list.remove(walked);
        }
    }

    /// Forgets points whatever they hold.
    pub fn give_up(&mut self, lost: &[Epoch]) {
        self.list.retain(|point| !lost.contains(&point.epoch));
    }
}

/// False for a point that was dropped up to a place behind this one.
fn counts(point: &Point, at: &PointCursor) -> bool {
    point.dropped_to.is_none_or(|done| done < *at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lfs::base::places::{place_in_map, place_of_record};
    use crate::lfs::tables::table::Table;
    use firnfs_format::TimeNs;

    fn point(epoch: u32) -> Point {
        Point {
            epoch: Epoch(epoch),
            time: TimeNs(0),
            imap: Table::EMPTY,
            next_ino: InodeNo(16),
            live_bytes: 0,
            dropped_to: None,
            is_automatic: false,
            name: format!("p{epoch}"),
        }
    }

    #[test]
    fn what_a_point_saw_is_held_until_the_walk_that_drops_it_has_passed() {
        let mut points = Points::new(vec![point(3), point(7)], Retention::default());
        let at = place_of_record(InodeNo(20));
        assert!(points.hold(&at, Epoch(7)) && points.hold(&at, Epoch(1)));
        assert!(!points.hold(&at, Epoch(8)), "born after the newest point");
        assert_eq!(points.first_since(&at, Epoch(4)).map(|p| p.epoch), Some(Epoch(7)));
        assert_eq!(points.first_since(&at, Epoch(3)).map(|p| p.epoch), Some(Epoch(3)));
        assert!(points.begin_drop(Epoch(7)));
        assert!(!points.begin_drop(Epoch(7)), "that has begun");
        assert!(points.hold(&at, Epoch(7)));
        points.go_to(at);
        assert!(!points.hold(&at, Epoch(7)));
        assert!(points.hold(&at, Epoch(3)), "the older point holds what it saw");
        assert!(points.hold(&place_of_record(InodeNo(21)), Epoch(7)), "behind the walk");
        assert!(points.begin_drop(Epoch(3)));
        points.go_to(place_of_record(InodeNo(21)));
        assert!(points.hold(&at, Epoch(3)), "one after the other");
        points.end_drop();
        assert_eq!(points.newest(), Some(Epoch(3)));
    }

    #[test]
    fn internal_files_are_never_held() {
        let points = Points::new(vec![point(3)], Retention::default());
        assert!(!points.hold(&place_of_record(InodeNo::REMNANTS), Epoch(1)));
        assert!(points.hold(&place_of_record(InodeNo::ROOT), Epoch(1)));
        assert!(points.hold(&place_in_map(128, 0, 0), Epoch(1)), "the inode map is part of the state");
    }
}
