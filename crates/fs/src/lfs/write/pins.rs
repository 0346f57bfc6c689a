//! Pins: segments that a read outside the lock is still using; the log does not write to them.
//!
//! If too few clean segments are unpinned, the caller waits until a reader finishes: no other event can help it.

use crate::mutation::{Mutation, is_on};
use firnfs_format::{Epoch, SegmentId};
use std::collections::BTreeMap;

/// See the module's head.
#[derive(Default)]
pub struct Pins {
    next: u64,
    held: BTreeMap<u64, Vec<SegmentId>>,
    counts: BTreeMap<SegmentId, u32>,
    /// Those that have turned clean since they were pinned, with the checkpoint that found them empty.
    clean: BTreeMap<SegmentId, Epoch>,
    /// A commit was short of segments, and some were clean but pinned.
    is_awaited: bool,
}

impl Pins {
    /// Pins segments; 0 if there are none.
    pub fn pin(&mut self, mut segments: Vec<SegmentId>) -> u64 {
        segments.sort_unstable();
        segments.dedup();
        if segments.is_empty() {
            return 0;
        }
        for segment in &segments {
            *self.counts.entry(*segment).or_default() += 1;
        }
        self.next += 1;
        self.held.insert(self.next, segments);
        self.next
    }

    /// Notes whether a commit lacks clean segments only because readers pin some.
    pub fn set_awaited(&mut self, is_awaited: bool) {
        self.is_awaited = is_awaited;
    }

    /// What [`Self::set_awaited`] noted last, unless a pin was released since.
    pub fn is_awaited(&self) -> bool {
        self.is_awaited && !self.counts.is_empty()
    }

    /// Releases a pin; true if an operation waits for that.
    pub fn unpin(&mut self, pin: u64) -> bool {
        for segment in self.held.remove(&pin).unwrap_or_default() {
            if let Some(count) = self.counts.get_mut(&segment) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&segment);
                    self.clean.remove(&segment);
                }
            }
        }
        std::mem::take(&mut self.is_awaited)
    }

    /// A checkpoint found these segments empty. A plan of a read leads only to blocks that are live, so no other clean segment is
    /// ever pinned.
    pub fn note_emptied(&mut self, found_by: Epoch, segments: &[SegmentId]) {
        let pinned = segments.iter().filter(|segment| self.is_pinned(**segment));
        let pinned: Vec<_> = pinned.map(|segment| (*segment, found_by)).collect();
        self.clean.extend(pinned);
    }

    /// Clean segments that readers hold, of those that the checkpoints found empty for which `is_ready` is true.
    pub fn clean_segments(&self, is_ready: impl Fn(Epoch) -> bool) -> u64 {
        self.clean.values().filter(|found_by| is_ready(**found_by)).count() as u64
    }

    /// True while a reader holds any segment from that one on.
    pub fn is_pinned_from(&self, first: SegmentId) -> bool {
        self.counts.range(first..).next().is_some()
    }

    /// True while a reader holds that segment.
    pub fn is_pinned(&self, segment: SegmentId) -> bool {
        self.counts.contains_key(&segment) && !is_on(Mutation::NoPins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_segments_count_as_clean_from_the_checkpoint_that_found_them_empty_until_the_last_reader_ends() {
        let mut pins = Pins::default();
        let segments = [3, 4, 5].map(SegmentId);
        let (first, second) = (pins.pin(segments[..2].to_vec()), pins.pin(segments[1..].to_vec()));
        assert_eq!(pins.clean_segments(|_| true), 0);
        pins.note_emptied(Epoch(7), &[SegmentId(4), SegmentId(9)]);
        pins.note_emptied(Epoch(8), &[SegmentId(5)]);
        assert_eq!(pins.clean_segments(|found_by| found_by < Epoch(8)), 1);
        assert_eq!(pins.clean_segments(|_| true), 2);
        pins.unpin(second);
        assert_eq!(pins.clean_segments(|_| true), 1);
        pins.unpin(first);
        assert_eq!(pins.clean_segments(|_| true), 0);
    }
}
