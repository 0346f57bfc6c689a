//! Where the time comes from. `fs` reads no clock: drivers read one of these and pass the time on.

use std::time::{SystemTime, UNIX_EPOCH};

/// Where the time comes from; `fs` itself reads no clock.
pub trait Clock: Send + Sync {
    /// Wall-clock nanoseconds since 1970-01-01 UTC.
    fn now_ns(&self) -> i64;
}

/// The machine's wall clock. May step backwards when somebody sets it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ns(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_agrees_with_the_standard_library() {
        let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        let now = SystemClock.now_ns();
        let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        assert!((before..=after).contains(&now), "{before} <= {now} <= {after}");
    }
}
