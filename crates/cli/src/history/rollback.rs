//! `firn rollback`: makes the present equal to a state, and touches only what differs.
//!
//! The order of the steps keeps names out of each other's way: renamed names go aside, new names are removed, directories and
//! renamed names come back from the top down, then content and attributes; the times of directories come last. Each step makes
//! the present more like the state, so a rollback that was interrupted can be run again and continues.

use super::attributes::{Attributes, Made};
use super::compare::{Change, Comparison, How, Modes, What, compare, modes_then};
use super::copy::{Copier, Totals, raise_open_files, take_off_umask};
use super::identity::{Facts, Identity, facts_of};
use super::place::{Place, join};
use super::snapshot::{make_on_mount, shown};
use super::staged::Staged;
use super::states::{State, States, failure_of};
use super::when;
use crate::completion::values;
use crate::failure::{Done, Failure};
use crate::interrupt;
use crate::names::{readable, shell_word};
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::Count;
use crate::target::write_back;
use clap::Args;
use firnfs_fuse::control::Client;
use firnfs_fuse::mount::table::Mount;
use rustc_hash::FxHashMap;
use rustix::io::Errno;
use serde::Serialize;
use serde_json::json;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Arguments of `firn rollback`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn diff /mnt@before-upgrade               look first what would change
  firn rollback /mnt before-upgrade           make the volume as it was
  firn rollback /mnt \"2 hours ago\"            the newest state at or before a time

First it makes a snapshot of the present, before-rollback-DATE-TIME: 'firn rollback /mnt before-rollback-...' undoes it. Then it
removes, renames and writes only what differs. Files that nobody has changed stay the same files.

It is not atomic: programs that run meanwhile see files of both states, and what they write during the rollback may stay or go.
Stop them first. What it did is durable when it returns. After Ctrl-C or an error the volume is between the two states; run the command again, or undo it.

