//! Making retained points, and beginning to drop them.

use crate::error::{FsError, Outcome, Stop};
use crate::lfs::Lfs;
use crate::lfs::base::kinds::LogKind;
use firnfs_format::checkpoint::{POINT_NAME_MAX, Point};
use firnfs_format::{Epoch, TimeNs};

impl Lfs {
    /// The retained points, oldest first.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        self.tables.points.list()
    }

    /// Bytes that only retained points hold.
    #[must_use]
    pub fn past_bytes(&self) -> u64 {
        self.tables.usage.live().map_or(0, |live| live.of(LogKind::Past))
    }

    /// Makes the present state a retained point: it commits everything and puts a checkpoint in line. The point is durable when that
    /// is ([`Self::durable_epoch`]). Returns its epoch.
    ///
    /// # Errors
    /// `Invalid` for a name that is empty, longer than [`POINT_NAME_MAX`] bytes, or not one word; `Exists` if there is a point of
    /// that name; `NoSpace` if there are too many, or if the volume has no room for metadata that may die once more;
    /// `Unsupported` if the volume is too large for its block size; `Need`; `Room` while a checkpoint is under way; `ReadOnly`.
    pub fn make_point(&mut self, now: TimeNs, name: &str) -> Outcome<Epoch> {
        self.standing.refuse()?;
        let is_word = name.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '/' && c != '@');
        if name.is_empty() || name.len() > POINT_NAME_MAX || !is_word {
            return Err(FsError::Invalid("the name of a snapshot").into());
        }
        if self.tables.points.list().iter().any(|point| point.name == name) {
            return Err(FsError::Exists.into());
        }
        if !self.can_have_remnants() {
            return Err(FsError::Unsupported(
                "points on a volume with that many segments for its block size",
            )
            .into());
        }
        // The points that there are have asked for it already.
        let metadata_bytes = if self.tables.points.is_empty() { self.metadata_bytes() } else { 0 };
        if self.tables.points.is_full() || !self.has_space(metadata_bytes) {
            return Err(FsError::NoSpace.into());
        }
        if self.tables.usage.live().is_none() {
            return Err(
                FsError::Unsupported("points on a volume whose live bytes are not counted by kind").into()
            );
        }
        self.upkeep.next_point = Some(name.to_owned());
        let result = self.checkpoint_now(now);
        let is_made = self.upkeep.next_point.take().is_none();
        match result {
            Ok(()) if is_made => self.tables.points.newest().ok_or(Stop::Room),
            Ok(()) => Err(Stop::Room),
            Err(stop) => Err(stop),
        }
    }

    /// Begins to drop a point; background work does the rest.
    ///
    /// # Errors
    /// `NotFound`; `Room` while another point is being dropped; `ReadOnly`.
    pub fn drop_point(&mut self, now: TimeNs, epoch: Epoch) -> Outcome<()> {
        self.standing.refuse()?;
        let Some(point) = self.tables.points.list().iter().find(|point| point.epoch == epoch) else {
            return Err(FsError::NotFound.into());
        };
        if point.dropped_to.is_some() {
            return Ok(());
        }
        if !self.tables.points.begin_drop(epoch) {
            return Err(Stop::Room);
        }
        self.due.note_dirty(now);
        self.due.note_change();
        Ok(())
    }

    /// Live bytes of metadata: all of it may die once for each new point, without anybody having asked for room.
    pub(in crate::lfs) fn metadata_bytes(&self) -> u64 {
        let live = self.tables.usage.live();
        let kinds =
            [LogKind::Directory, LogKind::Attributes, LogKind::Indirect, LogKind::Inode, LogKind::InodeMap];
        live.map_or(0, |live| kinds.into_iter().map(|kind| live.of(kind)).sum())
    }

    /// The state that a checkpoint has just written becomes a point, if somebody has asked for that.
    pub(in crate::lfs) fn add_point(&mut self, now: TimeNs) {
        let Some(name) = self.upkeep.next_point.take() else { return };
        self.tables.points.push(Point {
            epoch: self.tables.epoch,
            time: now,
            imap: firnfs_format::checkpoint::TableRoot { special: 0, ..self.tables.imap.table.root },
            next_ino: self.tables.imap.next_ino,
            live_bytes: self.accounts.live_bytes() - self.past_bytes(),
            dropped_to: None,
            is_automatic: false,
            name,
        });
    }
}
