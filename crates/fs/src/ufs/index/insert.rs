//! Inserts a pair into the root, after making room there if it is full.
//!
//! Room is made along one path downwards: the pairs in the root that wait for its heaviest child move to that child. If
//! they would not fit there, first those of *its* heaviest child move on, and so on, at most to a leaf. Nodes that become
//! too large are split, from the bottom up. The plan of an insertion works all this out; applying it writes the nodes.

use super::node::{self, Content, capacity, checked_child, children_max};
use super::{Removal, block, block_mut};
use crate::error::{FsError, Outcome};
use crate::store::{Fork, Intent, Op, Store};
use crate::ufs::in_place;
use firnfs_format::{InodeNo, SECTOR_BYTES};
use std::ops::Range;

const ROOT: u32 = 0;

/// A node and its block.
type Placed = (u32, Content);

/// A planned insertion.
#[derive(Clone, Debug)]
pub struct Insertion {
    hash: u32,
    /// Nodes that change to make room, with their new content.
    nodes: Vec<Placed>,
    /// Number of blocks of the index afterwards.
    index_blocks: u64,
}

/// Plans the insertion of a hash. `removed` is a removal that the same operation does first.
///
/// # Errors
/// `Need`, `Corrupt`; `NoSpace` if more names share one hash than chance allows, or the index is at its largest.
pub fn plan_insert<S: Store>(
    store: &mut S,
    dir: InodeNo,
    index_blocks: u64,
    hash: u32,
    removed: Option<&Removal>,
) -> Outcome<Insertion> {
    let root = block(store, dir, ROOT)?;
    node::check(&root, ROOT, None)?;
    if node::has_room(&root) {
        return Ok(Insertion { hash, nodes: Vec::new(), index_blocks });
    }
    let mut way = way_down(store, dir, index_blocks)?;
    way.take_out(removed);
    let (nodes, index_blocks) = make_room(way, index_blocks, capacity(root.len()))?;
    Ok(Insertion { hash, nodes, index_blocks })
}

impl Insertion {
    /// Declares the nodes that may change, and the new ones.
    pub fn declare(&self, dir: InodeNo, block_bytes: u32, intents: &mut Vec<Intent>) {
        let others = self.nodes.iter().map(|node| node.0).filter(|&block| block != ROOT);
        let blocks = [ROOT].into_iter().chain(others);
        intents.extend(blocks.map(|block| in_place(dir, Fork::Index, u64::from(block), block_bytes)));
    }

    /// By how much the index may grow beside its new nodes, in bytes. The number of pairs that move stays the same, but the
    /// stored length of a node is rounded up to sectors.
    #[must_use]
    pub fn grow_bytes(&self) -> u64 {
        self.nodes.len() as u64 * u64::from(SECTOR_BYTES)
    }

    /// Inserts `place`; returns the number of blocks of the index afterwards.
    pub fn apply<S: Store>(&self, store: &mut S, op: &mut Op, dir: InodeNo, place: u32) -> u64 {
        for (block, content) in &self.nodes {
            content.write(block_mut(store, op, dir, *block));
        }
        node::add_place(block_mut(store, op, dir, ROOT), (self.hash, place));
        self.index_blocks
    }
}

/// Nodes from the root down to the first that need not pass on its pairs.
struct Way {
    nodes: Vec<Placed>,
    /// The last node has no room for the pairs that its parent has for it, and will be split.
    is_last_split: bool,
}

impl Way {
    /// Removes the pair that is about to be removed.
    fn take_out(&mut self, removed: Option<&Removal>) {
        let Some(removed) = removed else { return };
        if let Some((_, content)) = self.nodes.iter_mut().find(|node| node.0 == removed.block()) {
            content.places.retain(|&pair| pair != removed.pair());
        }
    }
}

fn way_down<S: Store>(store: &mut S, dir: InodeNo, index_blocks: u64) -> Outcome<Way> {
    let mut nodes = Vec::new();
    let (mut at, mut expected, mut load) = (ROOT, None, 1);
    loop {
        let here = block(store, dir, at)?;
        node::check(&here, at, expected)?;
        let (content, capacity) = (Content::of(&here, at)?, capacity(here.len()));
        let children_max = children_max(capacity);
        // Part of a large load is worth moving down.
        let takes_load = capacity - content.len() >= load.min(children_max);
        if content.level == 0 || takes_load || content.children.len() > children_max {
            // A leaf below the root may be split by the pairs that it gets; that shows when it gets them.
            let is_last_split = !takes_load && (content.level > 0 || at == ROOT);
            nodes.push((at, content));
            return Ok(Way { nodes, is_last_split });
        }
        let (child, waiting) = content.heaviest();
        (load, expected) = (waiting, Some(content.level - 1));
        nodes.push((at, content));
        at = checked_child(child, at, index_blocks)?;
    }
}

