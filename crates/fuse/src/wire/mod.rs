//! The FUSE protocol without a transport: bytes to typed requests, typed replies to bytes.
//!
//! `abi` declares the kernel's structures, `request` decodes, `reply` encodes. Nothing here reads or writes a file
//! descriptor, so that `/dev/fuse` (`device`) and, later, an io_uring can carry the same messages.

pub mod abi;
pub mod reply;
pub mod request;

pub use reply::Reply;
pub use request::{Header, Operation, Request};
