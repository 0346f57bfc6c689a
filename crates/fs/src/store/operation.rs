//! Operations: the changes that one declares ([`Intent`]), the permission to make them ([`Op`]), and who pays for the space.

use crate::inode::Kind;
use crate::store::Fork;
use firnfs_format::{InodeNo, TimeNs};

/// Whether an operation changes names (and must be atomic and ordered) or only a file's own data and attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpKind {
    /// Creates, removes or renames; atomic and ordered with all others of this kind.
    Names,
    /// Writes, truncates, changes attributes of one file.
    File,
}

/// The user and group who pay for space: quotas count by both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// The most that an operation may take, and the owner who pays for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Charge {
    /// The owner who pays.
    pub owner: Owner,
    /// Space, in bytes, with everything that the store adds to it.
    pub bytes: u64,
    /// The most by which [`Store::allocated_bytes`](crate::store::Store::allocated_bytes) grows, in bytes. Not in it: what blocks that
    /// an operation merely overwrites or empties are charged until they are written.
    pub allocated_bytes: u64,
    /// Inodes.
    pub inodes: u64,
}

/// A change of what an inode is charged that no operation made ([`Store::take_recharges`](crate::store::Store::take_recharges)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recharge {
    /// The inode.
    pub ino: InodeNo,
    /// Its owner then.
    pub owner: Owner,
    /// By how much [`Store::allocated_bytes`](crate::store::Store::allocated_bytes) changed, in bytes.
    pub bytes: i64,
}

/// One change that an operation will make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent {
    /// A new inode that will hold that many bytes, inline or in blocks. At most one per operation.
    Create {
        /// The directory in which it is made: a store may place it nearby.
        parent: InodeNo,
        /// Its file type.
        kind: Kind,
        /// The owner who pays for it.
        owner: Owner,
        /// Content and attributes, in bytes.
        bytes: u64,
    },
    /// The size of content in blocks becomes exactly this, or content moves between the inode and blocks. Declared together
    /// with the writes and punches that belong to it: a store that keeps the end of a file in less than a block charges for its
    /// growth.
    Resize {
        /// Which inode.
        ino: InodeNo,
        /// Size afterwards, in bytes.
        size_bytes: u64,
    },
    /// The metadata of an inode changes; its inline content and attributes, or the entries in a directory's blocks, may grow by
    /// this much.
    Change {
        /// Which inode.
        ino: InodeNo,
        /// Growth of inline content or of existing blocks, in bytes.
        grow_bytes: u64,
    },
    /// Bytes of a fork will be written. The store brings partly covered blocks into memory. Only those may be changed with
    /// [`Store::block_mut`](crate::store::Store::block_mut), anywhere in the block; UFS declares their first bytes.
    Write {
        /// Which inode.
        ino: InodeNo,
        /// Which fork.
        fork: Fork,
        /// First byte.
        at_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
    },
    /// One block will be changed in place, with [`Store::block_mut`](crate::store::Store::block_mut), and will not hold more than
    /// before: an entry is removed, or names another inode. Never refused for lack of space, so that deleting works on a full volume.
    Edit {
        /// Which inode.
        ino: InodeNo,
        /// Which fork.
        fork: Fork,
        /// Any byte of the block.
        at_bytes: u64,
    },
    /// Bytes of a fork will be dropped; `len_bytes == u64::MAX` means to the end (a truncate). The store brings partly covered
    /// blocks into memory.
    Punch {
        /// Which inode.
        ino: InodeNo,
        /// Which fork.
        fork: Fork,
        /// First byte.
        at_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
    },
    /// Holes in a range of the data fork will be charged (fallocate).
    Reserve {
        /// Which inode.
        ino: InodeNo,
        /// First byte.
        at_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
    },
    /// The inode and all its blocks will be freed. Never refused for lack of space.
    Free {
        /// Which inode.
        ino: InodeNo,
    },
}

impl Intent {
    /// The inode that it is about; `None` for a new one.
    #[must_use]
    pub fn ino(&self) -> Option<InodeNo> {
        match *self {
            Self::Create { .. } => None,
            Self::Change { ino, .. }
            | Self::Resize { ino, .. }
            | Self::Write { ino, .. }
            | Self::Edit { ino, .. }
            | Self::Punch { ino, .. }
            | Self::Reserve { ino, .. }
            | Self::Free { ino } => Some(ino),
        }
    }
}

/// Permission to make the declared changes; see [`Store::begin`](crate::store::Store::begin). Must be returned with
/// [`Store::end`](crate::store::Store::end).
#[derive(Debug)]
#[must_use = "an operation must be ended"]
#[non_exhaustive]
pub struct Op {
    /// The time of the operation, for every time stamp that it sets.
    pub now: TimeNs,
    /// The declared kind.
    pub kind: OpKind,
    /// The most that it may take, by the owner who pays; empty if it takes nothing. If the charges exceed an owner's quota, the
    /// operation is abandoned ([`Store::abandon`](crate::store::Store::abandon)).
    pub charges: Vec<Charge>,
    /// The inode that it has made.
    pub made: Option<InodeNo>,
}

impl Op {
    /// For stores only: the token of an operation that passed all checks.
    pub(crate) fn granted(now: TimeNs, kind: OpKind, charges: Vec<Charge>) -> Self {
        Self { now, kind, charges, made: None }
    }
}
