//! Background work, one bounded step at a time: who calls decides on which thread and when.

use super::Lfs;
use crate::error::{Outcome, Stop};
use crate::store::Scope;
use firnfs_format::TimeNs;

/// Inode map entries kept beside the tree before a checkpoint merges them.
const NEWER_MAX: usize = 128 << 10;
/// Segments with changes kept beside the usage tree before a checkpoint merges them.
const CHANGED_SEGMENTS_MAX: usize = 64 << 10;
/// Bytes of table blocks with changes before a checkpoint writes them: it needs all of them in memory at once.
const CHANGED_TABLE_BYTES_MAX: u64 = 16 << 20;

/// What a step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Something; there may be more.
    Worked,
    /// Waits for requests under way.
    Waiting,
    /// Nothing is due for that many milliseconds.
    Idle(u64),
    /// Room was asked for and there is no way to make any.
    Stuck,
}

/// How much a caller should care about background work now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pressure {
    /// Nothing is due.
    None,
    /// Background work is due.
    Due,
}

impl Lfs {
    /// True while more dirty data than twice the write threshold waits: writers are held up.
    pub(super) fn must_wait(&self) -> bool {
        self.dirty_bytes() >= 2 * self.options.write_threshold_bytes
    }

    /// Whether background work is due because of what was just done (not of time passing).
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        let due = self.dirty_bytes() >= self.options.write_threshold_bytes
            || !self.reap.is_empty()
            || self.checkpoint_due_by_size()
            || self.is_low();
        if due && self.read_only.is_none() { Pressure::Due } else { Pressure::None }
    }

    fn checkpoint_due_by_size(&self) -> bool {
        self.log_bytes_since_checkpoint >= self.options.checkpoint_bytes
            || self.imap.newer_len() >= NEWER_MAX
            || self.changed_table_bytes() >= CHANGED_TABLE_BYTES_MAX.min(self.table_reserve_bytes())
            || self.usage.changed_len() >= CHANGED_SEGMENTS_MAX
    }

    /// Clean segments below which the cleaner starts: enough for a few commits, but no more than a quarter of what is not
    /// live beyond the reserve. On a full volume each clean segment more makes all others fuller, and cleaning them dearer.
    pub(super) fn low_water(&self) -> u64 {
        let segment_bytes = u64::from(self.geo.segment_bytes);
        let commits = (2 * self.options.write_threshold_bytes / segment_bytes).min(self.geo.segments / 32);
        let dead = self.geo.segments.saturating_sub(self.live_bytes.div_ceil(segment_bytes));
        let reserve = self.reserve_segments();
        reserve + (4 + commits).min(dead.saturating_sub(reserve) / 4).max(1)
    }

    fn is_low(&self) -> bool {
        self.usage.ready(self.durable_epoch) < self.low_water()
    }

    /// Does one step. `pressed`: an operation waits for room. Damage that it cannot go around makes the volume read-only.
    ///
    /// # Errors
    /// `Need`, `Room`.
    pub fn step(&mut self, now: TimeNs, pressed: bool) -> Outcome<Step> {
        self.cleaning.is_on_demand = pressed;
        self.settle_clock(now);
        if self.read_only.is_none() {
            match self.try_step(now, pressed) {
                Err(Stop::Fail(why)) => self.give_up(&why),
                other => return other,
            }
        }
        Ok(if pressed { Step::Stuck } else { Step::Idle(1000) })
    }

    fn try_step(&mut self, now: TimeNs, pressed: bool) -> Outcome<Step> {
        self.shrink_caches();
        if self.reap_step()? {
            return Ok(Step::Worked);
        }
        if self.jobs.in_flight_bytes() >= 2 * self.options.write_threshold_bytes {
            return Ok(Step::Waiting);
        }
        if self.dirty_bytes() >= self.commit_from_bytes(pressed).max(1) {
            return self.background_commit(now);
        }
        let is_due = self.checkpoint_due_by_size() && !self.jobs.checkpoint_under_way();
        if is_due && self.background_checkpoint(now)? == Step::Worked {
            return Ok(Step::Worked);
        }
        if let Some(step) = self.make_room(now, pressed)? {
            return Ok(step);
        }
        let commit_in = self.due_in(now, self.dirty_since, self.options.commit_interval_ms);
        if commit_in == 0 {
            let step = self.background_commit(now)?;
            if self.dirty_bytes() == 0 {
                self.jobs.want(self.log.serial);
                self.dirty_since = None;
            }
            return Ok(step);
        }
        let changed = self.changed_since_checkpoint.then_some(self.checkpointed_at);
        let checkpoint_in = self.due_in(now, changed, self.options.checkpoint_interval_ms);
        if checkpoint_in == 0 {
            return self.background_checkpoint(now);
        }
        if self.discard_step()? {
            return Ok(Step::Worked);
        }
        match self.coalesce_step(now)? {
            0 => Ok(Step::Worked),
            coalesce_in => Ok(Step::Idle(commit_in.min(checkpoint_in).min(coalesce_in))),
        }
    }

    /// Dirty bytes from which a commit is due. When clean segments are short they go out a little at a time: the cleaner has
    /// only what they leave, and somebody who waits for room need not wait until there is room for all of them.
    fn commit_from_bytes(&self, pressed: bool) -> u64 {
        let threshold = self.options.write_threshold_bytes;
        if self.is_low() {
            (threshold / 4).min(u64::from(self.geo.segment_bytes) / 2)
        } else if pressed {
            threshold / 4
        } else {
            threshold
        }
    }

    fn due_in(&self, now: TimeNs, since: Option<TimeNs>, interval_ms: u64) -> u64 {
        since.map_or(interval_ms.min(1000), |since| interval_ms.saturating_sub(now.millis_since(since)))
    }

    fn background_commit(&mut self, now: TimeNs) -> Outcome<Step> {
        match self.commit_scope(now, Scope::All, false) {
            Ok(_) => Ok(Step::Worked),
            // No clean segment at hand: room has to be made first.
            Err(Stop::Room) => Ok(self.make_room(now, true)?.unwrap_or_else(|| self.no_way())),
            Err(stop) => Err(stop),
        }
    }

    fn background_checkpoint(&mut self, now: TimeNs) -> Outcome<Step> {
        match self.checkpoint(now, false) {
            Ok(()) => {
                self.cleaning.wants_checkpoint = false;
                Ok(Step::Worked)
            }
            Err(Stop::Room) => Ok(self.no_way()),
            Err(stop) => Err(stop),
        }
    }

    /// What to say when room is short: only requests under way can give any back by themselves.
    fn no_way(&self) -> Step {
        if self.jobs.is_idle() { Step::Stuck } else { Step::Waiting }
    }

    /// Makes clean segments: emptied ones through checkpoints, others through the cleaner. `None` if none are needed.
    fn make_room(&mut self, now: TimeNs, pressed: bool) -> Outcome<Option<Step>> {
        if !self.is_low() && !pressed {
            return Ok(None);
        }
        if self.usage.hold_costs(self.durable_epoch) {
            // Users come first: who reads the state held notices and begins again.
            self.usage.release();
            return Ok(Some(Step::Worked));
        }
        if self.jobs.checkpoint_under_way() {
            return Ok(Some(Step::Waiting));
        }
        if self.usage.waiting(self.durable_epoch) > 0 || self.cleaning.wants_checkpoint {
            return self.background_checkpoint(now).map(Some);
        }
        if !pressed && self.is_resting() {
            return Ok(None);
        }
        match self.clean_step(now) {
            Ok(true) => Ok(Some(Step::Worked)),
            // Emptied segments are found by a checkpoint; whoever is pressed gets one even for what the tables leave.
            Ok(false) if self.cleaning.finds_empty || pressed && self.changed_since_checkpoint => {
                self.cleaning.finds_empty = false;
                self.background_checkpoint(now).map(Some)
            }
            Ok(false) if !pressed => {
                self.cleaning.rests_since = Some((self.live_bytes, self.counters.log_bytes));
                Ok(None)
            }
            Err(Stop::Room) if self.usage.changed_len() > 0 => self.background_checkpoint(now).map(Some),
            Ok(false) | Err(Stop::Room) => Ok(pressed.then(|| self.no_way())),
            Err(stop) => Err(stop),
        }
    }

    /// The cleaner found nothing worth doing, and since then too little died or was written to change that.
    fn is_resting(&self) -> bool {
        let quarter = u64::from(self.geo.segment_bytes) / 4;
        self.cleaning.rests_since.is_some_and(|(live_bytes, log_bytes)| {
            self.live_bytes + quarter > live_bytes && self.counters.log_bytes < log_bytes + quarter
        })
    }

    /// Commits everything and puts a checkpoint in line, whether one is due or not.
    ///
    /// # Errors
    /// `Need`; `Room` while a checkpoint is under way; `ReadOnly`.
    pub fn checkpoint_now(&mut self, now: TimeNs) -> Outcome<()> {
        self.checkpoint(now, false)
    }

    /// Clean unmount: commits everything and writes a checkpoint that says so.
    ///
    /// # Errors
    /// `Need`; `Room` while a checkpoint is under way; `ReadOnly`.
    pub fn clean_checkpoint(&mut self, now: TimeNs) -> Outcome<()> {
        let result = self.checkpoint(now, true);
        if let Err(Stop::Fail(why)) = &result {
            self.give_up(why);
        }
        result
    }
}
