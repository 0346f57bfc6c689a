//! Quotas of an open volume: counting in steps while others work, and storing the ends of grace times.

use super::Volume;
use crate::sync::atomic::Ordering;
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::ufs::quota::Difference;

impl<S: Engine> Volume<S> {
    /// Starts the quotas of a volume that was just opened, if it has them on: counts what everyone has. Returns whether they are on.
    /// Limits that cannot be read leave them off, so that damage there costs no more than the limits: `Vfs::quota_report` has the error.
    ///
    /// # Errors
    /// `Io` while counting.
    pub fn start_quotas(&self) -> Result<bool, FsError> {
        let loaded = self.run_quietly(|vfs, _| {
            let may_write = vfs.read_only().is_none();
            if may_write { vfs.load_quotas() } else { Ok(false) }
        });
        let is_on = match loaded {
            Err(FsError::Corrupt { .. } | FsError::Io(_)) => false,
            other => other?,
        };
        if is_on {
            self.count_quotas()?;
        }
        Ok(is_on)
    }

    /// Turns quotas on, and counts what everyone has; or turns them off.
    ///
    /// # Errors
    /// `ReadOnly`, `NoSpace`, `Io`, `Corrupt`.
    pub fn turn_quotas(&self, is_on: bool) -> Result<(), FsError> {
        self.run(|vfs, now| vfs.turn_quotas(now, is_on))?;
        self.count_quotas().map(drop)
    }

    /// Counts again what everyone has, while others work; what was kept wrongly is put right and returned. `None` if quotas are off.
    ///
    /// # Errors
    /// `Io`.
    pub fn recount_quotas(&self) -> Result<Option<Vec<Difference>>, FsError> {
        if !self.run_quietly(|vfs, _| Ok(vfs.recount_quotas()))? {
            return Ok(None);
        }
        self.count_quotas().map(Some)
    }

    /// Each step is an operation of its own: others come in between.
    fn count_quotas(&self) -> Result<Vec<Difference>, FsError> {
        loop {
            let counted = self.run_quietly(|vfs, now| {
                let counted = vfs.count_quotas(now)?;
                vfs.store_mut().shrink_caches();
                Ok(counted)
            })?;
            if let Some(differences) = counted {
                return Ok(differences);
            }
        }
    }

    /// Stores the ends of grace times that have begun. If that fails, the next operation tries again; a crash before would let the grace
    /// time begin again.
    pub(super) fn save_quotas(&self) {
        if self.saving_quotas.swap(true, Ordering::Relaxed) {
            return;
        }
        let _tried_again_later = self.run_quietly(|vfs, now| vfs.save_quotas(now));
        self.saving_quotas.store(false, Ordering::Relaxed);
    }
}
