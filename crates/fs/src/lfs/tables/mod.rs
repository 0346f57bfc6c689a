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

use crate::lfs::base::geometry::Geometry;
use crate::lfs::base::kinds::KindBytes;
use branches::Branches;
use firnfs_format::checkpoint::{Checkpoint, Features, Span};
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
    spans: Vec<Span>,
    features: Features,
}

impl Tables {
    /// As a checkpoint has them.
    pub fn at(base: &Checkpoint, geo: &Geometry) -> Self {
        let mut imap = Imap::new(base.imap, base.next_ino, geo.block_bytes);
        base.branches.iter().for_each(|branch| imap.begin_branch(branch.number, branch.next_ino));
        Self {
            imap,
            usage: Usage::new(base.usage, geo, base.epoch, base.emptied)
                .with_live(KindBytes::live_in(&base.counters, base.live_bytes)),
            slots: Slots::new(base.epoch),
            spans: base.spans.clone(),
            features: base.features,
            points: Points::new(base.points.clone(), base.point_rows, base.retention.clone()),
            branches: Branches::new(base.branches.clone()),
            remnants: Remnants::default(),
            remnant_index: RemnantIndex::default(),
        }
    }

    /// Which incarnations wrote the log after the last checkpoint, oldest first.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// These incarnations wrote it.
    pub fn note_spans(&mut self, spans: Vec<Span>) {
        self.spans = spans;
    }

    /// What code that reads or writes the volume has to know.
    pub fn features(&self) -> Features {
        self.features
    }

    /// The volume has these features too; code that does not know them may ignore them.
    pub fn add_features(&mut self, compat: u64) {
        self.features.compat |= compat;
    }
}
