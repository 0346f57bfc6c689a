//! Makes retained points, by request and automatically, and begins to drop them.

use crate::error::{FsError, Outcome, Stop};
use crate::lfs::Lfs;
use crate::lfs::base::kinds::LogKind;
use crate::lfs::base::occasion::Occasion;
use crate::lfs::past::retention;
use crate::mutation::{Mutation, is_on};
use crate::store::{Scope, State, Title, time_of_next};
use firnfs_format::checkpoint::{MAX_POINTS, POINT_NAME_MAX, Point, RULES_MAX, Retention};
use firnfs_format::{Epoch, TimeNs};
use std::collections::VecDeque;

impl Lfs {
    /// The retained points, oldest first.
    ///
    /// # Errors
    /// `Need`, until the points that are not in the checkpoint slot have been read.
    pub fn points(&mut self) -> Outcome<&VecDeque<Point>> {
        self.load_rows()?;
        Ok(self.tables.points.list())
    }

    /// The retained points of a volume whose rows have been read.
    pub(crate) fn known_points(&self) -> &VecDeque<Point> {
        self.tables.points.list()
    }

    /// True if points are being dropped, or may be: their rows have not been read.
    #[must_use]
    pub fn is_dropping(&self) -> bool {
        self.tables.points.are_dropping() || self.tables.points.are_unread()
    }

    /// How many retained points there are.
    #[must_use]
    pub fn points_len(&self) -> usize {
        self.tables.points.len()
    }

    /// Bytes that only retained points hold.
    #[must_use]
    pub fn past_bytes(&self) -> u64 {
        self.tables.usage.live().map_or(0, |live| live.of(LogKind::Past))
    }

    /// Makes the present state a retained point: commits everything and queues a checkpoint, twice, so that both slots have the
    /// point. The point is durable in both when [`Self::durable_epoch`] is *later* than its epoch. Returns its epoch.
    ///
    /// # Errors
    /// `Invalid` for a name that is empty, longer than [`POINT_NAME_MAX`] bytes, not one word, or of the form of an automatic
    /// point's time; `Exists` if a point has that name; `NoSpace` if there are too many points, or if the volume has no room to
    /// hold all of its metadata a second time; `Unsupported` if the volume is too large for its block size; `Need`; `Room` while
    /// a checkpoint is under way; `ReadOnly`.
    pub fn make_point(&mut self, now: TimeNs, name: &str) -> Outcome<Epoch> {
        self.load_rows()?;
        self.standing.refuse()?;
        self.check_point_name(name)?;
        self.refuse_while_resizing()?;
        if !self.can_have_remnants() {
            return Err(FsError::Unsupported(
                "points on a volume with that many segments for its block size",
            )
            .into());
        }
        if self.tables.points.is_full() || !self.has_space(self.metadata_of_first_point()) {
            self.no_space()?;
        }
        if self.tables.usage.live().is_none() {
            return Err(
                FsError::Unsupported("points on a volume whose live bytes are not counted by kind").into()
            );
        }
        self.tables.points.request(name);
        let result = self.checkpoint_now(now);
        let is_made = self.tables.points.take_request().is_none();
        match result {
            Ok(()) if is_made => self.tables.points.newest().map(|point| point.epoch).ok_or(Stop::Room),
            Ok(()) => Err(Stop::Room),
            Err(stop) => Err(stop),
        }
    }

    /// Begins to drop a point; background work completes it.
    ///
    /// # Errors
    /// `NotFound`; `NotPermitted` if the point is the origin of a clone; `Need`; `ReadOnly`.
    pub fn drop_point(&mut self, now: TimeNs, epoch: Epoch) -> Outcome<()> {
        self.load_rows()?;
        self.standing.refuse()?;
        if self.tables.points.get(epoch).is_none() {
            return Err(FsError::NotFound.into());
        }
        if self.tables.branches.is_origin(epoch) {
            return Err(FsError::NotPermitted(
                "to delete a state from which a clone was made that still exists",
            )
            .into());
        }
        if self.tables.points.begin_drop(epoch) {
            self.tables.slots.want_both();
        }
        self.due.note_dirty(now);
        self.due.note_change();
        Ok(())
    }

    /// Bytes to reserve for metadata before the first point is made. Later points need no reservation of their own.
    fn metadata_of_first_point(&self) -> u64 {
        if self.tables.points.is_empty() { self.metadata_bytes() } else { 0 }
    }

    /// Live bytes of metadata. All of it may die and be held once more after a new point, and no operation reserves room for
    /// that.
    pub(in crate::lfs) fn metadata_bytes(&self) -> u64 {
        let live = self.tables.usage.live();
        let kinds =
            [LogKind::Directory, LogKind::Attributes, LogKind::Indirect, LogKind::Inode, LogKind::InodeMap];
        live.map_or(0, |live| kinds.into_iter().map(|kind| live.of(kind)).sum())
    }

