//! Memory: which parts of the volume are cached, and which of them are evicted first.
//!
//! [`ClockMap`] (`clock`) is the replacement policy (CLOCK with a few levels of heat). [`BlockCache`] (`blocks`) keeps blocks by
//! [`BlockKey`](crate::store::BlockKey), because a dirty LFS block has no address yet. Invariant: dirty blocks are never evicted;
//! the order of eviction depends only on the history of calls.

mod blocks;
mod clock;

pub use blocks::{BlockCache, Dirty, Fresh, LaidOut, Origin};
pub use clock::ClockMap;
