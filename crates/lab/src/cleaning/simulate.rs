//! One simulation: fills the volume, runs until the result is steady and precise enough, and returns it.

use super::engine::{Engine, Regime, Sorter, Tally};
use super::histogram::Histogram;
use super::limits::{self, Group};
use super::oracle::Oracle;
use super::scheme::{NamedWorkload, PlacementName, PolicyName};
use super::steady::{Interval, warm_up};
use super::workload::{Stream, Workload};
use crate::error::LabError;
use serde::Serialize;

/// Most operations that the oracle looks ahead.
const FORESEEN: u64 = 24_000_000;
/// Windows before the first test whether the run is steady.
const FIRST_LOOK: usize = 20;
/// The same if windows are long.
const FIRST_LOOK_LONG: usize = 4;

/// One point of an experiment.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The operations of users.
    pub workload: NamedWorkload,
    /// Which segments are cleaned.
    pub policy: PolicyName,
    /// Which log blocks go to.
    pub placement: PlacementName,
    /// Live share of the disk, above 0 and below 1. With deletions: the highest.
    pub utilisation: f64,
    /// Segments of the disk; for a trace they follow from it, and this is ignored.
    pub segments: u32,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// When and how much is cleaned.
    pub regime: Regime,
    /// Seed of the random numbers. Of the other fields, the workload depends only on those that set its size.
    pub seed: u64,
    /// Half width of the confidence interval at which it stops, as a share of the mean.
    pub precision: f64,
    /// Volumes (live blocks) after which it stops in any case.
    pub max_volumes: f64,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Blocks written to the log for each block that users wrote.
    pub write_amplification: Interval,
    /// Blocks read and written for each block that users wrote (Sprite LFS, section 3.4).
    pub write_cost: Interval,
    /// Mean live share of the cleaned segments, excluding empty ones.
    pub cleaned_utilisation: Interval,
    /// Share of the reused segments that had become empty by themselves.
    pub empty_share: f64,
    /// Separate small writes into dead places, for each block that users wrote; 0 unless [`Regime::plug`].
    pub small_writes: f64,
    /// Whether it became steady and precise enough before the limit.
    pub is_steady: bool,
    /// Volumes written before measuring began.
    pub warm_up_volumes: f64,
    /// Volumes written while measuring.
    pub measured_volumes: f64,
    /// Blocks written in total, by users and by the cleaner.
    pub blocks_written: u64,
    /// Least write amplification if blocks that are written equally often are perfectly separated; `None` if unknown.
    pub ideal_separation: Option<f64>,
    /// Utilisation of the segments cleaned.
    pub victims: Histogram,
    /// Utilisation of all segments in use when cleaning starts.
    pub at_start: Histogram,
}

/// Runs one point. Reports to `progress` the largest share that is done, 0 to 1.
///
/// # Errors
/// The disk cannot be set up as requested: no segment to spare, or more blocks than can be counted.
pub fn simulate(setup: &Setup, progress: &mut dyn FnMut(f64)) -> Result<Outcome, LabError> {
    let size = Size::of(setup)?;
    let mut stream = Stream::new(&setup.workload.workload, size.live_blocks, setup.seed);
    let policy = setup.policy.for_volume(size.live_blocks);
    let (sorter, limit) = match setup.placement.placement() {
        Some(placement) => (Sorter::Placement(placement), size.max_ops(setup)),
        None => {
            let ops = size.max_ops(setup).min(FORESEEN.max(u64::from(size.live_blocks) * 8));
            (Sorter::Oracle(foresee(setup, &size, ops)), ops)
        }
    };
    let mut engine =
        Engine::new(size.segments, setup.segment_blocks, size.numbers, policy, sorter, setup.regime);
    engine.run(&stream.initial());
    engine.take_tally();
    let window_ops = window_ops(&setup.workload.workload, size.live_blocks);
    let mut run = Run {
        windows: Vec::new(),
        window_ops,
        window_volumes: window_ops as f64 / f64::from(size.live_blocks),
    };
    let is_steady = run.go(&mut engine, &mut stream, setup, limit, progress);
    Ok(run.outcome(is_steady, &size, ideal(&setup.workload.workload, &size, setup)))
}

