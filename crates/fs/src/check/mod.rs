//! The file system check: reads all live data, verifies its checksums, and compares every fact that is recorded twice. The
//! five phases are those of BSD-LFS's Table 2, for a log:
//!
//! 1. inodes: every record, every block pointer (`tables`, `inodes`);
//! 2. directories: `..`, types, entries, counts, hash index (`names`);
//! 3. trees and files that no path leads to (`tree`);
//! 4. link counts (`tree`);
//! 5. what only retained points lead to (`points`), clones of them (`clones`: phases 1 to 4 for each), then inode map, segment usage,
//!    counts: recomputed (`accounting`, `claims`). If asked for, phases 1 to 4 for each retained point (`states`).
//!
//! Like opening a volume, the check reads through a reader that the driver provides. It has no other effects: no clock, no
//! threads, no writes. It checks a crashed volume as a mount would see it: rolled forward, in memory.
//!
//! Invariants:
//! - The check never trusts bytes from the device: it never panics and follows nothing twice ([`claims`]), so the content of
//!   the device bounds time and memory;
//! - an intact volume gives no [`Finding`] of severity [`Severity::Error`], whatever moment it crashed at: the crash explorer
//!   verifies that;
//! - a check that its caller stops ends soon, with the findings made until then and no others ([`DeviceReader::is_stopped`]);
//! - a finding is reported at the damage, and mere consequences are left out where they can be recognised.
//!
//! Memory: about 200 bytes per inode and 40 per entry.
//!
//! A volume in use is checked through a snapshot (`still`).
//!
//! The phases share their progress (`state`), the facts about inodes and directories (`namespace`), reads in device order
//! (`sweep`), and the log's own record of inodes (`log_scan`). A finding (`finding`) gets a path (`paths`) and becomes text
//! (`words`).
//!
//! `repair` carries out the repairs; `facts` has the tables that it needs, `directory` repairs one directory. `salvage`
//! reconstructs a volume from its segment summaries. `ffs` is the check of the Fast File System.
//!
//! Callers: the drivers (`firnfs_volume`), for `firn fsck`, `firn scrub`, mounts after a crash, the crash explorer and tests.

mod accounting;
mod claims;
mod clones;
mod directory;
mod facts;
pub mod ffs;
mod finding;
mod inodes;
mod log_scan;
mod names;
mod namespace;
mod paths;
mod points;
pub mod repair;
pub mod salvage;
mod state;
mod states;
mod still;
mod sweep;
mod tables;
mod tree;
mod words;

pub use facts::Facts;
pub use finding::{EntryPlace, Finding, Problem, Severity, Versus};
pub use state::{Depth, Progress, Totals};
pub use still::{Subject, check_recovered, check_still, subject_of};
pub use words::Described;

use crate::device_reader::{DeviceReader, Extent};
use crate::error::FsError;
use crate::lfs::past::is_internal;
use crate::lfs::view::TableKind;
use crate::lfs::{Lfs, NotFirnfs, Options, Thing, newest, read_slots, read_superblock};
use firnfs_format::checkpoint::Checkpoint;
use firnfs_format::superblock::{SUPERBLOCK_BYTES, Superblock};
use firnfs_format::table::{ImapEntry, UsageEntry};
use firnfs_format::{InodeNo, SegmentId, TimeNs};
use log_scan::LogScan;
use state::{Check, Torn};

/// Memory for data that is read a second time: attributes in blocks, names for findings. In bytes.
const CACHE_BYTES: u64 = 16 << 20;

/// The internal files whose entries in the inode map a check takes from the log if it has to.
const WITHOUT_NAMES: [InodeNo; 2] = [InodeNo::REMNANTS, InodeNo::POINTS];

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The findings, by phase.
    pub findings: Vec<Finding>,
    /// Findings beyond those that are kept; only counted.
    pub more_findings: u64,
    /// How much was checked.
    pub totals: Totals,
    /// Number of the checkpoint that was checked.
    pub epoch: u32,
    /// Partial segments after that checkpoint that count.
    pub rolled_forward: u64,
}