    /// Makes the state that a checkpoint has just written a point, if that was requested or retention wants it.
    pub(in crate::lfs) fn add_point(&mut self, now: TimeNs, occasion: Occasion) {
        let name = self.tables.points.take_request();
        if name.is_some() {
            self.tables.slots.want_both();
        }
        if name.is_none() && !self.wants_automatic_point(now, occasion) {
            return;
        }
        let last = self.tables.points.automatic().next_back().map(|point| point.time);
        let time = if name.is_none() { time_of_next(now, last) } else { now };
        if name.is_none() {
            self.upkeep.spacing.note_made(time);
        }
        self.tables.points.push(Point {
            epoch: self.tables.slots.epoch(),
            time,
            imap: firnfs_format::checkpoint::TableRoot { special: 0, ..self.tables.imap.table.root },
            next_ino: self.tables.imap.next_ino(),
            live_bytes: self.accounts.live_bytes() - self.past_bytes(),
            dropped_to: None,
            is_automatic: name.is_none(),
            name: name.unwrap_or_default(),
        });
        self.retain(now);
    }

    /// True if retention keeps each commit of the whole volume for a while. Commits by age and commits that a caller waits for
    /// are checkpoints then, so that they can be points.
    pub(in crate::lfs) fn keeps_commits(&self) -> bool {
        let Retention { percent, rules } = self.tables.points.retention();
        let is_wanted = *percent > 0 && rules.iter().any(|rule| rule.every_s == 0);
        is_wanted && !self.writer.is_held_back() && self.may_have_points()
    }

    /// False during a repair, and for volumes that are too large for remnants, or whose live bytes are not counted by kind.
    fn may_have_points(&self) -> bool {
        !self.upkeep.is_repair() && self.can_have_remnants() && self.tables.usage.live().is_some()
    }

    /// From now on the volume is repaired: its states until then are nobody's, and become no points by themselves.
    pub(crate) fn note_repair(&mut self) {
        self.upkeep.note_repair();
    }

    /// True if a commit of that scope that a caller waits for becomes a point.
    pub(in crate::lfs) fn is_point(&self, scope: Scope) -> bool {
        // A checkpoint that gains room writes changes, and need not be a point.
        let is_unkept = || !self.upkeep.spacing.is_owed() && self.differs_from_newest_point();
        let has_news = || self.due.has_changed() || self.dirty_bytes() > 0 || is_unkept();
        scope == Scope::All && self.keeps_commits() && has_news()
    }

    /// True if the last checkpoint wrote a state that the newest point does not show.
    fn differs_from_newest_point(&self) -> bool {
        let newest = self.tables.points.newest();
        newest.is_none_or(|point| point.imap.ptr != self.tables.imap.table.root.ptr)
    }

    fn wants_automatic_point(&mut self, now: TimeNs, occasion: Occasion) -> bool {
        self.upkeep.spacing.owe_nothing();
        let points = &self.tables.points;
        let is_wanted = points.retention().percent > 0 && !points.retention().rules.is_empty();
        if !is_wanted || self.refuse_while_resizing().is_err() || !self.may_have_points() {
            return false;
        }
        let gap_ms = match occasion {
            Occasion::Due | Occasion::Unmount if self.keeps_commits() => 0,
            _ => AUTOMATIC_GAP_MS.min(self.options.checkpoint_interval_ms),
        };
        let is_soon = |last: &Point| now.millis_since(last.time) < gap_ms;
        if !self.differs_from_newest_point() || points.automatic().next_back().is_some_and(is_soon) {
            return false;
        }
        if occasion != Occasion::Unmount && !self.upkeep.spacing.ask(now) {
            return false;
        }
        if points.len() + NAMED_POINTS >= MAX_POINTS {
            let branches = &self.tables.branches;
            let (before, part) = self.tables.points.examine();
            let least = retention::least_missed(before, part, now, |point| !branches.is_origin(point.epoch));
            self.begin_drop_of(least);
            return false;
        }
        self.has_space(self.metadata_of_first_point())
    }

    /// Begins to drop the next automatic point that no rule keeps, or that makes the past exceed its share.
    pub(in crate::lfs) fn retain(&mut self, now: TimeNs) {
        let branches = &self.tables.branches;
        let rules = self.tables.points.retention().rules.clone();
        let (before, part) = self.tables.points.examine();
        let next = retention::outlived(before, part, &rules, now, |point| !branches.is_origin(point.epoch));
        self.begin_drop_of(next);
        self.keep_to_share(now);
    }

    /// Begins to drop the oldest automatic point if the past exceeds its share.
    pub(in crate::lfs) fn keep_to_share(&mut self, now: TimeNs) {
        let share_bytes = self.capacity_bytes() / 100 * u64::from(self.tables.points.retention().percent);
        if self.past_bytes() > share_bytes.min(self.past_bytes_at_ease())
            && !self.tables.points.are_dropping()
        {
            self.drop_oldest(now);
        }
    }

