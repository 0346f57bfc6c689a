//! Finds the places of entries that may have a name, and where the index keeps them.

use super::block;
use super::node::{self, Reach};
use crate::digest::Digest;
use crate::error::Outcome;
use crate::store::{Fork, Store};
use firnfs_format::{BlockIndex, InodeNo};

/// The node in which a pair was found.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    /// Its block.
    pub(super) block: u32,
    /// Its slot there.
    pub(super) slot: usize,
    /// The pair's hash.
    pub(super) hash: u32,
    /// The node is a leaf other than the root, and holds nothing else.
    pub(super) is_alone: bool,
}

/// Descends from the root to the leaf where `hash` belongs. For each place of that hash on the way it asks `wanted`
/// whether this is the entry; returns the first positive answer, and where it was. Recently inserted entries are near the
/// root.
///
/// # Errors
/// `Need`, `Corrupt`, and what `wanted` returns.
pub fn find<S: Store, T>(
    store: &mut S,
    dir: InodeNo,
    index_blocks: u64,
    hash: u32,
    wanted: &mut dyn FnMut(&mut S, u32) -> Outcome<Option<T>>,
) -> Outcome<Option<(T, Spot)>> {
    let (mut at, mut expected, mut reach) = (0, None, Reach::ALL);
    loop {
        let here = block(store, dir, at)?;
        node::check(&here, at, expected)?;
        for (slot, place) in node::places_of(&here, reach, hash) {
            if let Some(found) = wanted(store, place)? {
                let is_alone = at > 0 && node::level(&here) == 0 && node::count(&here) == 1;
                return Ok(Some((found, Spot { block: at, slot, hash, is_alone })));
            }
        }
        if node::level(&here) == 0 {
            if at > 0 && store.digest(dir, Fork::Index, index_of(at)).is_none() {
                store.keep_digest(dir, Fork::Index, index_of(at), Digest::of(node::hashes(&here)));
            }
            return Ok(None);
        }
        let level = node::level(&here) - 1;
        expected = Some(level);
        (at, reach) = node::child_for(&here, at, reach, hash, index_blocks)?;
        if level == 0 && store.digest(dir, Fork::Index, index_of(at)).is_some_and(|leaf| leaf.lacks(hash)) {
            return Ok(None);
        }
    }
}

fn index_of(block: u32) -> BlockIndex {
    BlockIndex(u64::from(block))
}
