//! Background work, one bounded step at a time: the caller decides on which thread and when.

use crate::engine::{Pressure, Step};
use crate::error::{Outcome, Stop};
use crate::lfs::Lfs;
use crate::lfs::base::occasion::Occasion;
use crate::lfs::room::segments::Room;
use crate::lfs::room::throttle::Cleaned;
use crate::lfs::write::commit::Cause;
use crate::store::{Preparation, Prepared, Scope};
use firnfs_format::TimeNs;

/// Inode map entries kept beside the tree before a checkpoint merges them.
const NEWER_MAX: usize = 128 << 10;
/// Segments with changes kept beside the usage tree before a checkpoint merges them.
const CHANGED_SEGMENTS_MAX: usize = 64 << 10;
/// Bytes of table blocks with changes before a checkpoint writes them: it needs all of them in memory at once.
const CHANGED_TABLE_BYTES_MAX: u64 = 16 << 20;
/// Longest time that background work sleeps for.
const LOOK_AGAIN_MS: u64 = 60_000;

impl Lfs {
    /// True while at least twice the write threshold is dirty: writers have to wait.
    pub(in crate::lfs) fn must_wait(&self, room: &Room) -> bool {
        room.committable_bytes() >= 2 * self.options.write_threshold_bytes
    }

    /// Whether background work is due because of recent operations (not because time has passed).
    pub(in crate::lfs) fn work_pressure(&self) -> Pressure {
        let room = self.room_now();
        let due = room.committable_bytes() >= self.options.write_threshold_bytes
            || self.writer.is_ahead()
            || self.writer.has_chunk()
            || self.has_frozen()
            || self.files.reap_len() > 0
            || !self.upkeep.keeping.is_empty()
            || self.tables.points.are_dropping()
            || self.erases()
            || self.checkpoint_due_by_size()
            || self.is_room_due(&room);
        if due && self.standing.may_write() { Pressure::Due } else { Pressure::None }
    }

    /// Whether room has to be made on demand, and can be.
    fn is_room_due(&self, room: &Room) -> bool {
        self.wants_room(room) && (self.has_room_waiting(room) || self.may_clean_on_demand(room, false))
    }

    pub(in crate::lfs) fn checkpoint_due_by_size(&self) -> bool {
        let is_due = self.due.log_bytes() >= self.options.checkpoint_bytes
            || self.tables.imap.newer_len() >= NEWER_MAX
            || self.changed_table_bytes() >= CHANGED_TABLE_BYTES_MAX.min(self.table_reserve_bytes())
            || self.tables.usage.changed_len() >= CHANGED_SEGMENTS_MAX;
        is_due && !self.writer.is_held_back()
    }

    /// How long until work is due by time, in milliseconds; `u64::MAX` if none is due until the next change.
    pub(in crate::lfs) fn work_due_in_ms(&self, now: TimeNs) -> u64 {
        if !self.standing.may_write() {
            return u64::MAX;
        }
        self.commit_in_ms(now)
            .min(self.checkpoint_in_ms(now))
            .min(self.idle_work_in_ms(now))
            .min(self.coalesce_in_ms(now))
    }

    fn commit_in_ms(&self, now: TimeNs) -> u64 {
        self.due.commit_in_ms(now, self.options.commit_interval_ms)
    }

    fn checkpoint_in_ms(&self, now: TimeNs) -> u64 {
        let due_in_ms = self.due.checkpoint_in_ms(now, self.options.checkpoint_interval_ms);
        let due_in_ms = due_in_ms.min(self.upkeep.spacing.owed_in_ms(now));
        if self.writer.is_held_back() { u64::MAX } else { due_in_ms }
    }

    /// Does one step. `pressed`: an operation waits for room. Damage that it cannot avoid makes the volume read-only.
    ///
    /// # Errors
    /// `Need`, `Room`.
    pub(in crate::lfs) fn background_step(&mut self, now: TimeNs, pressed: bool) -> Outcome<Step> {
        self.settle_clock(now);
        self.accounts.note_time(now);
        self.upkeep.cleaning.is_on_demand = pressed || self.idle_in_ms(now) > 0;
        let room = self.room_now();
        self.settle_marks(&room);
        let mut sleep_ms = LOOK_AGAIN_MS;
        if self.standing.may_write() {
            let before_bytes = self.upkeep_bytes();
            let result = self.try_step(now, room, pressed);
            if !self.upkeep.cleaning.is_on_demand {
                self.pause_idle_work(now, before_bytes);
            }
            match result {
                Err(Stop::Fail(why)) => {
                    self.give_up(&why);
                    // The thread that does background work reports it soon.
                    sleep_ms = 0;
                }
                other => return other,
            }
        }
        Ok(if pressed { Step::Stuck } else { Step::Idle(sleep_ms) })
    }

