//! The hash index of a large directory: from the hash of a name to the places of the entries that may have it.
//!
//! ```text
//!  index    := node*                      (Fork::Index, one node a block, the root always in block 0)
//!  node     := level u8, 0 u8, count u16, waiting u16, 0 u16, pair{count}, pair{waiting}, unused
//!  pair     := hash u32, value u32        (each of the two runs sorted by hash)
//!  leaf     := node with level 0          value: offset of an entry in the directory, in units of 8 bytes; none wait
//!  interior := node with level 1..=5      value: block of a child with level - 1, hash: lower bound of its hashes
//!  waiting  := pairs as in a leaf, of any hash below this node, that have not gone down yet
//! ```
//! Little endian. A block of zeros is a leaf without pairs: an emptied leaf is punched and stays where it is. The hash is
//! the low half of SipHash-1-3 of the name under the volume's key, so that nobody without the key can construct colliding
//! names.
//!
//! New pairs wait in the root. When it is full, the pairs for the child that has most of them move down together, and so on
//! from there. So a thousand new names change a few dozen blocks instead of one leaf each, however large the directory is,
//! since hashes are spread over all leaves. (A buffer tree; the log writes every changed block, so this number is the cost
//! of a create: decision 0111.)
//!
//! `node` is a node as bytes. `find` finds entries, `insert` and `remove` change the index, `build` makes that of a directory
//! that has none, `walk` reads a whole one for checkers.
//!
//! Invariants: no hash is in two leaves (splits separate different hashes); blocks 0..`Inode::index_blocks` are all
//! reachable; leaves and waiting pairs together are exactly the entries of the directory. Caller: [`super::dir`].

mod build;
mod find;
mod insert;
mod node;
mod remove;
#[cfg(test)]
mod tests;
mod walk;

pub use build::{Building, plan_build};
pub use find::{Spot, find};
pub use insert::{Insertion, plan_insert};
pub use node::{DEPTH_MAX, capacity, children_max};
pub use remove::{Removal, plan_remove};
pub use walk::{walk, walk_nodes};

use crate::error::Outcome;
use crate::store::{Buf, Fork, Op, Store};
use firnfs_format::{BlockIndex, InodeNo};
use siphasher::sip::SipHasher13;

/// The index hash of a name.
#[must_use]
pub fn hash(key: [u64; 2], name: &[u8]) -> u32 {
    hash64(key, name) as u32
}

/// The full hash of a name; the index keeps its low half.
#[must_use]
pub fn hash64(key: [u64; 2], name: &[u8]) -> u64 {
    SipHasher13::new_with_keys(key[0], key[1]).hash(name)
}

fn block<S: Store>(store: &mut S, dir: InodeNo, block: u32) -> Outcome<Buf> {
    store.block(dir, Fork::Index, BlockIndex(u64::from(block)))
}

fn block_mut<'a, S: Store>(store: &'a mut S, op: &mut Op, dir: InodeNo, block: u32) -> &'a mut [u8] {
    store.block_mut(op, dir, Fork::Index, BlockIndex(u64::from(block)))
}
