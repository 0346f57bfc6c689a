//! The two tables of the volume, the inode map (`imap`) and the segment usage table (`usage`): trees of blocks in the log
//! (`table`) with the newer entries beside them.

pub(in crate::lfs) mod imap;
pub(in crate::lfs) mod table;
pub(in crate::lfs) mod usage;
