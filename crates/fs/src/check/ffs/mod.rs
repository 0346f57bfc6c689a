//! The check of the Fast File System: phase 1 (inodes and their blocks: `walk`, with reads by `ahead`) and phase 5 (bitmaps and
//! counts, `groups`) are its own; phases 2 to 4 are those of every store ([`Namespace`]). Before them it compares the copies of
//! the superblock (`copies`).
//!
//! It reads the device and writes nothing. The writes that repair inodes, pointers, bitmaps and counts are in [`Mend`]: a
//! driver does these first, while the volume still counts as in use. Then names are repaired as on any store, on the opened
//! volume ([`Fixer::fix_shared`](super::repair::Fixer::fix_shared)). If the repair is interrupted, the next check starts
//! again from the state on the device.
//!
//! Invariants: the check follows each fragment once ([`claims`](walk)), so the content of the device bounds time and memory; on a volume that was unmounted there are
//! no findings; after a crash there are only those that the order of writes allows ([`FfsFinding::severity`]).
//!
//! Memory: a bit for each fragment, about 200 bytes for each inode, 40 for each entry, and 4 MiB for each level of blocks that are read ahead.

mod ahead;
mod copies;
mod groups;
mod walk;

use super::finding::{Problem, Severity, Versus};
use super::namespace::Namespace;
use crate::device_reader::DeviceReader;
use crate::error::FsError;
use crate::ffs::{FoundSuperblock, NotFfs, find_superblock};
use crate::store::BlockKey;
use firnfs_format::InodeNo;
use firnfs_format::ffs::{State, Superblock};
use std::collections::BTreeMap;
use std::fmt;
use walk::Walk;

/// What is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FfsProblem {
    /// The volume was not unmounted.
    NotUnmounted,
    /// A copy of the superblock is damaged, or not this volume's: it is written anew.
    Superblock {
        /// The group whose copy it is; 0 has the one that mounts change.
        group: u32,
        /// Why it does not count.
        reason: String,
    },
    /// A record that cannot be an inode: it is cleared; a root directory is rebuilt.
    Inode {
        /// Why.
        reason: String,
    },
    /// A pointer that leads to no place for a block: it is cut.
    Pointer {
        /// The block that it should lead to.
        key: BlockKey,
        /// Where it leads.
        addr: u32,
    },
    /// Two blocks claim the same place: the one found second loses it.
    Shared {
        /// The block that was found second.
        key: BlockKey,
        /// Where.
        addr: u32,
    },
    /// An indirect block or a block of a directory cannot be read: it is cut.
    Unreadable {
        /// Which block.
        key: BlockKey,
        /// The error.
        reason: FsError,
    },
    /// The fragments that an inode says it holds.
    Frags(Versus<u32>),
    /// An inode without a name and without content, or one that was being removed: it is freed.
    Unreferenced,
    /// A group's descriptor is invalid: it is rebuilt.
    Descriptor {
        /// Which group.
        group: u32,
        /// Why.
        reason: String,
    },
    /// Inodes of a group that its bitmap marks wrongly.
    UsedInodes {
        /// Which group.
        group: u32,
        /// How many.
        wrong: u32,
    },
    /// Fragments of a group that its bitmap marks wrongly.
    FreeFrags {
        /// Which group.
        group: u32,
        /// Marked as free, and in use.
        in_use: u32,
        /// Marked as used, and free.
        lost: u32,
    },
    /// Counts or the bitmap of blocks of a group.
    Counts {
        /// Which group.
        group: u32,
    },
    /// The summary of a group.
    Summary {
        /// Which group.
        group: u32,
    },
    /// Something that every kind of volume can have.
    Names(super::Finding),
}

/// Something that the check found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FfsFinding {
    /// What is wrong.
    pub problem: FfsProblem,
    /// The inode that it concerns.
    pub ino: Option<InodeNo>,
    /// The volume was not unmounted.
    pub is_after_crash: bool,
}

impl FfsFinding {
    /// How bad it is: after a crash, a state that the order of writes allows is a note.
    #[must_use]
    pub fn severity(&self) -> Severity {
        let is_usual = match &self.problem {
            FfsProblem::NotUnmounted => return Severity::Note,
            FfsProblem::Superblock { .. } => return Severity::Copy,
            FfsProblem::Frags(_)
            | FfsProblem::Unreferenced
            | FfsProblem::UsedInodes { .. }
            | FfsProblem::FreeFrags { .. }
            | FfsProblem::Counts { .. }
            | FfsProblem::Summary { .. } => true,
            FfsProblem::Names(finding) => matches!(
                finding.problem,
                Problem::Counts { .. }
                    | Problem::Index { .. }
                    | Problem::Links(_)
                    | Problem::LostFile { .. }
                    | Problem::DotDot(_)
                    | Problem::EntrySecond { .. }
            ),
            // A torn descriptor: bitmaps are written in no order.
            FfsProblem::Descriptor { .. } => true,
            _ => false,
        };
        if is_usual && self.is_after_crash { Severity::Note } else { Severity::Error }
    }
}

