//! Simulated hardware: tables of disks, and the real file system on whole machines of the papers, in virtual time.
//!
//! `choose` finds disks and machines by name or file. [`disk_view`] describes a disk. `rig` runs the file system on a machine;
//! `store_kind` says which one, `profile` how it is set up; [`bandwidth`], [`small_files`] and [`large_file`] are the papers'
//! benchmarks on it, and `claims` compares them with the published results; [`comparison`] compares the log with the Fast File
//! System; `fragmented` and `lifetime` run them on file systems that were used for months (`lived`); `production` runs file
//! systems under made-up users; [`papers`] draws the papers' figures from all of them. Callers: `firn sim disk`,
//! `firn sim paper`, `firn sim coalescing`, `firn paper`. Page: docs/internals/simulated-hardware.md.

pub mod bandwidth;
mod choose;
pub mod claims;
pub mod comparison;
pub mod disk_view;
mod fragmented;
pub mod large_file;
mod lifetime;
mod lived;
pub mod papers;
mod production;
mod profile;
mod rig;
pub mod small_files;
mod store_kind;

pub use choose::{ChosenDisk, disk_names, find_disk, find_machine, machine_names};
pub use firnfs_sim::CpuModel;
pub use profile::Profile;
pub use rig::{Cleaner, Setup};
pub use store_kind::{FastLayout, StoreKind};

#[cfg(test)]
mod tests;
