//! The bytes of a firnfs volume: every on-disk structure, declared once, with no I/O.
//!
//! Layers above (`fs`) decide what to write and where; this crate only turns bytes into structs and back.
//! Every function that decodes bytes from a device returns a [`DecodeError`] and never panics.
//!
//! - `layout`: the declaration of a structure, from which its size check and its table in FORMAT.md follow. `units`: newtypes for
//!   addresses and counts. `error`: [`DecodeError`].
//! - `superblock`: what mkfs fixes for ever. `checkpoint`: where every mount starts; `point`, `branch`: retained points and
//!   clones in it.
//! - `pointer`: how any block in the log is found. `summary`: what opens a partial segment. `inode`: the inode record. `table`:
//!   entries of the inode map and the segment usage table.
//! - `stream`: what `firn send` writes. `ffs`: a volume of the Fast File System.

mod branch;
pub mod checkpoint;
mod error;
pub mod ffs;
pub mod inode;
pub mod layout;
mod point;
pub mod pointer;
pub mod stream;
pub mod summary;
pub mod superblock;
pub mod table;
pub mod units;

pub use error::DecodeError;
pub use pointer::{BlockPtr, PtrKind};
pub use units::*;

use crc_fast::CrcAlgorithm;

/// CRC-32C (Castagnoli), the checksum of all on-disk structures.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// [`crc32c`] of bytes that lie in several places.
#[must_use]
pub fn crc32c_of(parts: &[&[u8]]) -> u32 {
    let mut digest = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}
