//! `Model`: what should exist at each moment of a replay, and where.
//!
//! Invariant: a file is either somewhere, or absent because there was no room for it or for its directory.

use super::Fault;
use crate::age::workload::{ROOT, SHORT_LIVED};
use crate::error::LabError;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Most groups.
const GROUPS_MAX: u64 = 100_000;

/// How files are placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// In the directories of the original.
    Directory,
    /// In one directory for each cylinder group of the original, by inode number (section 3.3).
    Group,
}

/// A directory of the target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Dir {
    Root,
    Of(u64),
    Group(u64),
}

/// A place for a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Spot {
    dir: Dir,
    file: u64,
}

impl fmt::Display for Dir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Of(number) => write!(f, "d{number}"),
            Self::Group(number) => write!(f, "g{number}"),
        }
    }
}

impl Spot {
    /// The name of its directory; `None`: the root.
    #[must_use]
    pub fn dir(&self) -> Option<String> {
        (self.dir != Dir::Root).then(|| self.dir.to_string())
    }

    /// Its name there.
    #[must_use]
    pub fn name(&self) -> String {
        match self.file.checked_sub(SHORT_LIVED) {
            Some(nth) => format!("s{nth}"),
            None => format!("f{}", self.file),
        }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dir() {
            Some(dir) => write!(f, "{dir}/{}", self.name()),
            None => f.write_str(&self.name()),
        }
    }
}

/// The original's groups.
struct Grouping {
    groups: u64,
    inodes: u64,
    first_inode: u64,
    root_inode: u64,
}

/// See the module's head.
pub(in crate::age) struct Model {
    grouping: Option<Grouping>,
    dirs: BTreeSet<u64>,
    /// Those of them for which there was no room.
    absent_dirs: BTreeSet<u64>,
    /// With its size in bytes; without a spot: absent.
    files: FxHashMap<u64, (Option<Spot>, u64)>,
}

fn wrong(what: String) -> Fault {
    Fault::Failed(LabError::Setup(what))
}

impl Model {
    /// Nothing exists. `options` are those of the workload's header.
    pub fn new(by: By, options: &[(String, String)]) -> Result<Self, LabError> {
        let number = |name: &str| {
            let found = options.iter().find(|(option, _)| option == name);
            found.and_then(|(_, value)| value.parse::<u64>().ok())
        };
        let grouping = || {
            let (groups, inodes) = (number("groups")?.min(GROUPS_MAX), number("group_inodes")?);
            let (first_inode, root_inode) = (number("first_inode")?, number("root_inode")?);
            (groups > 0 && inodes > 0).then_some(Grouping { groups, inodes, first_inode, root_inode })
        };
        let grouping = match by {
            By::Directory => None,
            By::Group => Some(grouping().ok_or_else(|| {
                LabError::Setup(
                    "the workload does not know the groups of its original: leave out --by".to_owned(),
                )
            })?),
        };
        let (dirs, absent_dirs) = (BTreeSet::new(), BTreeSet::new());
        Ok(Self { grouping, dirs, absent_dirs, files: FxHashMap::default() })
    }

    /// The directories that exist from the beginning.
    pub fn groups(&self) -> Vec<String> {
        let groups = self.grouping.as_ref().map_or(0, |grouping| grouping.groups);
        (0..groups).map(|group| Dir::Group(group).to_string()).collect()
    }

    /// The directory of the target for a file. `NoRoom`: there was none for the directory.
    fn dir_of(&self, file: u64, dir: u64) -> Result<Dir, Fault> {
        let Some(grouping) = &self.grouping else {
            if self.absent_dirs.contains(&dir) {
                return Err(Fault::NoRoom);
            }
            let exists = dir == ROOT || self.dirs.contains(&dir);
            let found = if dir == ROOT { Dir::Root } else { Dir::Of(dir) };
            return exists.then_some(found).ok_or_else(|| wrong(format!("there is no directory {dir}")));
        };
        let inode = match (file < SHORT_LIVED, dir) {
            (true, _) => file,
            (false, ROOT) => grouping.root_inode,
            (false, dir) => dir,
        };
        let group = inode.saturating_sub(grouping.first_inode) / grouping.inodes;
        Ok(Dir::Group(group.min(grouping.groups - 1)))
    }

    /// A directory begins to exist; its name, if it is one of the target's.
    pub fn mkdir(&mut self, dir: u64) -> Option<String> {
        self.dirs.insert(dir);
        self.grouping.is_none().then(|| Dir::Of(dir).to_string())
    }

