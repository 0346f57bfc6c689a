//! firnfs: a log-structured file system as a deterministic state machine.
//!
//! This crate owns no thread, reads no clock, draws no randomness and blocks on no I/O. Read it top-down:
//! [`vfs`] (POSIX operations on inode numbers), [`ufs`] (directories, names, block map), [`store`] (the seam: a storage manager
//! as UFS sees it) and [`engine`] (the same as the driver sees it), then the storage managers [`lfs`], [`ffs`] and [`mem`].
//!
//! What those share, from the bottom up:
//! - `mutation`: deliberate flaws, by which tests prove that the crash explorer finds errors;
//! - `bmap`: which indirect blocks lead to a block of a file; `digest`: which hashes a block certainly does not hold;
//! - `fetch`: a store's requests for bytes of the device; `error`: errors, and the outcome of an operation;
//! - `inode`: an inode as UFS sees it; `dirent`: the bytes of directories;
//! - `lookahead`: how much to read beyond a request; `device_reader`: how code that may block reads a device;
//! - `cache`: which blocks are in memory, and which are evicted first; `clean`: the decisions of a cleaner;
//! - `states`: the numbers of inodes in older states.
//!
//! `check` is the file system check, of all stores.

pub mod bmap;
mod cache;
pub mod check;
pub mod clean;
pub mod device_reader;
pub mod digest;
pub mod dirent;
pub mod engine;
pub mod error;
pub mod fetch;
pub mod ffs;
pub mod inode;
pub mod lfs;
pub mod lookahead;
pub mod mem;
pub mod mutation;
pub mod states;
pub mod store;
pub mod ufs;
pub mod vfs;

pub use error::{FsError, Outcome, Stop};
pub use fetch::{Fetch, Token};
