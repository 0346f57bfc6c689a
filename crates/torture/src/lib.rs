//! Torture: histories of operations, and the means to judge what a file system made of them.
//!
//! - [`ops`]: operations on paths and handles, and a generator of them from a seed.
//! - [`model`]: an independent model of a POSIX file system that says what each operation must answer.
//! - [`run`]: carries operations out on a [`run::Target`] (any store behind a driver) and reads back the whole tree.
//! - [`on_volume`]: a log-structured volume as such a target.
//! - [`skittish`]: a store that stops at random wherever a store may, to prove that stopping changes nothing.
//! - [`audit`]: the accounting of a volume added up anew.
//! - [`crash`]: the crash explorer: power cuts at every point of a recorded history.

pub mod audit;
pub mod crash;
pub mod model;
pub mod on_volume;
pub mod ops;
pub mod run;
pub mod skittish;
