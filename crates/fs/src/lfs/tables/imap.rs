//! The inode map: where every inode is, its version and access time (Sprite LFS, section 3.1).
//!
//! Entries newer than the last checkpoint are kept beside the tree and merged by the next one, so that a commit does
//! not rewrite map blocks. Roll-forward finds them again in the summaries.

use crate::error::{FsError, Outcome, Stop};
use crate::lfs::map::admit::INODE_NUMBERS;
use crate::lfs::map::shelf::Shelf;
use crate::lfs::tables::table::Table;
use crate::states::{branch_of, in_branch, local};
use firnfs_format::InodeNo;
use firnfs_format::checkpoint::{BRANCH_BITS, TableRoot};
use firnfs_format::table::{ImapEntry, Node, TABLE_ENTRY_BYTES, TableEntry};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// See the module's head.
#[derive(Clone)]
pub struct Imap {
    /// The tree as of the last checkpoint.
    pub table: Table,
    newer: FxHashMap<u64, ImapEntry>,
    /// First number never used, of the volume itself.
    next_ino: InodeNo,
    /// The same within each clone, without the branch, and numbers freed in it since the mount.
    branches: BTreeMap<u8, (InodeNo, Vec<InodeNo>)>,
    /// Numbers freed since the mount, which are reused first (the last freed is the first used: its map block is warm).
    free: Vec<InodeNo>,
    /// Where the search for older free numbers goes on, as a leaf of the table.
    cursor: u64,
    /// Numbers in use.
    used: u64,
    /// Leaves to rewrite although nothing in them changed.
    moving: BTreeSet<u64>,
    /// What `next_ino` was when the tree was written.
    stored_through: InodeNo,
    /// Leaves that newer entries belong to.
    changed: BTreeSet<u64>,
    /// A search for orphans that waits for a block.
    search: Option<OrphanSearch>,
    /// The number that the next inode has to get.
    wanted: Option<InodeNo>,
}