/// The blocks and segments of a setup.
pub(super) struct Size {
    pub segments: u32,
    pub live_blocks: u32,
    /// Number of different block numbers.
    pub numbers: u32,
}

impl Size {
    pub fn of(setup: &Setup) -> Result<Self, LabError> {
        let refuse = |why: String| Err(LabError::Setup(why));
        let capacity = |segments: u32| {
            f64::from(segments.saturating_sub(setup.regime.reserve)) * f64::from(setup.segment_blocks)
        };
        let (segments, live_blocks, numbers) = match &setup.workload.workload {
            Workload::Trace(trace) => {
                let segments = f64::from(trace.peak) / setup.utilisation / f64::from(setup.segment_blocks);
                (segments.ceil() as u32 + setup.regime.reserve, trace.peak, trace.blocks)
            }
            _ => {
                let live = (capacity(setup.segments) * setup.utilisation) as u32;
                (setup.segments, live, live)
            }
        };
        if u64::from(segments) * u64::from(setup.segment_blocks.next_power_of_two().max(64)) >= 1 << 31 {
            return refuse(format!("{segments} segments of {} blocks are too many", setup.segment_blocks));
        }
        if live_blocks < 2 {
            return refuse("the disk is too small to hold two blocks".into());
        }
        // Open logs hold dead blocks and unwritten places, which cleaning cannot regain; besides them, there must still
        // be a segment to gain.
        let spare = f64::from(segments) - f64::from(live_blocks) / f64::from(setup.segment_blocks);
        let needed =
            f64::from(setup.regime.high.max(setup.regime.low + 1) + u32::from(setup.placement.logs()) + 1);
        if spare <= needed {
            return refuse(format!(
                "{spare:.1} segments are spare at utilisation {}; more than {needed} are needed: take more or smaller \
                 segments, or clean until fewer are clean",
                setup.utilisation
            ));
        }
        Ok(Self { segments, live_blocks, numbers })
    }

    fn max_ops(&self, setup: &Setup) -> u64 {
        let ops = setup.max_volumes * f64::from(self.live_blocks);
        // Time is counted in 32 bits; the volume is filled first.
        ops.min(f64::from(u32::MAX - 2 * self.live_blocks.min(u32::MAX / 4))) as u64
    }
}

/// All operations of the users, for the oracle: the same stream as the run's.
fn foresee(setup: &Setup, size: &Size, ops: u64) -> Oracle {
    let PlacementName::Oracle(logs) = setup.placement else {
        unreachable!("only the oracle has no placement")
    };
    let mut stream = Stream::new(&setup.workload.workload, size.live_blocks, setup.seed);
    let mut future = stream.initial();
    let mut chunk = Vec::new();
    let window = window_ops(&setup.workload.workload, size.live_blocks);
    // In whole windows, as the run does, and enough to reach past its end.
    while (future.len() as u64) < ops + ops / 2 {
        stream.fill(&mut chunk, CHUNK.min(window as usize));
        future.extend_from_slice(&chunk);
    }
    // The longest log begins at 32 volumes.
    let base = ((u64::from(size.live_blocks) * 64) >> u32::from(logs)).max(1) as u32;
    Oracle::new(logs, base, &future, size.numbers)
}

/// Operations between two looks at the stream.
const CHUNK: usize = 4096;

/// A window is one volume written or, if the hot part moves, one period.
fn window_ops(workload: &Workload, live_blocks: u32) -> u64 {
    match workload {
        Workload::Shifting { period, .. } => (f64::from(live_blocks) * period.max(1.0)) as u64,
        Workload::Trace(trace) => (trace.ops.len() as u64).max(u64::from(live_blocks)),
        _ => u64::from(live_blocks),
    }
}

