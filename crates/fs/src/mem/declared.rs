//! What the open operation declared, and the assertions that it does nothing else.
//!
//! A failed assertion is a bug of UFS or VFS, never of a user or a device. Caller: [`super::MemStore`].

use crate::store::{Fork, Intent};
use firnfs_format::{BlockIndex, InodeNo};

/// The operation between `begin` and `end`. Its vectors are kept from operation to operation.
#[derive(Default)]
pub(super) struct Declared {
    is_open: bool,
    intents: Vec<Intent>,
    created: Vec<InodeNo>,
    creates_left: usize,
    /// Inodes whose metadata may have changed: their inline charge is taken anew at the end.
    touched: Vec<InodeNo>,
    used_limit_bytes: u64,
}

fn covers(at_bytes: u64, len_bytes: u64, inner_at: u64, inner_len: u64) -> bool {
    at_bytes <= inner_at && inner_at.saturating_add(inner_len) <= at_bytes.saturating_add(len_bytes)
}

impl Declared {
    pub(super) fn start(&mut self, intents: &[Intent], used_limit_bytes: u64) {
        assert!(!self.is_open, "an operation began inside another");
        self.is_open = true;
        self.intents.clear();
        self.intents.extend_from_slice(intents);
        self.created.clear();
        self.creates_left = intents.iter().filter(|i| matches!(i, Intent::Create { .. })).count();
        self.touched.clear();
        self.used_limit_bytes = used_limit_bytes;
    }

    pub(super) fn created(&mut self, ino: InodeNo) {
        assert!(self.is_open, "a change outside an operation");
        assert!(self.creates_left > 0, "made more inodes than declared");
        self.creates_left -= 1;
        self.created.push(ino);
        self.touched.push(ino);
    }

    fn any(&self, ino: InodeNo, what: &str, mut fits: impl FnMut(&Intent) -> bool) {
        assert!(self.is_open, "{what} of inode {ino} outside an operation");
        let declared = self.created.contains(&ino) || self.intents.iter().any(&mut fits);
        assert!(declared, "{what} of inode {ino} was not declared in {:?}", self.intents);
    }

    pub(super) fn check_inode(&mut self, ino: InodeNo) {
        self.any(ino, "a change", |intent| match *intent {
            Intent::Create { .. } => false,
            Intent::Change { ino: i, .. }
            | Intent::Write { ino: i, .. }
            | Intent::Edit { ino: i, .. }
            | Intent::Punch { ino: i, .. }
            | Intent::Reserve { ino: i, .. }
            | Intent::Free { ino: i } => i == ino,
        });
        if !self.touched.contains(&ino) {
            self.touched.push(ino);
        }
    }

    pub(super) fn check_free(&self, ino: InodeNo) {
        self.any(ino, "freeing", |intent| matches!(*intent, Intent::Free { ino: i } if i == ino));
    }

    pub(super) fn check_write(&self, ino: InodeNo, fork: Fork, at: u64, len: u64) {
        self.any(ino, "a write", |intent| {
            matches!(*intent, Intent::Write { ino: i, fork: f, at_bytes, len_bytes }
                if i == ino && f == fork && covers(at_bytes, len_bytes, at, len))
        });
    }

    /// A block is changed in place if a part of it, not the whole, was declared: only then is a store bound to bring
    /// its old bytes into memory.
    pub(super) fn check_in_place(&self, ino: InodeNo, fork: Fork, index: BlockIndex, block_bytes: u64) {
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

    pub(super) fn check_punch(&self, ino: InodeNo, fork: Fork, at: u64, len: u64) {
        self.any(ino, "a punch", |intent| {
            matches!(*intent, Intent::Punch { ino: i, fork: f, at_bytes, len_bytes }
                if i == ino && f == fork && covers(at_bytes, len_bytes, at, len))
        });
    }

    pub(super) fn check_reserve(&self, ino: InodeNo, at: u64, len: u64) {
        self.any(ino, "a reservation", |intent| {
            matches!(*intent, Intent::Reserve { ino: i, at_bytes, len_bytes }
                if i == ino && covers(at_bytes, len_bytes, at, len))
        });
    }

    /// Closes the operation; returns the inodes it touched, to be given back to [`Self::settle`].
    pub(super) fn finish(&mut self) -> Vec<InodeNo> {
        assert!(self.is_open, "an operation ended twice");
        self.is_open = false;
        std::mem::take(&mut self.touched)
    }

    /// Checks that the operation took no more space than `begin` charged.
    pub(super) fn settle(&mut self, touched: Vec<InodeNo>, used_bytes: u64) {
        assert!(
            used_bytes <= self.used_limit_bytes,
            "an operation took {} bytes more than it declared: {:?}",
            used_bytes - self.used_limit_bytes,
            self.intents
        );
        self.touched = touched;
    }
}
