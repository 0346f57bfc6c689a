//! Changes structures on a volume that is not open, and updates every checksum on the path up to the checkpoint.
//!
//! For volumes whose tables are one block each: up to 128 inodes and 128 segments.

use firnfs::lfs::Geometry;
use firnfs::lfs::scan::{Partial, partial_at};
use firnfs_device::{AlignedBuf, Device, MemDevice};
use firnfs_format::checkpoint::{Checkpoint, Tail};
use firnfs_format::inode::{Record, Roots, decode_record};
use firnfs_format::pointer::PtrKind;
use firnfs_format::summary::{Entry, FLAG_END, Summary};
use firnfs_format::superblock::{CHECKPOINT_SLOT_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_PRIMARY_AT, Superblock};
use firnfs_format::table::{ImapEntry, TABLE_ENTRY_BYTES, TableEntry, UsageEntry};
use firnfs_format::{BlockPtr, Epoch, InodeNo, SECTOR_BYTES, SectorAddr, SegmentId};
use std::sync::Arc;

/// Offsets of the fields of an inode record, in bytes.
pub mod field {
    pub const SIZE: usize = 60;
    pub const CHARGED: usize = 140;
    /// Counts of direct, and of indirect pointers, of the data fork.
    pub const DIRECT: usize = 52;
    pub const INDIRECT: usize = 55;
    pub const POINTERS: usize = 168;
}

pub struct Doctor {
    device: Arc<MemDevice>,
    sb: Superblock,
    pub geo: Geometry,
    /// The place of the next invented block: the last segment, which no small volume has reached.
    next_sector: u32,
}

impl Doctor {
    pub fn new(device: &Arc<MemDevice>) -> Self {
        let bytes = device.read(SUPERBLOCK_PRIMARY_AT, SUPERBLOCK_BYTES as u32).unwrap();
        let sb = Superblock::decode(&bytes).unwrap();
        let geo = Geometry::new(&sb, sb.size_bytes);
        Self { device: device.clone(), sb, geo, next_sector: 0 }
    }

    pub fn read(&self, ptr: &BlockPtr) -> Vec<u8> {
        self.device.read(self.geo.device_bytes(ptr.addr), ptr.stored_bytes()).unwrap().to_vec()
    }

    fn write(&self, at_bytes: u64, bytes: &[u8]) {
        self.device.write(at_bytes, Arc::new(AlignedBuf::copy_of(bytes))).unwrap();
    }

    /// Flips a bit of a stored block, leaving its checksum unchanged.
    pub fn flip(&self, ptr: &BlockPtr) {
        let mut bytes = self.read(ptr);
        bytes[9] ^= 4;
        self.write(self.geo.device_bytes(ptr.addr), &bytes);
    }

    /// Changes a stored block; returns the new pointer for its parent.
    fn rewrite(&self, ptr: &BlockPtr, change: impl FnOnce(&mut [u8])) -> BlockPtr {
        let mut bytes = self.read(ptr);
        change(&mut bytes);
        self.write(self.geo.device_bytes(ptr.addr), &bytes);
        BlockPtr { crc: firnfs_format::crc32c(&bytes), ..*ptr }
    }

    /// Stores a block that nothing refers to yet.
    pub fn make_up(&mut self, bytes: &[u8]) -> BlockPtr {
        let mut stored = bytes.to_vec();
        stored.resize(bytes.len().next_multiple_of(SECTOR_BYTES as usize), 0);
        let addr = self.geo.addr(SegmentId(self.geo.segments - 1), self.next_sector);
        let len_sectors = u8::try_from(stored.len() / SECTOR_BYTES as usize).unwrap();
        self.next_sector += u32::from(len_sectors);
        self.write(self.geo.device_bytes(addr), &stored);
        let crc = firnfs_format::crc32c(&stored);
        BlockPtr { addr, len_sectors, kind: PtrKind::Plain, crc, birth: Epoch(1) }
    }

    /// The newer checkpoint.
    pub fn checkpoint(&self) -> Checkpoint {
        let slots = self.sb.checkpoint_at_bytes.iter().filter_map(|&at| {
            let bytes = self.device.read(at, CHECKPOINT_SLOT_BYTES).unwrap();
            Checkpoint::decode(&bytes, &self.sb.uuid).ok()
        });
        slots.max_by_key(|c| c.epoch).unwrap()
    }

