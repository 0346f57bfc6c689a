//! `Table`: the tree of blocks that stores the inode map or the segment usage table.
//!
//! Leaves hold entries, the nodes above hold their sums. Only a checkpoint changes the blocks ([`Staged`]);
//! between checkpoints `imap` and `usage` keep newer entries beside the tree. A block is stored up to its last
//! possible entry, so its stored length is known before its content.

use crate::error::{FsError, Outcome, Stop};
use crate::lfs::map::blockmap::Placed;
use crate::lfs::map::shelf::{Shelf, describe};
use crate::store::{BlockKey, Buf, Fork};
use firnfs_format::checkpoint::TableRoot;
use firnfs_format::table::{Node, TABLE_ENTRY_BYTES, TableEntry};
use firnfs_format::{BlockIndex, BlockPtr, InodeNo, SECTOR_BYTES};
use std::collections::{BTreeMap, BTreeSet};

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Table {
    ino: InodeNo,
    /// Root, as the last checkpoint (written or in preparation) has it.
    pub root: TableRoot,
    fan: u64,
}

/// New contents of the blocks that a checkpoint writes, by level and index, children before parents.
#[derive(Default)]
pub struct Staged {
    blocks: BTreeMap<(u32, u64), Vec<u8>>,
}

fn entry_at(buf: &[u8], slot: usize) -> &[u8; TABLE_ENTRY_BYTES] {
    buf[slot * TABLE_ENTRY_BYTES..][..TABLE_ENTRY_BYTES].try_into().expect("a whole entry")
}

fn put_entry(buf: &mut [u8], slot: usize, bytes: [u8; TABLE_ENTRY_BYTES]) {
    buf[slot * TABLE_ENTRY_BYTES..][..TABLE_ENTRY_BYTES].copy_from_slice(&bytes);
}

impl Table {
    /// The table of an internal file, from its root in the checkpoint.
    pub fn new(ino: InodeNo, root: TableRoot, block_bytes: u32) -> Self {
        Self { ino, root, fan: u64::from(block_bytes) / TABLE_ENTRY_BYTES as u64 }
    }

    /// The root of an empty table.
    pub const EMPTY: TableRoot = TableRoot { ptr: BlockPtr::HOLE, height: 0, used: 0, special: 0 };

    /// Entries in a leaf, and children of a node.
    pub fn fan(&self) -> u64 {
        self.fan
    }

    fn key(&self, level: u32, index: u64) -> BlockKey {
        BlockKey { ino: self.ino, fork: Fork::Data, level: level as u8, index: BlockIndex(index) }
    }

    /// Entries that a tree of that height can have. Saturates.
    fn capacity(&self, height: u32) -> u64 {
        self.fan.saturating_pow(height + 1)
    }

