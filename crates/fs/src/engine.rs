//! The other half of the seam: a storage manager as the driver sees it.
//!
//! [`Store`] is what UFS sees; an [`Engine`] is a store that keeps its bytes on a device without doing I/O itself. The driver
//! reads for it and writes for it:
//!
//! - A method that misses a block stops with [`Stop::Need`](crate::Stop). The driver reads each [`Fetch`] outside the lock,
//!   has the engine's [`Verify`] judge the bytes, hands them to [`Engine::supply`], and calls the method again.
//! - Requests for the device come from [`Engine::next_job`]. The driver prepares the request ([`Job::request`]) outside the
//!   lock, submits it, and reports its end to [`Engine::job_done`]. Jobs that are handed out may be under way together, in any
//!   order: a job that has to wait for another one is not handed out before.
//! - Background work is done by [`Engine::step`], one bounded step a call, whenever [`Engine::pressure`] or
//!   [`Engine::due_in_ms`] says so.
//! - Changes get durable as jobs complete: [`Engine::durable`] rises to the [`Ticket`]s that
//!   [`Store::commit`] and [`Store::end`] returned.
//!
//! What a store expects to be read soon, it says with the plan of a read ([`Soon`]): the driver starts these reads and goes on.
//!
//! Nothing here knows how a store lays out its bytes: whether blocks have fixed addresses, whether they have checksums, how far
//! to read ahead. The defaults suit a store without a device.
//!
//! Implemented by the storage managers; called by the driver alone.

use crate::error::{FsError, Outcome};
use crate::fetch::Token;
use crate::store::{Scope, Store, Ticket};
use firnfs_device::{DeviceError, Request};
use firnfs_format::TimeNs;
use std::fmt::Debug;
use std::sync::Arc;

pub use crate::fetch::{Ahead, Fetch, Fetched, Soon};

/// Judges bytes that were read, without the store and outside its lock.
pub trait Verify: Send + Sync {
    /// Whether these bytes can be what the token stands for.
    ///
    /// # Errors
    /// `Corrupt`, with place, expected and found.
    fn verify(&self, token: &Token, bytes: &[u8]) -> Result<(), FsError>;

    /// True if [`Self::verify`] notices bytes that were right once and have been overwritten since. Only then may the driver
    /// serve a read from bytes that it read before.
    fn notices_stale(&self, _token: &Token) -> bool {
        false
    }
}

/// For stores without checksums: all bytes can be right.
pub struct Unverified;

impl Verify for Unverified {
    fn verify(&self, _token: &Token, _bytes: &[u8]) -> Result<(), FsError> {
        Ok(())
    }
}

/// Names a job until its completion is reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct JobId(pub u64);

/// A request that is put together only when it is submitted, outside the lock.
pub trait Prepare: Send + Sync + Debug {
    /// The request. Called once.
    fn request(&self) -> Request;
}

#[derive(Clone, Debug)]
enum Work {
    Later(Arc<dyn Prepare>),
    Ready(Request),
}

/// One request for the device.
#[derive(Clone, Debug)]
pub struct Job {
    /// For [`Engine::job_done`].
    pub id: JobId,
    /// It makes what was written before the volume's truth: the driver has the device prove first that nobody else writes
    /// ([`firnfs_device::Device::fence`]).
    pub is_fenced: bool,
    work: Work,
}

impl Job {
    /// A job whose request is ready.
    #[must_use]
    pub fn ready(id: JobId, request: Request) -> Self {
        Self { id, is_fenced: false, work: Work::Ready(request) }
    }

    /// A job whose request is put together later.
    #[must_use]
    pub fn later(id: JobId, prepare: Arc<dyn Prepare>) -> Self {
        Self { id, is_fenced: false, work: Work::Later(prepare) }
    }

    /// The same job, behind the fence.
    #[must_use]
    pub fn fenced(self) -> Self {
        Self { is_fenced: true, ..self }
    }

