//! The real volume on a disk that fails: `errors` says what callers are told, `histories` that honest failures lose nothing
//! that was synced, `lies` that a disk which answers "done" without having done it is never believed.

// Hangs are told by the clock, and one test needs threads.
#![allow(clippy::disallowed_methods)]

mod errors;
mod histories;
mod lies;

use std::sync::mpsc;
use std::time::Duration;

/// Runs something that must come to an end, with what it takes unhindered many times over.
fn ends<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, finished) = mpsc::channel();
    let worker = std::thread::spawn(move || done.send(work()));
    match finished.recv_timeout(Duration::from_secs(300)) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: no end"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("a worker that ends has sent its result"),
        },
    }
}
