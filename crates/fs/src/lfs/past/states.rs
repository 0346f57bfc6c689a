//! Reads what a retained point leads to: entries of its inode map, records, pointers to blocks.
//!
//! A reader finds the blocks of a point by pointer, and those of the present by name: the cache of the present holds only the
//! present's blocks under their names. Every block is verified against the checksum in the pointer to its present place.

use crate::bmap::Parent;
use crate::error::{FsError, Outcome};
use crate::lfs::Lfs;
use crate::lfs::base::places::place_of_record;
use crate::lfs::map::admit::{self, RECORD_MAX_BYTES};
use crate::lfs::map::blockmap::ptr_in;
use crate::lfs::map::wanted::Wanted;
use crate::lfs::tables::table::Table;
use crate::store::{BlockKey, Buf};
use firnfs_format::checkpoint::{Point, PointCursor, TableRoot};
use firnfs_format::inode::{FORKS, Roots};
use firnfs_format::pointer::POINTER_BYTES;
use firnfs_format::summary::EntryKind;
use firnfs_format::table::{ImapEntry, Node, TABLE_ENTRY_BYTES, TableEntry};
use firnfs_format::{BlockPtr, Epoch, InodeNo, PtrKind};
use rustc_hash::FxHashMap;

/// The part of [`Options::cache_bytes`](crate::lfs::Options) that young blocks of older states may take; old ones may take as much again.
/// When a file of a few GiB changes at random, the cleaner needs all blocks of pointers of two or three states again and again.
const CACHE_PART: u64 = 32;
/// Young blocks may always take that much.
const YOUNG_BYTES_LEAST: u64 = 1 << 20;

/// Blocks of older states, by their pointers. The ones used last stay.
pub(in crate::lfs) struct PastBlocks {
    young: FxHashMap<[u8; POINTER_BYTES], Buf>,
    young_bytes: u64,
    young_bytes_most: u64,
    old: FxHashMap<[u8; POINTER_BYTES], Buf>,
}

impl PastBlocks {
    /// Empty, for a volume whose cache may have that many bytes.
    pub fn new(cache_bytes: u64) -> Self {
        let young_bytes_most = (cache_bytes / CACHE_PART).max(YOUNG_BYTES_LEAST);
        Self { young: FxHashMap::default(), young_bytes: 0, young_bytes_most, old: FxHashMap::default() }
    }

    /// Puts a verified block in.
    pub fn insert(&mut self, ptr: &BlockPtr, stored: &[u8]) {
        if self.young_bytes >= self.young_bytes_most {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += stored.len() as u64;
        self.young.insert(ptr.encode(), Buf::from(stored));
    }

    fn get(&mut self, ptr: &BlockPtr) -> Option<Buf> {
        let key = ptr.encode();
        if let Some(block) = self.young.get(&key) {
            return Some(block.clone());
        }
        let block = self.old.remove(&key)?;
        self.insert(ptr, &block);
        Some(block)
    }
}

/// A state that can be read: its epoch, and its inode map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateRoot {
    pub epoch: Epoch,
    pub map: TableRoot,
}

impl StateRoot {
    /// A state without inodes.
    pub const NOTHING: Self = Self { epoch: Epoch(0), map: Table::EMPTY };
}

impl From<&Point> for StateRoot {
    fn from(point: &Point) -> Self {
        Self { epoch: point.epoch, map: point.imap }
    }
}

