//! `Shrinking`: a volume is about to become smaller while it is in use.
//!
//! The segments beyond the new end are *leaving*. If too few clean segments lie before them, the cleaner first makes some there. Then
//! they are emptied, both by `upkeep::shrink`; nothing on the device says so, and an end of any kind leaves a volume of the old size.
//! Then checkpoints state the new size; once both slots do, neither slot, nor
//! roll-forward from either, needs a leaving segment, and the volume has its new size. The superblock on the device states the
//! larger one until the caller has written it: it is an upper bound.
//!
//! Invariants: users have the room of the smaller volume from the beginning on. Once they are being emptied, no leaving segment is in the
//! pool or found by a search for clean ones; open logs leave theirs before anything moves.
//!
//! Callers: `upkeep::shrink`; `room` asks for the geometry.

use crate::lfs::base::geometry::Geometry;
use crate::mutation::{Mutation, is_on};
use firnfs_format::{Epoch, SegmentId};

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lfs) enum Stage {
    /// Clean segments are made before the new end.
    Preparing,
    /// Leaving segments are emptied.
    Emptying,
    /// From this checkpoint on, all state the new size.
    Stating(Epoch),
}

/// See the module's head.
#[derive(Clone, Debug)]
pub(in crate::lfs) struct Shrinking {
    /// The geometry of the smaller volume.
    pub geo: Geometry,
    /// Its size in bytes.
    pub size_bytes: u64,
    pub stage: Stage,
    /// Live bytes of leaving segments when it began, and when they were last counted.
    pub total_bytes: u64,
    pub left_bytes: u64,
    /// Searches for something to move, in a row, that found nothing although segments are still in use.
    pub in_vain: u32,
}

impl Shrinking {
    /// The first leaving segment.
    pub fn first(&self) -> SegmentId {
        SegmentId(self.geo.segments)
    }

    /// True once checkpoints state the size.
    pub fn is_stated(&self) -> bool {
        matches!(self.stage, Stage::Stating(_))
    }

    /// True once the checkpoints in both slots state the size.
    pub fn is_in_both_slots(&self, durable: Epoch) -> bool {
        matches!(self.stage, Stage::Stating(since) if durable > since || is_on(Mutation::LeaveAtOnce))
    }
}