    pub fn edit_checkpoint(&self, change: impl FnOnce(&mut Checkpoint)) {
        let mut checkpoint = self.checkpoint();
        let slot = checkpoint.epoch.0 as usize % 2;
        change(&mut checkpoint);
        self.write(self.sb.checkpoint_at_bytes[slot], &checkpoint.encode(self.sb.write_unit_bytes));
    }

    /// Changes the stored bytes of the newest checkpoint, for fields that encoding one does not let a caller choose.
    pub fn edit_checkpoint_bytes(&self, change: impl FnOnce(&mut [u8])) {
        let mut bytes = self.checkpoint_bytes();
        change(&mut bytes);
        bytes[8..12].fill(0);
        let len = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        let crc = firnfs_format::crc32c(&bytes[..len]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        self.write(self.checkpoint_at_bytes(), &bytes);
    }

    fn checkpoint_at_bytes(&self) -> u64 {
        self.sb.checkpoint_at_bytes[self.checkpoint().epoch.0 as usize % 2]
    }

    /// The newest checkpoint as it is stored.
    pub fn checkpoint_bytes(&self) -> Vec<u8> {
        self.device.read(self.checkpoint_at_bytes(), CHECKPOINT_SLOT_BYTES).unwrap().to_vec()
    }

    pub fn imap_entry(&self, ino: InodeNo) -> ImapEntry {
        let root = self.checkpoint().imap;
        assert_eq!(root.height, 0);
        entry_at(&self.read(&root.ptr), ino.0)
    }

    pub fn edit_imap_entry(&self, ino: InodeNo, change: impl FnOnce(&mut ImapEntry)) {
        self.edit_checkpoint(|c| {
            c.imap.ptr = self.rewrite(&c.imap.ptr, |leaf| edit_entry(leaf, ino.0, change))
        });
    }

    pub fn edit_usage_entry(&self, segment: SegmentId, change: impl FnOnce(&mut UsageEntry)) {
        self.edit_checkpoint(|c| {
            c.usage.ptr = self.rewrite(&c.usage.ptr, |leaf| edit_entry(leaf, segment.0, change));
        });
    }

    pub fn edit_record(&self, ino: InodeNo, change: impl FnOnce(&mut [u8])) {
        self.edit_imap_entry(ino, |entry| entry.ptr = self.rewrite(&entry.ptr, change));
    }

    pub fn record_ptr(&self, ino: InodeNo) -> BlockPtr {
        self.imap_entry(ino).ptr
    }

    /// Root pointers of the data fork.
    pub fn roots(&self, ino: InodeNo) -> Roots {
        let bytes = self.read(&self.record_ptr(ino));
        let Record { roots, .. } = decode_record(&bytes).unwrap();
        roots[0]
    }

    /// Changes the single indirect block of a file of which all direct pointers are in use.
    pub fn edit_indirect(&self, ino: InodeNo, change: impl FnOnce(&mut [u8])) {
        let ptr = self.rewrite(&self.roots(ino).indirect[0], change);
        self.edit_record(ino, |record| put_ptr(record, field::POINTERS + 12 * 16, &ptr));
    }

    /// Partial segments of all logs after the checkpoint, by serial, with their places.
    fn tail(&self) -> Vec<(SectorAddr, Partial)> {
        let checkpoint = self.checkpoint();
        let mut tails: Vec<_> = checkpoint.tails.iter().flatten().copied().collect();
        let mut found: Vec<(SectorAddr, Partial)> = Vec::new();
        loop {
            let serial = found.last().map_or(checkpoint.serial, |(_, partial)| partial.summary.serial).next();
            let places = tails
                .iter()
                .enumerate()
                .flat_map(|(n, at)| [(n, at.segment, at.sector), (n, at.next_segment, 0)]);
            let next = places.into_iter().find_map(|(n, segment, sector)| {
                let left = self.geo.segment_sectors.checked_sub(sector).filter(|&left| left > 0)?;
                let addr = self.geo.addr(segment, sector);
                let bytes = self.device.read(self.geo.device_bytes(addr), left * SECTOR_BYTES).unwrap();
                let partial = partial_at(&bytes, &self.sb.uuid, &self.geo, sector)?;
                (partial.summary.serial == serial).then_some((n, addr, partial))
            });
            let Some((n, addr, partial)) = next else { return found };
            let Summary { segment, start_sector, len_sectors, next_segment, .. } = partial.summary;
            tails[n] = Tail { segment, sector: start_sector + len_sectors, next_segment };
            found.push((addr, partial));
        }
    }

    /// Changes the last summary of the log: nothing refers to its checksum yet.
    pub fn edit_last_summary(&self, change: impl FnOnce(&mut Summary, &mut Vec<Entry>)) {
        let (addr, Partial { mut summary, mut entries }) = self.tail().pop().expect("a log to roll forward");
        change(&mut summary, &mut entries);
        let len_bytes = summary.len_sectors * SECTOR_BYTES;
        let at_bytes = self.geo.device_bytes(addr);
        let mut bytes = self.device.read(at_bytes, len_bytes).unwrap().to_vec();
        summary.encode_into(&entries, &mut bytes);
        self.write(at_bytes, &bytes);
    }

    /// Changes an inode's record in the last partial segment of the log.
    pub fn edit_last_record(&self, ino: InodeNo, change: impl FnOnce(&mut [u8])) {
        self.edit_last_summary(|_, entries| {
            let is_record = |e: &&mut Entry| {
                e.ino == ino && matches!(e.kind, firnfs_format::summary::EntryKind::Inode { .. })
            };
            let entry = entries.iter_mut().find(is_record).expect("a record of it");
            entry.ptr = self.rewrite(&entry.ptr, change);
        });
    }

    /// Number of partial segments after the checkpoint.
    pub fn tail_len(&self) -> usize {
        self.tail().len()
    }

    /// Where each batch begins, among the partial segments after the checkpoint.
    pub fn tail_batches(&self) -> Vec<usize> {
        let ends = self.tail().into_iter().map(|(_, partial)| partial.summary.flags & FLAG_END != 0);
        let mut begins = vec![0];
        begins.extend(ends.enumerate().filter(|(_, is_end)| *is_end).map(|(n, _)| n + 1));
        begins.pop();
        begins
    }

    /// Flips a bit in the summary with the nth serial after the checkpoint, counted from 0.
    pub fn flip_summary(&self, nth: usize) -> SegmentId {
        let (addr, partial) = &self.tail()[nth];
        let at_bytes = self.geo.device_bytes(*addr);
        let mut bytes = self.device.read(at_bytes, SECTOR_BYTES).unwrap().to_vec();
        bytes[90] ^= 1;
        self.write(at_bytes, &bytes);
        partial.summary.segment
    }

    /// Flips a bit in the last block of the partial segment with the nth serial after the checkpoint.
    pub fn flip_block_of(&self, nth: usize) -> SegmentId {
        let (_, partial) = &self.tail()[nth];
        let stored = partial.entries.iter().rfind(|e| e.ptr.is_stored()).expect("it holds something");
        self.flip(&stored.ptr);
        partial.summary.segment
    }

    /// A tree of that many levels above `data` in which all pointers of a level lead to the same block.
    pub fn bomb(&mut self, levels: u8) -> BlockPtr {
        let mut ptr = self.make_up(&[1; 512]);
        for _ in 0..levels {
            let block: Vec<u8> = ptr.encode().repeat(256);
            ptr = self.make_up(&block);
        }
        ptr
    }
}

fn entry_at<E: TableEntry>(leaf: &[u8], n: u64) -> E {
    let at = n as usize * TABLE_ENTRY_BYTES;
    E::decode(leaf[at..at + TABLE_ENTRY_BYTES].try_into().unwrap())
}

fn edit_entry<E: TableEntry>(leaf: &mut [u8], n: u64, change: impl FnOnce(&mut E)) {
    let mut entry: E = entry_at(leaf, n);
    change(&mut entry);
    let at = n as usize * TABLE_ENTRY_BYTES;
    leaf[at..at + TABLE_ENTRY_BYTES].copy_from_slice(&entry.encode());
}

pub fn put_ptr(bytes: &mut [u8], at: usize, ptr: &BlockPtr) {
    bytes[at..at + 16].copy_from_slice(&ptr.encode());
}

pub fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}
