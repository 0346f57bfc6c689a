//! The two tables of the volume, the inode map (`imap`) and the segment usage table (`usage`): trees of blocks in the log
//! (`table`) with the newer entries beside them; and the checkpoints that have them ([`Tables`]).

pub(in crate::lfs) mod imap;
pub(in crate::lfs) mod table;
pub(in crate::lfs) mod usage;

use firnfs_format::Epoch;
use firnfs_format::checkpoint::{Checkpoint, Features, Span};
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