impl fmt::Display for FfsFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ino) = self.ino {
            write!(f, "inode {ino}: ")?;
        }
        match &self.problem {
            FfsProblem::NotUnmounted => write!(f, "the volume was not unmounted"),
            FfsProblem::Superblock { group, reason } => {
                write!(f, "group {group}: its copy of the superblock: {reason}")
            }
            FfsProblem::Inode { reason } => write!(f, "cannot be an inode: {reason}"),
            FfsProblem::Pointer { key, addr } => {
                write!(
                    f,
                    "{} leads to fragment {addr}, where there can be no block",
                    crate::ffs::describe(key)
                )
            }
            FfsProblem::Shared { key, addr } => {
                write!(f, "{} claims fragment {addr}, which another block has", crate::ffs::describe(key))
            }
            FfsProblem::Unreadable { key, reason } => {
                write!(f, "{} cannot be read: {reason}", crate::ffs::describe(key))
            }
            FfsProblem::Frags(frags) => write!(f, "says {} fragments, has {}", frags.stated, frags.found),
            FfsProblem::Unreferenced => write!(f, "has no name"),
            FfsProblem::Descriptor { group, reason } => {
                write!(f, "group {group}: invalid descriptor: {reason}")
            }
            FfsProblem::UsedInodes { group, wrong } => {
                write!(f, "group {group}: {wrong} inodes are marked wrongly")
            }
            FfsProblem::FreeFrags { group, in_use, lost } => {
                write!(
                    f,
                    "group {group}: {in_use} fragments in use are marked as free, {lost} free ones as used"
                )
            }
            FfsProblem::Counts { group } => write!(f, "group {group}: counts are wrong"),
            FfsProblem::Summary { group } => write!(f, "group {group}: its summary is wrong"),
            FfsProblem::Names(finding) => write!(f, "{finding}"),
        }
    }
}

/// How much was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FfsTotals {
    /// Inodes in use.
    pub inodes: u64,
    /// Of these, directories.
    pub directories: u64,
    /// Entries of directories.
    pub entries: u64,
    /// Fragments that files hold.
    pub frags: u64,
}

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FfsReport {
    /// The findings, by phase.
    pub findings: Vec<FfsFinding>,
    /// Findings on names beyond those that are kept; only counted.
    pub more_findings: u64,
    /// How much was checked.
    pub totals: FfsTotals,
}

impl FfsReport {
    /// The worst of the findings.
    #[must_use]
    pub fn severity(&self) -> Option<Severity> {
        self.findings.iter().map(FfsFinding::severity).max()
    }

    /// True if a crash alone explains all findings.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.severity().is_none_or(|worst| worst == Severity::Note)
    }
}

/// Blocks of the device to be written, in any order: offset in bytes, content.
#[derive(Clone, Debug, Default)]
pub struct Mend {
    /// See the type.
    pub writes: BTreeMap<u64, Vec<u8>>,
}

/// Why a volume could not be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FfsCheckError {
    /// The device holds no volume, or a truncated one.
    #[error(transparent)]
    NotFfs(#[from] NotFfs),
    /// The device failed.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// Checks the volume on a device that no process writes to.
///
/// # Errors
/// [`FfsCheckError`]: there is nothing to check, or tables cannot be read. Everything else that is wrong is a finding.
pub fn check_ffs(read: &mut dyn DeviceReader, device_bytes: u64) -> Result<(FfsReport, Mend), FfsCheckError> {
    let found = find_superblock(read, device_bytes)?;
    let sb = &found.sb;
    let mut walk = Walk::new(read, sb);
    walk.superblocks(&found);
    walk.all_inodes()?;
    walk.names.sort();
    walk.names.phase_2();
    walk.free_unreferenced()?;
    walk.names.phase_3();
    walk.names.phase_4();
    walk.all_groups()?;
    Ok(finish(walk, &found))
}

fn finish(walk: Walk<'_>, found: &FoundSuperblock) -> (FfsReport, Mend) {
    let is_after_crash = found.sb.state != State::Clean;
    let Walk { mut names, own, mut totals, mend, .. } = walk;
    totals.entries = names.entries.len() as u64;
    let mut findings = Vec::new();
    let mut push = |problem, ino| findings.push(FfsFinding { problem, ino, is_after_crash });
    if is_after_crash && found.first_damaged.is_none() {
        push(FfsProblem::NotUnmounted, None);
    }
    own.into_iter().for_each(|(problem, ino)| push(problem, ino));
    for finding in std::mem::take(&mut names.findings) {
        let ino = finding.ino;
        push(FfsProblem::Names(finding), ino);
    }
    (FfsReport { findings, more_findings: names.more_findings, totals }, mend)
}

/// The namespace of a volume with these sizes.
fn namespace(sb: &Superblock) -> Namespace {
    Namespace::new(&crate::ffs::facts_of(sb))
}
