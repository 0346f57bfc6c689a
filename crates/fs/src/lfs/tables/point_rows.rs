//! Rows: the retained points that a checkpoint slot has no room for. An internal file has them ([`firnfs_format::InodeNo::POINTS`]), in any order;
//! a row stays where it is as long as its point is kept, and is used again after that.
//!
//! The points themselves are in [`Points`](super::points::Points); here is only which row each has, and which rows the file does not
//! have yet as they are. A checkpoint writes those (`past::rows`).
//!
//! Invariant: `rows` and `epochs` say the same; `free` are the rows before the last one in use that no point has.

use crate::error::FsError;
use firnfs_format::Epoch;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(in crate::lfs) struct PointRows {
    rows: FxHashMap<Epoch, u32>,
    epochs: BTreeMap<u32, Epoch>,
    free: BTreeSet<u32>,
    /// Rows that differ from the file's.
    changed: BTreeSet<u32>,
    /// Why a part of the file could not be read: the points there are lost, and all of it is written again.
    damage: Option<FsError>,
}

impl PointRows {
    /// As the file has them: rows with the epochs of their points.
    pub fn new(found: impl IntoIterator<Item = (u32, Epoch)>) -> Self {
        let mut rows = Self::default();
        for (row, epoch) in found {
            rows.epochs.insert(row, epoch);
            rows.rows.insert(epoch, row);
        }
        rows.free = (0..rows.end()).filter(|row| !rows.epochs.contains_key(row)).collect();
        rows
    }

    /// Some could not be read: their points are lost.
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

    /// True if that point has one.
    pub fn has(&self, epoch: Epoch) -> bool {
        self.rows.contains_key(&epoch)
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

    /// A point has changed: its row does, if it has one.
    pub fn note_change(&mut self, epoch: Epoch) {
        self.changed.extend(self.rows.get(&epoch));
    }

    /// A point is gone, and its row is free if it had one.
    pub fn release(&mut self, epoch: Epoch) {
        if let Some(row) = self.rows.remove(&epoch) {
            self.epochs.remove(&row);
            self.free.insert(row);
            self.free.split_off(&self.end());
            self.changed.insert(row);
        }
    }

    /// True if the file has all rows as they are.
    pub fn is_written(&self) -> bool {
        self.changed.is_empty() && self.damage.is_none()
    }

    /// The blocks of the file to be written: those with changed rows, of a damaged file all. `per_block` rows are in one, and the file has
    /// `file_blocks`.
    pub fn blocks_to_write(&self, per_block: u32, file_blocks: u64) -> BTreeSet<u64> {
        let changed = self.changed.iter().map(|row| u64::from(row / per_block));
        let all = if self.damage.is_some() { 0..file_blocks } else { 0..0 };
        changed.chain(all).collect()
    }

    /// The rows in use of a block: their places in it, and the epochs of their points.
    pub fn in_block(&self, block: u64, per_block: u32) -> impl Iterator<Item = (usize, Epoch)> {
        let first = block as u32 * per_block;
        let rows = self.epochs.range(first..first.saturating_add(per_block));
        rows.map(move |(row, epoch)| ((row - first) as usize, *epoch))
    }

    /// The file has all of them now.
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
        assert!(rows.is_written() && rows.has(Epoch(9)) && rows.len() == 3);
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
