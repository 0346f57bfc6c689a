//! `Pace`: how fast a watched simulation goes on, and its keys: pause, slower, faster.
//!
//! Callers: `watch`, `watch_trace`, `firn age replay`.

use firnfs_watch::feed::Step;
use firnfs_watch::screen::keys::Action;
use std::time::{Duration, Instant};

/// How long a paused feed waits before it is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// See the module's head.
pub struct Pace {
    /// Virtual seconds in a second of the watcher's.
    speed: f64,
    least: f64,
    most: f64,
    due: Instant,
    is_paused: bool,
    /// Lines are not held up.
    is_hurried: bool,
}

impl Pace {
    /// Begins at once, at that speed; keys keep it between `least` and `most`.
    pub fn new(speed: f64, (least, most): (f64, f64), is_hurried: bool) -> Self {
        Self { speed, least, most, due: Instant::now(), is_paused: false, is_hurried }
    }

    /// What the feed answers if nothing is due yet.
    pub fn wait(&self) -> Option<Step> {
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

    /// For the screen.
    pub fn words(&self) -> String {
        if self.is_paused { "PAUSED".to_owned() } else { format!("x{}", self.speed) }
    }

    /// Carries out a key that concerns it.
    pub fn act(&mut self, action: Action) {
        match action {
            Action::Pause => self.is_paused = !self.is_paused,
            Action::Speed(by) => {
                self.speed = (self.speed * by).clamp(self.least, self.most);
                self.due = Instant::now();
            }
            _ => {}
        }
    }
}
