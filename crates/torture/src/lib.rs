//! Torture: histories of random operations, and the means to judge what a file system made of them.
//!
//! - [`crash`]: the crash explorer.

pub mod crash;
