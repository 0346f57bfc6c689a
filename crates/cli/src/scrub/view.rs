//! The daemon's messages about checks of a mounted volume, and how `firn scrub` shows them. Field names are part of the
//! interface.

use crate::output::{write_two_parts, write_words};
use crate::sizes::{Bytes, Count};
use firnfs::check::{Depth, Finding, Problem, Progress, Report, Severity};
use firnfs_manage::Scrubbed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Findings that are sent to a client; further ones are only counted. The bound keeps the answer well below the longest line
/// of the control socket.
const FINDINGS_MAX: usize = 5_000;

/// The purpose of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// `firn scrub`: everything.
    Scrub,
    /// After a crash: the structure.
    AfterCrash,
    /// `firn scrub --writable`: the structure, before anything is written again.
    Writable,
}

impl Purpose {
    /// How much it reads.
    #[must_use]
    pub fn depth(self) -> Depth {
        match self {
            Self::Scrub => Depth::Everything,
            Self::AfterCrash | Self::Writable => Depth::Structure,
        }
    }
}

/// The progress of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProgressView {
    /// 1 to 5.
    pub phase: u8,
    /// Live bytes checked.
    pub done_bytes: u64,
    /// Live bytes.
    pub total_bytes: u64,
}

impl From<Progress> for ProgressView {
    fn from(progress: Progress) -> Self {
        let Progress { phase, done_bytes, total_bytes, .. } = progress;
        Self { phase, done_bytes, total_bytes }
    }
}

/// A running check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunningView {
    /// Its number among the checks of the mount.
    pub number: u64,
    /// Its purpose.
    pub purpose: Purpose,
    /// Its progress.
    pub progress: Option<ProgressView>,
}

/// A check that ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EndedView {
    /// Its number among the checks of the mount.
    pub number: u64,
    /// Its purpose.
    pub purpose: Purpose,
    /// Its result, or why it could not be done.
    pub outcome: Result<ScrubView, String>,
}

/// The state of the check after a crash.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum AfterCrashView {
    /// It is running.
    Running {
        /// Its progress, once it has begun.
        progress: Option<ProgressView>,
    },
    /// It checked everything and found no reason not to write to the volume.
    Passed {
        /// Inodes checked.
        inodes: u64,
        /// Live bytes checked.
        checked_bytes: u64,
        /// Files that have lost content, by path, as far as paths are known.
        #[serde(default)]
        damaged_paths: Vec<String>,
    },
    /// It found damage and made the volume read-only.
    Failed {
        /// The worst finding, as one line.
        reason: String,
    },
    /// It did not finish: it is unknown whether the volume is intact.
    Unfinished {
        /// Why, as one line.
        reason: String,
    },
}

impl AfterCrashView {
    /// The state for the outcome of a check; `why_not_to_write` is its reason not to write to the volume, if it has one.
    #[must_use]
    pub fn of(outcome: &Result<ScrubView, String>, why_not_to_write: Option<String>) -> Self {
        let unfinished = |why: &str| Self::Unfinished { reason: why.to_owned() };
        match (outcome, why_not_to_write) {
            (_, Some(why)) => Self::Failed { reason: why },
            (Err(why), None) => unfinished(why),
            (Ok(view), None) if view.stopped => unfinished("it was stopped"),
            (Ok(view), None) if !view.complete => {
                unfinished("it missed a part because too much was written meanwhile")
            }
            (Ok(view), None) => Self::Passed {
                inodes: view.inodes,
                checked_bytes: view.checked_bytes,
                damaged_paths: view.damaged_paths.clone(),
            },
        }
    }

    /// One line, for people.
    #[must_use]
    pub fn line(&self) -> String {
        match self {
            Self::Running { progress: None } => "running".to_owned(),
            Self::Running { progress: Some(p) } => {
                format!(
                    "running, phase {} of 5, {} of {}",
                    p.phase,
                    Bytes(p.done_bytes),
                    Bytes(p.total_bytes)
                )
            }
            Self::Passed { inodes, checked_bytes, damaged_paths } => {
                let lost = match damaged_paths.as_slice() {
                    [] => String::new(),
                    [path] => format!("; {} has lost data", path.escape_debug()),
                    paths => format!("; {} files have lost data", Count(paths.len() as u64)),
                };
                let inodes = Count(*inodes).of("inode", "inodes");
                format!("passed: {inodes}, {} checked{lost}", Bytes(*checked_bytes))
            }
            Self::Failed { reason } => format!("FAILED: {reason}"),
            Self::Unfinished { reason } => format!("not finished: {reason}; 'firn scrub' checks the volume"),
        }
    }
}

/// Answer of `scrub_status`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StatusView {
    /// The running check.
    pub running: Option<RunningView>,
    /// The last check that ended.
    pub ended: Option<EndedView>,
    /// The state of the check after a crash; null if the mount did not follow one.
    #[serde(default)]
    pub after_crash: Option<AfterCrashView>,
}

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScrubView {
    /// Whether there is no damage; null if it found none, but did not check everything.
    pub sound: Option<bool>,
    /// Everything was checked.
    pub complete: bool,
    /// It was stopped early.
    pub stopped: bool,
    /// Inodes checked.
    pub inodes: u64,
    /// Live bytes checked.
    pub checked_bytes: u64,
    /// Live bytes of the volume.
    #[serde(default)]
    pub live_bytes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Paths of damaged files, each once, from the volume's root.
    pub damaged_paths: Vec<String>,
    /// The damage.
    pub findings: Vec<DamageView>,
    /// Findings beyond those listed.
    pub more_findings: u64,
}

