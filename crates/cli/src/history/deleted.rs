//! Finds deleted files: names in states whose files the present no longer has.
//!
//! A name that is gone may have been moved elsewhere. The daemon tells the mount's owner and root which inodes still exist. For
//! other users, a file counts as deleted if its own directory no longer has it.

use super::find::{Entry, entries_of, find_by_number};
use super::identity::{Facts, Identity, facts_at, facts_of};
use super::place::Place;
use super::service::{BIRTHS_OP, BirthsRequest};
use super::states::State;
use crate::failure::{Done, Failure};
use crate::progress::Bar;
use crate::sizes::Count;
use firnfs_fuse::control::Client;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::CWD;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Something that was deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deleted {
    /// Its last path below the root of the volume.
    pub below: PathBuf,
    /// All names that it had in that directory, the last one first.
    pub names: Vec<OsString>,
    /// The newest state that has it.
    pub state: usize,
    /// Its facts in that state.
    pub facts: Facts,
}

/// Finds what was deleted in a directory, by name; also from the time when the directory had another path.
///
/// # Errors
/// A directory cannot be read.
pub fn deleted_in(place: &Place, states: &[State]) -> Done<Vec<Deleted>> {
    let now = entries_of(&place.now())?.unwrap_or_default();
    let mut found = Found::new(place, &now);
    let mut directory = Followed::new(place)?;
    let bar = Bar::of_entries();
    for (at, state) in states.iter().enumerate().rev() {
        bar.show((states.len() - at) as u64, states.len() as u64, "states");
        for then in directory.places_in(state)? {
            for entry in entries_of(&then.then(state))?.unwrap_or_default() {
                found.consider(&then, state, at, &entry)?;
            }
        }
    }
    found.without_the_living()
}

/// Finds what was deleted below a directory and has a name that fits a pattern, except directories. Sorted by path.
///
/// # Errors
/// A directory cannot be read.
pub fn below_matching(place: &Place, states: &[State], pattern: &str) -> Done<Vec<Deleted>> {
    let bar = Bar::of_entries();
    let mut names = 0;
    let mut by_directory: FxHashMap<PathBuf, Found> = FxHashMap::default();
    for (at, state) in states.iter().enumerate().rev() {
        let mut pending = vec![place.below.clone()];
        while let Some(directory) = pending.pop() {
            let here = place.at(directory.clone());
            let entries = entries_of(&here.then(state))?.unwrap_or_default();
            names += entries.len() as u64;
            let (nth, of) = ((states.len() - at) as u64, states.len() as u64);
            bar.show(nth, of, format_args!("states, {}", Count(names).of("name", "names")));
            for entry in entries {
                if entry.is_dir {
                    pending.push(directory.join(OsStr::from_bytes(&entry.name)));
                } else if fits(pattern.as_bytes(), &entry.name) {
                    if !by_directory.contains_key(&directory) {
                        let now = entries_of(&here.now())?.unwrap_or_default();
                        by_directory.insert(directory.clone(), Found::new(&here, &now));
                    }
                    if let Some(found) = by_directory.get_mut(&directory) {
                        found.consider(&here, state, at, &entry)?;
                    }
                }
            }
        }
    }
    let mut all = Vec::new();
    for found in by_directory.into_values() {
        all.extend(found.without_the_living()?);
    }
    all.sort_unstable_by(|a, b| a.below.cmp(&b.below));
    Ok(all)
}

/// True if a name fits a pattern, in which `*` stands for any text and `?` for one byte. Takes time in proportion to both lengths.
pub fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    // Where the pattern continues after its last star, and where the text of that star ends so far.
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match (pattern.get(at), &mut star) {
            (Some(b'*'), _) => {
                at += 1;
                star = Some((at, read));
            }
            (Some(letter), _) if *letter == b'?' || *letter == name[read] => {
                at += 1;
                read += 1;
            }
            (_, Some((after, end))) => {
                *end += 1;
                (at, read) = (*after, *end);
            }
            (_, None) => return false,
        }
    }
    pattern[at..].iter().all(|letter| *letter == b'*')
}

/// A directory that is followed back through the states, from the newest to the oldest: it may have other paths in other states.
struct Followed {
    place: Place,
    /// The identity of the directory, once a state or the present has it.
    identity: Option<Identity>,
    /// Where it was last found.
    below: PathBuf,
    /// A state that must have it did not show it: this user may not look everywhere.
    is_lost: bool,
}

impl Followed {
    fn new(place: &Place) -> Done<Self> {
        let identity = directory_at(&place.now())?;
        Ok(Self { place: place.clone(), identity, below: place.below.clone(), is_lost: false })
    }

    /// The places to look at in a state: the path itself, whatever directory is there, and the path that the directory had then.
    fn places_in(&mut self, state: &State) -> Done<Vec<Place>> {
        let mut places = vec![self.place.clone()];
        let at_path = directory_at(&self.place.then(state))?;
        // If the directory is gone, the newest state that has the path says which directory it was.
        let Some(wanted) = self.identity.or(at_path) else { return Ok(places) };
        self.identity = Some(wanted);
        if at_path == Some(wanted) {
            self.below.clone_from(&self.place.below);
        } else if !self.is_lost && i128::from(state.not_after.0) >= wanted.birth_ns {
            match find_by_number(&self.place.root_of(state), wanted, &self.below)? {
                Some((below, _)) => {
                    self.below.clone_from(&below);
                    places.push(self.place.at(below));
                }
                None => self.is_lost = true,
            }
        }
        Ok(places)
    }
}

