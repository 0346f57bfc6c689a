//! `Driven`: what a store offers beyond the seam so that a [`Volume`](crate::Volume) can move its bytes.

use firnfs::lfs::{Geometry, Job, JobId, Lfs, Pressure, Step};
use firnfs::mem::MemStore;
use firnfs::store::{Store, Ticket};
use firnfs::{FetchKind, FsError, Outcome};
use firnfs_device::DeviceError;
use firnfs_format::TimeNs;

/// See the module's head. The defaults suit a store without a device.
pub trait Driven: Store {
    /// Where things are on the device, for checking what was read outside the lock.
    fn geometry(&self) -> Option<Geometry> {
        None
    }

    /// Puts in what was fetched and verified.
    ///
    /// # Errors
    /// `Corrupt` if it is not what it should be.
    fn supply(&mut self, _what: FetchKind, _bytes: &[u8]) -> Result<(), FsError> {
        Ok(())
    }

    /// Something that was asked for could not be read or supplied, however often: the operation that asked is tried again
    /// and finds out. A store that does not want to know gives the error back, which ends the operation.
    ///
    /// # Errors
    /// `error`, if the operation is not to be tried again.
    fn fetch_failed(&mut self, _what: FetchKind, error: FsError) -> Result<(), FsError> {
        Err(error)
    }

    /// The next request for the device.
    fn next_job(&mut self) -> Option<Job> {
        None
    }

    /// A request is complete.
    fn job_done(&mut self, _id: JobId, _result: Result<(), DeviceError>) {}

    /// What is durable.
    fn durable(&self) -> Ticket {
        Ticket(u64::MAX)
    }

    /// True if no request is under way or waiting.
    fn is_quiet(&self) -> bool {
        true
    }

    /// One step of background work; `pressed`: an operation waits for room.
    ///
    /// # Errors
    /// As `Lfs::step`.
    fn step(&mut self, _now: TimeNs, _pressed: bool) -> Outcome<Step> {
        Ok(Step::Idle(60_000))
    }

    /// Whether background work is due at once.
    fn pressure(&self) -> Pressure {
        Pressure::None
    }

    /// Somebody asks for something now: background work that can wait does.
    fn note_request(&mut self, _now: TimeNs) {}

    /// How long until something is due by itself, in milliseconds.
    fn due_in_ms(&self, _now: TimeNs) -> u64 {
        u64::MAX
    }

    /// True while what a background step asked for is not wanted any more.
    fn gives_way(&self, _now: TimeNs) -> bool {
        false
    }

    /// Drops what memory holds beyond its bound.
    fn shrink_caches(&mut self) {}

    /// Why the store, opened for writing, is read-only by now: what was accepted and not yet durable is lost.
    fn broken(&self) -> Option<&str> {
        None
    }

    /// The last thing of a clean unmount.
    ///
    /// # Errors
    /// As `Lfs::clean_checkpoint`.
    fn clean_checkpoint(&mut self, _now: TimeNs) -> Outcome<()> {
        Ok(())
    }
}

impl Driven for MemStore {}

impl Driven for Lfs {
    fn geometry(&self) -> Option<Geometry> {
        Some(self.geometry())
    }
    fn supply(&mut self, what: FetchKind, bytes: &[u8]) -> Result<(), FsError> {
        self.supply(what, bytes)
    }
    fn fetch_failed(&mut self, what: FetchKind, error: FsError) -> Result<(), FsError> {
        self.fetch_failed(what, error);
        Ok(())
    }
    fn next_job(&mut self) -> Option<Job> {
        self.next_job()
    }
    fn job_done(&mut self, id: JobId, result: Result<(), DeviceError>) {
        self.job_done(id, result);
    }
    fn durable(&self) -> Ticket {
        self.durable()
    }
    fn is_quiet(&self) -> bool {
        self.is_quiet()
    }
    fn step(&mut self, now: TimeNs, pressed: bool) -> Outcome<Step> {
        self.step(now, pressed)
    }
    fn pressure(&self) -> Pressure {
        self.pressure()
    }
    fn note_request(&mut self, now: TimeNs) {
        self.note_request(now);
    }
    fn due_in_ms(&self, now: TimeNs) -> u64 {
        self.due_in_ms(now)
    }
    fn gives_way(&self, now: TimeNs) -> bool {
        self.gives_way(now)
    }
    fn shrink_caches(&mut self) {
        self.shrink_caches();
    }
    fn broken(&self) -> Option<&str> {
        // A volume that was found damaged when it was opened has accepted nothing.
        self.read_only().filter(|_| !self.options().read_only && self.recovered().lost.is_none())
    }
    fn clean_checkpoint(&mut self, now: TimeNs) -> Outcome<()> {
        self.clean_checkpoint(now)
    }
}
