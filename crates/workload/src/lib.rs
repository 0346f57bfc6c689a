//! Workloads: what programs asked of a file system, call by call, with times.
//!
//! One file format (docs/internals/workload.md has it byte by byte) stands between those who record and those who read:
//! [`Writer`] and [`Reader`] stream it, [`Block`] and [`Packer`] are its parts for a recorder that must not wait for a disk.
//! Foreign traces enter through [`nfsdump`], [`strace`] and [`csv`]. This crate knows no file system and depends on none.
//!
//! Every reader is an iterator of [`Record`]s. It ends with one error that says at which record, or which line, the input is
//! wrong. It keeps a bounded number of bytes in memory, whatever the input claims.
//!
//! - `record`: one operation. `block`: records as bytes, of `varint`s. `pack`: blocks as frames. `header`, `layout`: the head of
//!   a file, and all fixed structures.
//! - `writer`, `reader`: a file as a stream. `records`: what all readers have in common. `lines`: lines of a text of any size.
//! - `names`: names as given, or as keyed hashes. `summary`: counts and sums of a workload. `error`: why one cannot be read or
//!   written.

pub mod block;
pub mod csv;
pub mod error;
pub mod header;
pub mod layout;
mod lines;
pub mod names;
pub mod nfsdump;
pub mod pack;
pub mod reader;
pub mod record;
mod records;
pub mod strace;
pub mod summary;
pub mod varint;
pub mod writer;

pub use block::Block;
pub use error::{Error, TooLong};
pub use header::{Header, Origin};
pub use names::{NameKey, Naming};
pub use pack::{End, Packer};
pub use reader::Reader;
pub use record::{FileId, Op, Outcome, Record};
pub use summary::Summary;
pub use writer::Writer;
