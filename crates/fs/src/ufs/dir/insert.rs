//! Inserting an entry: finds its place, declares the changes, and applies them.
//!
//! Callers: `vfs` through [`super`], which describes the policy.

use super::{DirView, Hint, Hints, Remove, SCAN_BLOCKS, SIZE_MAX_BYTES, block, in_block, inline, place_of};
use crate::dirent;
use crate::error::{FsError, Outcome};
use crate::inode::{Body, Kind};
use crate::states::local;
use crate::store::{Fork, Intent, Op, Store};
use crate::ufs::{in_place, index};
use firnfs_format::{BlockIndex, InodeNo};

/// Blocks that one insertion searches for free space.
pub const PROBE_BLOCKS: u64 = 4;

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

/// The change to the index.
#[derive(Clone, Debug)]
enum IndexInsert {
    None,
    Pair(index::Insertion),
    Build(index::Building),
}

/// A planned insertion. Order: plan, [`Insert::declare`], `begin`, [`Insert::apply`].
#[derive(Clone, Debug)]
pub struct Insert {
    dir: DirView,
    place: Place,
    index: IndexInsert,
    cursor: Option<u64>,
    /// Set if a removal from the same directory comes first: the slack may have moved.
    search_again: bool,
}

/// Finds a place for a name that does not exist yet. `removed` is the removal that the same operation first makes in the
/// same directory.
///
/// # Errors
/// `Need`, `Corrupt`; `NoSpace` if the directory has its largest size.
pub fn plan_insert<S: Store>(
    store: &mut S,
    hints: &Hints,
    dir: DirView,
    name: &[u8],
    removed: Option<&Remove>,
) -> Outcome<Insert> {
    let mut hint = hints.get(dir.ino);
    if removed.is_some() {
        // The block is searched again after the removal: all its records must be checked now.
        hint.tail = None;
    }
    let (place, cursor) = find_place(store, hint, &dir, name.len())?;
    let key = store.facts().hash_key;
    let index = match place {
        _ if dir.has_index() => {
            let in_index = removed.and_then(Remove::in_index);
            let hash = index::hash(key, name);
            IndexInsert::Pair(index::plan_insert(store, dir.ino, dir.index_blocks, hash, in_index)?)
        }
        Place::Append { block } if block >= SCAN_BLOCKS => {
            plan_build(store, &dir, index::hash(key, name), removed)?
        }
        _ => IndexInsert::None,
    };
    Ok(Insert { dir, place, index, cursor, search_again: removed.is_some() })
}

