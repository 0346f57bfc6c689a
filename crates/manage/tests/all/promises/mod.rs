//! The README's promises about a volume, verified through the library: one module per promise.
//!
//! Memory has a test binary of its own (`memory`), because it is measured over a whole process.

// These tests start threads and measure time, which the crate itself never does.
#![allow(clippy::disallowed_methods)]

mod determinism;
mod directories;
mod discard;
mod far;
mod fence;
mod full;
mod mount_cost;
mod orphans;
mod refusals;
mod rights;
mod small_cache;
mod support;
mod threads;
mod tuning;
