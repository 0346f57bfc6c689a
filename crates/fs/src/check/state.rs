//! The state of a check during its phases, and the data that one phase gathers for the next.

use super::claims::Claims;
use super::finding::Problem;
use super::namespace::Namespace;
use super::sweep::Sweep;
use crate::device_reader::DeviceReader;
use crate::lfs::{Geometry, Lfs};
use crate::store::Store;
use firnfs_format::table::{ImapEntry, UsageEntry};
use firnfs_format::{BlockPtr, Epoch, InodeNo};

/// The progress of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Phase, 1 to 5.
    pub phase: u8,
    /// Live bytes checked so far.
    pub done_bytes: u64,
    /// Live bytes of the volume, according to its accounting.
    pub total_bytes: u64,
    /// If retained points are being examined each as a volume of its own: how many are done, and how many there are.
    pub points: Option<(u64, u64)>,
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
    /// Everything, and besides each retained point as a volume of its own: names, counts, and each block where it is now.
    AllPoints,
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
    /// Retained points that were examined each as a volume of its own.
    pub points: u64,
}

/// Which trees could not be followed to their ends, from the least to the worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Torn {
    /// All of them were.
    #[default]
    Nothing,
    /// Those of the content of files with a name. A repair may leave them as they are.
    Content,
    /// Others too.
    Structure,
}

/// A retained point that is examined as a volume of its own.
#[derive(Clone, Copy, Debug)]
pub struct Past {
    /// The next older point that was examined.
    pub older: Option<Epoch>,
    /// Points before it.
    pub at: u64,
    /// All that are examined.
    pub of: u64,
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
    /// Inodes, directories and entries, and all findings.
    pub names: Namespace,
    /// Points whose trees cannot be read.
    pub lost_points: Vec<Epoch>,
    /// Blocks of the inode map that points share with the present.
    pub shared_map: Vec<BlockPtr>,
    /// The path of `names.root`: nothing for the volume itself.
    pub top: Vec<u8>,
    /// The state that is examined as a volume of its own.
    pub past: Option<Past>,
    /// Inodes with attributes in blocks.
    pub with_attributes: Vec<InodeNo>,
    /// What could not be followed. The accounting of the blocks below it cannot be judged.
    pub torn: Torn,
    /// Roll-forward could not update the accounting: it cannot be judged at all.
    pub is_stale: bool,
    pub totals: Totals,
    /// Bytes of blocks that were claimed and wait to be read.
    pub queued_bytes: u64,
    pub watch: &'a mut dyn FnMut(Progress),
}

impl<'a> Check<'a> {
    /// Starts a check of a store that has nothing dirty and no request under way.
    pub fn new(lfs: &'a mut Lfs, read: &'a mut dyn DeviceReader, watch: &'a mut dyn FnMut(Progress)) -> Self {
        let (geo, names) = (lfs.geometry(), Namespace::new(&lfs.facts()));
        Self {
            lfs,
            depth: Depth::Everything,
            sweep: Sweep::new(read, geo.clone()),
            claims: Claims::new(geo.clone()),
            geo,
            table_claims: Vec::new(),
            imap: Vec::new(),
            usage: Vec::new(),
            lost_inodes: Vec::new(),
            lost_segments: Vec::new(),
            names,
            lost_points: Vec::new(),
            shared_map: Vec::new(),
            top: Vec::new(),
            past: None,
            with_attributes: Vec::new(),
            torn: Torn::Nothing,
            is_stale: false,
            totals: Totals::default(),
            queued_bytes: 0,
            watch,
        }
    }

    /// Keeps a finding. After a stop reads fail, and what follows from that says nothing about the volume.
    pub fn report(&mut self, ino: Option<InodeNo>, problem: Problem) {
        if !self.is_stopped() {
            self.names.report(ino, problem);
        }
    }

    /// True once the caller wants no more.
    pub fn is_stopped(&self) -> bool {
        self.sweep.read.is_stopped()
    }

    /// Reports the progress of the check.
    pub fn tell(&mut self, phase: u8) {
        let done_bytes = self.claims.live_bytes.saturating_sub(self.queued_bytes);
        let total_bytes = self.lfs.live_bytes().max(done_bytes);
        let points = self.past.map(|past| (past.at, past.of));
        (self.watch)(Progress { phase, done_bytes, total_bytes, points });
    }

    /// Index of a directory in `names.dirs`.
    pub fn dir_at(&self, ino: InodeNo) -> Option<usize> {
        self.names.dir_at(ino)
    }
}