impl Lfs {
    /// The stored bytes of a block or record of a state, read from where it is now. `place` and `ptr` say where that state has
    /// it.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(crate) fn past_block(
        &mut self,
        place: &PointCursor,
        state: Epoch,
        ptr: BlockPtr,
        max_bytes: u32,
    ) -> Outcome<Buf> {
        self.geo.check(&ptr, max_bytes, || "block of a retained point".to_owned())?;
        let at = self.follow_above(place, state, ptr)?;
        self.past_block_at(at, max_bytes)
    }

    /// The stored bytes of a block or record of an older state that is at that place now.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(in crate::lfs) fn past_block_at(&mut self, at: BlockPtr, max_bytes: u32) -> Outcome<Buf> {
        self.geo.check(&at, max_bytes, || "moved block of a retained point".to_owned())?;
        if let Some(block) = self.past_blocks.get(&at) {
            return Ok(block);
        }
        if let Some(bytes) = self.shelf.in_flight_bytes(&at) {
            return Ok(Buf::from(bytes));
        }
        Err(self.shelf.ask(Wanted::Past(at), &at))
    }

    /// The pointer that a state has to a block of its inode map.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(in crate::lfs) fn past_map_ptr(
        &mut self,
        state: &StateRoot,
        level: u32,
        index: u64,
    ) -> Outcome<BlockPtr> {
        if level > state.map.height || level == state.map.height && index > 0 {
            return Ok(BlockPtr::HOLE);
        }
        if level == state.map.height {
            return Ok(state.map.ptr);
        }
        let fan = self.tables.imap.table.fan();
        let parent = self.past_map_ptr(state, level + 1, index / fan)?;
        if !parent.is_stored() {
            return Ok(BlockPtr::HOLE);
        }
        let place = self.place_in_map(level + 1, index / fan);
        let block = self.past_block(&place, state.epoch, parent, self.geo.block_bytes)?;
        Ok(node_in(&block, index % fan).map_or(BlockPtr::HOLE, |node| node.ptr))
    }

    /// The entry of an inode in a state; blank if the inode is not in use there.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(crate) fn past_entry(&mut self, state: &StateRoot, ino: InodeNo) -> Outcome<ImapEntry> {
        let fan = self.tables.imap.table.fan();
        if ino.0 >= fan.saturating_pow(state.map.height + 1) {
            return Ok(ImapEntry::default());
        }
        let leaf = self.past_map_ptr(state, 0, ino.0 / fan)?;
        if !leaf.is_stored() {
            return Ok(ImapEntry::default());
        }
        let place = self.place_in_map(0, ino.0 / fan);
        let block = self.past_block(&place, state.epoch, leaf, self.geo.block_bytes)?;
        Ok(entry_in(&block, ino.0 % fan))
    }

    /// The root pointers in a record of a state.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(crate) fn past_roots(
        &mut self,
        state: Epoch,
        ino: InodeNo,
        record: BlockPtr,
    ) -> Outcome<Box<[Roots; FORKS]>> {
        let bytes = self.past_block(&place_of_record(ino), state, record, RECORD_MAX_BYTES)?;
        let record = admit::record(&self.geo, ino, &record, &bytes)?;
        Ok(Box::new(record.roots))
    }

    /// The pointer that a state has to a block, a record or a block of the inode map; a hole if it has none.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(in crate::lfs) fn past_ptr(
        &mut self,
        state: &StateRoot,
        ino: InodeNo,
        kind: EntryKind,
    ) -> Outcome<BlockPtr> {
        let EntryKind::Block { fork, level, index } = kind else {
            return Ok(self.past_entry(state, ino)?.ptr);
        };
        if ino == InodeNo::INODE_MAP {
            return self.past_map_ptr(state, u32::from(level), index);
        }
        let record = self.past_entry(state, ino)?.ptr;
        if !record.is_stored() {
            return Ok(BlockPtr::HOLE);
        }
        let roots = self.past_roots(state.epoch, ino, record)?;
        let key = crate::lfs::base::places::block_key(ino, fork, level, index);
        self.past_below(state.epoch, &roots[usize::from(fork)], key)
    }

    fn past_below(&mut self, state: Epoch, roots: &Roots, key: BlockKey) -> Outcome<BlockPtr> {
        match self.geo.map.parent(key.level, key.index) {
            None => Ok(BlockPtr::HOLE),
            Some(Parent::Inode(slot)) => Ok(root_of(roots, slot)),
            Some(Parent::Indirect { level, index, slot }) => {
                let above = BlockKey { level, index, ..key };
                let parent = self.past_below(state, roots, above)?;
                self.past_child(&self.place_of(&above), state, parent, slot)
            }
        }
    }

    /// A pointer in the indirect block at a place of a state.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(crate) fn past_child(
        &mut self,
        place: &PointCursor,
        state: Epoch,
        parent: BlockPtr,
        slot: usize,
    ) -> Outcome<BlockPtr> {
        if !parent.is_stored() {
            return Ok(BlockPtr::HOLE);
        }
        let block = self.past_block(place, state, parent, self.geo.block_bytes)?;
        Ok(self.child_in(&parent, &block, slot)?)
    }

    /// A pointer in an indirect block of a state, to which `parent` led.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn child_in(&self, parent: &BlockPtr, block: &Buf, slot: usize) -> Result<BlockPtr, FsError> {
        if (slot + 1) * POINTER_BYTES > block.len() {
            return Ok(BlockPtr::HOLE);
        }
        let ptr = ptr_in(block, slot);
        if matches!(ptr.kind, PtrKind::Plain | PtrKind::Unknown(_)) && !self.geo.is_inside(&ptr) {
            return Err(FsError::Corrupt {
                what: "block of pointers of a retained point".to_owned(),
                at: self.geo.place(parent.addr),
                expected: "pointers within the volume".to_owned(),
                found: self.geo.place(ptr.addr),
            });
        }
        Ok(ptr)
    }
}

/// A root pointer by its slot.
pub(crate) fn root_of(roots: &Roots, slot: usize) -> BlockPtr {
    match slot.checked_sub(roots.direct.len()) {
        None => roots.direct[slot],
        Some(level) => roots.indirect.get(level).copied().unwrap_or(BlockPtr::HOLE),
    }
}

/// A node in a stored block of the inode map; `None` after the end of its stored part.
pub(crate) fn node_in(block: &[u8], slot: u64) -> Option<Node> {
    block.as_chunks::<TABLE_ENTRY_BYTES>().0.get(slot as usize).map(Node::decode)
}

/// An entry in a stored leaf of the inode map; blank after the end of its stored part.
pub(crate) fn entry_in(block: &[u8], slot: u64) -> ImapEntry {
    block.as_chunks::<TABLE_ENTRY_BYTES>().0.get(slot as usize).map(ImapEntry::decode).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs_format::SectorAddr;

    #[test]
    fn blocks_of_the_past_take_no_more_than_their_part_of_the_cache_however_large_they_are() {
        for block_bytes in [512, 4 << 10, 64 << 10] {
            let mut blocks = PastBlocks::new(64 << 20);
            let ptr = |n| BlockPtr { addr: SectorAddr(n), len_sectors: 1, birth: Epoch(1), ..BlockPtr::HOLE };
            let block = vec![1; block_bytes];
            for n in 0..(32 << 20) / block_bytes as u64 {
                blocks.insert(&ptr(n), &block);
                assert!(blocks.get(&ptr(n)).is_some());
                let count = (blocks.young.len() + blocks.old.len()) as u64;
                assert!(count * block_bytes as u64 <= 2 * (2 << 20) + 2 * block_bytes as u64, "{count}");
            }
        }
    }
}
