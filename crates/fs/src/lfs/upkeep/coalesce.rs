//! Coalescing: in idle time, scattered files are rewritten in order, so that sequential reads run at full speed again
//! (BSD-LFS, section 3.5: a policy that "would run during idle periods ... based on coalescing and clustering files").
//!
//! A step examines one window (`coalesce_plan`) of a file or directory for which `seams` has a hint. If rewriting pays
//! ([`crate::clean::scatter`]), the step brings the window into memory, turns it dirty in order, and commits it at once to the
//! log for the coldest data: births, versions and times stay the same, as for blocks that the cleaner moves.
//!
//! Invariants:
//! - nothing is moved while anything is dirty, so a window never mixes with users' writes, and memory and log agree;
//! - there is no stop between the last look at the pointers and the commit, so every moved block is current;
//! - it takes no clean segment that the cleaner would soon have to replace, and none on a nearly full volume; on request the
//!   cleaner first makes the missing ones, as long as it gains any;
//! - a damaged block prevents the coalescing of its file, and does no other harm.
//!
//! Callers: `step`, as its last work, and only in idle time; the driver, on request.

use crate::bmap::LEVELS;
use crate::clean::scatter::{Evidence, pays, rest_ms};
use crate::engine::Step;
use crate::error::{FsError, Outcome, Stop};
use crate::inode::Kind;
use crate::lfs::Lfs;
use crate::lfs::base::occasion::Occasion;
use crate::lfs::map::blockmap::Turn;
use crate::lfs::room::segments::Room;
use crate::lfs::upkeep::coalesce_plan::{Move, Window};
use crate::lfs::upkeep::seams::{Seams, Target};
use crate::lfs::upkeep::survey::Survey;
use crate::lfs::write::commit::Cause;
use crate::lfs::write::log::{Log, data_log};
use crate::store::{Scope, Store};
use firnfs_format::{InodeNo, SECTOR_BYTES, TimeNs};
use std::collections::BTreeSet;

/// Pause after clean segments were short, in milliseconds.
const NO_ROOM_MS: u64 = 60_000;
/// Pause while a checkpoint is under way that makes some, in milliseconds.
const CHECKPOINT_MS: u64 = 1000;
/// Live share of users' capacity, in percent, from which on nothing is put in order.
const FULL_PERCENT: u64 = 90;
const NS_PER_MS: i64 = 1_000_000;

/// The state of coalescing.
#[derive(Default)]
pub(in crate::lfs) struct Coalescing {
    /// Hints.
    pub(in crate::lfs) seams: Seams,
    pass: Option<Pass>,
    /// Unreadable files of the directory under work. They are not requested again: otherwise two of them would be read in turn
    /// for ever.
    pub(in crate::lfs) damaged: BTreeSet<InodeNo>,
    /// The search for files for which the last mount had hints; `None` before it begins.
    pub(in crate::lfs) survey: Option<Survey>,
    /// No attempt before this time.
    rests_until: TimeNs,
    /// A window is on its way into memory.
    pub(in crate::lfs) is_gathering: bool,
    /// The file whose windows were counted last, so that all its windows count as one file.
    counted: Option<InodeNo>,
}

/// A file or directory under work.
#[derive(Clone, Copy)]
struct Pass {
    target: Target,
    evidence: Evidence,
    /// Where the next window begins.
    from: u64,
    /// A part of it was rewritten.
    moved: bool,
    /// A part of it changed a short time ago.
    is_early: bool,
}

impl Pass {
    fn new(target: Target, evidence: Evidence) -> Self {
        Self { target, evidence, from: 0, moved: false, is_early: false }
    }
}

/// What one step on request did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coalesced {
    /// Where the next step continues; `None` after the last.
    pub next: Option<u64>,
    /// Bytes examined, as stored.
    pub bytes: u64,
    /// Seams in them before.
    pub seams_before: u64,
    /// Seams in them now.
    pub seams_after: u64,
    /// Bytes rewritten, as stored.
    pub moved_bytes: u64,
    /// Why they were not rewritten although it would have paid.
    pub shortage: Option<Shortage>,
}

