//! Phase 2: directories. Phase 1 passes the directory blocks on; this phase compares the entries with the inodes,
//! with each other, with the counts, and with the hash index.

use super::finding::{Problem, Versus};
use super::namespace::{EntryFacts, IndexNode, Namespace};
use super::state::Check;
use crate::dirent::{self, UNIT_BYTES};
use crate::engine::Engine;
use crate::error::{FsError, Stop};
use crate::inode::Kind;
use crate::states::local;
use crate::store::padded;
use crate::ufs::{index, xattr};
use firnfs_format::InodeNo;

/// Sets of attributes that are read together.
const SETS: usize = 32;
/// Directories up to the root that are followed to judge a name.
const CLIMB_MAX: usize = 4096;

impl Namespace {
    /// Takes a stored block of a directory's content.
    pub fn directory_block(&mut self, dir: InodeNo, block: u64, mut bytes: Vec<u8>) {
        bytes.resize(self.block_bytes as usize, 0);
        if dirent::is_zero(&bytes) {
            return;
        }
        let start = block.saturating_mul(u64::from(self.block_bytes));
        for (nth, unit) in (0..).zip(bytes.chunks(self.dir_unit_bytes as usize)) {
            // Only a whole block may be zeros.
            if let (true, Err(reason)) = (dirent::is_zero(unit), dirent::record(unit, 0)) {
                self.torn_dirs.push(dir);
                self.report(Some(dir), Problem::DirectoryBlock { block, reason });
                continue;
            }
            self.directory_unit(dir, block, start + nth * u64::from(self.dir_unit_bytes), unit);
        }
    }

    /// Takes the entries of a directory's inline content.
    pub fn directory_bytes(&mut self, dir: InodeNo, bytes: &[u8]) {
        self.directory_unit(dir, 0, 0, bytes);
    }

    /// Takes the entries of one unit, which starts at a byte of the directory's content.
    fn directory_unit(&mut self, dir: InodeNo, block: u64, start: u64, bytes: &[u8]) {
        for record in dirent::records(bytes) {
            let record = match record {
                Ok(record) if record.is_free() => continue,
                Ok(record) => record,
                Err(reason) => {
                    self.torn_dirs.push(dir);
                    self.report(Some(dir), Problem::DirectoryBlock { block, reason });
                    return;
                }
            };
            let at_bytes = start + record.at as u64;
            if record.check_name().is_err() {
                let at = self.place_of(dir, (at_bytes / UNIT_BYTES as u64) as u32);
                self.report(Some(dir), Problem::EntryName { at, name: record.name.to_vec() });
            }
            self.entries.push(EntryFacts {
                dir,
                target: record.ino,
                hash: index::hash64(self.hash_key, record.name),
                place: (at_bytes / UNIT_BYTES as u64) as u32,
                kind: record.kind_code,
                used_units: (record.used_bytes() / UNIT_BYTES) as u8,
            });
        }
    }

    /// Runs the phase, except for attributes.
    pub fn phase_2(&mut self) {
        for dir in std::mem::take(&mut self.torn_dirs) {
            if let Some(at) = self.dir_at(dir) {
                self.dirs[at].is_torn = true;
            }
        }
        self.check_root();
        self.entries.sort_unstable_by_key(|entry| (entry.dir, entry.hash, entry.place));
        self.name_directories();
        for at in 0..self.entries.len() {
            self.entry(at);
        }
        self.index_nodes.sort_unstable_by_key(|node| (node.dir, node.block));
        self.each_directory();
    }

    /// After a stop, instead of the phase: names the directories as far as their entries were read, for the paths of findings.
    pub fn name_what_is_known(&mut self) {
        self.entries.sort_unstable_by_key(|entry| (entry.dir, entry.hash, entry.place));
        self.name_directories();
    }

    fn check_root(&mut self) {
        let found = match self.inode_at(InodeNo::ROOT).map(|at| self.inodes[at]) {
            None => "none".to_owned(),
            Some(root) if root.kind != Kind::Directory as u8 => format!("an inode of type {}", root.kind),
            Some(root) if root.nlink == 0 => "a directory without names".to_owned(),
            Some(root) => {
                if root.parent != InodeNo::ROOT {
                    let parent = Versus { stated: root.parent, found: InodeNo::ROOT };
                    self.report(Some(InodeNo::ROOT), Problem::DotDot(parent));
                }
                return;
            }
        };
        self.report(Some(InodeNo::ROOT), Problem::Root { found });
    }

