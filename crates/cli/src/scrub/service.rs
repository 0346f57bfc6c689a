//! The daemon's side of `firn scrub`: checks a mounted volume on a thread of its own, one check at a time.
//!
//! Invariants: the thread ends before the volume is closed ([`Service::end`]); while it runs, it keeps the volume open;
//! otherwise the service holds the volume weakly. Callers: `mounting`, which registers the operations.

use super::view::{AfterCrashView, EndedView, Purpose, RunningView, ScrubView, StatusView};
use crate::socket;
use firnfs::lfs::Lfs;
use firnfs_fuse::control::{ErrorKind, OpError, Registry};
use firnfs_manage::LogVolume;
use firnfs_manage::Scrub;
use firnfs_volume::Volume;
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Starts a check, or joins the running one: `{rate_bytes}` (per second) to `{number, joined}`. With `writable` it is the check
/// that makes a volume writable again.
pub const START_OP: &str = "scrub_start";
/// Answers with a [`StatusView`] when the check `number` has ended, at the latest after `wait_ms`.
pub const STATUS_OP: &str = "scrub_status";
/// Stops the check `number`.
pub const STOP_OP: &str = "scrub_stop";

/// Longest sleep before the thread checks whether it should stop.
const NAP: Duration = Duration::from_millis(50);
/// Longest wait of a client for an answer, in milliseconds.
const WAIT_MAX_MS: u64 = 1000;
/// Bytes per second that a check after a crash may read.
const AFTER_CRASH_RATE_BYTES: u64 = 128 << 20;

/// See the module's head.
pub struct Service {
    volume: Weak<Volume<Lfs>>,
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    status: StatusView,
    started: u64,
    thread: Option<JoinHandle<()>>,
    is_closing: bool,
}

impl Service {
    /// A service for a volume that is being mounted.
    #[must_use]
    pub fn new(volume: Weak<Volume<Lfs>>) -> Arc<Self> {
        let (state, changed, stop) = (Mutex::default(), Condvar::new(), AtomicBool::new(false));
        Arc::new(Self { volume, state, changed, stop })
    }

    /// Registers the operations for clients.
    pub fn register(self: &Arc<Self>, registry: &mut Registry) {
        let service = Arc::clone(self);
        let help = "checks the whole volume in the background, reading at most rate_bytes a second; joins a running check";
        registry.register(START_OP, help, move |request| {
            let rate_bytes = request.get("rate_bytes").and_then(Value::as_u64);
            let is_writable = request.get("writable").and_then(Value::as_bool).unwrap_or(false);
            let purpose = if is_writable { Purpose::Writable } else { Purpose::Scrub };
            let (number, joined) = service.start(purpose, rate_bytes)?;
            Ok(json!({ "number": number, "joined": joined }))
        });
        let service = Arc::clone(self);
        let help = "the progress of the check 'number', or of the last; waits for its end, at most wait_ms";
        registry.register(STATUS_OP, help, move |request| {
            let number = request.get("number").and_then(Value::as_u64);
            let wait_ms = request.get("wait_ms").and_then(Value::as_u64).unwrap_or(0).min(WAIT_MAX_MS);
            let status = service.status(number, Duration::from_millis(wait_ms));
            socket::answer(&status)
        });
        let service = Arc::clone(self);
        registry.register(STOP_OP, "stops the check 'number'", move |request| {
            let number = request.get("number").and_then(Value::as_u64);
            service.stop(number);
            Ok(Value::Null)
        });
    }

    /// After a crash: checks the structure; damage makes the volume read-only.
    pub fn check_after_crash(self: &Arc<Self>) {
        if let Err(error) = self.start(Purpose::AfterCrash, Some(AFTER_CRASH_RATE_BYTES)) {
            tracing::warn!("the check after the crash could not be started: {error}");
            self.state.lock().status.after_crash =
                Some(AfterCrashView::Unfinished { reason: format!("it could not be started: {error}") });
        }
    }

