//! Removing an entry: what happens to its block, to the end of the directory, and to the index.
//!
//! Callers: `vfs` through [`super`], which describes the policy.

use super::{DirView, Hints, Lookup, corrupt, in_block, inline, place_of};
use crate::dirent;
use crate::error::Outcome;
use crate::inode::Body;
use crate::store::{Fork, Intent, Op, Store};
use crate::ufs::{edit, empty_body, index};
use firnfs_format::BlockIndex;

/// Empty blocks before the end that one removal examines in order to cut them.
const CUT_BLOCKS: u64 = 16;

/// A planned removal. Order: plan, [`Remove::declare`], `begin`, [`Remove::apply`].
#[derive(Clone, Debug)]
pub struct Remove {
    dir: DirView,
    at_bytes: u64,
    name_len: usize,
    index: Option<index::Removal>,
    layout: Layout,
}

/// What a removal does besides removing the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Nothing.
    Keep,
    /// The block becomes empty; blocks from the given size on are cut.
    Punch { size_bytes: u64 },
    /// The directory is empty: content and index are dropped.
    Reset,
}

/// Plans the removal of a found entry.
///
/// # Errors
/// `Need`, `Corrupt`.
pub fn plan_remove<S: Store>(store: &mut S, dir: DirView, lookup: &Lookup, name: &[u8]) -> Outcome<Remove> {
    let at_bytes = lookup.found.expect("only what was found is removed").at_bytes;
    if dir.entries == 0 || dir.entry_bytes < dirent::record_bytes(name.len()) as u64 {
        let found = format!("{} entries in {} bytes", dir.entries, dir.entry_bytes);
        return Err(corrupt(dir.ino, "entry counts", "at least the entry that is there", found));
    }
    let index = lookup.spot.map(|spot| index::plan_remove(spot, place_of(at_bytes)));
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
                intents.push(Intent::Resize { ino, size_bytes });
            }
            Layout::Reset if !is_inline => {
                punch(Fork::Data, 0, u64::MAX);
                punch(Fork::Index, 0, u64::MAX);
                intents.push(Intent::Resize { ino, size_bytes: 0 });
            }
            Layout::Reset => {}
        }
        if !is_inline && self.layout != Layout::Reset {
            intents.push(edit(ino, Fork::Data, block, block_bytes));
        }
        if let Some(removal) = self.index.filter(|_| self.layout != Layout::Reset) {
            removal.declare(ino, block_bytes, intents);
        }
    }

    /// Call this before declaring if an insertion into the same directory follows: then nothing is cut, since the
    /// insertion may need the block.
    pub fn before_insertion(&mut self) {
        self.layout = Layout::Keep;
    }

    /// Where the entry is.
    pub(super) fn at_bytes(&self) -> u64 {
        self.at_bytes
    }

    /// Its removal from the index.
    pub(super) fn in_index(&self) -> Option<&index::Removal> {
        self.index.as_ref()
    }

    /// Removes the entry, and subtracts it from the counts in the directory's inode. `insertion_follows` as announced
    /// before.
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
        let blocks = match self.layout {
            Layout::Punch { size_bytes } => self.dir.split(size_bytes).0,
            _ => self.dir.blocks(),
        };
        hints.removed_from(dir, block, blocks);
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
            let unit_bytes = store.facts().dir_unit_bytes as usize;
            let bytes = store.block_mut(op, dir, Fork::Data, BlockIndex(block));
            dirent::remove(bytes, offset, unit_bytes).expect("planned: the entry is there");
        }
        if let Some(removal) = &self.index {
            removal.apply(store, op, dir, insertion_follows);
        }
    }
}
