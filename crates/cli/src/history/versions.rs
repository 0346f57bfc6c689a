//! `firn log FILE`: the versions of a file that the states of its volume show.

use super::find::find_by_number;
use super::identity::{Facts, Identity, facts_of};
use super::log::LogArgs;
use super::place::{Place, join};
use super::snapshot::shown;
use super::states::{State, States};
use super::when;
use crate::failure::{Done, Failure};
use crate::names::{readable, shell_word};
use crate::output::{Output, write_two_parts};
use crate::progress::Bar;
use crate::sizes::{Bytes, Count};
use crate::tell::tell;
use firnfs_format::TimeNs;
use firnfs_lab::calendar::rfc3339;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The name of the present in outputs.
const PRESENT: &str = "now";

/// The file in one state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sight {
    /// Its path below the root of the volume.
    pub below: PathBuf,
    /// Its facts.
    pub facts: Facts,
}

/// A version: neighbouring states in which the file has the same content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Version {
    sight: Sight,
    /// The index of the oldest state that has it; the index after the last state is the present.
    first: usize,
    /// The newest one.
    last: usize,
}

/// The versions of a file.
#[derive(Serialize)]
struct View {
    /// The path on the command line.
    path: String,
    /// Newest first.
    versions: Vec<Row>,
    /// States that this user may not look into.
    hidden_states: u64,
}

/// A version of a file.
#[derive(Serialize)]
struct Row {
    /// The path that it had then, below the root of the volume.
    name: String,
    /// The path at which it can be read, unless it is the present one.
    read_at: String,
    /// `file`, `directory`, `symlink` or `other`.
    kind: &'static str,
    /// Number of its inode.
    inode: u64,
    /// Its size.
    size_bytes: u64,
    /// When its content was changed.
    mtime: String,
    /// The oldest state that has it.
    first_state: String,
    /// The newest one; `now` for the present.
    last_state: String,
    #[serde(skip)]
    time: TimeNs,
    #[serde(skip)]
    place: PathBuf,
    #[serde(skip)]
    note: String,
}

/// Runs the command.
///
/// # Errors
/// The path is on no mount with history, or no state has it.
pub fn run(args: &LogArgs, output: &mut Output) -> Done {
    let place = Place::of(&args.path)?;
    let states = place.states()?;
    let (mut sights, hidden) = look(&place, &states.list)?;
    if args.all {
        follow(&place, &states.list, &mut sights)?;
    }
    let versions = versions_of(&sights);
    if versions.is_empty() {
        return Err(not_found(&args.path, &states, hidden));
    }
    let rows = rows(&place, &states.list, &versions);
    if args.null {
        if hidden > 0 {
            tell(closed(hidden));
        }
        return output.names(rows.iter().map(|row| &row.place));
    }
    let view = View { path: shown(&args.path), versions: rows, hidden_states: hidden };
    output.show(args.json, &view, |out| write(out, &view))
}

/// The failure of a path that neither the present nor a state has.
fn not_found(path: &Path, states: &States, hidden: u64) -> Failure {
    let path = readable(path);
    if states.list.is_empty() {
        let none = states.none_kept();
        return Failure { message: format!("{path} is not there now, and {}", none.message), ..none };
    }
    let past = match states.list.len() {
        1 => "its one state".to_owned(),
        count => format!("one of {count} states"),
    };
    let failure = Failure::failed(format!("{path}: neither the present nor {past} has it"));
    failure.advise(match hidden {
        0 => format!("'firn log {}' lists the states", shell_word(states.place())),
        _ => closed(hidden),
    })
}

/// What each state and, after them, the present have at the path; and the number of states that are closed to this user.
fn look(place: &Place, states: &[State]) -> Done<(Vec<Option<Sight>>, u64)> {
    let mut hidden = 0;
    let mut sights = Vec::with_capacity(states.len() + 1);
    for path in states.iter().map(|state| place.then(state)).chain([place.now()]) {
        let facts = match rustix::fs::access(path.parent().unwrap_or(&path), rustix::fs::Access::EXEC_OK) {
            Err(rustix::io::Errno::ACCESS) => {
                hidden += 1;
                None
            }
            _ => facts_of(&path)?,
        };
        sights.push(facts.map(|facts| Sight { below: place.below.clone(), facts }));
    }
    Ok((sights, hidden))
}

/// Follows the newest file of that path into the states in which the path leads elsewhere.
fn follow(place: &Place, states: &[State], sights: &mut [Option<Sight>]) -> Done {
    let Some(wanted) = sights.iter().flatten().next_back().map(|sight| sight.facts.identity) else {
        return Ok(());
    };
    let bar = Bar::of_entries();
    let total = sights.len() as u64;
    // Most likely the file is near the place that it had in the state before.
    let mut near = place.below.clone();
    for at in (0..sights.len()).rev() {
        bar.show(total - at as u64, total, "states");
        if !is_it(sights[at].as_ref(), wanted) {
            let root =
                states.get(at).map_or_else(|| place.mount.mountpoint.clone(), |state| place.root_of(state));
            if let Some((below, facts)) = find_by_number(&root, wanted, &near)? {
                sights[at] = Some(Sight { below, facts });
            }
        }
        if let Some(sight) = sights[at].as_ref().filter(|sight| is_it(Some(sight), wanted)) {
            near.clone_from(&sight.below);
        }
    }
    Ok(())
}

