//! The descriptor of a group: one block with counts and three bitmaps; and its summary.
//!
//! ```text
//!  descriptor := header{96} used-inodes free-fragments free-blocks zeros
//! ```
//! Bit 0 of a bitmap is the lowest bit of its first byte. The bitmap of blocks is redundant: a block is free if all of its fragments are.

use crate::error::{DecodeError, ensure};
use crate::ffs::superblock::Layout;
use crate::layout::layout;
use zerocopy::byteorder::little_endian::{I64, U32};
use zerocopy::{FromBytes, IntoBytes};

/// First bytes of a descriptor ("cgrp").
pub const DESCRIPTOR_MAGIC: u32 = u32::from_le_bytes(*b"cgrp");
/// Bytes of a descriptor before its bitmaps.
pub const DESCRIPTOR_HEAD_BYTES: usize = 96;
/// Bytes of a summary.
pub const SUMMARY_BYTES: usize = 16;

layout! {
    /// Head of a group's descriptor.
    DescriptorRaw = 96 {
        /// `cgrp`
        magic: U32,
        /// Number of the group
        group: U32,
        /// Fragments of the group
        frags: U32,
        /// Inodes of the group
        inodes: U32,
        /// The counts, as in the group's summary
        summary: [u8; 16],
        /// Free runs of 1 to 7 fragments within blocks that are not free, by their length; the first number is 0
        runs: [U32; 8],
        /// Fragment behind the last block that was allocated without a preference
        block_rotor: U32,
        /// Fragment at which the last fragment was found
        frag_rotor: U32,
        /// Inode that was allocated last
        inode_rotor: U32,
        /// Zero
        reserved: [u8; 12],
        /// Time of the write, ns since 1970
        written_ns: I64,
    }
}

layout! {
    /// Counts of a group, in its descriptor and in the table of summaries.
    SummaryRaw = 16 {
        /// Directories
        dirs: U32,
        /// Free whole blocks
        free_blocks: U32,
        /// Free inodes
        free_inodes: U32,
        /// Free fragments in blocks that are not free
        free_frags: U32,
    }
}

/// Counts of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Directories.
    pub dirs: u32,
    /// Free whole blocks.
    pub free_blocks: u32,
    /// Free inodes.
    pub free_inodes: u32,
    /// Free fragments in blocks that are not free.
    pub free_frags: u32,
}

impl Summary {
    /// The 16 bytes on disk.
    #[must_use]
    pub fn encode(&self) -> [u8; SUMMARY_BYTES] {
        let raw = SummaryRaw {
            dirs: self.dirs.into(),
            free_blocks: self.free_blocks.into(),
            free_inodes: self.free_inodes.into(),
            free_frags: self.free_frags.into(),
        };
        raw.as_bytes().try_into().expect("the layout has this size")
    }

    /// Reads 16 bytes; total.
    #[must_use]
    pub fn decode(bytes: &[u8; SUMMARY_BYTES]) -> Self {
        let Ok(raw) = SummaryRaw::read_from_bytes(bytes) else { return Self::default() };
        Self {
            dirs: raw.dirs.get(),
            free_blocks: raw.free_blocks.get(),
            free_inodes: raw.free_inodes.get(),
            free_frags: raw.free_frags.get(),
        }
    }
}

/// Bytes of a descriptor with bitmaps of those sizes.
#[must_use]
pub fn descriptor_bytes(inodes: u32, frags: u32, frags_per_block: u32) -> usize {
    let bytes = |bits: u32| bits.div_ceil(8) as usize;
    DESCRIPTOR_HEAD_BYTES + bytes(inodes) + bytes(frags) + bytes(frags / frags_per_block)
}

/// A descriptor, taken apart. The counts are as stored: only a check compares them with the bitmaps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// Number of the group.
    pub group: u32,
    /// Counts.
    pub summary: Summary,
    /// Free runs of 1 to 7 fragments within blocks that are not free.
    pub runs: [u32; 8],
    /// Fragment behind the last block that was allocated without a preference.
    pub block_rotor: u32,
    /// Fragment at which the last fragment was found.
    pub frag_rotor: u32,
    /// Inode that was allocated last.
    pub inode_rotor: u32,
    /// Bitmap of used inodes.
    pub used_inodes: Vec<u8>,
    /// Bitmap of free fragments.
    pub free_frags: Vec<u8>,
    /// Bitmap of free blocks.
    pub free_blocks: Vec<u8>,
}