    /// Chooses the name of each directory: the one that its `..` confirms, else the first.
    fn name_directories(&mut self) {
        for at in 0..self.entries.len() {
            let entry = self.entries[at];
            let Some(dir) = self.dir_at(entry.target).filter(|_| entry.target != InodeNo::ROOT) else {
                continue;
            };
            let is_better = match self.dirs[dir].named_at {
                None => true,
                Some((first, _)) => {
                    !self.is_confirmed(first, entry.target) && self.is_confirmed(entry.dir, entry.target)
                }
            };
            if is_better && !self.is_twin(at) {
                self.dirs[dir].named_at = Some((entry.dir, entry.place));
            }
        }
    }

    /// Whether the `..` of a directory leads to its parent, and from there to the root. A parent below the directory itself
    /// confirms nothing: both would be lost.
    fn is_confirmed(&self, parent: InodeNo, dir: InodeNo) -> bool {
        let dot_dot = |ino| self.inode_at(ino).map(|at| self.inodes[at].parent);
        let up = std::iter::successors(Some(dir), |ino| dot_dot(*ino).filter(|_| *ino != InodeNo::ROOT));
        dot_dot(dir) == Some(parent) && up.take(CLIMB_MAX).any(|ino| ino == InodeNo::ROOT)
    }

    /// Whether the entry before it has the same name.
    fn is_twin(&self, at: usize) -> bool {
        let name = |at: usize| (self.entries[at].dir, self.entries[at].hash);
        at > 0 && name(at - 1) == name(at)
    }

    fn entry(&mut self, at: usize) {
        let entry = self.entries[at];
        if self.is_twin(at) {
            self.report(Some(entry.dir), Problem::EntryTwice { at: self.place_of(entry.dir, entry.place) });
            return;
        }
        let target = entry.target;
        let Some(number) = self.inode_at(target) else {
            self.report(
                Some(entry.dir),
                Problem::EntryDangling { at: self.place_of(entry.dir, entry.place), target },
            );
            return;
        };
        let kind = self.inodes[number].kind;
        if kind != entry.kind {
            let kind = Versus { stated: entry.kind, found: kind };
            self.report(
                Some(entry.dir),
                Problem::EntryKind { at: self.place_of(entry.dir, entry.place), target, kind },
            );
        }
        if kind == Kind::Directory as u8 {
            self.subdirectory(number, &entry);
        } else {
            self.inodes[number].names = self.inodes[number].names.saturating_add(1);
        }
    }

    /// Checks an entry that names a directory: it may have only the chosen one, and `..` must lead back to it.
    fn subdirectory(&mut self, number: usize, entry: &EntryFacts) {
        let (at, target) = (self.place_of(entry.dir, entry.place), entry.target);
        let Some(dir) = self.dir_at(target) else { return };
        if self.dirs[dir].named_at != Some((entry.dir, entry.place)) {
            self.report(Some(entry.dir), Problem::EntrySecond { at, target });
            return;
        }
        self.inodes[number].names = 1;
        if let Some(parent) = self.dir_at(entry.dir) {
            self.dirs[parent].subdirectories = self.dirs[parent].subdirectories.saturating_add(1);
        }
        let stated = self.inodes[number].parent;
        if stated != entry.dir {
            self.report(Some(target), Problem::DotDot(Versus { stated, found: entry.dir }));
        }
    }

    fn each_directory(&mut self) {
        let entries = std::mem::take(&mut self.entries);
        let nodes = std::mem::take(&mut self.index_nodes);
        for at in 0..self.dirs.len() {
            let ino = self.dirs[at].ino;
            let mine = slice_of(&entries, ino, |entry| entry.dir);
            let nodes = slice_of(&nodes, ino, |node| node.dir);
            self.counts(at, mine);
            let blocks = self.dirs[at].index_blocks;
            let behind = nodes.last().map(|node| node.block).filter(|block| *block >= blocks);
            if let Some(block) = behind {
                let reason = wrong_index(ino, format!("{blocks} blocks"), format!("a block {block}"));
                self.report(Some(ino), Problem::Index { reason });
            } else if blocks > 0 && !self.dirs[at].is_torn {
                self.index(at, mine, nodes);
            }
        }
        self.entries = entries;
    }

