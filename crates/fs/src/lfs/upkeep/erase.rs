//! Deletes a clone: frees its inodes, a few at a time, makes their entries in the inode map blank, and removes the clone.
//!
//! What the clone shares with its origin costs nothing: the walk meets only what the clone has changed. The checkpoint says that
//! the clone is being deleted, so the work continues after a crash: it starts again, and finds what is left.
//!
//! Caller: `step`.

use crate::error::{Outcome, Stop, gather_needs};
use crate::lfs::Lfs;
use crate::lfs::base::damage::{Thing, is_damage};
use crate::states::branch_of;
use firnfs_format::InodeNo;
use firnfs_format::table::{ImapEntry, TableEntry};

/// Blocks of one inode that are freed at once; `reap` frees the rest.
const ERASE_AT_ONCE: u64 = 256;

/// How far the deletion of a clone has come.
#[derive(Default)]
pub(in crate::lfs) struct Erasing {
    /// The next leaf of the inode map.
    leaf: u64,
    /// All inodes are freed; only their entries are left.
    are_freed: bool,
    /// Damage stops the deletion; the clone waits for a check.
    is_stuck: bool,
}

impl Lfs {
    /// The next step of deleting a clone. False if none is being deleted, or if a checkpoint is due first.
    ///
    /// # Errors
    /// `Need`.
    pub(in crate::lfs) fn erase_step(&mut self) -> Outcome<bool> {
        let Some(branch) = self.tables.branches.dropping(self.tables.slots.durable()) else {
            return Ok(false);
        };
        if !self.erases() {
            return Ok(false);
        }
        if self.checkpoint_due_by_size() || self.writer.is_held_back() {
            return Ok(false);
        }
        self.due.note_change();
        let from = self.upkeep.erasing.leaf;
        let entries = match self.tables.imap.next_entries(&mut self.shelf, branch, from) {
            Err(Stop::Fail(why)) if is_damage(&why) => {
                // Nothing below it can be found; a check recounts what that holds.
                self.put_in_quarantine(Thing::InodeMap, why);
                None
            }
            other => other?,
        };
        match entries {
            Some((leaf, entries)) => {
                if self.upkeep.erasing.are_freed {
                    if entries.iter().any(|(_, entry)| entry.is_used()) {
                        self.upkeep.erasing.is_stuck = true;
                        return Ok(false);
                    }
                    entries.iter().for_each(|(ino, _)| self.tables.imap.set(*ino, ImapEntry::default()));
                } else {
                    self.free_all(entries)?;
                }
                self.upkeep.erasing.leaf = leaf + 1;
            }
            None if self.upkeep.erasing.are_freed => {
                self.tables.branches.remove(branch);
                self.tables.imap.end_branch(branch);
                self.upkeep.erasing = Erasing::default();
            }
            None => self.free_unwritten(branch)?,
        }
        Ok(true)
    }

    /// True while there is a clone to delete.
    pub(in crate::lfs) fn erases(&self) -> bool {
        self.tables.branches.dropping(self.tables.slots.durable()).is_some() && !self.upkeep.erasing.is_stuck
    }

    /// Frees inodes of a clone.
    fn free_all(&mut self, entries: Vec<(InodeNo, ImapEntry)>) -> Outcome<()> {
        let mut needs = Vec::new();
        let mut found = Vec::new();
        for (ino, _) in entries.into_iter().filter(|(_, entry)| entry.is_used()) {
            match gather_needs(self.load_inode(ino).map(|core| core.freed), &mut needs) {
                Ok(Some(false)) => found.push(ino),
                Ok(_) => {}
                Err(Stop::Fail(why)) if is_damage(&why) => {
                    // The accounts keep what it holds until a check recounts them.
                    self.put_in_quarantine(Thing::Inode(ino), why);
                    self.tables.imap.set(ino, ImapEntry::default());
                    self.tables.imap.inode_gone();
                }
                Err(stop) => return Err(stop),
            }
        }
        if !needs.is_empty() {
            needs.dedup();
            return Err(Stop::Need(needs));
        }
        found.into_iter().for_each(|ino| self.free_inode(ino, ERASE_AT_ONCE));
        Ok(())
    }

    /// Frees the inodes of a clone that were never written. Then only entries are left.
    fn free_unwritten(&mut self, branch: u8) -> Outcome<()> {
        let dirty = self.files.dirty().filter(|(ino, core)| branch_of(*ino) == branch && !core.freed);
        let dirty: Vec<InodeNo> = dirty.map(|(ino, _)| ino).collect();
        for ino in dirty {
            self.free_inode(ino, ERASE_AT_ONCE);
        }
        // Background work has freed all blocks before this step, so its queue is empty.
        self.upkeep.erasing = Erasing { leaf: 0, are_freed: true, is_stuck: false };
        Ok(())
    }
}
