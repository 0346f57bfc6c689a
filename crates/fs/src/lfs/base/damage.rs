//! Damage: what turned out damaged or impossible while the volume is in use, and how far it reaches.
//!
//! - A *fetch that failed* for good is told to the core ([`Engine::fetch_failed`](crate::engine::Engine::fetch_failed)); the look
//!   that asked for it fails with that error when it is tried again. The caller decides what that means.
//! - A thing that background work cannot do without damaged bytes is put in *quarantine*: an orphan stays for a checker to free, a
//!   segment is not cleaned. All else goes on.
//! - An account that cannot be right, and damage that background work cannot go around, make the volume read-only: from
//!   there on writing could only make it worse.
//!
//! - A check of the volume in use that finds its structure wrong makes it read-only in the same way ([`Lfs::doubt`]). That, and a
//!   failed write of the log, can be taken back ([`Lfs::allow_writes`]): memory is as good as before. After anything else it is
//!   not.
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
    /// What an inode was before the last crash: the space of its old blocks is not given back.
    OldBlocks(InodeNo),
    /// A segment: it is not cleaned.
    Segment(SegmentId),
    /// A part of the inode map: orphans that it may list are not freed.
    InodeMap,
    /// A part of the segment usage table: the cleaner leaves its segments alone.
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

/// What was quarantined since the mount, each with its first reason.
pub(in crate::lfs) type Quarantine = BTreeMap<Thing, FsError>;

impl Lfs {
    /// What background work leaves alone since the mount because it is damaged, with the reasons.
    pub fn quarantined(&self) -> impl Iterator<Item = (Thing, &FsError)> {
        self.upkeep.quarantine.iter().map(|(thing, why)| (*thing, why))
    }

    pub(in crate::lfs) fn put_in_quarantine(&mut self, thing: Thing, why: FsError) {
        self.upkeep.quarantine.entry(thing).or_insert(why);
    }

    pub(in crate::lfs) fn why_quarantined(&self, thing: Thing) -> Option<&FsError> {
        self.upkeep.quarantine.get(&thing)
    }

    /// Writing cannot go on. What is in line for the device is still written.
    pub(in crate::lfs) fn give_up(&mut self, why: &FsError) {
        if self.standing.give_up(why.to_string()) {
            self.writer.jobs.want(self.writer.log.serial);
        }
    }

    /// A check found the structure wrong: nothing is written from here on.
    pub fn doubt(&mut self, why: String) {
        if self.standing.doubt(why) {
            self.writer.jobs.want(self.writer.log.serial);
        }
    }

    /// Where the log ends as memory has it.
    #[must_use]
    pub fn log_end(&self) -> LogEnd {
        LogEnd { serial: self.writer.log.serial, crc: self.writer.log.prev_crc }
    }

    /// First half of making the volume writable again: hands out again what could not be written. False while requests are
    /// under way: look again.
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
        self.writer.jobs.want(self.writer.log.serial);
        Ok(true)
    }

    /// True if a write of the log failed and nobody has tried again.
    #[must_use]
    pub fn is_log_stopped(&self) -> bool {
        self.writer.jobs.is_stopped()
    }

    /// Second half: the device was read as a mount reads it and found sound, and its log ends at `found`. Writing goes on if
    /// that is where memory has the end, and nothing failed meanwhile.
    ///
    /// # Errors
    /// `ReadOnly`: it cannot be made writable, and why.
    pub fn allow_writes(&mut self, found: LogEnd) -> Result<(), FsError> {
        let refuse = |why: &str| Err(FsError::ReadOnly(why.to_owned()));
        if self.writer.jobs.is_stopped() {
            return refuse("the device still fails");
        }
        if found != self.log_end() || self.writer.jobs.durable_serial() != found.serial {
            let (serial, durable) = (self.writer.log.serial, self.writer.jobs.durable_serial());
            return Err(FsError::ReadOnly(format!(
                "the log on the device ends at serial {} (summary CRC {:08x}), in memory at {serial} ({:08x}), durable is {durable}",
                found.serial, found.crc, self.writer.log.prev_crc
            )));
        }
        self.standing.reinstate();
        Ok(())
    }

    /// Live bytes died and came. Should more die than there are, an account on the device is wrong.
    pub(in crate::lfs) fn recount(&mut self, died_bytes: u64, came_bytes: u64) {
        if let Err(over) = self.accounts.recount(died_bytes, came_bytes) {
            self.wrong_account("live bytes of the volume".to_owned(), over.taken_bytes, over.stated_bytes);
        }
    }

    /// Fewer bytes are on an account than are to be taken from it.
    pub(in crate::lfs) fn wrong_account(&mut self, what: String, expected_bytes: u64, found_bytes: u64) {
        self.give_up(&FsError::Corrupt {
            what,
            at: "the space accounts".to_owned(),
            expected: format!("at least {expected_bytes} bytes"),
            found: format!("{found_bytes} (run a check of the volume)"),
        });
    }
}

/// True for errors that tell of the device and what is on it, not of what was asked for.
pub(in crate::lfs) fn is_damage(error: &FsError) -> bool {
    matches!(error, FsError::Corrupt { .. } | FsError::Io(_))
}
