//! Directories: finding, inserting, removing and listing entries in inline content or in blocks, with or without index.
//!
//! - Content up to `inline_max_bytes` lives in the inode; then in blocks, for good until the directory is empty. Entries
//!   keep their offsets through that conversion.
//! - Up to [`SCAN_BLOCKS`] blocks are scanned; a directory that outgrows them gets a hash index, kept until it is empty.
//! - Inserting tries the last block, then - if a quarter of the directory is free - [`PROBE_BLOCKS`] blocks from a
//!   roving cursor, then appends a block. So both growing and filling holes cost the same at any size.
//! - A block that becomes empty is punched (it reads as zeros: no records); empty blocks at the end are cut.
//!
//! Cookies of [`list`] derive from offsets: entries never move, so an entry that is there throughout a listing is listed
//! exactly once, whatever comes and goes meanwhile.
//!
//! Caller: [`crate::vfs`]. The hints are in-core only and change after `begin`, never before.

use super::dirent::{self, Record};
use super::{empty_body, in_place, index};
use crate::error::{FsError, Outcome, Stop};
use crate::inode::{Body, Kind};
use crate::store::{Buf, Fork, Intent, Op, Store};
use firnfs_format::{BlockIndex, InodeNo};
use rustc_hash::FxHashMap;

/// Largest number of blocks that are searched without an index.
pub const SCAN_BLOCKS: u64 = 2;
/// Blocks looked at for free space in one insertion.
pub const PROBE_BLOCKS: u64 = 4;
/// Empty blocks before the end that one removal looks at to cut them.
const CUT_BLOCKS: u64 = 16;
/// Blocks asked for at once when a listing or a scan finds one missing.
const READ_AHEAD_BLOCKS: u64 = 8;
/// Directories whose roving cursor is remembered.
const HINTS_MAX: usize = 4096;
/// Index places are offsets in units of 8 bytes in 32 bits.
const SIZE_MAX_BYTES: u64 = (dirent::UNIT_BYTES as u64) << 32;
/// Cookies of `.` and `..` are 0 and 1; the entry at unit `u` has cookie `u + 2`.
const COOKIE_BASE: u64 = 2;

/// What an operation needs to know of a directory's inode.
#[derive(Clone, Copy, Debug)]
pub struct DirView {
    /// The directory.
    pub ino: InodeNo,
    /// Its `..`.
    pub parent: InodeNo,
    /// Names, 0 if it was removed.
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
    fn blocks(&self) -> u64 {
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
        parent: inode.parent,
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

/// Says which block of which directory is corrupt.
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

/// A block of the directory. If it is missing, those behind it are asked for as well.
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
    /// What it names.
    pub ino: InodeNo,
    /// File type.
    pub kind: Kind,
    /// Offset of its record in the directory, in bytes.
    pub at_bytes: u64,
}

/// The outcome of looking for a name, which plans build on.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The entry, if there is one.
    pub found: Option<Found>,
    path: Option<(index::Path, Buf)>,
}

fn found_at(dir: &DirView, start: u64, record: &Record<'_>) -> Result<Found, FsError> {
    let at_bytes = start * u64::from(dir.block_bytes) + record.at as u64;
    Ok(Found { ino: record.ino, kind: record.kind()?, at_bytes })
}

