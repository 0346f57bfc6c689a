//! The driver's synchronisation: mutexes, condition variables, atomics. They come from parking_lot and the standard library.
//! Built with `--cfg shuttle`, they come from a model checker (`modelled`) that tries many orders of the threads
//! (`tests/interleavings.rs`). No other file of this crate sees the difference.

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
