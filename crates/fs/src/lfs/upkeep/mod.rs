//! Background work, one bounded step at a time (`step`): cleaning (`choose`, `clean`, `victim`, `dirtied`, and `port` for cleaners outside), freeing the
//! blocks of deleted files (`reap`), putting scattered files in order (`coalesce`, planned by `coalesce_plan`, found by `seams`,
//! `hints` and `survey`), discarding (`discard`), emptying the end of the volume (`shrink`), copying what retained points see (`keep`),
//! dropping them (`forget`), and deleting clones (`erase`). `taken` remembers the last victims. `idle` knows when the volume is idle, `snapshot` holds a state
//! for a check.

pub(in crate::lfs) mod choose;
pub(in crate::lfs) mod clean;
pub(in crate::lfs) mod coalesce;
pub(in crate::lfs) mod coalesce_plan;
mod dirtied;
pub(in crate::lfs) mod discard;
pub(in crate::lfs) mod erase;
pub(in crate::lfs) mod forget;
pub(in crate::lfs) mod hints;
pub(in crate::lfs) mod idle;
pub(in crate::lfs) mod keep;
pub mod port;
pub(in crate::lfs) mod reap;
pub(in crate::lfs) mod seams;
pub(in crate::lfs) mod shrink;
pub(in crate::lfs) mod snapshot;
pub(in crate::lfs) mod step;
mod survey;
pub mod taken;
mod victim;

use crate::lfs::base::damage::Quarantine;
use crate::lfs::past::spacing::Spacing;
use crate::lfs::room::throttle::Throttle;
use crate::store::Preparation;
use clean::Cleaning;
use coalesce::Coalescing;
use discard::Discard;
use erase::Erasing;
use firnfs_format::TimeNs;
use keep::Keeping;

/// The state of background work between steps.
pub(in crate::lfs) struct Upkeep {
    pub cleaning: Cleaning,
    /// What is to be copied for retained points from segments that were emptied.
    keeping: Keeping,
    /// How often automatic points are made.
    pub spacing: Spacing,
    /// The volume is open for a repair, which makes no automatic points.
    is_repair: bool,
    /// How far the deletion of a clone has come.
    erasing: Erasing,
    pub coalescing: Coalescing,
    pub throttle: Throttle,
    pub discard: Discard,
    /// Damaged objects that background work skips.
    pub quarantine: Quarantine,
    /// When a user last made a request.
    last_request: TimeNs,
    /// A checkpoint or the cleaner is bringing the blocks into memory that it needs all at once.
    gathering: bool,
    /// The same for a cleaner outside, whose requests come between background steps.
    port_gathering: bool,
    /// How far the commit before the next checkpoint or pass of the cleaner is prepared.
    preparation: Preparation,
}

impl Upkeep {
    /// Before any work.
    pub fn new(now: TimeNs, discard: Discard) -> Self {
        Self {
            cleaning: Cleaning::default(),
            keeping: Keeping::default(),
            spacing: Spacing::default(),
            is_repair: false,
            erasing: Erasing::default(),
            coalescing: Coalescing::default(),
            throttle: Throttle::default(),
            discard,
            quarantine: Quarantine::new(),
            last_request: now,
            gathering: false,
            port_gathering: false,
            preparation: Preparation::default(),
        }
    }

    /// The volume is open for a repair from now on.
    pub fn note_repair(&mut self) {
        self.is_repair = true;
    }

    /// True if the volume is open for a repair.
    pub fn is_repair(&self) -> bool {
        self.is_repair
    }

    /// A user makes a request.
    pub fn note_request(&mut self, now: TimeNs) {
        self.last_request = now;
    }

    /// The clock was set, and no request is later than now.
    pub fn settle_clock(&mut self, now: TimeNs) {
        self.last_request = self.last_request.min(now);
    }

    /// When a user last made a request.
    pub fn last_request(&self) -> TimeNs {
        self.last_request
    }

    /// Whether a checkpoint or the cleaner goes on to bring blocks into memory.
    pub fn gather(&mut self, goes_on: bool) {
        self.gathering = goes_on;
    }

    /// Drops a pass of the cleaner that has not moved anything.
    pub fn drop_pass(&mut self) {
        self.cleaning.forget_victims();
        self.gather(false);
    }

    /// True while a checkpoint or a cleaner gathers the blocks in memory that it needs all at once.
    pub fn gathers(&self) -> bool {
        self.gathering || self.port_gathering || self.coalescing.is_gathering
    }
}
