//! Clean segments: how many there are, and who may take them. All code that takes clean segments asks here "how much room".
//!
//! A [`Room`] is a value, computed from the tables at the beginning of a step or an operation and handed down from there. Code that
//! goes on after a commit, a checkpoint or a refused attempt at one computes it again (`Lfs::room_now`); nothing else changes it. Clean
//! segments have an order of claims. From the bottom up:
//!
//! ```text
//!  0 ........ reserve ....... low ....... high ........ idle target ........ ready
//!  checkpoints, cleaner  |  users' commits; below low the cleaner works on demand, up to high; in idle time up to the target
//! ```
//! - A *checkpoint* is never refused for the reserve: it may take the last clean segments.
//! - The *cleaner* takes what a checkpoint after its pass does not need ([`Room::for_moves`]); in idle time it stays above low.
//! - *Users* are admitted as long as all dirty data can be laid out above the reserve ([`Room::admits`]). Otherwise they
//!   wait for the cleaner; lack of clean segments is never ENOSPC.
//!
//! A reader or a discard may still use a clean segment ([`Room::takeable`]). Both end by themselves and need no room, so they delay a
//! caller that takes segments, but do not change the order of claims. A pass of the cleaner can wait, and does without such segments.
//!
//! Invariants, property-tested below without a volume: whatever the order of requests, a checkpoint finds the segments that it
//! needs, at the latest when readers and discards have ended; and if users have to wait, a checkpoint or a pass of the cleaner is
//! possible and makes room for them.
//!
//! Each additional clean segment makes the segments in use fuller, and cleaning them more expensive. So low, high and target
//! are at most a quarter, a half and a half of the space beyond the reserve that is not live. Somebody may set other marks
//! (`marks`), up to three quarters of that space.

use crate::lfs::room::marks::Thresholds;

/// The target is room for a burst of writes times this, in quarters: a burst brings metadata and unused ends of segments with
/// it.
const BURST_QUARTERS: u64 = 5;
/// The target is at least this part of the space beyond the reserve that is not live: the size of the first burst is not
/// known.
const TARGET_LEAST_PART: u64 = 8;

/// See the module's head. Counts are segments unless they say bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lfs) struct Room {
    /// Of the volume.
    pub segments: u64,
    /// Clean and ready to be written, now or when readers and discards have ended.
    pub ready: u64,
    /// Clean, but writable only after checkpoints.
    pub waiting: u64,
    /// Emptied by the cleaner: the next checkpoint finds them empty, and they are clean then.
    pub emptied: u64,
    /// Ready ones that reads in flight still use.
    pub pinned: u64,
    /// Ready ones that are being discarded.
    pub discarding: u64,
    /// Clean segments kept for checkpoints and the cleaner.
    pub reserve: u64,
    /// How many of those a checkpoint and the end of its write take, beyond the inode map.
    pub checkpoint: u64,
    /// Open logs: each may enter a segment for the last part of a write.
    pub open_logs: u64,
    /// Segments that all live data would take if it lay close together.
    pub live: u64,
    /// Segments for a few commits.
    pub commits: u64,
    /// Bytes of a segment that can hold live data.
    pub usable_bytes: u64,
    /// Size of a segment in bytes.
    pub segment_bytes: u64,
    /// Dirty bytes.
    pub dirty_bytes: u64,
    /// Of those, bytes of indirect blocks that a commit by size may leave in memory, as far as the options go.
    pub holdable_bytes: u64,
    /// Bytes of changed table blocks for which the reserve has no room.
    pub tables_bytes: u64,
    /// The largest recent burst of users' writes, in bytes.
    pub burst_bytes: u64,
    /// Marks that somebody has set.
    pub thresholds: Thresholds,
}

impl Room {
    /// True if all dirty data and `more_bytes` can be laid out without touching the reserve. A quarter of the free room is left
    /// for the unused ends of segments and for errors of the estimate.
    pub fn admits(&self, more_bytes: u64) -> bool {
        let free = self.ready.saturating_sub(self.reserve);
        self.dirty_bytes + more_bytes + self.tables_bytes <= free * self.usable_bytes * 3 / 4
    }

    /// Dirty bytes that count towards the write threshold: all but the indirect blocks that may stay in memory. Those are at most a
    /// quarter of the room above the reserve, because users' writes are admitted by all that is dirty ([`Self::admits`]).
    pub fn committable_bytes(&self) -> u64 {
        let free_bytes = self.ready.saturating_sub(self.reserve) * self.usable_bytes;
        self.dirty_bytes - self.holdable_bytes.min(free_bytes / 4)
    }

    /// Clean segments that a pass of the cleaner may fill. It leaves those in which the logs will continue, one for each log
    /// for the last part of the pass's write, those of the checkpoint and the end of its write, and those for dirty data, which
    /// is written first, and to all logs too. And it fills no more than can be written at once: what it has turned dirty and cannot
    /// lay out would be in the way of every later commit.
    pub fn for_moves(&self) -> u64 {
        let dirty = match self.dirty_bytes {
            0 => 0,
            bytes => bytes.div_ceil(self.usable_bytes) + self.open_logs + 1,
        };
        self.ready.saturating_sub(2 * self.open_logs + self.checkpoint + dirty).min(self.takeable())
    }

