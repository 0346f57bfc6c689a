//! How much a pass of the cleaner makes dirty: the blocks that it moves, and the metadata that leads to them.
//!
//! Before it reads, a pass knows of a victim only how many bytes are live in it; [`Growth`] is what the last pass made of such bytes. Once
//! the victim is here, [`Lfs::turns_dirty_bytes`] counts. Both bound how much a pass takes: bytes that it reads and has no room for are
//! read in vain.
//!
//! Caller: `clean`.

use crate::bmap::Parent;
use crate::lfs::Lfs;
use crate::lfs::base::places::block_key;
use crate::lfs::upkeep::clean::is_table;
use crate::store::BlockKey;
use firnfs_format::summary::{Entry, EntryKind};
use std::collections::BTreeSet;

/// What a pass moved, and what turned dirty by that.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::lfs) struct Growth {
    /// Live bytes of the victims.
    pub moved_bytes: u64,
    /// Log bytes of those and of the metadata that leads to them.
    pub dirtied_bytes: u64,
}

impl Growth {
    /// How many live bytes fit into that much room, if the next pass is as this one was. At most, and before the first pass, metadata
    /// counts as much as what moves.
    pub fn fits_bytes(self, room_bytes: u64) -> u64 {
        if self.moved_bytes == 0 {
            return room_bytes / 2;
        }
        let dirtied_bytes = self.dirtied_bytes.clamp(self.moved_bytes, 2 * self.moved_bytes);
        let fits_bytes = u128::from(room_bytes) * u128::from(self.moved_bytes) / u128::from(dirtied_bytes);
        fits_bytes as u64
    }
}

impl Lfs {
    /// Log bytes at most that turn dirty when these blocks and records move: themselves, the blocks and records that lead to them as
    /// far as they are clean, and blocks of the tables.
    pub(super) fn turns_dirty_bytes<'a>(&self, live: impl Iterator<Item = &'a Entry>) -> u64 {
        let (mut bytes, mut parents, mut inodes) = (0, BTreeSet::new(), BTreeSet::new());
        for entry in live {
            bytes += u64::from(entry.ptr.stored_bytes());
            if is_table(entry.ino) {
                continue;
            }
            inodes.insert(entry.ino);
            if let EntryKind::Block { fork, level, index } = entry.kind {
                self.add_clean_parents(block_key(entry.ino, fork, level, index), &mut parents);
            }
        }
        let records = inodes.iter().map(|ino| u64::from(self.core(*ino).record_bytes()));
        // An inode changes a block of the inode map, each segment that something leaves one of the usage table.
        let tables = inodes.len() as u64 + (parents.len() as u64 + 2).min(self.tables.usage.leaves());
        bytes + records.sum::<u64>() + (parents.len() as u64 + tables) * u64::from(self.geo.block_bytes)
    }

    /// Adds the indirect blocks above a block, up to one that is dirty or among them already.
    fn add_clean_parents(&self, key: BlockKey, parents: &mut BTreeSet<BlockKey>) {
        let mut below = key;
        while let Some(Parent::Indirect { level, index, .. }) = self.geo.map.parent(below.level, below.index)
        {
            below = BlockKey { level, index, ..key };
            if self.shelf.cache.dirty(&below).is_some() || !parents.insert(below) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_expects_what_the_last_one_made_dirty() {
        let growth = |moved_bytes, dirtied_bytes| Growth { moved_bytes, dirtied_bytes };
        assert_eq!(Growth::default().fits_bytes(1000), 500);
        assert_eq!(growth(400, 500).fits_bytes(1000), 800);
        assert_eq!(growth(400, 4000).fits_bytes(1000), 500, "at most as much metadata again");
        assert_eq!(growth(400, 100).fits_bytes(1000), 1000, "what leads to it was dirty already");
    }
}
