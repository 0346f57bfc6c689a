//! The files that lost content: gathered from the findings of a check or the actions of a repair, and shown at the end of either.

use crate::output::{WIDTH, write_list};
use crate::sizes::{Bytes, Count};
use firnfs::check::{Finding, Problem, Report};
use firnfs::states::is_past;
use firnfs_format::InodeNo;
use firnfs_manage::{Outcome, Repaired};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Files that the text names for each state; JSON has all.
const SHOWN_MAX: usize = 12;

/// What became of the lost content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LostState {
    /// Reading it fails.
    Unreadable,
    /// It reads as zeros now.
    Zeros,
    /// The record of the inode cannot be read, so nothing of it can.
    RecordUnreadable,
    /// The repair removed it, because its record could not be read.
    Gone,
}

/// A file that lost content.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LostView {
    /// Its number.
    pub inode: u64,
    /// One of its names, if one is known.
    pub path: Option<String>,
    /// What became of the content.
    pub state: LostState,
    /// Bytes that were lost; null if everything was, and nothing tells how much that is.
    pub lost_bytes: Option<u64>,
    /// True if blocks with pointers were lost: holes below them count as lost bytes.
    pub at_most: bool,
}

/// The losses that a check found.
pub fn of_check(report: &Report) -> Vec<LostView> {
    let findings = report.findings.iter();
    gather(findings.map(|finding| (finding, LostState::Unreadable, LostState::RecordUnreadable)))
}

/// The losses that a repair made final, and those that it left.
pub fn of_repair(repaired: &Repaired) -> Vec<LostView> {
    let done = repaired.actions.iter().filter(|action| action.outcome == Outcome::Repaired);
    let mut lost = gather(done.map(|action| (&action.finding, LostState::Zeros, LostState::Gone)));
    lost.extend(of_check(&repaired.after));
    lost
}

/// Adds up the findings of each file; each comes with the state of content and of records that cannot be read.
fn gather<'a>(findings: impl Iterator<Item = (&'a Finding, LostState, LostState)>) -> Vec<LostView> {
    let mut files: BTreeMap<(LostState, InodeNo), LostView> = BTreeMap::new();
    for (finding, content, record) in findings {
        // What a state of the past lost, no file of the present did.
        let Some(ino) = finding.ino.filter(|ino| !is_past(*ino)) else { continue };
        let is_record = matches!(finding.problem, Problem::Record { .. });
        if !is_record && finding.lost_bytes == 0 {
            continue;
        }
        let state = if is_record { record } else { content };
        let path = finding.path.as_ref().map(|path| String::from_utf8_lossy(path).into_owned());
        let new =
            LostView { inode: ino.0, path, state, lost_bytes: (!is_record).then_some(0), at_most: false };
        let file = files.entry((state, ino)).or_insert(new);
        file.lost_bytes = file.lost_bytes.map(|bytes| bytes + finding.lost_bytes);
        file.at_most |= matches!(
            &finding.problem,
            Problem::Block { key, .. } | Problem::Pointer { key, .. } if key.level > 0
        );
    }
    files.into_values().collect()
}

/// Writes which files lost how much, and what to do about it.
///
/// # Errors
/// As writing fails.
pub fn describe(out: &mut dyn Write, lost: &[LostView], image: &str) -> io::Result<()> {
    use LostState::{Gone, RecordUnreadable, Unreadable, Zeros};
    for state in [Unreadable, Zeros, RecordUnreadable, Gone] {
        let files: Vec<&LostView> = lost.iter().filter(|file| file.state == state).collect();
        let count = Count(files.len() as u64);
        let (one, many) = match state {
            Unreadable => ("file lost data", "files lost data"),
            Zeros => ("file lost data, now zeros", "files lost data, now zeros"),
            RecordUnreadable => ("inode cannot be read", "inodes cannot be read"),
            Gone => ("inode could not be read and is gone", "inodes could not be read and are gone"),
        };
        if files.is_empty() {
            continue;
        }
        let mut items: Vec<String> = files.iter().take(SHOWN_MAX).map(|file| file.text()).collect();
        if files.len() > SHOWN_MAX {
            items.push(format!("and {} more (--json lists all)", Count((files.len() - SHOWN_MAX) as u64)));
        }
        write_list(out, &format!("{}:", count.of(one, many)), &items, WIDTH)?;
    }
    if lost.iter().any(|file| file.state == Unreadable) {
        writeln!(out, "Reading the lost data fails with EIO. Copy the files from a backup, or let")?;
        writeln!(out, "'firn fsck --repair --zero-lost {image}' fill it with zeros.")?;
    }
    Ok(())
}

impl LostView {
    fn text(&self) -> String {
        let name = match &self.path {
            Some(path) => path.escape_debug().to_string(),
            None => format!("inode {}", self.inode),
        };
        match self.lost_bytes {
            Some(bytes) if self.at_most => format!("{name} up to {}", Bytes(bytes)),
            Some(bytes) => format!("{name} {}", Bytes(bytes)),
            None => name,
        }
    }
}
