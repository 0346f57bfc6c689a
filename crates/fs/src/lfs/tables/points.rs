//! The retained points: older states of the volume whose blocks are kept (decision 0207).
//!
//! A point is a checkpoint: its state is what the inode map of that checkpoint leads to. All points since epoch b have seen a
//! block that was born in epoch b and dies now. So the block is held exactly if the newest point is not older than its birth. And
//! the first point at or after the birth of a dead block sees it, or no point does.
//!
//! A walk through the state of a point drops it (`upkeep::forget`), and frees what no other point sees. Meanwhile the point
//! counts for everything after the cursor of the walk, and for nothing before it.
//!
//! The checkpoint slot has the newest points; older ones are rows of a file ([`PointRows`]).
//!
//! Invariants: the walk goes through one point at a time, and others wait for it; points are in the order of their epochs.

use crate::error::FsError;
use crate::lfs::base::places::is_unseen;
use crate::lfs::tables::point_rows::PointRows;
use crate::mutation::{Mutation, is_on};
use firnfs_format::checkpoint::{MAX_POINTS, Point, PointCursor, Retention};
use firnfs_format::{Epoch, InodeNo};
use std::collections::BTreeSet;

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(in crate::lfs) struct Points {
    /// Oldest first.
    list: Vec<Point>,
    /// The points that are being dropped.
    dropped: BTreeSet<Epoch>,
    /// The one of these that the walk goes through.
    walked: Option<Epoch>,
    /// The points in the file of points; the others are in the checkpoint slot.
    pub rows: PointRows,
    /// The automatic points to keep.
    pub retention: Retention,
}

impl Points {
    /// The points of a checkpoint and of the file of points. Two of the same epoch count once.
    pub fn new(mut list: Vec<Point>, rows: PointRows, retention: Retention) -> Self {
        list.sort_by_key(|point| point.epoch);
        list.dedup_by_key(|point| point.epoch);
        if is_on(Mutation::DropsBeginAnew) {
            list.iter_mut()
                .filter_map(|point| point.dropped_to.as_mut())
                .for_each(|at| *at = PointCursor::default());
        }
        let dropped =
            list.iter().filter(|point| point.dropped_to.is_some()).map(|point| point.epoch).collect();
        let under_way = |point: &&Point| point.dropped_to.is_some_and(|done| done > PointCursor::default());
        let walked = list.iter().find(under_way).map(|point| point.epoch);
        Self { list, dropped, walked, rows, retention }
    }

    /// All of them, oldest first.
    pub fn list(&self) -> &[Point] {
        &self.list
    }

    /// The point of an epoch.
    pub fn get(&self, epoch: Epoch) -> Option<&Point> {
        self.at(epoch).map(|at| &self.list[at])
    }

    /// The points before an epoch, and those after it.
    pub fn around(&self, epoch: Epoch) -> (&[Point], &[Point]) {
        (&self.list[..self.since(epoch)], &self.list[self.since(Epoch(epoch.0.saturating_add(1)))..])
    }

    fn at(&self, epoch: Epoch) -> Option<usize> {
        self.list.binary_search_by_key(&epoch, |point| point.epoch).ok()
    }

    /// The index of the first point that is not older than an epoch.
    fn since(&self, epoch: Epoch) -> usize {
        self.list.partition_point(|point| point.epoch < epoch)
    }

    /// The points in the checkpoint slot, oldest first.
    pub fn in_slot(&self) -> Vec<Point> {
        self.list.iter().filter(|point| !self.rows.has(point.epoch)).cloned().collect()
    }

    /// If a slot for `most` points has no room for a new one, moves the older half of them to the file.
    pub fn make_room_in_slot(&mut self, most: usize) {
        let in_slot = self.list.len().saturating_sub(self.rows.len());
        if in_slot < most {
            return;
        }
        let leaving = in_slot - most / 2;
        let oldest = self.list.iter().map(|point| point.epoch).filter(|epoch| !self.rows.has(*epoch));
        let oldest: Vec<Epoch> = oldest.take(leaving).collect();
        oldest.into_iter().for_each(|epoch| self.rows.take(epoch));
    }

    /// True if there are no points.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
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

    /// True if some point holds a block that dies at a place and was born in that epoch.
    pub fn hold(&self, at: &PointCursor, birth: Epoch) -> bool {
        !(at.stage < 2 && is_unseen(InodeNo(at.ino)))
            && self.list.iter().rev().find(|point| counts(point, at)).is_some_and(|p| birth <= p.epoch)
    }

    /// The first point that could see a block at that place, born in that epoch.
    pub fn first_since(&self, at: &PointCursor, birth: Epoch) -> Option<&Point> {
        self.list[self.since(birth)..].iter().find(|point| counts(point, at))
    }

