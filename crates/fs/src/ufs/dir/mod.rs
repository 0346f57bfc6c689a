//! Directories: finding, inserting, removing and listing entries, in inline content or in blocks, with or without an
//! index.
//!
//! - Content up to `inline_max_bytes` is in the inode; larger content is in blocks, and stays there until the directory is
//!   empty. Entries keep their offsets through that conversion.
//! - Up to [`SCAN_BLOCKS`] blocks are scanned; a larger directory gets a hash index, which it keeps until it is empty.
//! - An insertion tries the last block, then, if a quarter of the directory is free, [`PROBE_BLOCKS`] blocks from a roving
//!   cursor, and otherwise appends a block. So growing and filling holes cost the same at any size.
//! - A block that becomes empty is punched (it reads as zeros: no records); empty blocks at the end are cut.
//!
//! Cookies of [`list()`] derive from offsets, and entries never move: an entry that exists throughout a listing is listed
//! exactly once, whatever happens to the others.
//!
//! Looking a name up is in this file. `insert`, `remove` and `list` do the rest; `verify` checks a whole directory.
//!
//! Caller: [`crate::vfs`]. The hints exist only in memory, and never change before `begin`.

mod insert;
mod list;
mod remove;
#[cfg(test)]
mod tests;
mod verify;

pub use insert::{Insert, PROBE_BLOCKS, plan_insert};
pub use list::{FIRST_COOKIE, Listed, list};
pub use remove::{Remove, plan_remove};
pub use verify::{each_entry, verify};

use super::{edit, index};
use crate::dirent::{self, Record};
use crate::error::{FsError, Outcome, Stop};
use crate::inode::{Body, Kind};
use crate::states::{local, within};
use crate::store::{Buf, Fork, Intent, Op, Store};
use firnfs_format::{BlockIndex, InodeNo};
use rustc_hash::FxHashMap;

/// Largest number of blocks that are searched without an index.
pub const SCAN_BLOCKS: u64 = 2;
/// Blocks requested together when a listing or a scan finds one missing.
const READ_AHEAD_BLOCKS: u64 = 8;
/// Directories whose roving cursor is remembered.
const HINTS_MAX: usize = 4096;
/// The index keeps offsets in units of 8 bytes, in 32 bits.
const SIZE_MAX_BYTES: u64 = (dirent::UNIT_BYTES as u64) << 32;
/// The facts of a directory's inode that an operation needs.
#[derive(Clone, Copy, Debug)]
pub struct DirView {
    /// The directory.
    pub ino: InodeNo,
    /// Its `..`.
    pub parent: InodeNo,
    /// Number of names; 0 if it was removed.
    pub nlink: u32,
    /// Entries without `.` and `..`.
    pub entries: u64,
    size_bytes: u64,
    entry_bytes: u64,
    index_blocks: u64,
    is_inline: bool,
    block_bytes: u32,
}

impl DirView {
    /// True if it has a hash index.
    pub(crate) fn has_index(&self) -> bool {
        self.index_blocks > 0
    }

    /// Blocks of its content; none if the content is inline.
    pub(crate) fn blocks(&self) -> u64 {
        if self.is_inline { 0 } else { self.size_bytes / u64::from(self.block_bytes) }
    }

    fn split(&self, at_bytes: u64) -> (u64, usize) {
        let block_bytes = u64::from(self.block_bytes);
        (at_bytes / block_bytes, (at_bytes % block_bytes) as usize)
    }
}

