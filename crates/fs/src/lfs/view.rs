//! Views of a volume for people and tools: for `firn dump` and `firn stat` (4BSD's dumpfs), and for the check.

use super::Lfs;
pub use super::map::blockmap::Placed;
use crate::bmap::{Geometry as Map, SLOTS};
use crate::error::{FsError, Outcome};
use crate::inode::Inode;
use crate::lfs::base::geometry::Geometry;
use crate::lfs::base::kinds::KindBytes;
use crate::lfs::base::places::place_of_record;
use crate::lfs::map::admit::RECORD_MAX_BYTES;
use crate::lfs::map::blockmap::ptr_in;
use crate::lfs::map::inode::CoreInode;
use crate::states::{branch_of, local};
use crate::store::{BlockKey, Fork};
use firnfs_format::checkpoint::{TableRoot, Tail};
use firnfs_format::inode::{FORKS, Roots};
use firnfs_format::table::{ImapEntry, UsageEntry};
use firnfs_format::{BlockIndex, BlockPtr, Epoch, InodeNo, SECTOR_BYTES, SegmentId, TimeNs};

/// The bytes of a segment by their use. Live, dead, pinned and clean ones add up to its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentRoom {
    /// Live.
    pub live_bytes: u64,
    /// Not live (summaries and padding among it): free once the segment is cleaned.
    pub dead_bytes: u64,
    /// Neither live nor free for now: the rest of a segment in which a log is open or which a reader pins, or a segment
    /// found empty that has to wait for checkpoints.
    pub pinned_bytes: u64,
    /// The part of `pinned_bytes` that an open log has yet to write: it holds nothing, so it is not dead.
    pub unwritten_bytes: u64,
    /// Free to be written.
    pub clean_bytes: u64,
}

/// What a power cut would lose now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durability {
    /// It would lose no change older than this; `None` if it would lose no change.
    pub volatile_ms: Option<u64>,
    /// Changes in memory that are not in the log yet, as they will go there.
    pub dirty_bytes: u64,
    /// Log writes that the device has not completed.
    pub in_flight_bytes: u64,
    /// Since the last checkpoint was put in line, or since the mount before the first.
    pub checkpoint_age_ms: u64,
}

/// Which internal table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// The inode map.
    InodeMap,
    /// The segment usage table.
    SegmentUsage,
}

/// An inode record, decoded as by a mount, for the check.
pub(crate) struct StoredInode {
    /// What UFS sees.
    pub inode: Inode,
    /// Version, which has to be that of the inode map.
    pub version: u32,
    /// Root pointers by fork.
    pub roots: [Roots; FORKS],
    /// Live bytes that the record says are charged for blocks.
    pub charged_bytes: u64,
    /// Data blocks from here on are still to be freed.
    pub reap_from: Option<BlockIndex>,
}

impl StoredInode {
    /// Reads the record that the inode map's entry refers to; its checksum has been verified.
    ///
    /// # Errors
    /// `Corrupt`, as a mount would report it.
    pub fn decode(ino: InodeNo, entry: &ImapEntry, bytes: &[u8], geo: &Geometry) -> Result<Self, FsError> {
        let core = CoreInode::decode(ino, entry, bytes, geo)?;
        let CoreInode { inode, version, roots, charged_bytes, reap_from, .. } = core;
        Ok(Self { inode, version, roots, charged_bytes, reap_from })
    }
}

/// For the check: the entries kept beside the trees. It reads the trees itself.
impl Lfs {
    /// Root of a table as the checkpoint has it.
    pub(crate) fn table_root(&self, kind: TableKind) -> TableRoot {
        match kind {
            TableKind::InodeMap => self.tables.imap.table.root,
            TableKind::SegmentUsage => self.tables.usage.table.root,
        }
    }

    /// Inode map entries newer than the tree, by number.
    pub(crate) fn newer_inodes(&self) -> Vec<(InodeNo, ImapEntry)> {
        self.tables.imap.newer_entries()
    }

    /// The present state of a segment, given its entry in the tree.
    pub(crate) fn usage_now(&self, segment: SegmentId, stored: UsageEntry) -> UsageEntry {
        self.tables.usage.apply(segment.0, stored)
    }

