//! The open operation: what it declared, the number of its new inode, and the inodes that it touches. There is never more than
//! one. Its vectors are kept from operation to operation.

use crate::store::declared::Declared;
use firnfs_format::InodeNo;

/// See the module's head.
#[derive(Default)]
pub(in crate::lfs) struct OpenOperation {
    /// What it may change.
    pub declared: Declared,
    /// The number that `begin` found for its new inode, and the version that goes with it.
    pub chosen_ino: Option<(InodeNo, u32)>,
    /// It changes names: what it touches goes with every commit.
    pub is_names: bool,
    /// Inodes whose record may have changed its length.
    touched: Vec<InodeNo>,
}

impl OpenOperation {
    /// An inode's record may change its length.
    pub fn touch(&mut self, ino: InodeNo) {
        if self.touched.last() != Some(&ino) {
            self.touched.push(ino);
        }
    }

    /// The operation ends: what it touched, to be given back with [`Self::give_back`].
    pub fn end(&mut self) -> Vec<InodeNo> {
        self.is_names = false;
        std::mem::take(&mut self.touched)
    }

    /// Keeps the vector for the next operation.
    pub fn give_back(&mut self, mut touched: Vec<InodeNo>) {
        touched.clear();
        self.touched = touched;
    }
}
