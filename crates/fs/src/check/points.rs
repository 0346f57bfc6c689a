//! Reads, verifies and counts what only retained points lead to.
//!
//! The first point that sees a block counts it, as in the volume (`lfs::tables::points`). The check skips what an older point
//! sees, with everything below it, and what the present has at the same place. It reports a point whose trees cannot be read, and
//! a repair gives that point up.
//!
//! Limit: if the place of a point's block was claimed before, the block counts as shared. If it is not shared, the point has lost
//! it, and a reader finds a wrong checksum.

use super::finding::Problem;
use super::state::{Check, Depth};
use crate::bmap::{Geometry as Map, SLOTS};
use crate::error::FsError;
use crate::lfs::past::{RECORD_MAX_BYTES, StateRoot, entry_in, is_unseen, node_in, place_of_record, root_of};
use crate::lfs::{LogKind, describe, title};
use crate::store::{BlockKey, Fork};
use firnfs_format::checkpoint::{Point, PointCursor};
use firnfs_format::inode::FORKS;
use firnfs_format::summary::EntryKind;
use firnfs_format::table::{ImapEntry, TableEntry};
use firnfs_format::{BlockPtr, InodeNo};

const FORK_KINDS: [Fork; FORKS] = [Fork::Data, Fork::Index, Fork::Xattr];

/// A point, and the points before it.
struct Course<'p> {
    point: &'p Point,
    older: &'p [Point],
}

impl Course<'_> {
    /// True if an older point sees the block and everything below it, or if the drop of this point has freed them.
    fn is_passed(&self, at: &PointCursor, ptr: &BlockPtr) -> bool {
        !ptr.is_stored()
            || self.point.dropped_to.is_some_and(|done| *at <= done)
            || self.that_could_see(ptr).iter().any(|older| older.dropped_to.is_none())
    }

    /// True if a point that is being dropped still holds the block at that place.
    fn is_anothers(&self, at: &PointCursor, ptr: &BlockPtr) -> bool {
        self.that_could_see(ptr).iter().any(|older| older.dropped_to.is_some_and(|done| done < *at))
    }

    /// The older points since the birth in a pointer.
    fn that_could_see(&self, ptr: &BlockPtr) -> &[Point] {
        &self.older[self.older.partition_point(|older| older.epoch < ptr.birth)..]
    }
}

