//! Memory: what is kept of the volume, and what goes first when room is short.
//!
//! [`ClockMap`] is the replacement policy (CLOCK with a few levels of heat), [`BlockCache`] keeps blocks by
//! [`BlockKey`](crate::store::BlockKey), because a dirty LFS block has no address yet.
//! Invariant: dirty blocks are never evicted; the order of eviction depends on the history of calls alone.

mod blocks;
mod clock;

pub use blocks::{BlockCache, CachedBlock, Dirty, Fresh, LaidOut, Origin};
pub use clock::ClockMap;
