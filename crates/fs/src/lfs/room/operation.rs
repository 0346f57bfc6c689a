//! The open operation: what it declared, the number of its new inode, and the inodes that it touches. At most one operation is
//! open. The vectors are reused from operation to operation.

use crate::store::declared::Declared;
use firnfs_format::InodeNo;

/// See the module's head.
#[derive(Default)]
pub(in crate::lfs) struct OpenOperation {
    /// Its declared changes.
    pub declared: Declared,
    /// The number that `begin` found for its new inode, and the version that goes with it.
    pub chosen_ino: Option<(InodeNo, u32)>,
    /// It changes names: every commit includes the inodes that it touches.
    pub is_names: bool,
    /// Inodes whose record may have changed its length.
    touched: Vec<InodeNo>,
}

impl OpenOperation {
    /// Notes that an inode's record may change its length.
    pub fn touch(&mut self, ino: InodeNo) {
        if self.touched.last() != Some(&ino) {
            self.touched.push(ino);
        }
    }

    /// Ends the operation; returns the inodes that it touched, a vector to be returned with [`Self::give_back`].
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
