//! `firn sim trace --watch`: the displays of `firn watch`, fed by the real log on a simulated disk while it replays a trace.
//!
//! The clock is that of the trace. At the lowest speed a step is one access of the disk: the requests of one operation of a user,
//! or one request of the cleaner. Looking takes no virtual time and does not reach the disk.

use super::pace::{PARTS, Pace};
use crate::failure::{Done, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::watch::look::{self, Look};
use crate::watch::{Simulation, SimulationArgs};
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
/// Pictures in a second of the watcher's.
const FRAMES_PER_S: f64 = 10.0;
/// At the lowest speed, virtual seconds that one access of the disk stands for at least: two accesses in a second at most.
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
pub(super) fn run(
    records: &dyn Records,
    setup: &Setup,
    shown: &SimulationArgs,
    json: bool,
    output: &mut Output,
) -> Done {
    let shown = Simulation::new(shown, json)?;
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
    let pace = Pace::fitting(replay.span_s(), SPEEDS, shown.is_hurried());
    let feed = Replaying {
        replay,
        setup,
        look: Look::default(),
        taken: 0,
        accesses: 0,
        state: State::default(),
        pace,
        is_over: false,
    };
    shown.show(feed, output)
}

impl Replaying<'_> {
    /// Goes on by one step; false at the end of the trace.
    fn go_on(&mut self) -> Result<bool, LabError> {
        if self.pace.is_hurried() {
            return self.pass(self.replay.span_s() / PARTS);
        }
        if self.pace.is_slowest() {
            self.accesses += 1;
            let before = self.replay.now();
            let goes_on = self.replay.next_access();
            self.pace.note_step(access_s(self.replay.now().0.saturating_sub(before.0)));
            return goes_on;
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

/// Virtual seconds that an access stands for after which so much time of the trace has passed. Idle time passes too, or the lowest
/// speed would be faster than the next one.
fn access_s(passed_ns: i64) -> f64 {
    (passed_ns as f64 / 1e9).max(ACCESS_S)
}

impl Feed for Replaying<'_> {
    fn step(&mut self, policies: &[&str]) -> Result<Step, String> {
        if self.is_over {
            return Ok(self.pace.end("the trace has ended"));
        }
        if let Some(wait) = self.pace.wait() {
            return Ok(wait);
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
        let slowest = format!("access by access ({})", self.accesses);
        let done = self.replay.share_done() * 100.0;
        format!("{done:.1}% of the trace {}", self.pace.words(&slowest, self.is_over))
    }

    fn owners(&mut self, _segment: u64) -> Owners {
        Owners::Unknown("a trace numbers its files; many have no names".to_owned())
    }

    fn act(&mut self, action: Action) {
        self.pace.act(action);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_takes_the_time_that_passes_until_it_and_never_less_than_half_a_second() {
        assert_eq!(access_s(0) / SPEEDS.0, 0.5);
        assert_eq!(access_s(31_250_000) / SPEEDS.0, 0.5);
        assert_eq!(access_s(2_000_000_000), 2.0);
    }
}