fn find_place<S: Store>(
    store: &mut S,
    hint: Hint,
    dir: &DirView,
    name_len: usize,
) -> Outcome<(Place, Option<u64>)> {
    if dir.is_inline {
        // Block 0 must have room for the inline content and the longest name.
        let spare = dirent::record_bytes(dirent::NAME_MAX_BYTES);
        let inline_max = (store.facts().inline_max_bytes as usize).min(dir.block_bytes as usize - spare);
        let content = inline(store, dir.ino)?;
        let has_room = in_block(dirent::room(content, name_len), dir.ino, 0)?.is_some()
            || content.len() + dirent::record_bytes(name_len) <= inline_max;
        return Ok((if has_room { Place::Inline } else { Place::Convert }, None));
    }
    let blocks = dir.blocks();
    if let Some(tail) = at_tail(store, dir, &hint, name_len)? {
        return Ok((tail, None));
    }
    if blocks > 0
        && let Some(slack) = slack_in(store, dir, blocks - 1, name_len)?
    {
        return Ok((slack, None));
    }
    let append = Place::Append { block: blocks };
    let mut cursor = None;
    if dir.size_bytes.saturating_sub(dir.entry_bytes) > dir.size_bytes / 4 {
        let start = hint.cursor;
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

/// The slack of the most recent record, without a search: the usual place when a directory grows.
fn at_tail<S: Store>(store: &mut S, dir: &DirView, hint: &Hint, name_len: usize) -> Outcome<Option<Place>> {
    let Some((block, host)) = hint.tail.filter(|tail| tail.0 + 1 == dir.blocks()) else { return Ok(None) };
    let bytes = store.block(dir.ino, Fork::Data, BlockIndex(block))?;
    let record = in_block(dirent::record(&bytes, host), dir.ino, block)?;
    let has_room = record.len_bytes - record.used_bytes() >= dirent::record_bytes(name_len);
    Ok(has_room.then_some(Place::Slack { block, host }))
}

fn slack_in<S: Store>(store: &mut S, dir: &DirView, at: u64, name_len: usize) -> Outcome<Option<Place>> {
    let block = store.block(dir.ino, Fork::Data, BlockIndex(at))?;
    let host = in_block(dirent::room(&block, name_len), dir.ino, at)?;
    Ok(host.map(|host| Place::Slack { block: at, host }))
}

fn plan_build<S: Store>(
    store: &mut S,
    dir: &DirView,
    hash: u32,
    removed: Option<&Remove>,
) -> Outcome<IndexInsert> {
    let removed_at = removed.map(Remove::at_bytes);
    let key = store.facts().hash_key;
    let mut pairs = Vec::new();
    for at in 0..dir.blocks() {
        let block = block(store, dir, at)?;
        for record in dirent::records(&block) {
            let record = in_block(record, dir.ino, at)?;
            let at_bytes = at * u64::from(dir.block_bytes) + record.at as u64;
            if !record.is_free() && removed_at != Some(at_bytes) {
                pairs.push((index::hash(key, record.name), place_of(at_bytes)));
            }
        }
    }
    Ok(IndexInsert::Build(index::plan_build(pairs, hash, dir.block_bytes)?))
}

impl Insert {
    /// Declares the changes; `name_len` as planned.
    pub fn declare(&self, name_len: usize, intents: &mut Vec<Intent>) {
        let DirView { ino, block_bytes, .. } = self.dir;
        let in_index =
            if let IndexInsert::Pair(insertion) = &self.index { insertion.grow_bytes() } else { 0 };
        intents.push(Intent::Change { ino, grow_bytes: dirent::record_bytes(name_len) as u64 + in_index });
        match self.place {
            Place::Inline => {}
            Place::Convert => {
                intents.push(in_place(ino, Fork::Data, 0, block_bytes));
                intents.push(Intent::Resize { ino, size_bytes: u64::from(block_bytes) });
            }
            Place::Slack { block, .. } => intents.push(in_place(ino, Fork::Data, block, block_bytes)),
            Place::Append { block } => {
                intents.push(in_place(ino, Fork::Data, block, block_bytes));
                intents.push(Intent::Resize { ino, size_bytes: (block + 1) * u64::from(block_bytes) });
            }
        }
        match &self.index {
            IndexInsert::None => {}
            IndexInsert::Pair(insertion) => insertion.declare(ino, block_bytes, intents),
            IndexInsert::Build(building) => building.declare(ino, block_bytes, intents),
        }
    }

    /// Inserts the entry, and counts it in the directory's inode.
    pub fn apply<S: Store>(
        self,
        store: &mut S,
        op: &mut Op,
        hints: &mut Hints,
        name: &[u8],
        target: (InodeNo, Kind),
    ) {
        let dir = self.dir.ino;
        let at_bytes = self.put(store, op, name, target);
        self.remember(hints, at_bytes);
        let index_blocks = match self.index {
            IndexInsert::None => 0,
            IndexInsert::Pair(insertion) => insertion.apply(store, op, dir, place_of(at_bytes)),
            IndexInsert::Build(building) => building.apply(store, op, dir, place_of(at_bytes)),
        };
        let inode = store.inode_mut(op, dir);
        inode.entries = inode.entries.saturating_add(1);
        inode.entry_bytes = inode.entry_bytes.saturating_add(dirent::record_bytes(name.len()) as u64);
        inode.index_blocks = index_blocks;
    }

    /// Notes where the next entry may go: after this one if this is in the last block, otherwise near it.
    fn remember(&self, hints: &mut Hints, at_bytes: u64) {
        let mut hint = hints.get(self.dir.ino);
        hint.cursor = self.cursor.unwrap_or(hint.cursor);
        let (block, offset) = self.dir.split(at_bytes);
        match self.place {
            Place::Inline => return,
            Place::Slack { .. } if block + 1 < self.dir.blocks() => {}
            Place::Convert | Place::Slack { .. } | Place::Append { .. } => hint.tail = Some((block, offset)),
        }
        hints.set(self.dir.ino, hint);
    }

    /// Writes the record into the content; returns its offset.
    fn put<S: Store>(&self, store: &mut S, op: &mut Op, name: &[u8], (ino, kind): (InodeNo, Kind)) -> u64 {
        let (dir, ino) = (self.dir.ino, local(ino));
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
        let unit_bytes = store.facts().dir_unit_bytes as usize;
        let bytes = store.block_mut(op, dir, Fork::Data, BlockIndex(block));
        let host = host.or_else(|| dirent::room(bytes, name.len()).expect("planned: the block is sound"));
        let host = host.expect("planned: the block has room");
        let at = dirent::insert(bytes, host, (ino, kind), name, unit_bytes)
            .expect("planned: the record has slack");
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
        Some(host) => {
            let one_unit = content.len();
            let inserted = dirent::insert(content, host, (ino, kind), name, one_unit);
            inserted.expect("planned: the record has slack")
        }
        None => dirent::append_inline(content, ino, kind, name),
    };
    inode.size_bytes = content.len() as u64;
    at as u64
}