    /// Pointer of a block; a hole where nothing is in use.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn ptr(&self, shelf: &mut Shelf, level: u32, index: u64) -> Outcome<BlockPtr> {
        if level > self.root.height || index > 0 && level == self.root.height {
            return Ok(BlockPtr::HOLE);
        }
        if level == self.root.height {
            return Ok(self.root.ptr);
        }
        let parent = self.block(shelf, level + 1, index / self.fan)?;
        Ok(parent.map_or(BlockPtr::HOLE, |b| Node::decode(entry_at(&b, (index % self.fan) as usize)).ptr))
    }

    /// A block; `None` where nothing is in use.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn block(&self, shelf: &mut Shelf, level: u32, index: u64) -> Outcome<Option<Buf>> {
        let key = self.key(level, index);
        if let Some(block) = shelf.cache.get(&key) {
            return Ok(Some(block.buf.clone()));
        }
        let ptr = self.ptr(shelf, level, index)?;
        if ptr.is_hole() { Ok(None) } else { shelf.block(key, ptr).map(Some) }
    }

    /// The current pointer of a block, if that is known without I/O.
    pub fn peek_ptr(&self, shelf: &Shelf, level: u32, index: u64) -> Option<BlockPtr> {
        if level >= self.root.height {
            return Some(if level == self.root.height && index == 0 {
                self.root.ptr
            } else {
                BlockPtr::HOLE
            });
        }
        let parent = shelf.cache.peek(&self.key(level + 1, index / self.fan))?;
        Some(Node::decode(entry_at(&parent.buf, (index % self.fan) as usize)).ptr)
    }

    /// An entry as of the last checkpoint.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn get<E: TableEntry>(&self, shelf: &mut Shelf, n: u64) -> Outcome<E> {
        let leaf = self.block(shelf, 0, n / self.fan)?;
        Ok(leaf.map_or_else(E::default, |b| E::decode(entry_at(&b, (n % self.fan) as usize))))
    }

    /// An entry as of the last checkpoint, if its leaf is in memory.
    pub fn peek<E: TableEntry>(&self, shelf: &Shelf, n: u64) -> Option<E> {
        let leaf = shelf.cache.peek(&self.key(0, n / self.fan))?;
        Some(E::decode(entry_at(&leaf.buf, (n % self.fan) as usize)))
    }

    /// The entries of a leaf as of the last checkpoint, numbered; empty where nothing is in use.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn leaf<E: TableEntry>(&self, shelf: &mut Shelf, leaf: u64) -> Outcome<Vec<E>> {
        let block = self.block(shelf, 0, leaf)?;
        Ok(block.map_or_else(Vec::new, |b| {
            (0..self.fan as usize).map(|slot| E::decode(entry_at(&b, slot))).collect()
        }))
    }

    /// The first leaf in `from..end` that may hold a wanted entry: it calls `wanted(node, capacity)` for every subtree
    /// on the way, with its sums and the number of entries that it could have. For a subtree with nothing in use the
    /// sums are zero.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn find_leaf(
        &self,
        shelf: &mut Shelf,
        from: u64,
        end: u64,
        wanted: Wanted<'_>,
    ) -> Outcome<Option<u64>> {
        let reach = self.fan.saturating_pow(self.root.height);
        if from < reach {
            let root = Node { ptr: self.root.ptr, used: self.root.used, special: self.root.special };
            let found = self.search(shelf, (self.root.height, 0), &root, from..end.min(reach), wanted)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        let beyond = from.max(reach);
        Ok((beyond < end && wanted(&Node::default(), self.fan)).then_some(beyond))
    }

    fn search(
        &self,
        shelf: &mut Shelf,
        (level, index): (u32, u64),
        node: &Node,
        leaves: std::ops::Range<u64>,
        wanted: Wanted<'_>,
    ) -> Outcome<Option<u64>> {
        let below = self.fan.saturating_pow(level);
        let (first, end) = (index * below, (index + 1).saturating_mul(below));
        if end <= leaves.start || first >= leaves.end || !wanted(node, self.capacity(level)) {
            return Ok(None);
        }
        let Some(block) = (if level == 0 { None } else { self.block(shelf, level, index)? }) else {
            return Ok(Some(first.max(leaves.start)));
        };
        for slot in 0..self.fan as usize {
            let child = Node::decode(entry_at(&block, slot));
            let at = (level - 1, index * self.fan + slot as u64);
            if let Some(found) = self.search(shelf, at, &child, leaves.clone(), wanted)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The first stored leaf in `from..end`.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn stored_leaf(&self, shelf: &mut Shelf, from: u64, end: u64) -> Outcome<Option<u64>> {
        self.stored_leaf_below(shelf, (self.root.height, 0), self.root.ptr, from..end)
    }

    fn stored_leaf_below(
        &self,
        shelf: &mut Shelf,
        (level, index): (u32, u64),
        ptr: BlockPtr,
        leaves: std::ops::Range<u64>,
    ) -> Outcome<Option<u64>> {
        let below = self.fan.saturating_pow(level);
        let (first, end) = (index.saturating_mul(below), index.saturating_add(1).saturating_mul(below));
        if !ptr.is_stored() || end <= leaves.start || first >= leaves.end {
            return Ok(None);
        }
        if level == 0 {
            return Ok(Some(index));
        }
        let block = shelf.block(self.key(level, index), ptr)?;
        for slot in 0..self.fan {
            let child = Node::decode(entry_at(&block, slot as usize)).ptr;
            let at = (level - 1, index * self.fan + slot);
            if let Some(found) = self.stored_leaf_below(shelf, at, child, leaves.clone())? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// All stored blocks of the tree; `Corrupt` if there are more than `most`, as in a tree that leads into itself.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn stored_blocks(&self, shelf: &mut Shelf, most: u64) -> Outcome<Vec<Placed>> {
        let mut found: Vec<Placed> = Vec::new();
        let mut todo = vec![(self.root.height, 0, self.root.ptr)];
        while let Some((level, index, ptr)) = todo.pop() {
            if !ptr.is_stored() {
                continue;
            }
            let key = self.key(level, index);
            found.push(Placed { key, ptr });
            if found.len() as u64 > most {
                let (expected, found) = (format!("at most {most} blocks"), "more".to_owned());
                let at = shelf.geo.place(self.root.ptr.addr);
                return Err(FsError::Corrupt { what: describe(&key), at, expected, found }.into());
            }
            if level > 0 {
                let block = shelf.block(key, ptr)?;
                let children =
                    (0..self.fan).map(|slot| (slot, Node::decode(entry_at(&block, slot as usize)).ptr));
                todo.extend(children.map(|(slot, child)| (level - 1, index * self.fan + slot, child)));
            }
        }
        Ok(found)
    }

    /// The blocks that have to be rewritten when those leaves change: the leaves and all above them, with the pointers
    /// to the old versions. Brings them into memory.
    ///
    /// # Errors
    /// `Need` (many at once), `Corrupt`.
    pub fn rewritten(
        &self,
        shelf: &mut Shelf,
        leaves: &BTreeSet<u64>,
    ) -> Outcome<BTreeMap<(u32, u64), BlockPtr>> {
        let mut blocks = BTreeMap::new();
        let mut needs = Vec::new();
        for &leaf in leaves {
            let mut index = leaf;
            for level in 0..=self.root.height {
                if blocks.contains_key(&(level, index)) {
                    break;
                }
                match self.block(shelf, level, index) {
                    Err(Stop::Need(more)) => needs.extend(more),
                    Err(stop) => return Err(stop),
                    Ok(_) => {}
                }
                let ptr = self.peek_ptr(shelf, level, index).unwrap_or(BlockPtr::HOLE);
                blocks.insert((level, index), ptr);
                index /= self.fan;
            }
        }
        needs.dedup_by(|a, b| a == b);
        if needs.is_empty() { Ok(blocks) } else { Err(Stop::Need(needs)) }
    }

    /// Height that a table of `limit` entries needs.
    pub fn height_for(&self, limit: u64) -> u32 {
        (0..).find(|&h| self.capacity(h) >= limit).unwrap_or(0)
    }

    /// Blocks that a checkpoint writes in all if those leaves change and the tree has to hold `limit` entries.
    pub fn blocks_written(&self, leaves: &BTreeSet<u64>, limit: u64) -> Vec<(u32, u64)> {
        let height = self.height_for(limit).max(self.root.height);
        // A tree that grows needs all new blocks above its old root, wherever the leaves are.
        let grows = !leaves.is_empty();
        let mut blocks: BTreeSet<(u32, u64)> =
            (self.root.height + 1..=height).filter(|_| grows).map(|level| (level, 0)).collect();
        for &leaf in leaves {
            let mut index = leaf;
            for level in 0..=height {
                blocks.insert((level, index));
                index /= self.fan;
            }
        }
        blocks.into_iter().collect()
    }

    /// Stored length of a block in sectors when the table has `limit` entries.
    pub fn stored_sectors(&self, level: u32, index: u64, limit: u64) -> u8 {
        let below = self.fan.saturating_pow(level);
        let first = index.saturating_mul(self.fan).saturating_mul(below);
        let entries = limit.saturating_sub(first).div_ceil(below).clamp(1, self.fan);
        (entries * TABLE_ENTRY_BYTES as u64).div_ceil(u64::from(SECTOR_BYTES)) as u8
    }

    /// Makes new contents for the given leaves' blocks (see [`Self::blocks_written`]) with `updates` applied, in order of
    /// their numbers. All blocks named by [`Self::rewritten`] are in memory. Pointers to staged blocks are pending.
    pub fn stage<E: TableEntry>(
        &mut self,
        shelf: &mut Shelf,
        leaves: &BTreeSet<u64>,
        updates: &[(u64, E)],
        limit: u64,
        block_bytes: u32,
    ) -> Staged {
        let written = self.blocks_written(leaves, limit);
        let mut staged = Staged::default();
        for &(level, index) in &written {
            let old = self.block(shelf, level, index).ok().flatten();
            staged
                .blocks
                .insert((level, index), old.map_or_else(|| vec![0; block_bytes as usize], |b| b.to_vec()));
        }
        self.grow(&mut staged, limit);
        for (n, entry) in updates {
            let (leaf, slot) = (n / self.fan, (n % self.fan) as usize);
            let block = staged.blocks.get_mut(&(0, leaf)).expect("updated leaves are staged");
            let old = E::decode(entry_at(block, slot));
            put_entry(block, slot, entry.encode());
            let used = i64::from(entry.is_used()) - i64::from(old.is_used());
            let special = i64::from(entry.is_special()) - i64::from(old.is_special());
            self.sum_up(&mut staged, leaf, used, special);
        }
        self.point_to_pending(&mut staged, &written);
        staged
    }

    /// Adds levels until `limit` entries fit; the old root becomes the first child of the new one.
    fn grow(&mut self, staged: &mut Staged, limit: u64) {
        while self.root.height < self.height_for(limit) {
            self.root.height += 1;
            let root = staged.blocks.get_mut(&(self.root.height, 0)).expect("all levels are staged");
            let child = Node { ptr: self.root.ptr, used: self.root.used, special: self.root.special };
            put_entry(root, 0, child.encode());
        }
    }

    fn sum_up(&mut self, staged: &mut Staged, leaf: u64, used: i64, special: i64) {
        let mut index = leaf;
        for level in 1..=self.root.height {
            let slot = (index % self.fan) as usize;
            index /= self.fan;
            let block = staged.blocks.get_mut(&(level, index)).expect("parents of staged blocks are staged");
            let mut node = Node::decode(entry_at(block, slot));
            node.used = node.used.saturating_add_signed(used);
            node.special = node.special.saturating_add_signed(special);
            put_entry(block, slot, node.encode());
        }
        self.root.used = self.root.used.saturating_add_signed(used);
        self.root.special = self.root.special.saturating_add_signed(special);
    }

    fn point_to_pending(&mut self, staged: &mut Staged, written: &[(u32, u64)]) {
        for &(level, index) in written {
            self.set_child(staged, level, index, BlockPtr::PENDING);
        }
    }

    fn set_child(&mut self, staged: &mut Staged, level: u32, index: u64, ptr: BlockPtr) {
        if level == self.root.height {
            self.root.ptr = ptr;
            return;
        }
        let block = staged.blocks.get_mut(&(level + 1, index / self.fan)).expect("parents are staged");
        let slot = (index % self.fan) as usize;
        let node = Node { ptr, ..Node::decode(entry_at(block, slot)) };
        put_entry(block, slot, node.encode());
    }

    /// Notes the address of a staged block: puts the pointer into its parent and the block into the cache. Children before
    /// parents.
    pub fn placed(&mut self, shelf: &mut Shelf, staged: &mut Staged, level: u32, index: u64, ptr: BlockPtr) {
        self.set_child(staged, level, index, ptr);
        let bytes = staged.blocks.remove(&(level, index)).expect("a block is placed once");
        shelf.cache.insert_clean(self.key(level, index), Buf::from(bytes));
    }
}

/// Decides on a subtree from its sums and the entries it could have.
pub type Wanted<'a> = &'a dyn Fn(&Node, u64) -> bool;

impl Staged {
    /// Content of a staged block.
    pub fn bytes(&self, level: u32, index: u64) -> &[u8] {
        &self.blocks[&(level, index)]
    }
}
