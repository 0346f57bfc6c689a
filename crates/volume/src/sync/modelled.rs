//! shuttle's mutex and condition variable, with those methods of parking_lot's that the driver calls.
//!
//! Time does not pass in the model: a wait never times out. So a thread that misses its wake-up shows as a deadlock; no timeout
//! rescues it.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// A mutex without poisoning: a panic ends the schedule anyway.
#[derive(Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

/// Access to the value that a [`Mutex`] guards.
pub struct MutexGuard<'a, T> {
    of: &'a shuttle::sync::Mutex<T>,
    /// `None` only while its owner waits.
    held: Option<shuttle::sync::MutexGuard<'a, T>>,
}

impl<T> MutexGuard<'_, T> {
    /// Runs `act` with the mutex unlocked.
    pub fn unlocked<U>(guard: &mut Self, act: impl FnOnce() -> U) -> U {
        guard.held = None;
        let result = act();
        guard.held = Some(guard.of.lock().expect("no thread panicked"));
        result
    }
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { of: &self.0, held: Some(self.0.lock().expect("no thread panicked")) }
    }

    /// Returns the value that it guards.
    pub fn into_inner(self) -> T {
        self.0.into_inner().expect("no thread panicked")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.held.as_ref().expect("its owner is awake")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("its owner is awake")
    }
}

/// A condition variable without spurious wake-ups, timeouts included.
pub struct Condvar(shuttle::sync::Condvar);

/// Whether a wait timed out: never.
pub struct WaitTimeoutResult;

impl WaitTimeoutResult {
    /// False.
    pub fn timed_out(&self) -> bool {
        false
    }
}

impl Condvar {
    /// A condition variable that nobody waits on.
    pub fn new() -> Self {
        Self(shuttle::sync::Condvar::new())
    }

    /// Waits for a notification.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect("its owner is awake");
        guard.held = Some(self.0.wait(held).expect("no thread panicked"));
    }

    /// Waits for a notification, however long it takes.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _timeout: Duration) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        if !is_lost() {
            self.0.notify_all();
        }
    }
}

thread_local! {
    /// Notifications left before all are lost, for the schedules that run on this thread.
    static UNTIL_LOST: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Loses every notification after the first `after`; `None` loses none. A test uses it to show that the checker detects a lost
/// wake-up.
pub fn lose_notifications(after: Option<u32>) {
    UNTIL_LOST.set(after);
}

fn is_lost() -> bool {
    let left = UNTIL_LOST.get();
    UNTIL_LOST.set(left.map(|left| left.saturating_sub(1)));
    left == Some(0)
}
