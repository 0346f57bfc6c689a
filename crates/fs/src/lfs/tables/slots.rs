//! The checkpoint slots: the number of the next checkpoint, that of the newest durable one, and the checkpoint that goes into both slots.
//!
//! Checkpoints have consecutive numbers and go into the two slots in turn. What a user counts on must be in both, since a slot may become
//! unreadable: then the checkpoint is written a second time under the next number, right after the first.
//!
//! Invariant: the newest durable checkpoint is older than the next one. It decides which segments may be reused.

use crate::mutation::{Mutation, is_on};
use firnfs_format::Epoch;
use firnfs_format::checkpoint::Checkpoint;

/// See the module's head.
pub(in crate::lfs) struct Slots {
    next: Epoch,
    durable: Epoch,
    /// The next checkpoint goes into both slots.
    wants_both: bool,
    /// The checkpoint for the second slot, while the one for the first is under way.
    second: Option<Checkpoint>,
}

impl Slots {
    /// For a volume whose newest checkpoint on the device is this one.
    pub fn new(durable: Epoch) -> Self {
        Self { next: Epoch(durable.0 + 1), durable, wants_both: false, second: None }
    }

    /// Number of the next checkpoint.
    pub fn epoch(&self) -> Epoch {
        self.next
    }

    /// Number of the newest durable checkpoint.
    pub fn durable(&self) -> Epoch {
        self.durable
    }

    /// Number of the checkpoint that will be the first to state what changes now. One that is repeated for the second slot repeats the
    /// state of the first.
    pub fn next_to_state(&self) -> Epoch {
        Epoch(self.next.0 + u32::from(self.second.is_some()))
    }

    /// The next checkpoint goes into both slots.
    pub fn want_both(&mut self) {
        self.wants_both = true;
    }

    /// Notes that a checkpoint is under way.
    pub fn queued(&mut self, epoch: Epoch) {
        self.next = Epoch(epoch.0 + 1);
    }

    /// Repeats the checkpoint under way in the second slot, if that was wanted.
    pub fn repeat_if_wanted(&mut self, checkpoint: Checkpoint) {
        if std::mem::take(&mut self.wants_both) && !is_on(Mutation::PointInOneSlot) {
            self.repeat(checkpoint);
        }
    }

    /// Repeats the checkpoint under way in the second slot.
    pub fn repeat(&mut self, checkpoint: Checkpoint) {
        self.second = Some(Checkpoint { epoch: self.next, ..checkpoint });
    }

    /// Notes that a checkpoint is durable. Returns the one to be written next.
    pub fn landed(&mut self, epoch: Epoch) -> Option<Checkpoint> {
        debug_assert!(epoch < self.next, "a checkpoint is queued before it is durable");
        self.durable = epoch;
        self.second.take()
    }
}
