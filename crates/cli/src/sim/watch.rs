//! `firn sim cleaning --watch`: the displays of `firn watch`, fed from virtual time.
//!
//! A virtual second is a sixtieth of the live blocks written by users, so the minute of rates on the screen is a volume
//! written; a block counts as [`BLOCK_BYTES`]. At the lowest speed a step is one block. What is simulated does not depend
//! on how it is watched.

use super::pace::Pace;
use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::watch::{Simulation, SimulationArgs};
use firnfs::clean::Candidate;
use firnfs_lab::cleaning::scheme::PolicyName;
use firnfs_lab::cleaning::{Regime, Setup, Use, Watched};
use firnfs_watch::feed::{Feed, Step};
use firnfs_watch::map::{Cell, State as Segment, Tracker};
use firnfs_watch::screen::Owners;
use firnfs_watch::screen::keys::Action;
use firnfs_watch::state::State;
use firnfs_watch::tick::{
    self, BUCKETS, Counters, Marks, SEGMENTS_MAX, Space, Tick, Victim, Volume, WOULD_MAX, Would,
};

/// Bytes of a simulated block.
const BLOCK_BYTES: u32 = 4096;
/// Virtual seconds of a volume written.
const SECONDS_OF_A_VOLUME: u32 = 60;
/// Virtual seconds in a second of the watcher's, at first, at least and at most.
const SPEEDS: (f64, f64, f64) = (4.0, 1.0 / 16.0, 64.0);
/// At the lowest speed, virtual seconds that a step stands for in which users write one block: four steps in a second.
const BLOCK_S: f64 = SPEEDS.1 / 4.0;

/// See the module's head.
struct Simulated {
    simulation: Watched,
    setup: Setup,
    /// Blocks of a virtual second.
    blocks_of_a_second: u32,
    /// Blocks that users have written since the volume was filled.
    operations: u64,
    tracker: Tracker,
    taken: u64,
    state: State,
    pace: Pace,
}

/// Watches one run.
///
/// # Errors
/// It cannot be run, or a signal ended it.
pub(super) fn run(setup: &Setup, shown: &SimulationArgs, json: bool, output: &mut Output) -> Done {
    let simulation = Watched::new(setup).map_err(|e| Failure::usage(e.to_string()))?;
    if u64::from(setup.segments) > SEGMENTS_MAX {
        return Err(Failure::usage("there are too many segments to be watched"));
    }
    let shown = Simulation::new(shown, json)?;
    let feed = Simulated {
        blocks_of_a_second: (simulation.live_blocks() / SECONDS_OF_A_VOLUME).max(1),
        simulation,
        setup: setup.clone(),
        operations: 0,
        tracker: Tracker::default(),
        taken: 0,
        state: State::default(),
        pace: Pace::new(SPEEDS.0, (SPEEDS.1, SPEEDS.2), shown.is_hurried()),
    };
    shown.show(feed, output)
}

impl Simulated {
    fn is_over(&self) -> bool {
        self.volumes() >= self.setup.max_volumes
    }

    fn volumes(&self) -> f64 {
        self.operations as f64 / f64::from(self.blocks_of_a_second) / f64::from(SECONDS_OF_A_VOLUME)
    }

    fn segment_bytes(&self) -> u32 {
        self.setup.segment_blocks.saturating_mul(BLOCK_BYTES)
    }

    /// Blocks written by users as nanoseconds of virtual time.
    fn ns(&self, blocks: u32) -> i64 {
        (f64::from(blocks) / f64::from(self.blocks_of_a_second) * 1e9) as i64
    }

    fn victim(&self, (at, candidate): (u32, &Candidate)) -> Victim {
        let age = at.saturating_sub(u32::try_from(candidate.written.0).unwrap_or(0));
        Victim {
            segment: candidate.segment.0,
            live_bytes: candidate.live_bytes.saturating_mul(BLOCK_BYTES),
            age_ms: (self.ns(age) / 1_000_000) as u64,
            ..Victim::default()
        }
    }

    fn tick(&mut self, policies: &[&str]) -> Tick {
        let (segment_bytes, now) = (self.segment_bytes(), self.simulation.now());
        let (mut in_use, mut live_bytes, mut utilisation) = (0, 0, [0; BUCKETS]);
        self.tracker.resize(u64::from(self.setup.segments));
        let segments: Vec<_> = self.simulation.segments().collect();
        for (number, look) in (0..).zip(segments) {
            let live = look.live_blocks.saturating_mul(BLOCK_BYTES);
            let state = match look.state {
                Use::Clean => Segment::Clean,
                Use::Head => Segment::Head,
                Use::Closed => Segment::Closed,
            };
            let cell = if look.state == Use::Clean {
                Cell::default()
            } else {
                in_use += 1;
                live_bytes += u64::from(live);
                utilisation[tick::bucket(u64::from(live), u64::from(segment_bytes))] += 1;
                Cell::new(state, look.log, live, segment_bytes, self.ns(look.written) / 1_000_000_000)
            };
            self.tracker.note(number, cell);
        }
        let victims = self.new_victims();
        let now_ns = self.ns(now);
        Tick {
            now_ns,
            volume: self.volume(),
            space: self.space(),
            marks: self.marks(),
            counters: self.counters(),
            segments_in_use: in_use,
            live_bytes,
            utilisation,
            map: self.tracker.since(self.state.position().0, now_ns / 1_000_000_000),
            taken: self.taken,
            victims,
            would: self.would(policies),
            ..Tick::default()
        }
    }

