//! Events: how the threads of a volume wait for what others of them do.
//!
//! An event is whatever somebody may wait for: a request that completed, a background step that got somewhere or found no way to,
//! background work that failed, a promise of background work given back. It is counted under the lock of the core, and whoever
//! makes one notifies. Who looks under that lock, finds that it has to wait, and that nothing happened since it looked, sleeps
//! right there: the lock is given up and the sleep begun in one, so no event is missed in between.
//!
//! Invariants: nobody sleeps here for as long as it takes unless another thread is sure to make an event - it has requests of the core
//! under way ([`Events::requests`]) or has promised background work (`promise`). So no such sleep needs an end of its own; that of
//! `Volume::wait_for_room` has one for programs that break their promise, and `Volume::look_again` one that its caller asks for.
//!
//! Callers: `waiting`, `background`, and whatever waits until the log has got somewhere ([`Volume::until`]).

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
/// What a program that decides who goes on is told when a wait has no end of its own.
const PARKED_MAX: Duration = Duration::from_secs(3600);

/// See the module's head. All of it changes only while the core is locked.
pub(super) struct Events {
    /// Signalled at every event.
    happened: Condvar,
    count: AtomicU64,
    dead_ends: AtomicU64,
    /// Requests that some caller has taken from the core and not reported yet, and readings under way.
    requests: AtomicU32,
}

/// What had happened at some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    count: u64,
    /// Times that background work found no way to make room for those who wait for it, or failed.
    pub(super) dead_ends: u64,
}

/// What an event says beyond that something happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// Things are different now.
    Progress,
    /// Nobody who waits for room will get any from what was just tried.
    DeadEnd,
}

impl Events {
    pub(super) fn new() -> Self {
        Self {
            happened: Condvar::new(),
            count: AtomicU64::new(0),
            dead_ends: AtomicU64::new(0),
            requests: AtomicU32::new(0),
        }
    }
}

impl<S: Engine> Volume<S> {
    /// What has happened so far. Asked for under the lock of the core, it misses nothing from then on.
    pub(crate) fn seen(&self) -> Seen {
        Seen {
            count: self.events.count.load(Ordering::Relaxed),
            dead_ends: self.events.dead_ends.load(Ordering::Relaxed),
        }
    }

    /// Counts an event, gives the core back, and wakes all who wait. Returns what has happened with this one.
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

    /// Sleeps until somebody notifies, at most `max`; true if that is over. The caller looks again, for it may be something else.
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

    /// Looks; if `look` finds nothing, sleeps until something has happened, at most `max`, and looks once more.
    pub fn look_again<T>(&self, max: Duration, mut look: impl FnMut(&mut Vfs<S>) -> Option<T>) -> Option<T> {
        let mut core = self.core.lock();
        let found = look(&mut core);
        if found.is_some() {
            return found;
        }
        self.sleep(&mut core, Some(max));
        look(&mut core)
    }

    /// Requests that are ready, for the caller to start and to report: others wait for that from now on.
    pub(super) fn take_jobs(&self, core: &mut MutexGuard<'_, Vfs<S>>) -> Vec<Job> {
        if self.device.is_none() {
            return Vec::new();
        }
        let jobs: Vec<_> = std::iter::from_fn(|| core.store_mut().next_job()).take(JOBS_AT_ONCE).collect();
        self.events.requests.fetch_add(jobs.len() as u32, Ordering::Relaxed);
        jobs
    }

    /// A request that was taken is reported to the core.
    pub(super) fn request_done(&self, core: MutexGuard<'_, Vfs<S>>) {
        self.events.requests.fetch_sub(1, Ordering::Relaxed);
        self.tell(core, Event::Progress);
    }

    /// A reader outside the lock has pinned segments: like a request, it comes to an end that may be waited for. To be called under the
    /// lock of the core that the pin was made under.
    pub(super) fn reading_begun(&self) {
        self.events.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// It has given its pin back. Told only where it can matter: to whoever waits for the pin, and when nothing else is under way.
    pub(super) fn reading_done(&self, core: MutexGuard<'_, Vfs<S>>, is_awaited: bool) {
        let was_last = self.events.requests.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_awaited || was_last {
            self.tell(core, Event::Progress);
        }
    }

    /// Carries out what is ready; if nothing is, sleeps until something has happened since `seen`. False if nothing ever will:
    /// no request is in line, and nobody has one under way.
    pub(super) fn get_on(&self, mut core: MutexGuard<'_, Vfs<S>>, seen: Seen) -> bool {
        let jobs = self.take_jobs(&mut core);
        if !jobs.is_empty() {
            drop(core);
            self.carry_out(jobs);
            return true;
        }
        while self.seen() == seen {
            if self.events.requests.load(Ordering::Relaxed) == 0 {
                return false;
            }
            self.sleep(&mut core, None);
        }
        true
    }

    /// Looks, under the lock of the core, until `look` finds what it looks for: that requests under way or in line bring about. Does the
    /// work that is ready meanwhile.
    ///
    /// # Errors
    /// Those of `look`; if all requests are done and it has still found nothing: `ReadOnly` with the reason, `Io` otherwise.
    pub fn until<T>(
        &self,
        mut look: impl FnMut(&mut Vfs<S>) -> Result<Option<T>, FsError>,
    ) -> Result<T, FsError> {
        loop {
            let mut core = self.core.lock();
            if let Some(found) = look(&mut core)? {
                return Ok(found);
            }
            let why = core.store().read_only().map(str::to_owned);
            if !self.get_on(core, self.seen()) {
                let stopped = || FsError::Io("the log stopped: none of its writes is under way".to_owned());
                return Err(why.map_or_else(stopped, FsError::ReadOnly));
            }
        }
    }
}
