//! Throttle: how much the cleaner works, and when (Blackwell, Harris and Seltzer, USENIX 1995; BSD-LFS, section 4.4).
//!
//! The marks are in `segments`. At the reserve users' writes wait. Below low the cleaner starts, on demand, and goes on to high;
//! above the reserve it spends no more of the device than users do. While no request arrives it continues to the idle target,
//! so that the next burst finds room and nobody has to wait for the cleaner. An idle pass leaves alone segments fuller than the
//! average: they will be emptier later.
//!
//! Invariants: an idle pass takes no clean segment of those that a few commits need ([`Room::usual_low`]); a search that found nothing
//! is not repeated before something has changed.
//!
//! Callers: `step` (when), `clean` (what a pass may take).

use crate::clean::Candidate;
use crate::engine::Step;
use crate::error::{Outcome, Stop};
use crate::lfs::Lfs;
use crate::lfs::base::occasion::Occasion;
use crate::lfs::room::segments::Room;
use firnfs_format::TimeNs;

/// A smaller burst lowers the recorded largest one by this part of it, because use changes.
const FORGET_PART: u64 = 8;
/// Segments fuller than this, in sixteenths, are left alone by an idle pass.
const IDLE_FULLEST_SIXTEENTHS: u64 = 15;
/// Device bytes, in segments, by which cleaning on demand may exceed the users' at first: one victim, read and moved.
const CREDIT_SEGMENTS: u64 = 2;
/// Passes on demand that together have to gain something.
const GAIN_PASSES: u32 = 8;
/// Checkpoints after which emptied segments may be written.
const CHECKPOINTS_TO_FREE: u8 = 2;

/// The state of the volume when a search found no worthwhile pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lfs) struct Rest {
    live_bytes: u64,
    log_bytes: u64,
}

/// The result of a step of the cleaner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lfs) enum Cleaned {
    /// No segment is worth cleaning.
    Nothing,
    /// A part of a pass.
    Part,
    /// The rest of a pass: its blocks are in the log, or in the frozen batch.
    Pass,
}

/// The present use of idle time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    /// Live blocks are moved.
    #[default]
    Moving,
    /// This many checkpoints are still needed before empty segments may be written.
    Freeing(u8),
}

/// See the module's head.
#[derive(Default)]
pub(in crate::lfs) struct Throttle {
    /// Cleaning on demand has begun and goes on to the high-water mark.
    is_filling: bool,
    /// Log bytes of users, and device bytes of the cleaner, when that began.
    filling_since: (u64, u64),
    /// Since when the search for room on demand rests.
    rests_since: Option<Rest>,
    /// Passes on demand since the last check of their gain, and the clean segments then.
    passes: u32,
    passes_from: u64,
    /// When the search in idle time began to rest.
    idle_rests_since: Option<Rest>,
    /// Users have made requests since the last idle time.
    is_burst: bool,
    /// Log bytes of users when the burst began.
    burst_from_bytes: u64,
    /// The largest recent burst, in log bytes.
    largest_burst_bytes: u64,
    phase: Phase,
    /// Clean segments when the present round of idle passes began.
    round_from: Option<u64>,
    /// Since when idle work pauses, and for how many milliseconds: so it keeps to its rate.
    pause: Option<(TimeNs, u64)>,
}

impl Lfs {
    /// Device bytes that cleaning took.
    fn cleaner_device_bytes(&self) -> u64 {
        self.accounts.counters.cleaner_read_bytes + self.accounts.counters.cleaner_moved_bytes
    }

    /// The largest recent burst, the present one included.
    pub(in crate::lfs) fn largest_burst_bytes(&self) -> u64 {
        self.upkeep.throttle.largest_burst_bytes.max(self.burst_so_far_bytes())
    }

    fn burst_so_far_bytes(&self) -> u64 {
        self.accounts.counters.new_bytes().saturating_sub(self.upkeep.throttle.burst_from_bytes)
    }

    /// Notes where the clean segments stand between the marks; to be called once a step.
    pub(in crate::lfs) fn settle_marks(&mut self, room: &Room) {
        if room.is_high() {
            self.upkeep.throttle.is_filling = false;
        } else if room.is_low() && !self.upkeep.throttle.is_filling {
            self.upkeep.throttle.is_filling = true;
            self.upkeep.throttle.filling_since =
                (self.accounts.counters.new_bytes(), self.cleaner_device_bytes());
        }
    }

    /// Whether room has to be made on demand now.
    pub(in crate::lfs) fn wants_room(&self, room: &Room) -> bool {
        room.is_low() || self.upkeep.throttle.is_filling && !room.is_high()
    }

    /// Whether cleaning on demand, if wanted, may work now: it rests if no pass is worthwhile, and while users need not wait
    /// for it, it uses no more of the device than they do.
    pub(in crate::lfs) fn may_clean_on_demand(&self, room: &Room, is_quiet: bool) -> bool {
        if self.is_resting(self.upkeep.throttle.rests_since) {
            return false;
        }
        let (user_bytes, cleaner_bytes) = self.upkeep.throttle.filling_since;
        let user_bytes = self.accounts.counters.new_bytes().saturating_sub(user_bytes);
        let cleaner_bytes = self.cleaner_device_bytes().saturating_sub(cleaner_bytes);
        let credit_bytes = CREDIT_SEGMENTS * u64::from(self.geo.segment_bytes);
        is_quiet || room.is_at_reserve() || cleaner_bytes < user_bytes + credit_bytes
    }

