//! `firn sim trace --watch`: the displays of `firn watch`, fed by the real log on a simulated disk while it replays a trace.
//!
//! The clock is that of the trace. At the lowest speed a step is one access of the disk: the requests of one operation of a user,
//! or one request of the cleaner. Looking takes no virtual time and does not reach the disk.

use super::pace::Pace;
use crate::failure::{Done, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::watch::look::{self, Look};
use crate::watch::show_simulation;
use firnfs::clean::Policy;
use firnfs_lab::LabError;
use firnfs_lab::micro::stop::Stop;
use firnfs_lab::trace::{Phase, Progress, Records, Setup, Steps};
use firnfs_watch::feed::{Feed, Step};
use firnfs_watch::screen::Owners;
use firnfs_watch::screen::keys::Action;
use firnfs_watch::state::State;
use firnfs_watch::tick::Tick;

/// Virtual seconds in a second of the watcher's, at least and at most.
const SPEEDS: (f64, f64) = (1.0 / 16.0, 65_536.0);
/// Seconds of the watcher's that a trace takes if nobody changes the speed, and lines where lines are printed.
const PARTS: f64 = 60.0;
/// Pictures in a second of the watcher's.
const FRAMES_PER_S: f64 = 10.0;
/// At the lowest speed, virtual seconds that one access of the disk stands for: two accesses in a second.
const ACCESS_S: f64 = SPEEDS.0 / 2.0;

struct Replaying<'a> {
    replay: Steps<'a>,
    setup: &'a Setup,
    look: Look,
    taken: u64,
    accesses: u64,
    state: State,
    pace: Pace,
    is_over: bool,
}

/// Watches one replay.
///
/// # Errors
/// As a replay that is not watched.
pub(super) fn run(records: &dyn Records, setup: &Setup, json: bool, output: &mut Output) -> Done {
    let failed = |error: LabError| match error {
        LabError::Interrupted => Failure::new(interrupt::exit(), error.to_string()),
        _ => Failure::failed(error.to_string()),
    };
    let stop = Stop::default();
    interrupt::sets(&stop.flag())?;
    let bar = crate::progress::Bar::of_share();
    let show =
        |_: Phase, share: f64| bar.show((share * 1000.0) as u64, 1000, "of the state before the trace");
    let replay = Steps::new(records, setup, &stop, &Progress(&show)).map_err(failed)?;
    drop(bar);
    let speed = (replay.span_s() / PARTS).log2().round().exp2().clamp(2.0 * SPEEDS.0, SPEEDS.1);
    let is_hurried = !crate::watch::is_shown_on_terminal(json);
    let mut feed = Replaying {
        replay,
        setup,
        look: Look::default(),
        taken: 0,
        accesses: 0,
        state: State::default(),
        pace: Pace::new(speed, SPEEDS, is_hurried),
        is_over: false,
    };
    show_simulation(&mut feed, json, output)
}

impl Replaying<'_> {
    /// Goes on by one step; false at the end of the trace.
    fn go_on(&mut self) -> Result<bool, LabError> {
        if self.pace.is_hurried() {
            return self.pass(self.replay.span_s() / PARTS);
        }
        if self.pace.is_slowest() {
            self.accesses += 1;
            self.pace.note_step(ACCESS_S);
            return self.replay.next_access();
        }
        let virtual_s = self.pace.speed() / FRAMES_PER_S;
        self.pace.note_step(virtual_s);
        self.pass(virtual_s)
    }

    fn pass(&mut self, virtual_s: f64) -> Result<bool, LabError> {
        self.replay.pass((virtual_s * 1e9) as i64)
    }

    fn tick(&mut self, policies: &[&str]) -> Result<Tick, String> {
        let policies: Vec<Policy> = policies.iter().filter_map(|name| name.parse().ok()).collect();
        let geometry = self.replay.vfs().store().geometry();
        let Self { replay, look, .. } = self;
        look.take(&geometry, &mut |leaf| replay.look(|log| log.watch_leaf(leaf)))
            .map_err(|e| e.to_string())?;
        let now = self.replay.now();
        let tick = look::of_vfs(self.replay.vfs(), self.taken, now);
        let terms = self.replay.vfs().store().next_terms(now);
        let mut tick = self.look.fill(tick, self.state.position().0, now, &policies, &terms);
        tick.volume.name = format!("replay of a trace, {}", self.setup.model.name());
        tick.volume.source = format!("on {}, cleaner {}", self.setup.disk.name, self.setup.cleaner.name());
        self.taken = tick.victims.last().map_or(self.taken, |victim| victim.serial);
        Ok(tick)
    }

    fn show(&mut self, mut tick: Tick) -> Result<(), String> {
        self.state.add(tick.clone()).map_err(|e| e.to_string())?;
        while tick.map.more {
            tick.map = self.look.changes_since(self.state.position().0, self.replay.now());
            self.state.add_part(&tick).map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

impl Feed for Replaying<'_> {
    fn step(&mut self, policies: &[&str]) -> Result<Step, String> {
        if let Some(wait) = self.pace.wait() {
            return Ok(wait);
        }
        if self.is_over {
            return Ok(Step::End("the trace has ended".to_owned()));
        }
        self.is_over = !self.go_on().map_err(|e| e.to_string())?;
        let tick = self.tick(policies)?;
        self.show(tick)?;
        Ok(Step::Changed)
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn label(&self) -> String {
        let done = format!("{:.1}% of the trace", self.replay.share_done() * 100.0);
        match self.pace.is_slowest() {
            true => format!("{done}, access by access ({})", self.accesses),
            false => format!("{done} {}", self.pace.words()),
        }
    }

    fn owners(&mut self, _segment: u64) -> Owners {
        Owners::Unknown("a trace numbers its files; many have no names".to_owned())
    }

    fn act(&mut self, action: Action) {
        self.pace.act(action);
    }
}