ACLs that were changed since then stay as they are now.")]
pub struct RollbackArgs {
    /// The mountpoint of the volume
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// The state: its name, a time or its number
    #[arg(add = values::states())]
    pub state: String,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// What was done.
#[derive(Serialize)]
struct Summary {
    /// The path on the command line.
    path: String,
    /// The state that the volume has again.
    to_state: String,
    /// The snapshot with which to undo it.
    undo_state: String,
    /// Names that were removed.
    removed: u64,
    /// Names that came back.
    returned: u64,
    /// Names that were renamed back.
    renamed: u64,
    /// Files whose content or attributes were turned back.
    turned_back: u64,
    /// How many things could not be made as the state has them.
    problems: u64,
    /// The first of these.
    problem_texts: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// No mount with history, no such state; the snapshot cannot be made; a step fails.
pub fn run(args: &RollbackArgs, output: &mut Output) -> Done {
    let place = Place::of(&args.path)?;
    if !place.below.as_os_str().is_empty() {
        return Err(Failure::usage(format!("{} is not the mountpoint of a volume", readable(&args.path)))
            .advise("'firn restore DIRECTORY --at STATE --force' turns a directory back"));
    }
    let states = place.states()?;
    let state = states.find(&args.state)?.clone();
    let undo_state = free_name(&states);
    make_on_mount(&place.mount, &undo_state)?;
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    take_off_umask();
    raise_open_files();
    let mountpoint = place.mount.mountpoint.clone();
    let root = place.root_of(&state);
    let how = How { modes: (Modes::of(&place, Some(&state)), Modes::Shown), is_exact: true };
    let found = compare(&root, &mountpoint, None, how)?;
    let undo = format!("'firn rollback {} {undo_state}' undoes it", shell_word(&args.path));
    let turned = modes_of_changed(&place, &state, &found)
        .and_then(|modes| turn_back(&root, &mountpoint, &found, modes, &stop));
    let turned = turned.and_then(|problems| make_durable(&place.mount).map(|()| problems));
    let (problems, problem_texts) =
        turned.map_err(|failure| Failure { advice: Some(undo.clone()), ..failure })?;
    let count =
        |wanted: &[What]| found.changes.iter().filter(|change| wanted.contains(&change.what)).count() as u64;
    let summary = Summary {
        path: shown(&args.path),
        to_state: state.name.clone(),
        undo_state,
        removed: count(&[What::Added]),
        returned: count(&[What::Removed]),
        renamed: count(&[What::Renamed]),
        turned_back: count(&[What::Changed, What::Attributes]),
        problems,
        problem_texts,
    };
    output.show(args.json, &summary, |out| {
        let Summary { removed, returned, renamed, turned_back, .. } = summary;
        let removed = Count(removed).of("name", "names");
        let [returned, renamed] = [returned, renamed].map(Count);
        let turned = Count(turned_back).of("file", "files");
        writeln!(out, "{}: as in {} again", summary.path, summary.to_state)?;
        writeln!(out, "{removed} removed, {returned} back, {renamed} renamed, {turned} turned back")?;
        summary.problem_texts.iter().try_for_each(|text| writeln!(out, "{text}"))?;
        writeln!(out, "{undo}")
    })?;
    match problems {
        0 => Ok(()),
        count => Err(Failure::failed(format!("{count} things are not as they were"))),
    }
}

/// All that was turned back, in the daemon and in the kernel.
fn make_durable(mount: &Mount) -> Done {
    write_back(mount)?;
    let synced = Client::for_mount(mount).and_then(|mut client| client.call("sync", json!({})));
    synced.map(drop).map_err(|e| failure_of(&e))
}

/// The name of the snapshot of the present.
fn free_name(states: &States) -> String {
    let name = format!("before-rollback-{}", when::now().strftime("%Y%m%d-%H%M%S"));
    let is_taken = |name: &String| states.list.iter().any(|state| state.name == *name);
    // There was another one in the same second.
    let others = (2..).map(|n| format!("{name}-{n}"));
    std::iter::once(name.clone()).chain(others).find(|name| !is_taken(name)).unwrap_or(name)
}

/// The full permissions that the changed files had in the state; `.firn` shows less than those, as far as the present has less.
fn modes_of_changed(place: &Place, state: &State, found: &Comparison) -> Done<FxHashMap<u64, u32>> {
    let Some(told) = state.told else { return Ok(FxHashMap::default()) };
    let directories =
        |change: &Change| change.path.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>();
    let outer: BTreeSet<PathBuf> = found.changes.iter().flat_map(directories).collect();
    let mut inodes: BTreeSet<u64> =
        found.changes.iter().filter_map(|change| Some(change.old?.identity.ino)).collect();
    for below in outer {
        inodes.extend(facts_of(&join(&place.mount.mountpoint, &below))?.map(|facts| facts.identity.ino));
    }
    modes_then(&place.mount, told.epoch, inodes.into_iter().collect())
}

/// The trees, and the work that is done so far.
struct Turn<'a> {
    state: &'a Path,
    present: &'a Path,
    found: &'a Comparison,
    /// Where renamed files wait, below the present.
    aside: PathBuf,
    /// Where each of them waits, by its path in the present.
    waiting: FxHashMap<PathBuf, PathBuf>,
    /// Files of the state that the present has already, by their identity in the state: for their other names.
    placed: FxHashMap<Identity, PathBuf>,
    /// The path in the state of a file that has another path in the present.
    moved: FxHashMap<PathBuf, PathBuf>,
    /// Directories of the state in which a name was added or removed, or that have other times.
    touched: BTreeSet<PathBuf>,
}

/// Makes the present equal to the state. Returns what could not be done.
fn turn_back(
    state: &Path,
    present: &Path,
    found: &Comparison,
    modes: FxHashMap<u64, u32>,
    stop: &AtomicBool,
) -> Done<(u64, Vec<String>)> {
    let total = found.changes.len() as u64;
    let bar = Bar::of_entries();
    let done = Cell::new(0);
    let show = || bar.show(done.get(), total, "turned back");
    let finish_one = || {
        done.set(done.get() + 1);
        show();
    };
    let mut progress = |_: &Totals| match stop.load(Ordering::SeqCst) {
        true => Err(Failure::new(interrupt::exit(), "stopped between the two states")),
        false => {
            show();
            Ok(())
        }
    };
    let aside = PathBuf::from(format!(".firn-rollback-{}", std::process::id()));
    let renamed = found.changes.iter().filter(|change| change.what == What::Renamed);
    let moved = renamed.map(|change| (change.path.clone(), old_path(change).to_owned())).collect();
    // If a rollback was cut off, the directories in which it had put everything right have its times.
    let touched = found.retimed.iter().cloned().collect();
    let (waiting, placed) = (FxHashMap::default(), found.shared.clone());
    let mut turn = Turn { state, present, found, aside, waiting, placed, moved, touched };
    // These steps are quick, and files wait aside between them, so they are not interrupted.
    let renamed = turn.put_aside()?;
    turn.remove_new(&finish_one)?;
    turn.bring_names_back(renamed)?;
    let mut copier = Copier::new(&mut progress).with_modes(modes);
    for change in found.changes.iter().filter(|change| change.what != What::Added) {
        turn.bring_content_back(&mut copier, change)?;
        finish_one();
    }
    turn.finish_directories(&copier)?;
    let problems = std::mem::take(&mut copier.problems);
    Ok((problems.count, problems.first))
}

impl Turn<'_> {
    fn changes(&self, what: What) -> impl DoubleEndedIterator<Item = &Change> {
        self.found.changes.iter().filter(move |change| change.what == what)
    }

