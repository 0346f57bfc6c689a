//! The hash index of a large directory: from the hash of a name to the places of the entries that may have it.
//!
//! ```text
//!  index    := node*                      (Fork::Index, one node a block, the root always in block 0)
//!  node     := level u8, 0 u8, count u16, 0 u32, pair{count}, unused
//!  pair     := hash u32, value u32        (sorted by hash)
//!  leaf     := node with level 0          value: offset of an entry in the directory, in units of 8 bytes
//!  interior := node with level 1..=5      value: block of a child with level - 1, hash: lower bound of its hashes
//! ```
//! Little endian. A block of zeros is a leaf without pairs: an emptied leaf is punched and stays where it is.
//! The hash is the low half of SipHash-1-3 of the name under the volume's key, so that nobody who does not know the key can
//! make names collide.
//!
//! Invariants: pairs of equal hash lie in one leaf (leaves are split between different hashes); blocks
//! 0..`Inode::index_blocks` are all reachable; the index holds exactly the entries of the directory.
//! Caller: [`super::dir`].

use crate::error::{FsError, Outcome};
use crate::store::{Buf, Fork, Intent, Op, Store};
use crate::ufs::{edit, in_place};
use firnfs_format::{BlockIndex, InodeNo};
use siphasher::sip::SipHasher13;
use std::collections::BTreeSet;

/// Levels that an index can have, the leaves included: 8^6 nodes of the smallest fan-out would hold any directory.
pub const DEPTH_MAX: usize = 6;

const HEAD_BYTES: usize = 8;
const PAIR_BYTES: usize = 8;

/// An entry of a node: a hash, and a position or a child.
type Pair = (u32, u32);

/// The index hash of a name.
#[must_use]
pub fn hash(key: [u64; 2], name: &[u8]) -> u32 {
    hash64(key, name) as u32
}

/// The hash of a name of which the index keeps the low half.
#[must_use]
pub fn hash64(key: [u64; 2], name: &[u8]) -> u64 {
    SipHasher13::new_with_keys(key[0], key[1]).hash(name)
}

/// Pairs that fit a node.
#[must_use]
pub fn capacity(block_bytes: usize) -> usize {
    (block_bytes - HEAD_BYTES) / PAIR_BYTES
}

fn count(node: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([node[2], node[3]]))
}

fn set_head(node: &mut [u8], level: u8, count: usize) {
    let [low, high] = (count as u16).to_le_bytes();
    node[..HEAD_BYTES].copy_from_slice(&[level, 0, low, high, 0, 0, 0, 0]);
}

fn word(node: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(node[at..at + 4].try_into().expect("4 bytes"))
}

fn pair(node: &[u8], slot: usize) -> Pair {
    let at = HEAD_BYTES + slot * PAIR_BYTES;
    (word(node, at), word(node, at + 4))
}

fn put_pair(node: &mut [u8], slot: usize, (hash, value): Pair) {
    let at = HEAD_BYTES + slot * PAIR_BYTES;
    node[at..at + 4].copy_from_slice(&hash.to_le_bytes());
    node[at + 4..at + PAIR_BYTES].copy_from_slice(&value.to_le_bytes());
}