/// Why there is too little room to rewrite a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shortage {
    /// More than 90% of what users can fill is live: to make room the cleaner would have to move nearly everything.
    Full,
    /// The cleaner gains no more clean segments, or a check holds those that it emptied.
    NoGain,
}

/// Whether there is room for a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RoomFor {
    /// There is room.
    Window,
    /// The cleaner may make room.
    AfterCleaning,
    /// There is no room.
    Nothing(Shortage),
}

impl Lfs {
    /// Puts one window in order, if there is one. Called in idle time. Returns whether it did anything.
    pub(in crate::lfs) fn coalesce_step(&mut self, now: TimeNs) -> Outcome<bool> {
        let Some(age_ms) = self.options.coalesce_age_ms else { return Ok(false) };
        if self.coalesce_in_ms(now) > 1 {
            self.stop_coalescing();
            return Ok(false);
        }
        let result = self.try_coalesce(now, age_ms);
        self.upkeep.coalescing.is_gathering = matches!(result, Err(Stop::Need(_)));
        if !self.upkeep.coalescing.is_gathering {
            self.upkeep.coalescing.damaged.clear();
        }
        match result {
            Err(Stop::Fail(_)) => {
                // The file is gone or damaged; its next reader gets the error. Coalescing does not try it again soon.
                if let Some(pass) = self.upkeep.coalescing.pass.take() {
                    self.upkeep.coalescing.seams.done(pass.target.ino(), true);
                }
                Ok(true)
            }
            Err(Stop::Room) => {
                self.rest_coalescing(now, CHECKPOINT_MS);
                Ok(false)
            }
            other => other,
        }
    }

    /// Users are back: blocks brought into memory may be evicted.
    pub(in crate::lfs) fn stop_coalescing(&mut self) {
        self.upkeep.coalescing.is_gathering = false;
    }

    fn rest_coalescing(&mut self, now: TimeNs, ms: u64) {
        self.upkeep.coalescing.rests_until = shifted(now, ms, 1);
    }

    /// How long until a file may be due, in milliseconds; `u64::MAX` if none is due until the next change. Cheap, because
    /// drivers call it after each operation.
    pub(in crate::lfs) fn coalesce_in_ms(&self, now: TimeNs) -> u64 {
        // Dirty data is written first. While a check reads a snapshot, its segments must stay.
        if self.options.coalesce_age_ms.is_none() || self.dirty_bytes() > 0 || self.tables.usage.is_held() {
            return u64::MAX;
        }
        let due_in_ms = if self.upkeep.coalescing.pass.is_some() {
            Some(0)
        } else {
            let hint_ms = self.upkeep.coalescing.seams.due_in_ms(now);
            let survey_ms = self.survey_in_ms(now);
            [hint_ms, survey_ms].into_iter().flatten().min()
        };
        // If the clock is set back, the pause does not get longer.
        let rest_ms = self.upkeep.coalescing.rests_until.millis_since(now).min(NO_ROOM_MS);
        due_in_ms.map_or(u64::MAX, |ms| {
            ms.max(rest_ms).max(self.idle_in_ms(now)).max(self.idle_pause_ms(now)).max(1)
        })
    }

    fn try_coalesce(&mut self, now: TimeNs, age_ms: u64) -> Outcome<bool> {
        let seams = &self.upkeep.coalescing.seams;
        let next = || seams.next(now).map(|(target, evidence)| Pass::new(target, evidence));
        let Some(mut pass) = self.upkeep.coalescing.pass.or_else(next) else {
            return self.survey_step(now);
        };
        self.upkeep.coalescing.pass = Some(pass);
        let ino = pass.target.ino();
        let core = self.load_inode(ino)?;
        let is_gone = core.freed || core.reap_from.is_some();
        let ctime = core.inode.ctime;
        let rest_ms = rest_ms(age_ms, self.upkeep.coalescing.seams.times(ino));
        if is_gone {
            self.upkeep.coalescing.pass = None;
            self.upkeep.coalescing.seams.forget(ino);
            return Ok(true);
        }
        if matches!(pass.target, Target::File(_)) && shifted(ctime, rest_ms, 1) > now {
            self.upkeep.coalescing.pass = None;
            self.upkeep.coalescing.seams.postpone(ino, shifted(ctime, rest_ms, 1));
            return Ok(true);
        }
        let room = self.room_now();
        let window = self.plan(&room, pass.target, pass.from, shifted(now, rest_ms, -1))?;
        if pays(&window.stretch(), pass.evidence, &self.grid(), &self.options.medium) {
            if self.room_for(now, &room, &window)? != RoomFor::Window {
                self.rest_coalescing(now, NO_ROOM_MS);
                return Ok(false);
            }
            self.bring(&window)?;
            self.rewrite(now, pass.target, &window)?;
            pass.moved = true;
        }
        pass.is_early |= window.is_early;
        if let Some(from) = window.next {
            self.upkeep.coalescing.pass = Some(Pass { from, ..pass });
            return Ok(true);
        }
        self.upkeep.coalescing.pass = None;
        if pass.is_early {
            self.upkeep.coalescing.seams.again(ino, pass.moved, shifted(now, rest_ms, 1));
        } else {
            self.upkeep.coalescing.seams.done(ino, pass.moved);
        }
        Ok(true)
    }

