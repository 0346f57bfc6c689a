//! The retained points: older states of the volume whose blocks are kept (decision 0207).
//!
//! A point is a checkpoint: its state is what the inode map of that checkpoint leads to. All points since epoch b have seen a
//! block that was born in epoch b and dies now. So the block is held exactly if the newest point is not older than its birth. And
//! the first point at or after the birth of a dead block sees it, or no point does.
//!
//! A walk through the state of a point drops it (`upkeep::forget`), and frees what no other point sees. Meanwhile the point
//! counts for everything after the cursor of the walk, and for nothing before it.
//!
//! The checkpoint slot has the newest points; older ones are rows of a file ([`PointRows`]). A volume may have a million points, so
//! opening it reads only the slot. If the slot has a point that is not being dropped, it answers all that reads, writes and
//! roll-forward ask: a death is held or not by that point and newer ones. Whoever asks for more has the rows read first
//! (`past::rows`).
//!
//! Invariants: the walk goes through one point at a time, and others wait for it; points are in the order of their epochs; all
//! points with rows are older than all points in the slot. A point in the slot is not being dropped, if the file has rows and
//! more than a slot's worth of newer points are not being dropped at once (else opening the volume reads the rows).

use crate::error::FsError;
use crate::lfs::base::places::is_unseen;
use crate::lfs::tables::point_rows::{PointRows, Unread};
use crate::mutation::{Mutation, is_on};
use firnfs_format::checkpoint::{MAX_POINTS, Point, PointCursor, Retention};
use firnfs_format::{Epoch, InodeNo};
use std::collections::vec_deque::Iter;
use std::collections::{BTreeSet, VecDeque};

/// Automatic points that retention examines at once, so that its time is bounded; it goes on after them next time.
const EXAMINED_AT_ONCE: usize = 16 << 10;

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(in crate::lfs) struct Points {
    /// Oldest first; without those that are [`Self::unread`].
    list: VecDeque<Point>,
    /// The rows, until all of them have been read.
    unread: Option<Box<Unread>>,
    /// The points that are being dropped.
    dropped: BTreeSet<Epoch>,
    /// The one of these that the walk goes through.
    walked: Option<Epoch>,
    /// How many of [`Self::list`] are not automatic.
    named: usize,
    /// The points in the file of points; the others are in the checkpoint slot.
    pub rows: PointRows,
    /// The automatic points to keep.
    retention: Retention,
    /// Retention has examined the points before this one.
    examined: Epoch,
    /// The name of the point that the next checkpoint becomes.
    requested: Option<String>,
}

impl Points {
    /// The points of a checkpoint, which says that `rows` others are in the file. Two of the same epoch count once.
    pub fn new(mut in_slot: Vec<Point>, rows: u32, retention: Retention) -> Self {
        in_slot.sort_by_key(|point| point.epoch);
        let unread = (rows > 0).then(|| Box::new(Unread { count: rows, ..Unread::default() }));
        Self { unread, retention, ..Self::default() }.with(in_slot)
    }

    /// The automatic points to keep.
    pub fn retention(&self) -> &Retention {
        &self.retention
    }

