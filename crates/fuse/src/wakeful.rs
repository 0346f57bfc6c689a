//! Keeps processors from sleeping deeply while requests arrive in quick succession.
//!
//! A FUSE request wakes the daemon and its answer wakes the caller. If the processors went to sleep in between (on a
//! virtual machine: left the guest), each of the two wake-ups takes longer than the request's work. The kernel's PM QoS
//! interface, `/dev/cpu_dma_latency`, lets a process ask for shallow sleep as long as it holds the file open. The daemon
//! holds it open only while requests arrive so fast that sleeping cannot pay, and closes it after a pause. Only root has
//! the right; without it, nothing happens. Measured: `docs/decisions/0006-leader-and-followers.md`.

use parking_lot::Mutex;
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

/// Requests within [`WINDOW`] that turn deep sleep off.
const BUSY_REQUESTS: u32 = 8;
/// Time within which they have to arrive.
const WINDOW: Duration = Duration::from_millis(4);
/// Pause after which processors may sleep again.
pub const PAUSE: Duration = Duration::from_millis(10);

const PM_QOS: &str = "/dev/cpu_dma_latency";

#[derive(Default)]
struct State {
    window: Option<Instant>,
    requests: u32,
    /// While this is open, deep sleep is off.
    held: Option<File>,
    /// The system refused; do not ask again.
    refused: bool,
}

/// See the module's head. One for each mount.
#[derive(Default)]
pub struct Wakeful {
    state: Mutex<State>,
}

impl Wakeful {
    /// An instance that never does anything.
    #[must_use]
    pub fn off() -> Self {
        Self { state: Mutex::new(State { refused: true, ..State::default() }) }
    }

    /// True while deep sleep is off: the caller should call [`Self::rest`] if no request comes for [`PAUSE`].
    pub fn is_held(&self) -> bool {
        self.state.lock().held.is_some()
    }

    /// Call this for each request.
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

    /// Call this when no request has come for a while.
    pub fn rest(&self) {
        let mut state = self.state.lock();
        (state.held, state.window) = (None, None);
    }
}

/// Holding the file open is the request: at most 0 microseconds to wake up.
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