/// First slot whose hash is not below `bound` (`past`: above it). Binary search in place.
fn slot_of(node: &[u8], bound: u32, past: bool) -> usize {
    let (mut low, mut high) = (0, count(node));
    while low < high {
        let middle = low.midpoint(high);
        let at = word(node, HEAD_BYTES + middle * PAIR_BYTES);
        if at < bound || (past && at == bound) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

fn insert_pair(node: &mut [u8], new: Pair) {
    let (slot, used) = (slot_of(node, new.0, true), count(node));
    let at = HEAD_BYTES + slot * PAIR_BYTES;
    node.copy_within(at..HEAD_BYTES + used * PAIR_BYTES, at + PAIR_BYTES);
    put_pair(node, slot, new);
    set_head(node, node[0], used + 1);
}

fn fill(node: &mut [u8], level: u8, pairs: &[Pair]) {
    set_head(node, level, pairs.len());
    for (slot, &pair) in pairs.iter().enumerate() {
        put_pair(node, slot, pair);
    }
}

/// Checks the head of a node that must have a level (`None`: any).
fn check(node: &[u8], at: u32, level: Option<u8>) -> Result<(), FsError> {
    let sound = count(node) <= capacity(node.len())
        && level.map_or(usize::from(node[0]) < DEPTH_MAX, |level| node[0] == level)
        && (node[0] == 0 || count(node) > 0);
    if sound {
        return Ok(());
    }
    Err(corrupt(
        at,
        &format!("a node of level {level:?}"),
        format!("level {}, {} pairs", node[0], count(node)),
    ))
}

fn corrupt(block: u32, expected: &str, found: String) -> FsError {
    FsError::Corrupt {
        what: "directory index".to_owned(),
        at: format!("block {block}"),
        expected: expected.to_owned(),
        found,
    }
}

/// The way from the root to the leaf where a hash belongs.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    blocks: [u32; DEPTH_MAX],
    len: usize,
    hash: u32,
    leaf_pairs: usize,
}

impl Path {
    /// The hash that it leads to.
    #[must_use]
    pub fn hash(&self) -> u32 {
        self.hash
    }

    fn leaf(&self) -> u32 {
        self.blocks[self.len - 1]
    }
}

fn node<S: Store>(store: &mut S, dir: InodeNo, block: u32) -> Outcome<Buf> {
    store.block(dir, Fork::Index, BlockIndex(u64::from(block)))
}

/// Goes down to the leaf where `hash` belongs; returns it with the way to it.
///
/// # Errors
/// `Need`, `Corrupt`.
pub fn descend<S: Store>(store: &mut S, dir: InodeNo, index_blocks: u64, hash: u32) -> Outcome<(Path, Buf)> {
    let mut path = Path { blocks: [0; DEPTH_MAX], len: 1, hash, leaf_pairs: 0 };
    let mut here = node(store, dir, 0)?;
    check(&here, 0, None)?;
    while here[0] > 0 {
        let slot = slot_of(&here, hash, true).saturating_sub(1);
        let (_, child) = pair(&here, slot);
        if child == 0 || u64::from(child) >= index_blocks {
            let found = format!("child {child} of {index_blocks} blocks");
            return Err(corrupt(path.leaf(), "a child within the index", found).into());
        }
        let level = here[0] - 1;
        here = node(store, dir, child)?;
        check(&here, child, Some(level))?;
        path.blocks[path.len] = child;
        path.len += 1;
    }
    path.leaf_pairs = count(&here);
    Ok((path, here))
}

/// Places (in units of 8 bytes) of the entries in a leaf that have a hash.
pub fn places(leaf: &[u8], hash: u32) -> impl Iterator<Item = u32> {
    let start = slot_of(leaf, hash, false);
    (start..count(leaf)).map(|slot| pair(leaf, slot)).take_while(move |p| p.0 == hash).map(|p| p.1)
}

/// Walks the whole index: hands out all pairs, leaf by leaf, and checks that each block is reached exactly once and that
/// hashes lie within the bounds their parents give. Reads every node: for checkers.
///
/// # Errors
/// `Need`, `Corrupt`.
pub fn walk<S: Store>(
    store: &mut S,
    dir: InodeNo,
    index_blocks: u64,
    visit: &mut dyn FnMut(u32, u32),
) -> Outcome<()> {
    walk_nodes(index_blocks, &mut |block| node(store, dir, block), visit)
}

/// As [`walk`], over nodes that `node` gives by their block number.
///
/// # Errors
/// `Corrupt`, and what `node` returns.
pub fn walk_nodes(
    index_blocks: u64,
    node: &mut dyn FnMut(u32) -> Outcome<Buf>,
    visit: &mut dyn FnMut(u32, u32),
) -> Outcome<()> {
    let mut reached = BTreeSet::new();
    // Block, its level if known, and the hashes that belong below it.
    let mut todo = vec![(0, None, 0..=u32::MAX)];
    while let Some((block, level, bounds)) = todo.pop() {
        if u64::from(block) >= index_blocks || !reached.insert(block) {
            return Err(corrupt(block, "a node reached once", format!("{index_blocks} blocks")).into());
        }
        let here = node(block)?;
        check(&here, block, level)?;
        let pairs: Vec<Pair> = (0..count(&here)).map(|slot| pair(&here, slot)).collect();
        let sorted =
            pairs.is_sorted_by_key(|pair| pair.0) && pairs.iter().all(|pair| bounds.contains(&pair.0));
        if !sorted {
            return Err(
                corrupt(block, "sorted hashes within bounds", format!("{} pairs", pairs.len())).into()
            );
        }
        if here[0] == 0 {
            pairs.iter().for_each(|&(hash, place)| visit(hash, place));
            continue;
        }
        let ends = pairs[1..].iter().map(|next| next.0.saturating_sub(1)).chain([*bounds.end()]);
        for (&(hash, child), end) in pairs.iter().zip(ends) {
            todo.push((child, Some(here[0] - 1), hash..=end));
        }
    }
    match (0..index_blocks).find(|&block| !reached.contains(&(block as u32))) {
        None => Ok(()),
        Some(lost) => Err(corrupt(lost as u32, "a node that is reached", "no way to it".to_owned()).into()),
    }
}

/// An insertion that has been looked at.
#[derive(Clone, Copy, Debug)]
pub struct Insertion {
    path: Path,
    /// How many nodes of the path, from the leaf up, may change.
    changed: usize,
    new_blocks: u64,
}

/// Looks at what inserting at the end of a path changes.
///
/// # Errors
/// `Need`; `NoSpace` if the leaf is full of one single hash.
pub fn plan_insert<S: Store>(store: &mut S, dir: InodeNo, path: Path) -> Outcome<Insertion> {
    let mut plan = Insertion { path, changed: 0, new_blocks: 0 };
    for depth in (0..path.len).rev() {
        plan.changed += 1;
        let here = node(store, dir, path.blocks[depth])?;
        if count(&here) < capacity(here.len()) {
            return Ok(plan);
        }
        if pair(&here, 0).0 == pair(&here, count(&here) - 1).0 {
            return Err(FsError::NoSpace.into());
        }
        plan.new_blocks += if depth == 0 { 2 } else { 1 };
    }
    if path.len == DEPTH_MAX {
        return Err(FsError::NoSpace.into());
    }
    Ok(plan)
}

impl Insertion {
    /// Declares the nodes that may change, and the new ones behind `index_blocks`.
    pub fn declare(&self, dir: InodeNo, index_blocks: u64, block_bytes: u32, intents: &mut Vec<Intent>) {
        for &block in &self.path.blocks[self.path.len - self.changed..self.path.len] {
            intents.push(in_place(dir, Fork::Index, u64::from(block), block_bytes));
        }
        for block in index_blocks..index_blocks + self.new_blocks {
            intents.push(in_place(dir, Fork::Index, block, block_bytes));
        }
    }

    /// Inserts `place`; returns how many blocks the index has then.
    pub fn apply<S: Store>(&self, store: &mut S, op: &mut Op, dir: InodeNo, blocks: u64, place: u32) -> u64 {
        let mut new = (self.path.hash, place);
        // Each level that is full sends one pair up; below the root it costs one new block.
        for (below, &at) in self.path.blocks[..self.path.len].iter().rev().enumerate() {
            let new_block = blocks as u32 + below as u32;
            let here = block_mut(store, op, dir, at);
            if count(here) < capacity(here.len()) {
                insert_pair(here, new);
                return u64::from(new_block);
            }
            let level = here[0];
            let (left, right) = split(here, new);
            if at == 0 {
                fill(block_mut(store, op, dir, new_block), level, &left);
                fill(block_mut(store, op, dir, new_block + 1), level, &right);
                let root = block_mut(store, op, dir, 0);
                fill(root, level + 1, &[(0, new_block), (right[0].0, new_block + 1)]);
                return u64::from(new_block) + 2;
            }
            fill(here, level, &left);
            fill(block_mut(store, op, dir, new_block), level, &right);
            new = (right[0].0, new_block);
        }
        unreachable!("the root, block 0, takes the last pair or is split")
    }
}

fn block_mut<'a, S: Store>(store: &'a mut S, op: &mut Op, dir: InodeNo, block: u32) -> &'a mut [u8] {
    store.block_mut(op, dir, Fork::Index, BlockIndex(u64::from(block)))
}