    /// Makes room for users: begins to drop the oldest automatic point. False if no point of the past can be dropped.
    ///
    /// # Errors
    /// `Need`.
    pub(in crate::lfs) fn give_way(&mut self) -> Outcome<bool> {
        self.load_rows()?;
        self.drop_oldest(self.upkeep.last_request());
        Ok(self.tables.points.are_dropping())
    }

    /// Begins to drop the oldest automatic point, because there is no room for it.
    fn drop_oldest(&mut self, now: TimeNs) {
        let oldest = self.oldest_automatic();
        if let Some(point) = oldest.and_then(|epoch| self.tables.points.get(epoch)) {
            self.upkeep.spacing.note_gave_way(point.time, now);
        }
        self.begin_drop_of(oldest);
    }

    /// The oldest automatic point that can be dropped: the origin of a clone cannot.
    fn oldest_automatic(&self) -> Option<Epoch> {
        let branches = &self.tables.branches;
        let mut automatic = self.tables.points.automatic().map(|point| point.epoch);
        if is_on(Mutation::NewestGoesFirst) {
            return automatic.next_back();
        }
        automatic.find(|epoch| !branches.is_origin(*epoch))
    }

    /// Refuses to shrink while there are clones or points with names: only a person deletes them.
    ///
    /// # Errors
    /// `NotPermitted`; `Need`.
    pub(in crate::lfs) fn refuse_while_held(&mut self) -> Outcome<()> {
        self.load_rows()?;
        if !self.tables.branches.is_empty() {
            return Err(FsError::NotPermitted("a volume that has clones cannot shrink").into());
        }
        let mut points = self.tables.points.list().iter();
        if points.any(|point| !point.is_automatic && point.dropped_to.is_none()) {
            return Err(FsError::NotPermitted("a volume that has snapshots cannot shrink").into());
        }
        Ok(())
    }

    /// Drops all points, none of which has a name.
    ///
    /// # Errors
    /// `Need`; `Room` until all points are gone.
    pub(in crate::lfs) fn give_up_history(&mut self) -> Outcome<()> {
        self.load_rows()?;
        let epochs: Vec<Epoch> = self.tables.points.list().iter().map(|point| point.epoch).collect();
        for epoch in &epochs {
            self.tables.points.begin_drop(*epoch);
        }
        self.due.note_change();
        if epochs.is_empty() { Ok(()) } else { Err(Stop::Room) }
    }

    fn begin_drop_of(&mut self, epoch: Option<Epoch>) {
        let is_idle = !self.tables.points.are_dropping();
        if is_idle && epoch.is_some_and(|epoch| self.tables.points.begin_drop(epoch)) {
            self.due.note_change();
        }
    }

    /// Which automatic points are made and kept.
    #[must_use]
    pub fn retention(&self) -> &Retention {
        self.tables.points.retention()
    }

    /// Sets which automatic points are made and kept. Durable with the next checkpoint.
    ///
    /// # Errors
    /// `Invalid` for a share above 100 % or more than [`RULES_MAX`] rules; `Need`; `ReadOnly`.
    pub fn set_retention(&mut self, now: TimeNs, retention: Retention) -> Outcome<()> {
        self.load_rows()?;
        self.standing.refuse()?;
        if retention.percent > 100 || retention.rules.len() > RULES_MAX {
            return Err(FsError::Invalid("retention").into());
        }
        self.tables.points.keep_by(retention);
        self.retain(now);
        self.due.note_dirty(now);
        self.due.note_change();
        Ok(())
    }

    /// Gives an automatic point a name; it is then kept until a user drops it. Durable with the next checkpoint.
    ///
    /// # Errors
    /// As [`Self::make_point`] for the name; `NotFound` if there is no such point, or it is being dropped; `Need`; `ReadOnly`.
    pub fn name_point(&mut self, now: TimeNs, epoch: Epoch, name: &str) -> Outcome<()> {
        self.load_rows()?;
        self.standing.refuse()?;
        self.check_point_name(name)?;
        self.tables.points.name(epoch, name)?;
        self.tables.slots.want_both();
        self.due.note_dirty(now);
        self.due.note_change();
        Ok(())
    }

    fn check_point_name(&self, name: &str) -> Result<(), FsError> {
        let is_word = name.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '/' && c != '@');
        if name.is_empty() || name.len() > POINT_NAME_MAX || !is_word || name.starts_with('.') {
            return Err(FsError::Invalid("the name of a snapshot"));
        }
        let title = Title::of(name.as_bytes());
        if title.is_time() {
            return Err(FsError::Invalid("the name of a snapshot has the form of an automatic state's time"));
        }
        if self.tables.points.list().iter().any(|point| title.is_of(&State::from(point))) {
            return Err(FsError::Exists);
        }
        Ok(())
    }
}

/// Room for points with names: automatic points leave that many free.
const NAMED_POINTS: usize = 4_096;
/// The least milliseconds between two automatic points if retention does not keep each commit. It also applies to checkpoints
/// that gain room: points of those would hold what cleaning is to free.
const AUTOMATIC_GAP_MS: u64 = 10_000;