/// Looks for a name (not `.` or `..`).
///
/// # Errors
/// `Need`, `Corrupt`.
pub fn lookup<S: Store>(store: &mut S, dir: &DirView, name: &[u8]) -> Outcome<Lookup> {
    if dir.index_blocks > 0 {
        return lookup_indexed(store, dir, name);
    }
    let nothing = Lookup { found: None, path: None };
    if dir.is_inline {
        let content = inline(store, dir.ino)?;
        let record = in_block(dirent::find(content, name), dir.ino, 0)?;
        let found = record.map(|r| in_block(found_at(dir, 0, &r), dir.ino, 0)).transpose()?;
        return Ok(Lookup { found, path: None });
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
    let (path, leaf) = index::descend(store, dir.ino, dir.index_blocks, hash)?;
    let mut found = None;
    for place in index::places(&leaf, hash) {
        let at_bytes = u64::from(place) * dirent::UNIT_BYTES as u64;
        let (at, offset) = dir.split(at_bytes);
        if at >= dir.blocks() {
            let size = format!("an entry within {} blocks", dir.blocks());
            return Err(corrupt(dir.ino, "index", &size, format!("place {place}")));
        }
        let block = store.block(dir.ino, Fork::Data, BlockIndex(at))?;
        let record = in_block(dirent::record(&block, offset), dir.ino, at)?;
        if record.name == name {
            found = Some(in_block(found_at(dir, at, &record), dir.ino, at)?);
            break;
        }
    }
    Ok(Lookup { found, path: Some((path, leaf)) })
}

/// In-core memory of where free space was found last, by directory.
#[derive(Default, Debug)]
pub struct Hints {
    cursors: FxHashMap<InodeNo, u64>,
}

impl Hints {
    /// Forgets a directory.
    pub fn forget(&mut self, dir: InodeNo) {
        self.cursors.remove(&dir);
    }

    fn set(&mut self, dir: InodeNo, cursor: u64) {
        if self.cursors.len() >= HINTS_MAX && !self.cursors.contains_key(&dir) {
            self.cursors.clear();
        }
        self.cursors.insert(dir, cursor);
    }
}

/// Where a new entry goes.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Into the inode.
    Inline,
    /// Into block 0, with the inline content.
    Convert,
    /// Into the slack of a record (its offset in the block) of that block.
    Slack { block: u64, host: usize },
    /// Into a new last block.
    Append { block: u64 },
}

/// What happens to the index.
#[derive(Clone, Debug)]
enum IndexInsert {
    None,
    Pair(index::Insertion),
    Build(index::Building, u32),
}

/// An insertion that has been looked at. Order: plan, [`Insert::declare`], `begin`, [`Insert::apply`].
#[derive(Clone, Debug)]
pub struct Insert {
    dir: DirView,
    place: Place,
    index: IndexInsert,
    cursor: Option<u64>,
    /// Set if a removal from the same directory comes first: the slack may have moved.
    search_again: bool,
}

/// Looks for a place for a name that is not there. `lookup` is the search that did not find it.
///
/// # Errors
/// `Need`, `Corrupt`; `NoSpace` if the directory is at its largest.
pub fn plan_insert<S: Store>(
    store: &mut S,
    hints: &Hints,
    dir: DirView,
    lookup: Lookup,
    name: &[u8],
) -> Outcome<Insert> {
    let (place, cursor) = find_place(store, hints, &dir, name.len())?;
    let index = match (lookup.path, place) {
        (Some((path, _)), _) => IndexInsert::Pair(index::plan_insert(store, dir.ino, path)?),
        (None, Place::Append { block }) if block >= SCAN_BLOCKS => plan_build(store, &dir, name)?,
        (None, _) => IndexInsert::None,
    };
    Ok(Insert { dir, place, index, cursor, search_again: false })
}

fn find_place<S: Store>(
    store: &mut S,
    hints: &Hints,
    dir: &DirView,
    name_len: usize,
) -> Outcome<(Place, Option<u64>)> {
    if dir.is_inline {
        // Block 0 must take the inline content and the longest name.
        let spare = dirent::record_bytes(dirent::NAME_MAX_BYTES);
        let inline_max = (store.facts().inline_max_bytes as usize).min(dir.block_bytes as usize - spare);
        let content = inline(store, dir.ino)?;
        let has_room = in_block(dirent::room(content, name_len), dir.ino, 0)?.is_some()
            || content.len() + dirent::record_bytes(name_len) <= inline_max;
        return Ok((if has_room { Place::Inline } else { Place::Convert }, None));
    }
    let blocks = dir.blocks();
    if blocks > 0
        && let Some(slack) = slack_in(store, dir, blocks - 1, name_len)?
    {
        return Ok((slack, None));
    }
    let append = Place::Append { block: blocks };
    let mut cursor = None;
    if dir.size_bytes.saturating_sub(dir.entry_bytes) > dir.size_bytes / 4 {
        let start = hints.cursors.get(&dir.ino).copied().unwrap_or(0);
        for step in 0..PROBE_BLOCKS.min(blocks) {
            let at = (start + step) % blocks;
            if let Some(slack) = slack_in(store, dir, at, name_len)? {
                return Ok((slack, Some(at)));
            }
        }
        cursor = Some((start + PROBE_BLOCKS) % blocks.max(1));
    }
    if (blocks + 1) * u64::from(dir.block_bytes) > SIZE_MAX_BYTES {
        return Err(FsError::NoSpace.into());
    }
    Ok((append, cursor))
}