/// Entries with their numbers.
pub type Numbered = Vec<(InodeNo, ImapEntry)>;

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
            branches: BTreeMap::new(),
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

    /// First number never used, of the volume itself.
    pub fn next_ino(&self) -> InodeNo {
        self.next_ino
    }

    /// Numbers in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The next inode has to get that number.
    pub fn want(&mut self, ino: InodeNo) {
        self.wanted = Some(ino);
    }

    /// A clone has numbers from now on; `next_ino` is the first that was never used in it.
    pub fn begin_branch(&mut self, branch: u8, next_ino: InodeNo) {
        self.branches.insert(branch, (next_ino, Vec::new()));
    }

    /// A clone has no numbers any more: all its entries are blank.
    pub fn end_branch(&mut self, branch: u8) {
        self.branches.remove(&branch);
    }

    /// First number never used in a clone, without the branch.
    pub fn next_in(&self, branch: u8) -> Option<InodeNo> {
        self.branches.get(&branch).map(|(next, _)| *next)
    }

    /// One past the largest number that the tree has to have room for. From the first clone on it has room for all that can be, and its
    /// blocks are stored whole: what the numbers of deleted clones have left in it stays within.
    pub fn limit(&self) -> u64 {
        let is_higher = self.table.height_for(self.next_ino.0) < self.table.root.height;
        if self.branches.is_empty() && !is_higher { self.next_ino.0 } else { INODE_NUMBERS }
    }

    fn next_of(&mut self, ino: InodeNo) -> &mut InodeNo {
        match branch_of(ino) {
            0 => &mut self.next_ino,
            branch => &mut self.branches.entry(branch).or_insert((InodeNo::FIRST_USER, Vec::new())).0,
        }
    }

    fn note_used(&mut self, ino: InodeNo) {
        let next = self.next_of(ino);
        *next = (*next).max(InodeNo(local(ino).0 + 1));
    }

    /// Bytes that the tree will grow by with the next checkpoint, for numbers never used before. In clones, changed inodes lie apart: a
    /// leaf for each, with another block above it, is the most that they need.
    pub fn growth_bytes(&self) -> u64 {
        let entries = self.next_ino.0 - self.stored_through.0;
        let in_clones = match self.branches.is_empty() {
            true => 0,
            false => self.changed.range((1 << BRANCH_BITS) / self.table.fan()..).count() as u64,
        };
        (entries + entries / self.table.fan() + 2 * in_clones * self.table.fan()) * TABLE_ENTRY_BYTES as u64
    }

    /// An entry.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn get(&self, shelf: &mut Shelf, ino: InodeNo) -> Outcome<ImapEntry> {
        if let Some(entry) = self.newer.get(&ino.0) {
            return Ok(*entry);
        }
        let next = match branch_of(ino) {
            0 => Some(self.next_ino),
            branch => self.next_in(branch),
        };
        if next.is_none_or(|next| local(ino) >= next) {
            return Ok(ImapEntry::default());
        }
        self.table.get(shelf, ino.0)
    }

    /// Replaces the whole map by these entries, all that are not blank, by number. The next checkpoint writes it whole.
    pub fn restate(&mut self, entries: &[(u64, ImapEntry)]) {
        let block_bytes = self.table.fan() as u32 * TABLE_ENTRY_BYTES as u32;
        // Blocks of the table will be charged when they are written: until then they are growth.
        *self = Self {
            stored_through: InodeNo(0),
            branches: std::mem::take(&mut self.branches),
            ..Self::new(Table::EMPTY, self.next_ino.max(InodeNo::FIRST_USER), block_bytes)
        };
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
        self.note_used(ino);
        self.newer.insert(ino.0, entry);
        self.changed.insert(ino.0 / self.table.fan());
    }

    /// Sets an entry that the log has, where the number may have been in use before.
    pub fn replace(&mut self, ino: InodeNo, was_used: bool, entry: ImapEntry) {
        self.used = (self.used + u64::from(entry.is_used())).saturating_sub(u64::from(was_used));
        self.set(ino, entry);
    }

    /// The entries of a clone that are not blank, of the first leaf that has any; `from` is where the search begins. Returns the leaf, too.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn next_entries(&self, shelf: &mut Shelf, branch: u8, from: u64) -> Outcome<Option<(u64, Numbered)>> {
        let fan = self.table.fan();
        let first = in_branch(branch, InodeNo(0)).0 / fan;
        let end = first + (1 << BRANCH_BITS) / fan;
        let mut from = from.max(first);
        loop {
            let newer = self.changed.range(from..end).next().copied();
            let stored = self.table.stored_leaf(shelf, from, newer.unwrap_or(end))?;
            let Some(leaf) = stored.or(newer) else { return Ok(None) };
            let stored = self.table.leaf::<ImapEntry>(shelf, leaf)?;
            let entries = (0..fan).map(|slot| {
                let ino = InodeNo(leaf * fan + slot);
                let entry = stored.get(slot as usize).copied().unwrap_or_default();
                (ino, self.newer.get(&ino.0).copied().unwrap_or(entry))
            });
            let entries: Numbered = entries.filter(|(_, entry)| *entry != ImapEntry::default()).collect();
            if !entries.is_empty() {
                return Ok(Some((leaf, entries)));
            }
            from = leaf + 1;
        }
    }

    /// Leaves with entries newer than the tree.
    pub fn changed_blocks(&self) -> u64 {
        self.changed.len() as u64
    }

    /// Entries newer than the tree.
    pub fn newer_len(&self) -> usize {
        self.newer.len()
    }

    /// A free number of a clone, as [`Self::find_free`]: one freed since the mount, or one never used.
    ///
    /// # Errors
    /// `NoSpace`; `Need`, `Corrupt`.
    pub fn find_free_in(
        &mut self,
        shelf: &mut Shelf,
        branch: u8,
        busy: &dyn Fn(InodeNo) -> bool,
    ) -> Outcome<(InodeNo, ImapEntry)> {
        let Some((next, free)) = self.branches.get_mut(&branch) else { return Err(FsError::Stale.into()) };
        let next = *next;
        while let Some(&ino) = free.last() {
            let entry = match self.newer.get(&ino.0) {
                Some(entry) => *entry,
                None => self.table.get(shelf, ino.0)?,
            };
            if !entry.is_used() && !busy(ino) {
                return Ok((ino, entry));
            }
            free.pop();
        }
        let fresh = (next.0..1 << BRANCH_BITS).map(|ino| in_branch(branch, InodeNo(ino)));
        Ok((fresh.into_iter().find(|&ino| !busy(ino)).ok_or(FsError::NoSpace)?, ImapEntry::default()))
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
        let fresh = (self.next_ino.0..1 << BRANCH_BITS).map(InodeNo).find(|&ino| !busy(ino));
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
        let free = match branch_of(ino) {
            0 => Some(&mut self.free),
            branch => self.branches.get_mut(&branch).map(|(_, free)| free),
        };
        if let Some(free) = free.filter(|free| free.last() == Some(&ino)) {
            free.pop();
        }
        self.wanted = None;
        self.used += 1;
        self.note_used(ino);
    }

    /// Notes that the map gets its own entry for an inode that a clone has shared with its origin.
    pub fn inode_parted(&mut self) {
        self.used += 1;
    }

    /// Notes that an inode is gone; its number may be reused after [`Self::give_back`].
    pub fn inode_gone(&mut self) {
        self.used = self.used.saturating_sub(1);
    }

    /// Allows the reuse of a number.
    pub fn give_back(&mut self, ino: InodeNo) {
        if local(ino) < InodeNo::FIRST_USER {
            return;
        }
        match branch_of(ino) {
            0 => self.free.push(ino),
            branch => {
                if let Some((_, free)) = self.branches.get_mut(&branch) {
                    free.push(ino);
                }
            }
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
        let end = self.limit().div_ceil(self.table.fan());
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
