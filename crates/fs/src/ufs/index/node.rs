//! A node as bytes, changed in place, and as [`Content`], unpacked so that it can be filled and split.
//!
//! Once [`check`] has accepted the node's head, reading never panics, whatever the other bytes are.

use crate::error::FsError;
use std::ops::Range;

/// Levels that an index can have, the leaves included: nodes of 4 KiB suffice for any directory, even if they are half full or
/// less.
pub const DEPTH_MAX: usize = 6;

const HEAD_BYTES: usize = 8;
const PAIR_BYTES: usize = 8;

/// A hash, and a place or a child.
pub(super) type Pair = (u32, u32);

/// Pairs that fit a node.
#[must_use]
pub fn capacity(block_bytes: usize) -> usize {
    (block_bytes - HEAD_BYTES) / PAIR_BYTES
}

/// Children that a node may have before it is split; the rest of it is for waiting pairs. Fewer children make a larger load for
/// each of them, but need more levels.
#[must_use]
pub fn children_max(capacity: usize) -> usize {
    capacity / 8
}

pub(super) fn level(node: &[u8]) -> u8 {
    node[0]
}

/// Pairs of a leaf, children of an interior node.
pub(super) fn count(node: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([node[2], node[3]]))
}

fn waiting(node: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([node[4], node[5]]))
}

fn set_head(node: &mut [u8], level: u8, count: usize, waiting: usize) {
    let ([c0, c1], [w0, w1]) = ((count as u16).to_le_bytes(), (waiting as u16).to_le_bytes());
    node[..HEAD_BYTES].copy_from_slice(&[level, 0, c0, c1, w0, w1, 0, 0]);
}

/// Slots of the places: the pairs of a leaf, or the waiting pairs of an interior node.
fn places(node: &[u8]) -> Range<usize> {
    if level(node) == 0 { 0..count(node) } else { count(node)..count(node) + waiting(node) }
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

/// The range of hashes below a node, according to its parents. It tells where to look first; correctness does not depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    pub low: u32,
    pub high: u32,
}

impl Reach {
    /// The root's.
    pub const ALL: Self = Self { low: 0, high: u32::MAX };

    /// The slot at which to expect a hash if hashes are spread evenly, as those of names are.
    fn guess(self, slots: &Range<usize>, hash: u32) -> usize {
        let part = u64::from(hash.saturating_sub(self.low)) * slots.len() as u64;
        let whole = u64::from(self.high.saturating_sub(self.low)) + 1;
        (slots.start + (part / whole) as usize).min(slots.end.saturating_sub(1))
    }
}

/// Pairs in a cache line of the processor.
const LINE_PAIRS: usize = 8;

