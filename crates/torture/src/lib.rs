//! Torture: histories of operations, and the means to judge what a file system did with them.
//!
//! - [`ops`]: operations on paths and handles, and a generator that makes them from a seed.
//! - [`model`]: an independent model of a POSIX file system, which knows the right answer of each operation.
//! - [`run`]: carries operations out on a [`run::Target`] (any store behind a driver) and reads back the whole tree.
//! - [`on_volume`]: a log-structured volume as such a target.
//! - [`histories`]: random histories on such a volume, with remounts, against the model; a seed determines each.
//! - [`quotas`]: random histories with owners and limits; usage and every refusal against a walk.
//! - [`skittish`]: a store that stops at random wherever a store may, to prove that stopping changes nothing.
//! - [`audit`]: the recomputed accounting of a volume.
//! - [`survey`]: everything readable on a volume, with errors for the rest.
//! - [`specimen`], [`anatomy`]: a volume with an object of every kind, and the owners of its live bytes.
//! - [`export`](mod@export): copies the tree of a volume into a directory, for programs to examine.
//! - [`listing`]: the entries of a directory, to its end.
//! - [`crash`]: the crash explorer: power cuts at every point of a recorded history.

pub mod anatomy;
pub mod audit;
pub mod crash;
pub mod export;
pub mod histories;
pub mod listing;
pub mod model;
pub mod on_volume;
pub mod ops;
pub mod quotas;
pub mod run;
pub mod skittish;
pub mod specimen;
pub mod survey;
