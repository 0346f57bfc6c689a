//! Finds the inodes that differ between two states, and the names that lead to them. `firn diff` asks the daemon for both, so
//! that it need not list directories in which nothing changed.
//!
//! Inodes do not say where they are, so the daemon goes through all names of the newer state. It does so in memory, a few hundred
//! names of each of several directories at a time: their reads are under way together, and the volume serves others in between.
//!
//! Invariant: a name is in the answer exactly if its inode differs. So everything else in a directory that does not differ itself
//! is the same in both states.

use super::identity::{Facts, Identity, number_of};
use super::service::ChangedRequest;
use firnfs::inode::Kind;
use firnfs::lfs::Lfs;
use firnfs::states::{in_view, view_of};
use firnfs::store::Store;
use firnfs::vfs::{Attr, Vfs};
use firnfs::{Fetch, FsError, Outcome, Stop};
use firnfs_format::{Epoch, InodeNo, TimeNs};
use firnfs_manage::LogVolume;
use firnfs_volume::Volume;
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Directories that are listed at once.
const DIRECTORIES_AT_ONCE: usize = 64;
/// Names of a directory that one turn takes.
const NAMES_A_TURN: usize = 128;
/// Inodes that are examined in one turn.
const INODES_A_TURN: usize = 256;
/// Bytes of paths in an answer. More are not worth it, and a line of the control socket holds no more than twice that.
const PATHS_MAX_BYTES: usize = 4 << 20;
/// Names whose facts are in an answer.
const FACTS_MAX: usize = 8_000;

/// What differs between two states, as the daemon answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChangedView {
    /// The numbers of all inodes that differ.
    inodes: Vec<u64>,
    /// Names below the requested directory that lead to them in the newer state; `None` if they are too many.
    names: Option<Vec<ChangedName>>,
}

/// A name of an inode that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct ChangedName {
    /// The path from the requested directory, one character for each byte: names need not be UTF-8.
    path: String,
    /// What both states have under its number; `None` if one of them has nothing, or the daemon did not look.
    facts: Option<(Facts, Facts)>,
}

/// The command's side.
#[derive(Clone, Debug)]
pub struct Changed {
    inodes: FxHashSet<u64>,
    /// By directory; `None` if the daemon did not name them.
    leads: Option<FxHashMap<PathBuf, BTreeMap<OsString, Lead>>>,
}

/// Why a name in a directory that does not differ is worth a look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lead {
    /// Its inode differs. Has its facts in both trees, if the daemon knows them.
    Changed(Option<Box<(Facts, Facts)>>),
    /// It leads to a directory that does not differ, but has changes below it.
    Inner,
}

impl From<ChangedView> for Changed {
    fn from(view: ChangedView) -> Self {
        let leads = view.names.map(|names| {
            let mut leads: FxHashMap<PathBuf, BTreeMap<OsString, Lead>> = FxHashMap::default();
            for ChangedName { path, facts } in names {
                let path: PathBuf =
                    OsString::from_vec(path.chars().map(|letter| letter as u8).collect()).into();
                let mut lead = Lead::Changed(facts.map(Box::new));
                for (name, parent) in path.iter().rev().zip(path.ancestors().skip(1)) {
                    let here = leads.entry(parent.to_owned()).or_default();
                    let is_known = here.contains_key(name);
                    if !is_known || lead != Lead::Inner {
                        here.insert(name.to_owned(), lead);
                    }
                    if is_known {
                        break;
                    }
                    lead = Lead::Inner;
                }
            }
            leads
        });
        Self { inodes: view.inodes.into_iter().collect(), leads }
    }
}

impl Changed {
    /// True if an inode with this number differs.
    pub fn contains(&self, ino: u64) -> bool {
        self.inodes.contains(&ino)
    }

    /// True if the daemon said which names lead to changes.
    pub fn has_leads(&self) -> bool {
        self.leads.is_some()
    }

    /// Names that are worth a look in a directory that does not differ.
    pub fn leads_in(&self, directory: &Path) -> Option<&BTreeMap<OsString, Lead>> {
        self.leads.as_ref()?.get(directory)
    }