    /// True if there is a point at or after the first epoch and before the second one.
    pub fn is_any_in(&self, from: Epoch, before: Epoch) -> bool {
        self.list.get(self.since(from)).is_some_and(|point| point.epoch < before)
    }

    /// The epoch of the newest point.
    pub fn newest(&self) -> Option<Epoch> {
        self.list.last().map(|point| point.epoch)
    }

    /// Queues a point to be dropped; false if there is no such point, or it is being dropped.
    pub fn begin_drop(&mut self, epoch: Epoch) -> bool {
        let Some(at) = self.at(epoch) else { return false };
        if !self.dropped.insert(epoch) {
            return false;
        }
        self.list[at].dropped_to = Some(PointCursor::default());
        self.rows.note_change(epoch);
        true
    }

    /// Names a point, which is then kept until a user drops it.
    ///
    /// # Errors
    /// `NotFound` if there is no such point, or it is being dropped.
    pub fn name(&mut self, epoch: Epoch, name: &str) -> Result<(), FsError> {
        let at = self.at(epoch).filter(|_| !self.dropped.contains(&epoch)).ok_or(FsError::NotFound)?;
        let point = &mut self.list[at];
        (point.is_automatic, point.name) = (false, name.to_owned());
        self.rows.note_change(epoch);
        Ok(())
    }

    /// The index of the point that the walk goes through, or will go through next.
    fn walked(&self) -> Option<usize> {
        self.walked.or_else(|| self.dropped.first().copied()).and_then(|epoch| self.at(epoch))
    }

    /// The point that the walk goes through, with the one before it and the one after it.
    pub fn dropping(&self) -> Option<(Option<&Point>, &Point, Option<&Point>)> {
        let at = self.walked()?;
        Some((at.checked_sub(1).map(|before| &self.list[before]), &self.list[at], self.list.get(at + 1)))
    }

    /// Notes how far the walk has come.
    pub fn go_to(&mut self, to: PointCursor) {
        if let Some(at) = self.walked() {
            let point = &mut self.list[at];
            debug_assert!(point.dropped_to < Some(to), "the walk goes forward");
            point.dropped_to = Some(to);
            self.walked = Some(point.epoch);
            self.rows.note_change(point.epoch);
        }
    }

    /// The walk is complete: removes the point.
    pub fn end_drop(&mut self) {
        if let Some(at) = self.walked() {
            let gone = self.list.remove(at).epoch;
            self.dropped.remove(&gone);
            self.walked = None;
            if !is_on(Mutation::RowsStay) {
                self.rows.release(gone);
            }
        }
    }

    /// Forgets points, whatever they hold.
    pub fn give_up(&mut self, lost: &[Epoch]) {
        self.list.retain(|point| !lost.contains(&point.epoch));
        for epoch in lost {
            self.dropped.remove(epoch);
            self.rows.release(*epoch);
        }
        self.walked = self.walked.filter(|epoch| !lost.contains(epoch));
    }
}

/// False if the drop of a point has passed this place.
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

    fn points(epochs: &[u32]) -> Points {
        let list = epochs.iter().map(|epoch| point(*epoch)).collect();
        Points::new(list, PointRows::default(), Retention::default())
    }

    #[test]
    fn the_older_half_of_a_full_slot_becomes_rows() {
        let mut points = points(&[1, 2, 3, 4, 5]);
        points.make_room_in_slot(6);
        assert_eq!(points.rows.len(), 0, "there is room for one more");
        points.push(point(6));
        points.make_room_in_slot(6);
        let epochs = |list: &[Point]| list.iter().map(|point| point.epoch.0).collect::<Vec<_>>();
        assert_eq!(epochs(&points.in_slot()), [4, 5, 6]);
        assert_eq!(epochs(points.list()), [1, 2, 3, 4, 5, 6]);
        assert!(points.begin_drop(Epoch(2)));
        points.go_to(place_of_record(InodeNo(20)));
        points.end_drop();
        assert_eq!((points.rows.len(), points.list().len()), (2, 5));
    }

    #[test]
    fn what_a_point_saw_is_held_until_the_walk_that_drops_it_has_passed() {
        let mut points = points(&[3, 7]);
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
        let points = points(&[3]);
        assert!(!points.hold(&place_of_record(InodeNo::REMNANTS), Epoch(1)));
        assert!(points.hold(&place_of_record(InodeNo::ROOT), Epoch(1)));
        assert!(points.hold(&place_in_map(128, 0, 0), Epoch(1)), "the inode map is part of the state");
    }
}
