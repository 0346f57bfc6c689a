//! The two tables of the volume, the inode map (`imap`) and the segment usage table (`usage`): trees of blocks in the log
//! (`table`) with the newer entries beside them; states of the past that are still read (`holds`); and the checkpoints that
//! have all of it ([`Tables`]).

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

/// The tables, and what a checkpoint says beside them.
///
/// Invariant: `durable_epoch < epoch`; segments are reused by what `durable_epoch` reaches.
pub(in crate::lfs) struct Tables {
    pub imap: Imap,
    pub usage: Usage,
    /// Number of the next checkpoint.
    pub epoch: Epoch,
    /// Number of the newest durable checkpoint.
    pub durable_epoch: Epoch,
    /// Which incarnations wrote the log behind the checkpoint.
    pub spans: Vec<Span>,
    pub features: Features,
    /// The mount's incarnation goes into both slots, one after the other.
    pub second_slot: Option<Checkpoint>,
}

impl Tables {
    /// The block or record that a pointer refers to dies. Every death of a stored block or record passes here and nowhere else, so
    /// that the accounts of the past have one place to begin.
    pub fn release(&mut self, geo: &Geometry, kind: LogKind, ptr: &BlockPtr) {
        if ptr.is_stored() {
            self.usage.sub(geo.segment_of(ptr.addr), kind, ptr.stored_bytes());
        }
    }
}
