//! What receiving a state needs of the log: inodes with the numbers that they have where they come from, and all changes at once or none.
//!
//! Held-back changes are written as always, but their partial segments say so (`FLAG_HELD`), and roll-forward ends before the first of
//! them: however much has been received, a mount after a crash reads none of it. They have no `FLAG_END` either, so that versions that do not know
//! the flag take nothing from a batch without end. Until the checkpoint that makes them a point is in its slot, a crash leaves what was there
//! before. In that time there is no other checkpoint, so nothing that they free can be written again, and no cleaning: there has to
//! be room for all of them, and their entries in the tables stay in memory.
//!
//! Caller: receiving, through the driver.

use crate::error::{FsError, Outcome};
use crate::lfs::Lfs;
use crate::lfs::write::commit::Cause;
use crate::mutation::{Mutation, is_on};
use crate::store::Scope;
use firnfs_format::checkpoint::BRANCH_BITS;
use firnfs_format::summary::{FLAG_CHECKPOINT, FLAG_END, FLAG_HELD};
use firnfs_format::{InodeNo, TimeNs};

impl Lfs {
    /// Commits everything. From then on changes count only together with the next point that somebody makes ([`Self::make_point`]), and
    /// with that all of them do. A store that is dropped before leaves the volume as it is now. Until the point is durable no sync is a
    /// promise: nobody else may use the volume.
    ///
    /// # Errors
    /// `Need`; `Room` if clean segments are short; `ReadOnly`.
    pub fn hold_back(&mut self, now: TimeNs) -> Outcome<()> {
        self.standing.refuse()?;
        self.finish_frozen(now)?;
        self.commit_scope(now, Scope::All, Cause::Due)?;
        self.writer.is_held_back = true;
        Ok(())
    }

    /// The flags of a partial segment, while changes are held back. The partial segments of the checkpoint end the batch.
    pub(in crate::lfs) fn held_flags(&self, flags: u16) -> u16 {
        match self.writer.is_held_back && !is_on(Mutation::NothingHeldBack) {
            true if flags & FLAG_CHECKPOINT == 0 => flags & !FLAG_END | FLAG_HELD,
            true => flags | FLAG_HELD,
            false => flags,
        }
    }

    /// The next inode that is made gets that number.
    ///
    /// # Errors
    /// `Invalid` for a number that no file can have, or only one in a clone. The making refuses one that is in use, with `Exists`.
    pub fn want_number(&mut self, ino: InodeNo) -> Result<(), FsError> {
        if !(InodeNo::FIRST_USER.0..1 << BRANCH_BITS).contains(&ino.0) {
            return Err(FsError::Invalid("an inode number"));
        }
        self.tables.imap.want(ino);
        Ok(())
    }
}
