//! `firn diff`: what changed between two states of a volume, or between a state and the present.

use super::changed::{Changed, ChangedView};
use super::compare::{Change, How, Modes, What, compare};
use super::identity::facts_of;
use super::place::{Place, split_state};
use super::restore::not_in;
use super::service::{CHANGED_OP, ChangedRequest};
use super::snapshot::shown;
use super::states::State;
use crate::completion::values;
use crate::failure::{Done, Failure};
use crate::names::readable;
use crate::output::Output;
use crate::sizes::{Bytes, Count};
use crate::tell::tell;
use clap::Args;
use firnfs_fuse::control::Client;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::iter;
use std::path::{Path, PathBuf};

/// Arguments of `firn diff`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn diff /mnt@yesterday                     what changed since then
  firn diff /mnt@before-upgrade /mnt@after     between two states
  firn diff /mnt/work@\"2 hours ago\" --stat     how much changed in a directory
  firn diff /mnt@yesterday --null | while IFS= read -rd '' sign; do ...
                                               for scripts, in bash

Each line begins with a sign:
  +  added
  -  removed
  M  the content changed
  a  only permissions, owner, modification time or extended attributes changed
  R  renamed: old -> new

Names are followed by their inode numbers: a file that got another name is renamed, one that was written anew under the same
name is changed. Links are not followed. Directories whose entries alone changed are not named. What was changed and changed back is
not named, except to users who are neither root nor the owner of the mount: they are not told which permissions were taken away
since.

--null prints the sign, then the path, of a renamed file first its old path and then its new one, each ended by NUL.")]
pub struct DiffArgs {
    /// The older tree: MOUNT@STATE, or a path on a mount with @STATE; the state is a name or a time
    #[arg(add = values::mounts_at())]
    pub old: OsString,
    /// The newer one [default: the same path in the present]
    #[arg(add = values::mounts_at())]
    pub new: Option<OsString>,
    /// Only numbers
    #[arg(long)]
    pub stat: bool,
    /// Print fields that end with NUL
    #[arg(long, conflicts_with_all = ["json", "stat"])]
    pub null: bool,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// How two trees differ.
#[derive(Serialize)]
struct View {
    /// The older tree.
    old_tree: String,
    /// By path; empty with `--stat`.
    new_tree: String,
    /// By path; none with `--stat`.
    differences: Vec<Row>,
    /// Totals of each kind of difference.
    difference_totals: Vec<Total>,
    /// Directories that this user may not read in one of the trees.
    hidden_directories: u64,
}

/// A difference.
#[derive(Serialize)]
struct Row {
    /// `added`, `removed`, `changed`, `attributes` or `renamed`.
    difference: &'static str,
    /// The path below the newer tree; for a removed name, below the older one.
    path: String,
    /// The path below the older tree, if it differs.
    old_path: Option<String>,
    /// `file`, `directory`, `symlink` or `other`.
    kind: &'static str,
    /// Size in the newer tree; null if it was removed.
    new_size_bytes: Option<u64>,
    /// Size in the older one; null if it was added.
    old_size_bytes: Option<u64>,
}

/// All differences of a kind.
#[derive(Serialize)]
struct Total {
    /// `added`, `removed`, `changed`, `attributes` or `renamed`.
    difference: &'static str,
    /// Names of files.
    files: u64,
    /// Names of directories.
    directories: u64,
    /// Sizes of the files in the newer tree.
    new_size_bytes: u64,
    /// Sizes of the files in the older tree.
    old_size_bytes: u64,
}

const ALL: [What; 5] = [What::Added, What::Removed, What::Changed, What::Attributes, What::Renamed];

/// Runs the command.
///
/// # Errors
/// A tree is on no mount with history, or does not exist; the trees are of different volumes.
pub fn run(args: &DiffArgs, output: &mut Output) -> Done {
    let (old, place, old_state) = tree(&args.old)?;
    let (new, new_place, new_state) = match &args.new {
        Some(new) => tree(new)?,
        None => (place.now(), place.clone(), None),
    };
    if new_place.mount.device != place.mount.device {
        return Err(
            Failure::usage("the two trees are of different volumes").advise("diff -r compares any two")
        );
    }
    if old == new {
        return Err(Failure::usage("both trees are the same").advise("name a state: firn diff MOUNT@STATE"));
    }
    let changed = changed(&place, (&old, &new), old_state.as_ref(), new_state.as_ref())?;
    let modes = (Modes::of(&place, old_state.as_ref()), Modes::of(&new_place, new_state.as_ref()));
    let found = compare(&old, &new, changed.as_ref(), How { modes, is_exact: false })?;
    if args.null {
        if found.hidden > 0 {
            tell(closed(found.hidden));
        }
        return output.names(found.changes.iter().flat_map(fields));
    }
    let rows = if args.stat { Vec::new() } else { found.changes.iter().map(row).collect() };
    let totals: Vec<Total> = ALL.into_iter().map(|what| total(what, &found.changes)).collect();
    let (old_tree, new_tree) = (
        shown(Path::new(&args.old)),
        args.new.as_ref().map_or_else(|| shown(&new), |new| shown(Path::new(new))),
    );
    let view = View {
        old_tree,
        new_tree,
        differences: rows,
        difference_totals: totals,
        hidden_directories: found.hidden,
    };
    output.show(args.json, &view, |out| {
        if args.stat {
            write_totals(out, &view.difference_totals)?;
        } else {
            found.changes.iter().try_for_each(|change| write_line(out, change))?;
        }
        match found.hidden {
            0 => Ok(()),
            hidden => writeln!(out, "{}", closed(hidden)),
        }
    })
}

fn closed(directories: u64) -> String {
    let directories = Count(directories).of("directory is", "directories are");
    format!("{directories} not open to you")
}

/// The path of a tree on the command line, and its place on the mount.
fn tree(text: &OsString) -> Done<(PathBuf, Place, Option<State>)> {
    let (path, state) = split_state(text);
    let place = Place::of(&path)?;
    let state = state.map(|word| place.states()?.find(&word).cloned()).transpose()?;
    let tree = state.as_ref().map_or_else(|| place.now(), |state| place.then(state));
    if let Some(state) = &state
        && facts_of(&tree)?.is_none()
    {
        return Err(not_in(state, &path));
    }
    Ok((tree, place, state))
}

/// Asks the daemon for what differs between two states, or a state and the present. The daemon compares without reading what is
/// the same. `None` if this user may not ask it.
fn changed(
    place: &Place,
    (old_tree, new_tree): (&Path, &Path),
    old: Option<&State>,
    new: Option<&State>,
) -> Done<Option<Changed>> {
    let epoch = |state: Option<&State>| state.map(|state| state.told.map(|told| told.epoch));
    // Both directions find the same differences; the names are those of the second tree.
    let (first, second, is_turned) = match (epoch(old), epoch(new)) {
        (Some(Some(first)), Some(Some(second))) => (first, Some(second), false),
        (Some(Some(first)), None) => (first, None, false),
        (None, Some(Some(first))) => (first, None, true),
        _ => return Ok(None),
    };
    let (Some(old_root), Some(new_root)) = (facts_of(old_tree)?, facts_of(new_tree)?) else {
        return Ok(None);
    };
    let request = ChangedRequest { first, second, below: new_root.identity.ino };
    let ask = || {
        let request = serde_json::to_value(request).ok()?;
        let view: ChangedView = Client::for_mount(&place.mount).ok()?.ask(CHANGED_OP, request).ok()?;
        Some(Changed::from(view))
    };
    let has_leads = old_root.identity == new_root.identity && !is_turned;
    Ok(ask().map(|changed| if has_leads { changed } else { changed.without_leads() }))
}

fn sign(what: What) -> &'static str {
    match what {
        What::Added => "+",
        What::Removed => "-",
        What::Changed => "M",
        What::Attributes => "a",
        What::Renamed => "R",
    }
}

