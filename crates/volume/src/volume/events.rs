//! Events: how the threads of a volume wait for each other.
//!
//! An event is anything that a thread may wait for: a request completed, a background step made progress or found no way to
//! make any, background work failed, or a promise of background work was withdrawn. The thread that causes an event counts it
//! under the lock of the core, and notifies. A thread that looks under that lock, has to wait, and sees no new event since it
//! looked goes to sleep at once. It releases the lock and begins to sleep in one step, so it cannot miss an event in between.
//!
//! Invariant: a thread sleeps here without a timeout only if another thread is certain to cause an event, because that thread
//! has requests of the core under way ([`Events::requests`]) or has promised background work (`promise`). So these sleeps need
//! no timeout. `Volume::wait_for_room` has one against programs that break their promise, and `Volume::look_again` has the one
//! that its caller asks for.
//!
//! Callers: `waiting`, `background`, and callers that wait until requests have completed ([`Volume::until`]).

use super::Volume;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Condvar, MutexGuard};
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::engine::Job;
use firnfs::vfs::Vfs;
use std::time::Duration;

/// Requests handed to the device at once by one caller.
const JOBS_AT_ONCE: usize = 4;
/// The timeout given to a program's own scheduler for a wait that has none.
const PARKED_MAX: Duration = Duration::from_secs(3600);

/// See the module's head. All fields but `awaiting` change only while the core is locked.
pub(super) struct Events {
    /// Signalled at every event.
    happened: Condvar,
    count: AtomicU64,
    dead_ends: AtomicU64,
    /// Requests that callers have taken from the core and not reported yet, plus reads under way.
    requests: AtomicU32,
    /// Callers of [`Volume::until`].
    awaiting: AtomicU32,
}

/// The events up to some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    count: u64,
    /// How often background work failed, or found no way to make room for the operations that wait for it.
    pub(super) dead_ends: u64,
}

/// What an event tells the waiters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// Something has changed.
    Progress,
    /// The last attempt makes no room for any waiter.
    DeadEnd,
}

impl Events {
    pub(super) fn new() -> Self {
        Self {
            happened: Condvar::new(),
            count: AtomicU64::new(0),
            dead_ends: AtomicU64::new(0),
            requests: AtomicU32::new(0),
            awaiting: AtomicU32::new(0),
        }
    }
}

/// Counts the caller, as at work or as waiting, while this exists.
pub(super) struct Counted<'a>(&'a AtomicU32);