/// Halves a full node with one more pair, at the boundary between different hashes that is nearest to the middle.
fn split(node: &[u8], new: Pair) -> (Vec<Pair>, Vec<Pair>) {
    let mut pairs: Vec<Pair> = (0..count(node)).map(|slot| pair(node, slot)).collect();
    pairs.insert(slot_of(node, new.0, true), new);
    let middle = pairs.len() / 2;
    let boundary = |at: &usize| pairs[*at - 1].0 != pairs[*at].0;
    let below = (1..=middle).rev().find(boundary);
    let above = (middle + 1..pairs.len()).find(boundary);
    let at = match (below, above) {
        (Some(below), Some(above)) if above - middle < middle - below => above,
        (Some(below), _) => below,
        (None, above) => above.expect("planned: the node holds two different hashes"),
    };
    let right = pairs.split_off(at);
    (pairs, right)
}

/// A removal that has been looked at.
#[derive(Clone, Copy, Debug)]
pub struct Removal {
    path: Path,
    place: u32,
    empties_leaf: bool,
}

/// Looks at the removal of an entry from the leaf that its path leads to.
#[must_use]
pub fn plan_remove(path: Path, place: u32) -> Removal {
    Removal { path, place, empties_leaf: path.len > 1 && path.leaf_pairs == 1 }
}

