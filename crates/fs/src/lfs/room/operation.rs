//! The open operation: what it declared, the number of its new inode, and the inodes that it touches. At most one operation is
//! open. The vectors are reused from operation to operation.

use crate::store::BlockKey;
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
    /// Last blocks that wait to be laid out and are charged more if the file grows, each with what was admitted for it in all, in bytes.
    tails: Vec<(BlockKey, u32)>,
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

    /// Another operation is examined.
    pub fn clear(&mut self) {
        self.chosen_ino = None;
        self.tails.clear();
    }

    /// Notes a last block that grows with its file.
    pub fn note_tail(&mut self, key: BlockKey, charge_bytes: u32) {
        self.tails.push((key, charge_bytes));
    }

    /// What was admitted for a block because it is a last block that grows, in bytes.
    pub fn paid_for_tail(&self, key: &BlockKey) -> u32 {
        self.tails.iter().find(|(tail, _)| tail == key).map_or(0, |(_, charge_bytes)| *charge_bytes)
    }

    /// Takes the last blocks that were noted, one by one.
    pub fn next_tail(&mut self) -> Option<(BlockKey, u32)> {
        self.tails.pop()
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