impl<'a> Counted<'a> {
    pub fn among(callers: &'a AtomicU32) -> Self {
        callers.fetch_add(1, Ordering::Relaxed);
        Self(callers)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S: Engine> Volume<S> {
    /// True while somebody waits for requests to be done.
    pub(super) fn are_requests_awaited(&self) -> bool {
        self.events.awaiting.load(Ordering::Relaxed) > 0
    }

    /// The events so far. A caller that asks under the lock of the core misses no event from then on.
    pub(crate) fn seen(&self) -> Seen {
        Seen {
            count: self.events.count.load(Ordering::Relaxed),
            dead_ends: self.events.dead_ends.load(Ordering::Relaxed),
        }
    }

    /// Counts an event, releases the core, and wakes all waiters. Returns the events up to and including this one.
    pub(super) fn tell(&self, core: MutexGuard<'_, Vfs<S>>, event: Event) -> Seen {
        self.events.count.fetch_add(1, Ordering::Relaxed);
        if event == Event::DeadEnd {
            self.events.dead_ends.fetch_add(1, Ordering::Relaxed);
        }
        let seen = self.seen();
        drop(core);
        self.notify(&self.events.happened);
        seen
    }

    pub(super) fn notify(&self, sleepers: &Condvar) {
        sleepers.notify_all();
        if let Some(parking) = self.parking.get() {
            (parking.unpark)();
        }
    }

    /// Sleeps until a notification, at most `max`; true if `max` has passed. The caller must look again: the event may be a
    /// different one.
    pub(super) fn sleep(&self, core: &mut MutexGuard<'_, Vfs<S>>, max: Option<Duration>) -> bool {
        self.about_to_block();
        let happened = &self.events.happened;
        match (self.parking.get(), max) {
            (Some(parking), _) => {
                MutexGuard::unlocked(core, || (parking.park)(max.unwrap_or(PARKED_MAX)));
                false
            }
            (None, Some(max)) => happened.wait_for(core, max).timed_out(),
            (None, None) => {
                happened.wait(core);
                false
            }
        }
    }

    /// Looks; if `look` finds nothing, sleeps until the next event, at most `max`, and looks once more.
    pub fn look_again<T>(&self, max: Duration, mut look: impl FnMut(&mut Vfs<S>) -> Option<T>) -> Option<T> {
        let mut core = self.core.lock();
        let found = look(&mut core);
        if found.is_some() {
            return found;
        }
        self.sleep(&mut core, Some(max));
        look(&mut core)
    }

    /// Takes the requests that are ready; the caller starts and reports them, and other threads wait for that from now on.
    pub(super) fn take_jobs(&self, core: &mut MutexGuard<'_, Vfs<S>>) -> Vec<Job> {
        if self.device.is_none() || Self::is_device_frozen(core) {
            return Vec::new();
        }
        let jobs: Vec<_> = std::iter::from_fn(|| core.store_mut().next_job()).take(JOBS_AT_ONCE).collect();
        self.events.requests.fetch_add(jobs.len() as u32, Ordering::Relaxed);
        jobs
    }

    /// Reports to the waiters that the core has been told about a request.
    pub(super) fn request_done(&self, core: MutexGuard<'_, Vfs<S>>) {
        self.events.requests.fetch_sub(1, Ordering::Relaxed);
        self.tell(core, Event::Progress);
    }

    /// Notes that a reader outside the lock has pinned segments: like a request, it will finish, so others may wait for it.
    /// Call it under the same hold of the core's lock that made the pin.
    pub(super) fn reading_begun(&self) {
        self.events.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// The reader has given its pin back. Notifies only if it can matter: if a thread waits for the pin, or if nothing else is
    /// under way.
    pub(super) fn reading_done(&self, core: MutexGuard<'_, Vfs<S>>, is_awaited: bool) {
        let was_last = self.events.requests.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_awaited || was_last {
            self.tell(core, Event::Progress);
        }
    }

    /// Carries out requests that are ready; if none is, sleeps until the next event after `seen`. False if no event can come:
    /// no request is queued, and none is under way.
    pub(super) fn get_on(&self, mut core: MutexGuard<'_, Vfs<S>>, seen: Seen) -> bool {
        let jobs = self.take_jobs(&mut core);
        if !jobs.is_empty() {
            drop(core);
            self.carry_out(jobs);
            return true;
        }
        while self.seen() == seen {
            // The thaw is an event.
            if !Self::is_device_frozen(&core) && self.events.requests.load(Ordering::Relaxed) == 0 {
                return false;
            }
            self.sleep(&mut core, None);
        }
        true
    }

    /// Calls `look` under the lock of the core until it returns a value, which requests under way or queued bring about.
    /// Carries out ready requests meanwhile.
    ///
    /// # Errors
    /// Those of `look`. If all requests are done and `look` still returns nothing: `ReadOnly` with the reason if there is one,
    /// `Io` otherwise.
    pub fn until<T>(
        &self,
        mut look: impl FnMut(&mut Vfs<S>) -> Result<Option<T>, FsError>,
    ) -> Result<T, FsError> {
        let _awaiting = Counted::among(&self.events.awaiting);
        loop {
            let mut core = self.core.lock();
            if let Some(found) = look(&mut core)? {
                return Ok(found);
            }
            let why = core.store().read_only().map(str::to_owned);
            if !self.get_on(core, self.seen()) {
                let stopped =
                    || FsError::Io("the store stopped: none of its requests is under way".to_owned());
                return Err(why.map_or_else(stopped, FsError::ReadOnly));
            }
        }
    }
}