    fn plan(&mut self, room: &Room, target: Target, from: u64, before: TimeNs) -> Outcome<Window> {
        match target {
            Target::File(ino) => self.plan_file(room, ino, from),
            Target::Directory(ino) => self.plan_directory(room, ino, from, before),
        }
    }

    /// Whether a window can be written without falling below the high-water mark, on a volume that is not nearly full. If
    /// segments that wait for checkpoints would suffice, it writes a checkpoint.
    ///
    /// # Errors
    /// `Need`; `Room`: a checkpoint is under way.
    fn room_for(&mut self, now: TimeNs, room: &Room, window: &Window) -> Outcome<RoomFor> {
        if self.accounts.live_bytes() > self.capacity_bytes() / 100 * FULL_PERCENT {
            return Ok(RoomFor::Nothing(Shortage::Full));
        }
        let needed = self.segments_for(window) as u64;
        if room.stays_high(needed) {
            return Ok(RoomFor::Window);
        }
        if self.tables.usage.is_held() {
            return Ok(RoomFor::Nothing(Shortage::NoGain));
        }
        if !room.will_stay_high(needed) {
            return Ok(RoomFor::AfterCleaning);
        }
        if !self.writer.jobs.checkpoint_under_way() {
            self.checkpoint(now, Occasion::Room)?;
        }
        Err(Stop::Room)
    }

    /// Does a step of cleaning for a request to coalesce. False if cleaning gains no more room.
    ///
    /// # Errors
    /// `Need`; `Room` while writes are under way.
    fn clean_for_order(&mut self, now: TimeNs, room: &Room) -> Outcome<bool> {
        if self.has_cleaned_in_vain() {
            return Ok(false);
        }
        self.upkeep.cleaning.is_on_demand = self.idle_in_ms(now) > 0;
        match self.make_room(now, room, true)? {
            Some(Step::Worked) => Ok(true),
            Some(Step::Waiting) => Err(Stop::Room),
            Some(Step::Stuck | Step::Idle(_)) | None => Ok(false),
        }
    }

    /// Segments that a window takes at most in the logs of content and of metadata.
    fn segments_for(&self, window: &Window) -> usize {
        let items = window.moves.len();
        let sectors = window.bytes().div_ceil(u64::from(SECTOR_BYTES));
        // The indirect blocks above the content, up to the deepest level, and two blocks for each file.
        let above = items as u64 / self.geo.map.pointers_per_block() + u64::from(LEVELS) + 2 * window.files;
        let above_sectors = above * u64::from(self.grid().block_sectors);
        Log::segments_needed(&self.geo, items, sectors)
            + Log::segments_needed(&self.geo, above as usize, above_sectors)
    }