fn slack_in<S: Store>(store: &mut S, dir: &DirView, at: u64, name_len: usize) -> Outcome<Option<Place>> {
    let block = store.block(dir.ino, Fork::Data, BlockIndex(at))?;
    let host = in_block(dirent::room(&block, name_len), dir.ino, at)?;
    Ok(host.map(|host| Place::Slack { block: at, host }))
}

fn plan_build<S: Store>(store: &mut S, dir: &DirView, name: &[u8]) -> Outcome<IndexInsert> {
    let key = store.facts().hash_key;
    let mut pairs = Vec::new();
    for at in 0..dir.blocks() {
        let block = block(store, dir, at)?;
        for record in dirent::records(&block) {
            let record = in_block(record, dir.ino, at)?;
            if !record.is_free() {
                let at_bytes = at * u64::from(dir.block_bytes) + record.at as u64;
                pairs.push((index::hash(key, record.name), place_of(at_bytes)));
            }
        }
    }
    let new_hash = index::hash(key, name);
    Ok(IndexInsert::Build(index::plan_build(pairs, new_hash, dir.block_bytes)?, new_hash))
}

fn place_of(at_bytes: u64) -> u32 {
    (at_bytes / dirent::UNIT_BYTES as u64) as u32
}

impl Insert {
    /// Declares the changes; `name_len` as planned.
    pub fn declare(&self, name_len: usize, intents: &mut Vec<Intent>) {
        let DirView { ino, block_bytes, index_blocks, .. } = self.dir;
        intents.push(Intent::Change { ino, grow_bytes: dirent::record_bytes(name_len) as u64 });
        match self.place {
            Place::Inline => {}
            Place::Convert => intents.push(in_place(ino, Fork::Data, 0, block_bytes)),
            Place::Slack { block, .. } | Place::Append { block } => {
                intents.push(in_place(ino, Fork::Data, block, block_bytes));
            }
        }
        match &self.index {
            IndexInsert::None => {}
            IndexInsert::Pair(insertion) => insertion.declare(ino, index_blocks, block_bytes, intents),
            IndexInsert::Build(building, _) => building.declare(ino, block_bytes, intents),
        }
    }

    /// Tells that the entry at `at_bytes` is removed from the same directory first.
    pub fn after_removal(&mut self, at_bytes: u64) {
        self.search_again = true;
        if let IndexInsert::Build(building, _) = &mut self.index {
            building.forget(place_of(at_bytes));
        }
    }

    /// Puts the entry in, and counts it in the directory's inode.
    pub fn apply<S: Store>(
        self,
        store: &mut S,
        op: &mut Op,
        hints: &mut Hints,
        name: &[u8],
        target: (InodeNo, Kind),
    ) {
        let dir = self.dir.ino;
        if let Some(cursor) = self.cursor {
            hints.set(dir, cursor);
        }
        let at_bytes = self.put(store, op, name, target);
        let index_blocks = match self.index {
            IndexInsert::None => 0,
            IndexInsert::Pair(insertion) => {
                insertion.apply(store, op, dir, self.dir.index_blocks, place_of(at_bytes))
            }
            IndexInsert::Build(building, hash) => building.apply(store, op, dir, hash, place_of(at_bytes)),
        };
        let inode = store.inode_mut(op, dir);
        inode.entries += 1;
        inode.entry_bytes += dirent::record_bytes(name.len()) as u64;
        inode.index_blocks = index_blocks;
    }

