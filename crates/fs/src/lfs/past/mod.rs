//! Older states that are retained: finding what they lead to (`states`), although it may have moved since (`moved`), making and
//! naming them (`points`; `rows` are those in a file), which of them stay (`retention`) and how often they are made if none lasts
//! (`spacing`), what they hold (`holdings`, by a
//! `walk`), comparing them (`differ`; `differ_blocks` for the blocks of one file), reading them like the present (`views`), and
//! clones of them (`clones`). `internal` has the files without names in which checkpoints store the remnants (`moved`) and the
//! rows.

pub(in crate::lfs) mod clones;
pub(in crate::lfs) mod differ;
pub(in crate::lfs) mod differ_blocks;
pub(in crate::lfs) mod holdings;
pub(in crate::lfs) mod internal;
pub(in crate::lfs) mod moved;
pub(in crate::lfs) mod points;
pub(in crate::lfs) mod retention;
pub(in crate::lfs) mod rows;
pub(in crate::lfs) mod spacing;
pub(in crate::lfs) mod states;
pub(in crate::lfs) mod views;
pub(in crate::lfs) mod walk;

use crate::error::Stop;
use crate::fetch::{Ahead, Fetch};
use crate::lfs::Lfs;
pub(crate) use crate::lfs::base::places::{is_internal, is_unseen, place_of_record};
pub(crate) use crate::lfs::map::admit::RECORD_MAX_BYTES;
use crate::lfs::map::wanted::Wanted;
use firnfs_format::checkpoint::PointCursor;
pub(crate) use states::{StateRoot, entry_in, node_in, root_of};

/// Asks for everything that a lookup has gathered, and for no look-ahead beside blocks of the past: it knows which ones it needs.
pub(in crate::lfs) fn need_only(mut needs: Vec<Fetch>) -> Stop {
    for need in &mut needs {
        if matches!(Wanted::of(&need.token), Wanted::Past(_)) {
            need.ahead = Ahead::NONE;
        }
    }
    Stop::Need(needs)
}

impl Lfs {
    /// True if the cleaner has copied a block of the inode map for points that lies below another, since the last checkpoint.
    pub(crate) fn has_copies_below(&self, level: u32, index: u64) -> bool {
        self.tables.remnants.has_copied_below(self.tables.imap.table.fan(), level, index)
    }

    /// The place of a block of the inode map in the order in which points are dropped.
    pub(crate) fn place_in_map(&self, level: u32, index: u64) -> PointCursor {
        crate::lfs::base::places::place_in_map(self.tables.imap.table.fan(), level, index)
    }
}