fn is_it(sight: Option<&Sight>, wanted: Identity) -> bool {
    sight.is_some_and(|sight| sight.facts.identity == wanted)
}

/// Joins neighbouring states with the same content; newest first.
fn versions_of(sights: &[Option<Sight>]) -> Vec<Version> {
    let mut versions: Vec<Version> = Vec::new();
    for (at, sight) in sights.iter().enumerate() {
        let Some(sight) = sight else { continue };
        match versions.last_mut() {
            Some(version) if version.last + 1 == at && is_same(&version.sight, sight) => version.last = at,
            _ => versions.push(Version { sight: sight.clone(), first: at, last: at }),
        }
    }
    versions.reverse();
    versions
}

fn is_same(a: &Sight, b: &Sight) -> bool {
    a.below == b.below && a.facts.identity == b.facts.identity && a.facts.has_content_of(&b.facts)
}

fn rows(place: &Place, states: &[State], versions: &[Version]) -> Vec<Row> {
    let name = |at: usize| states.get(at).map_or_else(|| PRESENT.to_owned(), |state| state.name.clone());
    let root = |at: usize| {
        states.get(at).map_or_else(|| place.mount.mountpoint.clone(), |state| place.root_of(state))
    };
    let newest = versions.first().map(|version| version.sight.facts.identity);
    let row = |(n, version): (usize, &Version)| {
        let facts = &version.sight.facts;
        let read_at = join(&root(version.last), &version.sight.below);
        let mut notes = Vec::new();
        // The next newer version begins later, so the name was gone in between.
        let gone_in = match n.checked_sub(1) {
            None if version.last < states.len() => {
                Some(states.get(version.last + 1).map_or(PRESENT, |s| &s.name))
            }
            Some(newer) if versions[newer].first > version.last + 1 => {
                Some(states[version.last + 1].name.as_str())
            }
            _ => None,
        };
        notes.extend(gone_in.map(|state| format!("gone in {state}")));
        if version.sight.below != place.below {
            notes.push(format!("as {}", readable(&version.sight.below)));
        } else if Some(facts.identity) != newest {
            notes.push("another file".to_owned());
        }
        Row {
            name: shown(&version.sight.below),
            read_at: shown(&read_at),
            kind: facts.kind(),
            inode: facts.identity.ino,
            size_bytes: facts.size_bytes,
            mtime: rfc3339(facts.mtime_ns()),
            first_state: name(version.first),
            last_state: name(version.last),
            time: TimeNs(facts.mtime_ns()),
            place: read_at,
            note: notes.join(", "),
        }
    };
    versions.iter().enumerate().map(row).collect()
}

fn write(out: &mut dyn Write, view: &View) -> io::Result<()> {
    writeln!(out, "{:<19} {:>10} states", "changed", "size")?;
    for row in &view.versions {
        let states = match row.first_state == row.last_state {
            true => row.last_state.clone(),
            false => format!("{} to {}", row.first_state, row.last_state),
        };
        let head =
            format!("{:<19} {:>10} {states}", when::local(row.time), Bytes(row.size_bytes).to_string());
        match row.note.as_str() {
            "" => writeln!(out, "{head}")?,
            note => write_two_parts(out, &head, &format!("({note})"))?,
        }
    }
    match view.hidden_states {
        0 => Ok(()),
        hidden => writeln!(out, "{}", closed(hidden)),
    }
}

fn closed(states: u64) -> String {
    format!("{} not open to you here", Count(states).of("state is", "states are"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(name: &str, ino: u64, mtime: i64) -> Option<Sight> {
        let identity = Identity { ino, birth_ns: 0 };
        let facts = Facts {
            identity,
            mode: 0o100_644,
            links: 1,
            owner: (0, 0),
            size_bytes: 7,
            allocated_bytes: 0,
            atime: (0, 0),
            mtime: (mtime, 0),
            ctime: (mtime, 0),
            rdev: (0, 0),
        };
        Some(Sight { below: name.into(), facts })
    }

    #[test]
    fn a_version_lasts_as_long_as_neighbouring_states_show_the_same() {
        let sights = [
            None,
            sight("a", 1, 10),
            sight("a", 1, 10),
            sight("a", 1, 20),
            None,
            sight("a", 1, 20),
            sight("b", 1, 20),
            sight("a", 2, 20),
        ];
        let spans: Vec<(usize, usize)> = versions_of(&sights).iter().map(|v| (v.first, v.last)).collect();
        assert_eq!(spans, [(7, 7), (6, 6), (5, 5), (3, 3), (1, 2)]);
    }
}