    /// From now on these automatic points are kept.
    pub fn keep_by(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// The next checkpoint becomes a point of that name.
    pub fn request(&mut self, name: &str) {
        self.requested = Some(name.to_owned());
    }

    /// True while a point is to be made that has not been.
    pub fn are_requested(&self) -> bool {
        self.requested.is_some()
    }

    /// The name that was requested, once: the point is made, or given up.
    pub fn take_request(&mut self) -> Option<String> {
        self.requested.take()
    }

    /// With a list of points in the order of epochs.
    fn with(mut self, mut list: Vec<Point>) -> Self {
        list.dedup_by_key(|point| point.epoch);
        if is_on(Mutation::DropsBeginAnew) {
            list.iter_mut()
                .filter_map(|point| point.dropped_to.as_mut())
                .for_each(|at| *at = PointCursor::default());
        }
        self.dropped =
            list.iter().filter(|point| point.dropped_to.is_some()).map(|point| point.epoch).collect();
        let under_way = |point: &&Point| point.dropped_to.is_some_and(|done| done > PointCursor::default());
        self.walked = list.iter().find(under_way).map(|point| point.epoch);
        self.named = list.iter().filter(|point| !point.is_automatic).count();
        self.list = list.into();
        self
    }

    /// True if not all rows have been read.
    pub fn are_unread(&self) -> bool {
        self.unread.is_some()
    }

    /// The rows that have not been read.
    pub fn unread(&mut self) -> Option<&mut Unread> {
        self.unread.as_deref_mut()
    }

    /// True if the slot alone cannot answer which deaths are held.
    pub fn needs_rows(&self) -> bool {
        self.are_unread() && self.list.iter().all(|point| point.dropped_to.is_some())
    }

    /// The epoch of the oldest point in the slot.
    pub fn oldest_in_slot(&self) -> Option<Epoch> {
        self.list.get(self.slot_begin()).map(|point| point.epoch)
    }

    /// Ends the reading of rows: returns what was found, for [`Self::take_in`].
    pub fn end_reading(&mut self) -> Option<Unread> {
        self.unread.take().map(|unread| *unread)
    }

    /// Takes in the points with rows.
    pub fn take_in(&mut self, rows: Vec<(u32, Point)>) {
        self.rows = PointRows::new(rows.iter().map(|(row, point)| (*row, point.epoch)));
        let mut list: Vec<Point> = rows.into_iter().map(|(_, point)| point).collect();
        list.sort_by_key(|point| point.epoch);
        list.extend(std::mem::take(&mut self.list));
        *self = std::mem::take(self).with(list);
    }

    /// All of them, oldest first.
    pub fn list(&self) -> &VecDeque<Point> {
        debug_assert!(!self.are_unread(), "whoever asks for all points reads the rows first");
        &self.list
    }

    /// Those since an epoch, oldest first.
    pub fn from(&self, epoch: Epoch) -> Iter<'_, Point> {
        self.list().range(self.since(epoch)..)
    }

    /// True if a point of that epoch could be in a row that has not been read.
    pub fn may_be_unread(&self, epoch: Epoch) -> bool {
        self.are_unread() && self.list.front().is_none_or(|oldest| epoch < oldest.epoch)
    }

    /// The point of an epoch.
    pub fn get(&self, epoch: Epoch) -> Option<&Point> {
        debug_assert!(!self.may_be_unread(epoch), "the rows are read first");
        self.at(epoch).map(|at| &self.list[at])
    }

    /// The points before an epoch, and those after it.
    pub fn around(&self, epoch: Epoch) -> (Iter<'_, Point>, Iter<'_, Point>) {
        let after = self.since(Epoch(epoch.0.saturating_add(1)));
        (self.list().range(..self.since(epoch)), self.list.range(after..))
    }

    fn at(&self, epoch: Epoch) -> Option<usize> {
        self.list.binary_search_by_key(&epoch, |point| point.epoch).ok()
    }

    /// The index of the first point that is not older than an epoch.
    fn since(&self, epoch: Epoch) -> usize {
        self.list.partition_point(|point| point.epoch < epoch)
    }

    /// How many points the file has.
    pub fn rows_len(&self) -> usize {
        self.unread.as_ref().map_or(self.rows.len(), |unread| unread.count as usize)
    }

    /// The index of the oldest point in the checkpoint slot.
    fn slot_begin(&self) -> usize {
        if self.are_unread() { 0 } else { self.rows.len() }
    }

    /// The points in the checkpoint slot, oldest first.
    pub fn in_slot(&self) -> Vec<Point> {
        self.list.range(self.slot_begin()..).cloned().collect()
    }

    /// If a slot for `most` points has no room for a new one, moves the older half of them to the file. If a slot has only points
    /// that are being dropped, moves others back to it.
    pub fn balance_slot(&mut self, most: usize) {
        let begin = self.slot_begin();
        let in_slot = self.list.len() - begin;
        if in_slot >= most {
            let leaving = self.list.range(begin..).take(in_slot - most / 2);
            leaving.for_each(|point| self.rows.take(point.epoch));
        } else if self.list.range(begin..).all(|point| point.dropped_to.is_some()) {
            let room = (most / 2).saturating_sub(in_slot).min(begin);
            self.list.range(begin - room..begin).for_each(|point| self.rows.release(point.epoch));
        }
    }

