//! Operations that give up rather than wait, for callers that serve others meanwhile.
//!
//! A thread inside [`never_waiting`] carries out operations as usual as long as everything that they need is in memory. One that
//! would have to read the device, or to wait for room, ends with [`FsError::WouldWait`] instead. It has changed nothing then, or
//! has written a part of what it was to write, so the caller may have another thread do the same again. An operation that has made
//! its changes and only has to wait until they are durable does wait: it cannot be taken back.
//!
//! Callers: transports that have one thread for a queue of requests; `waiting` and `reader` ask.

use firnfs::FsError;
use std::cell::Cell;

thread_local! {
    static MAY_WAIT: Cell<bool> = const { Cell::new(true) };
}

/// Runs `work`; operations on this thread do not wait meanwhile. See the module's head.
pub fn never_waiting<T>(work: impl FnOnce() -> T) -> T {
    /// Also if `work` panics.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            MAY_WAIT.set(self.0);
        }
    }
    let _restore = Restore(MAY_WAIT.replace(false));
    work()
}

/// Asks before an operation waits.
///
/// # Errors
/// `WouldWait` within [`never_waiting`].
pub(crate) fn ask() -> Result<(), FsError> {
    if MAY_WAIT.get() { Ok(()) } else { Err(FsError::WouldWait) }
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
