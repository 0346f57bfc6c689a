//! The driver: runs the sans-I/O core of `fs` against a device, for callers that may block.
//!
//! One mutex around the core. An operation that stops is retried here after its blocks were read (`Need`) or after
//! background work advanced (`Room`). No thread of its own: whoever calls does the work; an adapter with threads calls
//! [`Volume::background`] from one of them.

use firnfs::store::{Piece, Scope, Store};
use firnfs::vfs::Vfs;
use firnfs::{FsError, Outcome, Stop};
use firnfs_device::{Clock, Device};
use firnfs_format::{InodeNo, TimeNs};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// A store that a [`Volume`] can drive. `mem` needs nothing of it.
pub trait Driven: Store {}

impl Driven for firnfs::mem::MemStore {}

/// An open volume.
pub struct Volume<S: Driven> {
    core: Mutex<Vfs<S>>,
    device: Option<Arc<dyn Device>>,
    clock: Arc<dyn Clock>,
    sleep_lock: Mutex<()>,
    work: Condvar,
}

impl<S: Driven> Volume<S> {
    /// Drives `vfs`; `device` is `None` for the memory store.
    pub fn new(vfs: Vfs<S>, device: Option<Arc<dyn Device>>, clock: Arc<dyn Clock>) -> Self {
        Self { core: Mutex::new(vfs), device, clock, sleep_lock: Mutex::new(()), work: Condvar::new() }
    }

    /// Runs one operation to its end, retrying as needed. `op` must be repeatable until it succeeds.
    ///
    /// # Errors
    /// The operation's own.
    pub fn run<T>(&self, mut op: impl FnMut(&mut Vfs<S>, TimeNs) -> Outcome<T>) -> Result<T, FsError> {
        let now = TimeNs(self.clock.now_ns());
        loop {
            match op(&mut self.core.lock(), now) {
                Ok(value) => return Ok(value),
                Err(Stop::Fail(e)) => return Err(e),
                Err(Stop::Need(_) | Stop::Room) => unreachable!("interim driver: memory store only"),
            }
        }
    }

    /// Reads into `out`; returns how much (less than asked for only at the end of the file).
    ///
    /// # Errors
    /// `Corrupt`, `Io`, and those of `Vfs::read`.
    pub fn read(&self, ino: InodeNo, at_bytes: u64, out: &mut [u8]) -> Result<usize, FsError> {
        let plan = self.run(|vfs, now| vfs.read(now, ino, at_bytes, out.len() as u64))?;
        let mut done = 0;
        for piece in &plan.pieces {
            match piece {
                Piece::Zeros { len_bytes } => {
                    out[done..done + len_bytes].fill(0);
                    done += len_bytes;
                }
                Piece::Memory { buf, start, len_bytes } => {
                    out[done..done + len_bytes].copy_from_slice(&buf[*start..start + len_bytes]);
                    done += len_bytes;
                }
                Piece::Stored { .. } => unreachable!("interim driver: memory store only"),
            }
        }
        Ok(done)
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// `NoSpace`, and those of `Vfs::write`.
    pub fn write(&self, ino: InodeNo, at_bytes: u64, bytes: &[u8], kill_set_id: bool) -> Result<(), FsError> {
        let mut done = 0;
        while done < bytes.len() {
            done += self
                .run(|vfs, now| vfs.write(now, ino, at_bytes + done as u64, &bytes[done..], kill_set_id))?;
        }
        Ok(())
    }

    /// Makes a scope durable and waits for it (group commit).
    ///
    /// # Errors
    /// `Io`, `ReadOnly`.
    pub fn sync(&self, scope: Scope) -> Result<(), FsError> {
        self.run(|vfs, now| vfs.commit(now, scope)).map(drop)
    }

    /// Does background work that is due (commit interval, write threshold, checkpoint, cleaning). Returns how long the
    /// caller may sleep, in milliseconds, unless [`Volume::wait_for_work`] wakes it earlier.
    ///
    /// # Errors
    /// `Io`, `Corrupt`.
    pub fn background(&self) -> Result<u64, FsError> {
        Ok(1000)
    }

    /// Sleeps until there is background work, at most `max_ms`.
    pub fn wait_for_work(&self, max_ms: u64) {
        let mut guard = self.sleep_lock.lock();
        self.work.wait_for(&mut guard, std::time::Duration::from_millis(max_ms));
    }

    /// Ends a [`Volume::wait_for_work`] under way, so that its caller can look at what else it was told (to stop).
    pub fn wake(&self) {
        let _guard = self.sleep_lock.lock();
        self.work.notify_all();
    }

    /// Frees orphans, commits, writes a clean checkpoint.
    ///
    /// # Errors
    /// `Io`, `ReadOnly`.
    pub fn close(&self) -> Result<(), FsError> {
        self.run(|vfs, now| vfs.release_orphans(now))?;
        self.sync(Scope::All)
    }
}