impl Check<'_> {
    /// Examines all points.
    pub fn points(&mut self) {
        if let Some(reason) = self.lfs.lost_rows().cloned() {
            self.report(None, Problem::PointRows { reason });
        }
        let points: Vec<Point> = self.lfs.known_points().iter().cloned().collect();
        for (at, point) in points.iter().enumerate() {
            let course = Course { point, older: &points[..at] };
            if let Err(reason) = self.point(&course) {
                self.lost_points.push(point.epoch);
                self.report(None, Problem::Point { name: title(point), epoch: point.epoch, reason });
            }
            if self.is_stopped() {
                return;
            }
            self.tell(5);
        }
    }

    fn point(&mut self, course: &Course<'_>) -> Result<(), FsError> {
        let map = course.point.imap;
        self.map_block(course, map.height, 0, map.ptr)
    }

    /// True if the blocks below it have to be examined.
    fn is_own(
        &mut self,
        course: &Course<'_>,
        at: &PointCursor,
        ptr: &BlockPtr,
        max_bytes: u32,
    ) -> Result<bool, FsError> {
        if course.is_passed(at, ptr) || self.is_stopped() {
            return Ok(false);
        }
        self.geo.check(ptr, max_bytes, || format!("block of state {}", title(course.point)))?;
        if course.is_anothers(at, ptr) {
            return Ok(true);
        }
        let (state, ptr) = (course.point.epoch, *ptr);
        let here = self.lfs.drive(self.sweep.read, |lfs| lfs.follow(at, state, ptr))?;
        self.geo.check(&here, max_bytes, || format!("moved block of state {}", title(course.point)))?;
        if self.claims.has(&here) {
            return Ok(false);
        }
        self.totals.blocks += 1;
        self.claims.claim(LogKind::Past, &here);
        Ok(true)
    }

    fn map_block(
        &mut self,
        course: &Course<'_>,
        level: u32,
        index: u64,
        ptr: BlockPtr,
    ) -> Result<(), FsError> {
        let at = self.lfs.place_in_map(level, index);
        let block_bytes = self.geo.block_bytes;
        let is_own = self.is_own(course, &at, &ptr, block_bytes)?;
        if !is_own && course.is_passed(&at, &ptr) {
            return Ok(());
        }
        if is_own || self.lfs.has_copies_below(level, index) {
            return self.map_below(course, level, index, ptr);
        }
        if self.is_of_present_map(level, index, &ptr) {
            self.shared_map.push(ptr);
            return self.newer_inodes_of_point(course, level, index);
        }
        Ok(())
    }

    fn map_below(
        &mut self,
        course: &Course<'_>,
        level: u32,
        index: u64,
        ptr: BlockPtr,
    ) -> Result<(), FsError> {
        let (fan, state, block_bytes) = (self.fan(), course.point.epoch, self.geo.block_bytes);
        let at = self.lfs.place_in_map(level, index);
        let block = self.lfs.drive(self.sweep.read, |lfs| lfs.past_block(&at, state, ptr, block_bytes))?;
        for slot in 0..fan {
            let below = index.saturating_mul(fan).saturating_add(slot);
            if level > 0 {
                let child = node_in(&block, slot).map_or(BlockPtr::HOLE, |node| node.ptr);
                self.map_block(course, level - 1, below, child)?;
            } else {
                self.record_of_point(course, InodeNo(below), &entry_in(&block, slot))?;
            }
        }
        Ok(())
    }

    /// Examines inodes that are newer in the present than its inode map, below a block of the map that both have.
    fn newer_inodes_of_point(&mut self, course: &Course<'_>, level: u32, index: u64) -> Result<(), FsError> {
        let below = self.fan().saturating_pow(level + 1);
        let first = index.saturating_mul(below);
        let numbers = first..first.saturating_add(below);
        let newer = self.lfs.newer_inodes();
        for (ino, _) in newer.into_iter().filter(|(ino, _)| numbers.contains(&ino.0)) {
            let state = StateRoot::from(course.point);
            let entry = self.lfs.drive(self.sweep.read, |lfs| lfs.past_entry(&state, ino))?;
            self.record_of_point(course, ino, &entry)?;
        }
        Ok(())
    }

    /// True if the present's inode map has that block.
    fn is_of_present_map(&mut self, level: u32, index: u64, ptr: &BlockPtr) -> bool {
        let kind = EntryKind::Block { fork: 0, level: level as u8, index };
        let now = self.lfs.drive(self.sweep.read, |lfs| lfs.current_ptr(InodeNo::INODE_MAP, 0, kind));
        now.is_ok_and(|now| now == *ptr)
    }

    fn record_of_point(
        &mut self,
        course: &Course<'_>,
        ino: InodeNo,
        entry: &ImapEntry,
    ) -> Result<(), FsError> {
        let (state, ptr) = (course.point.epoch, entry.ptr);
        if is_unseen(ino)
            || !entry.is_used()
            || !self.is_own(course, &place_of_record(ino), &ptr, RECORD_MAX_BYTES)?
        {
            return Ok(());
        }
        let roots = self.lfs.drive(self.sweep.read, |lfs| lfs.past_roots(state, ino, ptr))?;
        for (fork, roots) in FORK_KINDS.into_iter().zip(&*roots) {
            for slot in 0..SLOTS {
                let (level, index) = Map::root(slot);
                let key = BlockKey { ino, fork, level, index };
                self.block_of_point(course, key, root_of(roots, slot))?;
            }
        }
        Ok(())
    }

    fn block_of_point(&mut self, course: &Course<'_>, key: BlockKey, ptr: BlockPtr) -> Result<(), FsError> {
        if !ptr.is_stored() {
            // Most pointers of most files.
            return Ok(());
        }
        let at = self.lfs.place_of(&key);
        let (state, block_bytes) = (course.point.epoch, self.geo.block_bytes);
        if !self.is_own(course, &at, &ptr, block_bytes)? {
            return Ok(());
        }
        if key.level == 0 {
            if self.depth != Depth::Structure {
                let name = |why| match why {
                    FsError::Corrupt { at, expected, found, .. } => {
                        FsError::Corrupt { what: describe(&key), at, expected, found }
                    }
                    other => other,
                };
                self.lfs
                    .drive(self.sweep.read, |lfs| lfs.past_block(&at, state, ptr, block_bytes))
                    .map_err(name)?;
            }
            return Ok(());
        }
        let block = self.lfs.drive(self.sweep.read, |lfs| lfs.past_block(&at, state, ptr, block_bytes))?;
        for slot in 0..self.geo.map.pointers_per_block() as usize {
            let child = self.lfs.child_in(&ptr, &block, slot)?;
            let index = self.geo.map.child(key.level, key.index, slot);
            self.block_of_point(course, BlockKey { level: key.level - 1, index, ..key }, child)?;
        }
        Ok(())
    }
}
