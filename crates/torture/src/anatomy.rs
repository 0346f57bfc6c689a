//! `Anatomy`: the owners of a volume's live bytes, and the references to them.
//!
//! It serves to damage volumes on purpose: at a place with a known owner, with or without updating the checksums on the path up
//! to checkpoint and log. Callers: the tests of damage, the fuzzer.

use firnfs::FsError;
use firnfs::lfs::scan::partials;
use firnfs::lfs::{Geometry, Lfs};
use firnfs::store::BlockKey;
use firnfs_device::SparseImage;
use firnfs_format::checkpoint::{Checkpoint, TableRoot};
use firnfs_format::summary::{SUMMARY_ENTRY_BYTES, SUMMARY_HEADER_BYTES, Summary};
use firnfs_format::superblock::{CHECKPOINT_SLOT_BYTES, CHECKPOINT_SLOTS_AT, SUPERBLOCK_BYTES, Superblock};
use firnfs_format::table::{Node, TABLE_ENTRY_BYTES, TableEntry};
use firnfs_format::{BlockPtr, InodeNo, SECTOR_BYTES, SegmentId, Serial, crc32c};
use firnfs_volume::Volume;
use std::collections::BTreeMap;
use std::ops::Range;

/// Offset of the checksum in a pointer, in bytes.
const POINTER_CRC_AT: usize = 8;
/// Bytes of a pointer that give its target: address, length, encoding.
const POINTER_PLACE_BYTES: usize = 8;
/// Alignment of pointers in all structures that hold them, in bytes.
const POINTER_ALIGNMENT: usize = 4;
/// Offsets of the checksums that structures hold of themselves, in bytes.
const SUPERBLOCK_CRC_AT: usize = 12;
const CHECKPOINT_CRC_AT: usize = 8;
const CHECKPOINT_LEN_AT: usize = 12;
const SUMMARY_CRC_AT: usize = 4;
const SUMMARY_PREV_CRC_AT: usize = 32;

/// The owner of a stretch of live bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// A copy of the superblock.
    Superblock,
    /// A checkpoint slot.
    Checkpoint,
    /// The summary of a partial segment that roll-forward reads.
    Summary(Serial),
    /// A block of the usage table: needed only for writing.
    Usage,
    /// A block of the inode map: entries of inodes from the first number up to, not including, the second.
    Map(u64, u64),
    /// An inode record.
    Record(InodeNo),
    /// A block of an inode.
    Block(BlockKey),
}

/// A structure on the device.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its bytes on the device, whole sectors.
    pub range: Range<u64>,
    /// Its owner.
    pub owner: Owner,
    /// The places of its checksum: the part, and the byte in it.
    referrers: Vec<(usize, usize)>,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Anatomy {
    /// All live structures, in arbitrary order.
    pub parts: Vec<Part>,
}

impl Anatomy {
    /// Analyses the volume that a read-only mount of the image sees. Log space that roll-forward does not read and that nothing
    /// refers to is not live.
    ///
    /// # Errors
    /// Errors of reading the volume.
    pub fn of(image: &SparseImage, volume: &Volume<Lfs>) -> Result<Self, FsError> {
        let (geo, uuid) = volume.run(|vfs, _| Ok((vfs.store().geometry(), vfs.store().superblock().uuid)))?;
        let mut found = Self { parts: Vec::new() };
        for at in Superblock::places(image.size_bytes()) {
            found.add(at..at + SUPERBLOCK_BYTES as u64, Owner::Superblock);
        }
        let newest = found.slots(image, &uuid);
        let mut places = BTreeMap::new();
        if let Some(newest) = &newest {
            found.table(image, &geo, &newest.usage, false, &mut places);
            found.table(image, &geo, &newest.imap, true, &mut places);
        }
        found.inodes(volume, &geo, &mut places)?;
        if let Some(newest) = newest {
            found.tail(image, &geo, &uuid, &newest);
        }
        found.link(image, &places);
        Ok(found)
    }

    fn add(&mut self, range: Range<u64>, owner: Owner) {
        self.parts.push(Part { range, owner, referrers: Vec::new() });
    }

    fn add_stored(&mut self, geo: &Geometry, ptr: &BlockPtr, owner: Owner, places: &mut Places) {
        if ptr.is_stored() {
            let at = geo.device_bytes(ptr.addr);
            let encoded = ptr.encode();
            places
                .insert(encoded[..POINTER_PLACE_BYTES].try_into().expect("8 of 16 bytes"), self.parts.len());
            self.add(at..at + u64::from(ptr.stored_bytes()), owner);
        }
    }

    fn slots(&mut self, image: &SparseImage, uuid: &[u8; 16]) -> Option<Checkpoint> {
        let mut newest: Option<Checkpoint> = None;
        for at in CHECKPOINT_SLOTS_AT {
            let slot = bytes_of(image, &(at..at + u64::from(CHECKPOINT_SLOT_BYTES)));
            let Ok(checkpoint) = Checkpoint::decode(&slot, uuid) else { continue };
            let used = stated_bytes(&slot).next_multiple_of(SECTOR_BYTES as usize);
            self.add(at..at + used as u64, Owner::Checkpoint);
            if newest.as_ref().is_none_or(|newest| newest.epoch < checkpoint.epoch) {
                newest = Some(checkpoint);
            }
        }
        newest
    }

