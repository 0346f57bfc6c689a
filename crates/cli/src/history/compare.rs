//! Compares two trees of one volume, each the present or a state: walks both in step, and finds renames by inode numbers.
//!
//! If both trees have a name with the same inode, it is the same file; size and times then say what changed. The names that are
//! left, with everything below them, are joined by their inodes: pairs are renames. Links are not followed.
//!
//! Callers: `diff`, `rollback`.

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
    /// Permissions, owner or extended attributes changed.
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
pub fn compare(old_root: &Path, new_root: &Path, changed: Option<&Changed>) -> Done<Comparison> {
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
    } else {
        walk.judge_file(PathBuf::new(), &old, &new);
    }
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
                self.judge_file(path, &old, &new);
            }
            (old, new) => {
                self.lost.extend(old.map(|facts| Loose { path: path.clone(), facts }));
                self.gained.extend(new.map(|facts| Loose { path, facts }));
            }
        }
        None
    }

    /// The times of a directory change with its entries, which are compared on their own. A ctime later than these has another
    /// cause.
    fn judge_directory(&mut self, path: &Path, old: &Facts, new: &Facts) {
        self.compare_times(path, old, new);
        let has_news = old.identity == new.identity && old.ctime != new.ctime && new.ctime != new.mtime;
        if (old.mode, old.owner) != (new.mode, new.owner) || has_news {
            self.add(What::Attributes, path.to_owned(), None, (Some(old), Some(new)));
        }
    }

    /// `path`: of a directory below the old tree.
    fn compare_times(&mut self, path: &Path, old: &Facts, new: &Facts) {
        if old.mtime != new.mtime {
            self.found.retimed.push(path.to_owned());
        }
    }

    fn judge_file(&mut self, path: PathBuf, old: &Facts, new: &Facts) {
        // A new name for a file also changes its ctime.
        let has_news = old.identity == new.identity && old.ctime != new.ctime && old.links == new.links;
        let has_other_attributes = (old.mode, old.owner) != (new.mode, new.owner) || has_news;
        if !old.has_content_of(new) || !old.is_of_type(new) {
            self.add(What::Changed, path, None, (Some(old), Some(new)));
        } else if has_other_attributes {
            self.add(What::Attributes, path, None, (Some(old), Some(new)));
        }
    }

    /// Compares a file or directory that has another path in the new tree.
    fn judge_moved(&mut self, old: &Loose, new: &Loose, is_renamed: bool) {
        if old.facts.is_dir() {
            self.compare_times(&old.path, &old.facts, &new.facts);
        }
        let mut add = |what| {
            let facts = (Some(&old.facts), Some(&new.facts));
            self.add(what, new.path.clone(), Some(old.path.clone()), facts);
        };
        if is_renamed {
            add(What::Renamed);
        }
        let (a, b) = (&old.facts, &new.facts);
        // The rename has changed its ctime.
        let has_news = !is_renamed && a.ctime != b.ctime && a.links == b.links && !a.is_dir();
        if !a.is_dir() && !a.has_content_of(b) {
            add(What::Changed);
        } else if (a.mode, a.owner) != (b.mode, b.owner) || has_news {
            add(What::Attributes);
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
        if old.facts.is_dir() {
            self.judge_directory(&new.path, &old.facts, &new.facts);
        } else {
            self.judge_file(new.path.clone(), &old.facts, &new.facts);
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