/// Makes room in the root. Returns all changed or new nodes, and the number of blocks of the index afterwards.
fn make_room(way: Way, index_blocks: u64, capacity: usize) -> Result<(Vec<Placed>, u64), FsError> {
    let Way { mut nodes, mut is_last_split } = way;
    let mut work = Work { capacity, index_blocks, done: Vec::new() };
    let (mut at, mut here) = nodes.pop().expect("the root is on the way");
    while let Some((parent_at, mut parent)) = nodes.pop() {
        let sibling = if is_last_split { Some(work.split(&mut here, &mut parent)?) } else { None };
        work.bring_down(&mut parent, (at, here), sibling)?;
        (at, here) = (parent_at, parent);
        is_last_split = here.children.len() > children_max(capacity);
    }
    if is_last_split {
        work.split_root(&mut here)?;
    }
    let has_room = here.len() < capacity;
    work.done.push((at, here));
    if has_room && work.done.iter().all(|(_, content)| content.len() <= capacity) {
        return Ok((work.done, work.index_blocks));
    }
    Err(FsError::NoSpace)
}

/// The changes made so far to get room.
struct Work {
    /// Pairs that fit a node.
    capacity: usize,
    index_blocks: u64,
    done: Vec<Placed>,
}

impl Work {
    fn new_block(&mut self) -> u32 {
        self.index_blocks += 1;
        (self.index_blocks - 1) as u32
    }

    /// Splits a node below a parent. The upper half, a new node, becomes its child.
    fn split(&mut self, here: &mut Content, parent: &mut Content) -> Result<Placed, FsError> {
        let (bound, upper) = here.split(self.capacity).ok_or(FsError::NoSpace)?;
        let block = self.new_block();
        let slot = parent.children.partition_point(|child| child.0 < bound);
        parent.children.insert(slot, (bound, block));
        Ok((block, upper))
    }

    /// Splits the root into two new nodes below it. Waiting pairs stay.
    fn split_root(&mut self, root: &mut Content) -> Result<(), FsError> {
        if usize::from(root.level) + 1 == node::DEPTH_MAX {
            return Err(FsError::NoSpace);
        }
        let waiting = if root.level > 0 { std::mem::take(&mut root.places) } else { Vec::new() };
        let (bound, upper) = root.split(self.capacity).ok_or(FsError::NoSpace)?;
        let (low_block, high_block) = (self.new_block(), self.new_block());
        let children = vec![(0, low_block), (bound, high_block)];
        let above = Content { level: root.level + 1, children, places: waiting };
        let lower = std::mem::replace(root, above);
        self.done.extend([(low_block, lower), (high_block, upper)]);
        Ok(())
    }

    /// Moves pairs from a node down to its child, or to the child's other half if it was split.
    fn bring_down(
        &mut self,
        parent: &mut Content,
        child: Placed,
        sibling: Option<Placed>,
    ) -> Result<(), FsError> {
        let ((block, mut target), other) = match sibling {
            Some(other) if load_of(parent, other.0).len() > load_of(parent, child.0).len() => {
                (other, Some(child))
            }
            other => (child, other),
        };
        self.done.extend(other);
        let load = load_of(parent, block);
        let room = if target.level == 0 { usize::MAX } else { self.capacity.saturating_sub(target.len()) };
        let pairs: Vec<_> = parent.places.drain(load.start..load.start + load.len().min(room)).collect();
        target.add_places(&pairs);
        if target.len() > self.capacity {
            let upper = self.split(&mut target, parent)?;
            self.done.push(upper);
        }
        self.done.push((block, target));
        Ok(())
    }
}

/// Slots of the pairs in a node that wait for the child in a block.
fn load_of(parent: &Content, child: u32) -> Range<usize> {
    let slot = parent.children.iter().position(|entry| entry.1 == child);
    slot.map_or(0..0, |slot| parent.waiting_for(slot))
}
