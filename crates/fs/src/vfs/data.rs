//! Content of regular files: read, write, fallocate, seek; and access times.

use super::history::refuse_past;
use super::{Allocate, AtimeMode, Seek, Vfs};
use crate::error::Outcome;
use crate::states::is_past;
use crate::store::content::Content;
use crate::store::{OpKind, ReadPlan, Store};
use crate::ufs::file;
use firnfs_format::{InodeNo, TimeNs};

/// An access time older than this is renewed even if nothing changed (relatime).
const RELATIME_MS: u64 = 24 * 60 * 60 * 1000;

impl<S: Store> Vfs<S> {
    /// Plans a read, cut at the end of the file; renews the access time as the mode says. The caller gives the pin back.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `Invalid` (other kinds); `Need`, `Corrupt`.
    pub fn read(&mut self, now: TimeNs, ino: InodeNo, at_bytes: u64, len_bytes: u64) -> Outcome<ReadPlan> {
        let file = file::view(&mut self.store, ino)?;
        let atime_is_due = self.atime_is_due(now, ino)?;
        let plan = file::read(&mut self.store, &file, at_bytes, len_bytes)?;
        self.touch_atime(now, ino, atime_is_due);
        Ok(plan)
    }

    /// Writes at most `StoreFacts::op_max_bytes`; returns how much was written (all of it, or the part that fits one operation:
    /// call again for the rest). With `kill_set_id` it clears set-id bits and `security.capability`.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `Invalid` (other kinds), `TooLarge`, `NoSpace`, `ReadOnly`; `Need`, `Room`, `Corrupt`.
    pub fn write(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        at_bytes: u64,
        bytes: &[u8],
        kill_set_id: bool,
    ) -> Outcome<usize> {
        self.write_content(now, ino, at_bytes, bytes.into(), kill_set_id)
    }

    /// [`Self::write`] for content that may have been prepared for that place in the file.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_content(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        at_bytes: u64,
        content: Content<'_>,
        kill_set_id: bool,
    ) -> Outcome<usize> {
        refuse_past(&[ino])?;
        let file = file::view(&mut self.store, ino)?;
        if content.bytes().is_empty() {
            return Ok(0);
        }
        let write = file::plan_write(&self.store.facts(), file, at_bytes, content.len_bytes() as u64)?;
        let kill = if kill_set_id { self.plan_kill(ino)? } else { None };
        let mut op = self.begin(now, OpKind::File, |intents| {
            write.declare(intents);
            if let Some(kill) = &kill {
                kill.declare(intents);
            }
        })?;
        let len_bytes = write.len_bytes() as usize;
        write.apply(&mut self.store, &mut op, content.cut(len_bytes));
        if let Some(kill) = kill {
            kill.apply(&mut self.store, &mut op);
        }
        let inode = self.store.inode_mut(&mut op, ino);
        inode.mtime = now;
        inode.ctime = now;
        self.end(op);
        Ok(len_bytes)
    }

    /// Counts the blocks that a fallocate of the range would charge, a part of the range at a time: returns the offset where
    /// the rest starts, `None` when all is counted.
    ///
    /// # Errors
    /// `Invalid` (not a regular file), `IsDirectory`, `TooLarge`; `Need`, `Corrupt`.
    pub fn holes(&mut self, ino: InodeNo, at_bytes: u64, len_bytes: u64) -> Outcome<(u64, Option<u64>)> {
        let file = file::view(&mut self.store, ino)?;
        file::holes(&mut self.store, &file, at_bytes, len_bytes)
    }

    /// Refuses a fallocate of a file that would charge this many blocks in all, before its first part takes any.
    ///
    /// # Errors
    /// `NoSpace`, `OverQuota`, `NotFound`; `Need`, `Room`, `Corrupt`.
    pub fn refuse_growth(&mut self, now: TimeNs, ino: InodeNo, blocks: u64) -> Outcome<()> {
        self.refuse_beyond_quota(now, ino, blocks)?;
        self.store.refuse_growth(blocks)
    }

    /// Does a part of the range and returns the offset where the rest starts, `None` when all is done. With `kill_set_id` it
    /// clears set-id bits and `security.capability`.
    ///
    /// # Errors
    /// `Invalid` (an empty range, not a regular file), `IsDirectory`, `TooLarge`, `NoSpace`, `ReadOnly`; `Need`, `Room`,
    /// `Corrupt`.
    pub fn fallocate(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        mode: Allocate,
        at_bytes: u64,
        len_bytes: u64,
        kill_set_id: bool,
    ) -> Outcome<Option<u64>> {
        refuse_past(&[ino])?;
        let file = file::view(&mut self.store, ino)?;
        let allocation = file::plan_allocate(&self.store.facts(), file, mode, at_bytes, len_bytes)?;
        let kill = if kill_set_id { self.plan_kill(ino)? } else { None };
        let mut op = self.begin(now, OpKind::File, |intents| {
            allocation.declare(intents);
            if let Some(kill) = &kill {
                kill.declare(intents);
            }
        })?;
        allocation.apply(&mut self.store, &mut op);
        if let Some(kill) = kill {
            kill.apply(&mut self.store, &mut op);
        }
        let inode = self.store.inode_mut(&mut op, ino);
        inode.mtime = now;
        inode.ctime = now;
        self.end(op);
        Ok(allocation.rest_at(at_bytes + len_bytes))
    }

    /// lseek(2) with SEEK_DATA or SEEK_HOLE. Space that is reserved but was never written counts as a hole; so does the end.
    ///
    /// # Errors
    /// `NoData` at or beyond the end, or if only holes follow; `IsDirectory`, `Invalid` (other kinds), `NotFound`;
    /// `Need`, `Corrupt`.
    pub fn seek(&mut self, ino: InodeNo, at_bytes: u64, whence: Seek) -> Outcome<u64> {
        let file = file::view(&mut self.store, ino)?;
        file::seek(&mut self.store, &file, at_bytes, whence)
    }

    /// Whether an access at `now` renews the access time.
    pub(super) fn atime_is_due(&mut self, now: TimeNs, ino: InodeNo) -> Outcome<bool> {
        if self.atime_mode == AtimeMode::Noatime || is_past(ino) || self.store.read_only().is_some() {
            return Ok(false);
        }
        let inode = self.store.inode(ino)?;
        let is_stale = match self.atime_mode {
            AtimeMode::Noatime => false,
            AtimeMode::Strictatime => true,
            AtimeMode::Relatime => {
                inode.atime <= inode.mtime
                    || inode.atime <= inode.ctime
                    || now.millis_since(inode.atime) >= RELATIME_MS
            }
        };
        Ok(is_stale && now != inode.atime)
    }

    /// Renews the access time of an inode that the caller has just looked at, if that is due.
    pub(super) fn touch_atime(&mut self, now: TimeNs, ino: InodeNo, is_due: bool) {
        if is_due {
            self.store.set_atime(ino, now);
        }
    }
}