    /// Rewrites a window that is in memory.
    fn rewrite(&mut self, now: TimeNs, target: Target, window: &Window) -> Outcome<()> {
        // Nothing else is dirty, so the commit cannot stop once there are enough clean segments at hand.
        self.ensure_pool(self.segments_for(window))?;
        // A reader has to seek if the log does not continue in the segment right after the one that it leaves.
        self.writer.log.order_pool_for(data_log(self.log_for_coldest()));
        let mut last = None;
        for part in &window.moves {
            let ino = match *part {
                Move::Block(key, ptr) => {
                    self.make_dirty(key, None, ptr.stored_bytes(), Turn::Moves);
                    key.ino
                }
                Move::Record(ino) => {
                    self.mark_turned(ino, Turn::Moves);
                    ino
                }
            };
            if let Some(before) = last.replace(ino).filter(|before| *before != ino) {
                self.settle_record(before);
            }
        }
        if let Some(ino) = last {
            self.settle_record(ino);
        }
        let cause = match target {
            Target::Directory(_) if window.records.bytes == 0 => Cause::OrderingInline,
            Target::Directory(_) | Target::File(_) => Cause::Ordering,
        };
        self.commit_scope(now, Scope::All, cause)?;
        self.count_passes_anew();
        self.accounts.counters.coalesced_bytes += window.bytes();
        if self.upkeep.coalescing.counted.replace(target.ino()) != Some(target.ino())
            || matches!(target, Target::Directory(_))
        {
            self.accounts.counters.coalesced_files += window.files;
        }
        Ok(())
    }

    /// Puts one window of a file, or of the small files of a directory, in order on request, or cleans some segments to make
    /// room for that: then `next` is `from` again. `from`: 0, then the `next` of the previous step.
    ///
    /// # Errors
    /// `Need`; `Room` while writes are under way; `NotFound`, `Corrupt`, `ReadOnly`; `Invalid` for anything but a file or
    /// directory.
    pub fn coalesce(&mut self, now: TimeNs, ino: InodeNo, from: u64) -> Outcome<Coalesced> {
        let result = self.try_coalesce_asked(now, ino, from);
        self.upkeep.port_gathering = matches!(result, Err(Stop::Need(_)));
        if !self.upkeep.port_gathering {
            self.upkeep.coalescing.damaged.clear();
        }
        result
    }

    fn try_coalesce_asked(&mut self, now: TimeNs, ino: InodeNo, from: u64) -> Outcome<Coalesced> {
        self.standing.refuse()?;
        if self.writer.jobs.in_flight_bytes() >= 2 * self.options.write_threshold_bytes {
            return Err(Stop::Room);
        }
        let target = match self.inode(ino)?.kind {
            Kind::Regular => Target::File(ino),
            Kind::Directory => Target::Directory(ino),
            _ => return Err(FsError::Invalid("neither a file nor a directory").into()),
        };
        if self.core(ino).reap_from.is_some() {
            return Err(Stop::Room);
        }
        self.commit_scope(now, Scope::All, Cause::Due)?;
        let room = self.room_now();
        let window = self.plan(&room, target, from, TimeNs(i64::MAX))?;
        let stretch = window.stretch();
        let mut done = Coalesced {
            next: window.next,
            bytes: window.bytes(),
            seams_before: stretch.seams,
            seams_after: stretch.seams,
            ..Coalesced::default()
        };
        if !pays(&stretch, Evidence::Asked, &self.grid(), &self.options.medium) {
            return Ok(done);
        }
        match self.room_for(now, &room, &window)? {
            RoomFor::Window => {}
            // This window is next again: a request does one thing at a time, so that others get their turn.
            RoomFor::AfterCleaning if self.clean_for_order(now, &room)? => {
                return Ok(Coalesced { next: Some(from), ..Coalesced::default() });
            }
            RoomFor::AfterCleaning => {
                return Ok(Coalesced { shortage: Some(Shortage::NoGain), ..done });
            }
            RoomFor::Nothing(why) => return Ok(Coalesced { shortage: Some(why), ..done }),
        }
        self.bring(&window)?;
        self.rewrite(now, target, &window)?;
        done.moved_bytes = window.bytes();
        done.seams_after = self.seams_now(&window)?;
        Ok(done)
    }
}

/// That much later (`sign` 1) or earlier (-1).
fn shifted(time: TimeNs, by_ms: u64, sign: i64) -> TimeNs {
    let by_ns = i64::try_from(by_ms).unwrap_or(i64::MAX).saturating_mul(NS_PER_MS);
    TimeNs(time.0.saturating_add(by_ns.saturating_mul(sign)))
}
