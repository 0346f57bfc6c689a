//! `firn restore`: restores files and directories as a state has them.

use super::copy::{Problems, Totals, raise_open_files, take_off_umask};
use super::crew::{Crew, Outcome, Restored, Wish};
use super::deleted::{Deleted, below_matching};
use super::find::entries_of;
use super::identity::{Facts, facts_of};
use super::place::Place;
use super::snapshot::shown;
use super::staged::is_taken;
use super::states::{State, States};
use crate::completion::values;
use crate::failure::{Done, Failure};
use crate::interrupt;
use crate::names::{readable, shell_word};
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::{Bytes, Count};
use clap::Args;
use serde::Serialize;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Arguments of `firn restore`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn restore /mnt/report.odt                     a file that is gone, from the newest state that has it
  firn restore /mnt/report.odt --at \"2 hours ago\" --to /mnt/report-old.odt
                                                   as it was then, beside the present one
  firn restore /mnt/report.odt --at yesterday --force
                                                   in the place of the present one
  firn restore /mnt/work --at before-upgrade --to /mnt/work-old
                                                   a directory with everything in it
  firn restore /mnt/work --deleted \"*.odt\"         all files of that name that were deleted below a directory
  firn restore /mnt/work --deleted \"*.odt\" --null | xargs -0 ls -l
                                                   and what they are now

Times: \"yesterday\" (its end), \"yesterday 14:00\", \"2 hours ago\", \"10 min ago\", \"monday\", 2026-11-24, \"2026-11-24 13:45\",
@1795527910. The newest state at or before the time counts; 'firn log' lists the states.

Content, owners, permissions, times, attributes, ACLs, links and holes come back; what you may not give, such as another owner,
is named at the end (exit code 1). Nothing is overwritten without --force. With it, the restored file or directory takes the
place of the present one at once; a directory is replaced as a whole, also what is new in it. The copy gets its name when it
is whole: after Ctrl-C or an error there is nothing half.

