//! Fuzzers for everything that takes bytes from outside: every decoder, the kernel's requests, the control socket's
//! lines, and whole images.
//!
//! - [`targets`]: functions that take bytes and return nothing; the fuzzers test that they return, in bounded time and
//!   memory.
//! - [`corpus`]: initial inputs, one file each under `corpus/TARGET`, and inputs that once caused a finding.
//! - [`mutate`]: makes new inputs from those, as a function of a seed and a number.
//! - [`worker`]: runs one target in a process of its own, which has little memory.
//! - [`campaign`]: watches workers: a panic, an exhausted memory or an endless run is a finding that can be replayed.

pub mod campaign;
pub mod corpus;
pub mod mutate;
pub mod targets;
pub mod worker;
