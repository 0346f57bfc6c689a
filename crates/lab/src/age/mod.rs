//! Aging: what months of use do to a file system (Smith and Seltzer, File System Aging, SIGMETRICS'97).
//!
//! [`snapshot`] stores which files a file system has and where their blocks lie; [`take`] finds that out for directories
//! (`fiemap` asks the kernel) and volumes; [`layout`] says how well files are laid out; [`workload`] makes workloads that age a
//! file system, [`replay`] carries them out; [`bench`](mod@bench) measures what has aged, and [`compare`] several file systems
//! through their whole lives. Callers: `firn age`, the control socket of a mount. Page: docs/internals/aging.md.

pub mod bench;
pub mod compare;
mod fiemap;
pub mod layout;
pub mod replay;
pub mod snapshot;
pub mod take;
pub mod workload;
