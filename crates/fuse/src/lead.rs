//! Leader and followers: one worker at a time waits for the kernel's next request, and passes the lead on only before it
//! blocks.
//!
//! Otherwise the kernel wakes some waiter for each request, and the scheduler tends to put it on another processor than
//! the caller's; on virtual machines such a wake-up costs several times as much as a whole request. If only one worker
//! waits, caller and worker settle on one processor and take turns. A worker that is about to wait for the device or for
//! another thread ([`about_to_block`]) passes the lead on first, so it delays nobody; it answers its request and then
//! queues up to lead again. Measured: `docs/decisions/0006-leader-and-followers.md`.

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

thread_local! {
    /// The lead that this thread holds.
    static HELD: RefCell<Option<Arc<Lead>>> = const { RefCell::new(None) };
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
        HELD.set(Some(self.clone()));
        true
    }
}

/// Call this before waiting for anything but the kernel's next request: passes the lead on, if this thread has it.
pub fn about_to_block() {
    if let Some(lead) = HELD.take() {
        *lead.taken.lock() = false;
        lead.free.notify_one();
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
