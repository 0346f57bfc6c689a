//! Keeps processors from sleeping deeply while requests come thick and fast.
//!
//! A FUSE request wakes the daemon and its answer wakes the caller. If the processors in between went to sleep (on a
//! virtual machine: left the guest), each of the two takes longer than the request's work. The kernel's PM QoS interface,
//! `/dev/cpu_dma_latency`, lets a process ask for shallow sleep as long as it holds the file open. It is held only while
//! requests arrive at a rate at which sleeping could not pay, and let go after a pause. Only root may; without the right,
//! nothing happens. Measured: `docs/decisions/0006-leader-and-followers.md`.

use parking_lot::Mutex;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

/// Requests within [`WINDOW`] that make it worth while.
const BUSY_REQUESTS: u32 = 8;
/// Time in which they have to come.
const WINDOW: Duration = Duration::from_millis(4);
/// Pause after which processors may sleep again.
pub const PAUSE: Duration = Duration::from_millis(10);

const PM_QOS: &str = "/dev/cpu_dma_latency";

#[derive(Default)]
struct State {
    window: Option<Instant>,
    requests: u32,
    /// Open: deep sleep is off.
    held: Option<File>,
    /// The system refuses; not asked again.
    refused: bool,
}

/// See the module's head. One for each mount.
#[derive(Default)]
pub struct Wakeful {
    state: Mutex<State>,
}

impl Wakeful {
    /// One that never does anything.
    #[must_use]
    pub fn off() -> Self {
        Self { state: Mutex::new(State { refused: true, ..State::default() }) }
    }

    /// True while deep sleep is off: the caller should call [`Self::rest`] if no request comes for [`PAUSE`].
    pub fn is_held(&self) -> bool {
        self.state.lock().held.is_some()
    }

    /// A request came.
    pub fn request(&self) {
        let mut state = self.state.lock();
        if state.held.is_some() || state.refused {
            return;
        }
        let now = Instant::now();
        match state.window {
            Some(start) if now - start < WINDOW => state.requests += 1,
            _ => (state.window, state.requests) = (Some(now), 1),
        }
        if state.requests >= BUSY_REQUESTS {
            state.held = ask_for_shallow_sleep();
            state.refused = state.held.is_none();
        }
    }

    /// No request came for a while.
    pub fn rest(&self) {
        let mut state = self.state.lock();
        (state.held, state.window) = (None, None);
    }
}

/// The open file is the request: at most 0 microseconds to wake up.
fn ask_for_shallow_sleep() -> Option<File> {
    let mut file = File::options().write(true).open(PM_QOS).ok()?;
    file.write_all(&0i32.to_ne_bytes()).ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_requests_and_pauses_leave_the_processors_alone() {
        let wakeful = Wakeful::default();
        for _ in 0..BUSY_REQUESTS - 1 {
            wakeful.request();
        }
        assert!(!wakeful.is_held());
        wakeful.request();
        let may = File::options().write(true).open(PM_QOS).is_ok();
        assert_eq!(wakeful.is_held(), may);
        wakeful.rest();
        assert!(!wakeful.is_held());
        let off = Wakeful::off();
        (0..100).for_each(|_| off.request());
        assert!(!off.is_held());
    }
}
