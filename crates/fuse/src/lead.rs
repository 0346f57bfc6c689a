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
    /// Waits until this thread may lead; returns at once if it does already.
    pub fn take(self: &Arc<Self>) {
        if HELD.with_borrow(Option::is_some) {
            return;
        }
        let mut taken = self.taken.lock();
        while *taken {
            self.free.wait(&mut taken);
        }
        *taken = true;
        HELD.set(Some(self.clone()));
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
    use std::time::Duration;

    #[test]
    fn the_lead_passes_on_only_when_its_holder_blocks_or_ends() {
        let lead = Arc::new(Lead::default());
        let (told, tell) = mpsc::channel();
        lead.take();
        lead.take();
        let follower = {
            let lead = lead.clone();
            std::thread::spawn(move || {
                lead.take();
                told.send(()).unwrap();
                about_to_block();
            })
        };
        assert!(tell.recv_timeout(Duration::from_millis(50)).is_err(), "two lead at once");
        about_to_block();
        tell.recv_timeout(Duration::from_secs(10)).unwrap();
        follower.join().unwrap();
        lead.take();
        about_to_block();
    }
}
