//! Pins: segments that a read outside the lock is still using; the log does not write to them.
//!
//! If too few clean segments are unpinned, the caller waits until a reader finishes: no other event can help it.

use crate::mutation::{Mutation, is_on};
use firnfs_format::SegmentId;
use std::collections::BTreeMap;

/// See the module's head.
#[derive(Default)]
pub struct Pins {
    next: u64,
    held: BTreeMap<u64, Vec<SegmentId>>,
    counts: BTreeMap<SegmentId, u32>,
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
                }
            }
        }
        std::mem::take(&mut self.is_awaited)
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
