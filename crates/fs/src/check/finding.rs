//! The possible findings of a check: a [`Problem`] with its place, the expected and the actual value, and the
//! inode that it concerns.

use crate::error::FsError;
use crate::inode::Kind;
use crate::lfs::LogKind;
use crate::lfs::view::TableKind;
use crate::store::BlockKey;
use firnfs_format::{Epoch, InodeNo, SegmentId};

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Usual after a crash; the next mount repairs it.
    Note,
    /// One of several copies is damaged: nothing is lost yet.
    Copy,
    /// Something is lost, or two places contradict each other.
    Error,
}

/// A stated number, and the number that the check computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versus<T> {
    /// The volume's value.
    pub stated: T,
    /// The actual value.
    pub found: T,
}

/// Where a directory has an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryPlace {
    /// The directory.
    pub dir: InodeNo,
    /// Offset of the record in the directory's content, in bytes.
    pub at_bytes: u64,
}

/// What is wrong. The phases are those of BSD-LFS's Table 2, as `docs/internals/fsck.md` lists them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// A copy of the superblock is damaged or not this volume's.
    SuperblockCopy {
        /// 0 to 2.
        copy: u8,
        /// Where it should be on the device, in bytes.
        at_bytes: u64,
        /// Why it is invalid.
        reason: String,
    },
    /// A checkpoint slot holds no checkpoint.
    CheckpointSlot {
        /// 0 or 1.
        slot: u8,
        /// Why it holds none.
        reason: String,
    },
    /// A durable part of the log is damaged: it and everything after it is missing.
    LostLog {
        /// Where the log stops, and what should be there.
        reason: FsError,
    },
    /// The log's tail contains an inode whose earlier state, before the tail, is damaged.
    RollForward {
        /// The error of roll-forward.
        reason: FsError,
    },
    /// A block of a table cannot be read.
    TableBlock {
        /// Which table.
        table: TableKind,
        /// Level, 0 for leaves.
        level: u32,
        /// Index at that level.
        index: u64,
        /// Why it cannot be read.
        reason: FsError,
    },
    /// A retained point leads to something that cannot be read.
    Point {
        /// Its name.
        name: String,
        /// Its epoch.
        epoch: Epoch,
        /// What cannot be read, and why.
        reason: FsError,
    },
    /// The file of the points that a checkpoint slot has no room for cannot be read.
    PointRows {
        /// What cannot be read, and why.
        reason: FsError,
    },
    /// A clone's inodes cannot be found, or the inode map has entries for one that there is not.
    Clone {
        /// Its name; empty if there is none.
        name: String,
        /// Its branch.
        branch: u8,
        /// What cannot be read, and why.
        reason: FsError,
    },
    /// An inode's record cannot be read.
    Record {
        /// Why it cannot be read.
        reason: FsError,
    },
    /// A block cannot be read: its bytes are damaged.
    Block {
        /// Which block.
        key: BlockKey,
        /// Why it cannot be read.
        reason: FsError,
    },
    /// A pointer that cannot be right for any block.
    Pointer {
        /// The block that it should lead to.
        key: BlockKey,
        /// Why it is wrong.
        reason: FsError,
    },
    /// Two blocks claim the same place.
    Shared {
        /// The block that was found second.
        key: BlockKey,
        /// Where, in words.
        place: String,
    },
    /// A block beyond the end of its file.
    BeyondEnd {
        /// Which block.
        key: BlockKey,
        /// Size of the file in bytes.
        size_bytes: u64,
    },
    /// The version in a record differs from the inode map's.
    Version(Versus<u32>),
    /// The inode map's orphan bit does not match the inode. `found` is the correct value.
    Orphan(Versus<bool>),
    /// An inode has a value that no inode of its kind can have.
    Form {
        /// A correct value.
        expected: &'static str,
        /// The inode's value.
        found: String,
    },
    /// An inode's extended attributes violate their format.
    Attributes {
        /// The error.
        reason: FsError,
    },
    /// The root directory is missing or is no directory.
    Root {
        /// The actual inode.
        found: String,
    },
    /// Records of a directory block violate their format.
    DirectoryBlock {
        /// Which block of its content.
        block: u64,
        /// The error.
        reason: FsError,
    },
    /// A name that no file can have.
    EntryName {
        /// The entry.
        at: EntryPlace,
        /// The name.
        name: Vec<u8>,
    },
    /// A name that occurs twice in its directory.
    EntryTwice {
        /// The entry.
        at: EntryPlace,
    },
    /// An entry that names an unused inode.
    EntryDangling {
        /// The entry.
        at: EntryPlace,
        /// The inode that it names.
        target: InodeNo,
    },
    /// An entry whose file type differs from the inode's.
    EntryKind {
        /// The entry.
        at: EntryPlace,
        /// The inode that it names.
        target: InodeNo,
        /// Types.
        kind: Versus<u8>,
    },
    /// A second name of a directory, which may have only one.
    EntrySecond {
        /// The entry.
        at: EntryPlace,
        /// The inode that it names.
        target: InodeNo,
    },
    /// A directory's `..` differs from the directory that contains its name.
    DotDot(Versus<InodeNo>),
    /// A directory's counts differ from those of its entries.
    Counts {
        /// Entries.
        entries: Versus<u64>,
        /// Bytes of live records.
        bytes: Versus<u64>,
    },
    /// A directory's hash index does not hold exactly its entries, or violates its format.
    Index {
        /// The error.
        reason: FsError,
    },
    /// A directory that cannot be reached from the root.
    LostTree {
        /// An entry that names it nevertheless, in a directory below it.
        named_at: Option<EntryPlace>,
    },
    /// A file whose inode claims names, but which no directory contains.
    LostFile {
        /// Its type.
        kind: Kind,
    },
    /// The link count differs from the number of names.
    Links(Versus<u32>),
    /// The sums of a table block differ from those that its parent states.
    Sums {
        /// Which table.
        table: TableKind,
        /// Level, 0 for leaves.
        level: u32,
        /// Index at that level.
        index: u64,
        /// Entries in use below.
        used: Versus<u64>,
        /// Orphans below.
        special: Versus<u64>,
    },
    /// Live bytes of a segment.
    Usage {
        /// Which segment.
        segment: SegmentId,
        /// Live bytes.
        live_bytes: Versus<u64>,
        /// Whether the table says that it is in use.
        in_use: bool,
    },
    /// A clean segment that claims to have been found empty by a checkpoint of the future: it would never be
    /// reused.
    UsageEpoch {
        /// Which segment.
        segment: SegmentId,
        /// Checkpoints. `found` is the newest.
        epoch: Versus<Epoch>,
    },
    /// Live bytes of the volume.
    LiveBytes(Versus<u64>),
    /// Live bytes of one kind of blocks.
    LiveKind {
        /// Which kind.
        kind: LogKind,
        /// Live bytes.
        live_bytes: Versus<u64>,
    },
    /// Inodes in use on the volume.
    InodeCount(Versus<u64>),
    /// The number that is recorded as the first unused one is in use.
    NextIno(Versus<InodeNo>),
    /// Bytes charged to an inode.
    Charge(Versus<u64>),
    /// A log is about to overwrite live blocks.
    LogWay {
        /// Which log.
        log: usize,
        /// The segment in which the log continues.
        segment: SegmentId,
    },
}