    fn try_step(&mut self, now: TimeNs, mut room: Room, pressed: bool) -> Outcome<Step> {
        self.shrink_memory();
        let is_device_behind = self.writer.jobs.in_flight_bytes() >= 2 * self.options.write_threshold_bytes;
        if self.has_frozen() {
            return if is_device_behind { Ok(Step::Waiting) } else { self.background_commit(now, true) };
        }
        if self.reap_step()? {
            return Ok(Step::Worked);
        }
        if is_device_behind {
            return Ok(Step::Waiting);
        }
        match self.keep_step(now) {
            Ok(false) => {}
            Ok(true) => return Ok(Step::Worked),
            // Clean segments are short, perhaps only since its own commit.
            Err(Stop::Room) => room = self.room_now(),
            Err(stop) => return Err(stop),
        }
        // A drop may take seconds. If clean segments are short, it may be what makes some.
        let writers_wait = self.must_wait(&room) && !room.is_short();
        if !writers_wait && (self.forget_step(now)? || self.erase_step()?) {
            return Ok(Step::Worked);
        }
        let dirty_bytes = if pressed { room.dirty_bytes } else { room.committable_bytes() };
        let is_due = dirty_bytes >= self.commit_from_bytes(&room, pressed).max(1);
        if is_due || self.writer.is_ahead() {
            return self.background_commit(now, pressed);
        }
        if self.checkpoint_due_by_size() && !self.writer.jobs.checkpoint_under_way() {
            if self.background_checkpoint(now, Occasion::Due)? == Step::Worked {
                return Ok(Step::Worked);
            }
            room = self.room_now();
        }
        if let Some(step) = self.make_room(now, &room, pressed)? {
            return Ok(step);
        }
        if self.commit_in_ms(now) == 0 {
            let has_changes = self.dirty_bytes() > 0 && !self.writer.jobs.checkpoint_under_way();
            let may_be_point = has_changes && self.keeps_commits();
            // If there is no room for a checkpoint, what is due is made durable all the same.
            if may_be_point && self.background_checkpoint(now, Occasion::Due)? == Step::Worked {
                return Ok(Step::Worked);
            }
            let step = self.background_commit(now, true)?;
            if self.dirty_bytes() == 0 {
                self.writer.jobs.want(self.writer.log.end().serial);
                self.due.note_clean(self.writer.log.end().serial, self.writer.jobs.durable_serial());
            }
            return Ok(step);
        }
        if self.checkpoint_in_ms(now) == 0 {
            return self.background_checkpoint(now, Occasion::Due);
        }
        if self.write_chunk(now)? || self.discard_step()? {
            return Ok(Step::Worked);
        }
        if self.idle_in_ms(now) > 0 {
            self.stop_idle_pass();
            self.stop_coalescing();
        } else if self.idle_pause_ms(now) == 0 {
            if let Some(step) = self.idle_step(now)? {
                return Ok(step);
            }
            if self.coalesce_step(now)? {
                return Ok(Step::Worked);
            }
        }
        Ok(Step::Idle(self.work_due_in_ms(now).min(LOOK_AGAIN_MS)))
    }

    /// Dirty bytes from which a commit is due. When clean segments are short, or an operation waits for room, they are written a
    /// little at a time: the cleaner has only the segments that they leave, and whoever waits need not wait until there is room for
    /// all of them. But half a segment at least, if nobody waits, and not less than needed: each commit writes the blocks again that lead
    /// to what it writes (decisions 0120 and 0207 have figures).
    fn commit_from_bytes(&self, room: &Room, pressed: bool) -> u64 {
        let threshold = self.options.write_threshold_bytes;
        let (part, least) = (threshold / 4, threshold.min(u64::from(self.geo.segment_bytes) / 2));
        match (pressed, room.is_short()) {
            (true, _) => part,
            (false, true) => part.max(least),
            (false, false) => threshold,
        }
    }

    /// The next part of a commit. `is_whole`: indirect blocks do not stay in memory.
    fn background_commit(&mut self, now: TimeNs, is_whole: bool) -> Outcome<Step> {
        match self.commit_part(now, is_whole) {
            Ok(()) => Ok(Step::Worked),
            // No clean segment at hand: room has to be made first.
            Err(Stop::Room) => {
                let room = self.room_now();
                Ok(self.make_room(now, &room, true)?.unwrap_or_else(|| self.no_way()))
            }
            Err(stop) => Err(stop),
        }
    }

    /// The next part of a commit that is due, or all of it if it is small.
    fn commit_part(&mut self, now: TimeNs, is_whole: bool) -> Outcome<()> {
        if !is_whole && self.content_step(now)? {
            return Ok(());
        }
        if self.prepare(now, Scope::All, Cause::Due, &mut Preparation::default())? == Prepared::Part {
            return Ok(());
        }
        self.commit_scope(now, Scope::All, Cause::Due).map(drop)
    }

