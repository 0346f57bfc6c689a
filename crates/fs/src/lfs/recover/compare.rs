//! Compares the log's tail of a crashed mount with the checkpoint: for each inode in the tail, the old block tree with the new
//! one. The differences change the accounts.
//!
//! Inodes are compared in the order of their numbers, a bounded number at a time: their blocks of the inode map, old records
//! and root blocks are read together, and so are the children of each block. But the comparison goes through one inode and one
//! block after the other, so every result and error is as if it read them one by one.
//!
//! Caller: [`recovery`](super::recovery).

use super::near::Near;
use super::recovery::{Accepted, Latest, is_directory};
use crate::bmap::{self, SLOTS};
use crate::device_reader::DeviceReader;
use crate::engine::Engine;
use crate::error::FsError;
use crate::lfs::Lfs;
use crate::lfs::base::damage::{Thing, is_damage};
use crate::lfs::base::geometry::Geometry;
use crate::lfs::base::kinds::LogKind;
use crate::lfs::base::places::place_of_record;
use crate::lfs::map::admit::{self, RECORD_MAX_BYTES};
use crate::lfs::map::shelf::describe;
use crate::lfs::map::wanted::verify_stored;
use crate::store::{BlockKey, Fork};
use firnfs_format::checkpoint::PointCursor;
use firnfs_format::inode::{FORKS, Roots};
use firnfs_format::table::{ImapEntry, TableEntry};
use firnfs_format::{BlockPtr, InodeNo, TimeNs};
use std::collections::BTreeMap;

/// Inodes that are compared at a time.
const INODES: usize = 1024;

/// The block tree of an inode at one time.
#[derive(Default)]
struct Tree {
    is_directory: bool,
    roots: [Roots; FORKS],
    /// The bytes that its blocks take according to its record.
    charged_bytes: u64,
}

/// An inode as the checkpoint has it.
type Before = Result<(ImapEntry, Tree), FsError>;

impl Lfs {
    /// See the module's head.
    pub(super) fn apply_all(
        &mut self,
        read: &mut dyn DeviceReader,
        tail: &Accepted,
        latest: BTreeMap<InodeNo, Latest>,
    ) -> Result<(), FsError> {
        let mut latest = latest.into_iter();
        loop {
            let inodes: Vec<(InodeNo, Latest)> = latest.by_ref().take(INODES).collect();
            if inodes.is_empty() {
                return Ok(());
            }
            let numbers: Vec<InodeNo> = inodes.iter().map(|(ino, _)| *ino).collect();
            let entries =
                self.drive_all(read, &numbers, |lfs, ino| lfs.tables.imap.get(&mut lfs.shelf, *ino));
            let mut near = Near::new(read);
            let before = self.before(&mut near, &numbers, entries);
            let mut pairs: Vec<Vec<BlockPtr>> = Vec::with_capacity(inodes.len());
            for ((_, new), before) in inodes.iter().zip(&before) {
                pairs.push(changed_roots(before.as_ref().ok(), new));
            }
            let mut ready = 0;
            for (at, ((ino, new), before)) in inodes.into_iter().zip(before).enumerate() {
                if at >= ready {
                    let next = pairs[at..].iter().map(|pair| pair.iter().copied());
                    ready = at + near.fetch(&self.geo, self.geo.block_bytes, next);
                }
                self.apply_latest(&mut near, tail, (ino, new), before)?;
            }
            self.shrink_caches();
        }
    }

    /// Inodes as the checkpoint has them.
    fn before(
        &self,
        near: &mut Near<'_>,
        numbers: &[InodeNo],
        entries: Vec<Result<ImapEntry, FsError>>,
    ) -> Vec<Before> {
        // What a clone shares with its origin is not compared: it counts as the origin's.
        let has_own = |ino: &InodeNo, entry: &ImapEntry| entry.is_used() && !self.is_shared(*ino, &entry.ptr);
        let own = |(ino, entry): (&InodeNo, &Result<ImapEntry, FsError>)| {
            entry.as_ref().ok().filter(|entry| has_own(ino, entry)).map(|entry| entry.ptr)
        };
        let records: Vec<Option<BlockPtr>> = numbers.iter().zip(&entries).map(own).collect();
        let mut ready = 0;
        let before = numbers.iter().zip(entries).enumerate().map(|(at, (ino, entry))| {
            if at >= ready {
                ready = at + near.fetch(&self.geo, RECORD_MAX_BYTES, records[at..].iter().copied());
            }
            let entry = entry?;
            let tree =
                if has_own(ino, &entry) { self.old_tree(near, *ino, &entry)? } else { Tree::default() };
            Ok((entry, tree))
        });
        before.collect()
    }

    fn old_tree(&self, near: &mut Near<'_>, ino: InodeNo, entry: &ImapEntry) -> Result<Tree, FsError> {
        let stored = self.read_stored(near, &entry.ptr, RECORD_MAX_BYTES, || format!("inode {ino}"))?;
        let record = admit::record(&self.geo, ino, &entry.ptr, &stored)?;
        let is_directory = is_directory(&record);
        Ok(Tree { is_directory, roots: record.roots, charged_bytes: record.raw.charged_bytes.get() })
    }