/// Looks at a directory.
///
/// # Errors
/// `Need`, `NotFound`, `NotDirectory`, `Corrupt`.
pub fn view<S: Store>(store: &mut S, ino: InodeNo) -> Outcome<DirView> {
    let block_bytes = store.facts().block_bytes;
    let inode = store.inode(ino)?;
    if inode.kind != Kind::Directory {
        return Err(FsError::NotDirectory.into());
    }
    let is_inline = matches!(inode.body, Body::Inline(_));
    let whole = is_inline || inode.size_bytes % u64::from(block_bytes) == 0;
    if !whole
        || inode.size_bytes > SIZE_MAX_BYTES
        || inode.index_blocks > SIZE_MAX_BYTES / u64::from(block_bytes)
    {
        let found = format!("{} bytes, {} index blocks", inode.size_bytes, inode.index_blocks);
        return Err(corrupt(ino, "size", "whole blocks, at most 32 GiB", found));
    }
    Ok(DirView {
        ino,
        parent: within(ino, inode.parent),
        nlink: inode.nlink,
        entries: inode.entries,
        size_bytes: inode.size_bytes,
        entry_bytes: inode.entry_bytes,
        index_blocks: inode.index_blocks,
        is_inline,
        block_bytes,
    })
}

fn corrupt(dir: InodeNo, at: impl Into<String>, expected: &str, found: String) -> Stop {
    let what = format!("directory {dir}");
    FsError::Corrupt { what, at: at.into(), expected: expected.to_owned(), found }.into()
}

/// Adds the directory and the block to an error.
fn in_block<T>(result: Result<T, FsError>, dir: InodeNo, block: u64) -> Outcome<T> {
    result.map_err(|error| match error {
        FsError::Corrupt { at, expected, found, .. } => {
            let what = format!("directory {dir}");
            FsError::Corrupt { what, at: format!("block {block}, {at}"), expected, found }.into()
        }
        other => other.into(),
    })
}

fn inline<S: Store>(store: &mut S, dir: InodeNo) -> Outcome<&[u8]> {
    match &store.inode(dir)?.body {
        Body::Inline(content) => Ok(content),
        Body::Blocks => Ok(&[]),
    }
}

/// A block of the directory. If it is missing, the blocks after it are requested too.
fn block<S: Store>(store: &mut S, dir: &DirView, at: u64) -> Outcome<Buf> {
    let mut fetches = match store.block(dir.ino, Fork::Data, BlockIndex(at)) {
        Err(Stop::Need(fetches)) => fetches,
        other => return other,
    };
    for ahead in at + 1..dir.blocks().min(at + READ_AHEAD_BLOCKS) {
        if let Err(Stop::Need(more)) = store.block(dir.ino, Fork::Data, BlockIndex(ahead)) {
            fetches.extend(more.into_iter().filter(|fetch| !fetches.contains(fetch)).collect::<Vec<_>>());
        }
    }
    Err(Stop::Need(fetches))
}

/// An entry that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The inode that it names.
    pub ino: InodeNo,
    /// File type.
    pub kind: Kind,
    /// Offset of its record in the directory, in bytes.
    pub at_bytes: u64,
}

/// The result of a lookup, on which plans build.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    /// The entry, if there is one.
    pub found: Option<Found>,
    /// Its place in the index.
    spot: Option<index::Spot>,
}

fn found_at(dir: &DirView, start: u64, record: &Record<'_>) -> Result<Found, FsError> {
    let at_bytes = start * u64::from(dir.block_bytes) + record.at as u64;
    Ok(Found { ino: within(dir.ino, record.ino), kind: record.kind()?, at_bytes })
}

/// Looks for a name (not `.` or `..`).
///
/// # Errors
/// `Need`, `Corrupt`.
pub fn lookup<S: Store>(store: &mut S, dir: &DirView, name: &[u8]) -> Outcome<Lookup> {
    if dir.index_blocks > 0 {
        return lookup_indexed(store, dir, name);
    }
    let nothing = Lookup { found: None, spot: None };
    if dir.is_inline {
        let content = inline(store, dir.ino)?;
        let record = in_block(dirent::find(content, name), dir.ino, 0)?;
        let found = record.map(|r| in_block(found_at(dir, 0, &r), dir.ino, 0)).transpose()?;
        return Ok(Lookup { found, ..nothing });
    }
    for at in 0..dir.blocks() {
        let block = block(store, dir, at)?;
        if let Some(record) = in_block(dirent::find(&block, name), dir.ino, at)? {
            let found = Some(in_block(found_at(dir, at, &record), dir.ino, at)?);
            return Ok(Lookup { found, ..nothing });
        }
    }
    Ok(nothing)
}

