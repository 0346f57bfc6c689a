//! Trouble: what turned out damaged or impossible while the volume is in use, and how far it reaches.
//!
//! - A *fetch that failed* for good is told to the core ([`Lfs::fetch_failed`]); the look that asked for it fails with that
//!   error when it is tried again. Whoever asked decides what that means.
//! - A thing that background work cannot do without damaged bytes is *set aside*: an orphan stays for a checker to free, a
//!   segment is not cleaned. All else goes on.
//! - An account that cannot be right, and damage that background work cannot go around, make the volume read-only: from
//!   there on writing could only make it worse.
//!
//! Invariant: nothing that was set aside is tried again before the next mount, so background work always ends.

use super::Lfs;
use crate::error::{FetchKind, FsError};
use firnfs_format::{InodeNo, SegmentId};
use std::collections::BTreeMap;

/// What can be set aside.
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

/// What was set aside since the mount, with the first reason for each. One entry a thing.
pub(super) type SetAside = BTreeMap<Thing, FsError>;

impl Lfs {
    /// Something could not be read for good, or is not what it must be. The next look that needs it fails with `error`
    /// instead of asking for it again; later ones ask anew.
    pub fn fetch_failed(&mut self, what: FetchKind, error: FsError) {
        self.shelf.note_failure(what, error);
    }

    /// What background work leaves alone since the mount because it is damaged, with the reasons.
    pub fn set_aside(&self) -> impl Iterator<Item = (Thing, &FsError)> {
        self.aside.iter().map(|(thing, why)| (*thing, why))
    }

    pub(super) fn put_aside(&mut self, thing: Thing, why: FsError) {
        self.aside.entry(thing).or_insert(why);
    }

    pub(super) fn why_aside(&self, thing: Thing) -> Option<&FsError> {
        self.aside.get(&thing)
    }

    /// Writing cannot go on. What is in line for the device is still written.
    pub(super) fn give_up(&mut self, why: &FsError) {
        if self.read_only.is_none() {
            self.read_only = Some(why.to_string());
            self.jobs.want(self.log.serial);
        }
    }

    /// Live bytes died and came. Should more die than there are, an account on the device is wrong.
    pub(super) fn recount(&mut self, died_bytes: u64, came_bytes: u64) {
        let stated = self.live_bytes + came_bytes;
        self.live_bytes = stated.saturating_sub(died_bytes);
        if died_bytes > stated {
            self.wrong_account("live bytes of the volume".to_owned(), died_bytes, stated);
        }
    }

    /// Fewer bytes are on an account than are to be taken from it.
    pub(super) fn wrong_account(&mut self, what: String, expected_bytes: u64, found_bytes: u64) {
        self.give_up(&FsError::Corrupt {
            what,
            at: "the space accounts".to_owned(),
            expected: format!("at least {expected_bytes} bytes"),
            found: format!("{found_bytes} (run a check of the volume)"),
        });
    }
}

/// True for errors that tell of the device and what is on it, not of what was asked for.
pub(super) fn is_damage(error: &FsError) -> bool {
    matches!(error, FsError::Corrupt { .. } | FsError::Io(_))
}
