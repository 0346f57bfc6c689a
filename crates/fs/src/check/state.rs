//! The state of a check during its phases, and the data that one phase gathers for the next.

use super::claims::Claims;
use super::finding::{EntryPlace, Finding, Problem};
use super::sweep::Sweep;
use crate::dirent::UNIT_BYTES;
use crate::lfs::{DeviceReader, Geometry, Lfs};
use firnfs_format::table::{ImapEntry, UsageEntry};
use firnfs_format::{BlockPtr, InodeNo};

/// Findings that are kept; more are only counted.
const FINDINGS_MAX: usize = 20_000;

/// The progress of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Phase, 1 to 5.
    pub phase: u8,
    /// Live bytes checked so far.
    pub done_bytes: u64,
    /// Live bytes of the volume, according to its accounting.
    pub total_bytes: u64,
}

/// How much of the live data a check reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Depth {
    /// Everything.
    #[default]
    Everything,
    /// Everything but the content of files: the check judges every pointer, and reads its target only if that
    /// contains further pointers.
    Structure,
}

/// How much was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Inodes in use.
    pub inodes: u64,
    /// Of these, directories.
    pub directories: u64,
    /// Entries of directories.
    pub entries: u64,
    /// Blocks of all kinds, inode records included.
    pub blocks: u64,
    /// Live bytes, by the pointers that lead to them.
    pub live_bytes: u64,
    /// Segments with live bytes.
    pub segments: u64,
    /// Bytes read from the device.
    pub read_bytes: u64,
}

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
    /// The first entry that names it.
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
pub struct Check<'a> {
    pub lfs: &'a mut Lfs,
    pub geo: Geometry,
    pub depth: Depth,
    pub sweep: Sweep<'a>,
    pub claims: Claims,
    /// Blocks of the tables' trees.
    pub table_claims: Vec<BlockPtr>,
    /// Inode map entries in use, by number, in their present state.
    pub imap: Vec<(u64, ImapEntry)>,
    /// Usage entries in use, by segment, in their present state.
    pub usage: Vec<(u64, UsageEntry)>,
    /// Numbers and segments whose entries could not be read.
    pub lost_inodes: Vec<(u64, u64)>,
    pub lost_segments: Vec<(u64, u64)>,
    pub inodes: Vec<InodeFacts>,
    pub dirs: Vec<DirFacts>,
    pub entries: Vec<EntryFacts>,
    pub index_nodes: Vec<IndexNode>,
    /// Directories of which a part of the content or index could not be read.
    pub torn_dirs: Vec<InodeNo>,
    /// Inodes with attributes in blocks.
    pub with_attributes: Vec<InodeNo>,
    /// A block with pointers could not be read: the accounting of the blocks below it cannot be judged.
    pub is_torn: bool,
    /// Roll-forward could not update the accounting: it cannot be judged at all.
    pub is_stale: bool,
    pub findings: Vec<Finding>,
    /// Findings beyond those kept.
    pub more_findings: u64,
    pub totals: Totals,
    pub watch: &'a mut dyn FnMut(Progress),
}

impl<'a> Check<'a> {
    /// Starts a check of a store that has nothing dirty and no request under way.
    pub fn new(lfs: &'a mut Lfs, read: &'a mut dyn DeviceReader, watch: &'a mut dyn FnMut(Progress)) -> Self {
        let geo = lfs.geometry();
        Self {
            lfs,
            geo,
            depth: Depth::Everything,
            sweep: Sweep::new(read, geo),
            claims: Claims::new(geo),
            table_claims: Vec::new(),
            imap: Vec::new(),
            usage: Vec::new(),
            lost_inodes: Vec::new(),
            lost_segments: Vec::new(),
            inodes: Vec::new(),
            dirs: Vec::new(),
            entries: Vec::new(),
            index_nodes: Vec::new(),
            torn_dirs: Vec::new(),
            with_attributes: Vec::new(),
            is_torn: false,
            is_stale: false,
            findings: Vec::new(),
            more_findings: 0,
            totals: Totals::default(),
            watch,
        }
    }

    /// Keeps a finding.
    pub fn report(&mut self, ino: Option<InodeNo>, problem: Problem) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { problem, ino, path: None });
        } else {
            self.more_findings += 1;
        }
    }

    /// Reports the progress of the check.
    pub fn tell(&mut self, phase: u8) {
        let done_bytes = self.claims.live_bytes;
        let total_bytes = self.lfs.live_bytes().max(done_bytes);
        (self.watch)(Progress { phase, done_bytes, total_bytes });
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

/// The place of an entry, from its offset in units of 8 bytes.
pub fn place_of(dir: InodeNo, place: u32) -> EntryPlace {
    EntryPlace { dir, at_bytes: u64::from(place) * UNIT_BYTES as u64 }
}