impl Problem {
    /// True if accounts count more than there is, as they do until what cannot be read is given up.
    #[must_use]
    pub fn is_surplus(&self) -> bool {
        match self {
            Self::LiveBytes(bytes) => bytes.stated > bytes.found,
            Self::LiveKind { live_bytes, .. } => live_bytes.stated > live_bytes.found,
            Self::Usage { live_bytes, in_use, .. } => *in_use && live_bytes.stated > live_bytes.found,
            _ => false,
        }
    }

    /// True if its repair gives up a state of the past or a clone, with all of it that can be read.
    #[must_use]
    pub fn costs_state(&self) -> bool {
        matches!(self, Self::Point { .. } | Self::PointRows { .. } | Self::Clone { .. })
    }

    /// True if its repair states the accounts anew.
    #[must_use]
    pub fn is_of_accounts(&self) -> bool {
        matches!(
            self,
            Self::TableBlock { .. }
                | Self::RollForward { .. }
                | Self::Sums { .. }
                | Self::Usage { .. }
                | Self::UsageEpoch { .. }
                | Self::LiveBytes(_)
                | Self::LiveKind { .. }
                | Self::InodeCount(_)
                | Self::NextIno(_)
                | Self::LogWay { .. }
                | Self::Shared { .. }
                | Self::Pointer { .. }
        ) || self.costs_state()
    }
}

/// Something that the check found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What is wrong.
    pub problem: Problem,
    /// The inode that it concerns.
    pub ino: Option<InodeNo>,
    /// A name of that inode, from the root, if one is known.
    pub path: Option<Vec<u8>>,
    /// Bytes of a file's content that cannot be read because of it; if it is about a block with pointers, at most as many: nothing
    /// tells which of the blocks below are holes. 0 for everything but content of files that have a name in the present.
    pub lost_bytes: u64,
}

impl Finding {
    /// A finding that costs no file its content, and whose path is not known yet.
    #[must_use]
    pub fn new(ino: Option<InodeNo>, problem: Problem) -> Self {
        Self { problem, ino, path: None, lost_bytes: 0 }
    }

    /// How bad it is.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self.problem {
            Problem::CheckpointSlot { .. } => Severity::Note,
            Problem::SuperblockCopy { .. } => Severity::Copy,
            _ => Severity::Error,
        }
    }
}
