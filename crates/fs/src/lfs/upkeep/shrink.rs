//! Shrinking: empties the segments at the end of a volume, so that it can become smaller while it is in use. `write::shrinking` has
//! the state, and says what is safe when.
//!
//! A step, in this order: while too few clean segments lie before the new end, the cleaner makes some there; open logs leave the segments beyond the new end; a pass of the cleaner empties some of those segments; a
//! checkpoint finds them empty; and once all are clean, two checkpoints state the new size.
//!
//! Every pass makes the rest smaller, since nothing new comes there, and users cannot fill the space that the rest needs. What cannot
//! move because it is damaged ends the work.
//!
//! Callers: `firnfs_manage::LogVolume::shrink`, one step after the other, on a thread of its own.

use crate::engine::Step;
use crate::error::{FsError, Outcome, Stop};
use crate::lfs::Lfs;
use crate::lfs::base::damage::Thing;
use crate::lfs::base::geometry::Geometry;
use crate::lfs::base::occasion::Occasion;
use crate::lfs::room::segments::Room;
use crate::lfs::room::throttle::Cleaned;
use crate::lfs::upkeep::clean::Aim;
use crate::lfs::write::commit::Cause;
use crate::lfs::write::shrinking::{Shrinking, Stage};
use crate::store::Scope;
use firnfs_format::table::UsageEntry;
use firnfs_format::{InodeNo, SegmentId, TimeNs};

/// How far a volume has come that becomes smaller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shrunk {
    /// Live bytes beyond the new end when it began.
    pub total_bytes: u64,
    /// Those that are still there.
    pub left_bytes: u64,
    /// What comes next.
    pub phase: ShrinkPhase,
}

/// See [`Shrunk`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShrinkPhase {
    /// Blocks beyond the new end are moved.
    Emptying,
    /// Checkpoints state the new size; it cannot be stopped any more.
    Stating,
    /// They do; it waits for readers and requests beyond the new end.
    Waiting,
    /// The volume has its new size, and uses nothing beyond it.
    Left,
}

/// The segments that the log leaves, as they are now.
#[derive(Default)]
struct Survey {
    clean: Vec<UsageEntry>,
    live_bytes: u64,
    /// Segments with blocks that a pass could move.
    movable: u64,
    /// Segments that a checkpoint may find empty.
    emptied: u64,
    /// Why the blocks of one cannot be moved.
    damage: Option<FsError>,
}

impl Lfs {
    /// Begins to empty the end of the volume, so that it can have that size; returns how much there is to move.
    ///
    /// # Errors
    /// `Need`; `NoSpace` if what the volume holds does not fit; `Invalid` if the volume would not lose a segment, or its size is
    /// changing already; `NotPermitted` while there are clones or retained points with names; `Room` while the automatic ones are being dropped;
    /// `ReadOnly`.
    pub fn begin_shrinking(&mut self, size_bytes: u64) -> Outcome<Shrunk> {
        self.standing.refuse()?;
        self.refuse_while_resizing()?;
        let geo = Geometry::new(&self.sb, size_bytes);
        if geo.segments >= self.geo.segments {
            return Err(FsError::Invalid("size: smaller than the volume by a segment at least").into());
        }
        self.refuse_while_held()?;
        if size_bytes < self.least_size_bytes() {
            return Err(FsError::NoSpace.into());
        }
        // What retained points lead to has addresses beyond the new end.
        self.give_up_history()?;
        let survey = self.survey_from(SegmentId(geo.segments))?;
        let (total_bytes, left_bytes) = (survey.live_bytes, survey.live_bytes);
        self.writer.begin_shrinking(size_bytes, geo, survey.live_bytes);
        Ok(Shrunk { total_bytes, left_bytes, phase: ShrinkPhase::Emptying })
    }

    /// Gives up emptying: the volume keeps its size, and the log may use all of it again. False if checkpoints state the new
    /// size already: the caller has to go on.
    pub fn stop_shrinking(&mut self) -> bool {
        if self.writer.shrinking().is_some_and(Shrinking::is_stated) {
            return false;
        }
        if self.writer.end_shrinking().is_some() {
            self.tables.usage.end_leaving();
            self.upkeep.drop_pass();
        }
        true
    }

    /// True from [`Lfs::begin_shrinking`] until the volume has its new size.
    #[must_use]
    pub fn is_shrinking(&self) -> bool {
        self.writer.shrinking().is_some()
    }

    /// True if the superblock on the device states more than the size that the volume has shrunk to.
    #[must_use]
    pub fn has_larger_superblock(&self) -> bool {
        self.sb.size_bytes > self.size_bytes && !self.is_growing()
    }

    /// The copies of the superblock of a volume that has shrunk: as [`Lfs::superblock_copies_for`].
    #[must_use]
    pub fn superblock_copies_now(&self) -> Vec<(u64, Vec<u8>)> {
        self.superblock_copies(self.size_bytes)
    }

    /// The copies of [`Lfs::superblock_copies_now`] are durable.
    pub fn superblock_written(&mut self) {
        self.sb.size_bytes = self.size_bytes;
    }

