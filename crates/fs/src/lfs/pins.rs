//! Pins: segments that a read outside the lock is still using; they are not given out for writing.

use crate::mutation::{Mutation, is_on};
use firnfs_format::SegmentId;
use std::collections::BTreeMap;

/// See the module's head.
#[derive(Default)]
pub struct Pins {
    next: u64,
    held: BTreeMap<u64, Vec<SegmentId>>,
    counts: BTreeMap<SegmentId, u32>,
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

    /// Gives a pin back.
    pub fn unpin(&mut self, pin: u64) {
        for segment in self.held.remove(&pin).unwrap_or_default() {
            if let Some(count) = self.counts.get_mut(&segment) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&segment);
                }
            }
        }
    }

    /// True while somebody reads that segment.
    pub fn is_pinned(&self, segment: SegmentId) -> bool {
        self.counts.contains_key(&segment) && !is_on(Mutation::NoPins)
    }
}