fn word(what: What) -> &'static str {
    match what {
        What::Added => "added",
        What::Removed => "removed",
        What::Changed => "changed",
        What::Attributes => "attributes",
        What::Renamed => "renamed",
    }
}

fn row(change: &Change) -> Row {
    let facts = change.new.or(change.old);
    Row {
        difference: word(change.what),
        path: shown(&change.path),
        old_path: change.old_path.as_deref().map(shown),
        kind: facts.map_or("other", |facts| facts.kind()),
        new_size_bytes: change.new.map(|facts| facts.size_bytes),
        old_size_bytes: change.old.map(|facts| facts.size_bytes),
    }
}

fn total(what: What, changes: &[Change]) -> Total {
    let mut total =
        Total { difference: word(what), files: 0, directories: 0, new_size_bytes: 0, old_size_bytes: 0 };
    for change in changes.iter().filter(|change| change.what == what) {
        if change.new.or(change.old).is_some_and(|facts| facts.is_dir()) {
            total.directories += 1;
            continue;
        }
        total.files += 1;
        total.new_size_bytes += change.new.map_or(0, |facts| facts.size_bytes);
        total.old_size_bytes += change.old.map_or(0, |facts| facts.size_bytes);
    }
    total
}

fn write_line(out: &mut dyn Write, change: &Change) -> io::Result<()> {
    let is_dir = change.new.or(change.old).is_some_and(|facts| facts.is_dir());
    let (path, slash) = (readable(&change.path), if is_dir { "/" } else { "" });
    match &change.old_path {
        Some(old) => writeln!(out, "{} {}{slash} -> {path}{slash}", sign(change.what), readable(old)),
        None => writeln!(out, "{} {path}{slash}", sign(change.what)),
    }
}

/// The fields that `--null` prints for a change.
fn fields(change: &Change) -> impl Iterator<Item = &OsStr> {
    let old_path = change.old_path.as_ref().filter(|_| change.what == What::Renamed);
    let paths = old_path.into_iter().chain([&change.path]);
    iter::once(OsStr::new(sign(change.what))).chain(paths.map(|path| path.as_os_str()))
}

fn write_totals(out: &mut dyn Write, totals: &[Total]) -> io::Result<()> {
    writeln!(
        out,
        "{:<12} {:>10} {:>12} {:>12} {:>12}",
        "", "files", "directories", "bytes before", "bytes now"
    )?;
    totals.iter().try_for_each(|total| {
        let [before, now] =
            [total.old_size_bytes, total.new_size_bytes].map(|bytes| Bytes(bytes).to_string());
        let (files, directories) = (Count(total.files), Count(total.directories));
        writeln!(out, "{:<12} {files:>10} {directories:>12} {before:>12} {now:>12}", total.difference)
    })
}
