//! Operations that give up rather than wait, for callers that serve others meanwhile.
//!
//! A thread inside [`never_waiting`] carries out operations as usual as long as everything that they need is in memory. One that
//! would have to read the device, or to wait for room, ends with [`FsError::WouldWait`] instead. It has changed nothing then, or
//! has written a part of what it was to write, so the caller may have another thread do the same again. An operation that has made
//! its changes and only has to wait until they are durable does wait: it cannot be taken back.
//!
//! If all that it would have waited for are reads of the device, [`attempt`] says which ([`Missing`]). The caller may have them read and try
//! again with the bytes ([`Volume::landed`](crate::Volume::landed)). Bytes that have become stale meanwhile are noticed as those in other
//! windows are.
//!
//! Callers: transports that have one thread for a queue of requests; `waiting` and `reader` ask.

use crate::ahead::Window;
use firnfs::FsError;
use std::cell::RefCell;

/// What a thread that may not wait has, and has found to be missing.
#[derive(Default)]
struct State {
    landed: Vec<Window>,
    missing: Vec<Missing>,
    /// It would have waited for something else, too.
    needs_more: bool,
}

thread_local! {
    /// `None`: the thread may wait.
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// A range of the device that an operation would have read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub(crate) at_bytes: u64,
    pub(crate) len_bytes: u32,
    /// Others are likely to need some of it.
    pub(crate) has_ahead: bool,
}

impl Missing {
    /// Place on the device and length, in bytes.
    #[must_use]
    pub fn range(&self) -> (u64, u32) {
        (self.at_bytes, self.len_bytes)
    }
}

/// What was missing, for the next attempt.
#[derive(Clone)]
pub struct Landed(pub(crate) Window);

/// Runs `work`; operations on this thread do not wait meanwhile. See the module's head.
pub fn never_waiting<T>(work: impl FnOnce() -> T) -> T {
    attempt(&[], work).0
}

/// The same with bytes that were read for it before. Also says what would have to be read before the next attempt: nothing if the operation did not
/// have to wait, or would have waited for something else as well.
pub fn attempt<T>(landed: &[Landed], work: impl FnOnce() -> T) -> (T, Vec<Missing>) {
    /// Also if `work` panics.
    struct Restore(Option<State>);
    impl Drop for Restore {
        fn drop(&mut self) {
            STATE.set(self.0.take());
        }
    }
    let state = State { landed: landed.iter().map(|landed| landed.0.clone()).collect(), ..State::default() };
    let _restore = Restore(STATE.replace(Some(state)));
    let done = work();
    let state = STATE.take().unwrap_or_default();
    (done, if state.needs_more { Vec::new() } else { state.missing })
}

/// True within [`never_waiting`].
pub(crate) fn is_inside() -> bool {
    STATE.with_borrow(Option::is_some)
}

/// Asks before an operation waits.
///
/// # Errors
/// `WouldWait` within [`never_waiting`].
pub(crate) fn ask() -> Result<(), FsError> {
    STATE.with_borrow_mut(|state| match state {
        None => Ok(()),
        Some(state) => {
            state.needs_more = true;
            Err(FsError::WouldWait)
        }
    })
}

/// Asks before an operation waits for reads alone.
///
/// # Errors
/// As [`ask`].
pub(crate) fn ask_to_read(missing: impl Iterator<Item = Missing>) -> Result<(), FsError> {
    STATE.with_borrow_mut(|state| match state {
        None => Ok(()),
        Some(state) => {
            state.missing.extend(missing);
            Err(FsError::WouldWait)
        }
    })
}

/// What was read for this attempt and has that byte.
pub(crate) fn landed_at(at_bytes: u64) -> Option<Window> {
    STATE.with_borrow(|state| state.as_ref()?.landed.iter().find(|window| window.holds(at_bytes)).cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_inside_may_not_wait_even_after_a_panic() {
        assert_eq!(ask(), Ok(()));
        let inner = never_waiting(|| (ask(), never_waiting(ask), ask()));
        assert_eq!(inner, (Err(FsError::WouldWait), Err(FsError::WouldWait), Err(FsError::WouldWait)));
        assert_eq!(ask(), Ok(()));
        std::panic::catch_unwind(|| never_waiting(|| panic!("a test"))).unwrap_err();
        assert_eq!(ask(), Ok(()));
    }
}