    /// Puts the record into the content; returns its offset.
    fn put<S: Store>(&self, store: &mut S, op: &mut Op, name: &[u8], (ino, kind): (InodeNo, Kind)) -> u64 {
        let dir = self.dir.ino;
        let block_bytes = u64::from(self.dir.block_bytes);
        let (block, host) = match self.place {
            Place::Inline => return put_inline(store, op, dir, name, (ino, kind)),
            Place::Convert => {
                let inode = store.inode_mut(op, dir);
                inode.size_bytes = block_bytes;
                let body = std::mem::replace(&mut inode.body, Body::Blocks);
                let Body::Inline(content) = body else { unreachable!("planned: the content is inline") };
                let block = store.block_mut(op, dir, Fork::Data, BlockIndex(0));
                dirent::fill_block(block, &content).expect("planned: the content is sound");
                (0, None)
            }
            Place::Slack { block, host } => (block, Some(host).filter(|_| !self.search_again)),
            Place::Append { block } => {
                store.inode_mut(op, dir).size_bytes = (block + 1) * block_bytes;
                (block, None)
            }
        };
        let bytes = store.block_mut(op, dir, Fork::Data, BlockIndex(block));
        let host = host.or_else(|| dirent::room(bytes, name.len()).expect("planned: the block is sound"));
        let host = host.expect("planned: the block has room");
        let at = dirent::insert(bytes, host, ino, kind, name).expect("planned: the record has slack");
        block * block_bytes + at as u64
    }
}

fn put_inline<S: Store>(
    store: &mut S,
    op: &mut Op,
    dir: InodeNo,
    name: &[u8],
    (ino, kind): (InodeNo, Kind),
) -> u64 {
    let inode = store.inode_mut(op, dir);
    let Body::Inline(content) = &mut inode.body else { unreachable!("planned: the content is inline") };
    let host = dirent::room(content, name.len()).expect("planned: the content is sound");
    let at = match host {
        Some(host) => dirent::insert(content, host, ino, kind, name).expect("planned: the record has slack"),
        None => dirent::append_inline(content, ino, kind, name),
    };
    inode.size_bytes = content.len() as u64;
    at as u64
}

/// A removal that has been looked at. Order: plan, [`Remove::declare`], `begin`, [`Remove::apply`].
#[derive(Clone, Debug)]
pub struct Remove {
    dir: DirView,
    at_bytes: u64,
    name_len: usize,
    index: Option<index::Removal>,
    layout: Layout,
}

/// What a removal does besides taking the entry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Nothing.
    Keep,
    /// The block holds nothing any more; blocks from the size given on are cut.
    Punch { size_bytes: u64 },
    /// The directory is empty: content and index are dropped.
    Reset,
}

/// Looks at the removal of an entry that was found.
///
/// # Errors
/// `Need`, `Corrupt`.
pub fn plan_remove<S: Store>(store: &mut S, dir: DirView, lookup: &Lookup, name: &[u8]) -> Outcome<Remove> {
    let at_bytes = lookup.found.expect("only what was found is removed").at_bytes;
    if dir.entries == 0 || dir.entry_bytes < dirent::record_bytes(name.len()) as u64 {
        let found = format!("{} entries in {} bytes", dir.entries, dir.entry_bytes);
        return Err(corrupt(dir.ino, "entry counts", "at least the entry that is there", found));
    }
    let index = lookup.path.as_ref().map(|(path, leaf)| index::plan_remove(*path, leaf, place_of(at_bytes)));
    let layout = plan_layout(store, &dir, at_bytes)?;
    Ok(Remove { dir, at_bytes, name_len: name.len(), index, layout })
}

fn plan_layout<S: Store>(store: &mut S, dir: &DirView, at_bytes: u64) -> Outcome<Layout> {
    let (at, offset) = dir.split(at_bytes);
    if dir.is_inline {
        let content = inline(store, dir.ino)?;
        in_block(dirent::before(content, offset), dir.ino, 0)?;
        return Ok(if dir.entries == 1 { Layout::Reset } else { Layout::Keep });
    }
    let bytes = store.block(dir.ino, Fork::Data, BlockIndex(at))?;
    in_block(dirent::before(&bytes, offset), dir.ino, at)?;
    if dir.entries == 1 {
        return Ok(Layout::Reset);
    }
    for record in dirent::records(&bytes) {
        let record = in_block(record, dir.ino, at)?;
        if !record.is_free() && record.at != offset {
            return Ok(Layout::Keep);
        }
    }
    let mut end = dir.blocks();
    let lowest = end.saturating_sub(CUT_BLOCKS);
    while end > lowest && (end - 1 == at || is_empty(store, dir, end - 1)?) {
        end -= 1;
    }
    Ok(Layout::Punch { size_bytes: end * u64::from(dir.block_bytes) })
}