/// The directory at a path; `None` if there is none, or this user may not know.
fn directory_at(path: &Path) -> Done<Option<Identity>> {
    match facts_at(CWD, path) {
        Ok(facts) => Ok(facts.filter(Facts::is_dir).map(|facts| facts.identity)),
        Err(Errno::ACCESS) => Ok(None),
        Err(errno) => Err(Failure::io("cannot examine", path, &errno.into())),
    }
}

/// What was found so far of one directory, in states from the newest to the oldest.
struct Found {
    place: Place,
    /// Names and numbers that the directory has now.
    names_now: FxHashSet<Vec<u8>>,
    numbers_now: FxHashSet<u64>,
    /// Names and numbers that have been examined.
    seen: FxHashSet<(Vec<u8>, u64)>,
    list: Vec<Deleted>,
    by_identity: FxHashMap<Identity, usize>,
    by_name: FxHashSet<Vec<u8>>,
}

impl Found {
    fn new(place: &Place, now: &[Entry]) -> Self {
        Self {
            place: place.clone(),
            names_now: now.iter().map(|entry| entry.name.clone()).collect(),
            numbers_now: now.iter().map(|entry| entry.ino).collect(),
            seen: FxHashSet::default(),
            list: Vec::new(),
            by_identity: FxHashMap::default(),
            by_name: FxHashSet::default(),
        }
    }

    /// Looks at an entry of an older state.
    fn consider(&mut self, place: &Place, state: &State, at: usize, entry: &Entry) -> Done {
        if self.names_now.contains(&entry.name) || !self.seen.insert((entry.name.clone(), entry.ino)) {
            return Ok(());
        }
        let name = OsString::from_vec(entry.name.clone());
        let below = place.below.join(&name);
        let Some(facts) = facts_of(&place.at(below.clone()).then(state))? else { return Ok(()) };
        if let Some(&known) = self.by_identity.get(&facts.identity) {
            self.list[known].names.push(name);
        } else if self.by_name.insert(entry.name.clone()) {
            self.by_identity.insert(facts.identity, self.list.len());
            self.list.push(Deleted { below, names: vec![name], state: at, facts });
        }
        Ok(())
    }

    /// Leaves out files that were only moved.
    fn without_the_living(self) -> Done<Vec<Deleted>> {
        let identities: Vec<Identity> = self.list.iter().map(|deleted| deleted.facts.identity).collect();
        let living = living(&self.place, &identities);
        let is_gone = |deleted: &Deleted| match &living {
            Some(living) => !living.contains(&deleted.facts.identity),
            None => !self.numbers_now.contains(&deleted.facts.identity.ino),
        };
        let mut list: Vec<Deleted> = self.list.into_iter().filter(is_gone).collect();
        list.sort_unstable_by(|a, b| a.below.cmp(&b.below));
        Ok(list)
    }
}

/// The files that still exist, under any name; `None` if the daemon does not tell this user.
fn living(place: &Place, identities: &[Identity]) -> Option<FxHashSet<Identity>> {
    if identities.is_empty() {
        return None;
    }
    let request = BirthsRequest { inodes: identities.iter().map(|identity| identity.ino).collect() };
    let request = serde_json::to_value(request).ok()?;
    let births: Vec<Option<i64>> = Client::for_mount(&place.mount).ok()?.ask(BIRTHS_OP, request).ok()?;
    let is_living =
        |(identity, birth_ns): &(&Identity, Option<i64>)| *birth_ns == i64::try_from(identity.birth_ns).ok();
    Some(identities.iter().zip(births).filter(is_living).map(|(identity, _)| *identity).collect())
}

/// The size of a file, or of all files in a directory, and the number of those.
///
/// # Errors
/// A directory cannot be read.
pub fn size_of(path: &Path, facts: &Facts) -> Done<(u64, u64)> {
    if !facts.is_dir() {
        return Ok((facts.size_bytes, 1));
    }
    let (mut bytes, mut files) = (0, 0);
    let mut pending = vec![path.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in entries_of(&directory)?.unwrap_or_default() {
            let path = directory.join(OsStr::from_bytes(&entry.name));
            if entry.is_dir {
                pending.push(path);
            } else if let Some(facts) = facts_of(&path)? {
                bytes += facts.size_bytes;
                files += 1;
            }
        }
    }
    Ok((bytes, files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_as_in_a_shell() {
        let fits = |pattern: &str, name: &str| fits(pattern.as_bytes(), name.as_bytes());
        for (pattern, name) in
            [("*.odt", "a.odt"), ("*", ""), ("a?c*", "abcdef"), ("*a*b", "xaxaxb"), ("plain", "plain")]
        {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*.odt", "a.odt~"), ("?", ""), ("a", "b"), ("", "a"), ("*a*b", "xbxa")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
        // The matcher does not try all ways in which the stars can share the name.
        assert!(!fits(&"*a".repeat(40), &("a".repeat(200) + "b")));
    }
}
