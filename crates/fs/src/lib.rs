//! firnfs: a log-structured file system as a deterministic state machine.
//!
//! This crate owns no thread, reads no clock, draws no randomness and blocks on no I/O. Read it top-down:
//! [`vfs`] (POSIX operations on inode numbers), [`ufs`] (directories, names, block map), [`store`] (the seam), then
//! the storage managers [`lfs`] and [`mem`].

mod cache;
pub mod check;
pub mod clean;
pub mod content;
pub mod digest;
pub mod error;
pub mod inode;
pub mod lfs;
pub mod mem;
pub mod mutation;
pub mod store;
pub mod ufs;
pub mod vfs;

pub use error::{Fetch, FetchKind, FsError, Outcome, Stop};
