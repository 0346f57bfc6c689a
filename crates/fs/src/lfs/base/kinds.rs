//! The kinds of blocks in the log, and bytes by kind: Table 4 of the Sprite LFS paper (section 5.2) for any volume.
//!
//! There are two such sums. That of bytes *written* only grows and is among the [`Counters`](crate::lfs::Counters). That of
//! *live* bytes is kept by [`usage`](crate::lfs::tables::usage), which changes it exactly where it changes the live bytes of a
//! segment, so that it equals the sum over all segments. It shares the counters' places in the checkpoint; the check recomputes
//! it.

use crate::store::Fork;
use firnfs_format::checkpoint::COUNTERS;

/// Kinds of blocks in the log; not summaries and padding, which are never live.
pub const KINDS: usize = 8;
/// First place of the live bytes in the checkpoint's counters.
pub const LIVE_SLOT: usize = 24;

/// The kind of a block in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Content of a file or symbolic link.
    File,
    /// Content or hash index of a directory.
    Directory,
    /// Extended attributes that are not in the inode.
    Attributes,
    /// Pointers to blocks, of any fork.
    Indirect,
    /// An inode with its inline content.
    Inode,
    /// The inode map.
    InodeMap,
    /// The segment usage table.
    UsageTable,
    /// Blocks and records that the present has given up, and a retained point has not.
    Past,
}

impl LogKind {
    /// All of them, in the order of their places.
    pub const ALL: [Self; KINDS] = [
        Self::File,
        Self::Directory,
        Self::Attributes,
        Self::Indirect,
        Self::Inode,
        Self::InodeMap,
        Self::UsageTable,
        Self::Past,
    ];

    /// The kind of a block of an inode.
    #[must_use]
    pub fn of_block(fork: Fork, level: u8, is_directory: bool) -> Self {
        match fork {
            _ if level > 0 => Self::Indirect,
            Fork::Xattr => Self::Attributes,
            Fork::Data if !is_directory => Self::File,
            Fork::Data | Fork::Index => Self::Directory,
        }
    }

    /// Its name for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Attributes => "attributes",
            Self::Indirect => "indirect",
            Self::Inode => "inode",
            Self::InodeMap => "inode_map",
            Self::UsageTable => "usage_table",
            Self::Past => "past",
        }
    }
}

/// Bytes of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindBytes([u64; KINDS]);

impl KindBytes {
    /// Bytes of one kind.
    #[must_use]
    pub fn of(&self, kind: LogKind) -> u64 {
        self.0[kind as usize]
    }

    /// Bytes of all kinds.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Adds bytes of one kind.
    pub fn add(&mut self, kind: LogKind, bytes: u32) {
        let sum = &mut self.0[kind as usize];
        *sum = sum.saturating_add(u64::from(bytes));
    }

    /// Adds bytes of many blocks of one kind.
    pub(crate) fn add_many(&mut self, kind: LogKind, bytes: u64) {
        let sum = &mut self.0[kind as usize];
        *sum = sum.saturating_add(bytes);
    }

    /// Takes bytes of one kind away. The count stops at zero: the check finds an image with wrong counts.
    pub fn sub(&mut self, kind: LogKind, bytes: u32) {
        let sum = &mut self.0[kind as usize];
        *sum = sum.saturating_sub(u64::from(bytes));
    }

    /// Without the bytes of both tables.
    pub(crate) fn without_tables(mut self) -> Self {
        self.0[LogKind::InodeMap as usize] = 0;
        self.0[LogKind::UsageTable as usize] = 0;
        self
    }

    /// Kinds with their bytes, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (LogKind, u64)> + use<> {
        LogKind::ALL.into_iter().zip(self.0)
    }

    /// The live bytes among a checkpoint's counters. `None` if it was written by a version that did not keep them: there is
    /// always a root directory, so on a volume with live bytes they are not all zero.
    pub fn live_in(counters: &[u64; COUNTERS], live_bytes: u64) -> Option<Self> {
        let stored = Self(std::array::from_fn(|n| counters[LIVE_SLOT + n]));
        (live_bytes == 0 || stored != Self::default()).then_some(stored)
    }

    /// Puts live bytes among a checkpoint's counters.
    pub fn put_live(&self, counters: &mut [u64; COUNTERS]) {
        counters[LIVE_SLOT..][..KINDS].copy_from_slice(&self.0);
    }
}
