//! The one lock of a volume, as `firn stat --requests` shows it: what bounds the operations of many processors.

use crate::sizes::Count;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// The daemon's answer to `lock`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub struct LockTimes {
    turns: u64,
    measured: u64,
    waited_ns: u64,
    held_ns: u64,
    steps_held_ns: u64,
    held_in_all_ns: u64,
    uptime_ms: u64,
}

/// Since the mount.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LockView {
    /// How often operations took it.
    pub turns: u64,
    /// How long a turn held it, on average of the measured ones; null without turns.
    pub held_ms: Option<f64>,
    /// How long a turn waited for it, on average of the measured ones; null without turns.
    pub waited_ms: Option<f64>,
    /// Share of the time since the mount in which it was held, by operations and steps of background work.
    pub busy_percent: f64,
    /// Share of the time in which steps of background work held it.
    pub background_percent: f64,
}

impl From<LockTimes> for LockView {
    fn from(times: LockTimes) -> Self {
        let mean_ms = |ns: u64| (times.measured > 0).then(|| ns as f64 / times.measured as f64 / 1e6);
        let percent = |ns: u64| ns as f64 / 1e4 / times.uptime_ms.max(1) as f64;
        Self {
            turns: times.turns,
            held_ms: mean_ms(times.held_ns),
            waited_ms: mean_ms(times.waited_ns),
            busy_percent: percent(times.held_in_all_ns),
            background_percent: percent(times.steps_held_ns),
        }
    }
}

impl LockView {
    /// Two lines for people.
    ///
    /// # Errors
    /// As writing reports.
    pub fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "  the lock    held for {:.1}% of the time since the mount ({:.1}% background work)",
            self.busy_percent, self.background_percent
        )?;
        let (Some(held_ms), Some(waited_ms)) = (self.held_ms, self.waited_ms) else { return Ok(()) };
        let us = |ms: f64| ms * 1000.0;
        writeln!(
            out,
            "              {} of operations: held for {:.1} us, waited for {:.1} us",
            Count(self.turns).of("turn", "turns"),
            us(held_ms),
            us(waited_ms)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_of_measured_turns_and_shares_of_the_time_since_the_mount() {
        let times = LockTimes {
            turns: 320,
            measured: 10,
            waited_ns: 5_000,
            held_ns: 20_000,
            steps_held_ns: 360_000,
            held_in_all_ns: 1_000_000,
            uptime_ms: 10,
        };
        let view = LockView::from(times);
        assert_eq!((view.held_ms, view.waited_ms), (Some(0.002), Some(0.0005)));
        assert_eq!((view.busy_percent, view.background_percent), (10.0, 3.6));
        let mut text = Vec::new();
        view.show(&mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "  the lock    held for 10.0% of the time since the mount (3.6% background work)\n              \
             320 turns of operations: held for 2.0 us, waited for 0.5 us\n"
        );
        let fresh = LockView::from(LockTimes { turns: 0, measured: 0, uptime_ms: 0, ..times });
        assert_eq!((fresh.held_ms, fresh.waited_ms), (None, None));
    }
}
