//! Decides what happens to the stored version of a block or record when the present gives it up. It either *dies* (its content is
//! replaced or dropped), or it *leaves its place* (the cleaner or coalescing moves it). If a retained point has seen it, a dead
//! block stays where it is and counts as part of the past, and a moved one gets a remnant.
//!
//! The functions here note every death and every move of a stored block or record; no other code does.

use crate::lfs::Lfs;
use crate::lfs::base::kinds::LogKind;
use crate::lfs::base::places::{place_of_block, place_of_record};
use crate::mutation::{Mutation, is_on};
use crate::store::BlockKey;
use firnfs_format::checkpoint::PointCursor;
use firnfs_format::{BlockPtr, InodeNo};

impl Lfs {
    /// The place of an inode's block in the order in which points are dropped.
    pub(crate) fn place_of(&self, key: &BlockKey) -> PointCursor {
        place_of_block(self.geo.map, key)
    }

    /// Notes that a block dies. The caller subtracts its bytes from the charged ones; if it is held, they count as live again.
    pub(in crate::lfs) fn bury(&mut self, at: &PointCursor, kind: LogKind, ptr: &BlockPtr) {
        let is_shared = at.stage < 2 && self.tables.branches.is_shared(InodeNo(at.ino), ptr);
        if is_shared && !is_on(Mutation::SharedDies) {
            // The clone never owned it: the origin has it.
            self.recount(0, u64::from(self.charge_of(ptr)));
            return;
        }
        if !ptr.is_stored() {
            return;
        }
        let segment = self.geo.segment_of(ptr.addr);
        let is_held = self.tables.points.hold(at, ptr.birth) && !is_on(Mutation::SeenDiesAtOnce);
        if kind != LogKind::UsageTable && is_held {
            self.tables.usage.keep_dead(kind, ptr.stored_bytes());
            self.recount(0, u64::from(ptr.stored_bytes()));
        } else {
            self.tables.usage.sub(segment, kind, ptr.stored_bytes());
        }
    }

    /// Notes that a block is about to move.
    pub(in crate::lfs) fn vacate(&mut self, kind: LogKind, ptr: &BlockPtr) {
        if ptr.is_stored() {
            self.tables.usage.sub(self.geo.segment_of(ptr.addr), kind, ptr.stored_bytes());
        }
    }

    /// Notes that a block that was about to move dies at its old place: it was changed or dropped before it was laid out.
    pub(in crate::lfs) fn bury_vacated(&mut self, at: &PointCursor, kind: LogKind, ptr: &BlockPtr) {
        self.tables.usage.take_back(self.geo.segment_of(ptr.addr), kind, ptr.stored_bytes());
        self.bury(at, kind, ptr);
    }

    /// Notes that a block has moved.
    pub(in crate::lfs) fn note_move(&mut self, at: &PointCursor, from: &BlockPtr, to: &BlockPtr) {
        if self.tables.points.hold(at, from.birth) && !is_on(Mutation::MovesWithoutRemnants) {
            self.tables.remnants.note(at, from, to);
        }
    }

    /// Notes that the record of an inode was laid out at `to`; it was at `from` before.
    pub(in crate::lfs) fn replace_record(&mut self, ino: InodeNo, from: &BlockPtr, to: &BlockPtr) {
        let at = place_of_record(ino);
        if from.is_stored() && from.birth == to.birth && self.tables.slots.epoch() != to.birth {
            self.vacate(LogKind::Inode, from);
            self.note_move(&at, from, to);
        } else {
            self.bury(&at, LogKind::Inode, from);
        }
    }
}
