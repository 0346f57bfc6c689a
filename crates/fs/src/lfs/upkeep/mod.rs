//! Background work, one bounded step at a time (`step`): cleaning (`clean`, and `port` for cleaners outside), freeing the blocks
//! of deleted files (`reap`), putting scattered files in order (`coalesce`, planned by `coalesce_plan`, found by `seams` and
//! `hints`), discarding (`discard`). `idle` says when nobody asks for anything, `snapshot` holds a state still for a check.

pub(in crate::lfs) mod clean;
pub(in crate::lfs) mod coalesce;
pub(in crate::lfs) mod coalesce_plan;
pub(in crate::lfs) mod discard;
pub(in crate::lfs) mod hints;
pub(in crate::lfs) mod idle;
pub mod port;
pub(in crate::lfs) mod reap;
pub(in crate::lfs) mod seams;
pub(in crate::lfs) mod snapshot;
pub(in crate::lfs) mod step;