impl Report {
    /// The worst of the findings.
    #[must_use]
    pub fn severity(&self) -> Option<Severity> {
        self.findings.iter().map(Finding::severity).max()
    }

    /// True if a crash alone explains all findings.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.severity().is_none_or(|worst| worst == Severity::Note)
    }
}

/// Why a volume could not be checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The device holds no volume, or a truncated one.
    #[error(transparent)]
    NotFirnfs(#[from] NotFirnfs),
    /// Neither checkpoint is usable, or the device failed.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// Which checkpoint to start from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum From {
    /// The newest, as a mount does.
    #[default]
    Newest,
    /// The one in that slot, 0 or 1.
    Slot(usize),
}

/// Checks the volume on a device that no process writes to.
///
/// # Errors
/// [`CheckError`]: there is nothing to check. Everything else that is wrong is a finding.
pub fn check(
    read: &mut dyn DeviceReader,
    device_bytes: u64,
    (from, depth): (From, Depth),
    watch: &mut dyn FnMut(Progress),
) -> Result<Report, CheckError> {
    examine(read, device_bytes, (from, depth), watch).map(|(report, _)| report)
}

/// As [`check`], and also returns the facts that a repair needs.
///
/// # Errors
/// As [`check`].
pub fn examine(
    read: &mut dyn DeviceReader,
    device_bytes: u64,
    (from, depth): (From, Depth),
    watch: &mut dyn FnMut(Progress),
) -> Result<(Report, Facts), CheckError> {
    let sb = read_superblock(read, device_bytes)?;
    let mut findings = copies(read, &sb, device_bytes);
    let slots = read_slots(read, &sb);
    for (slot, reason) in slots.iter().enumerate().filter_map(|(n, slot)| Some((n, slot.as_ref().err()?))) {
        let problem = Problem::CheckpointSlot { slot: slot as u8, reason: reason.to_string() };
        findings.push(Finding::new(None, problem));
    }
    let base = match from {
        From::Newest => newest(&slots)?,
        From::Slot(slot) => slots[slot].clone().map_err(|e| FsError::Corrupt {
            what: "checkpoint".to_owned(),
            at: format!("slot {slot}"),
            expected: e.expected.clone(),
            found: e.to_string(),
        })?,
    };
    let (uuid, through) = (sb.uuid, base.serial);
    let (mut lfs, noted) = open(read, sb, base)?;
    if let Some(lost) = lfs.recovered().lost {
        let problem = Problem::LostLog { reason: lost.as_error(&lfs.geometry()) };
        findings.push(Finding::new(None, problem));
    }
    let (mut report, mut facts) = check_store(&mut lfs, read, depth, noted.clone(), None, watch);
    let mut map = None;
    if !facts.lost_inodes.is_empty() {
        // Blocks of the inode map are lost: take their entries from the log. (Entries of the log's tail override them in any
        // case.) Without them nobody knows where the remnants are, so it comes before the points.
        let geo = lfs.geometry();
        let is_wanted = |ino| !is_internal(ino) && ino >= InodeNo::ROOT || WITHOUT_NAMES.contains(&ino);
        map = Some(LogScan::run(read, &uuid, &geo, Some(through), watch).inode_map(&geo, is_wanted));
        let noted = noted.clone();
        (report, facts) = check_store(&mut lfs, read, depth, noted, map.as_deref(), watch);
    }
    let mut lost_points = std::mem::take(&mut facts.lost_points);
    lost_points.extend(lfs.lost_origins());
    if !lost_points.is_empty() || lfs.lost_rows().is_some() {
        // The accounts have to be right without them.
        lfs.give_up_points(&lost_points);
        let is_given_up =
            |finding: &Finding| matches!(finding.problem, Problem::Point { .. } | Problem::Clone { .. });
        findings.extend(report.findings.into_iter().filter(is_given_up));
        (report, facts) = check_store(&mut lfs, read, depth, noted, map.as_deref(), watch);
        // The accounts on the device have them still, and the inode map has entries for clones of them: that is no damage of its own. A
        // repair states both anew.
        let is_consequence = |problem: &Problem| {
            problem.is_surplus() || matches!(problem, Problem::Clone { name, .. } if name.is_empty())
        };
        report.findings.retain(|finding| !is_consequence(&finding.problem));
        facts.give_up_points(lost_points);
    }
    findings.append(&mut report.findings);
    Ok((Report { findings, ..report }, facts))
}

