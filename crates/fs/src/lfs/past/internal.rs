//! Internal files: inodes without names that only checkpoints write, the remnants (`moved`) and the rows of points (`rows`).
//!
//! They belong to the present alone: no point sees them, and users cannot reach them. Otherwise they are ordinary files: their
//! blocks are in the log, and the cleaner moves them.
//!
//! Invariant: the state of a checkpoint has these files as that checkpoint wrote them. Roll-forward does not change them.

use crate::cache::Fresh;
use crate::error::{FsError, Outcome, Stop};
use crate::inode::{Inode, Kind};
use crate::lfs::Lfs;
use crate::lfs::map::blockmap::Turn;
use crate::lfs::map::inode::CoreInode;
use crate::store::{BlockKey, Buf};
use firnfs_format::{InodeNo, TimeNs};

/// Blocks of a dropped file that are freed at once; background work frees the rest.
const REAP_AT_ONCE: u64 = 256;

impl Lfs {
    /// True if the file is there.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(in crate::lfs) fn has_internal(&mut self, ino: InodeNo) -> Outcome<bool> {
        match self.load_inode(ino) {
            Ok(core) => Ok(!core.freed),
            Err(Stop::Fail(FsError::NotFound)) => Ok(false),
            Err(stop) => Err(stop),
        }
    }

    /// Makes the file if there is none.
    ///
    /// # Errors
    /// `Need`, `Corrupt`; `Room` while one that was dropped is being freed.
    pub(in crate::lfs) fn open_internal(&mut self, now: TimeNs, ino: InodeNo) -> Outcome<()> {
        match self.load_inode(ino) {
            Ok(core) if core.freed => return Err(Stop::Room),
            Ok(_) => return Ok(()),
            Err(Stop::Fail(FsError::NotFound)) => {}
            Err(stop) => return Err(stop),
        }
        let entry = self.tables.imap.get(&mut self.shelf, ino)?;
        self.files.forget_freed(ino);
        let mut core = CoreInode::fresh(
            Inode { nlink: 1, ..Inode::new(Kind::Regular, now) },
            entry.version.wrapping_add(1),
        );
        self.next_generation += 1;
        core.inode.generation = self.next_generation;
        self.tables.imap.take(ino);
        self.files.insert(ino, core);
        self.mark_inode(ino, true);
        self.settle_record(ino);
        Ok(())
    }

    /// Puts new content into a block of an open file whose parents are in memory. The caller settles the record.
    pub(in crate::lfs) fn put_internal(&mut self, key: BlockKey, bytes: Vec<u8>) {
        let block_bytes = self.geo.block_bytes;
        let end_bytes = (key.index.0 + 1) * u64::from(block_bytes);
        self.mark_inode(key.ino, false);
        let core = self.core_mut(key.ino);
        core.inode.size_bytes = core.inode.size_bytes.max(end_bytes);
        let fresh = Fresh { buf: Buf::from(bytes), crc: None };
        self.make_dirty(key, Some(fresh), block_bytes, Turn::Changes);
    }

    /// Drops the file if it is there.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(in crate::lfs) fn close_internal(&mut self, ino: InodeNo) -> Outcome<()> {
        if self.has_internal(ino)? {
            self.free_inode(ino, REAP_AT_ONCE);
        }
        Ok(())
    }
}
