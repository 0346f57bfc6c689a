//! Compares two trees of one volume, each the present or a state: walks both in step, and finds renames by inode numbers.
//!
//! If both trees have a name with the same inode, it is the same file. Equal times then say that nothing changed; where they differ,
//! `same` looks at content and attributes. The names that are left, with everything below them, are joined by their inodes: pairs are
//! renames. Links are not followed.
//!
//! Callers: `diff`, `rollback`.

mod same;

pub use same::{Modes, modes_then};

use super::changed::{Changed, Lead};
use super::find::{Entry, entries_of};
use super::identity::{Facts, Identity, facts_of};
use super::place::join;
use crate::failure::{Done, Failure};
use crate::names::readable;
use crate::progress::Bar;
use crate::sizes::Count;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Entries between two readings of the clock.
const LOOK_EVERY: u64 = 256;
/// Files whose full permissions one request to the daemon asks for.
const MODES_AT_ONCE: usize = 50_000;
/// Work that takes less shows no progress.
const HIDDEN_FOR: Duration = Duration::from_secs(1);

/// What happened to a name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum What {
    /// The old tree does not have it.
    Added,
    /// The new tree does not have it.
    Removed,
    /// Its content differs.
    Changed,
    /// Permissions, owner, modification time or extended attributes differ.
    Attributes,
    /// The file has another name.
    Renamed,
}

/// A difference between two trees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// What happened.
    pub what: What,
    /// The path below the new tree; for a removed name, below the old one.
    pub path: PathBuf,
    /// The path below the old tree, if it differs.
    pub old_path: Option<PathBuf>,
    /// What the old tree has.
    pub old: Option<Facts>,
    /// What the new tree has.
    pub new: Option<Facts>,
}

/// What a comparison may rely on.
#[derive(Clone, Copy, Debug)]
pub struct How<'a> {
    /// How the full permissions of the old and the new tree are known.
    pub modes: (Modes<'a>, Modes<'a>),
    /// Where only the ctime differs, reads the content even if something else explains that; and tells names of one file from names of
    /// several. Otherwise a modification time is believed.
    pub is_exact: bool,
}

/// How two trees differ.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Comparison {
    /// By path.
    pub changes: Vec<Change>,
    /// Directories that this user may not read in one of the trees.
    pub hidden: u64,
    /// Files with several names that have one of them in both trees, and that name.
    pub shared: FxHashMap<Identity, PathBuf>,
    /// Directories of both trees whose modification times differ, by their path below the old tree.
    pub retimed: Vec<PathBuf>,
}

/// A name that only one tree has, or that leads to another file there.
struct Loose {
    path: PathBuf,
    facts: Facts,
}

/// A directory that both trees have.
struct Step {
    path: PathBuf,
    /// It does not differ itself: it has the same entries in both trees.
    is_unchanged: bool,
}

struct Walk<'a> {
    old_root: &'a Path,
    new_root: &'a Path,
    changed: Option<&'a Changed>,
    found: Comparison,
    how: How<'a>,
    /// Files whose attributes may differ, as if they did.
    doubts: Vec<Change>,
    /// Other files with the same names, of which one has several names: with their facts in both trees.
    linked: Vec<(PathBuf, Facts, Facts)>,
    /// Files with several names, one of which leads to them in both trees.
    kept: FxHashSet<Identity>,
    lost: Vec<Loose>,
    gained: Vec<Loose>,
    entries: u64,
    began: Instant,
    bar: Bar,
}