    /// Does the next step. One step may read and write a few segments.
    ///
    /// # Errors
    /// `Need`; `Room` while clean segments are short or a checkpoint is under way; `Invalid` if it was not begun, or was stopped.
    /// `Corrupt` if damaged blocks cannot be moved, `NoSpace` if emptying does not get on: it is stopped then. `ReadOnly`.
    pub fn shrink_step(&mut self, now: TimeNs) -> Outcome<Shrunk> {
        self.standing.refuse()?;
        let Some(stage) = self.writer.shrinking().map(Shrinking::stage) else {
            return Err(FsError::Invalid("the volume is not being made smaller").into());
        };
        let result = match stage {
            Stage::Preparing => self.prepare_step(now).map(|()| ShrinkPhase::Emptying),
            Stage::Emptying => self.empty_step(now).map(|()| ShrinkPhase::Emptying),
            Stage::Stating(_) => self.state_step(now),
        };
        let (total_bytes, left_bytes) = self.writer.shrinking().map_or((0, 0), Shrinking::live_bytes);
        match result {
            Ok(phase) => Ok(Shrunk { total_bytes, left_bytes, phase }),
            Err(Stop::Fail(why)) => {
                self.stop_shrinking();
                Err(why.into())
            }
            Err(stop) => Err(stop),
        }
    }

    /// Without clean segments before the new end, the cleaner could not work there.
    fn prepare_step(&mut self, now: TimeNs) -> Outcome<()> {
        self.refuse_while_device_is_behind()?;
        let before = self.room_before(self.first_leaving())?;
        if !before.is_short() {
            return self.begin_emptying();
        }
        if !before.is_short_in_the_end() && !self.upkeep.cleaning.has_victims() {
            return self.checkpoint_for_shrinking(now);
        }
        match self.clean_for(now, Aim::Before)? {
            Cleaned::Part => Ok(()),
            Cleaned::Pass => {
                self.writer.shrinking_mut().into_iter().for_each(Shrinking::gets_on);
                Ok(())
            }
            Cleaned::Nothing => self.checkpoint_for_shrinking(now),
        }
    }

    /// The room in the segments before that one, as if there were no others.
    fn room_before(&mut self, first: SegmentId) -> Outcome<Room> {
        let (mut ready, mut waiting, mut emptied) = (0, 0, 0);
        for leaf in 0..=self.tables.usage.leaf_of(first) {
            for (segment, entry) in self.tables.usage.leaf(&mut self.shelf, leaf)? {
                if segment >= first || self.writer.log.is_open(segment) {
                    continue;
                }
                let is_empty = entry.live_bytes == 0 || self.upkeep.cleaning.has_emptied(segment);
                if entry.in_use {
                    emptied += u64::from(is_empty);
                } else if self.tables.usage.is_ready(&entry, self.tables.slots.durable()) {
                    ready += 1;
                } else {
                    waiting += 1;
                }
            }
        }
        Ok(Room { ready, waiting, emptied, ..self.room_now() })
    }

    fn begin_emptying(&mut self) -> Outcome<()> {
        let first = self.first_leaving();
        let survey = self.survey_from(first)?;
        self.tables.usage.begin_leaving(first, &survey.clean);
        self.writer.log.keep_in_pool(first);
        self.upkeep.cleaning.forget_victims();
        if let Some(shrinking) = self.writer.shrinking_mut() {
            shrinking.begin_emptying(survey.live_bytes);
        }
        Ok(())
    }

    fn refuse_while_device_is_behind(&self) -> Outcome<()> {
        let is_behind = self.writer.jobs.in_flight_bytes() >= 2 * self.options.write_threshold_bytes;
        if is_behind { Err(Stop::Room) } else { Ok(()) }
    }

    /// A step of a pass with that aim, or of the one under way.
    fn clean_for(&mut self, now: TimeNs, aim: Aim) -> Outcome<Cleaned> {
        if !self.upkeep.cleaning.has_victims() {
            self.upkeep.cleaning.aim = aim;
            self.upkeep.cleaning.is_idle_pass = false;
        }
        let room = self.room_now();
        self.clean_step(now, &room)
    }

    fn empty_step(&mut self, now: TimeNs) -> Outcome<()> {
        let first = self.first_leaving();
        self.refuse_while_device_is_behind()?;
        if let Some(log) = self.writer.log.open_from(first) {
            return self.move_log_on(now, log);
        }
        match self.clean_for(now, Aim::Leaving)? {
            Cleaned::Part => Ok(()),
            Cleaned::Pass => {
                // These passes gain no clean segments; they do not count as passes in vain.
                self.count_passes_anew();
                let left_bytes = self.survey_from(first).ok().map(|survey| survey.live_bytes);
                if let Some(shrinking) = self.writer.shrinking_mut() {
                    shrinking.gets_on();
                    left_bytes.into_iter().for_each(|bytes| shrinking.count_left(bytes));
                }
                Ok(())
            }
            Cleaned::Nothing => self.look_after_passes(now, first),
        }
    }

