//! `Namespace`: the facts that phase 1 collects about inodes and directories, for every kind of store, and the findings of
//! all phases.
//!
//! Phase 1 of each kind of store fills it: every inode in use, every record of a directory ([`Namespace::directory_block`]), every node of a
//! directory's index. Phases 2 to 4 (`names`, `tree`) need nothing else. [`Namespace::sort`] comes between.

use super::finding::{EntryPlace, Finding, Problem};
use crate::dirent::UNIT_BYTES;
use crate::states::within;
use crate::store::StoreFacts;
use firnfs_format::InodeNo;

/// Findings that are kept; more are only counted.
const FINDINGS_MAX: usize = 20_000;

/// An inode in use.
#[derive(Clone, Copy, Debug)]
pub struct InodeFacts {
    pub ino: InodeNo,
    /// Directories: `..`.
    pub parent: InodeNo,
    pub size_bytes: u64,
    /// Data blocks from this one on are still to be freed.
    pub reap_from: Option<u64>,
    pub charged_stated: u64,
    pub charged_found: u64,
    pub nlink: u32,
    /// Names found.
    pub names: u32,
    /// The `DT_*` number; 0 if the record could not be read.
    pub kind: u8,
    /// A part of its block tree could not be read.
    pub is_torn: bool,
    /// Its content is inline in the record.
    pub is_inline: bool,
}

/// A directory in use.
#[derive(Clone, Copy, Debug)]
pub struct DirFacts {
    pub ino: InodeNo,
    pub entries: u64,
    pub entry_bytes: u64,
    pub index_blocks: u64,
    pub found_entries: u64,
    pub found_bytes: u64,
    pub subdirectories: u32,
    /// The entry that names it: the one that `..` confirms, else the first.
    pub named_at: Option<(InodeNo, u32)>,
    /// A part of its content or index could not be read, or is impossible: a repair recounts it and rebuilds its
    /// index.
    pub is_torn: bool,
    /// A path leads to it from the root.
    pub is_reached: bool,
}

/// A directory entry: 32 bytes, so that a million take 32 MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryFacts {
    pub dir: InodeNo,
    pub target: InodeNo,
    /// Hash of the name; the index uses its low half.
    pub hash: u64,
    /// Offset in the directory's content, in units of 8 bytes.
    pub place: u32,
    /// The `DT_*` number.
    pub kind: u8,
    /// Bytes that the entry needs, in units of 8.
    pub used_units: u8,
}

/// A node of a directory's index as it is stored.
#[derive(Debug)]
pub struct IndexNode {
    pub dir: InodeNo,
    pub block: u64,
    pub bytes: Vec<u8>,
}

/// See the module's head.
pub struct Namespace {
    /// Block size in bytes.
    pub block_bytes: u32,
    /// Unit of a directory's block: what is wrong in one does not concern the next.
    pub dir_unit_bytes: u32,
    /// Key of the directory hash.
    pub hash_key: [u64; 2],
    pub inodes: Vec<InodeFacts>,
    pub dirs: Vec<DirFacts>,
    pub entries: Vec<EntryFacts>,
    pub index_nodes: Vec<IndexNode>,
    /// Directories of which a part of the content or index could not be read.
    pub torn_dirs: Vec<InodeNo>,
    /// Where the names begin: the root directory of the volume, of a clone or of a state. The facts have the numbers of inodes as its
    /// directories have them, findings the whole numbers.
    pub root: InodeNo,
    pub findings: Vec<Finding>,
    /// Findings beyond those kept.
    pub more_findings: u64,
}

impl Namespace {
    /// Knows nothing yet.
    pub fn new(facts: &StoreFacts) -> Self {
        Self {
            block_bytes: facts.block_bytes,
            dir_unit_bytes: facts.dir_unit_bytes,
            hash_key: facts.hash_key,
            inodes: Vec::new(),
            dirs: Vec::new(),
            entries: Vec::new(),
            index_nodes: Vec::new(),
            torn_dirs: Vec::new(),
            root: InodeNo::ROOT,
            findings: Vec::new(),
            more_findings: 0,
        }
    }

    /// Keeps a finding.
    pub fn report(&mut self, ino: Option<InodeNo>, problem: Problem) {
        self.keep(Finding::new(ino.map(|ino| within(self.root, ino)), problem));
    }

    /// The place of an entry, from its offset in units of 8 bytes.
    pub fn place_of(&self, dir: InodeNo, place: u32) -> EntryPlace {
        EntryPlace { dir: within(self.root, dir), at_bytes: u64::from(place) * UNIT_BYTES as u64 }
    }

    /// Keeps a finding.
    pub fn keep(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.more_findings += 1;
        }
    }

    /// Puts inodes and directories in order, after phase 1.
    pub fn sort(&mut self) {
        self.inodes.sort_unstable_by_key(|inode| inode.ino);
        self.dirs.sort_unstable_by_key(|dir| dir.ino);
    }

    /// Index of an inode in `inodes`.
    pub fn inode_at(&self, ino: InodeNo) -> Option<usize> {
        self.inodes.binary_search_by_key(&ino, |inode| inode.ino).ok()
    }

    /// Index of a directory in `dirs`.
    pub fn dir_at(&self, ino: InodeNo) -> Option<usize> {
        self.dirs.binary_search_by_key(&ino, |dir| dir.ino).ok()
    }
}
