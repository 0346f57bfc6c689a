//! The two tables of the volume, the inode map (`imap`) and the segment usage table (`usage`): trees of blocks in the log
//! (`table`) with the newer entries beside them; older states that are still read (`holds`); and the checkpoints of all
//! this ([`Tables`]).

pub(in crate::lfs) mod holds;
pub(in crate::lfs) mod imap;
pub(in crate::lfs) mod table;
pub(in crate::lfs) mod usage;

use crate::lfs::base::geometry::Geometry;
use crate::lfs::base::kinds::LogKind;
use firnfs_format::checkpoint::{Checkpoint, Features, Span};
use firnfs_format::{BlockPtr, Epoch};
use imap::Imap;
use usage::Usage;

/// The tables, and the other fields of a checkpoint.
///
/// Invariant: `durable_epoch < epoch`; `durable_epoch` decides which segments may be reused.
pub(in crate::lfs) struct Tables {
    pub imap: Imap,
    pub usage: Usage,
    /// Number of the next checkpoint.
    pub epoch: Epoch,
    /// Number of the newest durable checkpoint.
    pub durable_epoch: Epoch,
    /// Which incarnations wrote the log after the checkpoint.
    pub spans: Vec<Span>,
    pub features: Features,
    /// The checkpoint for the second slot, while a mount writes its incarnation into both slots, one after the other.
    pub second_slot: Option<Checkpoint>,
}

impl Tables {
    /// Notes that the block or record of a pointer dies. Every death of a stored block or record is noted here and nowhere
    /// else, so that accounts of older states will have one place for their code.
    pub fn release(&mut self, geo: &Geometry, kind: LogKind, ptr: &BlockPtr) {
        if ptr.is_stored() {
            self.usage.sub(geo.segment_of(ptr.addr), kind, ptr.stored_bytes());
        }
    }
}
