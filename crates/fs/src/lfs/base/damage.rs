//! Damage: what happens if bytes turn out damaged or impossible while the volume is in use.
//!
//! - A *fetch that failed* for good is reported to the core ([`Engine::fetch_failed`](crate::engine::Engine::fetch_failed));
//!   the code that asked for it gets that error when it is tried again, and decides what to do.
//! - If background work on an object needs damaged bytes, the object is put in *quarantine*: an orphan stays for a checker to
//!   free, a segment is not cleaned. All other work goes on.
//! - An account that cannot be right, and damage that background work cannot avoid, make the volume read-only: writing
//!   could only make it worse.
//!
//! - A check of the volume in use that finds its structure wrong makes it read-only in the same way ([`Lfs::doubt`]). This
//!   reason, and a failed write of the log, can be revoked ([`Lfs::allow_writes`]): they leave memory intact. All other reasons
//!   are final.
//!
//! Invariant: nothing in quarantine is tried again before the next mount, so background work always ends.

use crate::error::FsError;
use crate::lfs::{Lfs, LogEnd};
use firnfs_format::{InodeNo, SegmentId};
use std::collections::BTreeMap;

/// What can be put in quarantine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Thing {
    /// An inode: its blocks are not freed.
    Inode(InodeNo),
    /// The state of an inode before the last crash: the space of its old blocks is not freed.
    OldBlocks(InodeNo),
    /// A segment: it is not cleaned.
    Segment(SegmentId),
    /// A part of the inode map: orphans that it may list are not freed.
    InodeMap,
    /// A part of the segment usage table: the cleaner does not clean its segments.
    SegmentUsage,
}

impl std::fmt::Display for Thing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inode(ino) => write!(f, "inode {ino}"),
            Self::OldBlocks(ino) => write!(f, "old blocks of inode {ino}"),
            Self::Segment(segment) => write!(f, "segment {segment}"),
            Self::InodeMap => write!(f, "inode map"),
            Self::SegmentUsage => write!(f, "segment usage table"),
        }
    }
}

/// The objects quarantined since the mount, each with its first reason.
pub(in crate::lfs) type Quarantine = BTreeMap<Thing, FsError>;

impl Lfs {
    /// The objects that background work skips since the mount because they are damaged, with the reasons.
    pub fn quarantined(&self) -> impl Iterator<Item = (Thing, &FsError)> {
        self.upkeep.quarantine.iter().map(|(thing, why)| (*thing, why))
    }

    pub(in crate::lfs) fn put_in_quarantine(&mut self, thing: Thing, why: FsError) {
        self.upkeep.quarantine.entry(thing).or_insert(why);
    }

    pub(in crate::lfs) fn why_quarantined(&self, thing: Thing) -> Option<&FsError> {
        self.upkeep.quarantine.get(&thing)
    }

    /// Stops writing for good. Requests that are queued already are still written.
    pub(in crate::lfs) fn give_up(&mut self, why: &FsError) {
        if self.standing.give_up(why.to_string()) {
            self.writer.jobs.want(self.writer.log.end().serial);
        }
    }

    /// A check found the structure wrong: nothing is written from here on.
    pub fn doubt(&mut self, why: String) {
        if self.standing.doubt(why) {
            self.writer.jobs.want(self.writer.log.end().serial);
        }
    }

    /// Where the log ends according to memory.
    #[must_use]
    pub fn log_end(&self) -> LogEnd {
        self.writer.log.end()
    }

    /// First half of making the volume writable again: hands out again the requests that failed. False while requests are
    /// under way: try again later.
    ///
    /// # Errors
    /// `ReadOnly`: it cannot be made writable, and why.
    pub fn try_writes(&mut self) -> Result<bool, FsError> {
        let refuse = |why: &str| Err(FsError::ReadOnly(why.to_owned()));
        if self.options.read_only {
            return refuse("it was mounted for reading only");
        }
        if self.recovered.lost.is_some() {
            return refuse("a part of its log is lost");
        }
        if self.standing.is_final() {
            return refuse("damage was met that memory may have built on");
        }
        if !self.writer.jobs.is_still() {
            return Ok(false);
        }
        if self.writer.jobs.is_stopped() && !self.writer.jobs.go_on() {
            return refuse("a flush of the device failed: what it had accepted may be lost");
        }
        self.writer.jobs.want(self.writer.log.end().serial);
        Ok(true)
    }

    /// True if a write of the log failed and has not been repeated.
    #[must_use]
    pub fn is_log_stopped(&self) -> bool {
        self.writer.jobs.is_stopped()
    }

    /// Second half: the caller read the device as a mount does, found it sound, and its log ends at `found`. Writing goes on
    /// if the log ends there in memory too, and nothing failed meanwhile.
    ///
    /// # Errors
    /// `ReadOnly`: it cannot be made writable, and why.
    pub fn allow_writes(&mut self, found: LogEnd) -> Result<(), FsError> {
        let refuse = |why: &str| Err(FsError::ReadOnly(why.to_owned()));
        if self.writer.jobs.is_stopped() {
            return refuse("the device still fails");
        }
        if found != self.log_end() || self.writer.jobs.durable_serial() != found.serial {
            let (serial, durable) = (self.writer.log.end().serial, self.writer.jobs.durable_serial());
            return Err(FsError::ReadOnly(format!(
                "the log on the device ends at serial {} (summary CRC {:08x}), in memory at {serial} ({:08x}), durable is {durable}",
                found.serial,
                found.crc,
                self.writer.log.end().crc
            )));
        }
        self.standing.reinstate();
        Ok(())
    }

    /// Takes live bytes that died, and adds new ones. If more die than there are, an account on the device is wrong.
    pub(in crate::lfs) fn recount(&mut self, died_bytes: u64, came_bytes: u64) {
        if let Err(over) = self.accounts.recount(died_bytes, came_bytes) {
            self.wrong_account("live bytes of the volume".to_owned(), over.taken_bytes, over.stated_bytes);
        }
    }

    /// Handles an account with fewer bytes than are to be taken from it.
    pub(in crate::lfs) fn wrong_account(&mut self, what: String, expected_bytes: u64, found_bytes: u64) {
        self.give_up(&FsError::Corrupt {
            what,
            at: "the space accounts".to_owned(),
            expected: format!("at least {expected_bytes} bytes"),
            found: format!("{found_bytes} (run a check of the volume)"),
        });
    }
}

/// True for errors that concern the device and its content, not the request.
pub(in crate::lfs) fn is_damage(error: &FsError) -> bool {
    matches!(error, FsError::Corrupt { .. } | FsError::Io(_))
}