    /// A directory ends; its name, if it is one of the target's.
    pub fn rmdir(&mut self, name: &[u8]) -> Result<Option<String>, Fault> {
        let number = std::str::from_utf8(name).ok().and_then(|name| name.strip_prefix('d')?.parse().ok());
        let dir = number.filter(|dir| self.dirs.remove(dir));
        let dir = dir.ok_or_else(|| wrong(format!("there is no directory {}", name.escape_ascii())))?;
        let was_there = !self.absent_dirs.remove(&dir) && self.grouping.is_none();
        Ok(was_there.then(|| Dir::Of(dir).to_string()))
    }

    /// A file begins to exist. `NoRoom`: it is absent, as its directory is.
    pub fn create(&mut self, file: u64, dir: u64) -> Result<Spot, Fault> {
        let spot = match self.dir_of(file, dir) {
            Ok(dir) => Ok(Spot { dir, file }),
            Err(Fault::NoRoom) => Err(Fault::NoRoom),
            Err(other) => return Err(other),
        };
        if self.files.insert(file, (spot.as_ref().ok().copied(), 0)).is_some() {
            return Err(wrong(format!("file {file} is made twice")));
        }
        spot
    }

    /// Where a file is; `None` if it is absent.
    pub fn spot(&self, file: u64) -> Result<Option<Spot>, Fault> {
        self.files.get(&file).map(|(spot, _)| *spot).ok_or_else(|| wrong(format!("there is no file {file}")))
    }

    /// A file is at least that long.
    pub fn extend(&mut self, file: u64, size_bytes: u64) {
        if let Some((_, size)) = self.files.get_mut(&file) {
            *size = size_bytes.max(*size);
        }
    }

    /// A file has that size.
    pub fn resize(&mut self, file: u64, size_bytes: u64) {
        if let Some((_, size)) = self.files.get_mut(&file) {
            *size = size_bytes;
        }
    }

    /// A file moves; `None` if it stays where it is. `NoRoom`: the directory is absent, and the file where it was.
    pub fn rename(&mut self, file: u64, to_dir: u64) -> Result<Option<Spot>, Fault> {
        let to = Spot { dir: self.dir_of(file, to_dir)?, file };
        let Some((spot, _)) = self.files.get_mut(&file) else { return Ok(None) };
        Ok((spot.replace(to) != Some(to)).then_some(to))
    }

    /// A file ends.
    pub fn remove(&mut self, file: u64) {
        self.files.remove(&file);
    }

    /// There was no room for a file.
    pub fn lose(&mut self, file: u64) {
        if let Some((spot, _)) = self.files.get_mut(&file) {
            *spot = None;
        }
    }

    /// There was no room for a directory.
    pub fn lose_dir(&mut self, dir: u64) {
        self.absent_dirs.insert(dir);
    }

    /// The files that are absent, ascending.
    pub fn absent(&self) -> Vec<u64> {
        let absent = self.files.iter().filter(|(_, (spot, _))| spot.is_none());
        let mut absent: Vec<u64> = absent.map(|(&file, _)| file).collect();
        absent.sort_unstable();
        absent
    }

    /// The directories that are absent, ascending.
    pub fn absent_dirs(&self) -> Vec<u64> {
        self.absent_dirs.iter().copied().collect()
    }

    /// These files and directories are absent.
    pub fn forget(&mut self, files: &[u64], dirs: &[u64]) {
        files.iter().for_each(|&file| self.lose(file));
        dirs.iter().for_each(|&dir| self.lose_dir(dir));
    }

    /// Files that exist.
    pub fn len(&self) -> u64 {
        self.files.values().filter(|(spot, _)| spot.is_some()).count() as u64
    }

    /// The files that exist, with their places and their sizes in bytes, in no order.
    pub fn files(&self) -> impl Iterator<Item = (u64, Spot, u64)> {
        self.files.iter().filter_map(|(&file, &(spot, size_bytes))| Some((file, spot?, size_bytes)))
    }

    /// What exists, as [`super::Target::list`] shows it.
    pub fn tree(&self) -> BTreeMap<String, Option<u64>> {
        let mut dirs: BTreeSet<String> = self.groups().into_iter().collect();
        if self.grouping.is_none() {
            dirs.extend(self.dirs.difference(&self.absent_dirs).map(|&dir| Dir::Of(dir).to_string()));
        }
        for (_, spot, _) in self.files() {
            spot.dir().map(|dir| dirs.remove(&dir));
        }
        let files = self.files().map(|(_, spot, size_bytes)| (spot.to_string(), Some(size_bytes)));
        files.chain(dirs.into_iter().map(|dir| (dir, None))).collect()
    }
}