    /// Moves renamed files out of the way, the inner ones first; returns where each waits.
    fn put_aside(&mut self) -> Done<Vec<(PathBuf, Change)>> {
        let mut renamed: Vec<Change> = self.changes(What::Renamed).cloned().collect();
        if renamed.is_empty() {
            return Ok(Vec::new());
        }
        renamed.sort_by(|a, b| b.path.cmp(&a.path));
        let aside = self.present.join(&self.aside);
        // The root gets a name, and loses it again.
        self.touched.insert(PathBuf::new());
        rustix::fs::mkdir(&aside, rustix::fs::Mode::RWXU).map_err(|errno| cannot("make", &aside, errno))?;
        let mut moved = Vec::new();
        for (n, change) in renamed.into_iter().enumerate() {
            let waits = aside.join(n.to_string());
            let from = self.present.join(&change.path);
            rustix::fs::rename(&from, &waits).map_err(|errno| cannot("rename", &from, errno))?;
            self.touch_present(&change.path);
            self.waiting.insert(change.path.clone(), waits.clone());
            moved.push((waits, change));
        }
        Ok(moved)
    }

    /// Where a path of the present is while renamed directories wait.
    fn now(&self, below: &Path) -> PathBuf {
        let waiting = below.ancestors().find_map(|outer| Some((outer, self.waiting.get(outer)?)));
        match waiting {
            Some((outer, waits)) => join(waits, below.strip_prefix(outer).unwrap_or(Path::new(""))),
            None => self.present.join(below),
        }
    }

    /// Removes names that the state does not have, the inner ones first.
    fn remove_new(&mut self, finish_one: &impl Fn()) -> Done {
        let new: Vec<Change> = self.changes(What::Added).rev().cloned().collect();
        for change in new {
            let path = self.now(&change.path);
            let removed = match change.new.is_some_and(|facts| facts.is_dir()) {
                true => rustix::fs::rmdir(&path),
                false => rustix::fs::unlink(&path),
            };
            removed.map_err(|errno| cannot("remove", &path, errno))?;
            self.touch_present(&change.path);
            finish_one();
        }
        Ok(())
    }