fn is_empty<S: Store>(store: &mut S, dir: &DirView, at: u64) -> Outcome<bool> {
    let bytes = store.block(dir.ino, Fork::Data, BlockIndex(at))?;
    in_block(dirent::is_empty(&bytes), dir.ino, at)
}

impl Remove {
    /// Declares the changes.
    pub fn declare(&self, intents: &mut Vec<Intent>) {
        let DirView { ino, block_bytes, is_inline, .. } = self.dir;
        let (block, _) = self.dir.split(self.at_bytes);
        intents.push(Intent::Change { ino, grow_bytes: 0 });
        let mut punch = |fork, at_bytes, len_bytes| {
            intents.push(Intent::Punch { ino, fork, at_bytes, len_bytes });
        };
        match self.layout {
            Layout::Keep => {}
            Layout::Punch { size_bytes } => {
                punch(Fork::Data, block * u64::from(block_bytes), u64::from(block_bytes));
                punch(Fork::Data, size_bytes, u64::MAX);
            }
            Layout::Reset if !is_inline => {
                punch(Fork::Data, 0, u64::MAX);
                punch(Fork::Index, 0, u64::MAX);
            }
            Layout::Reset => {}
        }
        if !is_inline && self.layout != Layout::Reset {
            intents.push(in_place(ino, Fork::Data, block, block_bytes));
        }
        if let Some(removal) = self.index.filter(|_| self.layout != Layout::Reset) {
            removal.declare(ino, block_bytes, intents);
        }
    }

    /// Tells, before declaring, that an insertion into the same directory follows: nothing is cut then, it would be in
    /// the way.
    pub fn before_insertion(&mut self) {
        self.layout = Layout::Keep;
    }

    /// Where the entry is.
    #[must_use]
    pub fn at_bytes(&self) -> u64 {
        self.at_bytes
    }

    /// Takes the entry out, and counts it out of the directory's inode. `insertion_follows` as told before.
    pub fn apply<S: Store>(&self, store: &mut S, op: &mut Op, hints: &mut Hints, insertion_follows: bool) {
        let dir = self.dir.ino;
        let (block, offset) = self.dir.split(self.at_bytes);
        let body = empty_body(&store.facts());
        if self.layout == Layout::Reset {
            if !self.dir.is_inline {
                store.punch(op, dir, Fork::Data, 0, u64::MAX);
                store.punch(op, dir, Fork::Index, 0, u64::MAX);
            }
            let inode = store.inode_mut(op, dir);
            (inode.entries, inode.entry_bytes, inode.index_blocks, inode.size_bytes) = (0, 0, 0, 0);
            inode.body = body;
            hints.forget(dir);
            return;
        }
        let inode = store.inode_mut(op, dir);
        inode.entries -= 1;
        inode.entry_bytes -= dirent::record_bytes(self.name_len) as u64;
        if let Body::Inline(content) = &mut inode.body {
            dirent::remove_inline(content, offset).expect("planned: the entry is there");
            inode.size_bytes = content.len() as u64;
            return;
        }
        if let Layout::Punch { size_bytes } = self.layout {
            let block_bytes = u64::from(self.dir.block_bytes);
            inode.size_bytes = size_bytes;
            store.punch(op, dir, Fork::Data, block * block_bytes, block_bytes);
            store.punch(op, dir, Fork::Data, size_bytes, u64::MAX);
        } else {
            let bytes = store.block_mut(op, dir, Fork::Data, BlockIndex(block));
            dirent::remove(bytes, offset).expect("planned: the entry is there");
        }
        if let Some(removal) = &self.index {
            removal.apply(store, op, dir, insertion_follows);
        }
    }
}

/// Declares that an entry will name another inode.
pub fn declare_retarget(dir: &DirView, found: &Found, intents: &mut Vec<Intent>) {
    intents.push(Intent::Change { ino: dir.ino, grow_bytes: 0 });
    if !dir.is_inline {
        let (block, _) = dir.split(found.at_bytes);
        intents.push(in_place(dir.ino, Fork::Data, block, dir.block_bytes));
    }
}

