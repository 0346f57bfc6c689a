//! What the driver's threads meet at: mutexes, condition variables, atomics. They are parking_lot's and the standard library's,
//! or, built with `--cfg shuttle`, those of a model checker that runs the threads in every order it can think of
//! (`tests/interleavings.rs`). Nowhere else in this crate is the difference seen.

#[cfg(shuttle)]
pub use modelled::lose_notifications;
#[cfg(shuttle)]
pub(crate) use modelled::{Condvar, Mutex, MutexGuard};
#[cfg(not(shuttle))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic;
#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic;

#[cfg(shuttle)]
mod modelled;
