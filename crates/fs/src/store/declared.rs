//! What the open operation declared, and the assertions that it does nothing else.
//!
//! A failed assertion is a bug of UFS or VFS, never of a user or a device. Callers: all stores, in every build.

use crate::inode::{Body, Inode};
use crate::store::{Fork, Intent};
use firnfs_format::{BlockIndex, InodeNo};

/// The operation between `begin` and `end`. Its vectors are reused for the next operation.
#[derive(Default)]
pub struct Declared {
    is_open: bool,
    intents: Vec<Intent>,
    created: Vec<InodeNo>,
    creates_left: usize,
    /// Inodes whose metadata may have changed.
    touched: Vec<Touched>,
}

/// An inode as it was before the operation changed it.
#[derive(Clone, Copy)]
struct Touched {
    ino: InodeNo,
    size_bytes: u64,
    is_in_blocks: bool,
}

fn covers(at_bytes: u64, len_bytes: u64, inner_at: u64, inner_len: u64) -> bool {
    at_bytes <= inner_at && inner_at.saturating_add(inner_len) <= at_bytes.saturating_add(len_bytes)
}

impl Declared {
    /// An operation begins.
    pub(crate) fn start(&mut self, intents: &[Intent]) {
        assert!(!self.is_open, "an operation began inside another");
        self.is_open = true;
        self.intents.clear();
        self.intents.extend_from_slice(intents);
        self.created.clear();
        self.creates_left = intents.iter().filter(|i| matches!(i, Intent::Create { .. })).count();
        self.touched.clear();
    }

    /// The operation has made an inode.
    pub(crate) fn created(&mut self, ino: InodeNo) {
        assert!(self.is_open, "a change outside an operation");
        assert!(self.creates_left > 0, "made more inodes than declared");
        self.creates_left -= 1;
        self.created.push(ino);
    }

    fn any(&self, ino: InodeNo, what: &str, mut fits: impl FnMut(&Intent) -> bool) {
        assert!(self.is_open, "{what} of inode {ino} outside an operation");
        let declared = self.created.contains(&ino) || self.intents.iter().any(&mut fits);
        assert!(declared, "{what} of inode {ino} was not declared in {:?}", self.intents);
    }

    /// The operation is about to change an inode, which is in the given state.
    pub(crate) fn check_inode(&mut self, ino: InodeNo, inode: &Inode) {
        if self.touched.last().is_some_and(|last| last.ino == ino) || self.created.last() == Some(&ino) {
            return;
        }
        self.any(ino, "a change", |intent| match *intent {
            Intent::Create { .. } => false,
            Intent::Change { ino: i, .. }
            | Intent::Resize { ino: i, .. }
            | Intent::Write { ino: i, .. }
            | Intent::Edit { ino: i, .. }
            | Intent::Punch { ino: i, .. }
            | Intent::Reserve { ino: i, .. }
            | Intent::Free { ino: i } => i == ino,
        });
        if !self.created.contains(&ino) && self.touched.iter().all(|touched| touched.ino != ino) {
            let is_in_blocks = matches!(inode.body, Body::Blocks);
            self.touched.push(Touched { ino, size_bytes: inode.size_bytes, is_in_blocks });
        }
    }

    /// The operation is about to free an inode.
    pub(crate) fn check_free(&self, ino: InodeNo) {
        self.any(ino, "freeing", |intent| matches!(*intent, Intent::Free { ino: i } if i == ino));
    }

    /// The operation is about to write bytes of a fork.
    pub(crate) fn check_write(&self, ino: InodeNo, fork: Fork, at: u64, len: u64) {
        self.any(ino, "a write", |intent| {
            matches!(*intent, Intent::Write { ino: i, fork: f, at_bytes, len_bytes }
                if i == ino && f == fork && covers(at_bytes, len_bytes, at, len))
        });
    }

    /// Checks that a part of a block, not the whole, was declared before it is changed in place: only then must a store have
    /// brought its old bytes into memory.
    pub(crate) fn check_in_place(&self, ino: InodeNo, fork: Fork, index: BlockIndex, block_bytes: u64) {
        let start = index.0 * block_bytes;
        self.any(ino, "a change in place", |intent| match *intent {
            Intent::Write { ino: i, fork: f, at_bytes, len_bytes } => {
                i == ino
                    && f == fork
                    && at_bytes < start + block_bytes
                    && at_bytes + len_bytes > start
                    && !covers(at_bytes, len_bytes, start, block_bytes)
            }
            Intent::Edit { ino: i, fork: f, at_bytes } => {
                i == ino && f == fork && at_bytes / block_bytes == index.0
            }
            _ => false,
        });
    }

    /// The operation is about to drop bytes of a fork.
    pub(crate) fn check_punch(&self, ino: InodeNo, fork: Fork, at: u64, len: u64) {
        self.any(ino, "a punch", |intent| {
            matches!(*intent, Intent::Punch { ino: i, fork: f, at_bytes, len_bytes }
                if i == ino && f == fork && covers(at_bytes, len_bytes, at, len))
        });
    }

    /// The operation is about to charge holes.
    pub(crate) fn check_reserve(&self, ino: InodeNo, at: u64, len: u64) {
        self.any(ino, "a reservation", |intent| {
            matches!(*intent, Intent::Reserve { ino: i, at_bytes, len_bytes }
                if i == ino && covers(at_bytes, len_bytes, at, len))
        });
    }

    /// The operation ends; `inode` returns the present state of an inode, `None` if it was freed. Content in blocks must have
    /// changed its size only as declared.
    pub(crate) fn finish<'a>(&mut self, inode: impl Fn(InodeNo) -> Option<&'a Inode>) {
        assert!(self.is_open, "an operation ended twice");
        self.is_open = false;
        for before in &self.touched {
            let Some(now) = inode(before.ino) else { continue };
            let was_in_blocks = before.is_in_blocks || matches!(now.body, Body::Blocks);
            if now.size_bytes == before.size_bytes || !was_in_blocks {
                continue;
            }
            let resize = Intent::Resize { ino: before.ino, size_bytes: now.size_bytes };
            assert!(
                self.intents.contains(&resize),
                "inode {} changed its size from {} to {} bytes, which was not declared in {:?}",
                before.ino,
                before.size_bytes,
                now.size_bytes,
                self.intents
            );
        }
    }

    /// Inodes that the last operation made or may have changed.
    pub(crate) fn inodes(&self) -> impl Iterator<Item = InodeNo> {
        self.created.iter().copied().chain(self.touched.iter().map(|touched| touched.ino))
    }

    /// Inodes that the last operation made.
    pub(crate) fn made(&self) -> &[InodeNo] {
        &self.created
    }

    /// What the last operation declared.
    pub(crate) fn intents(&self) -> &[Intent] {
        &self.intents
    }
}