    fn new_victims(&mut self) -> Vec<Victim> {
        let taken = self.simulation.take_victims();
        let first = self.taken + 1;
        self.taken += taken.len() as u64;
        let numbered = (first..).zip(&taken);
        numbered
            .map(|(serial, (at, candidate))| Victim {
                serial,
                why: "policy".to_owned(),
                ..self.victim((*at, candidate))
            })
            .collect()
    }

    fn volume(&self) -> Volume {
        let Setup { workload, policy, placement, utilisation, .. } = &self.setup;
        Volume {
            name: format!("simulation of {}", workload.name),
            source: format!("{placement}, {:.0}% full", utilisation * 100.0),
            segment_bytes: self.segment_bytes(),
            segments: u64::from(self.setup.segments),
            policy: policy.to_string(),
        }
    }

    /// The segments that always stay clean do not count, as in the utilisation of the run. Users take as much all the time, so the volume
    /// never fills, though what the log holds of it varies.
    fn space(&self) -> Space {
        let counted = self.setup.segments.saturating_sub(self.setup.regime.reserve);
        let total_bytes = u64::from(counted) * u64::from(self.segment_bytes());
        let live_bytes = u64::from(self.simulation.live_blocks()) * u64::from(BLOCK_BYTES);
        Space { total_bytes, free_bytes: total_bytes.saturating_sub(live_bytes), inodes_used: 0 }
    }

    /// The simulated cleaner has two marks and no idle time.
    fn marks(&self) -> Marks {
        let Regime { low, high, .. } = self.setup.regime;
        let high = u64::from(high.max(low + 1));
        let low = u64::from(low);
        Marks { ready: self.simulation.clean(), waiting: 0, reserve: 0, low, high, idle_target: high }
    }

    fn counters(&self) -> Counters {
        let totals = self.simulation.totals();
        let bytes = |blocks: u64| blocks * u64::from(BLOCK_BYTES);
        Counters {
            user_bytes: bytes(totals.new),
            log_bytes: bytes(totals.new + totals.moved),
            moved_bytes: bytes(totals.moved),
            read_bytes: bytes(totals.read),
            cleaned: totals.cleaned,
            cleaned_on_demand: totals.cleaned,
            emptied: totals.emptied,
            ..Counters::default()
        }
    }

    fn would(&self, policies: &[&str]) -> Vec<Would> {
        let asked = policies.iter().filter_map(|name| Some((*name, name.parse::<PolicyName>().ok()?)));
        let count = (self.setup.regime.batch as usize).clamp(8, WOULD_MAX);
        asked
            .map(|(name, policy)| Would {
                policy: name.to_owned(),
                victims: self
                    .simulation
                    .would_take(policy, count)
                    .iter()
                    .map(|candidate| self.victim((self.simulation.now(), candidate)))
                    .collect(),
            })
            .collect()
    }
}

impl Feed for Simulated {
    fn step(&mut self, policies: &[&str]) -> Result<Step, String> {
        if self.is_over() {
            let why = format!("the volume was written {} times", self.setup.max_volumes);
            return Ok(self.pace.end(&why));
        }
        if let Some(wait) = self.pace.wait() {
            return Ok(wait);
        }
        let (operations, virtual_s) = match self.pace.is_slowest() {
            true => (1, BLOCK_S),
            false => (u64::from(self.blocks_of_a_second), 1.0),
        };
        self.pace.note_step(virtual_s);
        self.simulation.run(operations);
        self.operations += operations;
        let mut tick = self.tick(policies);
        loop {
            let more = tick.map.more;
            if self.state.last.as_ref().is_some_and(|last| last.now_ns == tick.now_ns) {
                self.state.add_part(&tick).map_err(|e| e.to_string())?;
            } else {
                self.state.add(tick.clone()).map_err(|e| e.to_string())?;
            }
            if !more {
                return Ok(Step::Changed);
            }
            tick.map = self.tracker.since(self.state.position().0, tick.now_ns / 1_000_000_000);
        }
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn label(&self) -> String {
        let slowest = format!("block by block ({})", self.operations);
        format!("{:.1} volumes {}", self.volumes(), self.pace.words(&slowest, self.is_over()))
    }

    fn owners(&mut self, _segment: u64) -> Owners {
        Owners::Unknown("simulated blocks belong to no files".to_owned())
    }

    fn act(&mut self, action: Action) {
        self.pace.act(action);
    }
}
