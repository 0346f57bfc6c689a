//! Promises of background work: a thread promises to do it, sleeps while there is none, and is woken when there is.
//!
//! While a promise is in force, operations do no background work themselves; an operation that waits for room waits for the
//! thread that promised. When the promise is withdrawn, the waiting operations are notified, and operations do background work
//! themselves again. A flag under a lock of its own says that work is due. It stays set until the next look, so no wake-up is
//! lost between two looks.
//!
//! Callers: threads of adapters (`do_background_work` of a mount), and operations (`kick`).

use super::Volume;
use super::events::Event;
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;
use firnfs::engine::Engine;
use std::time::Duration;

/// While an owner holds this, it does the background work: see [`Volume::promise_background`].
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
    /// Promises to call [`Volume::background`] and [`Volume::wait_for_work`] in turn until the returned value is dropped. Until
    /// then operations leave background work to the caller. Afterwards they do it themselves, and operations that were waiting
    /// for it continue at once.
    pub fn promise_background(&self) -> BackgroundPromise<'_, S> {
        self.promises.fetch_add(1, Ordering::Relaxed);
        BackgroundPromise { to: self }
    }

    /// True while a promise of background work is in force.
    pub(super) fn has_background(&self) -> bool {
        self.promises.load(Ordering::Relaxed) > 0
    }

    /// Work is due: wakes the thread that does it, or does it here if there is none. A thread already at work continues until
    /// nothing is due.
    pub(super) fn kick(&self) {
        if !self.has_background() {
            if self.at_work.load(Ordering::Relaxed) > 0 {
                return;
            }
            // An error shows in the operation that caused the work, or at the next sync.
            let _ = self.background();
            return;
        }
        let mut due = self.work_due.lock();
        if !*due {
            *due = true;
            self.notify(&self.work);
        }
    }

    /// Sleeps until there is background work, at most `max_ms`. A caller without a promise ([`Volume::promise_background`])
    /// makes one for good.
    pub fn wait_for_work(&self, max_ms: u64) {
        // Not needed if the caller has promised already.
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

    /// Wakes the caller of [`Volume::wait_for_work`], or else makes its next call return at once.
    pub fn wake(&self) {
        *self.work_due.lock() = true;
        self.notify(&self.work);
    }
}
