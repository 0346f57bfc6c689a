//! Looks for a file by its inode number, in the present or a state: first in directories near its last known place, then in all
//! of them. Reads only names and numbers, and examines files whose number fits.

use super::identity::{Facts, Identity, facts_at, number_of};
use super::place::join;
use crate::failure::{Done, Failure};
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, openat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An entry of a directory.
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its inode number in the present.
    pub ino: u64,
    /// The listing says that it is a directory.
    pub is_dir: bool,
}

/// The entries of a directory, sorted by name; `None` if it is no directory or closed to this user.
///
/// # Errors
/// It cannot be read.
pub fn entries_of(path: &Path) -> Done<Option<Vec<Entry>>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let cannot = |errno: Errno| Failure::io("cannot list", path, &errno.into());
    let directory = match openat(CWD, path, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(None),
        Err(errno) => return Err(cannot(errno)),
    };
    let mut entries = Vec::new();
    for entry in Dir::new(directory).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            let is_dir = entry.file_type() == FileType::Directory;
            entries.push(Entry { name: name.to_vec(), ino: number_of(entry.ino()), is_dir });
        }
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(Some(entries))
}

/// Finds a file below `root`. `near` is a path below it that the file had at another time.
///
/// # Errors
/// A directory cannot be read. Directories that are closed to this user are skipped.
pub fn find_by_number(root: &Path, wanted: Identity, near: &Path) -> Done<Option<(PathBuf, Facts)>> {
    for directory in near.ancestors().skip(1) {
        if let Some(found) = find_in(root, directory, wanted, &mut |_| {})? {
            return Ok(Some(found));
        }
    }
    let mut pending = vec![PathBuf::new()];
    while let Some(directory) = pending.pop() {
        let found = find_in(root, &directory, wanted, &mut |below| pending.push(below))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Looks for it in one directory, and collects the directories in that one.
fn find_in(
    root: &Path,
    directory: &Path,
    wanted: Identity,
    inner: &mut dyn FnMut(PathBuf),
) -> Done<Option<(PathBuf, Facts)>> {
    let path = join(root, directory);
    for entry in entries_of(&path)?.unwrap_or_default() {
        let below = directory.join(OsStr::from_bytes(&entry.name));
        if entry.ino == wanted.ino {
            let there = join(root, &below);
            let facts = facts_at(CWD, &there)
                .map_err(|errno| Failure::io("cannot examine", &there, &errno.into()))?;
            if let Some(facts) = facts.filter(|facts| facts.identity == wanted) {
                return Ok(Some((below, facts)));
            }
        }
        if entry.is_dir {
            inner(below);
        }
    }
    Ok(None)
}
