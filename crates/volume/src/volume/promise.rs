//! Promises of background work: who has it done by somebody else, and how that one sleeps and is woken.
//!
//! While a promise holds, operations do no background work themselves; who waits for room waits for whoever promised. When it is
//! given back they are told, and do it themselves from then on. That work is due is a flag under a lock of its own: it is there for
//! whoever looks next, so no wake-up is lost between two looks.
//!
//! Callers: threads of adapters (`do_background_work` of a mount), and operations (`kick`).

use super::Volume;
use super::events::Event;
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;
use firnfs::engine::Engine;
use std::time::Duration;

/// While this is held its owner does the background work: see [`Volume::promise_background`].
#[must_use = "it holds as long as it is kept"]
pub struct BackgroundPromise<'a, S: Engine> {
    to: &'a Volume<S>,
}

impl<S: Engine> Drop for BackgroundPromise<'_, S> {
    fn drop(&mut self) {
        let core = self.to.core.lock();
        self.to.promises.fetch_sub(1, Ordering::Relaxed);
        self.to.tell(core, Event::Progress);
    }
}

impl<S: Engine> Volume<S> {
    /// Promises to call [`Volume::background`] and [`Volume::wait_for_work`] in turn until what is returned is dropped, however
    /// that comes about. Until then operations leave background work to the caller; afterwards they do it themselves, and those that
    /// were waiting for it go on at once.
    pub fn promise_background(&self) -> BackgroundPromise<'_, S> {
        self.promises.fetch_add(1, Ordering::Relaxed);
        BackgroundPromise { to: self }
    }

    /// True while somebody has promised to do background work.
    pub(super) fn has_background(&self) -> bool {
        self.promises.load(Ordering::Relaxed) > 0
    }

    /// Work is due: wakes whoever does it, or does it here if nobody does. Who is at it goes on until nothing is due.
    pub(super) fn kick(&self) {
        if !self.has_background() {
            if self.at_work.load(Ordering::Relaxed) > 0 {
                return;
            }
            // An error shows in the operation that it concerns, or at the next sync.
            let _ = self.background();
            return;
        }
        let mut due = self.work_due.lock();
        if !*due {
            *due = true;
            self.notify(&self.work);
        }
    }

    /// Sleeps until there is background work, at most `max_ms`. Who calls this without a promise
    /// ([`Volume::promise_background`]) makes one for good.
    pub fn wait_for_work(&self, max_ms: u64) {
        // Who has promised already need not do so again.
        let _ = self.promises.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
        let mut due = self.work_due.lock();
        if !*due {
            let timeout = Duration::from_millis(max_ms);
            match self.parking.get() {
                Some(parking) => MutexGuard::unlocked(&mut due, || (parking.park)(timeout)),
                None => drop(self.work.wait_for(&mut due, timeout)),
            }
        }
        *due = false;
    }

    /// Wakes whoever is in [`Volume::wait_for_work`], or else has the next call of it return at once.
    pub fn wake(&self) {
        *self.work_due.lock() = true;
        self.notify(&self.work);
    }
}
