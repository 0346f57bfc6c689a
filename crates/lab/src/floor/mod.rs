//! The floor of FUSE: what a request costs on this machine if nothing is behind it (`firn bench floor`).
//!
//! A file system that answers everything at once (`firnfs_fuse::floor`) is mounted over each transport; clients, processes of their
//! own, drive it. A row that misses its goal because of "FUSE" can be compared with these numbers. Parts: `client` (what a client does),
//! `report`.

pub mod client;
pub mod report;

pub use client::{Client, Task};
pub use report::{Measured, Report, Row};
