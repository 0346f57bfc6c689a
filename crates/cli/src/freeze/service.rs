//! The daemon's side of `firn freeze` and `firn thaw`: three operations of the control socket, and the thread that thaws when the
//! time is over.
//!
//! Invariant: a freeze ends at its deadline by the monotonic clock, at a thaw, or before the volume is closed, whatever becomes of
//! the client. Caller: `mounting::operations`.

use firnfs::engine::Engine;
use firnfs_fuse::Session;
use firnfs_fuse::control::{ErrorKind, OpError};
use firnfs_volume::{Freeze, Volume};
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Freezes; answers with a [`FrozenView`].
pub const FREEZE_OP: &str = "freeze";
/// Thaws; answers with a [`ThawedView`].
pub const THAW_OP: &str = "thaw";
/// Says whether the volume is frozen; answers with a [`FreezeView`].
pub const FREEZE_STATUS_OP: &str = "freeze_status";
/// The longest freeze, in seconds.
pub const TIMEOUT_MAX_S: u64 = 3600;

#[derive(Deserialize)]
struct Request {
    timeout_s: u64,
}

/// Answer of `freeze`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FrozenView {
    /// It thaws by itself after this long, in milliseconds.
    pub timeout_ms: u64,
}

/// Answer of `thaw`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ThawedView {
    /// How long it was frozen, in milliseconds.
    pub frozen_ms: u64,
}

/// Answer of `freeze_status`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FreezeView {
    /// A frozen volume thaws by itself after this long, in milliseconds; null if it is not frozen.
    pub thaws_in_ms: Option<u64>,
}

enum State<S: Engine> {
    Thawed,
    Frozen {
        since: Instant,
        until: Instant,
        freeze: Freeze<S>,
    },
    /// Nobody has asked since it thawed by itself.
    Expired {
        at: Instant,
    },
}

struct Freezer<S: Engine> {
    volume: Weak<Volume<S>>,
    state: Mutex<State<S>>,
    /// A freeze has ended.
    ended: Condvar,
}

/// Registers the operations. The volume is held weakly, except while it is frozen.
pub fn register<S: Engine + 'static>(volume: &Arc<Volume<S>>, session: &mut Session<S>) {
    let freezer = Arc::new(Freezer {
        volume: Arc::downgrade(volume),
        state: Mutex::new(State::Thawed),
        ended: Condvar::new(),
    });
    let [for_freeze, for_thaw, for_status] = std::array::from_fn(|_| Arc::clone(&freezer));
    let help = "holds changes until 'thaw', for timeout_s at most, so that the device can be copied";
    session.registry_mut().register(FREEZE_OP, help, move |request| to_value(for_freeze.freeze(request)?));
    session.registry_mut().register(THAW_OP, "ends a freeze", move |_| to_value(for_thaw.thaw()?));
    let help = "thaws_in_ms: when a frozen volume thaws by itself, null if it is not frozen";
    session.registry_mut().register(FREEZE_STATUS_OP, help, move |_| to_value(for_status.status()));
    session.before_close(move || {
        let _how_long = freezer.thaw();
    });
}

fn to_value(view: impl Serialize) -> Result<Value, OpError> {
    serde_json::to_value(view).map_err(|e| OpError::new(ErrorKind::Failed, e.to_string()))
}

impl<S: Engine + 'static> Freezer<S> {
    fn freeze(self: &Arc<Self>, request: &Value) -> Result<FrozenView, OpError> {
        let invalid = |message: String| OpError::new(ErrorKind::InvalidArgument, message);
        let Request { timeout_s } = Request::deserialize(request).map_err(|e| invalid(e.to_string()))?;
        if !(1..=TIMEOUT_MAX_S).contains(&timeout_s) {
            return Err(invalid(format!("timeout_s: {timeout_s} is not between 1 and {TIMEOUT_MAX_S}")));
        }
        let closing = || OpError::new(ErrorKind::Closing, "the volume is being closed");
        let volume = self.volume.upgrade().ok_or_else(closing)?;
        let mut state = self.state.lock();
        if matches!(*state, State::Frozen { .. }) {
            return Err(invalid("the volume is frozen already".to_owned()));
        }
        let freeze = volume.freeze().map_err(|e| OpError::from(&e))?;
        let since = Instant::now();
        let for_thread = Arc::clone(self);
        // Without the thread the freeze would have no end: it is dropped then, which thaws.
        std::thread::Builder::new()
            .name("firn-freeze".into())
            .spawn(move || for_thread.thaw_in_time())
            .map_err(|e| OpError::new(ErrorKind::Failed, format!("cannot start a thread: {e}")))?;
        *state = State::Frozen { since, until: since + Duration::from_secs(timeout_s), freeze };
        tracing::info!("frozen, for {timeout_s} s at most");
        Ok(FrozenView { timeout_ms: timeout_s * 1000 })
    }

    fn status(&self) -> FreezeView {
        let thaws_in_ms = match &*self.state.lock() {
            State::Frozen { until, .. } => {
                let left = until.saturating_duration_since(Instant::now());
                Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
            }
            State::Thawed | State::Expired { .. } => None,
        };
        FreezeView { thaws_in_ms }
    }

    fn thaw(&self) -> Result<ThawedView, OpError> {
        let ended = std::mem::replace(&mut *self.state.lock(), State::Thawed);
        match ended {
            State::Frozen { since, freeze, .. } => {
                let frozen_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                drop(freeze);
                self.ended.notify_all();
                tracing::info!("thawed after {frozen_ms} ms");
                Ok(ThawedView { frozen_ms })
            }
            State::Expired { at } => {
                let message = format!(
                    "the volume thawed by itself {} s ago, when its time was over; a copy that ended later is not of one moment",
                    at.elapsed().as_secs()
                );
                Err(OpError::new(ErrorKind::Failed, message))
            }
            State::Thawed => Err(OpError::new(ErrorKind::InvalidArgument, "the volume is not frozen")),
        }
    }

    /// Sleeps as long as there is a freeze, and ends it at its deadline. A freeze that follows another one at once may have two of these
    /// threads, which is harmless.
    fn thaw_in_time(&self) {
        let mut state = self.state.lock();
        while let State::Frozen { until, .. } = *state {
            if !self.ended.wait_until(&mut state, until).timed_out() {
                continue;
            }
            if matches!(*state, State::Frozen { until, .. } if until <= Instant::now()) {
                tracing::warn!("thawed: the time of the freeze is over");
                *state = State::Expired { at: Instant::now() };
            }
        }
    }
}
