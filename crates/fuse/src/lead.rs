//! Leader and followers: one worker at a time waits for the kernel's next request, and passes the lead on only before it
//! blocks.
//!
//! Otherwise the kernel wakes some waiter for each request, and the scheduler tends to put it on another processor than
//! the caller's; on virtual machines such a wake-up costs several times as much as a whole request. If only one worker
//! waits, caller and worker settle on one processor and take turns. A worker that is about to wait for the device or for
//! another thread ([`about_to_block`]) passes the lead on first, so it delays nobody; it answers its request and then
//! queues up to lead again. Measured: `docs/decisions/0006-leader-and-followers.md`. Threads that carry out requests of the other transport
//! begin one after the other in the same way (`uring::pool`).

use parking_lot::{Condvar, Mutex};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The lead that workers of one mount pass around.
#[derive(Default)]
pub struct Lead {
    taken: Mutex<bool>,
    free: Condvar,
}

/// What one thread at a time has, and passes on before it waits.
pub(crate) trait Baton {
    /// Somebody else may have it.
    fn pass_on(&self);
}

thread_local! {
    /// What this thread holds.
    static HELD: RefCell<Option<Arc<dyn Baton>>> = const { RefCell::new(None) };
}

/// This thread holds it now.
pub(crate) fn hold(baton: Arc<dyn Baton>) {
    HELD.set(Some(baton));
}

/// This thread does not hold it any more. False: it has passed it on.
pub(crate) fn put_down() -> bool {
    HELD.take().is_some()
}

impl Lead {
    /// Waits until this thread may lead; returns at once if it does already. False: it may not after `patience`.
    pub fn take(self: &Arc<Self>, patience: Option<Duration>) -> bool {
        if HELD.with_borrow(Option::is_some) {
            return true;
        }
        let until = patience.map(|patience| Instant::now() + patience);
        let mut taken = self.taken.lock();
        while *taken {
            match until {
                None => self.free.wait(&mut taken),
                Some(until) if self.free.wait_until(&mut taken, until).timed_out() => break,
                Some(_) => {}
            }
        }
        if *taken {
            return false;
        }
        *taken = true;
        hold(self.clone());
        true
    }
}

impl Baton for Lead {
    fn pass_on(&self) {
        *self.taken.lock() = false;
        self.free.notify_one();
    }
}

/// Call this before waiting for anything but the kernel's next request: passes on what this thread holds.
pub fn about_to_block() {
    if let Some(baton) = HELD.take() {
        baton.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn the_lead_passes_on_only_when_its_holder_blocks_or_ends() {
        let lead = Arc::new(Lead::default());
        let (told, tell) = mpsc::channel();
        assert!(lead.take(None) && lead.take(None));
        let follower = {
            let lead = lead.clone();
            std::thread::spawn(move || {
                lead.take(None);
                told.send(()).unwrap();
                about_to_block();
            })
        };
        assert!(tell.recv_timeout(Duration::from_millis(50)).is_err(), "two lead at once");
        let impatient = lead.clone();
        let patience = Some(Duration::from_millis(10));
        assert!(!std::thread::spawn(move || impatient.take(patience)).join().unwrap());
        about_to_block();
        tell.recv_timeout(Duration::from_secs(10)).unwrap();
        follower.join().unwrap();
        lead.take(None);
        about_to_block();
    }
}
