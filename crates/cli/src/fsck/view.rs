//! The output of `firn fsck`, as JSON and as text.

use super::FsckArgs;
use super::lost::LostView;
use crate::names::{readable, shell_word};
use crate::output::{WIDTH, write_list, write_two_parts};
use crate::sizes::{Bytes, Count};
use firnfs::check::{Finding, Report, Severity};
use firnfs::states::is_past;
use firnfs_format::InodeNo;
use firnfs_manage::{Action, Outcome};
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;

/// States that a text names, the newest first; JSON has all.
const NAMED_STATES: usize = 10;

/// States of the past that a salvage has found: the new image has none.
#[derive(Clone, Debug, Serialize)]
pub struct PastView {
    /// The damaged image or device.
    pub image: PathBuf,
    /// Names of its states whose root directory can be read, oldest first.
    pub states: Vec<String>,
}

impl PastView {
    /// As text: what there is, and how to get at it.
    ///
    /// # Errors
    /// As writing reports.
    pub fn describe(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(newest) = self.states.last() else { return Ok(()) };
        let count = Count(self.states.len() as u64).of("state", "states");
        let head = format!("{} still has {count} of the past:", readable(&self.image));
        let mut named: Vec<String> = self.states.iter().rev().take(NAMED_STATES).cloned().collect();
        named.extend((self.states.len() > NAMED_STATES).then(|| "...".to_owned()));
        write_list(out, &head, &named, WIDTH)?;
        let state = shell_word(format!("{}@{newest}", self.image.display()).as_str());
        writeln!(out, "'firn mount {state} DIR' shows the newest, 'firn send {state}' copies it.")
    }
}

/// The whole result.
#[derive(Clone, Debug, Serialize)]
pub struct FsckView {
    /// Image or device.
    pub image: PathBuf,
    /// One check for each examined checkpoint; after a repair, the last check.
    pub checks: Vec<CheckView>,
    /// What a repair did, in order.
    pub repairs: Vec<RepairView>,
    /// Files that lost content.
    pub lost: Vec<LostView>,
    /// What a salvage leaves in the damaged volume; null if there is nothing.
    pub past: Option<PastView>,
    /// The exit code, as fsck(8) defines it.
    pub exit: u8,
}

/// One check.
#[derive(Clone, Debug, Serialize)]
pub struct CheckView {
    /// Slot of the checkpoint, if one was named.
    pub slot: Option<usize>,
    /// Number of the checkpoint.
    pub epoch: u32,
    /// Partial segments after it that count.
    pub rolled_forward_partials: u64,
    /// True if a crash alone explains all findings.
    pub sound: bool,
    /// How much was checked.
    pub totals: TotalsView,
    /// The findings.
    pub findings: Vec<FindingView>,
    /// Findings beyond those listed.
    pub more_findings: u64,
}

/// How much was checked.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TotalsView {
    inodes: u64,
    directories: u64,
    entries: u64,
    blocks: u64,
    live_bytes: u64,
    segments: u64,
    read_bytes: u64,
    /// Snapshots and automatic states that were checked each as a volume of its own.
    points: u64,
}

/// A finding.
#[derive(Clone, Debug, Serialize)]
pub struct FindingView {
    /// 0 for findings about opening the volume, then 1 to 5.
    pub phase: u8,
    /// Short and stable.
    pub code: &'static str,
    /// "note", "copy" or "error".
    pub severity: &'static str,
    /// The place.
    pub place: String,
    /// The expected value.
    pub expected: String,
    /// The actual value.
    pub found: String,
    /// The inode that it concerns.
    pub inode: Option<u64>,
    /// A name of that inode, if one is known.
    pub path: Option<String>,
    /// Bytes of the file's content that it costs; see `lost` for their sum.
    pub lost_bytes: u64,
    /// What a repair does about it.
    pub repair: &'static str,
    /// Whether that deletes a state of the past or a clone.
    #[serde(skip)]
    costs_state: bool,
}

/// An action of a repair.
#[derive(Clone, Debug, Serialize)]
pub struct RepairView {
    /// The code of its finding.
    pub code: &'static str,
    /// The place.
    pub place: String,
    /// A name of the inode that it concerns, if one is known.
    pub path: Option<String>,
    /// The result, or the reason why it failed.
    pub outcome: String,
    /// Whether it succeeded.
    pub done: bool,
    /// Lost content that the repair is not to touch. The last check shows it, so the text does not show it twice.
    #[serde(skip)]
    is_left: bool,
}

impl From<&Finding> for FindingView {
    fn from(finding: &Finding) -> Self {
        let said = finding.describe();
        let severity = match finding.severity() {
            Severity::Note => "note",
            Severity::Copy => "copy",
            Severity::Error => "error",
        };
        Self {
            phase: said.phase,
            code: said.code,
            severity,
            place: said.place,
            expected: said.expected,
            found: said.found,
            inode: finding.ino.map(|ino| ino.0),
            path: finding.path.as_ref().map(|path| String::from_utf8_lossy(path).into_owned()),
            lost_bytes: finding.lost_bytes,
            repair: said.repair,
            costs_state: finding.problem.costs_state(),
        }
    }
}