/// Compares two trees, or two files. `changed`, if known, has everything that differs; nothing else is compared then.
///
/// # Errors
/// One of them does not exist; a directory cannot be read.
pub fn compare(
    old_root: &Path,
    new_root: &Path,
    changed: Option<&Changed>,
    how: How<'_>,
) -> Done<Comparison> {
    let there = |root: &Path| {
        let missing =
            || Failure::failed(format!("{} is not there", readable(&root))).advise("check the path");
        facts_of(root)?.ok_or_else(missing)
    };
    let (old, new) = (there(old_root)?, there(new_root)?);
    let mut walk = Walk {
        old_root,
        new_root,
        changed,
        found: Comparison::default(),
        how,
        doubts: Vec::new(),
        linked: Vec::new(),
        kept: FxHashSet::default(),
        lost: Vec::new(),
        gained: Vec::new(),
        entries: 0,
        began: Instant::now(),
        bar: Bar::endless(),
    };
    if old.is_dir() && new.is_dir() {
        walk.compare_times(Path::new(""), &old, &new);
        walk.in_step(old.identity == new.identity && walk.is_unchanged(old.identity.ino))?;
        walk.expand()?;
        walk.join();
        walk.judge_linked();
    } else {
        walk.judge_file(PathBuf::new(), &old, &new);
    }
    walk.settle();
    walk.found.changes.sort_by(|a, b| (&a.path, a.what).cmp(&(&b.path, b.what)));
    Ok(walk.found)
}

