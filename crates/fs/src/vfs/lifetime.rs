//! Lifetime of inodes: a file without names lives as long as it has a holder.
//!
//! Holders are the kernel's lookups and the open handles of embedding programs; `vfs` only counts both. `nameless` lists
//! the held inodes without names, so that giving back a hold of a file with names never needs its inode. Inodes of older states are never
//! freed, so nobody counts their holders.

use super::Vfs;
use crate::error::{FsError, Outcome, Stop};
use crate::states::is_past;
use crate::store::{Intent, OpKind, Store};
use firnfs_format::{InodeNo, TimeNs};

/// Why a held inode has no name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Nameless {
    /// It lost its last name.
    Removed,
    /// It was made without a name, and may still get one (`O_TMPFILE`).
    NotYetNamed,
}

impl<S: Store> Vfs<S> {
    pub(super) fn add_hold(&mut self, ino: InodeNo) {
        if is_past(ino) {
            return;
        }
        *self.holds.entry(ino).or_insert(0) += 1;
    }

    /// Counts one more holder (an open handle of an embedding program).
    ///
    /// # Errors
    /// `NotFound`; `Need`, `Corrupt`.
    pub fn hold(&mut self, ino: InodeNo) -> Outcome<()> {
        let nlink = self.attr_of(ino)?.nlink;
        self.hold_looked_at(ino, nlink);
        Ok(())
    }

    /// The same for an inode that was just looked at and has that many names.
    pub(super) fn hold_looked_at(&mut self, ino: InodeNo, nlink: u32) {
        if nlink == 0 && !is_past(ino) {
            self.nameless.entry(ino).or_insert(Nameless::Removed);
        }
        self.add_hold(ino);
    }

    /// Gives back `count` holds (at most all that there are). Frees an inode that has no names and no holders left: only
    /// that can stop.
    ///
    /// # Errors
    /// `Need`, `Room`, `Corrupt`, `ReadOnly`; no hold was released then.
    pub fn forget(&mut self, now: TimeNs, ino: InodeNo, count: u64) -> Outcome<()> {
        let Some(&held) = self.holds.get(&ino) else { return Ok(()) };
        if count < held {
            self.holds.insert(ino, held - count);
            return Ok(());
        }
        if self.nameless.contains_key(&ino) {
            self.free(now, ino)?;
        }
        self.holds.remove(&ino);
        self.nameless.remove(&ino);
        Ok(())
    }

    /// Frees all inodes without names, held or not: a mount frees those that a crash left, an unmount those still open.
    /// It is one operation per inode. If it stops, the freed inodes stay freed, and the next call continues there with
    /// the inodes that were orphans when the first of these calls began.
    ///
    /// # Errors
    /// `Need`, `Room`, `Corrupt`, `ReadOnly`.
    pub fn release_orphans(&mut self, now: TimeNs) -> Outcome<()> {
        let mut left = match self.releasing.take() {
            Some(left) => left,
            None => self.store.orphans()?.into(),
        };
        while let Some(&ino) = left.front() {
            match self.release(now, ino) {
                Ok(()) => left.pop_front(),
                Err(Stop::Fail(why)) => return Err(why.into()),
                Err(stop) => {
                    self.releasing = Some(left);
                    return Err(stop);
                }
            };
        }
        Ok(())
    }

    /// Frees an orphan if it still is one.
    fn release(&mut self, now: TimeNs, ino: InodeNo) -> Outcome<()> {
        match self.store.is_nameless(ino) {
            Ok(true) => {}
            // A damaged inode is left to a check.
            Ok(false) | Err(Stop::Fail(FsError::Corrupt { .. } | FsError::Io(_))) => return Ok(()),
            Err(stop) => return Err(stop),
        }
        match self.free(now, ino) {
            Ok(()) | Err(Stop::Fail(FsError::NotFound)) => {}
            Err(stop) => return Err(stop),
        }
        self.holds.remove(&ino);
        self.nameless.remove(&ino);
        Ok(())
    }

    fn free(&mut self, now: TimeNs, ino: InodeNo) -> Outcome<()> {
        match self.store.inode(ino) {
            // It was deleted with its clone.
            Err(Stop::Fail(FsError::Stale)) => return Ok(()),
            other => other.map(drop)?,
        }
        let mut op = self.begin(now, OpKind::Names, |intents| intents.push(Intent::Free { ino }))?;
        self.store.inode_free(&mut op, ino);
        self.end(op);
        Ok(())
    }
}
