//! Repairs of one directory. Every step is one operation, atomic across a crash, that leaves the directory no worse
//! than before: the remaining entries do not move, and a directory without an index is searched in order.

use crate::dirent;
use crate::error::{FsError, Outcome};
use crate::inode::{Body, Inode, Kind};
use crate::states::within;
use crate::store::{Fork, Intent, Op, OpKind, Store};
use crate::ufs::dir::{self, DirView, SCAN_BLOCKS};
use crate::ufs::{edit, index};
use firnfs_format::{BlockIndex, InodeNo, TimeNs};

use super::finding::EntryPlace;

/// Begins an operation that changes the inode of a directory and drops its index, and perhaps edits one of its blocks.
fn begin<S: Store>(store: &mut S, now: TimeNs, dir: &DirView, block: Option<u64>) -> Outcome<Op> {
    let ino = dir.ino;
    let mut intents = vec![Intent::Change { ino, grow_bytes: 0 }];
    if dir.has_index() {
        intents.push(Intent::Punch { ino, fork: Fork::Index, at_bytes: 0, len_bytes: u64::MAX });
    }
    if let Some(block) = block {
        intents.push(edit(ino, Fork::Data, block, store.facts().block_bytes));
    }
    store.begin(now, OpKind::Names, &intents)
}

fn drop_index<S: Store>(store: &mut S, op: &mut Op, dir: &DirView) {
    if dir.has_index() {
        store.punch(op, dir.ino, Fork::Index, 0, u64::MAX);
        store.inode_mut(op, dir.ino).index_blocks = 0;
    }
}

/// Drops the hash index, whatever the inode says about it.
///
/// # Errors
/// `Need`, `Room`, `Corrupt`.
pub fn forget_index<S: Store>(store: &mut S, now: TimeNs, ino: InodeNo) -> Outcome<()> {
    store.inode(ino)?;
    let intents = [
        Intent::Change { ino, grow_bytes: 0 },
        Intent::Punch { ino, fork: Fork::Index, at_bytes: 0, len_bytes: u64::MAX },
    ];
    let mut op = store.begin(now, OpKind::Names, &intents)?;
    store.punch(&mut op, ino, Fork::Index, 0, u64::MAX);
    store.inode_mut(&mut op, ino).index_blocks = 0;
    store.end(op);
    Ok(())
}

/// Removes an entry.
///
/// # Errors
/// `Need`, `Room`, `Corrupt`.
pub fn remove_entry<S: Store>(store: &mut S, now: TimeNs, at: EntryPlace) -> Outcome<()> {
    let dir = dir::view(store, at.dir)?;
    let block_bytes = u64::from(store.facts().block_bytes);
    let (block, offset) = (at.at_bytes / block_bytes, (at.at_bytes % block_bytes) as usize);
    let inline = inline_of(store.inode(at.dir)?);
    let used = match &inline {
        Some(content) => dirent::record(content, at.at_bytes as usize)?.used_bytes(),
        None => {
            let bytes = store.block(at.dir, Fork::Data, BlockIndex(block))?;
            // Also check that it can be removed: nothing may fail once the operation has begun.
            dirent::before(&bytes, offset)?;
            dirent::record(&bytes, offset)?.used_bytes()
        }
    };
    if used == 0 {
        return Ok(());
    }
    let shorter =
        inline.map(|mut content| dirent::remove_inline(&mut content, at.at_bytes as usize).map(|()| content));
    let shorter = shorter.transpose()?;
    let mut op = begin(store, now, &dir, shorter.is_none().then_some(block))?;
    match shorter {
        Some(content) => set_inline(store.inode_mut(&mut op, at.dir), content),
        None => {
            let unit_bytes = store.facts().dir_unit_bytes as usize;
            let bytes = store.block_mut(&mut op, at.dir, Fork::Data, BlockIndex(block));
            dirent::remove(bytes, offset, unit_bytes).expect("looked at: the entry can be taken out");
        }
    }
    drop_index(store, &mut op, &dir);
    let inode = store.inode_mut(&mut op, at.dir);
    inode.entries = inode.entries.saturating_sub(1);
    inode.entry_bytes = inode.entry_bytes.saturating_sub(used as u64);
    store.end(op);
    Ok(())
}

/// Gives an entry the type of the inode that it names.
///
/// # Errors
/// `Need`, `Room`, `Corrupt`.
pub fn retype_entry<S: Store>(store: &mut S, now: TimeNs, at: EntryPlace, target: InodeNo) -> Outcome<()> {
    let kind: Kind = store.inode(within(at.dir, target))?.kind;
    let block_bytes = u64::from(store.facts().block_bytes);
    let (block, offset) = (at.at_bytes / block_bytes, (at.at_bytes % block_bytes) as usize);
    let inline = inline_of(store.inode(at.dir)?);
    let mut intents = vec![Intent::Change { ino: at.dir, grow_bytes: 0 }];
    match &inline {
        Some(content) => drop(dirent::record(content, at.at_bytes as usize)?),
        None => {
            let bytes = store.block(at.dir, Fork::Data, BlockIndex(block))?;
            dirent::record(&bytes, offset)?;
            intents.push(edit(at.dir, Fork::Data, block, block_bytes as u32));
        }
    }
    let mut op = store.begin(now, OpKind::Names, &intents)?;
    match inline {
        Some(mut content) => {
            dirent::set_target(&mut content, at.at_bytes as usize, target, kind);
            set_inline(store.inode_mut(&mut op, at.dir), content);
        }
        None => {
            let bytes = store.block_mut(&mut op, at.dir, Fork::Data, BlockIndex(block));
            dirent::set_target(bytes, offset, target, kind);
        }
    }
    store.end(op);
    Ok(())
}

