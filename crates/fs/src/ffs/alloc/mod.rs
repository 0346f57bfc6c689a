//! Allocation: which fragments and inodes are free, and which of them a file gets.
//!
//! [`group`] has the rules within a group, over its bitmaps; [`prefer`] and [`rotation`] say where something should go, over counts and
//! geometry; [`groups`] brings both together. All are pure state machines without I/O.

pub mod bits;
pub mod group;
pub mod groups;
pub mod prefer;
pub mod rotation;
#[cfg(test)]
mod tests;

pub use group::Group;
pub use groups::{Groups, Miss, Run};
pub use prefer::{NewBlock, Wish};
