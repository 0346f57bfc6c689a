//! Standing: whether the volume may be written, and why not.
//!
//! A volume stops being written for one of these reasons, and stays so: it was opened for reading; a log write failed; a check
//! of the volume in use found its structure wrong; memory may have been built on damaged bytes; it was closed. A failed write
//! and a doubt leave memory intact, so both can be *revoked* once the device was checked. Damage cannot.
//!
//! Invariants: the first reason is the one reported; damage makes any other reason final.

use crate::error::FsError;

/// What made a volume read-only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    /// A log write or flush failed.
    FailedLog,
    /// A check found the structure wrong.
    Doubt,
    /// Anything else: it cannot be revoked.
    Final,
}

/// See the module's head.
#[derive(Default, Debug)]
pub(in crate::lfs) struct Standing {
    read_only: Option<(String, Cause)>,
    /// A clean checkpoint is queued. It says that no log follows it, so nothing may be written.
    is_closed: bool,
}

impl Standing {
    /// Why nothing is written; `None` also for a volume that was closed.
    pub fn read_only(&self) -> Option<&str> {
        self.read_only.as_ref().map(|(why, _)| why.as_str())
    }

    /// An error unless the volume may be written.
    pub fn refuse(&self) -> Result<(), FsError> {
        match &self.read_only {
            Some((why, _)) => Err(FsError::ReadOnly(why.clone())),
            None if self.is_closed => Err(FsError::ReadOnly("the volume was closed".to_owned())),
            None => Ok(()),
        }
    }

    /// True if the volume may be written.
    pub fn may_write(&self) -> bool {
        self.read_only.is_none() && !self.is_closed
    }

    fn stop(&mut self, why: String, cause: Cause) -> bool {
        let is_first = self.read_only.is_none();
        self.read_only.get_or_insert((why, cause));
        is_first
    }

    /// Nothing is written from here on, for good. True if that is new.
    pub fn give_up(&mut self, why: String) -> bool {
        let is_first = self.stop(why, Cause::Final);
        self.read_only.iter_mut().for_each(|(_, cause)| *cause = Cause::Final);
        is_first
    }

    /// A check found the structure wrong. True if that is the first reason.
    pub fn doubt(&mut self, why: String) -> bool {
        self.stop(why, Cause::Doubt)
    }

    /// The log could not be written.
    pub fn log_failed(&mut self, why: String) {
        self.stop(why, Cause::FailedLog);
    }

    /// True if the volume is read-only for a reason that cannot be revoked.
    pub fn is_final(&self) -> bool {
        matches!(self.read_only, Some((_, Cause::Final)))
    }

    /// Revokes the reason.
    pub fn reinstate(&mut self) {
        self.read_only = None;
    }

    /// Notes that a clean checkpoint is queued.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// True after [`Self::close`].
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_makes_any_reason_final_and_the_first_reason_is_reported() {
        let mut standing = Standing::default();
        assert!(standing.may_write() && standing.doubt("doubt".to_owned()));
        assert!(!standing.is_final() && standing.refuse().is_err());
        assert!(!standing.give_up("damage".to_owned()));
        assert!(standing.is_final());
        assert_eq!(standing.read_only(), Some("doubt"));
    }

    #[test]
    fn a_closed_volume_rejects_changes_without_being_read_only() {
        let mut standing = Standing::default();
        standing.log_failed("device".to_owned());
        assert!(!standing.is_final());
        standing.reinstate();
        standing.close();
        assert!(standing.read_only().is_none() && standing.refuse().is_err() && !standing.may_write());
    }
}
