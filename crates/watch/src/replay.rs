//! A recording as a feed: pause, seek, speed.
//!
//! Seeking begins two blocks before the wanted time, at a whole map, so that the minute of rates before it is known too. A damaged
//! block is left out, and the label says so.

use crate::feed::{Feed, Step};
use crate::recording::{BadRecording, Reader};
use crate::screen::Owners;
use crate::screen::keys::Action;
use crate::state::State;
use crate::tick::Tick;
use crate::units::Seconds;
use std::collections::VecDeque;
use std::io::{Read, Seek};
use std::time::{Duration, Instant};

/// Slowest and fastest replay.
const SPEEDS: (f64, f64) = (1.0 / 16.0, 16_777_216.0);
/// Seconds that a simulation takes if nobody changes the speed: its own time may be that of months.
const SIMULATION_S: f64 = 60.0;
/// A display is drawn this often at most.
const FRAME: Duration = Duration::from_millis(50);

/// See the module's head.
pub struct Replay<R> {
    reader: Reader<R>,
    state: State,
    /// Ticks of the present block that are not shown yet.
    ahead: VecDeque<Tick>,
    next_block: usize,
    /// The time in the recording.
    at_ns: i64,
    speed: f64,
    is_paused: bool,
    then: Instant,
    damage: Option<String>,
}

impl<R: Read + Seek> Replay<R> {
    /// From the beginning.
    ///
    /// # Errors
    /// The recording has no ticks.
    pub fn new(reader: Reader<R>, now: Instant) -> Result<Self, BadRecording> {
        let first_ns = reader.blocks().first().map(|block| block.first_ns);
        let mut replay = Self {
            reader,
            state: State::default(),
            ahead: VecDeque::new(),
            next_block: 0,
            at_ns: 0,
            speed: 1.0,
            is_paused: false,
            then: now,
            damage: None,
        };
        let Some(first_ns) = first_ns else { return Err(BadRecording::NotOne) };
        replay.seek(first_ns);
        if replay.state.last.as_ref().is_some_and(Tick::is_of_simulation) {
            replay.speed = fitting(replay.span_s() / SIMULATION_S).clamp(SPEEDS.0, SPEEDS.1);
        }
        Ok(replay)
    }

    fn span_ns(&self) -> (i64, i64) {
        let blocks = self.reader.blocks();
        (blocks.first().map_or(0, |block| block.first_ns), blocks.last().map_or(0, |block| block.last_ns))
    }

    fn span_s(&self) -> f64 {
        let (first_ns, last_ns) = self.span_ns();
        last_ns.saturating_sub(first_ns) as f64 / 1e9
    }

    /// The time in the recording, in seconds from its beginning.
    #[must_use]
    pub fn position_s(&self) -> f64 {
        self.at_ns.saturating_sub(self.span_ns().0) as f64 / 1e9
    }

    /// Goes to a time of the recording's clock.
    pub fn seek(&mut self, at_ns: i64) {
        let (first_ns, last_ns) = self.span_ns();
        self.at_ns = at_ns.clamp(first_ns, last_ns.max(first_ns));
        let after = self.reader.blocks().partition_point(|block| block.first_ns <= self.at_ns);
        self.next_block = after.saturating_sub(2);
        self.ahead.clear();
        self.state = State::default();
        self.catch_up();
    }

    /// Lets time pass; true if a tick came.
    pub fn advance(&mut self, by: Duration) -> bool {
        let by_ns = (by.as_secs_f64() * self.speed * 1e9) as i64;
        self.at_ns = self.at_ns.saturating_add(by_ns).min(self.span_ns().1);
        self.catch_up()
    }

    /// Goes to the next tick, however far it is; false after the last one.
    pub fn next_tick(&mut self) -> bool {
        if self.ahead.is_empty() && !self.load() {
            return false;
        }
        // A clock that was set back does not hold up the replay, and of ticks of the same time each is shown.
        self.ahead.pop_front().is_some_and(|tick| {
            self.at_ns = tick.now_ns;
            self.add(tick);
            true
        })
    }

    fn add(&mut self, tick: Tick) {
        if let Err(why) = self.state.add(tick) {
            self.damage = Some(why.to_string());
        }
    }

    /// What was damaged in the recording, if anything was.
    #[must_use]
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// The last block was incomplete.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.reader.is_torn()
    }

    /// Adds the ticks up to the present time.
    fn catch_up(&mut self) -> bool {
        let mut has_changed = false;
        loop {
            if self.ahead.is_empty() && !self.load() {
                return has_changed;
            }
            if self.ahead.front().is_none_or(|tick| tick.now_ns > self.at_ns) {
                return has_changed;
            }
            if let Some(tick) = self.ahead.pop_front() {
                self.add(tick);
            }
            has_changed = true;
        }
    }

    /// Reads the next block; false after the last one.
    fn load(&mut self) -> bool {
        while self.next_block < self.reader.blocks().len() {
            self.next_block += 1;
            match self.reader.ticks(self.next_block - 1) {
                Ok(ticks) => {
                    self.ahead.extend(ticks);
                    return true;
                }
                Err(why) => self.damage = Some(why.to_string()),
            }
        }
        false
    }

    /// True at the end.
    fn is_over(&self) -> bool {
        self.ahead.is_empty() && self.next_block >= self.reader.blocks().len()
    }
}

impl<R: Read + Seek> Feed for Replay<R> {
    fn step(&mut self, _policies: &[&str]) -> Result<Step, String> {
        let now = Instant::now();
        let passed = now.saturating_duration_since(self.then);
        self.then = now;
        if self.is_paused || self.is_over() {
            return Ok(Step::Wait(FRAME * 2));
        }
        Ok(if self.advance(passed) { Step::Changed } else { Step::Wait(FRAME) })
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn label(&self) -> String {
        let all = Seconds(self.span_s());
        let how = match (self.is_over(), self.is_paused) {
            (true, _) => " END".to_owned(),
            (_, true) => " PAUSED".to_owned(),
            _ if self.speed == 1.0 => String::new(),
            _ => format!(" x{}", self.speed),
        };
        let damage = if self.damage.is_some() { " DAMAGED" } else { "" };
        format!("replay {} of {all}{how}{damage}", Seconds(self.position_s()))
    }

    fn owners(&mut self, _segment: u64) -> Owners {
        Owners::Unknown("a recording does not have the owners of segments".to_owned())
    }

    fn unanswered(&self) -> &'static str {
        "not recorded"
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Step => {
                self.is_paused = true;
                self.next_tick();
            }
            Action::Pause => self.is_paused = !self.is_paused,
            Action::Seek(by_s) => self.seek(self.at_ns.saturating_add((by_s * 1e9) as i64)),
            Action::Speed(by) => self.speed = (self.speed * by).clamp(SPEEDS.0, SPEEDS.1),
            _ => {}
        }
    }
}

/// The power of two next to a speed: the keys double and halve it.
#[must_use]
pub fn fitting(speed: f64) -> f64 {
    speed.max(f64::MIN_POSITIVE).log2().round().exp2()
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
