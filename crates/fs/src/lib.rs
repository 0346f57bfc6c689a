//! firnfs: a log-structured file system as a deterministic state machine.
//!
//! This crate owns no thread, reads no clock, draws no randomness and blocks on no I/O. Read it top-down:
//! [`vfs`] (POSIX operations on inode numbers), [`ufs`] (directories, names, block map), [`store`] (the seam: a storage manager
//! as UFS sees it) and [`engine`] (the same as the driver sees it), then the storage managers [`lfs`], [`ffs`] and [`mem`].

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
