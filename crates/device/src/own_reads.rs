//! `OwnReads`: reads of one thread that waits for something else as well, and cannot sleep in [`Device::wait`](crate::Device::wait).
//!
//! The thread starts reads, waits for the descriptor to become readable beside whatever else it waits for, and takes what has landed.

use crate::request::Completion;
use std::os::fd::RawFd;

/// See the module's head. What is still under way when it is dropped is waited for.
pub trait OwnReads: Send {
    /// How many more reads may be started; 0 for ever once the system has failed.
    fn room(&self) -> usize;

    /// Starts reads, given as place and length in bytes, and returns a name for each; at most as many as there is room for. A read that cannot be
    /// started lands with what became of it.
    fn start(&mut self, ranges: &[(u64, u32)]) -> Vec<u64>;

    /// Takes what has landed since the last call, with the names of the reads. Does not wait.
    fn landed(&mut self) -> Vec<(u64, Completion)>;

    /// Readable once something has landed. It is open as long as `self`, and not to be read from.
    fn fd(&self) -> RawFd;
}