impl Descriptor {
    /// Writes the block on disk.
    #[must_use]
    pub fn encode(&self, layout: &Layout, written_ns: i64) -> Vec<u8> {
        let raw = DescriptorRaw {
            magic: DESCRIPTOR_MAGIC.into(),
            group: self.group.into(),
            frags: layout.frags_in(self.group).into(),
            inodes: layout.group_inodes.into(),
            summary: self.summary.encode(),
            runs: self.runs.map(Into::into),
            block_rotor: self.block_rotor.into(),
            frag_rotor: self.frag_rotor.into(),
            inode_rotor: self.inode_rotor.into(),
            reserved: [0; 12],
            written_ns: written_ns.into(),
        };
        let mut block = Vec::with_capacity(layout.block_bytes as usize);
        block.extend_from_slice(raw.as_bytes());
        for map in [&self.used_inodes, &self.free_frags, &self.free_blocks] {
            block.extend_from_slice(map);
        }
        block.resize(layout.block_bytes as usize, 0);
        block
    }

    /// Reads a block that should be the descriptor of a group.
    ///
    /// # Errors
    /// [`DecodeError`] if it is not one, or of another group.
    pub fn decode(layout: &Layout, group: u32, block: &[u8]) -> Result<Self, DecodeError> {
        let (raw, _) = DescriptorRaw::read_from_prefix(block)
            .map_err(|_| DecodeError::new("group descriptor", DESCRIPTOR_HEAD_BYTES, block.len()))?;
        ensure(
            raw.magic.get() == DESCRIPTOR_MAGIC,
            "group descriptor magic",
            DESCRIPTOR_MAGIC,
            raw.magic.get(),
        )?;
        ensure(raw.group.get() == group, "group number", group, raw.group.get())?;
        let (frags, inodes) = (layout.frags_in(group), layout.group_inodes);
        ensure(raw.frags.get() == frags, "fragments of a group", frags, raw.frags.get())?;
        ensure(raw.inodes.get() == inodes, "inodes of a group", inodes, raw.inodes.get())?;
        let mut at = DESCRIPTOR_HEAD_BYTES;
        let mut map = |bits: u32| {
            let len = bits.div_ceil(8) as usize;
            let bytes = block.get(at..at + len);
            at += len;
            bytes.map(<[u8]>::to_vec).ok_or_else(|| DecodeError::new("group bitmaps", at, block.len()))
        };
        Ok(Self {
            group,
            summary: Summary::decode(&raw.summary),
            runs: raw.runs.map(U32::get),
            block_rotor: raw.block_rotor.get(),
            frag_rotor: raw.frag_rotor.get(),
            inode_rotor: raw.inode_rotor.get(),
            used_inodes: map(inodes)?,
            free_frags: map(layout.group_frags)?,
            free_blocks: map(layout.group_frags / layout.frags_per_block())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout {
        size_frags: 20_000,
        block_bytes: 4096,
        frag_bytes: 1024,
        group_frags: 8192,
        group_inodes: 512,
        groups: 3,
    };

    fn descriptor() -> Descriptor {
        Descriptor {
            group: 2,
            summary: Summary { dirs: 1, free_blocks: 2, free_inodes: 3, free_frags: 4 },
            runs: [0, 5, 0, 1, 0, 0, 0, 0],
            block_rotor: 40,
            frag_rotor: 41,
            inode_rotor: 42,
            used_inodes: (0..64).collect(),
            free_frags: (0..1024).map(|n| n as u8).collect(),
            free_blocks: vec![0xa5; 256],
        }
    }

    #[test]
    fn a_descriptor_reads_back_as_it_was_written() {
        let block = descriptor().encode(&LAYOUT, 77);
        assert_eq!(block.len(), 4096);
        assert_eq!(Descriptor::decode(&LAYOUT, 2, &block), Ok(descriptor()));
    }

    #[test]
    fn a_descriptor_of_another_group_or_cut_short_is_refused() {
        let block = descriptor().encode(&LAYOUT, 0);
        assert!(Descriptor::decode(&LAYOUT, 1, &block).is_err());
        assert!(Descriptor::decode(&LAYOUT, 2, &block[..1000]).is_err());
        assert!(Descriptor::decode(&LAYOUT, 2, &[]).is_err());
        assert!(Descriptor::decode(&LAYOUT, 2, &[0; 4096]).is_err());
    }
}