    /// The same for trees with different roots, where a path below one root is no path below the other.
    #[must_use]
    pub fn without_leads(self) -> Self {
        Self { leads: None, ..self }
    }
}

/// The path of a name, and the number that it leads to.
type Found = (Vec<u8>, u64);

/// A directory that is being listed.
struct Open {
    ino: InodeNo,
    path: Vec<u8>,
    cookie: u64,
    is_done: bool,
}

impl Open {
    fn new(ino: InodeNo, path: Vec<u8>) -> Self {
        Self { ino, path, cookie: 0, is_done: false }
    }
}

/// The daemon's side.
///
/// # Errors
/// `NotFound` if a state is not retained; `Io`, `Corrupt`.
pub fn changed(volume: &Volume<Lfs>, request: &ChangedRequest) -> Result<ChangedView, FsError> {
    let (first, second) = (Epoch(request.first), request.second.map(Epoch));
    let differing = volume.differing_inodes(first, second)?;
    let inodes: Vec<u64> = differing.iter().map(|differing| differing.ino.0).collect();
    // If damage is in the command's way, the command meets it itself.
    let names = names(volume, request, &inodes.iter().copied().collect()).unwrap_or(None);
    Ok(ChangedView { inodes, names })
}

fn names(
    volume: &Volume<Lfs>,
    request: &ChangedRequest,
    wanted: &FxHashSet<u64>,
) -> Result<Option<Vec<ChangedName>>, FsError> {
    let view = |epoch: u32| {
        let root = volume.run_quietly(|vfs, _| vfs.store_mut().look_into(Epoch(epoch)))?;
        Ok::<u16, FsError>(view_of(root))
    };
    let (old_view, new_view) = (view(request.first)?, request.second.map(view).transpose()?.unwrap_or(0));
    let top = Open::new(in_view(new_view, InodeNo(request.below)), Vec::new());
    let Some(found) = names_below(volume, top, wanted)? else { return Ok(None) };
    let numbers: Vec<u64> = found.iter().map(|(_, number)| *number).collect();
    // The kernel may know more about files of the present than the daemon does.
    let facts = if request.second.is_some() && numbers.len() <= FACTS_MAX {
        let (old, new) = (facts_in(volume, old_view, &numbers)?, facts_in(volume, new_view, &numbers)?);
        old.into_iter().zip(new).map(|(old, new)| old.zip(new)).collect()
    } else {
        vec![None; numbers.len()]
    };
    let text = |path: Vec<u8>| path.into_iter().map(char::from).collect();
    let named =
        found.into_iter().zip(facts).map(|((path, _), facts)| ChangedName { path: text(path), facts });
    Ok(Some(named.collect()))
}

/// All names below a directory that lead to some inodes; `None` if they are too many.
fn names_below(
    volume: &Volume<Lfs>,
    top: Open,
    wanted: &FxHashSet<u64>,
) -> Result<Option<Vec<Found>>, FsError> {
    let (mut pending, mut open, mut found, mut bytes) = (vec![top], Vec::new(), Vec::new(), 0);
    while !pending.is_empty() || !open.is_empty() {
        let room = DIRECTORIES_AT_ONCE - open.len();
        open.extend(pending.drain(pending.len().saturating_sub(room)..));
        volume.run_quietly(|vfs, now| {
            list_on(vfs, now, &mut open, &mut |path, ino, kind| {
                let number = number_of(ino.0);
                let is_wanted = wanted.contains(&number);
                if is_wanted || kind == Kind::Directory {
                    let path = path();
                    if is_wanted {
                        bytes += path.len();
                        found.push((path.clone(), number));
                    }
                    if kind == Kind::Directory {
                        pending.push(Open::new(ino, path));
                    }
                }
            })
        })?;
        open.retain(|directory| !directory.is_done);
        if bytes > PATHS_MAX_BYTES {
            return Ok(None);
        }
    }
    Ok(Some(found))
}

