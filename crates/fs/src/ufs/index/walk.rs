//! Reads a whole index, for checkers.

use super::node::{self, Content, corrupt};
use crate::error::{FsError, Outcome};
use crate::store::{Buf, Store};
use firnfs_format::InodeNo;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Hands out all pairs, node by node; checks that each block is reached exactly once and that hashes are within the
/// bounds that their parents give.
///
/// # Errors
/// `Need`, `Corrupt`.
pub fn walk<S: Store>(
    store: &mut S,
    dir: InodeNo,
    index_blocks: u64,
    visit: &mut dyn FnMut(u32, u32),
) -> Outcome<()> {
    walk_nodes(index_blocks, &mut |block| super::block(store, dir, block), visit)
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
        node::check(&here, block, level)?;
        let here = Content::of(&here, block)?;
        check_bounds(&here, block, &bounds)?;
        here.places.iter().for_each(|&(hash, place)| visit(hash, place));
        let ends = here.children.iter().skip(1).map(|next| next.0.saturating_sub(1)).chain([*bounds.end()]);
        for (&(hash, child), end) in here.children.iter().zip(ends) {
            todo.push((child, Some(here.level - 1), hash..=end));
        }
    }
    match (0..index_blocks).find(|&block| !reached.contains(&(block as u32))) {
        None => Ok(()),
        Some(lost) => Err(corrupt(lost as u32, "a node that is reached", "no way to it".to_owned()).into()),
    }
}

fn check_bounds(here: &Content, block: u32, bounds: &RangeInclusive<u32>) -> Result<(), FsError> {
    match here.children.iter().chain(&here.places).find(|pair| !bounds.contains(&pair.0)) {
        None => Ok(()),
        Some((hash, _)) => {
            let expected = format!("hashes from {:#x} to {:#x}", bounds.start(), bounds.end());
            Err(corrupt(block, &expected, format!("{hash:#x}")))
        }
    }
}