    /// Segments whose state is newer than the tree, in order.
    pub(crate) fn newer_segments(&self) -> Vec<SegmentId> {
        let mut changed: Vec<SegmentId> = self.tables.usage.changed().collect();
        changed.sort_unstable();
        changed
    }

    /// Where the logs continue.
    pub(crate) fn tails(&self) -> Vec<Option<Tail>> {
        self.writer.log.tails()
    }

    /// Inodes in use, as the volume counts them.
    pub(crate) fn inodes_used(&self) -> u64 {
        self.tables.imap.used()
    }

    /// What a power cut would lose now. A file that was synced alone counts as changed until the next commit of the volume, unless
    /// nothing else was changed.
    #[must_use]
    pub fn durability(&self, now: TimeNs) -> Durability {
        let (jobs, dirty_bytes) = (&self.writer.jobs, self.dirty_bytes());
        let durable = jobs.durable_serial();
        let is_all_durable = dirty_bytes == 0 && durable >= self.writer.log.end().serial;
        let since = self.due.volatile_since(durable).filter(|_| !is_all_durable);
        Durability {
            volatile_ms: since.map(|since| now.millis_since(since)),
            dirty_bytes,
            in_flight_bytes: jobs.in_flight_bytes(),
            checkpoint_age_ms: now.millis_since(self.due.checkpointed_at()),
        }
    }

    /// Live bytes in the log by kind; `None` on a volume of a version that did not keep them.
    #[must_use]
    pub fn live_kinds(&self) -> Option<KindBytes> {
        self.tables.usage.live()
    }

    /// The newest durable checkpoint.
    pub fn durable_epoch(&self) -> Epoch {
        self.tables.slots.durable()
    }
}

impl Lfs {
    /// Segments of one leaf of the usage table with their present state; empty past the last leaf.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn usage_leaf(&mut self, leaf: u64) -> Outcome<Vec<(SegmentId, UsageEntry)>> {
        if leaf >= self.tables.usage.leaves() {
            Ok(Vec::new())
        } else {
            self.tables.usage.leaf(&mut self.shelf, leaf)
        }
    }

    /// How the bytes of a segment are used, given its present state.
    #[must_use]
    pub fn segment_room(&self, segment: SegmentId, entry: &UsageEntry) -> SegmentRoom {
        let is_held = self.writer.pins.is_pinned(segment) || self.writer.log.is_open(segment) && entry.in_use;
        let segment_bytes = u64::from(self.geo.segment_bytes);
        let is_ready = entry.in_use || self.tables.usage.is_ready(entry, self.tables.slots.durable());
        let live_bytes = u64::from(entry.live_bytes).min(segment_bytes);
        let rest_bytes = segment_bytes - live_bytes;
        match (entry.in_use, is_held || !is_ready) {
            (in_use, true) => {
                let unwritten = u64::from(self.writer.log.unwritten_sectors(segment, &self.geo));
                let unwritten_bytes = if in_use { unwritten * u64::from(SECTOR_BYTES) } else { 0 };
                let unwritten_bytes = unwritten_bytes.min(rest_bytes);
                SegmentRoom {
                    live_bytes,
                    pinned_bytes: rest_bytes,
                    unwritten_bytes,
                    ..SegmentRoom::default()
                }
            }
            (true, false) => SegmentRoom { live_bytes, dead_bytes: rest_bytes, ..SegmentRoom::default() },
            (false, false) => SegmentRoom { live_bytes, clean_bytes: rest_bytes, ..SegmentRoom::default() },
        }
    }

    /// Clean segments that users' writes leave to checkpoints and the cleaner, in bytes.
    #[must_use]
    pub fn reserve_bytes(&self) -> u64 {
        self.reserve_segments() * u64::from(self.geo.segment_bytes)
    }

    /// The inode map's entry of an inode.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn imap_entry(&mut self, ino: InodeNo) -> Outcome<ImapEntry> {
        self.tables.imap.get(&mut self.shelf, ino)
    }

    /// First inode number never used.
    #[must_use]
    pub fn next_ino(&self) -> InodeNo {
        self.tables.imap.next_ino()
    }

    /// Live bytes of the volume, dirty data included.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.accounts.live_bytes()
    }

    /// All blocks of an inode that are charged to it, indirect blocks before the blocks that they lead to.
    ///
    /// # Errors
    /// `Need`, `Corrupt`, `NotFound`.
    pub fn inode_blocks(&mut self, ino: InodeNo) -> Outcome<Vec<Placed>> {
        self.load_inode(ino)?;
        let mut found = Vec::new();
        for fork in [Fork::Data, Fork::Index, Fork::Xattr] {
            for slot in 0..SLOTS {
                let (level, index) = Map::root(slot);
                let ptr = self.core(ino).root(fork, slot);
                self.collect(BlockKey { ino, fork, level, index }, ptr, &mut found)?;
            }
        }
        Ok(found)
    }

    /// All stored blocks of an internal table, as of the last checkpoint, by level and index.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn table_blocks(&mut self, kind: TableKind) -> Outcome<Vec<Placed>> {
        let table = match kind {
            TableKind::InodeMap => &self.tables.imap.table,
            TableKind::SegmentUsage => &self.tables.usage.table,
        };
        let most = self.geo.segments * u64::from(self.geo.segment_sectors);
        let mut found = table.stored_blocks(&mut self.shelf, most)?;
        found.sort_unstable_by_key(|placed| (placed.key.level, placed.key.index));
        Ok(found)
    }

    fn collect(&mut self, key: BlockKey, ptr: BlockPtr, found: &mut Vec<Placed>) -> Outcome<()> {
        if ptr.is_hole() {
            return Ok(());
        }
        found.push(Placed { key, ptr });
        self.check_tree(key.ino, found.len() as u64)?;
        if key.level == 0 {
            return Ok(());
        }
        let block = self.stored_block(key, ptr)?;
        for slot in 0..self.geo.map.pointers_per_block() as usize {
            let index = self.geo.map.child(key.level, key.index, slot);
            self.collect(BlockKey { level: key.level - 1, index, ..key }, ptr_in(&block, slot), found)?;
        }
        Ok(())
    }
}

