//! The superblock: the parameters that mkfs fixes for ever, the label, and a bound of the size. Replicated (three copies).

use crate::error::{DecodeError, ensure};
use crate::layout::layout;
use zerocopy::byteorder::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Longest label, in bytes.
pub const LABEL_MAX_BYTES: usize = 64;
/// Bytes that one copy takes on the device.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// First bytes of a superblock.
pub const SUPERBLOCK_MAGIC: [u8; 8] = *b"firnfs\0\x01";
/// Version of the format that this code writes and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;
/// Place of the first copy, in bytes from the start of the device.
pub const SUPERBLOCK_PRIMARY_AT: u64 = 4096;
/// Place of the second copy, in bytes. The third is the last whole 4096 bytes of the volume.
pub const SUPERBLOCK_SECOND_AT: u64 = 1 << 20;
/// Places of the two checkpoint slots, in bytes: more than 1 MiB apart.
pub const CHECKPOINT_SLOTS_AT: [u64; 2] = [64 << 10, (1 << 20) + (256 << 10)];
/// Size of a checkpoint slot, in bytes.
pub const CHECKPOINT_SLOT_BYTES: u32 = 64 << 10;
/// Start of the first segment, in bytes.
pub const LOG_START_BYTES: u64 = 2 << 20;
/// The [`DecodeError`] of bytes that do not begin as a superblock does.
pub const NO_MAGIC: &str = "superblock magic";
/// A volume has less than this many bytes: 128 PiB.
pub const SIZE_LIMIT_BYTES: u64 = 1 << 57;
/// Segment sizes that mkfs may choose, in bytes.
pub const SEGMENT_BYTES_RANGE: std::ops::RangeInclusive<u32> = (256 << 10)..=(64 << 20);

layout! {
    /// Superblock, one copy. All numbers little endian.
    SuperblockRaw = 4096 {
        /// `firnfs\0\x01`
        magic: [u8; 8],
        /// Format version
        format_version: U32,
        /// CRC-32C of the 4096 bytes with this field zero
        crc: U32,
        /// Volume uuid
        uuid: [u8; 16],
        /// Label, UTF-8, padded with zeros; it may change, and then the first copy is written last
        label: [u8; 64],
        /// Time of mkfs, ns since 1970
        created_ns: I64,
        /// Upper bound of the volume size in bytes (a checkpoint has the current one)
        size_bytes: U64,
        /// Block size in bytes, a power of two from 4096 to 65536
        block_bytes: U32,
        /// Segment size in bytes, a power of two from 256 KiB to 64 MiB
        segment_bytes: U32,
        /// Size of a block pointer in bytes: 16
        pointer_bytes: U32,
        /// Partial segments start and end on multiples of this, in bytes: max(4096, physical block)
        write_unit_bytes: U32,
        /// Start of segment 0 in bytes
        log_start_bytes: U64,
        /// Places of the checkpoint slots in bytes
        checkpoint_at_bytes: [U64; 2],
        /// Size of a checkpoint slot in bytes
        checkpoint_slot_bytes: U32,
        /// Largest file kept in its inode, in bytes
        inline_max_bytes: U32,
        /// Key of the directory hash (SipHash-1-3)
        hash_key: [U64; 2],
        /// Zero
        reserved: [u8; 3920],
    }
}

/// A superblock that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Volume uuid.
    pub uuid: [u8; 16],
    /// Label; at most 64 bytes of UTF-8.
    pub label: String,
    /// Time of mkfs, ns since 1970.
    pub created_ns: i64,
    /// Upper bound of the volume size in bytes: a checkpoint has the current one, which is less only while the volume grows.
    pub size_bytes: u64,
    /// Block size in bytes.
    pub block_bytes: u32,
    /// Segment size in bytes.
    pub segment_bytes: u32,
    /// Unit of log writes in bytes.
    pub write_unit_bytes: u32,
    /// Start of segment 0 in bytes.
    pub log_start_bytes: u64,
    /// Places of the checkpoint slots in bytes.
    pub checkpoint_at_bytes: [u64; 2],
    /// Largest file kept in its inode, in bytes.
    pub inline_max_bytes: u32,
    /// Key of the directory hash.
    pub hash_key: [u64; 2],
}

impl Superblock {
    /// The places of the three copies on a volume of that size, in bytes.
    #[must_use]
    pub fn places(size_bytes: u64) -> [u64; 3] {
        let unit = SUPERBLOCK_BYTES as u64;
        let last = (size_bytes / unit).saturating_sub(1) * unit;
        [SUPERBLOCK_PRIMARY_AT, SUPERBLOCK_SECOND_AT, last]
    }

