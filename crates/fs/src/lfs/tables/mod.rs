//! The two tables of the volume, the inode map (`imap`) and the segment usage table (`usage`): trees of blocks in the log
//! (`table`) with the newer entries beside them; older states that are still read (`holds`) or retained (`points`, `point_rows`, `remnants`, `remnant_index`), and
//! clones of these (`branches`); and the checkpoints of all this ([`Tables`], `slots`).

pub(in crate::lfs) mod branches;
pub(in crate::lfs) mod holds;
pub(in crate::lfs) mod imap;
pub(in crate::lfs) mod point_rows;
pub(in crate::lfs) mod points;
pub(in crate::lfs) mod remnant_index;
pub(in crate::lfs) mod remnants;
pub(in crate::lfs) mod slots;
pub(in crate::lfs) mod table;
pub(in crate::lfs) mod usage;

use branches::Branches;
use firnfs_format::checkpoint::{Features, Span};
use imap::Imap;
use points::Points;
use remnant_index::RemnantIndex;
use remnants::Remnants;
use slots::Slots;
use usage::Usage;

/// The tables, and the other fields of a checkpoint.
pub(in crate::lfs) struct Tables {
    pub imap: Imap,
    pub usage: Usage,
    /// Older states that are retained.
    pub points: Points,
    /// Clones of some of them.
    pub branches: Branches,
    /// Moves of what these states have seen, since the last checkpoint.
    pub remnants: Remnants,
    /// Moves before that, as far as somebody has asked for them.
    pub remnant_index: RemnantIndex,
    /// The checkpoints that have all this.
    pub slots: Slots,
    /// Which incarnations wrote the log after the checkpoint.
    pub spans: Vec<Span>,
    pub features: Features,
}