/// Lists some names of each of the directories. `visit` gets the parts of a name's path, its inode and kind. It gets each name
/// once, even if the call fails and is repeated.
fn list_on(
    vfs: &mut Vfs<Lfs>,
    now: TimeNs,
    open: &mut [Open],
    visit: &mut impl FnMut(&dyn Fn() -> Vec<u8>, InodeNo, Kind),
) -> Outcome<()> {
    let mut needs: Vec<Fetch> = Vec::new();
    for Open { ino, path, cookie, is_done } in open.iter_mut().filter(|directory| !directory.is_done) {
        let mut left = NAMES_A_TURN;
        let from = *cookie;
        let listed = vfs.readdir(now, *ino, from, &mut |entry| {
            *cookie = entry.next;
            left -= 1;
            if entry.name != b"." && entry.name != b".." {
                let below = || [&**path, if path.is_empty() { b"" } else { b"/" }, entry.name].concat();
                visit(&below, entry.ino, entry.kind);
            }
            left > 0
        });
        match listed {
            // A directory that was removed meanwhile has no more names.
            Ok(()) | Err(Stop::Fail(FsError::NotFound)) => *is_done = *cookie == from,
            Err(Stop::Need(more)) => needs.extend(more),
            Err(stop) => return Err(stop),
        }
    }
    if needs.is_empty() { Ok(()) } else { Err(Stop::Need(needs)) }
}

/// The facts of some inodes in a view.
fn facts_in(volume: &Volume<Lfs>, view: u16, numbers: &[u64]) -> Result<Vec<Option<Facts>>, FsError> {
    let mut all = Vec::with_capacity(numbers.len());
    for numbers in numbers.chunks(INODES_A_TURN) {
        let examine = |vfs: &mut Vfs<Lfs>| {
            let (mut facts, mut needs) = (Vec::with_capacity(numbers.len()), Vec::new());
            for number in numbers {
                match vfs.getattr(in_view(view, InodeNo(*number))) {
                    Ok(attr) => facts.push(Some(facts_of(&attr))),
                    Err(Stop::Fail(FsError::NotFound)) => facts.push(None),
                    Err(Stop::Need(more)) => needs.extend(more),
                    Err(stop) => return Err(stop),
                }
            }
            if needs.is_empty() { Ok(facts) } else { Err(Stop::Need(needs)) }
        };
        all.append(&mut volume.run_quietly(|vfs, _| examine(vfs))?);
    }
    Ok(all)
}

/// As statx(2) shows it.
fn facts_of(attr: &Attr) -> Facts {
    let time = |TimeNs(ns): TimeNs| (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000) as u32);
    Facts {
        identity: Identity { ino: number_of(attr.ino.0), birth_ns: attr.btime.0.into() },
        // Kinds have the numbers that directory entries use.
        mode: (attr.kind as u32) << 12 | u32::from(attr.mode),
        links: attr.nlink,
        owner: (attr.uid, attr.gid),
        size_bytes: attr.size_bytes,
        allocated_bytes: attr.allocated_bytes,
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        rdev: ((attr.rdev >> 32) as u32, attr.rdev as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_directory_leads_to_what_differs_below_it_and_to_nothing_else() {
        let name = |path: &str| ChangedName { path: path.to_owned(), facts: None };
        // A byte that is no UTF-8 is a character here.
        let names = vec![name("a/b/f"), name("a/b"), name("a/g"), name("x\u{ff}")];
        let changed = Changed::from(ChangedView { inodes: vec![7], names: Some(names) });
        let leads = |directory: &str| {
            let leads = changed.leads_in(Path::new(directory)).into_iter().flatten();
            leads.map(|(name, lead)| (name.as_bytes().to_vec(), lead.clone())).collect::<Vec<_>>()
        };
        let differs = Lead::Changed(None);
        assert_eq!(leads(""), [(b"a".to_vec(), Lead::Inner), (b"x\xff".to_vec(), differs.clone())]);
        assert_eq!(leads("a"), [(b"b".to_vec(), differs.clone()), (b"g".to_vec(), differs.clone())]);
        assert_eq!(leads("a/b"), [(b"f".to_vec(), differs)]);
        assert_eq!(leads("c"), []);
        assert!(changed.contains(7) && !changed.contains(8) && changed.has_leads());
        assert!(!changed.without_leads().has_leads());
    }
}