/// For the check: what clones share with points, and what the states have that are looked into.
impl Lfs {
    /// True for an inode of the volume itself, or of a clone that there is.
    pub(crate) fn has_branch(&self, ino: InodeNo) -> bool {
        branch_of(ino) == 0 || self.tables.branches.origin_of(ino).is_some()
    }

    /// True if a pointer of an inode, or the one to its record, leads to what a point has.
    pub(crate) fn shares(&self, ino: InodeNo, ptr: &BlockPtr) -> bool {
        self.views.has(ino) || self.tables.branches.is_shared(ino, ptr)
    }

    /// The point that an inode belongs to, or that its clone began as.
    fn state_below(&self, ino: InodeNo) -> Result<Epoch, FsError> {
        self.views.epoch_of(ino).or_else(|| self.tables.branches.origin_of(ino)).ok_or(FsError::Stale)
    }

    /// Where that is now what a pointer leads to which a point has.
    ///
    /// # Errors
    /// `Stale` if there is no such point or clone; `Need`, `Corrupt`.
    pub(crate) fn place_of_shared(&mut self, key: &BlockKey, ptr: BlockPtr) -> Outcome<BlockPtr> {
        let state = self.state_below(key.ino)?;
        self.place_at(key, ptr, state)
    }

    /// Where a point has what a pointer leads to.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(crate) fn place_at(&mut self, key: &BlockKey, ptr: BlockPtr, state: Epoch) -> Outcome<BlockPtr> {
        let place = self.place_of(&BlockKey { ino: local(key.ino), ..*key });
        self.follow(&place, state, ptr)
    }

    /// A record that a point has.
    ///
    /// # Errors
    /// `Stale` if there is no such point or clone; `Need`, `Corrupt`.
    pub(crate) fn stored_in_state(&mut self, ino: InodeNo, entry: &ImapEntry) -> Outcome<StoredInode> {
        let state = self.state_below(ino)?;
        let record = self.past_block(&place_of_record(local(ino)), state, entry.ptr, RECORD_MAX_BYTES)?;
        Ok(StoredInode::decode(local(ino), entry, &record, &self.geo)?)
    }
}