    /// The 4096 bytes on disk.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut label = [0; LABEL_MAX_BYTES];
        let label_len = self.label.len().min(LABEL_MAX_BYTES);
        label[..label_len].copy_from_slice(&self.label.as_bytes()[..label_len]);
        let mut raw = SuperblockRaw {
            magic: SUPERBLOCK_MAGIC,
            format_version: FORMAT_VERSION.into(),
            crc: 0.into(),
            uuid: self.uuid,
            label,
            created_ns: self.created_ns.into(),
            size_bytes: self.size_bytes.into(),
            block_bytes: self.block_bytes.into(),
            segment_bytes: self.segment_bytes.into(),
            pointer_bytes: (crate::pointer::POINTER_BYTES as u32).into(),
            write_unit_bytes: self.write_unit_bytes.into(),
            log_start_bytes: self.log_start_bytes.into(),
            checkpoint_at_bytes: self.checkpoint_at_bytes.map(Into::into),
            checkpoint_slot_bytes: CHECKPOINT_SLOT_BYTES.into(),
            inline_max_bytes: self.inline_max_bytes.into(),
            hash_key: self.hash_key.map(Into::into),
            reserved: [0; 3920],
        };
        raw.crc = crate::crc32c(raw.as_bytes()).into();
        raw.as_bytes().to_vec()
    }

    /// Whether a copy's checksum is right, whatever its version.
    #[must_use]
    pub fn is_sealed(bytes: &[u8]) -> bool {
        SuperblockRaw::read_from_prefix(bytes).is_ok_and(|(raw, _)| {
            let zeroed = SuperblockRaw { crc: 0.into(), ..raw };
            crate::crc32c(zeroed.as_bytes()) == raw.crc.get()
        })
    }

    /// Reads and checks one copy.
    ///
    /// # Errors
    /// [`DecodeError`]: not a firnfs volume, another version, damaged, or values out of range.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (raw, _) = SuperblockRaw::read_from_prefix(bytes)
            .map_err(|_| DecodeError::new("superblock", "4096 bytes", bytes.len()))?;
        ensure(raw.magic == SUPERBLOCK_MAGIC, NO_MAGIC, "\"firnfs\"", format_args!("{:02x?}", raw.magic))?;
        let version = raw.format_version.get();
        ensure(version == FORMAT_VERSION, "format version", FORMAT_VERSION, version)?;
        let mut zeroed = raw;
        zeroed.crc = 0.into();
        let crc = crate::crc32c(zeroed.as_bytes());
        ensure(crc == raw.crc.get(), "superblock checksum", raw.crc.get(), crc)?;
        let sb = Self {
            uuid: raw.uuid,
            label: String::from_utf8_lossy(&raw.label).trim_end_matches('\0').to_owned(),
            created_ns: raw.created_ns.get(),
            size_bytes: raw.size_bytes.get(),
            block_bytes: raw.block_bytes.get(),
            segment_bytes: raw.segment_bytes.get(),
            write_unit_bytes: raw.write_unit_bytes.get(),
            log_start_bytes: raw.log_start_bytes.get(),
            checkpoint_at_bytes: raw.checkpoint_at_bytes.map(U64::get),
            inline_max_bytes: raw.inline_max_bytes.get(),
            hash_key: raw.hash_key.map(U64::get),
        };
        let pointer_bytes = raw.pointer_bytes.get();
        ensure(pointer_bytes as usize == crate::pointer::POINTER_BYTES, "pointer size", 16, pointer_bytes)?;
        sb.check_ranges()?;
        Ok(sb)
    }

    fn check_ranges(&self) -> Result<(), DecodeError> {
        let block_ok = self.block_bytes.is_power_of_two() && (4096..=65536).contains(&self.block_bytes);
        ensure(block_ok, "block size", "a power of two, 4096 to 65536", self.block_bytes)?;
        let segment_ok =
            self.segment_bytes.is_power_of_two() && SEGMENT_BYTES_RANGE.contains(&self.segment_bytes);
        ensure(segment_ok, "segment size", "a power of two, 256 KiB to 64 MiB", self.segment_bytes)?;
        let unit_ok =
            self.write_unit_bytes.is_power_of_two() && (4096..=65536).contains(&self.write_unit_bytes);
        ensure(unit_ok, "write unit", "a power of two, 4096 to 65536", self.write_unit_bytes)?;
        let log_ok = self.log_start_bytes == LOG_START_BYTES;
        ensure(log_ok, "log start", LOG_START_BYTES, self.log_start_bytes)?;
        let slots_ok = self.checkpoint_at_bytes == CHECKPOINT_SLOTS_AT;
        ensure(
            slots_ok,
            "checkpoint slots",
            "64 KiB and 1280 KiB",
            format_args!("{:?}", self.checkpoint_at_bytes),
        )?;
        ensure(self.inline_max_bytes <= 2048, "inline limit", "at most 2048", self.inline_max_bytes)?;
        let size_ok = (LOG_START_BYTES..SIZE_LIMIT_BYTES).contains(&self.size_bytes);
        ensure(size_ok, "volume size", "2 MiB to 128 PiB", self.size_bytes)
    }
}
