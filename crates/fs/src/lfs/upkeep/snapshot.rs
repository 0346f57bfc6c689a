//! Snapshots: the state of the volume at one moment, for a check while the volume is in use.
//!
//! Nothing that a checkpoint slot reaches is overwritten, so an old state stays readable for a while anyway. A *hold*
//! (`tables/holds.rs`) prolongs that: segments that die from then on turn clean as always, but are not written again. A
//! snapshot is a second store over the same device, with the tables' roots and newer entries as of that moment, for reading
//! only.
//!
//! Invariants:
//! - all blocks that a snapshot leads to are on the device once its ticket is durable, and stay unchanged as long as its hold
//!   lasts;
//! - its hold takes no room from users: when clean segments are short, or an operation waits for some, it yields (`step.rs`).
//!
//! Caller: the driver's scrub.

use crate::error::{FsError, Outcome, Stop};
use crate::lfs::tables::holds::{HoldId, HoldKind};
use crate::lfs::write::commit::Cause;
use crate::lfs::{Lfs, Options};
use crate::store::{BlockKey, Scope, Ticket};
use firnfs_format::{BlockPtr, InodeNo, TimeNs};

/// Memory of a snapshot for blocks that a check reads a second time, in bytes.
const CACHE_BYTES: u64 = 16 << 20;

/// See the module's head.
pub struct Snapshot {
    /// The store as it was.
    pub lfs: Box<Lfs>,
    /// It may be read once this is durable.
    pub ticket: Ticket,
    /// The hold that keeps it readable, for [`Lfs::release_snapshot`].
    pub hold: HoldId,
}

impl Lfs {
    /// Lays out all dirty data and holds the resulting state. The hold yields to users.
    ///
    /// # Errors
    /// `Need`, `Room`; `ReadOnly` if the store turned read-only with changes that are not in the log.
    pub fn hold_snapshot(&mut self, now: TimeNs) -> Outcome<Snapshot> {
        let is_dirty = self.files.are_dirty();
        let ticket = match self.standing.read_only() {
            Some(_) if !is_dirty => self.writer.jobs.durable(),
            _ => self.commit_scope(now, Scope::All, Cause::Due)?,
        };
        self.writer.jobs.want(self.writer.log.end().serial);
        let base = self.snapshot(now, false, 0, self.tables.imap.table.root, self.tables.usage.table.root);
        let options = Options { read_only: true, cache_bytes: CACHE_BYTES, ..Options::default() };
        let mut past = Self::at_checkpoint(self.sb.clone(), self.geo.clone(), options, &base, now);
        past.tables.imap = self.tables.imap.clone();
        past.tables.usage = self.tables.usage.clone();
        past.tables.remnants = self.tables.remnants.clone();
        past.tables.points = self.tables.points.clone();
        past.standing.give_up("a view of the past".to_owned());
        let hold = self.tables.usage.hold(HoldKind::Yielding, self.tables.slots.durable());
        Ok(Snapshot { lfs: Box::new(past), ticket, hold })
    }

    /// True while an older state is held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.tables.usage.is_held()
    }

    /// Ends the hold of a snapshot; true if it lasted until now: then no block of the snapshot was overwritten.
    pub fn release_snapshot(&mut self, hold: HoldId) -> bool {
        self.tables.usage.end_hold(hold)
    }

    /// Where a block is now; `None` if there is none any more. For [`InodeNo::INODE_MAP`] and [`InodeNo::SEGMENT_USAGE`]:
    /// a block of the table.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn place_of_block(&mut self, key: BlockKey) -> Outcome<Option<BlockPtr>> {
        let level = u32::from(key.level);
        let found = match key.ino {
            InodeNo::INODE_MAP => self.tables.imap.table.ptr(&mut self.shelf, level, key.index.0),
            InodeNo::SEGMENT_USAGE => self.tables.usage.table.ptr(&mut self.shelf, level, key.index.0),
            ino => match self.load_inode(ino) {
                Ok(_) => self.load_parents(key).and_then(|()| self.ptr(key)),
                Err(stop) => Err(stop),
            },
        };
        present(found)
    }

    /// Where an inode's record is now; `None` if the inode is not in use any more, or its record is about to be rewritten.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn place_of_record(&mut self, ino: InodeNo) -> Outcome<Option<BlockPtr>> {
        if self.files.peek(ino).is_some_and(|core| core.dirty.is_some()) {
            return Ok(None);
        }
        self.tables.imap.get(&mut self.shelf, ino).map(|entry| Some(entry.ptr).filter(BlockPtr::is_stored))
    }
}

fn present(found: Outcome<BlockPtr>) -> Outcome<Option<BlockPtr>> {
    match found {
        Ok(ptr) => Ok(Some(ptr).filter(BlockPtr::is_stored)),
        Err(Stop::Fail(FsError::NotFound)) => Ok(None),
        Err(stop) => Err(stop),
    }
}