impl CheckView {
    /// The view of a report.
    #[must_use]
    pub fn new(report: &Report, slot: Option<usize>) -> Self {
        let totals = report.totals;
        Self {
            slot,
            epoch: report.epoch,
            rolled_forward_partials: report.rolled_forward,
            sound: report.is_clean(),
            totals: TotalsView {
                inodes: totals.inodes,
                directories: totals.directories,
                entries: totals.entries,
                blocks: totals.blocks,
                live_bytes: totals.live_bytes,
                segments: totals.segments,
                read_bytes: totals.read_bytes,
                points: totals.points,
            },
            findings: report.findings.iter().map(FindingView::from).collect(),
            more_findings: report.more_findings,
        }
    }

    /// True if a state of the past or a clone cannot be read completely.
    #[must_use]
    pub fn has_damaged_states(&self) -> bool {
        self.findings.iter().any(|finding| finding.costs_state)
    }

    /// Writes it as text.
    ///
    /// # Errors
    /// As writing fails.
    pub fn describe(&self, out: &mut dyn Write, image: &str) -> io::Result<()> {
        let mut phase = None;
        for finding in &self.findings {
            if phase != Some(finding.phase) {
                writeln!(out, "{}", phase_title(finding.phase))?;
                phase = Some(finding.phase);
            }
            finding.describe(out)?;
        }
        if self.more_findings > 0 {
            writeln!(out, "  and {} more", Count(self.more_findings))?;
        }
        let slot = self.slot.map_or(String::new(), |slot| format!(" (slot {slot})"));
        let state = if self.sound { "clean" } else { "DAMAGED" };
        let totals = &self.totals;
        let inodes = Count(totals.inodes).of("inode", "inodes");
        let directories = Count(totals.directories).of("directory", "directories");
        let entries = Count(totals.entries).of("entry", "entries");
        let parts = [
            format!("{inodes} ({directories}, {entries})"),
            format!("{} in {}", Bytes(totals.live_bytes), Count(totals.segments).of("segment", "segments")),
        ];
        let points =
            (totals.points > 0).then(|| Count(totals.points).of("state of the past", "states of the past"));
        let parts: Vec<String> = parts.into_iter().chain(points).collect();
        write_list(out, &format!("{image}: {state}: checkpoint {}{slot}:", self.epoch), &parts, WIDTH)
    }
}

impl RepairView {
    /// The view of an action of a repair that gives lost content and damaged states up, or leaves them.
    #[must_use]
    pub fn new(action: &Action, args: &FsckArgs) -> Self {
        let said = action.finding.describe();
        let is_left = action.finding.lost_bytes > 0 && !args.zero_lost;
        let is_state_left = action.finding.problem.costs_state() && args.leaves_states();
        let (outcome, done) = match &action.outcome {
            Outcome::Repaired => (said.repair.to_owned(), true),
            Outcome::Declined if is_left => ("left as it is: reading it fails".to_owned(), false),
            Outcome::Declined if is_state_left => {
                ("left as it is; the rest of it can be read".to_owned(), false)
            }
            Outcome::Declined => ("declined".to_owned(), false),
            Outcome::Impossible(why) => (format!("could not be repaired: {why}"), false),
        };
        let path = action.finding.path.as_ref().map(|path| String::from_utf8_lossy(path).into_owned());
        Self { code: said.code, place: said.place, path, outcome, done, is_left }
    }

    /// Writes it as one line, or as two if it is long.
    ///
    /// # Errors
    /// As writing fails.
    pub fn describe(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.is_left {
            return Ok(());
        }
        let mark = if self.done { "repaired" } else { "NOT repaired" };
        write_two_parts(out, &format!("  {mark}: {}{}:", name(self.path.as_ref()), self.place), &self.outcome)
    }
}

impl FindingView {
    /// True if a repair mends it: it is damage, no content of a file, and not in the past or a clone.
    #[must_use]
    pub fn is_repairable(&self) -> bool {
        let is_in_past = self.inode.is_some_and(|ino| is_past(InodeNo(ino)));
        self.severity != "note" && self.lost_bytes == 0 && !is_in_past && !self.costs_state
    }

    /// Writes it as one line, or as two if it is long.
    ///
    /// # Errors
    /// As writing fails.
    pub fn describe(&self, out: &mut dyn Write) -> io::Result<()> {
        let mark = if self.severity == "note" { "note: " } else { "" };
        let place = format!("  {mark}{}{}:", name(self.path.as_ref()), self.place);
        write_two_parts(out, &place, &format!("expected {}, found {}", self.expected, self.found))
    }
}

/// The path before the place of a finding.
fn name(path: Option<&String>) -> String {
    path.map_or_else(String::new, |path| format!("{}: ", path.escape_debug()))
}

fn phase_title(phase: u8) -> &'static str {
    match phase {
        0 => "Superblocks and checkpoints",
        1 => "Phase 1: inodes and blocks",
        2 => "Phase 2: directories",
        3 => "Phase 3: unreachable trees and files",
        4 => "Phase 4: link counts",
        _ => "Phase 5: inode map, segment usage, counts",
    }
}
