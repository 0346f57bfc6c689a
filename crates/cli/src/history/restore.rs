//! `firn restore`: restores files and directories as a state has them.

use super::attributes::{Attributes, Made};
use super::copy::{Copier, Problems, Totals, raise_open_files, take_off_umask};
use super::deleted::{Deleted, below_matching};
use super::find::entries_of;
use super::identity::{Facts, facts_of};
use super::place::Place;
use super::snapshot::shown;
use super::staged::{Staged, is_taken};
use super::states::{State, States};
use crate::completion::values;
use crate::failure::{Done, Failure};
use crate::interrupt;
use crate::names::{readable, shell_word};
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::{Bytes, Count};
use clap::Args;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Directories that are kept open until they are synced.
const UNSYNCED_MAX: usize = 256;

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

/// A file or directory that came back.
#[derive(Serialize)]
pub struct Restored {
    /// The path that it had then, below the root of the volume.
    pub name: String,
    /// The name of the state that it comes from.
    pub from_state: String,
    /// Where it is now.
    pub to_path: String,
    #[serde(skip)]
    target: PathBuf,
}

/// Something to restore.
pub struct Wish {
    /// Where it is in the past.
    pub from: PathBuf,
    /// The same path below the root of the volume.
    pub below: PathBuf,
    /// The state.
    pub state: String,
    /// Where to put it.
    pub target: PathBuf,
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
    let state = match &args.at {
        Some(word) => {
            let state = states.find(word)?;
            if facts_of(&place.then(state))?.is_none() {
                return Err(not_in(state, &args.path));
            }
            state
        }
        None => newest_with(place, &states.list)?.ok_or_else(|| {
            Failure::failed(format!("no state has {}", readable(&args.path)))
                .advise("'firn undelete DIRECTORY' lists what was deleted in a directory")
        })?,
    };
    let target = target_of(args.to.as_deref(), &place.now());
    Ok(Wish { from: place.then(state), below: place.below.clone(), state: state.name.clone(), target })
}

/// The failure of a path that a state does not have.
pub fn not_in(state: &State, path: &Path) -> Failure {
    Failure::failed(format!("the state {} has no {}", state.name, readable(path)))
        .advise(format!("'firn log {}' says which have it", shell_word(path)))
}

/// The newest state that has a path.
fn newest_with<'a>(place: &Place, states: &'a [State]) -> Done<Option<&'a State>> {
    for state in states.iter().rev() {
        if facts_of(&place.then(state))?.is_some() {
            return Ok(Some(state));
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
        Wish { from: here.then(state), below: deleted.below, state: state.name.clone(), target }
    };
    Ok(found.into_iter().map(wish).collect())
}

/// Restores all of them in turn.
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
    let mut progress = |totals: &Totals| {
        let things = totals.files + totals.directories + totals.others + totals.hard_links;
        let done = if all.is_in_bytes { totals.content_bytes } else { things };
        bar.show(done, all.total, "restored");
        match stop.load(Ordering::SeqCst) {
            true => Err(Failure::new(interrupt::exit(), "stopped; what was not whole is removed")),
            false => Ok(()),
        }
    };
    let mut copier = Copier::new(&mut progress);
    let (mut restored, mut unsynced) = (Vec::new(), Unsynced::default());
    let done = wishes.iter().try_for_each(|wish| {
        restored.extend(restore_one(&mut copier, wish, force, &mut unsynced)?);
        Ok(())
    });
    // What came back before an error is made durable as well.
    done.and(unsynced.sync())?;
    let (Totals { files, directories, others, hard_links, content_bytes }, problems) =
        (copier.totals, std::mem::take(&mut copier.problems));
    let Problems { count, first } = problems;
    let (problems, problem_texts) = (count, first);
    Ok(Report { restored, files, directories, others, hard_links, content_bytes, problems, problem_texts })
}

/// `None` if it cannot be read.
fn restore_one(
    copier: &mut Copier<'_>,
    wish: &Wish,
    force: bool,
    unsynced: &mut Unsynced,
) -> Done<Option<Restored>> {
    let parents = make_parents(wish)?;
    let staged = Staged::copy(copier, &wish.from, &wish.target)?;
    let restored = staged.map(|staged| {
        unsynced.add(&wish.target, staged.directory())?;
        staged.name(force)?;
        let (name, to_path) = (shown(&wish.below), shown(&wish.target));
        let (from_state, target) = (wish.state.clone(), wish.target.clone());
        Ok(Restored { name, from_state, to_path, target })
    });
    let restored = restored.transpose()?;
    finish_parents(&parents)?;
    Ok(restored)
}

/// Directories with names that are not durable yet. Each sync waits for the device, so many copies share one.
#[derive(Default)]
struct Unsynced(BTreeMap<PathBuf, OwnedFd>);

impl Unsynced {
    /// Adds the directory in which a copy gets its name.
    fn add(&mut self, target: &Path, directory: BorrowedFd<'_>) -> Done {
        let parent = target.parent().unwrap_or(target);
        if self.0.contains_key(parent) {
            return Ok(());
        }
        if self.0.len() >= UNSYNCED_MAX {
            self.sync()?;
        }
        let directory = directory.try_clone_to_owned();
        let directory = directory.map_err(|e| Failure::io("cannot open", parent, &e))?;
        self.0.insert(parent.to_owned(), directory);
        Ok(())
    }

    fn sync(&mut self) -> Done {
        for (path, directory) in std::mem::take(&mut self.0) {
            let synced = rustix::fs::fsync(&directory);
            synced.map_err(|errno| Failure::io("cannot sync", &path, &errno.into()))?;
        }
        Ok(())
    }
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
        let Some(facts) = facts_of(&wish.from)? else { continue };
        bytes += facts.size_bytes.min(facts.allocated_bytes);
        is_in_bytes &= facts.is_file();
        entries += 1;
        if facts.is_dir() {
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

/// Makes the directories above the target that are gone, too, with nothing else in them. Returns each with its original, the
/// inner ones first: they get their attributes after everything in them.
fn make_parents(wish: &Wish) -> Done<Vec<(PathBuf, PathBuf)>> {
    let is_missing =
        |(target, _): &(&Path, &Path)| !target.as_os_str().is_empty() && target.symlink_metadata().is_err();
    let pairs = wish.target.ancestors().zip(wish.from.ancestors()).skip(1);
    let missing: Vec<(PathBuf, PathBuf)> =
        pairs.take_while(is_missing).map(|(target, from)| (target.to_owned(), from.to_owned())).collect();
    for (target, _) in missing.iter().rev() {
        // The mask is cleared.
        let made = rustix::fs::mkdir(target, Mode::RWXU);
        made.map_err(|errno| Failure::io("cannot make", target, &errno.into()))?;
    }
    Ok(missing)
}

fn finish_parents(made: &[(PathBuf, PathBuf)]) -> Done {
    for (target, from) in made {
        let cannot = |errno: Errno| Failure::io("cannot restore", target, &errno.into());
        let Some(facts) = facts_of(from)?.filter(Facts::is_dir) else { continue };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(CWD, target, flags, Mode::empty()).map_err(cannot)?;
        let made = Made { mode: 0o700, owner: None };
        // The files in it report the attributes that could not be given.
        let _lost = Attributes::of(from, facts).apply_to_file(&directory, made).map_err(cannot)?;
    }
    Ok(())
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