    /// Starts a check; returns its number, and whether it was running already.
    fn start(self: &Arc<Self>, purpose: Purpose, rate_bytes: Option<u64>) -> Result<(u64, bool), OpError> {
        let mut state = self.state.lock();
        if state.is_closing {
            return Err(socket::closing());
        }
        match state.status.running {
            Some(running) if running.purpose == purpose => return Ok((running.number, true)),
            Some(_) => {
                let message = "another check is still running (a mount checks after a crash); try again when it has ended";
                return Err(OpError::new(ErrorKind::Failed, message));
            }
            None => {}
        }
        state.started += 1;
        let number = state.started;
        state.status.running = Some(RunningView { number, purpose, progress: None });
        self.stop.store(false, Ordering::SeqCst);
        let service = Arc::clone(self);
        let body = move || service.run(number, purpose, rate_bytes);
        match std::thread::Builder::new().name("firn-scrub".into()).spawn(body) {
            Ok(thread) => state.thread = Some(thread),
            Err(error) => {
                state.status.running = None;
                return Err(OpError::new(ErrorKind::Failed, format!("cannot start a thread: {error}")));
            }
        }
        Ok((number, false))
    }

    fn run(&self, number: u64, purpose: Purpose, rate_bytes: Option<u64>) {
        let (outcome, why_not_to_write) = match self.volume.upgrade() {
            Some(volume) => match self.check(&volume, purpose, rate_bytes) {
                Ok((view, why)) => (Ok(view), why),
                Err(why) => (Err(why), None),
            },
            None => (Err("the volume is being closed".to_owned()), None),
        };
        let mut state = self.state.lock();
        if purpose == Purpose::AfterCrash {
            state.status.after_crash = Some(AfterCrashView::of(&outcome, why_not_to_write));
        }
        state.status.running = None;
        state.status.ended = Some(EndedView { number, purpose, outcome });
        self.changed.notify_all();
    }

    /// Checks the volume; returns the result and the reason not to write to the volume, if there is one.
    fn check(
        &self,
        volume: &Volume<Lfs>,
        purpose: Purpose,
        rate_bytes: Option<u64>,
    ) -> Result<(ScrubView, Option<String>), String> {
        let mut pace = self.pace(rate_bytes);
        let mut watch = |progress: firnfs::check::Progress| {
            if let Some(running) = &mut self.state.lock().status.running {
                running.progress = Some(progress.into());
            }
        };
        let mut scrub = Scrub { depth: purpose.depth(), pace: &mut pace, watch: &mut watch };
        let done = match purpose {
            Purpose::Writable => volume.make_writable(&mut scrub),
            Purpose::Scrub | Purpose::AfterCrash => volume.scrub(&mut scrub),
        };
        let done = done.map_err(|error| error.to_string())?;
        let view = ScrubView::from(&done);
        for damage in &view.findings {
            tracing::error!("check: {}", damage.line());
        }
        let why_not_to_write = ScrubView::why_not_to_write(&done.report);
        if let (Purpose::AfterCrash, Some(worst)) = (purpose, &why_not_to_write) {
            volume.doubt(&format!("the check after the crash found damage: {worst}"));
        }
        Ok((view, why_not_to_write))
    }

    /// Waits so that the average rate of reading stays within the limit.
    fn pace(&self, rate_bytes: Option<u64>) -> impl FnMut(u64) -> bool {
        let mut next = Instant::now();
        move |bytes| {
            while !self.stop.load(Ordering::SeqCst) {
                let now = Instant::now();
                if next <= now {
                    // Time that was not used for reading gives no credit for later.
                    let cost = rate_bytes.map_or(0.0, |rate| bytes as f64 / rate.max(1) as f64);
                    next = now + Duration::from_secs_f64(cost.min(3600.0));
                    return true;
                }
                std::thread::sleep((next - now).min(NAP));
            }
            false
        }
    }

    fn status(&self, number: Option<u64>, wait: Duration) -> StatusView {
        let mut state = self.state.lock();
        let runs = |state: &mut State| {
            state.status.running.is_some_and(|running| number.is_none_or(|number| number == running.number))
        };
        self.changed.wait_while_for(&mut state, runs, wait);
        let mut status = state.status.clone();
        if let Some(running) = status.running.filter(|running| running.purpose == Purpose::AfterCrash) {
            status.after_crash = Some(AfterCrashView::Running { progress: running.progress });
        }
        status
    }

    fn stop(&self, number: Option<u64>) {
        let state = self.state.lock();
        if state.status.running.is_some_and(|running| number.is_none_or(|number| number == running.number)) {
            self.stop.store(true, Ordering::SeqCst);
        }
    }

    /// Before the volume is closed: stops the running check, and prevents new ones.
    pub fn end(&self) {
        let thread = {
            let mut state = self.state.lock();
            state.is_closing = true;
            self.stop.store(true, Ordering::SeqCst);
            state.thread.take()
        };
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the check panicked");
        }
    }
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
