//! What a check can find: a [`Problem`] with its place, what was expected and what is there, and whose it is.

use crate::error::FsError;
use crate::inode::Kind;
use crate::lfs::describe;
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

/// A finding in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    /// Short and stable, for programs.
    pub code: &'static str,
    /// 0 for what opening a volume needs; then the five phases.
    pub phase: u8,
    /// Where.
    pub place: String,
    /// What had to be there.
    pub expected: String,
    /// What is there.
    pub found: String,
    /// What a repair does about it.
    pub repair: &'static str,
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

    /// The finding in words.
    #[must_use]
    pub fn describe(&self) -> Described {
        let ino = self.ino.unwrap_or(InodeNo(0));
        self.problem
            .of_copies()
            .or_else(|| self.problem.of_blocks(ino))
            .unwrap_or_else(|| self.problem.of_names(ino).unwrap_or_else(|| self.problem.of_accounting(ino)))
    }
}

/// Builds a description: code, phase, place, expected, found, repair.
fn words(
    (code, phase): (&'static str, u8),
    place: String,
    expected: impl ToString,
    found: impl ToString,
    repair: &'static str,
) -> Option<Described> {
    let (expected, found) = (expected.to_string(), found.to_string());
    Some(Described { code, phase, place, expected, found, repair })
}

/// A typed error's own place and words, where it has them.
fn from_error(
    id: (&'static str, u8),
    what: String,
    reason: &FsError,
    repair: &'static str,
) -> Option<Described> {
    match reason {
        FsError::Corrupt { at, expected, found, .. } => {
            words(id, format!("{what} at {at}"), expected, found, repair)
        }
        other => words(id, what, "readable bytes", other, repair),
    }
}

fn table_name(table: TableKind) -> &'static str {
    match table {
        TableKind::InodeMap => "inode map",
        TableKind::SegmentUsage => "segment usage table",
    }
}

fn entry_place(at: &EntryPlace) -> String {
    format!("directory {} entry at byte {}", at.dir, at.at_bytes)
}

fn kind_name(code: u8) -> String {
    Kind::from_code(code).map_or_else(|| format!("type {code}"), |kind| format!("{kind:?}"))
}

impl Problem {
    fn of_copies(&self) -> Option<Described> {
        match self {
            Self::SuperblockCopy { copy, at_bytes, reason } => words(
                ("superblock-copy", 0),
                format!("superblock copy {copy} at byte {at_bytes}"),
                "a copy of this volume's superblock",
                reason,
                "write it again from a good copy",
            ),
            Self::CheckpointSlot { slot, reason } => words(
                ("checkpoint-slot", 0),
                format!("checkpoint slot {slot}"),
                "a checkpoint",
                reason,
                "write it again",
            ),
            _ => None,
        }
    }

    fn of_blocks(&self, ino: InodeNo) -> Option<Described> {
        match self {
            Self::RollForward { reason } => from_error(
                ("roll-forward", 1),
                format!("inode {ino} as of the last checkpoint"),
                reason,
                "keep the newer state and count anew",
            ),
            Self::TableBlock { table, level, index, reason } => from_error(
                ("table-block", 1),
                format!("{} level {level} block {index}", table_name(*table)),
                reason,
                "rebuild what it held from the log",
            ),
            Self::Record { reason } => {
                from_error(("inode-record", 1), format!("inode {ino}"), reason, "free the inode")
            }
            Self::Block { key, reason } => from_error(
                ("block-damaged", 1),
                describe(key),
                reason,
                "make it a hole: what it held reads as zeros",
            ),
            Self::Pointer { key, reason } => from_error(
                ("block-pointer", 1),
                describe(key),
                reason,
                "make it a hole: what it held reads as zeros",
            ),
            Self::Shared { key, place } => words(
                ("block-shared", 1),
                format!("{} at {place}", describe(key)),
                "a place of its own",
                "another block's place",
                "give it a place of its own",
            ),
            Self::BeyondEnd { key, size_bytes } => words(
                ("block-beyond-end", 1),
                describe(key),
                format!("no blocks behind byte {size_bytes}"),
                "a block",
                "drop it",
            ),
            Self::Version(version) => words(
                ("inode-version", 1),
                format!("inode {ino} version"),
                format!("that of its record, {}", version.found),
                format!("{} in the inode map", version.stated),
                "write the inode again",
            ),
            Self::Orphan(orphan) => words(
                ("inode-orphan", 1),
                format!("inode {ino} orphan bit in the inode map"),
                orphan.found,
                orphan.stated,
                "write the inode again",
            ),
            Self::Form { expected, found } => words(
                ("inode-form", 1),
                format!("inode {ino}"),
                expected,
                found,
                "set it to what its content says",
            ),
            Self::Attributes { reason } => from_error(
                ("attributes", 1),
                format!("extended attributes of inode {ino}"),
                reason,
                "drop the damaged attributes",
            ),
            _ => None,
        }
    }

    fn of_names(&self, ino: InodeNo) -> Option<Described> {
        match self {
            Self::Root { found } => words(
                ("root-directory", 2),
                "inode 1".to_owned(),
                "the root directory",
                found,
                "make a new root; what it held goes to lost+found",
            ),
            Self::DirectoryBlock { block, reason } => from_error(
                ("directory-block", 2),
                format!("directory {ino} block {block}"),
                reason,
                "keep the entries that can be read",
            ),
            Self::DotDot(parent) => words(
                ("directory-parent", 2),
                format!("`..` of directory {ino}"),
                format!("inode {}", parent.found),
                format!("inode {}", parent.stated),
                "point it to the directory that has its name",
            ),
            Self::Counts { entries, bytes } => words(
                ("directory-counts", 2),
                format!("counts of directory {ino}"),
                format!("{} entries in {} bytes", entries.found, bytes.found),
                format!("{} in {}", entries.stated, bytes.stated),
                "count anew",
            ),
            Self::Index { reason } => from_error(
                ("directory-index", 2),
                format!("hash index of directory {ino}"),
                reason,
                "build it anew",
            ),
            Self::LostTree { .. } => words(
                ("lost-tree", 3),
                format!("directory {ino}"),
                "a way to it from the root",
                "none",
                "give it a name in lost+found",
            ),
            Self::LostFile { kind } => words(
                ("lost-file", 3),
                format!("inode {ino}"),
                "a name",
                format!("none ({kind:?})"),
                "give it a name in lost+found",
            ),
            Self::Links(links) => words(
                ("link-count", 4),
                format!("link count of inode {ino}"),
                links.found,
                links.stated,
                "set it to the number of names",
            ),
            _ => self.of_entries(),
        }
    }

    fn of_entries(&self) -> Option<Described> {
        match self {
            Self::EntryName { at, name } => words(
                ("entry-name", 2),
                entry_place(at),
                "a file name",
                name.escape_ascii(),
                "remove the entry",
            ),
            Self::EntryTwice { at } => words(
                ("entry-twice", 2),
                entry_place(at),
                "each name once",
                "a name that is there already",
                "remove the entry",
            ),
            Self::EntryDangling { at, target } => words(
                ("entry-dangling", 2),
                entry_place(at),
                "the number of a file",
                format!("inode {target}, not in use"),
                "remove the entry",
            ),
            Self::EntryKind { at, target, kind } => words(
                ("entry-type", 2),
                entry_place(at),
                format!("{}, as inode {target} is", kind_name(kind.found)),
                kind_name(kind.stated),
                "set it to the inode's",
            ),
            Self::EntrySecond { at, target } => words(
                ("entry-second", 2),
                entry_place(at),
                format!("one name for directory {target}"),
                "another one",
                "remove the entry",
            ),
            _ => None,
        }
    }

    /// The rest: all others are described above.
    fn of_accounting(&self, ino: InodeNo) -> Described {
        const REPAIR: &str = "count anew";
        let described = match self {
            Self::Sums { table, level, index, used, special } => words(
                ("table-sums", 5),
                format!("sums over {} level {level} block {index}", table_name(*table)),
                format!("{} used, {} orphans", used.found, special.found),
                format!("{}, {}", used.stated, special.stated),
                REPAIR,
            ),
            Self::Usage { segment, live_bytes, in_use } => words(
                ("segment-usage", 5),
                format!("live bytes of segment {segment}"),
                live_bytes.found,
                format!("{} ({})", live_bytes.stated, if *in_use { "in use" } else { "clean" }),
                REPAIR,
            ),
            Self::UsageEpoch { segment, epoch } => words(
                ("segment-epoch", 5),
                format!("clean segment {segment}"),
                format!("found empty by checkpoint {} or before", epoch.found),
                format!("by checkpoint {}", epoch.stated),
                REPAIR,
            ),
            Self::LiveBytes(bytes) => words(
                ("live-bytes", 5),
                "live bytes of the volume".to_owned(),
                bytes.found,
                bytes.stated,
                REPAIR,
            ),
            Self::InodeCount(count) => {
                words(("inode-count", 5), "inodes in use".to_owned(), count.found, count.stated, REPAIR)
            }
            Self::NextIno(next) => words(
                ("next-inode", 5),
                "first inode number never used".to_owned(),
                format!("at least {}", next.found),
                next.stated,
                REPAIR,
            ),
            Self::Charge(bytes) => words(
                ("inode-charge", 5),
                format!("bytes charged to inode {ino}"),
                bytes.found,
                bytes.stated,
                REPAIR,
            ),
            Self::LogWay { log, segment } => words(
                ("log-way", 5),
                format!("log {log} in segment {segment}"),
                "nothing live where it will write",
                "live blocks",
                "let it go on in a clean segment",
            ),
            other => words(("unknown", 5), String::new(), "", format!("{other:?}"), REPAIR),
        };
        described.expect("words are always given")
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let said = self.describe();
        write!(f, "{}: {}: expected {}, found {}", said.code, said.place, said.expected, said.found)?;
        match &self.path {
            Some(path) => write!(f, " ({})", path.escape_ascii()),
            None => Ok(()),
        }
    }
}
