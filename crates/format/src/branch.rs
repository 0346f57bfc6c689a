//! A clone in a checkpoint: a writable fork of a retained point, as a *branch* of the inode map.
//!
//! An inode of a clone has a number of its own: the branch above [`BRANCH_BITS`], the number that it has in the point below. The inode
//! map has entries for those that the clone has changed, made or freed; every other one is what the point says.
//!
//! Caller: `checkpoint`, which also re-exports everything here. The checksum of the slot covers these bytes.

use crate::error::{DecodeError, ensure};
use crate::layout::layout;
use crate::units::{Epoch, InodeNo, TimeNs};
use zerocopy::byteorder::little_endian::{I64, U32, U64};

/// Bits of an inode number below the branch: no branch has more inodes, and the volume itself, branch 0, has no more either.
pub const BRANCH_BITS: u32 = 40;
/// Clones of a volume at most: as many as fit into a slot beside everything else.
pub const MAX_BRANCHES: usize = 64;
/// Bytes of a clone's name at most.
pub const BRANCH_NAME_MAX: usize = 80;

layout! {
    /// A clone, after the retained points, in the order of numbers.
    BranchRaw = 128 {
        /// Its branch: bits 40 to 47 of its inodes' numbers, 1 to 255
        number: U32,
        /// Flags: 1 = being deleted, its inodes are freed one after the other
        flags: U32,
        /// The retained point that it began as: what was born by then belongs to the point
        origin: U32,
        /// Length of the name in bytes
        name_len: U32,
        /// When it was made, ns since 1970
        time_ns: I64,
        /// First inode number never used in it, without the branch
        next_ino: U64,
        /// Name, UTF-8, zeros after it
        name: [u8; 80],
        /// Zero
        reserved: [u8; 16],
    }
}

/// A clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Branch {
    /// 1 to 255; in the numbers of its inodes.
    pub number: u8,
    /// Its blocks are freed in the background, then it is gone.
    pub is_dropped: bool,
    /// The retained point that it began as.
    pub origin: Epoch,
    /// When it was made.
    pub time: TimeNs,
    /// First inode number never used in it, without the branch.
    pub next_ino: InodeNo,
    /// 1 to [`BRANCH_NAME_MAX`] bytes.
    pub name: String,
}

impl Branch {
    pub(crate) fn encode(&self) -> BranchRaw {
        let mut name = [0; BRANCH_NAME_MAX];
        name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        BranchRaw {
            number: u32::from(self.number).into(),
            flags: u32::from(self.is_dropped).into(),
            origin: self.origin.0.into(),
            name_len: (self.name.len() as u32).into(),
            time_ns: self.time.0.into(),
            next_ino: self.next_ino.0.into(),
            name,
            reserved: [0; 16],
        }
    }

    pub(crate) fn decode(raw: &BranchRaw) -> Result<Self, DecodeError> {
        let number = u8::try_from(raw.number.get()).ok().filter(|number| *number > 0);
        let number =
            number.ok_or_else(|| DecodeError::new("branch of a clone", "1 to 255", raw.number.get()))?;
        let name = raw.name.get(..raw.name_len.get() as usize).filter(|name| !name.is_empty());
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        let name = name.ok_or_else(|| {
            DecodeError::new("name of a clone", "1 to 80 bytes of UTF-8", raw.name_len.get())
        })?;
        let next_ino = raw.next_ino.get();
        ensure(next_ino < 1 << BRANCH_BITS, "next inode of a clone", "below 2^40", next_ino)?;
        Ok(Self {
            number,
            is_dropped: raw.flags.get() & 1 != 0,
            origin: Epoch(raw.origin.get()),
            time: TimeNs(raw.time_ns.get()),
            next_ino: InodeNo(next_ino),
            name: name.to_owned(),
        })
    }
}
