//! The bytes of a Fast File System volume (`firnfs::ffs`): `superblock`, descriptors of groups (`group`), inodes (`inode`).
//!
//! ```text
//!  device := group*                     each `group_frags` long; the last one may be shorter
//!  group  := head descriptor inode-table [summaries] data
//! ```
//! Offsets within a group are the same in all groups ([`Superblock`] computes them); group 0 alone has the table of summaries.
//! Directories, directory indexes and attribute sets have the bytes that they have in every store of firnfs.

pub mod group;
pub mod inode;
pub mod superblock;

use crate::layout::Layout;
pub use group::{Descriptor, Summary};
pub use inode::Dinode;
pub use superblock::{Layout as VolumeLayout, State, Superblock, Tuning};

/// All fixed structures, in the order in which FORMAT-FFS.md shows them.
pub const LAYOUTS: &[Layout] = &[
    superblock::SuperblockRaw::LAYOUT,
    group::DescriptorRaw::LAYOUT,
    group::SummaryRaw::LAYOUT,
    inode::DinodeRaw::LAYOUT,
];

/// Sizes of blocks that mkfs may choose, in bytes; powers of two.
pub const BLOCK_BYTES_RANGE: std::ops::RangeInclusive<u32> = 4096..=65536;
/// Most fragments that a block may be divided into.
pub const FRAGS_PER_BLOCK_MAX: u32 = 8;
/// Smallest fragment, in bytes.
pub const FRAG_BYTES_MIN: u32 = 512;
/// Bit of a pointer: the block is allocated and was never written; it reads as zeros.
pub const UNWRITTEN: u32 = 1 << 31;
