//! `firn age replay --watch`: the displays of `firn watch`, fed by a log-structured volume while it is aged in virtual time.
//!
//! The replay works on a thread of its own and waits at a [`Gate`] after each operation, until the watcher lets that much of the
//! workload's time pass. At the lowest speed it lets one operation pass at a time. When the watcher quits, the gate stays open and the
//! replay goes on alone; Ctrl-C stops both. At the end of the replay the display stays until the watcher quits.

use crate::failure::Done;
use crate::output::Output;
use crate::sim::{PARTS, Pace};
use crate::watch::Simulation;
use crate::watch::look::{self, Look};
use crate::watch::owners;
use firnfs::FsError;
use firnfs::clean::Policy;
use firnfs::lfs::Lfs;
use firnfs_device::Clock;
use firnfs_lab::age::replay::VirtualClock;
use firnfs_volume::Volume;
use firnfs_watch::feed::{Feed, Step};
use firnfs_watch::screen::Owners;
use firnfs_watch::screen::keys::Action;
use firnfs_watch::state::State;
use firnfs_watch::tick::Tick;
use parking_lot::{Condvar, Mutex};
use std::path::Path;
use std::time::Duration;

/// Virtual seconds in a second of the watcher's, at least and at most.
const SPEEDS: (f64, f64) = (1.0 / 16.0, 16_777_216.0);
/// Pictures in a second of the watcher's.
const FRAMES_PER_S: f64 = 10.0;
/// At the lowest speed, virtual seconds that one operation stands for: four operations in a second.
const OPERATION_S: f64 = SPEEDS.0 / 4.0;
/// How long a display waits for the replay before it looks at the keys again.
const PATIENCE: Duration = Duration::from_millis(200);

/// Up to where the replay may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Until {
    /// As far as it can.
    End,
    /// Until the clock shows that time, in nanoseconds.
    Time(i64),
    /// Until that many operations are done.
    Operations(u64),
}

#[derive(Clone, Copy)]
struct Place {
    until: Until,
    now_ns: i64,
    operations: u64,
    is_waiting: bool,
    is_over: bool,
}

/// See the module's head.
pub(super) struct Gate {
    place: Mutex<Place>,
    changed: Condvar,
}

impl Gate {
    /// For a replay that begins at that time, and waits after its first operation.
    pub fn new(start_ns: i64) -> Self {
        let until = Until::Operations(0);
        let place = Place { until, now_ns: start_ns, operations: 0, is_waiting: false, is_over: false };
        Self { place: Mutex::new(place), changed: Condvar::new() }
    }

    /// The replay has done that many operations: waits until it may go on.
    pub fn pass(&self, now_ns: i64, operations: u64) {
        let mut place = self.place.lock();
        (place.now_ns, place.operations) = (now_ns, operations);
        while !place.may_go_on() {
            place.is_waiting = true;
            self.changed.notify_all();
            self.changed.wait(&mut place);
        }
        place.is_waiting = false;
    }

    /// True once the watcher lets the replay go on alone.
    pub fn is_open(&self) -> bool {
        self.place.lock().until == Until::End
    }

    /// Lets the replay go on alone.
    pub fn open(&self) {
        self.place.lock().until = Until::End;
        self.changed.notify_all();
    }

    /// Tells the watcher that the replay has ended once the value is dropped, for whatever reason.
    pub fn end_when_dropped(&self) -> End<'_> {
        End(self)
    }

    /// Lets the replay go on for so much of its time from where it was allowed to be, for operations are not spread evenly. One that is
    /// slower than a display can wait stops where it is if it `may_stop`; else it goes on to where it was allowed to be.
    fn advance(&self, by_ns: i64, may_stop: bool) -> Place {
        let place = self.let_pass(|place| match place.until {
            Until::Time(until_ns) if place.is_waiting => Until::Time(until_ns.saturating_add(by_ns)),
            Until::Time(_) => place.until,
            _ => Until::Time(place.now_ns.saturating_add(by_ns)),
        });
        if place.is_waiting || place.is_over || !may_stop {
            return place;
        }
        self.let_pass(|place| if place.is_waiting { place.until } else { Until::Time(place.now_ns) })
    }

    /// Lets the replay go on as `until` says of the place where it is, and waits until it is there, but no longer than a display can.
    fn let_pass(&self, until: impl FnOnce(&Place) -> Until) -> Place {
        let mut place = self.place.lock();
        place.until = until(&place);
        self.changed.notify_all();
        while !place.is_over && (!place.is_waiting || place.may_go_on()) {
            if self.changed.wait_for(&mut place, PATIENCE).timed_out() {
                break;
            }
        }
        *place
    }
}

/// See [`Gate::end_when_dropped`].
#[must_use = "the replay ends when it is dropped"]
pub(super) struct End<'a>(&'a Gate);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.place.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

impl Place {
    fn may_go_on(&self) -> bool {
        match self.until {
            Until::End => true,
            Until::Time(until_ns) => self.now_ns <= until_ns,
            Until::Operations(count) => self.operations < count,
        }
    }
}

struct Aging<'a> {
    volume: &'a Volume<Lfs>,
    clock: &'a VirtualClock,
    gate: &'a Gate,
    image: &'a Path,
    start_ns: i64,
    /// Virtual seconds of a line where lines are printed.
    line_s: f64,
    place: Place,
    look: Look,
    taken: u64,
    state: State,
    pace: Pace,
}

