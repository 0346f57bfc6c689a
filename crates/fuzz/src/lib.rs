//! Fuzzers for all that takes bytes from outside: every decoder, the kernel's requests, the control socket's lines, and
//! whole images.
//!
//! - [`targets`]: functions from bytes to nothing; that they return, in bounded time and memory, is what is tested.
//! - [`corpus`]: inputs to begin with, one file each under `corpus/TARGET`, and those that once found something.
//! - [`mutate`]: makes inputs from those, as a function of a seed and a number.
//! - [`worker`]: runs one target in a process of its own, which has little memory.
//! - [`campaign`]: watches workers: who panics, is out of memory or does not come back is a finding that can be replayed.

pub mod campaign;
pub mod corpus;
pub mod mutate;
pub mod targets;
pub mod worker;