/// Keeps, of each unit of a block or of inline content, the records before the first unreadable one.
///
/// # Errors
/// `Need`, `Room`, `Corrupt`.
pub fn keep_readable<S: Store>(store: &mut S, now: TimeNs, ino: InodeNo, block: u64) -> Outcome<()> {
    let dir = dir::view(store, ino)?;
    if let Some(mut content) = inline_of(store.inode(ino)?) {
        let end = readable(&content).map_or(0, |(_, end)| end);
        content.truncate(end);
        let mut op = begin(store, now, &dir, None)?;
        set_inline(store.inode_mut(&mut op, ino), content);
        store.end(op);
        return Ok(());
    }
    store.block(ino, Fork::Data, BlockIndex(block))?;
    let facts = store.facts();
    let mut op = begin(store, now, &dir, Some(block))?;
    let bytes = store.block_mut(&mut op, ino, Fork::Data, BlockIndex(block));
    let is_one_unit = facts.dir_unit_bytes == facts.block_bytes;
    for unit in bytes.chunks_mut(facts.dir_unit_bytes as usize) {
        let unit_bytes = unit.len();
        match readable(unit).map(|(last, _)| last) {
            Some(last) => {
                dirent::put_units(unit, last, unit_bytes - last);
                let used = dirent::record(unit, last).map_or(0, |record| record.used_bytes());
                unit[last + used.max(dirent::HEAD_BYTES)..].fill(0);
            }
            None if is_one_unit => unit.fill(0),
            None => dirent::free_units(unit, unit_bytes),
        }
    }
    drop_index(store, &mut op, &dir);
    store.end(op);
    Ok(())
}

/// Start of the last readable record and end of all readable records, before the first unreadable one.
fn readable(bytes: &[u8]) -> Option<(usize, usize)> {
    dirent::records(bytes).map_while(Result::ok).last().map(|record| (record.at, record.end()))
}

fn inline_of(inode: &Inode) -> Option<Vec<u8>> {
    if let Body::Inline(content) = &inode.body { Some(content.clone()) } else { None }
}

fn set_inline(inode: &mut Inode, content: Vec<u8>) {
    inode.size_bytes = content.len() as u64;
    inode.body = Body::Inline(content);
}

/// Sets the counts to those of the entries; builds the index if the directory is large and has none.
///
/// # Errors
/// `Need`, `Room`, `Corrupt`.
pub fn recount<S: Store>(store: &mut S, now: TimeNs, ino: InodeNo) -> Outcome<()> {
    let dir = dir::view(store, ino)?;
    let key = store.facts().hash_key;
    let block_bytes = store.facts().block_bytes;
    let mut pairs = Vec::new();
    let mut bytes = 0;
    dir::each_entry(store, &dir, &mut |record, at_bytes| {
        bytes += record.used_bytes() as u64;
        pairs.push((index::hash(key, record.name), (at_bytes / dirent::UNIT_BYTES as u64) as u32));
    })?;
    let entries = pairs.len() as u64;
    let last = if dir.blocks() > SCAN_BLOCKS && !dir.has_index() { pairs.pop() } else { None };
    let mut intents = vec![Intent::Change { ino, grow_bytes: 0 }];
    let building = match last {
        Some((hash, place)) => {
            let building = index::plan_build(pairs, hash, block_bytes)?;
            building.declare(ino, block_bytes, &mut intents);
            Some((building, place))
        }
        None => None,
    };
    let inode = store.inode(ino)?;
    if (inode.entries, inode.entry_bytes) == (entries, bytes) && building.is_none() {
        return Ok(());
    }
    let mut op = store.begin(now, OpKind::Names, &intents)?;
    let index_blocks = building.map(|(building, place)| building.apply(store, &mut op, ino, place));
    let inode = store.inode_mut(&mut op, ino);
    (inode.entries, inode.entry_bytes) = (entries, bytes);
    inode.index_blocks = index_blocks.unwrap_or(inode.index_blocks);
    store.end(op);
    Ok(())
}

/// Rounds the size of a directory to whole blocks.
///
/// # Errors
/// `Need`, `Room`, `Invalid` if it is no directory in blocks.
pub fn round_size<S: Store>(store: &mut S, now: TimeNs, ino: InodeNo) -> Outcome<()> {
    let block_bytes = u64::from(store.facts().block_bytes);
    let size_bytes = store.inode(ino)?.size_bytes.next_multiple_of(block_bytes);
    if size_bytes > 32 << 30 {
        return Err(FsError::Invalid("a directory of more than 32 GiB").into());
    }
    let intents = [Intent::Change { ino, grow_bytes: 0 }, Intent::Resize { ino, size_bytes }];
    let mut op = store.begin(now, OpKind::Names, &intents)?;
    store.inode_mut(&mut op, ino).size_bytes = size_bytes;
    store.end(op);
    Ok(())
}
