//! Whether two files that stat(2) does not tell apart are the same: reads their content and their attributes.
//!
//! A ctime only says that something was set, perhaps to what it was before. And a state shows a file with fewer permissions than it had
//! if they were taken away since, and without its ACL if that was changed since; the daemon knows the full permissions.

use super::super::identity::Facts;
use super::super::place::Place;
use super::super::service::{MODES_OP, ModesRequest};
use super::super::states::{HISTORY_DIR, State, failure_of};
use crate::failure::{Done, Failure};
use crate::sources::{next_data, xattr_list_of, xattrs_of};
use firnfs_fuse::control::Client;
use firnfs_fuse::mount::table::Mount;
use rustc_hash::FxHashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of content that are compared at a time.
const COMPARED_BYTES: u64 = 1 << 20;
const PERMISSIONS: u32 = 0o7777;

/// How the full permissions of a tree's files are known.
#[derive(Clone, Copy, Debug)]
pub enum Modes<'a> {
    /// The tree shows them.
    Shown,
    /// The daemon of this mount knows them, for the state of this checkpoint.
    Told(&'a Mount, u32),
    /// This user may not know them.
    Unknown,
}

impl<'a> Modes<'a> {
    /// Those of a tree at a place, in a state or in the present.
    pub fn of(place: &'a Place, state: Option<&State>) -> Self {
        match state {
            Some(state) => state.told.map_or(Self::Unknown, |told| Self::Told(&place.mount, told.epoch)),
            None if place.below.starts_with(HISTORY_DIR) => Self::Unknown,
            None => Self::Shown,
        }
    }

    /// The permissions of each file; `None` if they cannot be known.
    pub fn of_files(self, files: impl Iterator<Item = Facts> + Clone) -> Option<Vec<u32>> {
        let told = match self {
            Self::Shown => FxHashMap::default(),
            Self::Told(mount, epoch) => {
                modes_then(mount, epoch, files.clone().map(|facts| facts.identity.ino).collect()).ok()?
            }
            Self::Unknown => return None,
        };
        let mode = |facts: Facts| told.get(&facts.identity.ino).copied().unwrap_or(facts.mode) & PERMISSIONS;
        Some(files.map(mode).collect())
    }
}

/// The full permissions that files had in the state of a checkpoint, by inode number.
///
/// # Errors
/// The daemon is dead, or refuses.
pub fn modes_then(mount: &Mount, epoch: u32, inodes: Vec<u64>) -> Done<FxHashMap<u64, u32>> {
    let request = ModesRequest { epoch, inodes };
    let inodes = request.inodes.clone();
    let request = serde_json::to_value(request).map_err(|e| Failure::failed(e.to_string()))?;
    let mut client = Client::for_mount(mount).map_err(|e| failure_of(&e))?;
    let modes: Vec<Option<u16>> = client.ask(MODES_OP, request).map_err(|e| failure_of(&e))?;
    let modes = inodes.into_iter().zip(modes);
    Ok(modes.filter_map(|(ino, mode)| Some((ino, u32::from(mode?)))).collect())
}

/// True if two files of the same type and size have the same content. False, too, if one of them cannot be read: nobody knows then.
pub fn has_same_content(old_path: &Path, old: &Facts, new_path: &Path, new: &Facts) -> bool {
    if old.is_symlink() {
        let targets = [old_path, new_path].map(|path| std::fs::read_link(path).ok());
        return targets[0].is_some() && targets[0] == targets[1];
    }
    if !old.is_file() {
        return old.rdev == new.rdev;
    }
    let [Ok(old_file), Ok(new_file)] = [old_path, new_path].map(File::open) else { return false };
    is_same_data(&old_file, &new_file, old.size_bytes).unwrap_or(false)
}

/// Compares the first bytes of two files, except what is a hole in both.
fn is_same_data(old: &File, new: &File, len_bytes: u64) -> io::Result<bool> {
    let most = COMPARED_BYTES.min(len_bytes) as usize;
    let (mut old_bytes, mut new_bytes, mut at_bytes) = (vec![0; most], vec![0; most], 0);
    loop {
        let (first, second) = (next_data(old, at_bytes, len_bytes)?, next_data(new, at_bytes, len_bytes)?);
        let Some((start, end)) = first.into_iter().chain(second).min() else { return Ok(true) };
        let len = (end - start).min(COMPARED_BYTES) as usize;
        old.read_exact_at(&mut old_bytes[..len], start)?;
        new.read_exact_at(&mut new_bytes[..len], start)?;
        if old_bytes[..len] != new_bytes[..len] {
            return Ok(false);
        }
        at_bytes = start + len as u64;
    }
}

/// True if two files have the same extended attributes and ACLs. False, too, if they cannot be read.
pub fn has_same_xattrs(old: &Path, new: &Path) -> bool {
    // A state lists the name of an ACL that it withholds. So an ACL that is gone now makes the old list longer.
    let [Ok(old_list), Ok(new_list)] = [old, new].map(xattr_list_of) else { return false };
    if old_list.is_empty() && new_list.is_empty() {
        return true;
    }
    let [Ok(old_all), Ok(new_all)] = [old, new].map(xattrs_of) else { return false };
    old_list.len() == new_list.len() && old_all == new_all
}
