//! Torture: histories of operations, and the means to judge what a file system made of them.
//!
//! - [`ops`]: operations on paths and handles, and a generator of them from a seed.
//! - [`model`]: an independent model of a POSIX file system that says what each operation must answer.
//! - [`run`]: carries operations out on a [`run::Target`] (any store behind a driver) and reads back the whole tree.
//! - [`on_volume`]: a log-structured volume as such a target.
//! - [`histories`]: random histories on such a volume, with remounts, against the model; each comes from its seed.
//! - [`skittish`]: a store that stops at random wherever a store may, to prove that stopping changes nothing.
//! - [`audit`]: the accounting of a volume added up anew.
//! - [`survey`]: all that can be read of a volume, with the error in place of what cannot.
//! - [`specimen`], [`anatomy`]: a volume with an object of every kind, and what its live bytes belong to.
//! - [`export`](mod@export): the tree of a volume copied into a directory, for programs to look at.
//! - [`crash`]: the crash explorer: power cuts at every point of a recorded history.

pub mod anatomy;
pub mod audit;
pub mod crash;
pub mod export;
pub mod histories;
pub mod model;
pub mod on_volume;
pub mod ops;
pub mod run;
pub mod skittish;
pub mod specimen;
pub mod survey;
