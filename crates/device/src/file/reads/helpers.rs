//! The helper threads of a device's reads: they take queued reads that their waiters have not begun.

use super::Shared;
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Threads that help; the waiter is one more.
const HELPERS: usize = 4;

/// Joined when dropped; reads that have not begun by then are not carried out.
pub(super) struct Helpers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Helpers {
    /// Starts the threads, or as many as the system allows; if none starts, waiters carry out every read
    /// themselves.
    pub(super) fn start(shared: &Arc<Shared>) -> Self {
        let threads = (0..HELPERS)
            .map_while(|_| {
                let shared = shared.clone();
                std::thread::Builder::new().name("device-reader".into()).spawn(move || shared.help()).ok()
            })
            .collect();
        Self { shared: shared.clone(), threads }
    }

    /// Tells the helpers that reads are queued.
    pub(super) fn wake(&self, reads: usize) {
        for _ in 0..reads.min(HELPERS) {
            // Fails once no helper waits: all are at work, and look for more before they wait.
            if !self.shared.work.notify_one() {
                return;
            }
        }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.shared.table.lock().closing = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A helper's panic was reported by its own thread; a panic here could abort the process.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn help(&self) {
        let mut table = self.table.lock();
        while !table.closing {
            let Some((tag, request)) = table.begin_queued() else {
                self.work.wait(&mut table);
                continue;
            };
            let completion = MutexGuard::unlocked(&mut table, || self.target.run(&request));
            table.finish(tag, request.len_bytes(), completion);
            self.done.notify_all();
        }
    }
}
