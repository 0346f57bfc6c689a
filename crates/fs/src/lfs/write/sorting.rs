//! Which log content goes to: collects the facts of a block that `clean::Placement` needs.
//!
//! The old place of a block is known when it turns dirty ([`Origin`]: its old pointer leads to a segment, whose usage entry
//! names the log, and has its birth); later that segment may be clean, or overwritten. An inode record keeps its old pointer
//! until it is laid out. Nothing here stops: where the usage entry is not in memory, the log is not known.
//!
//! The state that a placement has learned is in memory only. After a mount it begins again, from the logs and births on the
//! device, and has learned enough after a few dozen cleaned segments.

use crate::cache::Origin;
use crate::clean::{BlockFacts, Cleaned, Placement, PlacementName, Writer};
use crate::lfs::Lfs;
use crate::lfs::write::eras::{Eras, Present};
use crate::lfs::write::log::{DATA_LOGS_MIN, data_log_of};
use firnfs_format::{BlockPtr, Epoch, SegmentId, TimeNs};

/// See the module's head.
pub(in crate::lfs) struct Sorting {
    /// The placement that the options request, limited to the number of logs that the volume has.
    pub name: PlacementName,
    placement: Box<dyn Placement>,
    eras: Eras,
}

impl Sorting {
    /// For a volume with that many logs for data. Without a name it is DAC in leaps if there are more than
    /// two (docs/decisions/0201).
    pub fn new(name: Option<PlacementName>, data_logs: u8, created: TimeNs) -> Self {
        let name = Self::resolved(name, data_logs);
        Self { name, placement: name.placement(), eras: Eras::since(created) }
    }

    /// Another placement from now on, for the same logs. What is laid out already stays in its log.
    pub fn change(&mut self, name: Option<PlacementName>, data_logs: u8) {
        let name = Self::resolved(name, data_logs);
        if name != self.name {
            (self.name, self.placement) = (name, name.placement());
        }
    }

    fn resolved(name: Option<PlacementName>, data_logs: u8) -> PlacementName {
        let otherwise =
            if data_logs > DATA_LOGS_MIN { PlacementName::default() } else { PlacementName::Split };
        name.unwrap_or(otherwise).within(data_logs)
    }
}

impl Lfs {
    /// The placement in use.
    #[must_use]
    pub fn placement(&self) -> PlacementName {
        self.sorting.name
    }

    fn present(&self, now: TimeNs) -> Present {
        Present { epoch: self.tables.slots.epoch(), now, written_bytes: self.accounts.counters.user_bytes }
    }

    /// The epoch under way has just begun.
    pub(in crate::lfs) fn begin_era(&mut self, now: TimeNs) {
        let present = self.present(now);
        self.sorting.eras.begin(present);
    }

    /// Where a version lies that is about to die or to move; `None` if it is not stored.
    pub(in crate::lfs) fn origin_of(&self, ptr: &BlockPtr) -> Option<Origin> {
        let is_there = ptr.is_stored() && self.geo.is_inside(ptr);
        is_there.then(|| Origin {
            log: self.tables.usage.peek_log(&self.shelf, self.geo.segment_of(ptr.addr)).and_then(data_log_of),
            birth: ptr.birth,
        })
    }

    /// The log for content whose last version, or the version that moves, came from `origin`: one of the placement's numbers.
    pub(in crate::lfs) fn log_for(&self, now: TimeNs, writer: Writer, origin: Option<Origin>) -> u8 {
        let age = |birth: Epoch| self.sorting.eras.since_epoch(birth, self.present(now));
        let log = origin.and_then(|origin| origin.log);
        let facts = BlockFacts {
            writer,
            age: origin.map(|origin| age(origin.birth)),
            log,
            // For placements that use the number of moves it is the number of the log, as far as there are logs; others
            // ignore it.
            moves: log.unwrap_or(0),
        };
        self.sorting.placement.log_for(&facts)
    }

    /// Whether a pass of the cleaner writes the blocks that it moves oldest first.
    pub(in crate::lfs) fn sorts_by_age(&self) -> bool {
        self.sorting.placement.sorts_by_age()
    }

    /// The log for the coldest data.
    pub(in crate::lfs) fn log_for_coldest(&self) -> u8 {
        let facts = BlockFacts { writer: Writer::Cleaner, age: Some(u64::MAX), log: Some(0), moves: u8::MAX };
        self.sorting.placement.log_for(&facts)
    }

    /// Tells the placement that a segment of a log, last written at that moment, is being cleaned.
    pub(in crate::lfs) fn learn(&mut self, now: TimeNs, log: u8, written: TimeNs) {
        let Some(log) = data_log_of(log) else { return };
        let age = self.sorting.eras.since_moment(written, self.present(now));
        self.sorting.placement.segment_cleaned(&Cleaned { log, age });
    }

    /// The same for a segment whose usage entry is in memory.
    pub(in crate::lfs) fn learn_of(&mut self, now: TimeNs, segment: SegmentId) {
        if let Ok(usage) = self.tables.usage.get(&mut self.shelf, segment) {
            self.learn(now, usage.log, usage.written);
        }
    }
}