    /// True if there are no points.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len() + self.unread.as_ref().map_or(0, |unread| unread.count as usize)
    }

    /// True if a point is kept until a user drops it. Those whose rows have not been read do not count yet.
    pub fn are_named(&self) -> bool {
        self.named > 0
    }

    /// True if there is no room for another one.
    pub fn is_full(&self) -> bool {
        self.len() >= MAX_POINTS
    }

    /// Adds a point, which is newer than all others.
    pub fn push(&mut self, point: Point) {
        debug_assert!(self.list.back().is_none_or(|last| last.epoch < point.epoch), "points are in order");
        self.named += usize::from(!point.is_automatic);
        self.list.push_back(point);
    }

    /// True if some point holds a block that dies at a place and was born in that epoch. The slot can answer, unless
    /// [`Self::needs_rows`].
    pub fn hold(&self, at: &PointCursor, birth: Epoch) -> bool {
        !(at.stage < 2 && is_unseen(InodeNo(at.ino)))
            && self.list.iter().rev().find(|point| counts(point, at)).is_some_and(|p| birth <= p.epoch)
    }

    /// The first point that could see a block at that place, born in that epoch.
    pub fn first_since(&self, at: &PointCursor, birth: Epoch) -> Option<&Point> {
        self.from(birth).find(|point| counts(point, at))
    }

    /// True if there is a point at or after the first epoch and before the second one.
    pub fn is_any_in(&self, from: Epoch, before: Epoch) -> bool {
        self.list().get(self.since(from)).is_some_and(|point| point.epoch < before)
    }

    /// The newest point.
    pub fn newest(&self) -> Option<&Point> {
        self.list.back()
    }

    /// The automatic points that are not being dropped, oldest first.
    pub fn automatic(&self) -> impl DoubleEndedIterator<Item = &Point> {
        self.list().iter().filter(|point| is_automatic(point))
    }

    /// The next automatic points for retention to examine, oldest first, and the automatic one before them. The ones after them come
    /// next time; after the newest the oldest.
    pub fn examine(&mut self) -> (Option<&Point>, impl Iterator<Item = &Point>) {
        let from = self.since(self.examined);
        let until = self.list().len().min(from + EXAMINED_AT_ONCE);
        let is_end = until == self.list.len();
        self.examined = if is_end { Epoch(0) } else { self.list[until].epoch };
        let before = self.list.range(..from).rev().find(|point| is_automatic(point));
        (before, self.list.range(from..until).filter(|point| is_automatic(point)))
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
        self.named += usize::from(point.is_automatic);
        (point.is_automatic, point.name) = (false, name.to_owned());
        self.rows.note_change(epoch);
        Ok(())
    }

    /// The index of the point that the walk goes through, or will go through next.
    fn walked(&self) -> Option<usize> {
        self.walked.or_else(|| self.dropped.first().copied()).and_then(|epoch| self.at(epoch))
    }

    /// True if a point is being dropped. One whose row has not been read counts later.
    pub fn are_dropping(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// The point that the walk goes through, with the one before it and the one after it.
    pub fn dropping(&self) -> Option<(Option<&Point>, &Point, Option<&Point>)> {
        let at = self.walked()?;
        let list = self.list();
        Some((at.checked_sub(1).map(|before| &list[before]), &list[at], list.get(at + 1)))
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
        if let Some(gone) = self.walked().and_then(|at| self.list.remove(at)) {
            self.named -= usize::from(!gone.is_automatic);
            self.dropped.remove(&gone.epoch);
            self.walked = None;
            self.rows.release(gone.epoch);
        }
    }

    /// Forgets points, whatever they hold.
    pub fn give_up(&mut self, lost: &[Epoch]) {
        self.list.retain(|point| !lost.contains(&point.epoch));
        self.named = self.list.iter().filter(|point| !point.is_automatic).count();
        for epoch in lost {
            self.dropped.remove(epoch);
            self.rows.release(*epoch);
        }
        self.walked = self.walked.filter(|epoch| !lost.contains(epoch));
    }
}