    /// Replaces an inode's entry by its latest one, and accounts for all new and dead blocks. If the inode's old state is
    /// damaged, its old blocks stay on the accounts (a checker removes them), and the new ones are added.
    fn apply_latest(
        &mut self,
        near: &mut Near<'_>,
        tail: &Accepted,
        (ino, new): (InodeNo, Latest),
        before: Before,
    ) -> Result<(), FsError> {
        let old_entry = before.as_ref().map_or(None, |(entry, _)| Some(*entry));
        let after = Tree {
            is_directory: new.is_directory,
            roots: new.roots.map_or_else(Default::default, |r| *r),
            charged_bytes: new.charged_bytes,
        };
        let mut diff = Diff {
            ino,
            mtime: new.mtime,
            tail,
            near,
            is_directory: (false, new.is_directory),
            old_left: 0,
            new_left: after.charged_bytes,
        };
        let records = (LogKind::Inode, LogKind::Inode);
        match before {
            Ok((entry, old)) => {
                let old_record = self.own_or_hole(ino, entry.ptr);
                self.account(&place_of_record(ino), records, &old_record, &new.entry.ptr, diff.mtime);
                diff.old_left = old.charged_bytes;
                diff.is_directory.0 = old.is_directory;
                self.diff_trees(&mut diff, Some(&old), &after)?;
            }
            Err(why) if is_damage(&why) => {
                self.put_in_quarantine(Thing::OldBlocks(ino), why);
                self.account(&place_of_record(ino), records, &BlockPtr::HOLE, &new.entry.ptr, diff.mtime);
                self.diff_trees(&mut diff, None, &after)?;
            }
            Err(why) => return Err(why),
        }
        let was_used = old_entry.is_none_or(|e| e.is_used());
        self.tables.imap.replace(ino, was_used, new.entry);
        Ok(())
    }

    fn diff_trees(&mut self, diff: &mut Diff<'_, '_>, old: Option<&Tree>, new: &Tree) -> Result<(), FsError> {
        for fork in [Fork::Data, Fork::Index, Fork::Xattr] {
            let (before, after) = (old.map(|tree| &tree.roots[fork as usize]), &new.roots[fork as usize]);
            for slot in 0..SLOTS {
                let (level, index) = bmap::Geometry::root(slot);
                let key = BlockKey { ino: diff.ino, fork, level, index };
                let ptr_in = |roots: &Roots| root_in(roots, slot, level);
                self.diff_ptr(diff, key, before.map(ptr_in), ptr_in(after))?;
            }
        }
        Ok(())
    }

    /// Accounts for the differences below one pointer. `old` is `None` if the old state is not known: then only blocks in the
    /// log's tail count as new.
    fn diff_ptr(
        &mut self,
        diff: &mut Diff<'_, '_>,
        key: BlockKey,
        old: Option<BlockPtr>,
        new: BlockPtr,
    ) -> Result<(), FsError> {
        let (old, new) = (old.map(|old| self.own_or_hole(key.ino, old)), self.own_or_hole(key.ino, new));
        if old == Some(new) || old.is_none() && !diff.is_in_tail(&new) {
            return Ok(());
        }
        let hole = BlockPtr::HOLE;
        diff.old_left = self.spend(diff, &key, diff.old_left, &old.unwrap_or(hole))?;
        diff.new_left = self.spend(diff, &key, diff.new_left, &new)?;
        if key.level > 0 {
            let before = match old.map(|old| self.pointers(diff, &key, &old)).transpose() {
                Err(why) if is_damage(&why) => {
                    self.put_in_quarantine(Thing::OldBlocks(diff.ino), why);
                    None
                }
                other => other?,
            };
            let after = self.pointers(diff, &key, &new)?;
            let slots = before.as_ref().map_or(0, Vec::len).max(after.len());
            let pair = |slot: usize| {
                let was = before.as_ref().map(|b| b.get(slot).copied().unwrap_or(hole));
                (was, after.get(slot).copied().unwrap_or(hole))
            };
            let mut ready = 0;
            for slot in 0..slots {
                if key.level > 1 && slot >= ready {
                    ready = slot + diff.fetch_changed(&self.geo, (slot..slots).map(pair));
                }
                let index = self.geo.map.child(key.level, key.index, slot);
                let child = BlockKey { level: key.level - 1, index, ..key };
                let (was, is) = pair(slot);
                self.diff_ptr(diff, child, was, is)?;
            }
        }
        let kind = |is_directory| LogKind::of_block(key.fork, key.level, is_directory);
        let kinds = (kind(diff.is_directory.0), kind(diff.is_directory.1));
        self.account(&self.place_of(&key), kinds, &old.unwrap_or(hole), &new, diff.mtime);
        Ok(())
    }

