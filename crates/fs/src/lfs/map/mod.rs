//! Files in memory: blocks (`shelf`), partial segments on their way to the device (`parcel`), inodes (`inode`; which of their blocks
//! are dirty: `dirty_set`; all of them together: `files`; by number: `listing`), the tree of pointers from an inode to its blocks
//! (`blockmap`), what becomes of what the present gives up (`deaths`), requests to the driver (`wanted`), and the checks of metadata
//! that comes from the device (`admit`).

pub(in crate::lfs) mod admit;
pub(in crate::lfs) mod blockmap;
pub(in crate::lfs) mod deaths;
pub(in crate::lfs) mod dirty_set;
pub(in crate::lfs) mod files;
pub(in crate::lfs) mod inode;
pub(in crate::lfs) mod listing;
pub(in crate::lfs) mod parcel;
pub(in crate::lfs) mod shelf;
pub(in crate::lfs) mod wanted;