fn is_automatic(point: &Point) -> bool {
    point.is_automatic && point.dropped_to.is_none()
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
        Points::new(list, 0, Retention::default())
    }

    #[test]
    fn the_older_half_of_a_full_slot_becomes_rows() {
        let mut points = points(&[1, 2, 3, 4, 5]);
        points.balance_slot(6);
        assert_eq!(points.rows.len(), 0, "there is room for one more");
        points.push(point(6));
        points.balance_slot(6);
        let all: Vec<u32> = points.list().iter().map(|point| point.epoch.0).collect();
        assert_eq!((epochs_in_slot(&points), all), (vec![4, 5, 6], vec![1, 2, 3, 4, 5, 6]));
        assert!(points.begin_drop(Epoch(2)));
        points.go_to(place_of_record(InodeNo(20)));
        points.end_drop();
        assert_eq!((points.rows.len(), points.list().len()), (2, 5));
    }

    fn epochs_in_slot(points: &Points) -> Vec<u32> {
        points.in_slot().iter().map(|point| point.epoch.0).collect()
    }

    #[test]
    fn a_slot_whose_points_are_all_being_dropped_gets_others_from_the_file() {
        let mut points = points(&[1, 2, 3, 4, 5, 6, 7, 8]);
        points.balance_slot(8);
        assert_eq!(epochs_in_slot(&points), [5, 6, 7, 8]);
        (5..9).for_each(|epoch| assert!(points.begin_drop(Epoch(epoch))));
        points.balance_slot(8);
        assert_eq!(epochs_in_slot(&points), [5, 6, 7, 8], "there is no room");
        points.end_drop();
        points.balance_slot(8);
        assert_eq!((epochs_in_slot(&points), points.rows.len()), (vec![4, 6, 7, 8], 3));
        let slot = Points::new(points.in_slot(), 3, Retention::default());
        assert!(slot.are_unread() && !slot.needs_rows());
    }

    #[test]
    fn a_volume_that_was_just_opened_knows_its_newest_points_and_how_many_there_are() {
        let all = [1, 2, 3, 4].map(point);
        let mut points = Points::new(all[2..].to_vec(), 2, Retention::default());
        let at = place_of_record(InodeNo(20));
        assert_eq!((points.len(), points.rows_len()), (4, 2));
        assert!(points.hold(&at, Epoch(1)) && points.hold(&at, Epoch(4)) && !points.hold(&at, Epoch(5)));
        assert!(points.may_be_unread(Epoch(2)) && !points.may_be_unread(Epoch(3)));
        points.push(point(5));
        assert!(points.end_reading().is_some());
        points.take_in(vec![(4, point(2)), (0, point(1))]);
        let epochs: Vec<u32> = points.list().iter().map(|point| point.epoch.0).collect();
        assert_eq!((epochs, epochs_in_slot(&points)), (vec![1, 2, 3, 4, 5], vec![3, 4, 5]));
        assert!(points.rows.is_written() && points.rows.len() == 2);
    }

    #[test]
    fn retention_examines_all_points_a_part_at_a_time() {
        let count = EXAMINED_AT_ONCE as u32 * 2 + 10;
        let automatic = |epoch| Point { is_automatic: epoch % 3 != 0, ..point(epoch) };
        let mut points = Points::new((1..=count).map(automatic).collect(), 0, Retention::default());
        let mut seen = Vec::new();
        for round in 0..3 {
            let (before, part) = points.examine();
            assert_eq!(before.map(|point| point.epoch.0), seen.last().copied(), "round {round}");
            seen.extend(part.map(|point| point.epoch.0));
        }
        assert!(seen.into_iter().eq((1..=count).filter(|epoch| epoch % 3 != 0)));
        assert_eq!(points.examine().0, None, "it begins again");
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
        assert_eq!(points.newest().map(|point| point.epoch), Some(Epoch(3)));
    }

    #[test]
    fn internal_files_are_never_held() {
        let points = points(&[3]);
        assert!(!points.hold(&place_of_record(InodeNo::REMNANTS), Epoch(1)));
        assert!(points.hold(&place_of_record(InodeNo::ROOT), Epoch(1)));
        assert!(points.hold(&place_in_map(128, 0, 0), Epoch(1)), "the inode map is part of the state");
    }
}
