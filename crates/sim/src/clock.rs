//! `VirtualClock`: time that passes only when a test moves it.

use firnfs_device::Clock;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
pub struct VirtualClock {
    now_ns: AtomicI64,
}

impl VirtualClock {
    /// A clock that shows `now_ns` nanoseconds since 1970-01-01 UTC.
    #[must_use]
    pub fn at(now_ns: i64) -> Self {
        Self { now_ns: AtomicI64::new(now_ns) }
    }

    /// Lets time pass; a negative number turns the clock back, as an administrator might.
    pub fn advance_ns(&self, by_ns: i64) {
        self.now_ns.fetch_add(by_ns, SeqCst);
    }

    /// Lets that many milliseconds pass.
    pub fn advance_ms(&self, by_ms: i64) {
        self.advance_ns(by_ms * 1_000_000);
    }

    /// Sets the clock.
    pub fn set_ns(&self, now_ns: i64) {
        self.now_ns.store(now_ns, SeqCst);
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> i64 {
        self.now_ns.load(SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_only_when_told_to() {
        let clock = VirtualClock::at(5);
        assert_eq!((clock.now_ns(), clock.now_ns()), (5, 5));
        clock.advance_ms(2);
        clock.advance_ns(-1);
        assert_eq!(clock.now_ns(), 2_000_004);
        clock.set_ns(-7);
        assert_eq!(clock.now_ns(), -7);
    }
}