/// Opens a damaged volume for repair, read-write: roll-forward recovers as much as possible. `end_lost_log`: the log ends
/// for good where a part of it is missing.
///
/// # Errors
/// As [`check`].
pub fn open_to_repair(
    read: &mut dyn DeviceReader,
    device_bytes: u64,
    options: Options,
    now: TimeNs,
    end_lost_log: bool,
) -> Result<Lfs, CheckError> {
    let sb = read_superblock(read, device_bytes)?;
    let base = newest(&read_slots(read, &sb))?;
    let mut lfs = Lfs::open_at(read, sb, base.clone(), options, now)?;
    lfs.read_rows(read);
    lfs.note_repair();
    if end_lost_log && lfs.recovered().lost.is_some() {
        lfs.end_lost_log(base)?;
    }
    Ok(lfs)
}

/// Opens a volume for a check.
fn open(
    read: &mut dyn DeviceReader,
    sb: Superblock,
    base: Checkpoint,
) -> Result<(Lfs, Vec<(InodeNo, FsError)>), FsError> {
    let options = Options { read_only: true, cache_bytes: CACHE_BYTES, ..Options::default() };
    let lfs = Lfs::open_at(read, sb, base, options, TimeNs(0))?;
    let noted = lfs.quarantined().filter_map(|(thing, why)| match thing {
        Thing::OldBlocks(ino) => Some((ino, why.clone())),
        _ => None,
    });
    let noted = noted.collect();
    Ok((lfs, noted))
}

/// Checks an open store that has nothing dirty and no request under way: everything but the copies of superblock and
/// checkpoint.
#[must_use]
pub fn check_open(lfs: &mut Lfs, read: &mut dyn DeviceReader) -> Report {
    check_store(lfs, read, Depth::Everything, Vec::new(), None, &mut |_| {}).0
}

/// `map` has the log's entries for inodes whose part of the inode map cannot be read.
fn check_store(
    lfs: &mut Lfs,
    read: &mut dyn DeviceReader,
    depth: Depth,
    noted: Vec<(InodeNo, FsError)>,
    map: Option<&[(u64, ImapEntry)]>,
    watch: &mut dyn FnMut(Progress),
) -> (Report, Facts) {
    lfs.read_rows(read);
    let mut check = Check::new(lfs, read, watch);
    check.depth = depth;
    for (ino, reason) in noted {
        check.is_stale = true;
        check.report(Some(ino), Problem::RollForward { reason });
    }
    check.gather_tables(map);
    check.phase_1();
    // The later phases compare everything with everything: after a stop they would report what was not read.
    if check.lost_inodes.is_empty() && !check.is_stopped() {
        check.phases_of_names();
    }
    if check.is_stopped() {
        check.sweep.read.allow_last_reads();
        check.names.name_what_is_known();
    } else {
        check.points();
        check.name_findings();
        check.clones();
        if depth == Depth::AllPoints {
            check.all_points();
        }
        check.phase_5();
    }
    check.name_findings();
    let facts = check.facts();
    (check.finish(), facts)
}

