//! The summary that opens every partial segment, and its entries.
//!
//! ```text
//! partial segment := summary entry{40}* (padding to a sector) stored* (padding to the write unit)
//! ```
//! The entries describe the stored blocks in their order. The summary's CRC covers header and entries; each stored
//! block's CRC is in its entry's pointer. One write and one flush make a commit durable: a torn write shows in a CRC.

use crate::error::{DecodeError, ensure};
use crate::layout::layout;
use crate::pointer::{BlockPtr, POINTER_BYTES};
use crate::units::{Epoch, Incarnation, InodeNo, SECTOR_BYTES, SegmentId, Serial, TimeNs};
use zerocopy::byteorder::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// First bytes of a summary ("pseg").
pub const SUMMARY_MAGIC: u32 = u32::from_le_bytes(*b"pseg");
/// Size of the summary header in bytes.
pub const SUMMARY_HEADER_BYTES: usize = 112;
/// Size of one entry in bytes.
pub const SUMMARY_ENTRY_BYTES: usize = 40;

// Bits 1 and 2 are reserved: BSD-LFS's SS_DIROP and SS_CONT, which older programs set here, and which no program has ever read.

/// Flag: last partial segment of its batch.
pub const FLAG_END: u16 = 4;
/// Flag: written for a checkpoint; holds only inode map and usage blocks. Roll-forward skips its content.
pub const FLAG_CHECKPOINT: u16 = 8;
/// Flag: upkeep caused all of it: what the cleaner or coalescing moved, or the tables of a checkpoint that gains room.
pub const FLAG_CLEANER: u16 = 16;
/// Flag: copies of what only retained points see. Roll-forward takes nothing from them.
pub const FLAG_PAST: u16 = 32;
/// Flag: counts only with the checkpoint that follows, which makes a retained point of all that was held back. Roll-forward ends before it.
pub const FLAG_HELD: u16 = 64;

layout! {
    /// Header of a partial segment's summary.
    SummaryRaw = 112 {
        /// `pseg`
        magic: U32,
        /// CRC-32C of header and entries with this field zero
        crc: U32,
        /// Volume uuid
        uuid: [u8; 16],
        /// Position among all partial segments of the volume
        serial: U64,
        /// `crc` of the summary with the previous serial
        prev_crc: U32,
        /// Mount incarnation that wrote it
        incarnation: U32,
        /// Highest serial known durable when this was built
        durable_through: U64,
        /// Number of the checkpoint that will cover it
        epoch: U32,
        /// Format version of the summary: 1
        version: U16,
        /// Bits: 4 END, 8 CHECKPOINT, 16 CLEANER, 32 PAST; 1 and 2 mean nothing and may be set
        flags: U16,
        /// Time of writing, ns since 1970
        time_ns: I64,
        /// Segment that holds it
        segment: U64,
        /// Segment that this log goes on in
        next_segment: U64,
        /// First sector in the segment
        start_sector: U32,
        /// Length of the whole partial segment in sectors, padding included
        len_sectors: U32,
        /// Number of entries
        entries: U32,
        /// Length of header and entries in sectors
        summary_sectors: U16,
        /// Log that it belongs to
        log: u8,
        /// Zero
        reserved: u8,
        /// Zero
        reserved2: U64,
        /// Zero
        reserved3: U64,
    }
}

layout! {
    /// One entry of a summary.
    EntryRaw = 40 {
        /// Inode number
        ino: U64,
        /// Bytes 0-5: index in the fork at its level; byte 6: level; byte 7: what (0 data, 1 index, 2 xattr, 254 inode record, 255 inode freed)
        place: U64,
        /// Version of the inode (inode map)
        version: U32,
        /// Bits, inode records only: 1 = orphan
        flags: U32,
        /// Block pointer; a hole for an inode freed
        ptr: [u8; 16],
    }
}

/// What an entry describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// A block of a fork: fork code (0 to 2), level, index (48 bits).
    Block {
        /// 0 data, 1 directory index, 2 extended attributes.
        fork: u8,
        /// 0 data, 1 and up indirect.
        level: u8,
        /// Index at that level.
        index: u64,
    },
    /// An inode record. `orphan`: it has no names or frees blocks in the background.
    Inode {
        /// See above.
        orphan: bool,
    },
    /// The inode was freed; nothing is stored.
    Freed,
}

