//! Rows: the retained points that have no room in the checkpoint slot. An internal file holds them
//! ([`firnfs_format::InodeNo::POINTS`]), in any order. A point keeps its row as long as it is kept; another point may then use
//! the row.
//!
//! The points themselves are in [`Points`](super::points::Points). This module only knows which row each point has, and which
//! rows differ from the file's. A checkpoint writes those (`past::rows`). Opening a volume reads no row ([`Unread`]).
//!
//! Invariant: `rows` and `epochs` say the same; `free` are the rows before the last one in use that no point has.

use crate::error::FsError;
use crate::mutation::{Mutation, is_on};
use firnfs_format::Epoch;
use firnfs_format::checkpoint::Point;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// The rows of a volume whose file has not been read to its end since the volume was opened.
#[derive(Clone, Debug, Default)]
pub(in crate::lfs) struct Unread {
    /// How many points there are in the file, as the checkpoint says.
    pub count: u32,
    /// Blocks of the file before this one have been read.
    pub next_block: u64,
    /// Blocks that could not be read. No step gets the error of a block twice.
    pub failed: BTreeSet<u64>,
    /// The points found before it, with their rows.
    pub found: Vec<(u32, Point)>,
    /// Why a part of the file could not be read.
    pub damage: Option<FsError>,
}

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(in crate::lfs) struct PointRows {
    rows: FxHashMap<Epoch, u32>,
    epochs: BTreeMap<u32, Epoch>,
    free: BTreeSet<u32>,
    /// Rows that differ from the file's.
    changed: BTreeSet<u32>,
    /// Why a part of the file could not be read. The points there are lost, and the whole file is written again.
    damage: Option<FsError>,
}

impl PointRows {
    /// The rows in the file, with the epochs of their points.
    pub fn new(found: impl IntoIterator<Item = (u32, Epoch)>) -> Self {
        let mut rows = Self::default();
        rows.rows = found.into_iter().map(|(row, epoch)| (epoch, row)).collect();
        rows.epochs = rows.rows.iter().map(|(epoch, row)| (*row, *epoch)).collect();
        rows.free = (0..rows.end()).filter(|row| !rows.epochs.contains_key(row)).collect();
        rows
    }

    /// Notes that some rows could not be read: their points are lost.
    pub fn note_damage(&mut self, why: FsError) {
        self.damage.get_or_insert(why);
    }

    /// Why points were lost, until the file is written again.
    pub fn damage(&self) -> Option<&FsError> {
        self.damage.as_ref()
    }

    /// How many points have a row.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The row after the last one in use.
    fn end(&self) -> u32 {
        self.epochs.last_key_value().map_or(0, |(row, _)| row + 1)
    }

    /// Gives a point the first free row.
    pub fn take(&mut self, epoch: Epoch) {
        let end = self.end();
        let row = self.free.pop_first().unwrap_or(end);
        self.epochs.insert(row, epoch);
        self.rows.insert(epoch, row);
        self.changed.insert(row);
    }

    /// Notes that a point has changed; so has its row, if it has one.
    pub fn note_change(&mut self, epoch: Epoch) {
        self.changed.extend(self.rows.get(&epoch));
    }

    /// Frees the row of a point that is gone, if it had one.
    pub fn release(&mut self, epoch: Epoch) {
        if let Some(row) = self.rows.remove(&epoch) {
            self.epochs.remove(&row);
            self.free.insert(row);
            self.free.split_off(&self.end());
            if !is_on(Mutation::RowsStay) {
                self.changed.insert(row);
            }
        }
    }

    /// True if the file is up to date.
    pub fn is_written(&self) -> bool {
        self.changed.is_empty() && self.damage.is_none()
    }

    /// The blocks of the file to write: those with changed rows, or all blocks of a damaged file. A block has `per_block` rows,
    /// the file `file_blocks` blocks.
    pub fn blocks_to_write(&self, per_block: u32, file_blocks: u64) -> BTreeSet<u64> {
        let changed = self.changed.iter().map(|row| u64::from(row / per_block));
        let all = if self.damage.is_some() { 0..file_blocks } else { 0..0 };
        changed.chain(all).collect()
    }

    /// The used rows of a block: their places in it, and the epochs of their points.
    pub fn in_block(&self, block: u64, per_block: u32) -> impl Iterator<Item = (usize, Epoch)> {
        let first = block as u32 * per_block;
        let rows = self.epochs.range(first..first.saturating_add(per_block));
        rows.map(move |(row, epoch)| ((row - first) as usize, *epoch))
    }

    /// Notes that the file is up to date.
    pub fn written(&mut self) {
        self.changed.clear();
        self.damage = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_used_again_and_the_file_does_not_grow_with_what_is_gone() {
        let mut rows = PointRows::new([(0, Epoch(3)), (2, Epoch(9)), (5, Epoch(7))]);
        assert!(rows.is_written() && rows.len() == 3);
        [10, 11, 12, 13].map(Epoch).into_iter().for_each(|epoch| rows.take(epoch));
        let all: Vec<(usize, u32)> = rows.in_block(0, 8).map(|(at, epoch)| (at, epoch.0)).collect();
        assert_eq!(all, [(0, 3), (1, 10), (2, 9), (3, 11), (4, 12), (5, 7), (6, 13)]);
        assert_eq!(rows.blocks_to_write(4, 2), BTreeSet::from([0, 1]));
        rows.written();
        rows.release(Epoch(13));
        rows.release(Epoch(7));
        assert_eq!(rows.blocks_to_write(4, 2), BTreeSet::from([1]));
        rows.take(Epoch(20));
        assert_eq!(rows.in_block(1, 4).collect::<Vec<_>>(), [(0, Epoch(12)), (1, Epoch(20))]);
        rows.note_damage(FsError::Io("a sector".to_owned()));
        assert_eq!(rows.blocks_to_write(4, 3), BTreeSet::from([0, 1, 2]));
    }
}
