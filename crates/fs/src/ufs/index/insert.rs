//! Inserting a pair: into the root, after room was made there if it is full.
//!
//! Room is made along one way down: from the root the pairs that wait for its heaviest child go to that child; if they
//! would not fit there, first those of *its* heaviest child go on, and so forth to a leaf at most. Nodes that became too
//! large are split, from the bottom up. All this is worked out when the insertion is planned; applying it writes the nodes.

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

/// An insertion that has been looked at.
#[derive(Clone, Debug)]
pub struct Insertion {
    hash: u32,
    /// Nodes that making room changes, with what they hold then.
    nodes: Vec<Placed>,
    /// Blocks of the index then.
    index_blocks: u64,
}

/// Looks at what inserting a hash changes. `removed` is a removal that the same operation does first.
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

    /// By how much the index may grow beside its new nodes, in bytes. Pairs that move are as many as before, but what is
    /// stored of a node is rounded up to sectors.
    #[must_use]
    pub fn grow_bytes(&self) -> u64 {
        self.nodes.len() as u64 * u64::from(SECTOR_BYTES)
    }

    /// Inserts `place`; returns how many blocks the index has then.
    pub fn apply<S: Store>(&self, store: &mut S, op: &mut Op, dir: InodeNo, place: u32) -> u64 {
        for (block, content) in &self.nodes {
            content.write(block_mut(store, op, dir, *block));
        }
        node::add_place(block_mut(store, op, dir, ROOT), (self.hash, place));
        self.index_blocks
    }
}

/// Nodes from the root down, to the first that need not pass on what it has.
struct Way {
    nodes: Vec<Placed>,
    /// The last has no room for what the one above has for it, and is to be split.
    is_last_split: bool,
}

impl Way {
    /// Takes out what is about to be removed.
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
        // A part of a large load is worth bringing down.
        let takes_load = capacity - content.len() >= load.min(children_max);
        if content.level == 0 || takes_load || content.children.len() > children_max {
            // What a leaf below the root gets may split it, that is seen when it gets it.
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

/// Makes room in the root. Returns all nodes that changed or are new, and how many blocks the index has then.
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

/// What making room has led to so far.
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

    /// Splits the root into two new nodes below it. What waits stays.
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

    /// Brings pairs from a node down to its child, or to the other half of that if it was split.
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