/// First of these slots whose hash is not below `bound` (`past`: above it). It loads the expected slot, and the cache lines
/// before and after it, before it uses the first: in a large directory all three are far from the processor, and this way they
/// arrive together. A binary search finishes the rest.
fn slot_of(node: &[u8], slots: Range<usize>, reach: Reach, bound: u32, past: bool) -> usize {
    let is_before = |slot: usize| {
        let at = word(node, HEAD_BYTES + slot * PAIR_BYTES);
        at < bound || (past && at == bound)
    };
    let (mut low, mut high) = (slots.start, slots.end);
    if slots.len() > 2 * LINE_PAIRS {
        let guess = reach.guess(&slots, bound).clamp(low + LINE_PAIRS, high - 1 - LINE_PAIRS);
        let probes = [guess - LINE_PAIRS, guess, guess + LINE_PAIRS];
        let before = probes.map(is_before).iter().filter(|before| **before).count();
        low = if before > 0 { probes[before - 1] + 1 } else { low };
        high = if before < probes.len() { probes[before] } else { high };
    }
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Checks the head of a node that must have a level (`None`: any).
pub(super) fn check(node: &[u8], at: u32, expected: Option<u8>) -> Result<(), FsError> {
    let is_leaf = level(node) == 0;
    let sound = count(node) + waiting(node) <= capacity(node.len())
        && expected.map_or(usize::from(level(node)) < DEPTH_MAX, |expected| level(node) == expected)
        && if is_leaf { waiting(node) == 0 } else { count(node) > 0 };
    if sound {
        return Ok(());
    }
    Err(corrupt(
        at,
        &format!("a node of level {expected:?}"),
        format!("level {}, {} pairs, {} waiting", level(node), count(node), waiting(node)),
    ))
}

pub(super) fn corrupt(block: u32, expected: &str, found: String) -> FsError {
    FsError::Corrupt {
        what: "directory index".to_owned(),
        at: format!("block {block}"),
        expected: expected.to_owned(),
        found,
    }
}

/// Child of an interior node below which a hash belongs; it must be one of the blocks of the index.
pub(super) fn child_for(
    node: &[u8],
    at: u32,
    reach: Reach,
    hash: u32,
    index_blocks: u64,
) -> Result<(u32, Reach), FsError> {
    let next = slot_of(node, 0..count(node), reach, hash, true).max(1);
    let (low, child) = pair(node, next - 1);
    let high = if next < count(node) { pair(node, next).0 } else { reach.high };
    Ok((checked_child(child, at, index_blocks)?, Reach { low, high }))
}

/// A child, if it is one of the blocks of the index.
pub(super) fn checked_child(child: u32, at: u32, index_blocks: u64) -> Result<u32, FsError> {
    if child == 0 || u64::from(child) >= index_blocks {
        let found = format!("child {child} of {index_blocks} blocks");
        return Err(corrupt(at, "a child within the index", found));
    }
    Ok(child)
}

/// Slots and places (in units of 8 bytes) of the entries in this node that have a given hash.
pub(super) fn places_of(node: &[u8], reach: Reach, hash: u32) -> impl Iterator<Item = (usize, u32)> {
    let Range { start, end } = places(node);
    let first = slot_of(node, start..end, reach, hash, false);
    let pairs = (first..end).map(|slot| (slot, pair(node, slot)));
    pairs.take_while(move |(_, pair)| pair.0 == hash).map(|(slot, pair)| (slot, pair.1))
}

/// Hashes of the places in this node.
pub(super) fn hashes(node: &[u8]) -> impl Iterator<Item = u32> {
    places(node).map(|slot| pair(node, slot).0)
}

/// Whether one more place fits.
pub(super) fn has_room(node: &[u8]) -> bool {
    count(node) + waiting(node) < capacity(node.len())
}

/// Adds a place; there must be room.
pub(super) fn add_place(node: &mut [u8], new: Pair) {
    let Range { start, end } = places(node);
    let slot = slot_of(node, start..end, Reach::ALL, new.0, true);
    let at = HEAD_BYTES + slot * PAIR_BYTES;
    node.copy_within(at..HEAD_BYTES + end * PAIR_BYTES, at + PAIR_BYTES);
    put_pair(node, slot, new);
    resize_places(node, end - start + 1);
}

/// Removes the place in a slot, which must hold it. Returns how many remain.
pub(super) fn take_place(node: &mut [u8], slot: usize, old: Pair) -> usize {
    let Range { start, end } = places(node);
    assert!((start..end).contains(&slot) && pair(node, slot) == old, "planned: the node holds {old:?} there");
    let at = HEAD_BYTES + slot * PAIR_BYTES;
    node.copy_within(at + PAIR_BYTES..HEAD_BYTES + end * PAIR_BYTES, at);
    put_pair(node, end - 1, (0, 0));
    resize_places(node, end - start - 1);
    end - start - 1
}

fn resize_places(node: &mut [u8], len: usize) {
    match level(node) {
        0 => set_head(node, 0, len, 0),
        level => set_head(node, level, count(node), len),
    }
}

/// An unpacked node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Content {
    /// 0 for a leaf.
    pub level: u8,
    /// Children, none in a leaf.
    pub children: Vec<Pair>,
    /// Places; in an interior node, the waiting ones.
    pub places: Vec<Pair>,
}

