//! The real volume on a failing disk. `errors` tests which errors callers get; `histories`, that reported failures lose no
//! synced data; `lies`, that a disk which answers "done" without having done it is never believed.

// The clock detects hangs, and one test needs threads.
#![allow(clippy::disallowed_methods)]

mod errors;
mod histories;
mod lies;

use std::sync::mpsc;
use std::time::Duration;

/// Runs something that must end within a time many times as long as it needs.
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
