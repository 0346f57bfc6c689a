//! Discard: emptied segments are given back to the device, when that is asked for.
//!
//! A segment found empty by checkpoint n is discarded when n + 1 is durable: then neither slot, nor roll-forward from either,
//! reaches it. What the previous mount emptied last had nobody left to discard it; a slow look through the usage table finds
//! it, a leaf in each idle step.
//!
//! Invariant: nothing is discarded that a log, the pool or a reader holds, and nothing is written to while its discard is under
//! way (`Jobs::is_discarding`).

use crate::error::{Outcome, Stop};
use crate::lfs::Lfs;
use crate::lfs::base::damage::Thing;
use crate::mutation::{Mutation, is_on};
use firnfs_format::checkpoint::Checkpoint;
use firnfs_format::{Epoch, SegmentId};

/// The look for segments that earlier mounts emptied.
#[derive(Default)]
pub(in crate::lfs) struct DiscardScan {
    /// Next leaf of the usage table; `None` when there is nothing to look for any more.
    next_leaf: Option<u64>,
    /// First and last checkpoint whose emptied segments may not have been discarded.
    emptied_by: (Epoch, Epoch),
}

impl DiscardScan {
    /// For a mount that starts from `base`. A mount that crashed before its first checkpoint left the numbers of its two
    /// slots behind, so what it could not discard may be that much older.
    pub(in crate::lfs) fn from(base: &Checkpoint) -> Self {
        let crashed_mounts = base.spans.len() as u32;
        let oldest = Epoch(base.epoch.0.saturating_sub(1 + 2 * crashed_mounts).max(1));
        Self { next_leaf: Some(0), emptied_by: (oldest, base.epoch) }
    }
}

impl Lfs {
    fn discard_segment(&mut self, segment: SegmentId) {
        let is_free = !self.log.is_taken(segment) && !self.pins.is_pinned(segment);
        if self.options.discard && is_free {
            let at_bytes = self.geo.device_bytes(self.geo.addr(segment, 0));
            self.jobs.push_discard(at_bytes, u64::from(self.geo.segment_bytes));
        }
    }

    /// Discards what checkpoints before the one that is durable now found empty.
    pub(in crate::lfs) fn discard_emptied(&mut self, durable: Epoch) {
        let reusable = self.usage.reusable_before(durable);
        let ready: Vec<_> = self
            .emptied_by
            .extract_if(.., |(e, _)| e.0 < reusable.0 || is_on(Mutation::DiscardAtOnce))
            .collect();
        for segment in ready.into_iter().flat_map(|(_, segments)| segments) {
            self.discard_segment(segment);
        }
    }

    /// Looks at one more leaf. Returns false if there is nothing to look for, or not yet.
    pub(in crate::lfs) fn discard_step(&mut self) -> Outcome<bool> {
        let (oldest, newest) = self.discard_scan.emptied_by;
        let Some(leaf) = self.discard_scan.next_leaf.filter(|_| self.options.discard) else {
            return Ok(false);
        };
        if self.durable_epoch <= newest {
            return Ok(false);
        }
        if leaf >= self.usage.leaves() {
            self.discard_scan.next_leaf = None;
            return Ok(false);
        }
        match self.usage.leaf(&mut self.shelf, leaf) {
            Ok(entries) => {
                let emptied = |epoch: Epoch| (oldest..=newest).contains(&epoch);
                let left = entries.iter().filter(|(_, entry)| !entry.in_use && emptied(entry.epoch));
                left.for_each(|(segment, _)| self.discard_segment(*segment));
            }
            Err(Stop::Fail(why)) => self.put_in_quarantine(Thing::SegmentUsage, why),
            Err(stop) => return Err(stop),
        }
        self.discard_scan.next_leaf = Some(leaf + 1);
        Ok(true)
    }
}