    fn counts(&mut self, at: usize, entries: &[EntryFacts]) {
        let found_bytes = entries.iter().map(|entry| u64::from(entry.used_units) * UNIT_BYTES as u64).sum();
        let dir = &mut self.dirs[at];
        (dir.found_entries, dir.found_bytes) = (entries.len() as u64, found_bytes);
        let dir = *dir;
        if (dir.entries, dir.entry_bytes) != (dir.found_entries, found_bytes) && !dir.is_torn {
            let entries = Versus { stated: dir.entries, found: dir.found_entries };
            let bytes = Versus { stated: dir.entry_bytes, found: found_bytes };
            self.report(Some(dir.ino), Problem::Counts { entries, bytes });
        }
    }

    fn index(&mut self, at: usize, entries: &[EntryFacts], nodes: &[IndexNode]) {
        let (ino, blocks) = (self.dirs[at].ino, self.dirs[at].index_blocks);
        let block_bytes = self.block_bytes;
        let mut indexed = Vec::with_capacity(entries.len());
        let mut node = |block: u32| {
            let stored = nodes.binary_search_by_key(&u64::from(block), |node| node.block);
            Ok(padded(stored.map_or(&[][..], |n| &nodes[n].bytes), block_bytes))
        };
        let limit = nodes.last().map_or(0, |node| node.block + 1);
        let walked = if blocks > limit + u64::from(u16::MAX) {
            // There cannot be that many empty leaves at the end, and the check would look for all of them.
            Err(wrong_index(ino, format!("{limit} blocks"), blocks.to_string()))
        } else {
            index::walk_nodes(blocks, &mut node, &mut |hash, place| indexed.push((hash, place))).map_err(
                |stop| match stop {
                    Stop::Fail(error) => error,
                    other => wrong_index(ino, "nodes in memory".to_owned(), format!("{other:?}")),
                },
            )
        };
        let reason = match walked {
            Err(reason) => reason,
            Ok(()) => {
                let mut expected: Vec<_> = entries.iter().map(|e| (e.hash as u32, e.place)).collect();
                expected.sort_unstable();
                indexed.sort_unstable();
                if expected == indexed {
                    return;
                }
                wrong_index(
                    ino,
                    format!("{} entries", expected.len()),
                    format!("{} pairs, not theirs", indexed.len()),
                )
            }
        };
        self.report(Some(ino), Problem::Index { reason });
    }

    /// Judges a set of extended attributes.
    pub fn attributes(&mut self, ino: InodeNo, set: &[u8]) {
        if let Err(reason) = xattr::verify(set) {
            self.report(Some(ino), Problem::Attributes { reason });
        }
    }
}

impl Check<'_> {
    /// Runs phases 2 to 4.
    pub fn phases_of_names(&mut self) {
        self.tell(2);
        self.names.phase_2();
        self.totals.entries += self.names.entries.len() as u64;
        self.attributes_in_blocks();
        self.tell(3);
        self.names.phase_3();
        self.tell(4);
        self.names.phase_4();
    }

    /// Judges a set of extended attributes.
    pub fn attributes(&mut self, ino: InodeNo, set: &[u8]) {
        self.names.attributes(ino, set);
    }

    /// Checks sets of attributes that are in blocks: they are few, so they are read a second time.
    fn attributes_in_blocks(&mut self) {
        for inodes in std::mem::take(&mut self.with_attributes).chunks(SETS) {
            if self.is_stopped() {
                return;
            }
            let sets = self.lfs.drive_all(self.sweep.read, inodes, |lfs, ino| xattr::load(lfs, *ino));
            for (&ino, read) in inodes.iter().zip(sets) {
                match read {
                    Ok(set) => self.attributes(local(ino), &set),
                    // Phase 1 has reported the damaged block.
                    Err(FsError::Corrupt { ref what, .. }) if what.contains(" attribute ") => {}
                    Err(reason) => self.report(Some(local(ino)), Problem::Attributes { reason }),
                }
            }
            self.lfs.shrink_caches();
        }
    }
}

fn wrong_index(dir: InodeNo, expected: String, found: String) -> FsError {
    FsError::Corrupt { what: "directory index".to_owned(), at: format!("directory {dir}"), expected, found }
}

/// The part of a list, sorted by inode, that belongs to one inode.
fn slice_of<T>(list: &[T], ino: InodeNo, of: impl Fn(&T) -> InodeNo) -> &[T] {
    let start = list.partition_point(|item| of(item) < ino);
    let len = list[start..].partition_point(|item| of(item) == ino);
    &list[start..start + len]
}