impl Removal {
    /// Declares the leaf.
    pub fn declare(&self, dir: InodeNo, block_bytes: u32, intents: &mut Vec<Intent>) {
        intents.push(edit(dir, Fork::Index, u64::from(self.path.leaf()), block_bytes));
        if self.empties_leaf {
            let at_bytes = u64::from(self.path.leaf()) * u64::from(block_bytes);
            let len_bytes = u64::from(block_bytes);
            intents.push(Intent::Punch { ino: dir, fork: Fork::Index, at_bytes, len_bytes });
        }
    }

    /// Takes the pair out. An emptied leaf is punched, unless an insertion is to follow (`keep`).
    pub fn apply<S: Store>(&self, store: &mut S, op: &mut Op, dir: InodeNo, keep: bool) {
        let leaf = block_mut(store, op, dir, self.path.leaf());
        let used = count(leaf);
        let slot = (slot_of(leaf, self.path.hash, false)..used)
            .find(|&slot| pair(leaf, slot) == (self.path.hash, self.place))
            .expect("planned: the leaf holds the pair");
        let at = HEAD_BYTES + slot * PAIR_BYTES;
        leaf.copy_within(at + PAIR_BYTES..HEAD_BYTES + used * PAIR_BYTES, at);
        set_head(leaf, 0, used - 1);
        if self.empties_leaf && !keep {
            let len_bytes = leaf.len() as u64;
            store.punch(op, dir, Fork::Index, u64::from(self.path.leaf()) * len_bytes, len_bytes);
        }
    }
}

/// An index about to be built from the pairs of a directory that outgrew its scan.
#[derive(Clone, Debug)]
pub struct Building {
    pairs: Vec<Pair>,
    max_blocks: u64,
}

/// Plans an index of these pairs (any order) and one more.
///
/// # Errors
/// `NoSpace` if more names share one hash than chance allows.
pub fn plan_build(mut pairs: Vec<Pair>, new_hash: u32, block_bytes: u32) -> Result<Building, FsError> {
    let capacity = capacity(block_bytes as usize);
    pairs.sort_unstable();
    let mut hashes: Vec<u32> = pairs.iter().map(|p| p.0).chain([new_hash]).collect();
    hashes.sort_unstable();
    if hashes.chunk_by(|a, b| a == b).any(|run| run.len() > capacity / 4) {
        return Err(FsError::NoSpace);
    }
    // Chunks are at least half full, see `Building::apply`.
    let max_blocks = 2 + hashes.len() as u64 / (capacity as u64 / 2);
    Ok(Building { pairs, max_blocks })
}

impl Building {
    /// Declares all blocks of the new index.
    pub fn declare(&self, dir: InodeNo, block_bytes: u32, intents: &mut Vec<Intent>) {
        intents.extend((0..self.max_blocks).map(|block| in_place(dir, Fork::Index, block, block_bytes)));
    }

    /// Builds the index with one more pair; returns how many blocks it has.
    pub fn apply<S: Store>(mut self, store: &mut S, op: &mut Op, dir: InodeNo, hash: u32, place: u32) -> u64 {
        let at = self.pairs.partition_point(|pair| pair.0 <= hash);
        self.pairs.insert(at, (hash, place));
        let root = block_mut(store, op, dir, 0);
        let capacity = capacity(root.len());
        if self.pairs.len() <= capacity {
            fill(root, 0, &self.pairs);
            return 1;
        }
        let mut children = Vec::new();
        let mut rest = self.pairs.as_slice();
        while !rest.is_empty() {
            let mut end = rest.len().min(capacity * 3 / 4);
            // Runs of one hash are at most a quarter of a node, so a chunk keeps at least half of one.
            while end < rest.len() && rest[end].0 == rest[end - 1].0 {
                end -= 1;
            }
            let block = children.len() as u32 + 1;
            fill(block_mut(store, op, dir, block), 0, &rest[..end]);
            children.push((if children.is_empty() { 0 } else { rest[0].0 }, block));
            rest = &rest[end..];
        }
        fill(block_mut(store, op, dir, 0), 1, &children);
        children.len() as u64 + 1
    }
}