    /// Subtracts a block from the bytes that all blocks of the tree take according to its record. So the walk through a
    /// tree that leads into itself, or has more blocks than were charged, stops.
    fn spend(&self, diff: &Diff<'_, '_>, key: &BlockKey, left: u64, ptr: &BlockPtr) -> Result<u64, FsError> {
        let bytes = u64::from(self.charge_of(ptr));
        left.checked_sub(bytes).ok_or_else(|| FsError::Corrupt {
            what: format!("block tree of inode {}", diff.ino),
            at: describe(key),
            expected: "no more blocks than the record says are charged".to_owned(),
            found: format!("another {bytes} bytes"),
        })
    }

    fn is_shared(&self, ino: InodeNo, ptr: &BlockPtr) -> bool {
        self.tables.branches.is_shared(ino, ptr)
    }

    /// A pointer of an inode, unless a clone shares with its origin what it leads to.
    fn own_or_hole(&self, ino: InodeNo, ptr: BlockPtr) -> BlockPtr {
        if self.is_shared(ino, &ptr) { BlockPtr::HOLE } else { ptr }
    }

    /// Accounts for a dead block and a new one, of those kinds. If the new one has the old one's birth, it is the old one, which
    /// has moved: what users write after the checkpoint has a later birth.
    fn account(
        &mut self,
        at: &PointCursor,
        kinds: (LogKind, LogKind),
        old: &BlockPtr,
        new: &BlockPtr,
        mtime: TimeNs,
    ) {
        self.recount(u64::from(self.charge_of(old)), u64::from(self.charge_of(new)));
        if old.is_stored() && new.is_stored() && old.birth == new.birth {
            self.vacate(kinds.0, old);
            self.note_move(at, old, new);
        } else {
            self.bury(at, kinds.0, old);
        }
        if new.is_stored() {
            let segment = self.geo.segment_of(new.addr);
            self.tables.usage.add(segment, kinds.1, new.stored_bytes(), mtime, TimeNs(0));
        }
    }

    fn pointers(
        &self,
        diff: &mut Diff<'_, '_>,
        key: &BlockKey,
        ptr: &BlockPtr,
    ) -> Result<Vec<BlockPtr>, FsError> {
        if !ptr.is_stored() {
            return Ok(Vec::new());
        }
        let stored = self.read_stored(diff.near, ptr, self.geo.block_bytes, || describe(key))?;
        admit::block(&self.geo, key, ptr, &stored)?;
        Ok(stored.as_chunks().0.iter().map(BlockPtr::decode).collect())
    }

    fn read_stored(
        &self,
        near: &mut Near<'_>,
        ptr: &BlockPtr,
        max_bytes: u32,
        name: impl Fn() -> String,
    ) -> Result<Vec<u8>, FsError> {
        self.geo.check(ptr, max_bytes, &name)?;
        let bytes = near.stored(&self.geo, ptr)?;
        verify_stored(ptr, &self.geo, &bytes, name)?;
        Ok(bytes)
    }
}

/// The comparison of two block trees of one inode.
struct Diff<'a, 'r> {
    ino: InodeNo,
    mtime: TimeNs,
    tail: &'a Accepted,
    near: &'a mut Near<'r>,
    /// Whether the inode was a directory, and whether it is one: its number may have been reused.
    is_directory: (bool, bool),
    /// Bytes that blocks of the old and the new tree can still take.
    old_left: u64,
    new_left: u64,
}

impl Diff<'_, '_> {
    /// True for blocks written after the checkpoint. The usage table already counts all others.
    fn is_in_tail(&self, ptr: &BlockPtr) -> bool {
        is_in(self.tail, ptr)
    }

    /// Reads together the blocks of the first pairs that differ, as many as fit; returns the number of pairs.
    fn fetch_changed(
        &mut self,
        geo: &Geometry,
        pairs: impl Iterator<Item = (Option<BlockPtr>, BlockPtr)>,
    ) -> usize {
        let tail = self.tail;
        let changed = pairs.map(|(old, new)| match old {
            Some(old) if old != new => [Some(old), Some(new)],
            None if is_in(tail, &new) => [None, Some(new)],
            _ => [None, None],
        });
        self.near.fetch(geo, geo.block_bytes, changed.map(|pair| pair.into_iter().flatten()))
    }
}

fn is_in(tail: &Accepted, ptr: &BlockPtr) -> bool {
    ptr.is_stored() && tail.range(..=ptr.addr).next_back().is_some_and(|(_, end)| ptr.addr < *end)
}

/// A root pointer.
fn root_in(roots: &Roots, slot: usize, level: u8) -> BlockPtr {
    match level {
        0 => roots.direct[slot],
        level => roots.indirect[usize::from(level) - 1],
    }
}

/// The old and new root pointers to blocks of pointers that differ.
fn changed_roots(before: Option<&(ImapEntry, Tree)>, new: &Latest) -> Vec<BlockPtr> {
    let blank = [Roots::default(); FORKS];
    let old = before.map_or(&blank, |(_, tree)| &tree.roots);
    let new = new.roots.as_deref().unwrap_or(&blank);
    let pairs = old.iter().zip(new).flat_map(|(old, new)| old.indirect.iter().zip(&new.indirect));
    pairs.filter(|(old, new)| old != new).flat_map(|(old, new)| [*old, *new]).collect()
}
