//! Builds the index of a directory that has none: one that became too large to scan, or lost its index.

use super::block_mut;
use super::node::{Content, Pair, capacity, children_max};
use crate::error::FsError;
use crate::store::{Fork, Intent, Op, Store};
use crate::ufs::in_place;
use firnfs_format::InodeNo;

/// An index to be built, with one pair whose place is not known yet.
#[derive(Clone, Debug)]
pub struct Building {
    /// By block.
    nodes: Vec<Content>,
    /// The leaf and the slot in it of the new pair.
    new: (usize, usize),
}

/// Plans an index of these pairs (any order) and one more.
///
/// # Errors
/// `NoSpace` if more names share one hash than chance allows.
pub fn plan_build(mut pairs: Vec<Pair>, new_hash: u32, block_bytes: u32) -> Result<Building, FsError> {
    let capacity = capacity(block_bytes as usize);
    pairs.sort_unstable();
    let at = pairs.partition_point(|pair| pair.0 <= new_hash);
    pairs.insert(at, (new_hash, 0));
    if pairs.chunk_by(|a, b| a.0 == b.0).any(|run| run.len() > capacity / 4) {
        return Err(FsError::NoSpace);
    }
    let mut before = at;
    let nodes = lay_out(&pairs, capacity);
    let leaves = nodes.iter().enumerate().filter(|(_, node)| node.level == 0);
    let mut leaf = 0;
    for (block, node) in leaves {
        leaf = block;
        if before < node.places.len() {
            break;
        }
        before -= node.places.len();
    }
    Ok(Building { nodes, new: (leaf, before) })
}

/// Nodes by their blocks: the root, the leaves in hash order, then the levels between in the same order.
fn lay_out(pairs: &[Pair], capacity: usize) -> Vec<Content> {
    let leaf = |places: &[Pair]| Content { level: 0, children: Vec::new(), places: places.to_vec() };
    if pairs.len() <= capacity {
        return vec![leaf(pairs)];
    }
    let mut nodes = vec![leaf(&[])];
    let mut below = Vec::new();
    let mut rest = pairs;
    while !rest.is_empty() {
        let mut end = rest.len().min(capacity * 3 / 4);
        // Runs of one hash are at most a quarter of a node, so a chunk keeps at least half of one.
        while end < rest.len() && rest[end].0 == rest[end - 1].0 {
            end -= 1;
        }
        below.push((if below.is_empty() { 0 } else { rest[0].0 }, nodes.len() as u32));
        nodes.push(leaf(&rest[..end]));
        rest = &rest[end..];
    }
    let mut level = 1;
    while below.len() > children_max(capacity) {
        let mut above = Vec::new();
        for children in below.chunks(children_max(capacity) * 3 / 4) {
            above.push((children[0].0, nodes.len() as u32));
            nodes.push(Content { level, children: children.to_vec(), places: Vec::new() });
        }
        (below, level) = (above, level + 1);
    }
    nodes[0] = Content { level, children: below, places: Vec::new() };
    nodes
}

impl Building {
    /// Declares all blocks of the new index.
    pub fn declare(&self, dir: InodeNo, block_bytes: u32, intents: &mut Vec<Intent>) {
        let blocks = 0..self.nodes.len() as u64;
        intents.extend(blocks.map(|block| in_place(dir, Fork::Index, block, block_bytes)));
    }

    /// Builds the index, with the place of the new pair; returns how many blocks it has.
    pub fn apply<S: Store>(mut self, store: &mut S, op: &mut Op, dir: InodeNo, place: u32) -> u64 {
        let (leaf, slot) = self.new;
        self.nodes[leaf].places[slot].1 = place;
        for (block, node) in self.nodes.iter().enumerate() {
            node.write(block_mut(store, op, dir, block as u32));
        }
        self.nodes.len() as u64
    }
}
