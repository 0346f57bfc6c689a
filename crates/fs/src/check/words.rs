//! Findings as text: sentences for people, and short stable codes for programs.

use super::finding::{EntryPlace, Finding, Problem};
use crate::error::FsError;
use crate::inode::Kind;
use crate::lfs::describe;
use crate::lfs::view::TableKind;
use crate::states::is_past;
use firnfs_format::InodeNo;

/// A finding as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    /// Short and stable, for programs.
    pub code: &'static str,
    /// 0 for findings about opening the volume, then the five phases.
    pub phase: u8,
    /// The place.
    pub place: String,
    /// The expected value.
    pub expected: String,
    /// The actual value.
    pub found: String,
    /// What a repair does about it.
    pub repair: &'static str,
}

impl Finding {
    /// The finding as text.
    #[must_use]
    pub fn describe(&self) -> Described {
        let ino = self.ino.unwrap_or(InodeNo(0));
        let problem = &self.problem;
        let said = problem.of_copies().or_else(|| problem.of_blocks(ino)).or_else(|| problem.of_inodes(ino));
        let said = said.or_else(|| problem.of_names(ino)).or_else(|| problem.of_entries());
        let said = said.or_else(|| problem.of_accounting(ino)).expect("there are words for every problem");
        match is_past(ino) {
            true => {
                Described { repair: "none: the past does not change; the snapshot can be deleted", ..said }
            }
            false => said,
        }
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

/// The place and text of a typed error, if it has them.
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
            Self::LostLog { reason } => from_error(
                ("log-lost", 1),
                "log".to_owned(),
                reason,
                "end the log there; before that, --salvage may find the data after it",
            ),
            Self::RollForward { reason } => from_error(
                ("roll-forward", 1),
                format!("inode {ino} as of the last checkpoint"),
                reason,
                "keep the newer state and recount",
            ),
            Self::TableBlock { table, level, index, reason } => from_error(
                ("table-block", 1),
                format!("{} level {level} block {index}", table_name(*table)),
                reason,
                "rebuild its entries from the log",
            ),
            Self::Point { name, epoch, reason } => from_error(
                ("point-damaged", 5),
                format!("state {name} (checkpoint {epoch})"),
                reason,
                "give it up",
            ),
            Self::PointRows { reason } => from_error(
                ("points-lost", 5),
                "file of retained states".to_owned(),
                reason,
                "give up the states that cannot be read",
            ),
            Self::Clone { name, branch, reason } => from_error(
                ("clone-damaged", 5),
                format!("clone '{name}' (branch {branch})"),
                reason,
                "give it up",
            ),
            Self::Record { reason } => {
                from_error(("inode-record", 1), format!("inode {ino}"), reason, "free the inode")
            }
            Self::Block { key, reason } => from_error(
                ("block-damaged", 1),
                describe(key),
                reason,
                "make it a hole: its content reads as zeros",
            ),
            Self::Pointer { key, reason } => from_error(
                ("block-pointer", 1),
                describe(key),
                reason,
                "make it a hole: its content reads as zeros",
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
                format!("no blocks beyond byte {size_bytes}"),
                "a block",
                "drop it",
            ),
            _ => None,
        }
    }

    fn of_inodes(&self, ino: InodeNo) -> Option<Described> {
        match self {
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
                "set it to the value that its content needs",
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
                "make a new root; its entries go to lost+found",
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
                "recount",
            ),
            Self::Index { reason } => from_error(
                ("directory-index", 2),
                format!("hash index of directory {ino}"),
                reason,
                "rebuild it",
            ),
            Self::LostTree { .. } => words(
                ("lost-tree", 3),
                format!("directory {ino}"),
                "a path to it from the root",
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
            _ => None,
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
                "a name that exists already",
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

    fn of_accounting(&self, ino: InodeNo) -> Option<Described> {
        const REPAIR: &str = "recount";
        match self {
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
            Self::LiveKind { kind, live_bytes } => words(
                ("live-kind", 5),
                format!("live bytes of kind {}", kind.name()),
                live_bytes.found,
                live_bytes.stated,
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
                "no live blocks where it will write",
                "live blocks",
                "let it continue in a clean segment",
            ),
            _ => None,
        }
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