    /// True if that search found no worthwhile pass, and since then too little died or was written to change that.
    fn is_resting(&self, since: Option<Rest>) -> bool {
        let quarter = u64::from(self.geo.segment_bytes) / 4;
        since.is_some_and(|rest| {
            self.accounts.live_bytes() + quarter > rest.live_bytes
                && self.accounts.counters.log_bytes < rest.log_bytes + quarter
        })
    }

    /// Notes a pass on demand. If several passes together gained nothing, because checkpoints used up what they freed,
    /// more passes would not gain either: cleaning rests until something changes. An operation that waits for room may
    /// still try.
    pub(in crate::lfs) fn note_pass(&mut self) {
        self.upkeep.throttle.passes += 1;
        if self.upkeep.throttle.passes < GAIN_PASSES {
            return;
        }
        let in_the_end = self.room_now().in_the_end();
        if in_the_end <= self.upkeep.throttle.passes_from {
            self.rest_on_demand();
        }
        (self.upkeep.throttle.passes, self.upkeep.throttle.passes_from) = (0, in_the_end);
    }

    /// Something other than passes and users' writes changed the number of clean segments: the gain is measured from here on.
    pub(in crate::lfs) fn count_passes_anew(&mut self) {
        (self.upkeep.throttle.passes, self.upkeep.throttle.passes_from) = (0, self.room_now().in_the_end());
    }

    /// True if passes on demand gained nothing, and too little changed since then.
    pub(in crate::lfs) fn has_cleaned_in_vain(&self) -> bool {
        self.is_resting(self.upkeep.throttle.rests_since)
    }

    /// A search for room on demand found nothing: it rests until something changes.
    pub(in crate::lfs) fn rest_on_demand(&mut self) {
        self.upkeep.throttle.rests_since = self.rest();
    }

    /// The present state of the volume, for a search that found nothing.
    fn rest(&self) -> Option<Rest> {
        Some(Rest { live_bytes: self.accounts.live_bytes(), log_bytes: self.accounts.counters.log_bytes })
    }

    /// Clean segments that the pass under way may fill.
    pub(in crate::lfs) fn pass_segments(&self, room: &Room) -> u64 {
        match (self.upkeep.cleaning.gains_room(), self.upkeep.cleaning.is_idle_pass) {
            (false, _) => room.for_leaving(),
            (true, true) => room.for_idle_moves(),
            (true, false) => room.for_moves(),
        }
    }

    /// Removes from the candidates of an idle pass the segments that should wait until more of their blocks have died.
    pub(in crate::lfs) fn leave_fuller(&self, candidates: &mut Vec<Candidate>) {
        let live_bytes: u64 = candidates.iter().map(|c| u64::from(c.live_bytes)).sum();
        let mean = live_bytes / (candidates.len() as u64).max(1);
        let fullest = u64::from(self.geo.segment_bytes) * IDLE_FULLEST_SIXTEENTHS / 16;
        candidates.retain(|c| u64::from(c.live_bytes) <= mean.min(fullest));
    }

    /// Whether idle time would be used.
    fn has_idle_work(&self, room: &Room) -> bool {
        let has_way = self.upkeep.throttle.is_burst
            || self.upkeep.throttle.phase != Phase::Moving
            || room.emptied > 0
            || !self.is_resting(self.upkeep.throttle.idle_rests_since);
        has_way && room.is_below_target() && !self.tables.usage.is_held()
    }

    /// How long until the next idle time that would be used, in milliseconds.
    pub(in crate::lfs) fn idle_work_in_ms(&self, now: TimeNs) -> u64 {
        let in_ms = self.idle_in_ms(now).max(self.idle_pause_ms(now)).max(1);
        if self.has_idle_work(&self.room_now()) { in_ms } else { u64::MAX }
    }

    /// How long idle work still pauses, in milliseconds. A clock that is set back ends the pause.
    pub(in crate::lfs) fn idle_pause_ms(&self, now: TimeNs) -> u64 {
        match self.upkeep.throttle.pause {
            Some((since, pause_ms)) if now >= since => pause_ms.saturating_sub(now.millis_since(since)),
            _ => 0,
        }
    }

    /// Device bytes that idle work has taken, among others.
    pub(in crate::lfs) fn upkeep_bytes(&self) -> u64 {
        let coalesced_bytes = self.accounts.counters.coalesced_bytes.saturating_mul(2);
        self.cleaner_device_bytes().saturating_add(coalesced_bytes)
    }

    /// Idle work pauses as long as what it has used since `before_bytes` takes at its rate.
    pub(in crate::lfs) fn pause_idle_work(&mut self, now: TimeNs, before_bytes: u64) {
        let Some(rate) = self.options.idle_bytes_per_s else { return };
        let used_bytes = self.upkeep_bytes().saturating_sub(before_bytes);
        if used_bytes > 0 {
            self.upkeep.throttle.pause = Some((now, used_bytes.saturating_mul(1000) / rate));
        }
    }

