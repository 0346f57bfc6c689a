//! Discard: tells the device, if the options say so, which segments are empty.
//!
//! A segment found empty by checkpoint n is discarded when n + 1 is durable: then neither slot, nor roll-forward from either,
//! reaches it. If a hold keeps it longer, or n + 1 goes into both slots, the log may take it first: then it is not discarded. The previous mount had no time to discard the segments that it emptied last; a slow walk through the usage
//! table finds them, a leaf in each idle step. An unmount leaves little to find: before its last checkpoint it writes another
//! one.
//!
//! [`Lfs::trim`] discards all clean segments on request, whether they were ever written or not, and whether the mount discards
//! by itself or not.
//!
//! Invariants: no segment is discarded that a log has taken since it was found empty, or that a reader pins; none is written while its
//! discard is under way (`Jobs::is_discarding`); and no two discards under way have the same bytes.

use crate::error::{Outcome, Stop};
use crate::lfs::Lfs;
use crate::lfs::base::damage::Thing;
use crate::lfs::base::occasion::Occasion;
use crate::mutation::{Mutation, is_on};
use firnfs_format::checkpoint::Checkpoint;
use firnfs_format::{Epoch, SegmentId, TimeNs};
use std::collections::BTreeMap;

/// Segments to be discarded once checkpoints are durable, and the search for segments that earlier mounts emptied.
#[derive(Default)]
pub(in crate::lfs) struct Discard {
    /// Segments found empty, with the checkpoint that did, until they are discarded or written again.
    emptied: BTreeMap<SegmentId, Epoch>,
    /// Next leaf of the usage table; `None` when the search has ended.
    next_leaf: Option<u64>,
    /// First and last checkpoint whose emptied segments may not have been discarded.
    emptied_by: (Epoch, Epoch),
    /// The checkpoint before the mount's last one has been written.
    is_ending: bool,
    /// Why the device refused a discard, the last time that it did.
    refused: Option<String>,
}

/// The result of one part of a trim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trimmed {
    /// Clean segments, in bytes.
    pub bytes: u64,
    /// Where the next part begins; `None` after the last.
    pub next: Option<u64>,
    /// How many parts there are.
    pub parts: u64,
}

impl Discard {
    /// For a mount that starts from `base`. A mount that crashed before its first checkpoint used up two checkpoint
    /// numbers, so segments that it could not discard may have numbers that much older.
    pub(in crate::lfs) fn from(base: &Checkpoint) -> Self {
        let crashed_mounts = base.spans.len() as u32;
        let oldest = Epoch(base.epoch.0.saturating_sub(1 + 2 * crashed_mounts).max(1));
        Self { next_leaf: Some(0), emptied_by: (oldest, base.epoch), ..Self::default() }
    }

    /// Notes the segments that a checkpoint found empty.
    pub(in crate::lfs) fn note_emptied(&mut self, found_by: Epoch, segments: Vec<SegmentId>) {
        self.emptied.extend(segments.into_iter().map(|segment| (segment, found_by)));
    }

    /// The log will write to that segment before it is discarded.
    pub(in crate::lfs) fn forget(&mut self, segment: SegmentId) {
        self.emptied.remove(&segment);
    }

    /// Takes out the segments found empty before that checkpoint, in the order in which they were found.
    fn take_found_before(&mut self, reusable: Epoch) -> Vec<SegmentId> {
        let is_due = |found_by: Epoch| found_by < reusable || is_on(Mutation::DiscardAtOnce);
        let mut due: Vec<_> = self.emptied.extract_if(.., |_, found_by| is_due(*found_by)).collect();
        due.sort_by_key(|(_, found_by)| *found_by);
        due.into_iter().map(|(segment, _)| segment).collect()
    }

    /// The volume ends before that segment.
    pub(in crate::lfs) fn end_at(&mut self, end: SegmentId) {
        self.emptied.split_off(&end);
    }
}

impl Lfs {
    fn discard_segment(&mut self, segment: SegmentId) {
        let at_bytes = self.geo.device_bytes(self.geo.addr(segment, 0));
        if self.options.discard && self.may_discard(segment, at_bytes) {
            self.writer.jobs.push_discard(at_bytes, u64::from(self.geo.segment_bytes));
        }
    }

    /// False for a segment that a log or a reader uses, or that is being discarded already: after the first discard of two the log may
    /// write there.
    fn may_discard(&self, segment: SegmentId, at_bytes: u64) -> bool {
        !self.writer.log.is_taken(segment)
            && !self.writer.pins.is_pinned(segment)
            && !self.writer.jobs.is_discarding(at_bytes)
    }