fn lookup_indexed<S: Store>(store: &mut S, dir: &DirView, name: &[u8]) -> Outcome<Lookup> {
    let hash = index::hash(store.facts().hash_key, name);
    let found = index::find(store, dir.ino, dir.index_blocks, hash, &mut |store, place| {
        let at_bytes = u64::from(place) * dirent::UNIT_BYTES as u64;
        let (at, offset) = dir.split(at_bytes);
        if at >= dir.blocks() {
            let size = format!("an entry within {} blocks", dir.blocks());
            return Err(corrupt(dir.ino, "index", &size, format!("place {place}")));
        }
        let block = store.block(dir.ino, Fork::Data, BlockIndex(at))?;
        let record = in_block(dirent::record(&block, offset), dir.ino, at)?;
        let is_it = record.name == name;
        is_it.then(|| in_block(found_at(dir, at, &record), dir.ino, at)).transpose()
    })?;
    let (found, spot) = found.unzip();
    Ok(Lookup { found, spot })
}

/// Hints, in memory only, where directories have room.
#[derive(Default, Debug)]
pub struct Hints {
    by_dir: FxHashMap<InodeNo, Hint>,
}

/// The hints of one directory.
#[derive(Clone, Copy, Default, Debug)]
struct Hint {
    /// Block at which the search for holes continues.
    cursor: u64,
    /// A record of the last block, usually its last one: its block, its offset there. Always the start of a record: any
    /// removal from that block clears it.
    tail: Option<(u64, usize)>,
}

impl Hints {
    /// Forgets a directory.
    pub fn forget(&mut self, dir: InodeNo) {
        self.by_dir.remove(&dir);
    }

    fn get(&self, dir: InodeNo) -> Hint {
        self.by_dir.get(&dir).copied().unwrap_or_default()
    }

    fn set(&mut self, dir: InodeNo, hint: Hint) {
        if self.by_dir.len() >= HINTS_MAX && !self.by_dir.contains_key(&dir) {
            self.by_dir.clear();
        }
        self.by_dir.insert(dir, hint);
    }

    /// A removal from a block, after which the directory has that many blocks: forgets the hints about records that moved
    /// or were removed.
    fn removed_from(&mut self, dir: InodeNo, block: u64, blocks: u64) {
        if let Some(hint) = self.by_dir.get_mut(&dir) {
            hint.tail = hint.tail.filter(|tail| tail.0 != block && tail.0 < blocks);
        }
    }
}

/// An offset in the directory, in the index's units.
fn place_of(at_bytes: u64) -> u32 {
    (at_bytes / dirent::UNIT_BYTES as u64) as u32
}

/// Declares that an entry will name another inode.
pub fn declare_retarget(dir: &DirView, found: &Found, intents: &mut Vec<Intent>) {
    intents.push(Intent::Change { ino: dir.ino, grow_bytes: 0 });
    if !dir.is_inline {
        let (block, _) = dir.split(found.at_bytes);
        intents.push(edit(dir.ino, Fork::Data, block, dir.block_bytes));
    }
}

/// Makes a found entry name another inode.
pub fn retarget<S: Store>(store: &mut S, op: &mut Op, dir: &DirView, found: &Found, target: (InodeNo, Kind)) {
    let (block, offset) = dir.split(found.at_bytes);
    match &mut store.inode_mut(op, dir.ino).body {
        Body::Inline(content) => dirent::set_target(content, offset, local(target.0), target.1),
        Body::Blocks => {
            let bytes = store.block_mut(op, dir.ino, Fork::Data, BlockIndex(block));
            dirent::set_target(bytes, offset, local(target.0), target.1);
        }
    }
}
