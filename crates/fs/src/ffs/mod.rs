//! The Fast File System.

pub mod alloc;
pub mod base;
