//! `BlockPtr` (16 bytes): the only kind of pointer by which blocks in the log are found.
//!
//! ```text
//!  byte 0..6   logical sector address (segment id, sector), 48 bits little endian
//!  byte 6      stored length in sectors (0 for hole and reserved)
//!  byte 7      encoding: bits 0-2 kind, bits 3-4 algorithm, bits 5-7 log2 of the span in blocks
//!  byte 8..12  CRC-32C of the stored bytes
//!  byte 12..16 birth epoch
//! ```
//! An all-zero pointer is a hole. The checksum is stored with the reference, so every read detects a
//! misdirected, stale or torn block.

use crate::units::{Epoch, SECTOR_BYTES, SectorAddr};

/// Bytes that a pointer takes on disk. It is a superblock field, so that later versions can use longer pointers.
pub const POINTER_BYTES: usize = 16;

/// The bits of an address in the first 8 bytes.
const ADDR_MASK: u64 = 0xffff_ffff_ffff;

/// What a pointer refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PtrKind {
    /// Nothing stored: reads as zeros.
    Hole,
    /// Stored as is.
    Plain,
    /// Reads as zeros, but its space is charged to the file (fallocate).
    Reserved,
    /// A kind that this version does not know; reading it is refused.
    Unknown(u8),
}

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockPtr {
    /// Logical address of the first sector; meaningless unless `kind` is [`PtrKind::Plain`].
    pub addr: SectorAddr,
    /// Stored length in sectors, 0 to 255.
    pub len_sectors: u8,
    /// The kind of its target.
    pub kind: PtrKind,
    /// CRC-32C of the stored bytes.
    pub crc: u32,
    /// Epoch in which a user wrote it; a block that the cleaner moves keeps its birth.
    pub birth: Epoch,
}

impl BlockPtr {
    /// Refers to nothing.
    pub const HOLE: Self =
        Self { addr: SectorAddr(0), len_sectors: 0, kind: PtrKind::Hole, crc: 0, birth: Epoch(0) };

    /// In memory only: the block it refers to is dirty and has no address yet. Never written to a device.
    pub const PENDING: Self = Self {
        addr: SectorAddr(0xffff_ffff_ffff),
        len_sectors: 0,
        kind: PtrKind::Plain,
        crc: 0,
        birth: Epoch(0),
    };

    /// Charged space without content (fallocate).
    pub const RESERVED: Self =
        Self { addr: SectorAddr(0), len_sectors: 0, kind: PtrKind::Reserved, crc: 0, birth: Epoch(0) };

    /// True for [`BlockPtr::PENDING`].
    #[must_use]
    pub fn is_pending(&self) -> bool {
        *self == Self::PENDING
    }

    /// True for a hole (not for a reserved block).
    #[must_use]
    pub fn is_hole(&self) -> bool {
        self.kind == PtrKind::Hole
    }

    /// True if the log stores bytes for it.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        matches!(self.kind, PtrKind::Plain | PtrKind::Unknown(_)) && !self.is_pending()
    }

    /// Stored length in bytes.
    #[must_use]
    pub fn stored_bytes(&self) -> u32 {
        u32::from(self.len_sectors) * SECTOR_BYTES
    }

    /// The 16 bytes on disk.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> [u8; POINTER_BYTES] {
        self.to_number().to_le_bytes()
    }

    /// The 16 bytes on disk as a little-endian number: a key that is faster to compare and to hash than bytes.
    #[must_use]
    #[inline]
    pub fn to_number(&self) -> u128 {
        let kind = match self.kind {
            PtrKind::Hole => return 0,
            PtrKind::Plain => 1,
            PtrKind::Reserved => 2,
            PtrKind::Unknown(k) => k,
        };
        let place = self.addr.0 & ADDR_MASK | u64::from(self.len_sectors) << 48 | u64::from(kind) << 56;
        let identity = u64::from(self.crc) | u64::from(self.birth.0) << 32;
        u128::from(place) | u128::from(identity) << 64
    }

    /// Reads 16 bytes. Total: an encoding that this version does not know becomes [`PtrKind::Unknown`].
    #[must_use]
    #[inline]
    pub fn decode(bytes: &[u8; POINTER_BYTES]) -> Self {
        let word = u64::from_le_bytes(bytes[..8].try_into().expect("8 of 16 bytes"));
        let kind = match bytes[7] {
            0 => return Self::HOLE,
            1 => PtrKind::Plain,
            2 => PtrKind::Reserved,
            other => PtrKind::Unknown(other),
        };
        Self {
            addr: SectorAddr(word & ADDR_MASK),
            len_sectors: bytes[6],
            kind,
            crc: u32::from_le_bytes(bytes[8..12].try_into().expect("4 of 16 bytes")),
            birth: Epoch(u32::from_le_bytes(bytes[12..].try_into().expect("4 of 16 bytes"))),
        }
    }
}