/// Watches a volume that is aged on another thread by a workload of `span_s` virtual seconds, until that ends or the watcher quits.
///
/// # Errors
/// The volume cannot be looked at, or a signal ended it.
pub(super) fn run(
    volume: &Volume<Lfs>,
    clock: &VirtualClock,
    gate: &Gate,
    image: &Path,
    span_s: f64,
    shown: Simulation<'_>,
    output: &mut Output,
) -> Done {
    let feed = Aging {
        volume,
        clock,
        gate,
        image,
        start_ns: clock.now_ns(),
        line_s: span_s / PARTS,
        place: *gate.place.lock(),
        look: Look::default(),
        taken: 0,
        state: State::default(),
        pace: Pace::fitting(span_s, SPEEDS, shown.is_hurried()),
    };
    shown.show(feed, output)
}

impl Aging<'_> {
    fn go_on(&mut self) {
        let virtual_s = match (self.pace.is_hurried(), self.pace.is_slowest()) {
            (true, _) => self.line_s,
            (false, true) => {
                self.pace.note_step(OPERATION_S);
                self.place = self.gate.let_pass(|place| Until::Operations(place.operations + 1));
                return;
            }
            (false, false) => self.pace.speed() / FRAMES_PER_S,
        };
        self.pace.note_step(virtual_s);
        self.place = self.gate.advance((virtual_s * 1e9) as i64, !self.pace.is_hurried());
    }

    fn tick(&mut self, policies: &[&str]) -> Result<Tick, FsError> {
        let policies: Vec<Policy> = policies.iter().filter_map(|name| name.parse().ok()).collect();
        let volume = self.volume;
        let geometry = volume.run_quietly(|vfs, _| Ok(vfs.store().geometry()))?;
        let leaf = &mut |leaf| volume.run_quietly(|vfs, _| vfs.store_mut().watch_leaf(leaf));
        self.look.take(&geometry, leaf)?;
        let (tick, now, terms) = volume.run_quietly(|vfs, now| {
            Ok((look::of_vfs(vfs, self.taken, now), now, vfs.store().next_terms(now)))
        })?;
        let mut tick = self.look.fill(tick, self.state.position().0, now, &policies, &terms);
        tick.volume.name = "aging".to_owned();
        tick.volume.source = self.image.display().to_string();
        self.taken = tick.victims.last().map_or(self.taken, |victim| victim.serial);
        Ok(tick)
    }

    fn show(&mut self, mut tick: Tick) -> Result<(), String> {
        self.state.add(tick.clone()).map_err(|e| e.to_string())?;
        while tick.map.more {
            tick.map =
                self.look.changes_since(self.state.position().0, firnfs_format::TimeNs(self.clock.now_ns()));
            self.state.add_part(&tick).map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

impl Feed for Aging<'_> {
    fn step(&mut self, policies: &[&str]) -> Result<Step, String> {
        if self.place.is_over {
            return Ok(self.pace.end("the workload has ended"));
        }
        if let Some(wait) = self.pace.wait() {
            return Ok(wait);
        }
        self.go_on();
        // A look beside the replay would make requests between its own.
        if !self.place.is_waiting && !self.place.is_over {
            self.pace.keep_step();
            return Ok(Step::Wait(Duration::ZERO));
        }
        let tick = self.tick(policies).map_err(|e| e.to_string())?;
        self.show(tick)?;
        Ok(Step::Changed)
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn label(&self) -> String {
        let days = (self.place.now_ns - self.start_ns) as f64 / 86_400e9;
        let slowest = format!("operation {}", self.place.operations);
        format!("day {days:.1} {}", self.pace.words(&slowest, self.place.is_over))
    }

    fn owners(&mut self, segment: u64) -> Owners {
        if !self.place.is_over {
            let why = "asked once the replay has ended: the volume would be read between its requests";
            return Owners::Unknown(why.to_owned());
        }
        match owners::of_volume(self.volume, segment) {
            Ok(owners) => Owners::Found(owners),
            Err(error) => Owners::Unknown(error.to_string()),
        }
    }

    fn act(&mut self, action: Action) {
        self.pace.act(action);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_goes_no_further_than_the_gate_lets_it() {
        let gate = Gate::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _end = gate.end_when_dropped();
                // An operation a second.
                for n in 1..=100 {
                    gate.pass(n * 1_000_000_000, n as u64);
                }
            });
            let at = |until: Until| gate.let_pass(|_| until).operations;
            assert_eq!(at(Until::Operations(0)), 1);
            assert_eq!(at(Until::Operations(2)), 2);
            assert_eq!(at(Until::Operations(3)), 3);
            // It waits once the time has passed.
            assert_eq!(at(Until::Time(9_500_000_000)), 10);
            assert!(!gate.is_open());
            gate.open();
            assert!(gate.let_pass(|_| Until::End).is_over);
        });
    }

    #[test]
    fn a_replay_slower_than_the_display_stops_to_be_looked_at_and_one_whose_lines_are_printed_does_not() {
        const S: i64 = 1_000_000_000;
        let gate = Gate::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _end = gate.end_when_dropped();
                for n in 1.. {
                    std::thread::sleep(PATIENCE / 10);
                    gate.pass(n * S, n as u64);
                    if gate.is_open() {
                        break;
                    }
                }
            });
            let shown = gate.advance(1000 * S, true);
            assert!(shown.is_waiting && shown.now_ns < 500 * S, "{}", shown.now_ns);
            let line_ns = shown.now_ns + 30 * S;
            let mut place = gate.advance(30 * S, false);
            while !place.is_waiting {
                place = gate.advance(30 * S, false);
            }
            assert!((line_ns..line_ns + 3 * S).contains(&place.now_ns), "{} for {line_ns}", place.now_ns);
            gate.open();
        });
    }
}