/// One entry, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The inode that it belongs to.
    pub ino: InodeNo,
    /// Version of the inode when it was written.
    pub version: u32,
    /// The kind of the block.
    pub kind: EntryKind,
    /// Address, length, checksum, birth.
    pub ptr: BlockPtr,
}

impl Entry {
    /// The 40 bytes on disk.
    #[must_use]
    pub fn encode(&self) -> [u8; SUMMARY_ENTRY_BYTES] {
        let (place, flags) = match self.kind {
            EntryKind::Block { fork, level, index } => {
                (index | u64::from(level) << 48 | u64::from(fork) << 56, 0)
            }
            EntryKind::Inode { orphan } => (254 << 56, u32::from(orphan)),
            EntryKind::Freed => (255 << 56, 0),
        };
        let raw = EntryRaw {
            ino: self.ino.0.into(),
            place: place.into(),
            version: self.version.into(),
            flags: flags.into(),
            ptr: self.ptr.encode(),
        };
        zerocopy::transmute!(raw)
    }

    /// Reads 40 bytes.
    ///
    /// # Errors
    /// [`DecodeError`] for an impossible kind or level.
    pub fn decode(bytes: &[u8; SUMMARY_ENTRY_BYTES]) -> Result<Self, DecodeError> {
        let raw: EntryRaw = zerocopy::transmute!(*bytes);
        let place = raw.place.get();
        let (what, level) = ((place >> 56) as u8, (place >> 48) as u8);
        let kind = match what {
            0..=2 => {
                ensure(level <= 7, "summary entry level", "0 to 7", level)?;
                EntryKind::Block { fork: what, level, index: place & 0xffff_ffff_ffff }
            }
            254 => EntryKind::Inode { orphan: raw.flags.get() & 1 != 0 },
            255 => EntryKind::Freed,
            other => return Err(DecodeError::new("summary entry kind", "0 to 2, 254 or 255", other)),
        };
        Ok(Self {
            ino: InodeNo(raw.ino.get()),
            version: raw.version.get(),
            kind,
            ptr: BlockPtr::decode(&raw.ptr),
        })
    }
}

/// A summary header, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// CRC of header and entries; set by [`Summary::encode_into`].
    pub crc: u32,
    /// Volume uuid.
    pub uuid: [u8; 16],
    /// Position in the order of log writes.
    pub serial: Serial,
    /// CRC of the previous serial's summary.
    pub prev_crc: u32,
    /// Mount that wrote it.
    pub incarnation: Incarnation,
    /// Highest serial known durable.
    pub durable_through: Serial,
    /// Number of the next checkpoint.
    pub epoch: Epoch,
    /// `FLAG_*`.
    pub flags: u16,
    /// Time of writing.
    pub time: TimeNs,
    /// Segment that holds it.
    pub segment: SegmentId,
    /// Segment in which this log continues.
    pub next_segment: SegmentId,
    /// First sector in the segment.
    pub start_sector: u32,
    /// Whole length in sectors.
    pub len_sectors: u32,
    /// Number of entries.
    pub entries: u32,
    /// Log that it belongs to.
    pub log: u8,
}

/// Entries that a summary can have: its length in sectors has 16 bits.
pub const ENTRIES_MAX: usize =
    (u16::MAX as usize * SECTOR_BYTES as usize - SUMMARY_HEADER_BYTES) / SUMMARY_ENTRY_BYTES;

/// Length in sectors of a summary with that many entries.
#[must_use]
pub fn summary_sectors(entries: usize) -> u32 {
    ((SUMMARY_HEADER_BYTES + entries * SUMMARY_ENTRY_BYTES) as u32).div_ceil(SECTOR_BYTES)
}

