//! The inode map: where every inode is, its version and access time (Sprite LFS, section 3.1).
//!
//! Entries newer than the last checkpoint are kept beside the tree and merged by the next one, so that a commit does
//! not rewrite map blocks. Roll-forward finds them again in the summaries.

use crate::error::{FsError, Outcome, Stop};
use crate::lfs::map::admit::INODE_NUMBERS;
use crate::lfs::map::shelf::Shelf;
use crate::lfs::tables::table::Table;
use firnfs_format::InodeNo;
use firnfs_format::checkpoint::TableRoot;
use firnfs_format::table::{ImapEntry, Node, TABLE_ENTRY_BYTES, TableEntry};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// See the module's head.
#[derive(Clone)]
pub struct Imap {
    /// The tree as of the last checkpoint.
    pub table: Table,
    newer: FxHashMap<u64, ImapEntry>,
    /// First number never used.
    pub next_ino: InodeNo,
    /// Numbers freed since the mount, which are reused first (the last freed is the first used: its map block is warm).
    free: Vec<InodeNo>,
    /// Where the search for older free numbers goes on, as a leaf of the table.
    cursor: u64,
    /// Numbers in use.
    pub used: u64,
    /// Leaves to rewrite although nothing in them changed.
    moving: BTreeSet<u64>,
    /// What `next_ino` was when the tree was written.
    stored_through: InodeNo,
    /// Leaves that newer entries belong to.
    changed: BTreeSet<u64>,
    /// A search for orphans that waits for a block.
    search: Option<OrphanSearch>,
    /// The number that the next inode has to get.
    pub wanted: Option<InodeNo>,
}

/// How far the tree was searched for orphans. It survives each stop, so that no leaf is examined twice.
#[derive(Clone, Default)]
struct OrphanSearch {
    found: BTreeSet<u64>,
    /// Leaf where it goes on.
    from: u64,
    damage: Option<FsError>,
}

impl Imap {
    /// The map as the checkpoint has it.
    pub fn new(root: TableRoot, next_ino: InodeNo, block_bytes: u32) -> Self {
        Self {
            table: Table::new(InodeNo::INODE_MAP, root, block_bytes),
            newer: FxHashMap::default(),
            next_ino,
            free: Vec::new(),
            cursor: 0,
            used: root.used,
            moving: BTreeSet::new(),
            stored_through: next_ino,
            changed: BTreeSet::new(),
            search: None,
            wanted: None,
        }
    }

    /// Bytes that the tree will grow by with the next checkpoint, for numbers never used before.
    pub fn growth_bytes(&self) -> u64 {
        let entries = self.next_ino.0 - self.stored_through.0;
        (entries + entries / self.table.fan()) * TABLE_ENTRY_BYTES as u64
    }

