//! Files in memory: blocks and what is on its way to the device (`shelf`), inodes (`inode`), the tree of pointers from an inode
//! to its blocks (`blockmap`), and the checks that whatever comes from the device passes first (`admit`).

pub(in crate::lfs) mod admit;
pub(in crate::lfs) mod blockmap;
pub(in crate::lfs) mod inode;
pub(in crate::lfs) mod shelf;
