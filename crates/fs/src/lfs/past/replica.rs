//! What receiving a state needs of the log: inodes with the numbers that they have where they come from, and all changes at once or none.
//!
//! Held-back changes are written as always, but no batch of them ends (`FLAG_END`): roll-forward takes nothing from a batch without end.
//! Until the checkpoint that makes them a point is in its slot, a crash leaves what was there before. In that time there is no
//! other checkpoint, so nothing that they free can be written again, and no cleaning: there has to be room for all of them.
//!
//! Caller: receiving, through the driver.

use crate::error::FsError;
use crate::lfs::Lfs;
use crate::lfs::map::admit::INODE_NUMBERS;
use firnfs_format::InodeNo;

impl Lfs {
    /// From now on changes count only together with the next point that somebody makes ([`Self::make_point`]), and with that all of them
    /// do. Whoever drops the store before leaves the volume as it is now.
    ///
    /// # Errors
    /// `NotPermitted` if there are changes that no checkpoint has; `ReadOnly`.
    pub fn hold_back(&mut self) -> Result<(), FsError> {
        self.standing.refuse()?;
        if self.due.has_changed() || self.dirty_bytes() > 0 {
            return Err(FsError::NotPermitted(
                "to hold back changes before the last ones are in a checkpoint",
            ));
        }
        self.upkeep.is_held_back = true;
        Ok(())
    }

    /// The next inode that is made gets that number.
    ///
    /// # Errors
    /// `Invalid` for a number that no file can have. The making refuses one that is in use, with `Exists`.
    pub fn want_number(&mut self, ino: InodeNo) -> Result<(), FsError> {
        if !(InodeNo::FIRST_USER.0..INODE_NUMBERS).contains(&ino.0) {
            return Err(FsError::Invalid("an inode number"));
        }
        self.tables.imap.wanted = Some(ino);
        Ok(())
    }
}