    /// Makes directories and renames files, the outer ones first, so that each finds its directory.
    fn bring_names_back(&mut self, mut moved: Vec<(PathBuf, Change)>) -> Done {
        let is_directory = |change: &&Change| change.old.is_some_and(|facts| facts.is_dir());
        let made =
            self.changes(What::Removed).filter(is_directory).map(|change| (PathBuf::new(), change.clone()));
        moved.extend(made);
        moved.sort_by(|(_, a), (_, b)| old_path(a).cmp(old_path(b)));
        for (waits, change) in moved {
            let below = old_path(&change).to_owned();
            let path = self.present.join(&below);
            if change.what == What::Renamed {
                rustix::fs::rename(&waits, &path).map_err(|errno| cannot("rename", &waits, errno))?;
                self.placed.extend(change.old.map(|facts| (facts.identity, below.clone())));
            } else {
                rustix::fs::mkdir(&path, rustix::fs::Mode::RWXU)
                    .map_err(|errno| cannot("make", &path, errno))?;
                self.touched.insert(below.clone());
            }
            self.touch(&below);
        }
        let aside = self.present.join(&self.aside);
        match rustix::fs::rmdir(&aside) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(cannot("remove", &aside, errno)),
        }
    }

    /// Copies files that are gone or changed, and sets attributes.
    fn bring_content_back(&mut self, copier: &mut Copier<'_>, change: &Change) -> Done {
        let Some(old) = change.old else { return Ok(()) };
        let below = old_path(change).to_owned();
        let (from, to) = (join(self.state, &below), join(self.present, &below));
        match change.what {
            What::Removed if !old.is_dir() => {
                self.touch(&below);
                self.replace(copier, (&from, &to), &below, &old)
            }
            What::Changed if change.new.is_some_and(|new| new.identity == old.identity) && old.is_file() => {
                copier.rewrite(&from, &to)
            }
            What::Changed => {
                self.touch(&below);
                self.replace(copier, (&from, &to), &below, &old)
            }
            What::Attributes | What::Renamed => {
                if old.is_dir() {
                    self.touched.insert(below);
                }
                copier.give_attributes(&from, &to)
            }
            _ => Ok(()),
        }
    }

    /// Puts the file of the state in the place of what is there: another name of it, if the present has one already, or else a copy.
    fn replace(
        &mut self,
        copier: &mut Copier<'_>,
        (from, to): (&Path, &Path),
        below: &Path,
        old: &Facts,
    ) -> Done {
        if let Some(first) = self.placed.get(&old.identity) {
            let first = self.present.join(first);
            return match rustix::fs::unlink(to) {
                Ok(()) | Err(Errno::NOENT) => {
                    rustix::fs::link(&first, to).map_err(|errno| cannot("link", to, errno))
                }
                Err(errno) => Err(cannot("remove", to, errno)),
            };
        }
        if let Some(mut staged) = Staged::copy(copier, (from, *old), to)? {
            staged.name(true)?;
            if old.links > 1 {
                self.placed.insert(old.identity, below.to_owned());
            }
        }
        Ok(())
    }

    /// Notes that a name was added to or removed from a directory of the state.
    fn touch(&mut self, below: &Path) {
        self.touched.extend(below.parent().map(Path::to_owned));
    }

    /// The same for a path in the present: the state may have the directory elsewhere.
    fn touch_present(&mut self, below: &Path) {
        let Some(directory) = below.parent() else { return };
        let moved = directory.ancestors().find_map(|outer| Some((outer, self.moved.get(outer)?)));
        let then = match moved {
            Some((outer, then)) => join(then, directory.strip_prefix(outer).unwrap_or(Path::new(""))),
            None => directory.to_owned(),
        };
        self.touched.insert(then);
    }

    /// Gives the directories that were touched their attributes and times, the inner ones first.
    fn finish_directories(&self, copier: &Copier<'_>) -> Done {
        for below in self.touched.iter().rev() {
            let (from, to) = (join(self.state, below), join(self.present, below));
            let Some(facts) = facts_of(&from)?.filter(Facts::is_dir) else { continue };
            let directory = std::fs::File::open(&to).map_err(|e| Failure::io("cannot open", &to, &e))?;
            let made = Made { mode: 0o700, owner: None };
            // The files have reported an owner that could not be set.
            let given = Attributes::of(&from, copier.in_full(facts)).apply_to_file(&directory, made);
            given.map_err(|errno| cannot("restore", &to, errno))?;
        }
        Ok(())
    }
}

/// The path in the state.
fn old_path(change: &Change) -> &Path {
    change.old_path.as_deref().unwrap_or(&change.path)
}

fn cannot(action: &str, path: &Path, errno: Errno) -> Failure {
    Failure::io(&format!("cannot {action}"), path, &errno.into())
}