/// Reports copies of the superblock that differ from the good one in more than the size and the label.
fn copies(read: &mut dyn DeviceReader, sb: &Superblock, device_bytes: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    let places = Superblock::places(sb.size_bytes).into_iter().enumerate();
    let places: Vec<(usize, Extent)> = places
        .map(|(copy, at_bytes)| (copy, Extent::new(at_bytes, SUPERBLOCK_BYTES as u32)))
        .filter(|(_, extent)| extent.end_bytes() <= device_bytes)
        .collect();
    let extents: Vec<Extent> = places.iter().map(|(_, extent)| *extent).collect();
    let all = read.read_all(&extents);
    if read.is_stopped() {
        return findings;
    }
    for ((copy, Extent { at_bytes, .. }), bytes) in places.into_iter().zip(all) {
        let decoded = bytes
            .map_err(|e| e.to_string())
            .and_then(|bytes| Superblock::decode(&bytes).map_err(|e| e.to_string()));
        // A crash while the volume was about to grow leaves copies with two sizes, one during 'firn tune label=' two labels:
        // any of them does.
        let is_as_good = |other: &Superblock| {
            other.size_bytes <= device_bytes
                && *sb == Superblock { size_bytes: sb.size_bytes, label: sb.label.clone(), ..other.clone() }
        };
        let reason = match decoded {
            Ok(other) if is_as_good(&other) => continue,
            Ok(_) => "that of another volume".to_owned(),
            Err(reason) => reason,
        };
        let problem = Problem::SuperblockCopy { copy: copy as u8, at_bytes, reason };
        findings.push(Finding::new(None, problem));
    }
    findings
}

impl Check<'_> {
    /// Reads both tables, and applies the newer entries.
    fn gather_tables(&mut self, map: Option<&[(u64, ImapEntry)]>) {
        let usage = self.read_table::<UsageEntry>(TableKind::SegmentUsage);
        self.lost_segments = usage.lost;
        self.usage = usage.entries;
        let newer = self.lfs.newer_segments();
        merge(&mut self.usage, newer.into_iter().map(|segment| (segment.0, UsageEntry::default())), true);
        for (segment, entry) in &mut self.usage {
            *entry = self.lfs.usage_now(SegmentId(*segment), *entry);
        }
        let imap = self.read_table::<ImapEntry>(TableKind::InodeMap);
        self.lost_inodes = imap.lost;
        self.imap = imap.entries;
        let newer = self.lfs.newer_inodes();
        if let Some(map) = map {
            let lost = std::mem::take(&mut self.lost_inodes);
            let is_lost = |n: u64| lost.iter().any(|&(first, count)| n >= first && n - first < count);
            // What the log's tail has of an inode stays: what was before it may be the damage.
            let is_newer = |n: u64| newer.binary_search_by_key(&n, |(ino, _)| ino.0).is_ok();
            let found: Vec<_> = map.iter().copied().filter(|(n, _)| is_lost(*n) && !is_newer(*n)).collect();
            self.lfs.overlay_inodes(&found);
            for InodeNo(number) in WITHOUT_NAMES {
                if is_lost(number) && !is_newer(number) && !found.iter().any(|(n, _)| *n == number) {
                    // The log has none: nothing that a point has seen has moved, or all points are in the slot.
                    self.lfs.overlay_inodes(&[(number, ImapEntry::default())]);
                }
            }
            merge(&mut self.imap, found.into_iter(), true);
            self.is_stale = true;
        }
        if !self.lost_inodes.is_empty() {
            self.torn = Torn::Structure;
        }
        merge(&mut self.imap, newer.into_iter().map(|(ino, entry)| (ino.0, entry)), false);
    }

    fn finish(mut self) -> Report {
        self.totals.read_bytes = self.sweep.read_bytes;
        Report {
            findings: std::mem::take(&mut self.names.findings),
            more_findings: self.names.more_findings,
            totals: self.totals,
            epoch: self.lfs.durable_epoch().0,
            rolled_forward: self.lfs.recovered().partials,
        }
    }
}

/// Merges sorted entries into a sorted list; if both have a number, `keep` says whether the old entry stays.
fn merge<E: Copy>(list: &mut Vec<(u64, E)>, newer: impl Iterator<Item = (u64, E)>, keep: bool) {
    let old = std::mem::take(list);
    let mut old = old.into_iter().peekable();
    for (number, entry) in newer {
        while let Some(before) = old.next_if(|(n, _)| *n < number) {
            list.push(before);
        }
        let same = old.next_if(|(n, _)| *n == number).filter(|_| keep);
        list.push(same.unwrap_or((number, entry)));
    }
    list.extend(old);
    list.dedup_by_key(|(number, _)| *number);
}
