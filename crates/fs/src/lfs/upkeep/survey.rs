//! The survey: a bounded walk over the files of a volume, in idle time after a mount, that finds those whose hints were lost with
//! the last mount.
//!
//! It examines the inodes by number, [`BATCH`] at a time with a pause in between, [`INODES_MAX`] in all; on a volume with more,
//! the next mount begins where this one ends. It plans the first window of each file. A file that would be put in order even
//! without an observed reader gets a hint, as if it had just been overwritten. Hints that only readers can give (long runs are
//! worth joining, a program walks a directory) come back when programs read.
//!
//! Invariants: it moves nothing; it skips damaged files; it ends. Caller: `coalesce`, when there are no hints to follow.

use crate::clean::scatter::{Evidence, pays};
use crate::error::{Outcome, Stop, gather_needs};
use crate::inode::{Body, Kind};
use crate::lfs::Lfs;
use crate::lfs::room::segments::Room;
use firnfs_format::{Incarnation, InodeNo, TimeNs};
use std::collections::BTreeSet;

/// Inode numbers that one step examines.
const BATCH: u64 = 64;
/// Inode numbers that one mount examines.
const INODES_MAX: u64 = 1 << 14;
/// Pause after a step, in nanoseconds.
const PAUSE_NS: i64 = 1_000_000_000;

/// The progress of the survey.
#[derive(Clone, Debug)]
pub(in crate::lfs) struct Survey {
    next: u64,
    /// Unreadable inodes of the present batch. They are not requested again: otherwise two of them would be read in turn for
    /// ever.
    damaged: BTreeSet<InodeNo>,
    /// Numbers still to be examined.
    left: u64,
    not_before: TimeNs,
}

impl Survey {
    /// Before the first step of a mount of a volume with inode numbers up to `end`.
    fn new(incarnation: Incarnation, end: InodeNo) -> Self {
        let end = end.0.max(1);
        let next = u64::from(incarnation.0).wrapping_mul(INODES_MAX) % end.next_multiple_of(INODES_MAX);
        let next = if next < end { next } else { 0 };
        Self { next, damaged: BTreeSet::new(), left: end.min(INODES_MAX), not_before: TimeNs::default() }
    }

    /// How long until the next step, in milliseconds; `None` if it has ended.
    fn due_in_ms(&self, now: TimeNs) -> Option<u64> {
        // If the clock is set back, the pause does not get longer.
        let wait_ms = self.not_before.millis_since(now).min(PAUSE_NS as u64 / 1_000_000);
        (self.left > 0).then_some(wait_ms)
    }

    fn advance(&mut self, now: TimeNs, end: InodeNo) {
        let count = BATCH.min(self.left);
        self.left -= count;
        self.damaged.clear();
        self.next = if self.next + count >= end.0 { 0 } else { self.next + count };
        self.not_before = TimeNs(now.0.saturating_add(PAUSE_NS));
    }
}

impl Lfs {
    /// How long until the next files are examined, in milliseconds; `None` if all were.
    pub(in crate::lfs) fn survey_in_ms(&self, now: TimeNs) -> Option<u64> {
        self.upkeep.coalescing.survey.as_ref().map_or(Some(0), |survey| survey.due_in_ms(now))
    }

    /// Examines the next files. Returns whether it did.
    ///
    /// # Errors
    /// `Need`.
    pub(in crate::lfs) fn survey_step(&mut self, now: TimeNs) -> Outcome<bool> {
        let end = self.tables.imap.next_ino();
        let incarnation = self.writer.log.incarnation();
        let begun = self.upkeep.coalescing.survey.take();
        let mut survey = begun.unwrap_or_else(|| Survey::new(incarnation, end));
        let is_due = survey.due_in_ms(now) == Some(0);
        let looked = if is_due { self.look_at_batch(&mut survey, end) } else { Ok(()) };
        if is_due && looked.is_ok() {
            survey.advance(now, end);
        }
        self.upkeep.coalescing.survey = Some(survey);
        looked.map(|()| is_due)
    }

    fn look_at_batch(&mut self, survey: &mut Survey, end: InodeNo) -> Outcome<()> {
        let mut needs = Vec::new();
        let mut scattered = Vec::new();
        let room = self.room_now();
        let last = survey.next.saturating_add(BATCH.min(survey.left)).min(end.0);
        for ino in (survey.next.max(InodeNo::FIRST_USER.0)..last).map(InodeNo) {
            if survey.damaged.contains(&ino) {
                continue;
            }
            match gather_needs(self.is_scattered(&room, ino), &mut needs) {
                Ok(Some(true)) => scattered.push(ino),
                Ok(_) => {}
                Err(Stop::Fail(_)) => drop(survey.damaged.insert(ino)),
                Err(stop) => return Err(stop),
            }
        }
        if !needs.is_empty() {
            return Err(Stop::Need(self.in_order(needs)));
        }
        for ino in scattered {
            self.upkeep.coalescing.seams.note_overwrite(ino);
        }
        Ok(())
    }

    /// Whether a file would be put in order even without an observed reader.
    fn is_scattered(&mut self, room: &Room, ino: InodeNo) -> Outcome<bool> {
        if !self.tables.imap.get(&mut self.shelf, ino)?.ptr.is_stored() {
            return Ok(false);
        }
        let core = self.load_inode(ino)?;
        let is_file = core.inode.kind == Kind::Regular && matches!(core.inode.body, Body::Blocks);
        if !is_file || core.freed || core.reap_from.is_some() {
            return Ok(false);
        }
        let window = self.plan_file(room, ino, 0)?;
        Ok(pays(&window.stretch(), Evidence::Overwritten, &self.grid(), &self.options.medium))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that a mount examines.
    fn looked_at(incarnation: u32, end: u64) -> Vec<u64> {
        let mut survey = Survey::new(Incarnation(incarnation), InodeNo(end));
        let mut seen = Vec::new();
        let mut now = TimeNs(5_000_000_000);
        while let Some(wait_ms) = survey.due_in_ms(now) {
            now.0 += wait_ms as i64 * 1_000_000;
            seen.extend(survey.next..(survey.next + BATCH.min(survey.left)).min(end));
            survey.advance(now, InodeNo(end));
        }
        seen
    }

    #[test]
    fn each_mount_of_a_small_volume_examines_all_files() {
        for (incarnation, end) in [(1, 1), (1, 63), (7, 64), (3, 1000), (u32::MAX, INODES_MAX)] {
            let seen = looked_at(incarnation, end);
            assert_eq!(seen, (0..end).collect::<Vec<_>>(), "{incarnation}, {end}");
        }
    }

    #[test]
    fn mounts_of_a_large_volume_take_turns() {
        let end = 3 * INODES_MAX + 100;
        let mut seen: Vec<u64> = (10..14).flat_map(|incarnation| looked_at(incarnation, end)).collect();
        assert!(seen.len() as u64 <= 4 * INODES_MAX);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len() as u64, end);
    }

    #[test]
    fn it_pauses_between_steps_also_if_the_clock_is_set_back() {
        let mut survey = Survey::new(Incarnation(1), InodeNo(1000));
        let now = TimeNs(9_000_000_000);
        assert_eq!(survey.due_in_ms(now), Some(0));
        survey.advance(now, InodeNo(1000));
        assert_eq!(survey.due_in_ms(now), Some(1000));
        assert_eq!(survey.due_in_ms(TimeNs(1)), Some(1000));
        assert_eq!(survey.due_in_ms(TimeNs(10_000_000_000)), Some(0));
    }
}