    /// The request. May copy megabytes: call it once, without a lock.
    #[must_use]
    pub fn request(&self) -> Request {
        match &self.work {
            Work::Later(prepare) => prepare.request(),
            Work::Ready(request) => request.clone(),
        }
    }
}

/// The result of a step of background work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It did work; there may be more.
    Worked,
    /// It did nothing, because it waits for jobs or reads under way.
    Waiting,
    /// Nothing is due for that many milliseconds.
    Idle(u64),
    /// Room is needed, and there is no way to make any.
    Stuck,
}

/// Whether background work is due now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pressure {
    /// Nothing is due.
    None,
    /// Background work is due.
    Due,
}

/// See the module's head.
pub trait Engine: Store {
    /// Judges bytes that were read for this store.
    fn verifier(&self) -> Arc<dyn Verify> {
        Arc::new(Unverified)
    }

    /// Supplies bytes that were fetched and verified. They may be late: the store drops those that a write has made stale since
    /// it made the token.
    ///
    /// # Errors
    /// `Corrupt` if they are not what they should be.
    fn supply(&mut self, _token: &Token, _bytes: &Fetched) -> Result<(), FsError> {
        Ok(())
    }

    /// Reports that a fetch failed for good: when the operation that needs it is tried again, it gets the error. A store
    /// that keeps no such notes returns the error, which ends the operation.
    ///
    /// # Errors
    /// `error`, if the operation is not to be tried again.
    fn fetch_failed(&mut self, _token: &Token, error: FsError) -> Result<(), FsError> {
        Err(error)
    }

    /// Gives back the pin of a [`ReadPlan`](crate::store::ReadPlan). True if an operation that got `Room` may succeed now.
    fn unpin(&mut self, _pin: u64) -> bool {
        false
    }

    /// The next request for the device.
    fn next_job(&mut self) -> Option<Job> {
        None
    }

    /// Reports that a request is complete.
    fn job_done(&mut self, _id: JobId, _result: Result<(), DeviceError>) {}

    /// All changes up to this ticket are durable.
    fn durable(&self) -> Ticket {
        Ticket(u64::MAX)
    }

    /// True if no job is under way or queued.
    fn is_drained(&self) -> bool {
        true
    }

    /// One step of background work; `pressed`: an operation waits for room.
    ///
    /// # Errors
    /// `Need`, `Room`; others end background work until it is called again.
    fn step(&mut self, _now: TimeNs, _pressed: bool) -> Outcome<Step> {
        Ok(Step::Idle(60_000))
    }

    /// Whether background work is due because of recent operations (not because time has passed).
    fn pressure(&self) -> Pressure {
        Pressure::None
    }

    /// Notes a request of a user: background work that can wait then waits.
    fn note_request(&mut self, _now: TimeNs) {}

    /// How long until work is due by time, in milliseconds; `u64::MAX` if no work is due until the next change.
    fn due_in_ms(&self, _now: TimeNs) -> u64 {
        u64::MAX
    }

    /// True if the blocks that a background step requested are not needed any more.
    fn gives_way(&self, _now: TimeNs) -> bool {
        false
    }

    /// True while a commit of that scope, for somebody who waits for it, has to wait for requests under way: those of the one before it,
    /// of which a state is kept.
    fn holds_commit(&self, _scope: Scope) -> bool {
        false
    }

    /// Evicts until memory is within its bound.
    fn shrink_caches(&mut self) {}

    /// Why the store, opened for writing, is read-only by now: accepted changes that are not durable yet are lost.
    fn broken(&self) -> Option<&str> {
        None
    }

    /// The last step of a clean unmount: queues all remaining writes, with the mark that nothing is left to recover.
    /// The store rejects changes from then on. A second call does nothing.
    ///
    /// # Errors
    /// `Need`, `Room`, `ReadOnly`.
    fn close(&mut self, _now: TimeNs) -> Outcome<()> {
        Ok(())
    }
}