/// Points an entry that was found at another inode.
pub fn retarget<S: Store>(store: &mut S, op: &mut Op, dir: &DirView, found: &Found, target: (InodeNo, Kind)) {
    let (block, offset) = dir.split(found.at_bytes);
    match &mut store.inode_mut(op, dir.ino).body {
        Body::Inline(content) => dirent::set_target(content, offset, target.0, target.1),
        Body::Blocks => {
            let bytes = store.block_mut(op, dir.ino, Fork::Data, BlockIndex(block));
            dirent::set_target(bytes, offset, target.0, target.1);
        }
    }
}

/// An entry, as [`list`] hands it out.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// The entry.
    pub record: Record<'a>,
    /// Its file type.
    pub kind: Kind,
    /// Cookie to go on behind it.
    pub next: u64,
}

/// The cookie that [`list`] starts at.
pub const FIRST_COOKIE: u64 = COOKIE_BASE;

/// Hands out the entries from a cookie on, in order, until `visit` returns false. If blocks are missing after the first
/// entry was handed out, it ends there: call again to go on. The end is reached when a call hands out nothing.
///
/// # Errors
/// `Need` and `Corrupt`, before anything was handed out.
pub fn list<S: Store>(
    store: &mut S,
    dir: &DirView,
    cookie: u64,
    visit: &mut dyn FnMut(Listed<'_>) -> bool,
) -> Outcome<()> {
    let from_bytes = cookie.saturating_sub(COOKIE_BASE).saturating_mul(dirent::UNIT_BYTES as u64);
    if dir.is_inline {
        let content = inline(store, dir.ino)?.to_vec();
        return list_block(dir, 0, &content, from_bytes, visit).map(|_| ()).map_err(|(stop, _)| stop);
    }
    let mut visited = false;
    let mut at = dir.split(from_bytes).0;
    while at < dir.blocks() {
        let step = block(store, dir, at).map_err(|stop| (stop, false)).and_then(|bytes| {
            let (go_on, any) = list_block(dir, at, &bytes, from_bytes, visit)?;
            Ok((go_on, any, dirent::is_zero(&bytes)))
        });
        match step {
            Ok((false, ..)) => return Ok(()),
            Ok((true, any, is_hole)) => {
                visited |= any;
                at = if is_hole { behind_hole(store, dir, at, visited)? } else { at + 1 };
            }
            Err((_, any)) if visited || any => return Ok(()),
            Err((stop, _)) => return Err(stop),
        }
    }
    Ok(())
}

/// The next block that may hold entries. Once something was handed out, a stop only ends the skipping.
fn behind_hole<S: Store>(store: &mut S, dir: &DirView, at: u64, visited: bool) -> Outcome<u64> {
    let block_bytes = u64::from(dir.block_bytes);
    let at_bytes = at * block_bytes;
    match store.extent(dir.ino, at_bytes, dir.size_bytes - at_bytes) {
        Ok(extent) if !extent.is_data => Ok((at + extent.len_bytes / block_bytes).max(at + 1)),
        Ok(_) => Ok(at + 1),
        Err(_) if visited => Ok(at + 1),
        Err(stop) => Err(stop),
    }
}

/// Hands out the entries of one block; returns whether to go on, and whether there were any. With an error comes
/// whether any were handed out before.
fn list_block(
    dir: &DirView,
    at: u64,
    bytes: &[u8],
    from_bytes: u64,
    visit: &mut dyn FnMut(Listed<'_>) -> bool,
) -> Result<(bool, bool), (Stop, bool)> {
    let mut any = false;
    for record in dirent::records(bytes) {
        let checked = record.and_then(|record| {
            let kind = if record.is_free() { Kind::Regular } else { record.kind()? };
            record.check_name()?;
            Ok((record, kind))
        });
        let (record, kind) = in_block(checked, dir.ino, at).map_err(|stop| (stop, any))?;
        let at_bytes = at * u64::from(dir.block_bytes) + record.at as u64;
        if record.is_free() || at_bytes < from_bytes {
            continue;
        }
        any = true;
        let next = u64::from(place_of(at_bytes)) + 1 + COOKIE_BASE;
        if !visit(Listed { record, kind, next }) {
            return Ok((false, any));
        }
    }
    Ok((true, any))
}
