//! The driver: runs the sans-I/O core of `fs` against a device, for callers that may block.
//!
//! One mutex around the core. An operation that stops is retried here after its blocks were read (`Need`) or after
//! background work advanced (`Room`). No thread of its own: whoever calls does the work; an adapter with threads calls
//! [`Volume::background`] from one of them.

use firnfs::store::{Scope, Store};
use firnfs::vfs::Vfs;
use firnfs::{FsError, Outcome};
use firnfs_device::{Clock, Device};
use firnfs_format::{InodeNo, TimeNs};
use parking_lot::Mutex;
use std::sync::Arc;

/// A store that a [`Volume`] can drive. `mem` needs nothing of it.
pub trait Driven: Store {}

/// An open volume.
pub struct Volume<S: Driven> {
    core: Mutex<Vfs<S>>,
    device: Option<Arc<dyn Device>>,
    clock: Arc<dyn Clock>,
}

#[allow(unused_variables)] // replaced by the implementation
impl<S: Driven> Volume<S> {
    /// Drives `vfs`; `device` is `None` for the memory store.
    pub fn new(vfs: Vfs<S>, device: Option<Arc<dyn Device>>, clock: Arc<dyn Clock>) -> Self {
        Self { core: Mutex::new(vfs), device, clock }
    }

    /// Runs one operation to its end, retrying as needed. `op` must be repeatable until it succeeds.
    ///
    /// # Errors
    /// The operation's own.
    pub fn run<T>(&self, op: impl FnMut(&mut Vfs<S>, TimeNs) -> Outcome<T>) -> Result<T, FsError> {
        todo!()
    }

    /// Reads into `out`; returns how much (less than asked for only at the end of the file).
    ///
    /// # Errors
    /// `Corrupt`, `Io`, and those of `Vfs::read`.
    pub fn read(&self, ino: InodeNo, at_bytes: u64, out: &mut [u8]) -> Result<usize, FsError> {
        todo!()
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// `NoSpace`, and those of `Vfs::write`.
    pub fn write(&self, ino: InodeNo, at_bytes: u64, bytes: &[u8], kill_set_id: bool) -> Result<(), FsError> {
        todo!()
    }

    /// Makes a scope durable and waits for it (group commit).
    ///
    /// # Errors
    /// `Io`, `ReadOnly`.
    pub fn sync(&self, scope: Scope) -> Result<(), FsError> {
        todo!()
    }

    /// Does background work that is due (commit interval, write threshold, checkpoint, cleaning). Returns how long the
    /// caller may sleep, in milliseconds, unless [`Volume::wait_for_work`] wakes it earlier.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn background(&self) -> Result<u64, FsError> {
        todo!()
    }

    /// Sleeps until there is background work, at most `max_ms`.
    pub fn wait_for_work(&self, max_ms: u64) {
        todo!()
    }

    /// Frees orphans, commits, writes a clean checkpoint.
    ///
    /// # Errors
    /// `Io`, `ReadOnly`.
    pub fn close(&self) -> Result<(), FsError> {
        todo!()
    }
}