    /// From now on the cleaner has other marks: a search may find something again.
    pub(in crate::lfs) fn end_rest(&mut self) {
        self.upkeep.throttle.rests_since = None;
        self.upkeep.throttle.idle_rests_since = None;
        self.upkeep.throttle.is_filling = false;
        self.count_passes_anew();
    }

    /// From now on the rate is another one.
    pub(in crate::lfs) fn end_idle_pause(&mut self) {
        self.upkeep.throttle.pause = None;
    }

    /// True if nobody needs the blocks any more for which a background step waits: a user has made a request, and the pass
    /// under way is one for idle time.
    pub(in crate::lfs) fn gives_way_to_users(&self, now: TimeNs) -> bool {
        let is_for_idle = self.upkeep.cleaning.is_idle_pass && !self.wants_room(&self.room_now())
            || self.upkeep.coalescing.is_gathering;
        is_for_idle && self.idle_in_ms(now) > 0
    }

    /// Users are back: drops an idle pass that has not moved anything yet.
    pub(in crate::lfs) fn stop_idle_pass(&mut self) {
        if self.upkeep.cleaning.is_idle_pass {
            self.upkeep.drop_pass();
        }
        self.upkeep.throttle.round_from = None;
    }

    /// Notes a user's request: a burst begins, or goes on.
    pub(in crate::lfs) fn note_burst(&mut self) {
        if !self.upkeep.throttle.is_burst {
            self.upkeep.throttle.is_burst = true;
            self.upkeep.throttle.burst_from_bytes = self.accounts.counters.new_bytes();
        }
    }

    /// One step of the work for idle time. `None` if there is nothing to do.
    pub(in crate::lfs) fn idle_step(&mut self, now: TimeNs) -> Outcome<Option<Step>> {
        if std::mem::take(&mut self.upkeep.throttle.is_burst) {
            self.end_burst();
        }
        // The size of the burst decides the target.
        let room = self.room_now();
        if !self.has_idle_work(&room) {
            return Ok(None);
        }
        if let Phase::Freeing(left) = self.upkeep.throttle.phase {
            return self.free_step(now, &room, left).map(Some);
        }
        self.upkeep.throttle.round_from.get_or_insert(room.ready);
        if room.reaches_target() {
            self.upkeep.throttle.phase = Phase::Freeing(CHECKPOINTS_TO_FREE);
            return Ok(Some(Step::Worked));
        }
        self.upkeep.cleaning.is_idle_pass = true;
        match self.clean_step(now, &room) {
            Ok(Cleaned::Part | Cleaned::Pass) => {}
            Ok(Cleaned::Nothing) | Err(Stop::Room) => {
                self.upkeep.cleaning.forget_victims();
                if self.upkeep.cleaning.emptied_segments() == 0 {
                    self.upkeep.throttle.idle_rests_since = self.rest();
                } else {
                    self.upkeep.throttle.phase = Phase::Freeing(CHECKPOINTS_TO_FREE);
                }
            }
            Err(stop) => return Err(stop),
        }
        Ok(Some(Step::Worked))
    }

    /// Ends a burst: the segments that it left empty are freed before anything is moved.
    fn end_burst(&mut self) {
        let burst_bytes = self.burst_so_far_bytes();
        let largest_bytes =
            self.upkeep.throttle.largest_burst_bytes.saturating_sub(burst_bytes / FORGET_PART);
        self.upkeep.throttle.largest_burst_bytes = largest_bytes.max(burst_bytes);
        self.upkeep.throttle.burst_from_bytes = self.accounts.counters.new_bytes();
        if self.due.has_changed() || self.room_now().has_waiting() {
            self.upkeep.throttle.phase = Phase::Freeing(CHECKPOINTS_TO_FREE);
        }
    }

    /// Writes one of the checkpoints after which empty segments may be written. A round that gained nothing is the last one.
    fn free_step(&mut self, now: TimeNs, room: &Room, left: u8) -> Outcome<Step> {
        if self.writer.jobs.checkpoint_under_way() {
            return Ok(Step::Waiting);
        }
        let is_waited_for = left == CHECKPOINTS_TO_FREE || room.has_waiting();
        if left > 0 && is_waited_for {
            match self.background_checkpoint(now, Occasion::Room)? {
                Step::Worked => self.upkeep.throttle.phase = Phase::Freeing(left - 1),
                Step::Stuck => self.end_round(false),
                Step::Waiting | Step::Idle(_) => return Ok(Step::Waiting),
            }
            return Ok(Step::Worked);
        }
        let from = self.upkeep.throttle.round_from;
        self.end_round(from.is_none_or(|from| room.ready > from));
        Ok(Step::Worked)
    }

    fn end_round(&mut self, has_gained: bool) {
        self.upkeep.throttle.phase = Phase::Moving;
        self.upkeep.throttle.round_from = None;
        if !has_gained {
            self.upkeep.throttle.idle_rests_since = self.rest();
        }
    }
}