impl Summary {
    /// Length of the partial segment in bytes, padding included.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        u64::from(self.len_sectors) * u64::from(SECTOR_BYTES)
    }

    /// Those of them that upkeep caused, not users: all or none.
    #[must_use]
    pub fn upkeep_bytes(&self) -> u64 {
        if self.flags & FLAG_CLEANER == 0 { 0 } else { self.len_bytes() }
    }

    /// Writes header and entries to the start of `out`, sets `crc`.
    ///
    /// # Panics
    /// If `out` is shorter than the summary: the caller sized it with [`summary_sectors`]. If there are more entries than
    /// [`ENTRIES_MAX`].
    pub fn encode_into(&mut self, entries: &[Entry], out: &mut [u8]) {
        self.entries = entries.len() as u32;
        let raw = SummaryRaw {
            magic: SUMMARY_MAGIC.into(),
            crc: 0.into(),
            uuid: self.uuid,
            serial: self.serial.0.into(),
            prev_crc: self.prev_crc.into(),
            incarnation: self.incarnation.0.into(),
            durable_through: self.durable_through.0.into(),
            epoch: self.epoch.0.into(),
            version: 1.into(),
            flags: self.flags.into(),
            time_ns: self.time.0.into(),
            segment: self.segment.0.into(),
            next_segment: self.next_segment.0.into(),
            start_sector: self.start_sector.into(),
            len_sectors: self.len_sectors.into(),
            entries: self.entries.into(),
            summary_sectors: u16::try_from(summary_sectors(entries.len()))
                .expect("no more than ENTRIES_MAX")
                .into(),
            log: self.log,
            reserved: 0,
            reserved2: 0.into(),
            reserved3: 0.into(),
        };
        out[..SUMMARY_HEADER_BYTES].copy_from_slice(raw.as_bytes());
        let mut at = SUMMARY_HEADER_BYTES;
        for entry in entries {
            out[at..at + SUMMARY_ENTRY_BYTES].copy_from_slice(&entry.encode());
            at += SUMMARY_ENTRY_BYTES;
        }
        self.crc = crate::crc32c(&out[..at]);
        out[4..8].copy_from_slice(&self.crc.to_le_bytes());
    }

    /// Reads a header without its entries; nothing but magic and version is checked.
    ///
    /// # Errors
    /// [`DecodeError`] if there is no summary.
    pub fn decode_header(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (raw, _) = SummaryRaw::read_from_prefix(bytes)
            .map_err(|_| DecodeError::new("summary", "112 bytes", bytes.len()))?;
        ensure(raw.magic.get() == SUMMARY_MAGIC, "summary magic", SUMMARY_MAGIC, raw.magic.get())?;
        ensure(raw.version.get() == 1, "summary version", 1, raw.version.get())?;
        let entries = raw.entries.get();
        ensure(entries as usize <= ENTRIES_MAX, "summary entries", ENTRIES_MAX, entries)?;
        let sectors = summary_sectors(entries as usize);
        ensure(
            sectors == u32::from(raw.summary_sectors.get()),
            "summary length",
            sectors,
            raw.summary_sectors,
        )?;
        ensure(sectors <= raw.len_sectors.get(), "partial segment length", sectors, raw.len_sectors)?;
        Ok(Self {
            crc: raw.crc.get(),
            uuid: raw.uuid,
            serial: Serial(raw.serial.get()),
            prev_crc: raw.prev_crc.get(),
            incarnation: Incarnation(raw.incarnation.get()),
            durable_through: Serial(raw.durable_through.get()),
            epoch: Epoch(raw.epoch.get()),
            flags: raw.flags.get(),
            time: TimeNs(raw.time_ns.get()),
            segment: SegmentId(raw.segment.get()),
            next_segment: SegmentId(raw.next_segment.get()),
            start_sector: raw.start_sector.get(),
            len_sectors: raw.len_sectors.get(),
            entries,
            log: raw.log,
        })
    }

    /// Length of header and entries in sectors.
    #[must_use]
    pub fn summary_sectors(&self) -> u32 {
        summary_sectors(self.entries as usize)
    }

    /// Reads header and entries and checks their CRC.
    ///
    /// # Errors
    /// [`DecodeError`]: no summary, damaged, or longer than `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<(Self, Vec<Entry>), DecodeError> {
        let summary = Self::decode_header(bytes)?;
        let end = SUMMARY_HEADER_BYTES + summary.entries as usize * SUMMARY_ENTRY_BYTES;
        ensure(end <= bytes.len(), "summary bytes", end, bytes.len())?;
        let crc = crate::crc32c_of(&[&bytes[..4], &[0; 4], &bytes[8..end]]);
        ensure(crc == summary.crc, "summary checksum", summary.crc, crc)?;
        let entries = bytes[SUMMARY_HEADER_BYTES..end]
            .as_chunks::<SUMMARY_ENTRY_BYTES>()
            .0
            .iter()
            .map(Entry::decode)
            .collect::<Result<Vec<_>, _>>()?;
        Ok((summary, entries))
    }
}

const _: () = assert!(POINTER_BYTES == 16);