impl Walk<'_> {
    /// Compares all directories that both trees have at the same path. `is_unchanged`: the roots do not differ themselves.
    fn in_step(&mut self, is_unchanged: bool) -> Done {
        let mut pending = vec![Step { path: PathBuf::new(), is_unchanged }];
        while let Some(directory) = pending.pop() {
            match self.changed.filter(|changed| directory.is_unchanged && changed.has_leads()) {
                Some(changed) => self.follow(changed, &directory.path, &mut pending)?,
                None => self.list(&directory.path, &mut pending)?,
            }
        }
        Ok(())
    }

    /// Compares directories by listing them.
    fn list(&mut self, directory: &Path, pending: &mut Vec<Step>) -> Done {
        let old = entries_of(&join(self.old_root, directory))?;
        let new = entries_of(&join(self.new_root, directory))?;
        let (Some(old), Some(new)) = (old, new) else {
            self.found.hidden += 1;
            return Ok(());
        };
        for name in all_names(&old, &new) {
            self.count();
            let path = directory.join(OsStr::from_bytes(name));
            if let Some(entry) = self.unchanged(&old, &new, name) {
                if entry.is_dir {
                    pending.push(Step { path, is_unchanged: true });
                }
            } else {
                let (old, new) =
                    (facts_of(&join(self.old_root, &path))?, facts_of(&join(self.new_root, &path))?);
                pending.extend(self.judge(path, old, new));
            }
        }
        Ok(())
    }

    /// Compares directories that have the same entries: looks only at names that lead to changes.
    fn follow(&mut self, changed: &Changed, directory: &Path, pending: &mut Vec<Step>) -> Done {
        for (name, lead) in changed.leads_in(directory).into_iter().flatten() {
            self.count();
            let path = directory.join(name);
            match lead {
                Lead::Inner => pending.push(Step { path, is_unchanged: true }),
                Lead::Changed(Some(facts)) => pending.extend(self.judge(path, Some(facts.0), Some(facts.1))),
                Lead::Changed(None) => {
                    let (old, new) =
                        (facts_of(&join(self.old_root, &path))?, facts_of(&join(self.new_root, &path))?);
                    pending.extend(self.judge(path, old, new));
                }
            }
        }
        Ok(())
    }

    /// True if an inode does not differ. What a directory leads to may still differ.
    fn is_unchanged(&self, ino: u64) -> bool {
        self.changed.is_some_and(|changed| !changed.contains(ino))
    }

    /// An entry that both directories have, if its inode does not differ.
    fn unchanged<'e>(&self, old: &'e [Entry], new: &[Entry], name: &[u8]) -> Option<&'e Entry> {
        let find = |entries: &[Entry]| entries.binary_search_by(|entry| entry.name.as_slice().cmp(name)).ok();
        let entry = &old[find(old)?];
        let is_same = entry.ino == new[find(new)?].ino && self.is_unchanged(entry.ino);
        is_same.then_some(entry)
    }

    /// Compares what both trees have at a path; returns the directory if both have one.
    fn judge(&mut self, path: PathBuf, old: Option<Facts>, new: Option<Facts>) -> Option<Step> {
        match (old, new) {
            (Some(old), Some(new)) if old.identity == new.identity && old.is_dir() => {
                self.judge_directory(&path, &old, &new);
                return Some(Step { path, is_unchanged: false });
            }
            (Some(old), Some(new)) if old.identity == new.identity => {
                if old.links > 1 {
                    self.found.shared.insert(old.identity, path.clone());
                }
                if old.links > 1 || new.links > 1 {
                    self.kept.insert(old.identity);
                }
                self.judge_file(path, &old, &new);
            }
            (old, new) => {
                self.lost.extend(old.map(|facts| Loose { path: path.clone(), facts }));
                self.gained.extend(new.map(|facts| Loose { path, facts }));
            }
        }
        None
    }

    fn judge_directory(&mut self, path: &Path, old: &Facts, new: &Facts) {
        self.compare_times(path, old, new);
        self.judge_attributes(path, None, (old, new), was_time_set(old, new));
    }

    /// `path`: of a directory below the old tree.
    fn compare_times(&mut self, path: &Path, old: &Facts, new: &Facts) {
        if old.mtime != new.mtime {
            self.found.retimed.push(path.to_owned());
        }
    }

    fn judge_file(&mut self, path: PathBuf, old: &Facts, new: &Facts) {
        if self.has_other_content((&path, old), (&path, new)) {
            self.add(What::Changed, path, None, (Some(old), Some(new)));
        } else {
            self.judge_attributes(&path, None, (old, new), old.mtime != new.mtime);
        }
    }

    /// Reads content only if the size is the same and the times are not.
    fn has_other_content(&self, (old_path, old): (&Path, &Facts), (new_path, new): (&Path, &Facts)) -> bool {
        let is_same = || {
            let (old_path, new_path) = (join(self.old_root, old_path), join(self.new_root, new_path));
            same::has_same_content(&old_path, old, &new_path, new)
        };
        let may_differ = old.mtime != new.mtime || self.how.is_exact && old.ctime != new.ctime;
        !old.is_of_type(new) || old.size_bytes != new.size_bytes || may_differ && !is_same()
    }

    /// Notes a file or directory if its attributes differ, or if they may.
    fn judge_attributes(
        &mut self,
        path: &Path,
        old_path: Option<&Path>,
        (old, new): (&Facts, &Facts),
        has_other_time: bool,
    ) {
        let (path, old_path) = (path.to_owned(), old_path.map(Path::to_owned));
        if old.owner != new.owner || has_other_time {
            self.add(What::Attributes, path, old_path, (Some(old), Some(new)));
        } else if old.mode != new.mode || old.ctime != new.ctime {
            let (old, new) = (Some(*old), Some(*new));
            self.doubts.push(Change { what: What::Attributes, path, old_path, old, new });
        }
    }

    /// Decides about the files whose attributes may differ. If this user may not know the full permissions, a file counts as different
    /// unless a change of names explains its ctime.
    fn settle(&mut self) {
        let doubts = std::mem::take(&mut self.doubts);
        for some in doubts.chunks(MODES_AT_ONCE) {
            let old = self.how.modes.0.of_files(some.iter().filter_map(|change| change.old));
            let new = self.how.modes.1.of_files(some.iter().filter_map(|change| change.new));
            let modes = old.zip(new);
            for (at, change) in some.iter().enumerate() {
                self.count();
                let has_same_mode = modes.as_ref().map(|(old, new)| old[at] == new[at]);
                let what = self.what_differs(change, has_same_mode);
                self.found.changes.extend(what.map(|what| Change { what, ..change.clone() }));
            }
        }
    }

    /// Looks at a file of which only the ctime and perhaps the permissions differ. An unexplained ctime may hide other content behind a
    /// modification time that somebody has set back.
    fn what_differs(&self, change: &Change, has_same_mode: Option<bool>) -> Option<What> {
        let (old, new) = (change.old?, change.new?);
        let is_explained = is_ctime_explained(change, &old, &new);
        let old_path = join(self.old_root, change.old_path.as_deref().unwrap_or(&change.path));
        let new_path = join(self.new_root, &change.path);
        let has_same_mode = has_same_mode.unwrap_or(old.mode == new.mode && is_explained);
        if !has_same_mode || !same::has_same_xattrs(&old_path, &new_path) {
            return Some(What::Attributes);
        }
        // An exact comparison has read it already.
        let is_clear = self.how.is_exact || is_explained || !new.is_file();
        let is_same = is_clear || same::has_same_content(&old_path, &old, &new_path, &new);
        (!is_same).then_some(What::Changed)
    }

    /// Compares a file or directory that has another path in the new tree.
    fn judge_moved(&mut self, old: &Loose, new: &Loose, is_renamed: bool) {
        let (a, b) = (&old.facts, &new.facts);
        if is_renamed {
            self.add(What::Renamed, new.path.clone(), Some(old.path.clone()), (Some(a), Some(b)));
        }
        if !a.is_dir() && (a.links > 1 || b.links > 1) {
            self.kept.insert(a.identity);
        }
        if a.is_dir() {
            self.compare_times(&old.path, a, b);
            // A rename sets the ctime alone, so the modification time may be that of an entry.
            let has_other_time = !is_renamed && was_time_set(a, b);
            self.judge_attributes(&new.path, Some(&old.path), (a, b), has_other_time);
        } else if self.has_other_content((&old.path, a), (&new.path, b)) {
            self.add(What::Changed, new.path.clone(), Some(old.path.clone()), (Some(a), Some(b)));
        } else {
            self.judge_attributes(&new.path, Some(&old.path), (a, b), a.mtime != b.mtime);
        }
    }

    /// Adds everything below directories that only one tree has.
    fn expand(&mut self) -> Done {
        let lost = std::mem::take(&mut self.lost);
        let (old_root, new_root) = (self.old_root, self.new_root);
        self.lost = self.with_content(old_root, lost)?;
        let gained = std::mem::take(&mut self.gained);
        self.gained = self.with_content(new_root, gained)?;
        Ok(())
    }

    fn with_content(&mut self, root: &Path, mut list: Vec<Loose>) -> Done<Vec<Loose>> {
        let mut at = 0;
        while at < list.len() {
            if list[at].facts.is_dir() {
                let directory = list[at].path.clone();
                let entries = entries_of(&join(root, &directory))?;
                self.found.hidden += u64::from(entries.is_none());
                for entry in entries.unwrap_or_default() {
                    self.count();
                    let path = directory.join(OsStr::from_bytes(&entry.name));
                    if let Some(facts) = facts_of(&join(root, &path))? {
                        list.push(Loose { path, facts });
                    }
                }
            }
            at += 1;
        }
        list.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(list)
    }

    /// Joins names that were lost with names that were gained.
    fn join(&mut self) {
        let (lost, gained) = (std::mem::take(&mut self.lost), std::mem::take(&mut self.gained));
        let moves = moves(&lost, &gained);
        let old_of: FxHashMap<&Path, &Loose> = moves.iter().map(|(a, b)| (&*b.path, *a)).collect();
        let moved: FxHashSet<&Path> = moves.iter().map(|(a, _)| &*a.path).collect();
        for (old, new) in &moves {
            // A name that moved along with its directory has not changed.
            let parent = new.path.parent().and_then(|parent| old_of.get(parent)).map(|old| &*old.path);
            let is_taken_along = parent.is_some() && parent == old.path.parent();
            let is_renamed = !is_taken_along || old.path.file_name() != new.path.file_name();
            self.judge_moved(old, new, is_renamed);
        }
        let left: FxHashMap<&Path, &Loose> =
            lost.iter().filter(|old| !moved.contains(&*old.path)).map(|old| (&*old.path, old)).collect();
        let mut replaced: FxHashSet<&Path> = FxHashSet::default();
        for new in gained.iter().filter(|new| !old_of.contains_key(&*new.path)) {
            match left.get(&*new.path) {
                Some(old) if old.facts.is_of_type(&new.facts) => {
                    replaced.insert(&old.path);
                    self.judge_replaced(old, new);
                }
                _ => self.add(What::Added, new.path.clone(), None, (None, Some(&new.facts))),
            }
        }
        for old in lost.iter().filter(|old| left.contains_key(&*old.path) && !replaced.contains(&*old.path)) {
            self.add(What::Removed, old.path.clone(), None, (Some(&old.facts), None));
        }
    }

    /// Reports another file with the same name and type.
    fn judge_replaced(&mut self, old: &Loose, new: &Loose) {
        let has_names = old.facts.links > 1 || new.facts.links > 1;
        if old.facts.is_dir() {
            self.judge_directory(&new.path, &old.facts, &new.facts);
        } else if self.how.is_exact && has_names {
            self.linked.push((new.path.clone(), old.facts, new.facts));
        } else {
            self.judge_file(new.path.clone(), &old.facts, &new.facts);
        }
    }

    /// Compares other files with several names: they are copies of the old ones if the same names lead to the same file in both trees.
    fn judge_linked(&mut self) {
        let linked = std::mem::take(&mut self.linked);
        let mut partners: FxHashMap<Identity, FxHashSet<Identity>> = FxHashMap::default();
        for (_, old, new) in &linked {
            partners.entry(old.identity).or_default().insert(new.identity);
            partners.entry(new.identity).or_default().insert(old.identity);
        }
        for (path, old, new) in linked {
            let is_copy = [old, new]
                .iter()
                .all(|facts| !self.kept.contains(&facts.identity) && partners[&facts.identity].len() == 1);
            if is_copy {
                self.found.shared.insert(old.identity, path.clone());
                self.judge_file(path, &old, &new);
            } else {
                self.add(What::Changed, path, None, (Some(&old), Some(&new)));
            }
        }
    }

    fn add(
        &mut self,
        what: What,
        path: PathBuf,
        old_path: Option<PathBuf>,
        (old, new): (Option<&Facts>, Option<&Facts>),
    ) {
        self.found.changes.push(Change { what, path, old_path, old: old.copied(), new: new.copied() });
    }

    fn count(&mut self) {
        self.entries += 1;
        if self.entries.is_multiple_of(LOOK_EVERY) && self.began.elapsed() >= HIDDEN_FOR {
            let per_s = self.entries as f64 / self.began.elapsed().as_secs_f64();
            let (entries, per_s) = (Count(self.entries).of("name", "names"), Count(per_s as u64));
            self.bar.tell(format_args!("{entries} compared, {per_s}/s"));
        }
    }
}