    /// Blocks of a table from its root down, as of the checkpoint.
    fn table(
        &mut self,
        image: &SparseImage,
        geo: &Geometry,
        root: &TableRoot,
        is_map: bool,
        places: &mut Places,
    ) {
        let entries = u64::from(geo.block_bytes) / TABLE_ENTRY_BYTES as u64;
        let mut pending = vec![(root.height, 0, root.ptr)];
        while let Some((level, index, ptr)) = pending.pop() {
            let span = entries.pow(level + 1);
            let owner = if is_map { Owner::Map(index * span, (index + 1) * span) } else { Owner::Usage };
            self.add_stored(geo, &ptr, owner, places);
            if level == 0 || !ptr.is_stored() {
                continue;
            }
            let at = geo.device_bytes(ptr.addr);
            let block = bytes_of(image, &(at..at + u64::from(ptr.stored_bytes())));
            let nodes = block.as_chunks::<TABLE_ENTRY_BYTES>().0.iter().map(Node::decode);
            pending.extend(nodes.zip(index * entries..).map(|(node, child)| (level - 1, child, node.ptr)));
        }
    }

    fn inodes(&mut self, volume: &Volume<Lfs>, geo: &Geometry, places: &mut Places) -> Result<(), FsError> {
        let next = volume.run(|vfs, _| Ok(vfs.store().next_ino()))?;
        for ino in (1..next.0).map(InodeNo) {
            let entry = volume.run(|vfs, _| vfs.store_mut().imap_entry(ino))?;
            if entry.is_used() {
                self.add_stored(geo, &entry.ptr, Owner::Record(ino), places);
                for placed in volume.run(|vfs, _| vfs.store_mut().inode_blocks(ino))? {
                    self.add_stored(geo, &placed.ptr, Owner::Block(placed.key), places);
                }
            }
        }
        Ok(())
    }

    /// Summaries after the checkpoint. Each holds the checksum of the previous one.
    fn tail(&mut self, image: &SparseImage, geo: &Geometry, uuid: &[u8; 16], newest: &Checkpoint) {
        let mut summaries = BTreeMap::new();
        for segment in (0..geo.segments).map(SegmentId) {
            let start = geo.device_bytes(geo.addr(segment, 0));
            let bytes = bytes_of(image, &(start..start + u64::from(geo.segment_bytes)));
            for partial in partials(&bytes, uuid, geo, segment) {
                let summary = partial.summary;
                let at = start + u64::from(summary.start_sector * SECTOR_BYTES);
                let len = u64::from(summary.summary_sectors() * SECTOR_BYTES);
                if summary.serial > newest.serial {
                    summaries.insert(summary.serial, at..at + len);
                }
            }
        }
        let mut before: Option<usize> = None;
        for (serial, range) in summaries {
            let this = self.parts.len();
            self.add(range, Owner::Summary(serial));
            if let Some(before) = before.replace(this) {
                self.parts[before].referrers.push((this, SUMMARY_PREV_CRC_AT));
            }
        }
    }

    /// Finds the pointers to a part in all structures that may hold pointers.
    fn link(&mut self, image: &SparseImage, places: &Places) {
        for holder in 0..self.parts.len() {
            let may_hold = match self.parts[holder].owner {
                Owner::Superblock => false,
                Owner::Block(key) => key.level > 0,
                _ => true,
            };
            let bytes = if may_hold { bytes_of(image, &self.parts[holder].range) } else { Vec::new() };
            for at in (0..bytes.len().saturating_sub(15)).step_by(POINTER_ALIGNMENT) {
                if let Some(&part) = places.get(&bytes[at..at + POINTER_PLACE_BYTES]) {
                    self.parts[part].referrers.push((holder, at + POINTER_CRC_AT));
                }
            }
        }
    }

    /// Updates every checksum above changed parts, including the parts' own, so that only their content is wrong.
    pub fn seal(&self, image: &mut SparseImage, changed: &[usize]) {
        let mut pending = changed.to_vec();
        // Parts refer only upwards, except those changed on purpose: the loop is bounded all the same.
        for _ in 0..self.parts.len() * 8 {
            let Some(index) = pending.pop() else { return };
            let part = &self.parts[index];
            let mut bytes = bytes_of(image, &part.range);
            let crc = own_checksum(part.owner, &mut bytes).unwrap_or_else(|| crc32c(&bytes));
            image.write(part.range.start, &bytes);
            for &(holder, at) in &part.referrers {
                image.write(self.parts[holder].range.start + at as u64, &crc.to_le_bytes());
                pending.push(holder);
            }
        }
    }
}

/// Parts by the place in their pointers.
type Places = BTreeMap<[u8; POINTER_PLACE_BYTES], usize>;

fn bytes_of(image: &SparseImage, range: &Range<u64>) -> Vec<u8> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    image.read(range.start, &mut bytes);
    bytes
}

/// The length that a checkpoint slot states, at most the bytes there are.
fn stated_bytes(slot: &[u8]) -> usize {
    let stated = slot.get(CHECKPOINT_LEN_AT..CHECKPOINT_LEN_AT + 4).and_then(|bytes| bytes.try_into().ok());
    stated.map_or(0, |bytes| u32::from_le_bytes(bytes) as usize).min(slot.len())
}

/// Sets the checksum of a structure that holds its own; returns the checksum.
pub fn own_checksum(owner: Owner, bytes: &mut [u8]) -> Option<u32> {
    let (at, end) = match owner {
        Owner::Superblock => (SUPERBLOCK_CRC_AT, bytes.len()),
        Owner::Checkpoint => (CHECKPOINT_CRC_AT, stated_bytes(bytes)),
        Owner::Summary(_) => {
            let entries = Summary::decode_header(bytes).map_or(0, |header| header.entries as usize);
            (SUMMARY_CRC_AT, (SUMMARY_HEADER_BYTES + entries * SUMMARY_ENTRY_BYTES).min(bytes.len()))
        }
        Owner::Usage | Owner::Map(..) | Owner::Record(_) | Owner::Block(_) => return None,
    };
    bytes.get_mut(at..at + 4)?.fill(0);
    let crc = crc32c(&bytes[..end.max(at + 4)]);
    bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    Some(crc)
}