    /// Before background work that needs everything committed: does the next part of that. False if what is left is short, or if
    /// clean segments are too short for steps.
    pub(in crate::lfs) fn prepare_background(&mut self, now: TimeNs) -> Outcome<bool> {
        let mut preparation = self.upkeep.preparation;
        let result = self.prepare(now, Scope::All, Cause::Due, &mut preparation);
        let is_over = matches!(result, Ok(Prepared::Rest | Prepared::Whole(_)) | Err(Stop::Room));
        self.upkeep.preparation = if is_over { Preparation::default() } else { preparation };
        match result {
            Err(Stop::Room) => Ok(false),
            other => Ok(other? == Prepared::Part),
        }
    }

    pub(in crate::lfs) fn background_checkpoint(&mut self, now: TimeNs, occasion: Occasion) -> Outcome<Step> {
        if !self.writer.jobs.checkpoint_under_way() && self.prepare_background(now)? {
            return Ok(Step::Worked);
        }
        match self.checkpoint(now, occasion) {
            Ok(()) => {
                self.upkeep.cleaning.wants_checkpoint = false;
                Ok(Step::Worked)
            }
            Err(Stop::Room) => Ok(self.no_way()),
            Err(stop) => Err(stop),
        }
    }

    /// The result when room is short: only requests under way, and readers of clean segments, can still give some back.
    fn no_way(&self) -> Step {
        if self.writer.jobs.is_idle() && !self.writer.pins.is_awaited() { Step::Stuck } else { Step::Waiting }
    }

    /// Makes clean segments: emptied ones through checkpoints, others through the cleaner. `None` if none are needed.
    pub(in crate::lfs) fn make_room(
        &mut self,
        now: TimeNs,
        room: &Room,
        pressed: bool,
    ) -> Outcome<Option<Step>> {
        debug_assert_eq!(*room, self.room_now(), "a change since the room was computed");
        if !self.wants_room(room) && !pressed {
            return Ok(None);
        }
        if self.writer.is_held_back() {
            return Ok(pressed.then(|| self.no_way()));
        }
        if self.tables.usage.yielding_holds_cost(self.tables.slots.durable()) {
            // Users come first: the check that reads the held state notices and begins again.
            self.tables.usage.yield_holds();
            return Ok(Some(Step::Worked));
        }
        if self.writer.jobs.checkpoint_under_way() {
            return Ok(Some(Step::Waiting));
        }
        if self.has_room_waiting(room) {
            return self.background_checkpoint(now, Occasion::Room).map(Some);
        }
        let is_quiet = !self.upkeep.cleaning.is_on_demand && self.idle_pause_ms(now) == 0;
        if !pressed && !self.may_clean_on_demand(room, is_quiet) {
            return Ok(None);
        }
        self.upkeep.cleaning.is_idle_pass = false;
        match self.clean_step(now, room) {
            Ok(Cleaned::Part) => Ok(Some(Step::Worked)),
            Ok(Cleaned::Pass) => {
                self.note_pass();
                Ok(Some(Step::Worked))
            }
            // A checkpoint finds emptied segments. If an operation waits for room, a checkpoint is written even if only table
            // blocks died.
            Ok(Cleaned::Nothing) if self.upkeep.cleaning.finds_empty || pressed && self.due.has_changed() => {
                self.upkeep.cleaning.finds_empty = false;
                self.background_checkpoint(now, Occasion::Room).map(Some)
            }
            Ok(Cleaned::Nothing) if !pressed => {
                self.rest_on_demand();
                Ok(None)
            }
            Err(Stop::Room) if self.tables.usage.changed_len() > 0 => {
                self.background_checkpoint(now, Occasion::Room).map(Some)
            }
            Ok(Cleaned::Nothing) | Err(Stop::Room) => Ok(pressed.then(|| self.no_way())),
            Err(stop) => Err(stop),
        }
    }

    /// True if checkpoints alone make room.
    fn has_room_waiting(&self, room: &Room) -> bool {
        room.has_waiting() || self.upkeep.cleaning.wants_checkpoint
    }

    /// Commits everything and writes a checkpoint, whether one is due or not.
    ///
    /// # Errors
    /// `Need`; `Room` while a checkpoint is under way; `ReadOnly`.
    pub fn checkpoint_now(&mut self, now: TimeNs) -> Outcome<()> {
        self.checkpoint(now, Occasion::Due)
    }

    /// Clean unmount: commits everything and writes a checkpoint that says so. After it the volume accepts no changes; a second
    /// call does nothing.
    ///
    /// # Errors
    /// `Need`; `Room` while a checkpoint is under way; `ReadOnly`.
    pub(in crate::lfs) fn clean_checkpoint(&mut self, now: TimeNs) -> Outcome<()> {
        if self.standing.is_closed() {
            return Ok(());
        }
        let result = self.checkpoint_before_last(now).and_then(|()| self.checkpoint(now, Occasion::Unmount));
        match &result {
            Ok(()) => self.standing.close(),
            Err(Stop::Fail(why)) => self.give_up(why),
            Err(_) => {}
        }
        result
    }
}
