//! `Pace`: how fast a watched simulation goes on, and its keys: pause, slower, faster, one step; and what it does at its end.
//!
//! Callers: `watch`, `watch_trace`, `firn age replay`.

use firnfs_watch::feed::Step;
use firnfs_watch::replay::fitting;
use firnfs_watch::screen::keys::Action;
use std::time::{Duration, Instant};

/// How long a paused feed waits before it is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Seconds of the watcher's that a simulation takes if nobody changes the speed, and lines where lines are printed.
pub const PARTS: f64 = 60.0;

/// See the module's head.
pub struct Pace {
    /// Virtual seconds in a second of the watcher's.
    speed: f64,
    least: f64,
    most: f64,
    due: Instant,
    is_paused: bool,
    /// One step although it is paused.
    has_step: bool,
    /// Lines are not held up.
    is_hurried: bool,
}

impl Pace {
    /// Begins at once, at that speed; keys keep it between `least` and `most`.
    pub fn new(speed: f64, (least, most): (f64, f64), is_hurried: bool) -> Self {
        Self { speed, least, most, due: Instant::now(), is_paused: false, has_step: false, is_hurried }
    }

    /// At first so fast that a simulation of that many virtual seconds takes [`PARTS`] seconds, but not step by step.
    pub fn fitting(span_s: f64, (least, most): (f64, f64), is_hurried: bool) -> Self {
        Self::new(fitting(span_s / PARTS).clamp(2.0 * least, most), (least, most), is_hurried)
    }

    /// What the feed answers if nothing is due yet.
    pub fn wait(&mut self) -> Option<Step> {
        if std::mem::take(&mut self.has_step) {
            return None;
        }
        let now = Instant::now();
        match self.is_paused {
            true => Some(Step::Wait(PAUSE)),
            false if now < self.due && !self.is_hurried => Some(Step::Wait(self.due - now)),
            false => None,
        }
    }

    /// A step of that many virtual seconds is done: the next one is due once they have passed for the watcher.
    pub fn note_step(&mut self, virtual_s: f64) {
        self.due = Instant::now() + Duration::from_secs_f64(virtual_s / self.speed);
    }

    /// What the feed answers after its last step: somebody who looks on wants to see the end.
    pub fn end(&self, why: &str) -> Step {
        if self.is_hurried { Step::End(why.to_owned()) } else { Step::Wait(PAUSE) }
    }

    /// A step was begun and is not done: it goes on also while it is paused.
    pub fn keep_step(&mut self) {
        self.has_step = self.is_paused;
    }

    /// Virtual seconds in a second of the watcher's.
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// True at the lowest speed.
    pub fn is_slowest(&self) -> bool {
        self.speed <= self.least
    }

    /// True if lines are printed as fast as they can be.
    pub fn is_hurried(&self) -> bool {
        self.is_hurried
    }

    /// For the screen; `slowest` says how it goes on at the lowest speed.
    pub fn words(&self, slowest: &str, is_over: bool) -> String {
        match (is_over, self.is_paused, self.is_slowest()) {
            (true, ..) => "END".to_owned(),
            (_, true, true) => format!("{slowest} PAUSED"),
            (_, true, false) => "PAUSED".to_owned(),
            (_, _, true) => slowest.to_owned(),
            _ => format!("x{}", self.speed),
        }
    }

    /// Carries out a key that concerns it.
    pub fn act(&mut self, action: Action) {
        match action {
            Action::Pause => self.is_paused = !self.is_paused,
            Action::Step => (self.is_paused, self.has_step) = (true, true),
            Action::Speed(by) => {
                self.speed = (self.speed * by).clamp(self.least, self.most);
                self.due = Instant::now();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEEDS: (f64, f64) = (1.0 / 16.0, 65_536.0);

    #[test]
    fn a_step_is_taken_while_it_is_paused_and_only_one() {
        let mut pace = Pace::new(1.0, SPEEDS, false);
        assert_eq!(pace.wait(), None);
        for _ in 0..2 {
            pace.act(Action::Step);
            assert_eq!(pace.wait(), None);
            pace.note_step(1e6);
            assert_eq!(pace.wait(), Some(Step::Wait(PAUSE)));
        }
        assert_eq!(pace.words("block by block", false), "PAUSED");
        pace.act(Action::Speed(1e-9));
        assert_eq!(pace.words("block by block", false), "block by block PAUSED");
    }

    #[test]
    fn a_simulation_of_any_length_takes_a_minute_at_first_and_stays_at_its_end_if_somebody_looks_on() {
        for (span_s, speed) in [(1.0, 0.125), (64.0, 1.0), (600.0, 8.0), (2.6e6, 32_768.0), (1e12, 65_536.0)]
        {
            assert_eq!(Pace::fitting(span_s, SPEEDS, false).speed(), speed, "{span_s} s");
        }
        assert_eq!(Pace::new(1.0, SPEEDS, false).end("over"), Step::Wait(PAUSE));
        assert_eq!(Pace::new(1.0, SPEEDS, true).end("over"), Step::End("over".to_owned()));
        assert_eq!(Pace::new(1.0, SPEEDS, false).words("block by block", true), "END");
    }
}
