//! What a check can find: a [`Problem`] with its place, what was expected and what is there, and whose it is.

use crate::error::FsError;
use crate::inode::Kind;
use crate::lfs::LogKind;
use crate::lfs::view::TableKind;
use crate::store::BlockKey;
use firnfs_format::{Epoch, InodeNo, SegmentId};

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Usual after a crash, and put right by the next mount.
    Note,
    /// One copy of what is kept several times: nothing is lost yet.
    Copy,
    /// Something is lost, or two places contradict each other.
    Error,
}

/// A stated number and the one that the check came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versus<T> {
    /// What the volume says.
    pub stated: T,
    /// What is there.
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
        /// Why it is none.
        reason: String,
    },
    /// A checkpoint slot holds no checkpoint.
    CheckpointSlot {
        /// 0 or 1.
        slot: u8,
        /// Why it holds none.
        reason: String,
    },
    /// A part of the log that was durable is damaged: it and all after it is missing.
    LostLog {
        /// Where the log stops, and what should be there.
        reason: FsError,
    },
    /// The state before the log's tail of an inode in it is damaged.
    RollForward {
        /// What roll-forward met.
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
        /// Why not.
        reason: FsError,
    },
    /// An inode's record cannot be read.
    Record {
        /// Why not.
        reason: FsError,
    },
    /// A block cannot be read: its bytes are damaged.
    Block {
        /// Which block.
        key: BlockKey,
        /// Why not.
        reason: FsError,
    },
    /// A pointer that no block can have.
    Pointer {
        /// The block that it is to lead to.
        key: BlockKey,
        /// What is wrong with it.
        reason: FsError,
    },
    /// A block lies where another one lies.
    Shared {
        /// The block that was found second.
        key: BlockKey,
        /// Where, in words.
        place: String,
    },
    /// A block behind the end of its file.
    BeyondEnd {
        /// Which block.
        key: BlockKey,
        /// Size of the file in bytes.
        size_bytes: u64,
    },
    /// The version in a record is not the inode map's.
    Version(Versus<u32>),
    /// The inode map's orphan bit does not fit the inode. `found`: what it has to be.
    Orphan(Versus<bool>),
    /// An inode says what no inode of its kind can say.
    Form {
        /// What would be right.
        expected: &'static str,
        /// What it says.
        found: String,
    },
    /// An inode's extended attributes break their format.
    Attributes {
        /// How.
        reason: FsError,
    },
    /// The root directory is missing or no directory.
    Root {
        /// What is there.
        found: String,
    },
    /// Records of a directory's block break their format.
    DirectoryBlock {
        /// Which block of its content.
        block: u64,
        /// How.
        reason: FsError,
    },
    /// A name that no file can have.
    EntryName {
        /// Where.
        at: EntryPlace,
        /// The name.
        name: Vec<u8>,
    },
    /// A name that is in its directory already.
    EntryTwice {
        /// Where.
        at: EntryPlace,
    },
    /// An entry that names an inode not in use.
    EntryDangling {
        /// Where.
        at: EntryPlace,
        /// What it names.
        target: InodeNo,
    },
    /// An entry that gives another file type than the inode has.
    EntryKind {
        /// Where.
        at: EntryPlace,
        /// What it names.
        target: InodeNo,
        /// Types.
        kind: Versus<u8>,
    },
    /// A further name of a directory, which can have but one.
    EntrySecond {
        /// Where.
        at: EntryPlace,
        /// What it names.
        target: InodeNo,
    },
    /// A directory's `..` is not the directory that has its name.
    DotDot(Versus<InodeNo>),
    /// A directory's counts are not those of its entries.
    Counts {
        /// Entries.
        entries: Versus<u64>,
        /// Bytes of live records.
        bytes: Versus<u64>,
    },
    /// A directory's hash index does not hold exactly its entries, or breaks its format.
    Index {
        /// How.
        reason: FsError,
    },
    /// A directory that cannot be reached from the root.
    LostTree {
        /// The entry that names it nevertheless, in a directory below itself.
        named_at: Option<EntryPlace>,
    },
    /// A file with names by its own account, which no directory has.
    LostFile {
        /// Its type.
        kind: Kind,
    },
    /// The link count is not the number of names.
    Links(Versus<u32>),
    /// A block of a table does not hold what its parent says.
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
    /// A clean segment found empty by a checkpoint yet to come: it would never be written again.
    UsageEpoch {
        /// Which segment.
        segment: SegmentId,
        /// Checkpoints. `found`: the newest.
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
    /// The first number never used is in use.
    NextIno(Versus<InodeNo>),
    /// Bytes charged to an inode.
    Charge(Versus<u64>),
    /// A log is about to write over live blocks.
    LogWay {
        /// Which log.
        log: usize,
        /// Where it goes on.
        segment: SegmentId,
    },
}

/// Something that the check found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What is wrong.
    pub problem: Problem,
    /// Whose it is.
    pub ino: Option<InodeNo>,
    /// A name of that inode, from the root, where one is known.
    pub path: Option<Vec<u8>>,
}

impl Finding {
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