impl Content {
    /// Unpacks a node whose head was checked.
    ///
    /// # Errors
    /// `Corrupt` if it is not sorted.
    pub fn of(node: &[u8], at: u32) -> Result<Self, FsError> {
        let children = if level(node) == 0 { 0 } else { count(node) };
        let pairs = |slots: Range<usize>| slots.map(|slot| pair(node, slot)).collect::<Vec<_>>();
        let content = Self { level: level(node), children: pairs(0..children), places: pairs(places(node)) };
        let is_sorted = |pairs: &[Pair]| pairs.is_sorted_by_key(|pair| pair.0);
        if is_sorted(&content.children) && is_sorted(&content.places) {
            return Ok(content);
        }
        Err(corrupt(at, "sorted hashes", format!("{} pairs in disorder", content.len())))
    }

    /// Packs it into a node.
    pub fn write(&self, node: &mut [u8]) {
        let (count, waiting) = match self.level {
            0 => (self.places.len(), 0),
            _ => (self.children.len(), self.places.len()),
        };
        set_head(node, self.level, count, waiting);
        for (slot, &pair) in self.children.iter().chain(&self.places).enumerate() {
            put_pair(node, slot, pair);
        }
        node[HEAD_BYTES + self.len() * PAIR_BYTES..].fill(0);
    }

    /// All pairs, of both kinds.
    pub fn len(&self) -> usize {
        self.children.len() + self.places.len()
    }

    /// Adds places, which are sorted.
    pub fn add_places(&mut self, new: &[Pair]) {
        let old = std::mem::take(&mut self.places);
        self.places.reserve(old.len() + new.len());
        let mut new = new;
        for pair in old {
            let first = new.iter().take_while(|first| first.0 < pair.0).count();
            let (before, rest) = new.split_at(first);
            self.places.extend_from_slice(before);
            self.places.push(pair);
            new = rest;
        }
        self.places.extend_from_slice(new);
    }

    /// Slots of the pairs that wait for the child in a slot.
    pub fn waiting_for(&self, child: usize) -> Range<usize> {
        let bound = |child: &Pair| self.places.partition_point(|place| place.0 < child.0);
        let start = if child == 0 { 0 } else { bound(&self.children[child]) };
        start..self.children.get(child + 1).map_or(self.places.len(), bound)
    }

    /// The child for which most pairs wait, the first of several; and their number. The node must have children.
    pub fn heaviest(&self) -> (u32, usize) {
        let mut heaviest = (self.children[0].1, 0);
        let mut start = 0;
        for (slot, child) in self.children.iter().enumerate() {
            let bound = self.children.get(slot + 1).map(|next| next.0);
            let rest = &self.places[start..];
            let load = rest.iter().take_while(|place| bound.is_none_or(|bound| place.0 < bound)).count();
            start += load;
            if load > heaviest.1 {
                heaviest = (child.1, load);
            }
        }
        heaviest
    }

    /// Halves it: an interior node between its children, a leaf between different hashes, as close to the middle as possible.
    /// Returns the upper half; its lower bound is that of its first child, or its first hash. `None` if it is a leaf of one
    /// hash, or a half would not fit.
    pub fn split(&mut self, capacity: usize) -> Option<(u32, Self)> {
        let upper = if self.level == 0 {
            let at = between_hashes(&self.places)?;
            Self { level: 0, children: Vec::new(), places: self.places.split_off(at) }
        } else {
            let children = self.children.split_off(self.children.len() / 2);
            let bound = children.first()?.0;
            let at = self.places.partition_point(|place| place.0 < bound);
            Self { level: self.level, children, places: self.places.split_off(at) }
        };
        let bound = upper.children.first().or(upper.places.first())?.0;
        (self.len() <= capacity && upper.len() <= capacity).then_some((bound, upper))
    }
}

/// The boundary between different hashes that is nearest to the middle.
fn between_hashes(pairs: &[Pair]) -> Option<usize> {
    let middle = pairs.len() / 2;
    let is_boundary = |at: &usize| pairs[*at - 1].0 != pairs[*at].0;
    let below = (1..=middle).rev().find(is_boundary);
    let above = (middle + 1..pairs.len()).find(is_boundary);
    match (below, above) {
        (Some(below), Some(above)) if above - middle < middle - below => Some(above),
        (below, above) => below.or(above),
    }
}