    /// The first segment beyond the end that the volume will have.
    pub(in crate::lfs) fn first_leaving(&self) -> SegmentId {
        self.writer.shrinking().map_or(SegmentId(self.geo.segments), Shrinking::first)
    }

    /// Makes a log enter its next segment: it writes the root's record again, unchanged, as the cleaner would move it.
    fn move_log_on(&mut self, now: TimeNs, log: u8) -> Outcome<()> {
        if self.prepare_background(now)? {
            return Ok(());
        }
        self.commit_scope(now, Scope::All, Cause::Due)?;
        self.load_inode(InodeNo::ROOT)?;
        self.ensure_pool(1)?;
        self.writer.log.fill(log, &self.geo);
        self.mark_inode(InodeNo::ROOT, false);
        self.settle_record(InodeNo::ROOT);
        self.write_record_to(now, InodeNo::ROOT, log)
    }

    /// No pass is possible now: finds out why, and does what is needed.
    fn look_after_passes(&mut self, now: TimeNs, first: SegmentId) -> Outcome<()> {
        let survey = self.survey_from(first)?;
        if survey.movable > 0 {
            // Clean segments are short: the cleaner has to work below the new end. Done here and not in a wait, so that the caller can
            // stop between two steps however much users write.
            let room = self.room_now();
            return match self.make_room(now, &room, true)? {
                Some(Step::Worked) => Ok(()),
                Some(_) | None => Err(Stop::Room),
            };
        }
        if survey.emptied == 0 {
            return match survey.damage {
                Some(why) => Err(why.into()),
                None => self.begin_stating(),
            };
        }
        if let Some(shrinking) = self.writer.shrinking_mut() {
            shrinking.count_left(survey.live_bytes);
        }
        self.checkpoint_for_shrinking(now)
    }

    /// Writes a checkpoint, which finds segments empty or makes them ready, unless several in a row did not help.
    fn checkpoint_for_shrinking(&mut self, now: TimeNs) -> Outcome<()> {
        if self.writer.shrinking().is_some_and(Shrinking::is_in_vain) {
            return Err(FsError::NoSpace.into());
        }
        self.checkpoint(now, Occasion::Room)?;
        self.writer.shrinking_mut().into_iter().for_each(Shrinking::try_in_vain);
        Ok(())
    }

    fn survey_from(&mut self, first: SegmentId) -> Outcome<Survey> {
        let mut survey = Survey::default();
        for leaf in self.tables.usage.leaf_of(first)..self.tables.usage.leaves() {
            for (segment, entry) in self.tables.usage.leaf(&mut self.shelf, leaf)? {
                if segment < first {
                    continue;
                }
                survey.live_bytes += u64::from(entry.live_bytes);
                if !entry.in_use {
                    survey.clean.push(entry);
                } else if entry.live_bytes > 0
                    && let Some(why) = self.why_quarantined(Thing::Segment(segment))
                {
                    survey.damage = Some(FsError::Io(format!("segment {segment} cannot be emptied: {why}")));
                } else if self.candidate_now(segment, &entry).is_some() {
                    survey.movable += 1;
                } else {
                    survey.emptied += 1;
                }
            }
        }
        Ok(survey)
    }

    /// All leaving segments are clean: from the next checkpoint on, checkpoints state the new size.
    fn begin_stating(&mut self) -> Outcome<()> {
        // A check of an older state notices, and begins again.
        self.tables.usage.yield_holds();
        if self.tables.usage.is_held() {
            return Err(FsError::Invalid("an older state of the volume is held").into());
        }
        let since = self.tables.slots.epoch();
        if let Some(shrinking) = self.writer.shrinking_mut() {
            shrinking.begin_stating(since);
        }
        self.due.note_change();
        Ok(())
    }

    fn state_step(&mut self, now: TimeNs) -> Outcome<ShrinkPhase> {
        let durable = self.tables.slots.durable();
        if !self.writer.shrinking().is_some_and(|shrinking| shrinking.is_in_both_slots(durable)) {
            self.checkpoint(now, Occasion::Room)?;
            return Ok(ShrinkPhase::Stating);
        }
        if self.is_end_used() {
            return Ok(ShrinkPhase::Waiting);
        }
        self.leave_end();
        Ok(ShrinkPhase::Left)
    }

    /// True while readers or discards use the segments that the log has left.
    #[must_use]
    pub fn is_end_used(&self) -> bool {
        let first = self.first_leaving();
        let at_bytes = self.geo.device_bytes(self.geo.addr(first, 0));
        self.writer.pins.is_pinned_from(first) || self.writer.jobs.is_discarding_from(at_bytes)
    }

    fn leave_end(&mut self) {
        let Some(shrinking) = self.writer.end_shrinking() else { return };
        let first = shrinking.first();
        let (size_bytes, geo) = shrinking.into_size();
        self.tables.usage.yield_holds();
        self.tables.usage.shrink(first.0);
        self.upkeep.discard.end_at(first);
        self.upkeep.cleaning.end_at(first);
        self.shelf.resize(geo.clone());
        self.geo = geo;
        self.size_bytes = size_bytes;
    }
}
