//! UFS: the part that all storage managers share: directories, names, file content, attributes.
//!
//! Layers: [`crate::vfs`] calls down into this module; this module calls [`crate::store::Store`] and nothing else. Each
//! part works in the same way: a *plan* looks (and may stop with `Need`), it *declares* its changes, and after `begin`
//! it is *applied*, which cannot stop. A crash-consistent caller can assume that plans never change anything, and that
//! an applied plan touches exactly the blocks and inodes that it declared.
//!
//! A block that is changed in place (a directory block, an index node) is declared by a part of it, so that the store
//! brings its old bytes into memory; a block that is declared whole would be overwritten whole.
//!
//! Parts: `make` (the inode of a new file), `file` (content), `dir` (directories), `index` (the hash index of a large one),
//! `xattr` (extended attributes), `acl` (POSIX ACLs), `quota`.

pub mod acl;
pub mod dir;
pub mod file;
pub mod index;
pub mod make;
pub mod quota;
pub mod xattr;

use crate::error::Outcome;
use crate::inode::Body;
use crate::store::{Fork, Intent, Store, StoreFacts};
use firnfs_format::{BlockIndex, InodeNo};

/// Where the content of a new, empty file goes.
#[must_use]
pub fn empty_body(facts: &StoreFacts) -> Body {
    Body::empty(facts.inline_max_bytes)
}

/// Declares that one block will be changed in place: a part of it stands for the whole (see the module's head).
pub(crate) fn in_place(ino: InodeNo, fork: Fork, block: u64, block_bytes: u32) -> Intent {
    Intent::Write { ino, fork, at_bytes: block * u64::from(block_bytes), len_bytes: IN_PLACE_BYTES }
}

/// Declares that one block will be changed in place and will not hold more than before.
pub(crate) fn edit(ino: InodeNo, fork: Fork, block: u64, block_bytes: u32) -> Intent {
    Intent::Edit { ino, fork, at_bytes: block * u64::from(block_bytes) }
}

/// The part of a block that [`in_place`] declares: less than any block.
const IN_PLACE_BYTES: u64 = 8;

/// The first `len_bytes` of a fork, which the caller has bounded.
pub(crate) fn read_whole<S: Store>(
    store: &mut S,
    ino: InodeNo,
    fork: Fork,
    len_bytes: usize,
) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len_bytes);
    let mut index = 0;
    while bytes.len() < len_bytes {
        let block = store.block(ino, fork, BlockIndex(index))?;
        bytes.extend_from_slice(&block[..block.len().min(len_bytes - bytes.len())]);
        index += 1;
    }
    Ok(bytes)
}