    /// Discards the segments that were found empty by checkpoints before the one that is durable now.
    pub(in crate::lfs) fn discard_emptied(&mut self, durable: Epoch) {
        let reusable = self.tables.usage.reusable_before(durable);
        for segment in self.upkeep.discard.take_found_before(reusable) {
            self.discard_segment(segment);
        }
    }

    /// Examines one more leaf. Returns false if there is nothing to search, or not yet.
    pub(in crate::lfs) fn discard_step(&mut self) -> Outcome<bool> {
        let (oldest, newest) = self.upkeep.discard.emptied_by;
        let Some(leaf) = self.upkeep.discard.next_leaf.filter(|_| self.options.discard) else {
            return Ok(false);
        };
        if self.tables.slots.durable() <= newest {
            return Ok(false);
        }
        if leaf >= self.tables.usage.leaves() {
            self.upkeep.discard.next_leaf = None;
            return Ok(false);
        }
        match self.tables.usage.leaf(&mut self.shelf, leaf) {
            Ok(entries) => {
                let emptied = |epoch: Epoch| (oldest..=newest).contains(&epoch);
                let left = entries.iter().filter(|(_, entry)| !entry.in_use && emptied(entry.epoch));
                left.for_each(|(segment, _)| self.discard_segment(*segment));
            }
            Err(Stop::Fail(why)) => self.put_in_quarantine(Thing::SegmentUsage, why),
            Err(stop) => return Err(stop),
        }
        self.upkeep.discard.next_leaf = Some(leaf + 1);
        Ok(true)
    }

    /// Writes a checkpoint before the mount's last one: it finds segments empty that may be discarded after the last one.
    ///
    /// # Errors
    /// As [`Self::checkpoint`].
    pub(in crate::lfs) fn checkpoint_before_last(&mut self, now: TimeNs) -> Outcome<()> {
        let has_changed = self.due.has_changed() || self.dirty_bytes() > 0;
        if self.options.discard && has_changed && !self.upkeep.discard.is_ending {
            self.checkpoint(now, Occasion::Due)?;
            self.upkeep.discard.is_ending = true;
        }
        Ok(())
    }

    /// Queues discards of all clean segments of a part of the volume, neighbours together. `part`: 0, then the `next` of the
    /// previous call. Segments that the last two checkpoints found empty count once these are durable.
    ///
    /// # Errors
    /// `Need`; `ReadOnly`.
    pub fn trim(&mut self, part: u64) -> Outcome<Trimmed> {
        self.standing.refuse()?;
        let parts = self.tables.usage.leaves();
        if part >= parts {
            return Ok(Trimmed { parts, ..Trimmed::default() });
        }
        let mut trimmed = Trimmed { bytes: 0, next: Some(part + 1).filter(|next| *next < parts), parts };
        let entries = match self.tables.usage.leaf(&mut self.shelf, part) {
            Ok(entries) => entries,
            Err(Stop::Fail(why)) => {
                self.put_in_quarantine(Thing::SegmentUsage, why);
                return Ok(trimmed);
            }
            Err(stop) => return Err(stop),
        };
        let segment_bytes = u64::from(self.geo.segment_bytes);
        let mut run: Option<(u64, u64)> = None;
        for (segment, entry) in entries {
            let at_bytes = self.geo.device_bytes(self.geo.addr(segment, 0));
            let is_clean = !entry.in_use && self.tables.usage.is_ready(&entry, self.tables.slots.durable());
            if !is_clean || !self.may_discard(segment, at_bytes) {
                continue;
            }
            trimmed.bytes += segment_bytes;
            match &mut run {
                Some((start, len)) if *start + *len == at_bytes => *len += segment_bytes,
                _ => {
                    let before = run.replace((at_bytes, segment_bytes));
                    before.into_iter().for_each(|(start, len)| self.writer.jobs.push_discard(start, len));
                }
            }
        }
        run.into_iter().for_each(|(start, len)| self.writer.jobs.push_discard(start, len));
        Ok(trimmed)
    }

    /// True while a discard is in line or under way.
    #[must_use]
    pub fn is_discarding(&self) -> bool {
        self.writer.jobs.discards()
    }

    /// True while a checkpoint is on its way.
    #[must_use]
    pub fn is_checkpointing(&self) -> bool {
        self.writer.jobs.checkpoint_under_way()
    }

    /// Notes that the device refused a discard. No data depends on it, but the caller of a trim should learn it.
    pub(in crate::lfs) fn note_refused_discard(&mut self, why: String) {
        self.upkeep.discard.refused = Some(why);
    }

    /// Why the device refused a discard since the last call, if it did.
    pub fn take_refused_discard(&mut self) -> Option<String> {
        self.upkeep.discard.refused.take()
    }
}
