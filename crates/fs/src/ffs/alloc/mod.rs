//! Allocation: which fragments and inodes are free, and which of them a file gets.
//!
//! [`group`] has the rules within a group, over its bitmaps (`bits`); [`prefer`] and [`rotation`] choose where an inode or block
//! should go, from counts and geometry; [`groups`] combines both. All are pure state machines without I/O.

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