/// True if somebody has set the modification time of a directory. Entries change it, too, and are compared on their own; they change
/// the ctime at the same moment.
fn was_time_set(old: &Facts, new: &Facts) -> bool {
    let latest = if old.ctime > new.ctime { old } else { new };
    old.mtime != new.mtime && latest.mtime != latest.ctime
}

/// True if the ctime differs because the file is another one, was renamed or has other names, or because a directory has other entries.
fn is_ctime_explained(change: &Change, old: &Facts, new: &Facts) -> bool {
    let has_other_names = if new.is_dir() { new.ctime == new.mtime } else { old.links != new.links };
    old.identity != new.identity || change.old_path.is_some() || has_other_names
}

/// All names of two sorted listings, in order.
fn all_names<'a>(old: &'a [Entry], new: &'a [Entry]) -> Vec<&'a [u8]> {
    let mut names: Vec<&[u8]> = old.iter().chain(new).map(|entry| &*entry.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Pairs names of the same file, in the order of the old paths.
fn moves<'a>(lost: &'a [Loose], gained: &'a [Loose]) -> Vec<(&'a Loose, &'a Loose)> {
    let mut by_identity: FxHashMap<Identity, Vec<&Loose>> = FxHashMap::default();
    for new in gained.iter().rev() {
        by_identity.entry(new.facts.identity).or_default().push(new);
    }
    let pair = |old: &'a Loose| {
        let names = by_identity.get_mut(&old.facts.identity)?;
        Some((old, names.pop()?))
    };
    lost.iter().filter_map(pair).collect()
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