fn ideal(workload: &Workload, size: &Size, setup: &Setup) -> Option<f64> {
    let groups = match workload {
        Workload::Groups(groups) => {
            groups.iter().map(|g| Group { of_data: g.0 / 100.0, of_writes: g.1 / 100.0 }).collect()
        }
        Workload::Zipf { exponent } => limits::zipf_groups(size.live_blocks, *exponent),
        _ => return None,
    };
    Some(limits::ideal_separation(&groups, setup.utilisation))
}

struct Run {
    windows: Vec<Tally>,
    window_ops: u64,
    window_volumes: f64,
}

impl Run {
    /// True if it became steady.
    fn go(
        &mut self,
        engine: &mut Engine,
        stream: &mut Stream,
        setup: &Setup,
        limit: u64,
        progress: &mut dyn FnMut(f64),
    ) -> bool {
        let mut ops = Vec::with_capacity(CHUNK);
        let (mut done, mut next_look) = (0, self.first_look());
        while done + self.window_ops <= limit.max(self.window_ops * FIRST_LOOK_LONG as u64) {
            let mut left = self.window_ops as i64;
            while left > 0 {
                stream.fill(&mut ops, CHUNK.min(self.window_ops as usize));
                engine.run(&ops);
                left -= ops.len() as i64;
                done += ops.len() as u64;
                progress(done as f64 / limit as f64);
            }
            self.windows.push(engine.take_tally());
            if self.windows.len() >= next_look {
                next_look += (next_look / 4).max(1);
                let costs = self.costs();
                if let Some(skip) = warm_up(&costs)
                    && Interval::of(&costs[skip..]).relative() <= setup.precision
                {
                    return true;
                }
            }
        }
        false
    }

    fn first_look(&self) -> usize {
        // With windows of many volumes there is no time for many of them.
        if self.window_volumes > 4.0 { FIRST_LOOK_LONG } else { FIRST_LOOK }
    }

    fn costs(&self) -> Vec<f64> {
        self.windows.iter().map(cost).collect()
    }

    fn outcome(&self, is_steady: bool, size: &Size, ideal_separation: Option<f64>) -> Outcome {
        let skip = warm_up(&self.costs()).unwrap_or(self.windows.len() / 2);
        let measured = &self.windows[skip..];
        let mut sum = Tally::default();
        for window in measured {
            sum.new += window.new;
            sum.cleaned += window.cleaned;
            sum.runs += window.runs;
            sum.emptied += window.emptied;
            sum.victims.merge(&window.victims);
            sum.at_start.merge(&window.at_start);
        }
        let of = |value: fn(&Tally) -> f64| Interval::of(&measured.iter().map(value).collect::<Vec<_>>());
        let volumes = |windows: &[Tally]| {
            windows.iter().map(|w| w.new).sum::<u64>() as f64 / f64::from(size.live_blocks)
        };
        let cleaned: Vec<f64> = measured.iter().filter(|w| w.cleaned > 0).map(|w| w.victims.mean()).collect();
        Outcome {
            write_amplification: of(amplification),
            write_cost: of(cost),
            cleaned_utilisation: Interval { mean: sum.victims.mean(), ..Interval::of(&cleaned) },
            empty_share: sum.emptied as f64 / ((sum.emptied + sum.cleaned) as f64).max(1.0),
            small_writes: sum.runs as f64 / (sum.new as f64).max(1.0),
            is_steady,
            warm_up_volumes: volumes(&self.windows[..skip]),
            measured_volumes: volumes(measured),
            blocks_written: self.windows.iter().map(|w| w.new + w.moved).sum(),
            ideal_separation,
            victims: sum.victims,
            at_start: sum.at_start,
        }
    }
}

fn amplification(window: &Tally) -> f64 {
    1.0 + window.moved as f64 / (window.new as f64).max(1.0)
}

fn cost(window: &Tally) -> f64 {
    amplification(window) + window.read as f64 / (window.new as f64).max(1.0)
}
