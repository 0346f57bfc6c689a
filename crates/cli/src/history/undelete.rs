//! `firn undelete`: lists the files that were deleted in a directory, and restores them.

use super::crew::Wish;
use super::deleted::{Deleted, deleted_in, size_of};
use super::identity::facts_of;
use super::place::Place;
use super::restore::{finish, restore};
use super::snapshot::shown;
use super::states::State;
use super::when;
use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::names::{readable, shell_word};
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::{Bytes, Count};
use clap::Args;
use firnfs_lab::calendar::rfc3339;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Arguments of `firn undelete`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn undelete /mnt/letters                  what was deleted there, and when it was last seen
  firn undelete /mnt/letters offer.odt        give a file or directory back, as it was last seen
  firn undelete /mnt/letters --all            everything that was deleted there
  firn undelete /mnt/letters --all --to /tmp/found
                                              into another directory
  firn undelete /mnt/letters --null | xargs -0 ls -ld
                                              where to read it, for scripts

It looks through all states that are kept ('firn log'): what was made and deleted between two of them cannot come back. A file
is found under any name that it had in that directory, also if the directory itself had another name or place then. What was deleted in directories below is in those; 'firn restore
DIRECTORY --deleted \"*.odt\"' looks through all of them. Nothing is overwritten.")]
pub struct UndeleteArgs {
    /// A directory on a mount, also one that is gone itself
    #[arg(add = values::mounts())]
    pub directory: PathBuf,
    /// What to give back
    pub names: Vec<OsString>,
    /// Give everything back
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// Put it into this directory
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Print only the paths at which it can be read, or is again, each ended by NUL
    #[arg(long, conflicts_with = "json")]
    pub null: bool,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// What was deleted.
#[derive(Serialize)]
struct View {
    /// The path on the command line.
    path: String,
    /// By name.
    deleted_files: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    /// Its last name in the directory.
    name: String,
    /// The names that it had there before.
    old_names: Vec<String>,
    /// `file`, `directory`, `symlink` or `other`.
    kind: &'static str,
    /// Its size; for a directory, the size of all files in it.
    size_bytes: u64,
    /// The files in a directory; 1 for anything else.
    files: u64,
    /// The newest state that has it.
    last_state: String,
    /// When that state was made; null if this user may not know.
    last_seen: Option<String>,
    /// Where it can be read.
    read_at: String,
    #[serde(skip)]
    place: PathBuf,
    #[serde(skip)]
    names: Vec<OsString>,
    #[serde(skip)]
    seen: String,
    /// The path of the directory in that state, if it differs.
    #[serde(skip)]
    directory: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The directory is on no mount with history; nothing of that name was deleted there; something has that name now.
pub fn run(args: &UndeleteArgs, output: &mut Output) -> Done {
    let directory = args.directory.canonicalize().unwrap_or_else(|_| args.directory.clone());
    let place = Place::of(&directory)?;
    let states = place.states()?.list;
    let deleted = deleted_in(&place, &states)?;
    if deleted.is_empty() && !is_known(&place, &states)? {
        let message = format!("neither the present nor a state has {}", readable(&args.directory));
        return Err(Failure::failed(message).advise(elsewhere(&place)));
    }
    if args.all || !args.names.is_empty() {
        let chosen = choose(args, &place, &deleted)?;
        let wishes = wishes(args, &place, &states, &chosen);
        let report = restore(&wishes, false).map_err(without_force)?;
        return finish(&args.directory, report, (args.json, args.null), output);
    }
    let rows = rows(&place, &states, &deleted)?;
    if args.null {
        return output.names(rows.iter().map(|row| &row.place));
    }
    let view = View { path: shown(&args.directory), deleted_files: rows };
    output.show(args.json, &view, |out| write(out, (args, &place), &view, states.len()))
}

/// True if the directory exists, or did: otherwise the user may have mistyped it.
fn is_known(place: &Place, states: &[State]) -> Done<bool> {
    for path in states.iter().map(|state| place.then(state)).chain([place.now()]) {
        if facts_of(&path)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes from the failure of a taken name the advice to replace it, which this command never does.
fn without_force(failure: Failure) -> Failure {
    match failure.exit {
        Exit::Refused => failure.advise("put it into another directory with --to"),
        _ => failure,
    }
}

/// The deleted files that the command line names, with the names to give them.
fn choose<'a>(
    args: &UndeleteArgs,
    place: &Place,
    deleted: &'a [Deleted],
) -> Done<Vec<(&'a Deleted, OsString)>> {
    if args.all {
        if deleted.is_empty() {
            let message = format!("nothing that a state has was deleted in {}", readable(&args.directory));
            return Err(Failure::failed(message).advise(elsewhere(place)));
        }
        return Ok(deleted.iter().map(|deleted| (deleted, deleted.names[0].clone())).collect());
    }
    let find = |name: &OsString| {
        let found = deleted.iter().find(|deleted| deleted.names.contains(name));
        found.map(|deleted| (deleted, name.clone())).ok_or_else(|| {
            let path = args.directory.join(name);
            match path.symlink_metadata() {
                Ok(_) => Failure::new(Exit::Refused, format!("{} was not deleted", readable(&path))).advise(
                    "an older version of it: 'firn log FILE', 'firn restore FILE --at WHEN --to PATH'",
                ),
                Err(_) => Failure::failed(format!("no state has {}", readable(&path))).advise(format!(
                    "'firn undelete {}' lists what was deleted there",
                    shell_word(&args.directory)
                )),
            }
        })
    };
    args.names.iter().map(find).collect()
}

fn wishes(
    args: &UndeleteArgs,
    place: &Place,
    states: &[State],
    chosen: &[(&Deleted, OsString)],
) -> Vec<Wish> {
    let target = args.to.clone().unwrap_or_else(|| place.now());
    let wish = |(deleted, name): &(&Deleted, OsString)| {
        let state = &states[deleted.state];
        Wish {
            from: place.at(deleted.below.clone()).then(state),
            facts: deleted.facts,
            below: deleted.below.clone(),
            state: state.name.clone(),
            target: target.join(name),
        }
    };
    chosen.iter().map(wish).collect()
}

fn rows(place: &Place, states: &[State], deleted: &[Deleted]) -> Done<Vec<Row>> {
    let bar = Bar::of_entries();
    let row = |(n, one): (usize, &Deleted)| {
        bar.show(n as u64, deleted.len() as u64, "counted");
        row(place, states, one)
    };
    deleted.iter().enumerate().map(row).collect()
}

fn row(place: &Place, states: &[State], deleted: &Deleted) -> Done<Row> {
    let state = &states[deleted.state];
    let read_at = place.at(deleted.below.clone()).then(state);
    let (size_bytes, files) = size_of(&read_at, &deleted.facts)?;
    Ok(Row {
        name: shown(Path::new(&deleted.names[0])),
        old_names: deleted.names[1..].iter().map(|name| shown(Path::new(name))).collect(),
        kind: deleted.facts.kind(),
        size_bytes,
        files,
        last_state: state.name.clone(),
        last_seen: state.time.map(|time| rfc3339(time.0)),
        read_at: shown(&read_at),
        seen: state.time.map_or_else(|| format!("in {}", state.name), when::local),
        place: read_at,
        names: deleted.names.clone(),
        directory: deleted.below.parent().filter(|then| *then != place.below).map(Path::to_owned),
    })
}

/// Advice if nothing was deleted: the file may have been in another directory.
fn elsewhere(place: &Place) -> String {
    format!("'firn restore {} --deleted NAME' looks in all directories", shell_word(&place.mount.mountpoint))
}

fn write(
    out: &mut dyn Write,
    (args, place): (&UndeleteArgs, &Place),
    view: &View,
    states: usize,
) -> io::Result<()> {
    if view.deleted_files.is_empty() {
        let directory = readable(&args.directory);
        match states {
            0 => return writeln!(out, "the volume keeps no states, so it knows of nothing that was deleted"),
            1 => writeln!(out, "nothing that its one state has was deleted in {directory}")?,
            _ => writeln!(
                out,
                "nothing that one of {} states has was deleted in {directory}",
                Count(states as u64)
            )?,
        }
        return writeln!(out, "{}", elsewhere(place));
    }
    writeln!(out, "{:<19} {:>10} name", "last seen", "size")?;
    for row in &view.deleted_files {
        let slash = if row.kind == "directory" { "/" } else { "" };
        let old_names: Vec<String> = row.names[1..].iter().map(readable).collect();
        let mut notes = Vec::new();
        notes.extend((row.kind == "directory").then(|| Count(row.files).of("file", "files")));
        notes.extend(row.directory.as_ref().map(|then| format!("then in {}", readable(then))));
        notes.extend((!old_names.is_empty()).then(|| format!("before: {}", old_names.join(", "))));
        let note = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
        let size = Bytes(row.size_bytes).to_string();
        writeln!(out, "{:<19} {size:>10} {}{slash}{note}", row.seen, readable(&row.names[0]))?;
    }
    writeln!(out, "'firn undelete {} NAME' gives one back, --all everything", shell_word(&args.directory))
}