/// A finding.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DamageView {
    /// Short and stable.
    pub code: String,
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
}

impl From<&Finding> for DamageView {
    fn from(finding: &Finding) -> Self {
        let said = finding.describe();
        Self {
            code: said.code.to_owned(),
            place: said.place,
            expected: said.expected,
            found: said.found,
            inode: finding.ino.map(|ino| ino.0),
            path: finding.path.as_ref().map(|path| String::from_utf8_lossy(path).into_owned()),
        }
    }
}

impl DamageView {
    /// The finding as one line.
    #[must_use]
    pub fn line(&self) -> String {
        let name = self.path.as_ref().map_or(String::new(), |path| format!(" ({})", path.escape_debug()));
        format!("{}: expected {}, found {}{name}", self.place, self.expected, self.found)
    }

    /// Writes it with the path first, as one line, or as two if it is long.
    fn describe(&self, out: &mut dyn Write) -> io::Result<()> {
        let name = self.path.as_ref().map_or(String::new(), |path| format!("{}: ", path.escape_debug()));
        let text = format!("expected {}, found {}", self.expected, self.found);
        write_two_parts(out, &format!("  {name}{}:", self.place), &text)
    }
}

impl From<&Scrubbed> for ScrubView {
    fn from(done: &Scrubbed) -> Self {
        let report = &done.report;
        let wrong: Vec<&Finding> =
            report.findings.iter().filter(|finding| finding.severity() > Severity::Note).collect();
        let findings: Vec<_> = wrong.iter().take(FINDINGS_MAX).map(|finding| (*finding).into()).collect();
        let paths: BTreeSet<String> = findings.iter().filter_map(|f: &DamageView| f.path.clone()).collect();
        Self {
            sound: match wrong.is_empty() && report.more_findings == 0 {
                false => Some(false),
                true => done.is_complete.then_some(true),
            },
            complete: done.is_complete,
            stopped: done.is_stopped,
            inodes: report.totals.inodes,
            checked_bytes: report.totals.live_bytes,
            live_bytes: done.volume_live_bytes,
            read_bytes: report.totals.read_bytes,
            damaged_paths: paths.into_iter().collect(),
            more_findings: report.more_findings + (wrong.len() - findings.len()) as u64,
            findings,
        }
    }
}

/// True for a damaged block of a file that a repair leaves as it is.
fn is_lost_content(finding: &Finding) -> bool {
    finding.lost_bytes > 0 && matches!(finding.problem, Problem::Block { .. })
}

impl ScrubView {
    /// The reason not to write to a volume, as one line; `None` if there is none. A damaged copy of the superblock is no
    /// such reason, nor is lost content of a file: the blocks below an unreadable one stay on the accounts, so nothing is written over
    /// them, and a repair leaves them like that unless it is to give them up.
    #[must_use]
    pub fn why_not_to_write(report: &Report) -> Option<String> {
        let is_error =
            |finding: &&Finding| finding.severity() == Severity::Error && !is_lost_content(finding);
        let first = report.findings.iter().find(is_error)?;
        let others = report.findings.iter().filter(is_error).count() as u64 - 1 + report.more_findings;
        let more = if others > 0 { format!(", and {} more", Count(others)) } else { String::new() };
        Some(format!("{}{more}", DamageView::from(first).line()))
    }

    /// Whether damage was found.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.sound == Some(false)
    }

    /// Writes it as text.
    ///
    /// # Errors
    /// As writing reports.
    pub fn describe(&self, out: &mut dyn Write, volume: &str) -> io::Result<()> {
        self.findings.iter().try_for_each(|finding| finding.describe(out))?;
        if self.more_findings > 0 {
            writeln!(out, "  and {} more", Count(self.more_findings))?;
        }
        if !self.damaged_paths.is_empty() {
            writeln!(out, "damaged:")?;
            self.damaged_paths.iter().try_for_each(|path| writeln!(out, "  {}", path.escape_debug()))?;
        }
        let (inodes, checked_bytes) = (Count(self.inodes).of("inode", "inodes"), Bytes(self.checked_bytes));
        if self.stopped {
            let found = if self.is_damaged() { "DAMAGED" } else { "no damage found so far" };
            let all = Bytes(self.live_bytes);
            let text = format!("stopped after {inodes}, {checked_bytes} of {all}: {found}");
            return write_words(out, &format!("{volume}:"), &text);
        }
        let state = match self.sound {
            Some(false) => "DAMAGED",
            Some(true) => "sound",
            None => "no damage found, but a part was missed because too much was written meanwhile",
        };
        write_words(out, &format!("{volume}:"), &format!("{inodes}, {checked_bytes} checked: {state}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_of_a_part_says_of_the_whole_only_that_it_is_damaged() {
        let sound = |is_complete: bool, more_findings: u64| {
            let report = Report { more_findings, ..Report::default() };
            let done = Scrubbed { report, is_complete, is_stopped: !is_complete, volume_live_bytes: 0 };
            ScrubView::from(&done).sound
        };
        assert_eq!([sound(true, 0), sound(false, 0)], [Some(true), None]);
        assert_eq!([sound(true, 1), sound(false, 1)], [Some(false), Some(false)]);
    }
}