A file that still exists comes back without the permissions that were taken away since: the past is never more open than the
present.")]
pub struct RestoreArgs {
    /// The file or directory, where it is or was
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// The state, or a time [default: the newest state that has it]
    #[arg(long, value_name = "WHEN|STATE", add = values::states())]
    pub at: Option<String>,
    /// Where to put it: a new name, or a directory to put it into [default: where it was]
    #[arg(long, value_name = "PATH")]
    pub to: Option<PathBuf>,
    /// Restore the files below the directory that were deleted and have such a name: * stands for any text, ? for a letter
    #[arg(long, value_name = "PATTERN")]
    pub deleted: Option<String>,
    /// Replace what is there
    #[arg(long)]
    pub force: bool,
    /// Print only the paths at which it is now, each ended by NUL
    #[arg(long, conflicts_with = "json")]
    pub null: bool,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// What was restored.
#[derive(Serialize)]
struct Summary {
    /// The path on the command line.
    path: String,
    #[serde(flatten)]
    report: Report,
}

/// What came back, and what did not.
#[derive(Serialize)]
pub struct Report {
    /// Each file or directory with its content.
    pub restored: Vec<Restored>,
    /// Regular files in all of them.
    files: u64,
    /// Directories.
    directories: u64,
    /// Links, FIFOs, sockets and device nodes.
    others: u64,
    /// Further names of files.
    hard_links: u64,
    /// Bytes of content, without holes.
    content_bytes: u64,
    /// How many could not come back as they were.
    problems: u64,
    /// The first of these.
    problem_texts: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// No state has it; something is in its place; the copy cannot be written.
pub fn run(args: &RestoreArgs, output: &mut Output) -> Done {
    let place = Place::of(&args.path)?;
    let states = place.states()?;
    let wishes = match &args.deleted {
        Some(pattern) => deleted_wishes(args, &place, &states, pattern)?,
        None => vec![wish(args, &place, &states)?],
    };
    let report = restore(&wishes, args.force)?;
    finish(&args.path, report, (args.json, args.null), output)
}

/// Shows what was restored: as JSON, or with `null` only where it is now.
///
/// # Errors
/// Not all of it could be restored.
pub fn finish(path: &Path, report: Report, (json, null): (bool, bool), output: &mut Output) -> Done {
    let summary = Summary { path: shown(path), report };
    match null {
        true => output.names(summary.report.restored.iter().map(|restored| &restored.target))?,
        false => output.show(json, &summary, |out| write(out, &summary.report))?,
    }
    let Report { problems, problem_texts, .. } = &summary.report;
    match (problems, problem_texts.first()) {
        (0, _) => Ok(()),
        (1, Some(text)) => Err(Failure::failed(text.clone())),
        (count, _) => {
            for text in problem_texts {
                eprintln!("firn: {text}");
            }
            Err(Failure::failed(format!("{count} things did not come back as they were")))
        }
    }
}

fn wish(args: &RestoreArgs, place: &Place, states: &States) -> Done<Wish> {
    if place.below.as_os_str().is_empty() && args.to.is_none() {
        return Err(Failure::usage(format!("{} is the whole volume", readable(&args.path))).advise(
            "name a directory in it, or another place with --to; 'firn rollback' turns a volume back",
        ));
    }
    let (state, facts) = match &args.at {
        Some(word) => {
            let state = states.find(word)?;
            let facts = facts_of(&place.then(state))?;
            (state, facts.ok_or_else(|| not_in(state, &args.path))?)
        }
        None => newest_with(place, &states.list)?.ok_or_else(|| {
            Failure::failed(format!("no state has {}", readable(&args.path)))
                .advise("'firn undelete DIRECTORY' lists what was deleted in a directory")
        })?,
    };
    let target = target_of(args.to.as_deref(), &place.now());
    let (from, below) = (place.then(state), place.below.clone());
    Ok(Wish { from, facts, below, state: state.name.clone(), target })
}

/// The failure of a path that a state does not have.
pub fn not_in(state: &State, path: &Path) -> Failure {
    Failure::failed(format!("the state {} has no {}", state.name, readable(path)))
        .advise(format!("'firn log {}' says which have it", shell_word(path)))
}

/// The newest state that has a path, and what is there.
fn newest_with<'a>(place: &Place, states: &'a [State]) -> Done<Option<(&'a State, Facts)>> {
    for state in states.iter().rev() {
        if let Some(facts) = facts_of(&place.then(state))? {
            return Ok(Some((state, facts)));
        }
    }
    Ok(None)
}

/// The path of a copy: `--to` may be a directory to put it into.
fn target_of(to: Option<&Path>, now: &Path) -> PathBuf {
    match (to, now.file_name()) {
        (Some(to), Some(name)) if to.is_dir() => to.join(name),
        (Some(to), _) => to.to_owned(),
        (None, _) => now.to_owned(),
    }
}

/// What was deleted below a directory and fits a pattern, each with its own place, or one below that of `--to`.
fn deleted_wishes(args: &RestoreArgs, place: &Place, states: &States, pattern: &str) -> Done<Vec<Wish>> {
    let states = match &args.at {
        // Newer states are ignored.
        Some(word) => {
            let newest = states.find(word)?;
            let at = states.list.iter().position(|state| state == newest).unwrap_or_default();
            &states.list[..=at]
        }
        None => &states.list[..],
    };
    let found = below_matching(place, states, pattern)?;
    if found.is_empty() {
        let message = format!("nothing called {pattern} was deleted below {}", readable(&args.path));
        let advice = format!(
            "'firn log {}' lists the states that were looked through",
            shell_word(&place.mount.mountpoint)
        );
        return Err(Failure::failed(message).advise(advice));
    }
    let wish = |deleted: Deleted| {
        let state = &states[deleted.state];
        let here = place.at(deleted.below.clone());
        let target = match &args.to {
            Some(to) => to.join(deleted.below.strip_prefix(&place.below).unwrap_or(&deleted.below)),
            None => here.now(),
        };
        let (from, facts, below) = (here.then(state), deleted.facts, deleted.below);
        Wish { from, facts, below, state: state.name.clone(), target }
    };
    Ok(found.into_iter().map(wish).collect())
}

/// Restores all of them.
///
/// # Errors
/// Something is in the place of one of them and `force` is false; then nothing is restored. A copy cannot be written; Ctrl-C.
pub fn restore(wishes: &[Wish], force: bool) -> Done<Report> {
    let is_there = |wish: &&Wish| !force && wish.target.symlink_metadata().is_ok();
    if let Some(wish) = wishes.iter().find(is_there) {
        return Err(is_taken(&wish.target));
    }
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    take_off_umask();
    raise_open_files();
    let all = amount_of(wishes)?;
    let bar = if all.is_in_bytes { Bar::of_bytes() } else { Bar::of_entries() };
    let show = |totals: &Totals| {
        let things = totals.files + totals.directories + totals.others + totals.hard_links;
        bar.show(if all.is_in_bytes { totals.content_bytes } else { things }, all.total, "restored");
    };
    let Outcome { restored, totals, problems } = Crew::new(wishes, force, &stop, &show).restore()?;
    let Totals { files, directories, others, hard_links, content_bytes } = totals;
    let Problems { count, first } = problems;
    let (problems, problem_texts) = (count, first);
    Ok(Report { restored, files, directories, others, hard_links, content_bytes, problems, problem_texts })
}

/// How much there is to restore.
struct Amount {
    /// Directories are counted by the files in them, files alone by their bytes.
    is_in_bytes: bool,
    total: u64,
}

fn amount_of(wishes: &[Wish]) -> Done<Amount> {
    let (mut bytes, mut entries, mut is_in_bytes) = (0, 0, true);
    for wish in wishes {
        bytes += wish.facts.size_bytes.min(wish.facts.allocated_bytes);
        is_in_bytes &= wish.facts.is_file();
        entries += 1;
        if wish.facts.is_dir() {
            entries += count_below(&wish.from)?;
        }
    }
    Ok(Amount { is_in_bytes, total: if is_in_bytes { bytes } else { entries } })
}

/// Counts the entries of all directories below one, by listings alone.
fn count_below(directory: &Path) -> Done<u64> {
    let mut count = 0;
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        let entries = entries_of(&directory)?.unwrap_or_default();
        count += entries.len() as u64;
        let inner = entries.iter().filter(|entry| entry.is_dir);
        pending.extend(inner.map(|entry| directory.join(OsStr::from_bytes(&entry.name))));
    }
    Ok(count)
}

fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    for restored in &report.restored {
        writeln!(out, "{} is back, as in {}", readable(&restored.target), restored.from_state)?;
    }
    let things = report.files + report.directories + report.others;
    if things > 1 {
        let files = Count(report.files).of("file", "files");
        let directories = Count(report.directories).of("directory", "directories");
        writeln!(out, "{files} and {directories}, {}", Bytes(report.content_bytes))?;
    }
    Ok(())
}
