//! `firn fsck` of the Fast File System.

use super::{CORRECTED, FsckArgs, UNCORRECTED, open};
use crate::failure::{Done, Exit, Failure};
use crate::output::Output;
use crate::sizes::Count;
use firnfs::check::Severity;
use firnfs::check::ffs::{FfsCheckError, FfsFinding, FfsReport};
use firnfs_device::{Access, Clock, Device, ReadOnlyDevice, SystemClock};
use serde::Serialize;
use std::io::{IsTerminal, Write, stderr, stdin};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// The whole result.
#[derive(Clone, Debug, Serialize)]
struct View {
    image: PathBuf,
    /// True if a crash alone explains all findings.
    sound: bool,
    inodes: u64,
    directories: u64,
    entries: u64,
    held_frags: u64,
    findings: Vec<FindingView>,
    more_findings: u64,
    /// What could not be repaired, and why.
    not_repaired: Vec<String>,
    exit: u8,
}

#[derive(Clone, Debug, Serialize)]
struct FindingView {
    severity: &'static str,
    inode: Option<u64>,
    text: String,
}

impl From<&FfsFinding> for FindingView {
    fn from(finding: &FfsFinding) -> Self {
        let severity = if finding.severity() == Severity::Note { "note" } else { "error" };
        Self { severity, inode: finding.ino.map(|ino| ino.0), text: finding.to_string() }
    }
}

/// Checks, or repairs if asked; the exit code.
///
/// # Errors
/// The volume is in use, cannot be checked, or a write fails; options of the log.
pub fn run(args: &FsckArgs, output: &mut Output) -> Done<ExitCode> {
    if args.all_checkpoints {
        return Err(Failure::usage("a Fast File System has no checkpoints"));
    }
    if args.all_points || args.drop_states {
        return Err(Failure::usage("a Fast File System keeps no states of the past"));
    }
    if args.zero_lost {
        return Err(Failure::usage("a Fast File System has no checksums: it does not know what is lost"));
    }
    let view = if args.repair { repair(args)? } else { check(args)? };
    output.show(args.json, &view, |out| describe(out, &view))?;
    Ok(ExitCode::from(view.exit))
}

fn check(args: &FsckArgs) -> Done<View> {
    let device = ReadOnlyDevice::new(open(&args.image, Access::ReadOnly)?);
    let report = firnfs_manage::check_ffs(&device).map_err(|e| impossible(args, &e))?;
    let exit = if report.is_clean() { 0 } else { UNCORRECTED };
    Ok(view(args, &report, Vec::new(), exit))
}

fn repair(args: &FsckArgs) -> Done<View> {
    if !args.yes && (args.json || !stdin().is_terminal()) {
        return Err(Failure::usage("--repair asks about its findings, but there is no terminal to ask on")
            .advise("add --yes to repair without asking"));
    }
    let device: Arc<dyn Device> = Arc::new(open(&args.image, Access::ReadWrite)?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let mut all = args.yes;
    let repaired = firnfs_manage::repair_ffs(&device, &clock, &mut |finding| all || ask(finding, &mut all));
    let repaired = repaired.map_err(|e| impossible(args, &e))?;
    let failed: Vec<String> =
        repaired.failed.iter().map(|(finding, why)| format!("{finding}: {why}")).collect();
    let corrected = if repaired.before != repaired.after { CORRECTED } else { 0 };
    let left = if repaired.after.is_clean() { 0 } else { UNCORRECTED };
    Ok(view(args, &repaired.after, failed, corrected | left))
}

/// Asks on the terminal. All findings are repaired or none: bitmaps follow from what files hold.
fn ask(finding: &FfsFinding, all: &mut bool) -> bool {
    // If the question cannot be shown, the answer is no.
    if write!(stderr(), "  {finding}; repair? [y]es, [N]o to all, [a]ll ").is_err() {
        return false;
    }
    let mut line = String::new();
    if stdin().read_line(&mut line).is_err() {
        return false;
    }
    let answer = line.trim().to_ascii_lowercase();
    *all = matches!(answer.as_str(), "a" | "all");
    *all || matches!(answer.as_str(), "y" | "yes")
}

fn view(args: &FsckArgs, report: &FfsReport, not_repaired: Vec<String>, exit: u8) -> View {
    View {
        image: args.image.clone(),
        sound: report.is_clean(),
        inodes: report.totals.inodes,
        directories: report.totals.directories,
        entries: report.totals.entries,
        held_frags: report.totals.frags,
        findings: report.findings.iter().map(FindingView::from).collect(),
        more_findings: report.more_findings,
        not_repaired,
        exit,
    }
}

fn describe(out: &mut dyn Write, view: &View) -> std::io::Result<()> {
    for finding in &view.findings {
        let mark = if finding.severity == "note" { "note: " } else { "" };
        writeln!(out, "  {mark}{}", finding.text)?;
    }
    if view.more_findings > 0 {
        writeln!(out, "  and {} more", Count(view.more_findings))?;
    }
    view.not_repaired.iter().try_for_each(|line| writeln!(out, "  NOT repaired: {line}"))?;
    let image = view.image.display();
    let state = if view.sound { "clean" } else { "DAMAGED" };
    writeln!(
        out,
        "{image}: {} ({}, {}), {}: {state}",
        Count(view.inodes).of("inode", "inodes"),
        Count(view.directories).of("directory", "directories"),
        Count(view.entries).of("entry", "entries"),
        Count(view.held_frags).of("fragment", "fragments")
    )?;
    if !view.sound && view.not_repaired.is_empty() {
        writeln!(out, "'firn fsck --repair {image}' repairs the errors that can be repaired")?;
    }
    Ok(())
}

fn impossible(args: &FsckArgs, error: &FfsCheckError) -> Failure {
    Failure::new(Exit::NotAVolume, format!("{}: {error}", args.image.display()))
}