    /// An entry.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn get(&self, shelf: &mut Shelf, ino: InodeNo) -> Outcome<ImapEntry> {
        if let Some(entry) = self.newer.get(&ino.0) {
            return Ok(*entry);
        }
        if ino.0 >= self.next_ino.0 {
            return Ok(ImapEntry::default());
        }
        self.table.get(shelf, ino.0)
    }

    /// Replaces the whole map by these entries, all that are not blank, by number. The next checkpoint writes it whole.
    pub fn restate(&mut self, entries: &[(u64, ImapEntry)]) {
        let next = entries.last().map_or(InodeNo::FIRST_USER.0, |last| last.0 + 1);
        let block_bytes = self.table.fan() as u32 * TABLE_ENTRY_BYTES as u32;
        // Blocks of the table will be charged when they are written: until then they are growth.
        *self = Self { stored_through: InodeNo(0), ..Self::new(Table::EMPTY, self.next_ino, block_bytes) };
        self.next_ino = self.next_ino.max(InodeNo(next));
        self.used = entries.iter().filter(|(_, entry)| entry.is_used()).count() as u64;
        for (number, entry) in entries {
            self.set(InodeNo(*number), *entry);
        }
    }

    /// Entries newer than the tree, by number.
    pub fn newer_entries(&self) -> Vec<(InodeNo, ImapEntry)> {
        let mut entries: Vec<_> = self.newer.iter().map(|(&n, &entry)| (InodeNo(n), entry)).collect();
        entries.sort_unstable_by_key(|e| e.0);
        entries
    }

    /// Numbers of entries newer than the tree, among these.
    pub fn newer_in(&self, numbers: std::ops::Range<u64>) -> impl Iterator<Item = InodeNo> {
        self.newer.keys().copied().filter(move |number| numbers.contains(number)).map(InodeNo)
    }

    /// Sets an entry.
    pub fn set(&mut self, ino: InodeNo, entry: ImapEntry) {
        self.next_ino = self.next_ino.max(InodeNo(ino.0 + 1));
        self.newer.insert(ino.0, entry);
        self.changed.insert(ino.0 / self.table.fan());
    }

    /// Leaves with entries newer than the tree.
    pub fn changed_blocks(&self) -> u64 {
        self.changed.len() as u64
    }

    /// Entries newer than the tree.
    pub fn newer_len(&self) -> usize {
        self.newer.len()
    }

    /// A free number and its entry (for the version); it is free until [`Self::take`]. `busy` numbers
    /// are in use though their entry does not say so yet.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn find_free(
        &mut self,
        shelf: &mut Shelf,
        busy: &dyn Fn(InodeNo) -> bool,
    ) -> Outcome<(InodeNo, ImapEntry)> {
        if let Some(ino) = self.wanted {
            let entry = self.get(shelf, ino)?;
            return if entry.is_used() || busy(ino) { Err(FsError::Exists.into()) } else { Ok((ino, entry)) };
        }
        while let Some(&ino) = self.free.last() {
            let entry = self.get(shelf, ino)?;
            if !entry.is_used() && !busy(ino) {
                return Ok((ino, entry));
            }
            self.free.pop();
        }
        // Search for old holes only if they are at least an eighth of the map.
        let holes = self.next_ino.0.saturating_sub(InodeNo::FIRST_USER.0 + self.used);
        if holes > self.next_ino.0 / 8 && holes > self.table.fan() {
            match self.search_holes(shelf, busy) {
                Ok(Some(found)) => return Ok(found),
                // Numbers never used serve as well as those in a damaged part of the map.
                Ok(None) | Err(Stop::Fail(_)) => self.cursor += 1,
                Err(stop) => return Err(stop),
            }
        }
        let fresh = (self.next_ino.0..INODE_NUMBERS).map(InodeNo).find(|&ino| !busy(ino));
        Ok((fresh.ok_or(FsError::NoSpace)?, ImapEntry::default()))
    }

    fn search_holes(
        &mut self,
        shelf: &mut Shelf,
        busy: &dyn Fn(InodeNo) -> bool,
    ) -> Outcome<Option<(InodeNo, ImapEntry)>> {
        let end = self.next_ino.0 / self.table.fan();
        let has_room = |node: &Node, capacity: u64| node.used < capacity;
        // A few leaves at a time: entries newer than the tree may have filled leaves that have free numbers by their sums.
        for _ in 0..4 {
            let Some(leaf) = self.table.find_leaf(shelf, self.cursor, end, &has_room)? else {
                self.cursor = 0;
                return Ok(None);
            };
            let entries = self.table.leaf::<ImapEntry>(shelf, leaf)?;
            let first = leaf * self.table.fan();
            for slot in 0..self.table.fan() {
                let ino = InodeNo(first + slot);
                let stored = entries.get(slot as usize).copied().unwrap_or_default();
                let entry = self.newer.get(&ino.0).copied().unwrap_or(stored);
                if ino >= InodeNo::FIRST_USER && !entry.is_used() && !busy(ino) {
                    self.free.push(ino);
                }
            }
            self.cursor = leaf + 1;
            self.free.reverse();
            if let Some(&ino) = self.free.last() {
                return Ok(Some((ino, self.get(shelf, ino)?)));
            }
        }
        Ok(None)
    }

    /// Notes that a new inode took a number.
    pub fn take(&mut self, ino: InodeNo) {
        if self.free.last() == Some(&ino) {
            self.free.pop();
        }
        self.wanted = None;
        self.used += 1;
        self.next_ino = self.next_ino.max(InodeNo(ino.0 + 1));
    }

    /// Notes that an inode is gone; its number may be reused after [`Self::give_back`].
    pub fn inode_gone(&mut self) {
        self.used = self.used.saturating_sub(1);
    }

    /// Allows the reuse of a number.
    pub fn give_back(&mut self, ino: InodeNo) {
        if ino >= InodeNo::FIRST_USER {
            self.free.push(ino);
        }
    }

    /// The leaves that the next checkpoint has to write.
    pub fn changed_leaves(&self) -> BTreeSet<u64> {
        self.changed.union(&self.moving).copied().collect()
    }

    /// Makes the next checkpoint rewrite a block although nothing in it changed, because the cleaner needs its segment empty.
    pub fn move_block(&mut self, level: u32, index: u64) {
        self.moving.insert(index * self.table.fan().saturating_pow(level));
    }

    /// The newer entries, in order, for the checkpoint that merges them.
    pub fn take_newer(&mut self) -> Vec<(u64, ImapEntry)> {
        self.moving.clear();
        self.search = None;
        self.stored_through = self.next_ino;
        self.changed.clear();
        let mut entries: Vec<_> = std::mem::take(&mut self.newer).into_iter().collect();
        entries.sort_unstable_by_key(|e| e.0);
        entries
    }

    /// Numbers of all orphans, and the damage that may hide more of them.
    ///
    /// # Errors
    /// `Need`.
    pub fn orphans(&mut self, shelf: &mut Shelf) -> Outcome<(Vec<InodeNo>, Option<FsError>)> {
        let mut search = self.search.take().unwrap_or_default();
        while let Some(leaf) = match self.next_orphans(shelf, &mut search) {
            Err(Stop::Fail(why)) => {
                search.damage.get_or_insert(why);
                None
            }
            Err(stop) => {
                self.search = Some(search);
                return Err(stop);
            }
            Ok(leaf) => leaf,
        } {
            search.from = leaf + 1;
        }
        let newer = self.newer.iter().filter(|(_, e)| e.orphan).map(|(n, _)| *n);
        let mut found: BTreeSet<u64> = newer.collect();
        found.extend(search.found.iter().filter(|n| !self.newer.contains_key(n)));
        Ok((found.into_iter().map(InodeNo).collect(), search.damage))
    }

    /// Notes the orphans of the next leaf that has some, and returns it. It skips a damaged leaf. A leaf without orphans,
    /// although the sums above it say that it has some, ends the search: wrong sums could lead it through all possible
    /// numbers.
    fn next_orphans(&self, shelf: &mut Shelf, search: &mut OrphanSearch) -> Outcome<Option<u64>> {
        let end = self.next_ino.0.div_ceil(self.table.fan());
        if search.found.len() as u64 >= self.table.root.special {
            return Ok(None);
        }
        let Some(leaf) = self.table.find_leaf(shelf, search.from, end, &|node, _| node.special > 0)? else {
            return Ok(None);
        };
        let entries = match self.table.leaf::<ImapEntry>(shelf, leaf) {
            Err(Stop::Fail(why)) => {
                search.damage.get_or_insert(why);
                return Ok(Some(leaf));
            }
            other => other?,
        };
        let before = search.found.len();
        let first = leaf * self.table.fan();
        let orphans = entries.iter().enumerate().filter(|(_, entry)| entry.orphan);
        search.found.extend(orphans.map(|(slot, _)| first + slot as u64));
        if search.found.len() > before {
            return Ok(Some(leaf));
        }
        Err(FsError::Corrupt {
            what: "inode map".to_owned(),
            at: format!("inodes {first} and up"),
            expected: "an orphan, as the blocks above say".to_owned(),
            found: "none".to_owned(),
        }
        .into())
    }
}