    /// The same once users have written that many segments, and at least their dirty data. They take none of the reserve.
    pub fn for_moves_after(&self, segments: u64) -> u64 {
        let taken = segments.max(self.dirty_bytes.div_ceil(self.usable_bytes));
        let ready = self.ready.saturating_sub(taken).max(self.ready.min(self.reserve));
        Self { ready, dirty_bytes: 0, ..*self }.for_moves()
    }

    /// The same in idle time: users that come back find the clean segments for a few commits untouched.
    pub fn for_idle_moves(&self) -> u64 {
        self.for_moves().min(self.ready.saturating_sub(self.usual_low()))
    }

    /// Clean segments that may be filled to empty those that the log leaves. This gives no clean segments, so the reserve stays.
    pub fn for_leaving(&self) -> u64 {
        self.for_moves().min(self.ready.saturating_sub(self.reserve))
    }

    /// Clean segments that a cleaner outside may fill. A move that gives no clean segment must leave the reserve alone, as users'
    /// writes do: otherwise requests to move parts of segments would take the room that cleaning needs.
    pub fn for_asked_moves(&self, gives_room: bool) -> u64 {
        self.for_moves().saturating_sub(if gives_room { 0 } else { self.reserve })
    }

    /// Segments that one window of coalescing may have: more while many are clean.
    pub fn for_window(&self) -> u64 {
        let spare = self.ready.saturating_sub(self.high()) / 2;
        (self.segments / 32).max(spare)
    }

    /// Segments beyond the reserve without live data, as if all live data lay close together.
    pub(super) fn free(&self) -> u64 {
        self.segments.saturating_sub(self.live + self.reserve)
    }

    /// The reserve and enough for a few commits: the low-water mark unless somebody has set another.
    pub fn usual_low(&self) -> u64 {
        self.reserve + (4 + self.commits).min(self.free() / 4).max(1)
    }

    /// The low-water mark, below which the cleaner starts.
    pub fn low(&self) -> u64 {
        self.thresholds.low.map_or_else(|| self.usual_low(), |low| low.clamp(self.least(), self.most()))
    }

    /// The high-water mark, up to which cleaning on demand goes on.
    pub fn high(&self) -> u64 {
        let twice = 2 * self.low() - self.reserve;
        self.thresholds.high.unwrap_or(twice).min(self.most()).max(self.low())
    }

    /// The mark up to which the cleaner works in idle time.
    pub fn idle_target(&self) -> u64 {
        self.thresholds
            .idle
            .map_or_else(|| self.usual_target(), |idle| idle.min(self.most()))
            .max(self.high())
    }

    fn usual_target(&self) -> u64 {
        let free = self.free();
        let burst = (self.burst_bytes / 4 * BURST_QUARTERS).div_ceil(self.segment_bytes);
        let target = (self.low() + burst).max(self.reserve + free / TARGET_LEAST_PART);
        target.min(self.reserve + free / 2)
    }

    /// True if clean segments are too few for a few commits.
    pub fn is_short(&self) -> bool {
        self.ready < self.usual_low()
    }

    /// True if they will be too few even after checkpoints.
    pub fn is_short_in_the_end(&self) -> bool {
        self.in_the_end() < self.usual_low()
    }

    /// True below the low-water mark.
    pub fn is_low(&self) -> bool {
        self.ready < self.low()
    }

    /// True from the high-water mark on.
    pub fn is_high(&self) -> bool {
        self.ready >= self.high()
    }

    /// True if that many segments can be taken, and the high-water mark holds then.
    pub fn stays_high(&self, less: u64) -> bool {
        self.ready >= self.high() + less
    }

    /// The same after checkpoints alone.
    pub fn will_stay_high(&self, less: u64) -> bool {
        self.clean() >= self.high() + less
    }

    /// True if users' writes wait, or would wait: the cleaner works as fast as it can.
    pub fn is_at_reserve(&self) -> bool {
        self.ready <= self.reserve
    }

    /// True if a part of the reserve is taken: the cleaner takes what gives the most room now.
    pub fn is_below_reserve(&self) -> bool {
        self.ready < self.reserve
    }

    /// True if idle time has work to do.
    pub fn is_below_target(&self) -> bool {
        self.ready < self.idle_target()
    }

    /// True if idle time need not move any more: with what the cleaner has emptied, the target is reached.
    pub fn reaches_target(&self) -> bool {
        self.ready + self.emptied >= self.idle_target()
    }

    /// True if checkpoints alone make room.
    pub fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Clean segments, including those that wait for checkpoints.
    pub fn clean(&self) -> u64 {
        self.ready + self.waiting
    }

    /// The same, including those that a checkpoint will find empty.
    pub fn in_the_end(&self) -> u64 {
        self.clean() + self.emptied
    }

    /// Segments that can be written at once.
    pub fn takeable(&self) -> u64 {
        self.ready.saturating_sub(self.pinned + self.discarding)
    }
}

#[cfg(test)]
#[path = "segments_tests.rs"]
mod tests;
