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
use crate::lfs::write::LogWriter;
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

/// Checkpoints in a row that may find no leaving segment empty.
const IN_VAIN_MAX: u32 = 8;

/// See the module's head.
#[derive(Clone, Debug)]
pub(in crate::lfs) struct Shrinking {
    geo: Geometry,
    size_bytes: u64,
    stage: Stage,
    /// Live bytes of leaving segments when it began, and when they were last counted.
    total_bytes: u64,
    left_bytes: u64,
    /// Searches for something to move, in a row, that found nothing although segments are still in use.
    in_vain: u32,
}

impl Shrinking {
    /// The geometry of the smaller volume.
    pub fn geo(&self) -> &Geometry {
        &self.geo
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Live bytes of leaving segments when it began, and when they were last counted.
    pub fn live_bytes(&self) -> (u64, u64) {
        (self.total_bytes, self.left_bytes)
    }

    /// The first leaving segment.
    pub fn first(&self) -> SegmentId {
        SegmentId(self.geo.segments)
    }

    /// True once checkpoints state the size.
    pub fn is_stated(&self) -> bool {
        matches!(self.stage, Stage::Stating(_))
    }

    /// Size and segments that checkpoints state, once they do.
    pub(super) fn stated_size(&self) -> Option<(u64, u64)> {
        self.is_stated().then_some((self.size_bytes, self.geo.segments))
    }

    /// True once the checkpoints in both slots state the size.
    pub fn is_in_both_slots(&self, durable: Epoch) -> bool {
        matches!(self.stage, Stage::Stating(since) if durable > since || is_on(Mutation::LeaveAtOnce))
    }

    /// From now on leaving segments are emptied; they have that many live bytes.
    pub fn begin_emptying(&mut self, live_bytes: u64) {
        self.gets_on();
        self.stage = Stage::Emptying;
        self.total_bytes = self.total_bytes.max(live_bytes);
        self.left_bytes = live_bytes;
    }

    /// A pass moved something.
    pub fn gets_on(&mut self) {
        self.in_vain = 0;
    }

    /// Leaving segments have that many live bytes now.
    pub fn count_left(&mut self, live_bytes: u64) {
        self.left_bytes = live_bytes;
    }

    /// A checkpoint was written because no pass found anything to move.
    pub fn try_in_vain(&mut self) {
        self.in_vain += 1;
    }

    /// True if several such checkpoints in a row have not helped.
    pub fn is_in_vain(&self) -> bool {
        self.in_vain >= IN_VAIN_MAX
    }

    /// All leaving segments are clean. From this checkpoint on, all state the new size.
    pub fn begin_stating(&mut self, since: Epoch) {
        self.stage = Stage::Stating(since);
        self.left_bytes = 0;
    }

    /// The size and the geometry that the volume has now.
    pub fn into_size(self) -> (u64, Geometry) {
        (self.size_bytes, self.geo)
    }
}

impl LogWriter {
    /// The volume is to have that size; that many live bytes lie beyond its new end.
    pub fn begin_shrinking(&mut self, size_bytes: u64, geo: Geometry, live_bytes: u64) {
        assert!(self.growth.is_none() && self.shrinking.is_none(), "one change of the size at a time");
        let (stage, total_bytes, left_bytes) = (Stage::Preparing, live_bytes, live_bytes);
        self.shrinking = Some(Shrinking { geo, size_bytes, stage, total_bytes, left_bytes, in_vain: 0 });
    }

    /// Set while the volume is about to become smaller.
    pub fn shrinking(&self) -> Option<&Shrinking> {
        self.shrinking.as_ref()
    }

    /// The same, to note how far it has come.
    pub fn shrinking_mut(&mut self) -> Option<&mut Shrinking> {
        self.shrinking.as_mut()
    }

    /// It was given up, or the volume has its new size.
    pub fn end_shrinking(&mut self) -> Option<Shrinking> {
        self.shrinking.take()
    }
}
