//! The bytes of a firnfs volume: every on-disk structure, declared once, with no I/O.
//!
//! Layers above (`fs`) decide what to write and where; this crate only turns bytes into structs and back.
//! Every function that decodes bytes from a device returns a [`DecodeError`] and never panics.

pub mod checkpoint;
mod error;
pub mod ffs;
pub mod inode;
pub mod layout;
pub mod pointer;
pub mod summary;
pub mod superblock;
pub mod table;
pub mod units;

pub use error::DecodeError;
pub use pointer::{BlockPtr, PtrKind};
pub use units::*;

/// CRC-32C (Castagnoli), the checksum of all on-disk structures.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}
