//! One run: fills the volume, lets the past grow to its share, and measures.

use super::engine::{Engine, Pace, Tables, Tally};
use super::log::Kind;
use super::tables::{Numbers, Remnants};
use crate::cleaning::batch::run_each;
use crate::cleaning::scheme::{NamedWorkload, PlacementName, PolicyName};
use crate::cleaning::steady::Interval;
use crate::cleaning::workload::Stream;
use crate::error::LabError;
use serde::Serialize;
use std::fmt;

/// How moved blocks are found from the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// No points: no past.
    None,
    /// Rows about moved segments, which only readers of the past look at.
    Remnants,
    /// Pointers name numbers, and a table leads to the place (NILFS2's DAT).
    VirtualNumbers,
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Remnants => "remnants",
            Self::VirtualNumbers => "virtual-numbers",
        })
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The operations of users.
    pub workload: NamedWorkload,
    /// Which segments are cleaned.
    pub policy: PolicyName,
    /// Which log blocks go to; not the oracle.
    pub placement: PlacementName,
    /// Share of the volume that users see.
    pub live: f64,
    /// Share of the volume that only points see, at most.
    pub past: f64,
    /// How moved blocks are found.
    pub design: Design,
    /// Segments of the volume.
    pub segments: u32,
    /// Blocks of a segment.
    pub segment_blocks: u32,
    /// Points made while users write as many blocks as they see.
    pub points: u32,
    /// Blocks that users write between two commits.
    pub commit_blocks: u32,
    /// Seed of the workload.
    pub seed: u64,
    /// Volumes (blocks that users see) written while measuring; as many are written before.
    pub volumes: u32,
}

/// The result: blocks for each block that users wrote, unless something else is said.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Blocks written to the log, tables included.
    pub write_amplification: Interval,
    /// Blocks that only points see, moved by the cleaner.
    pub moved_past: f64,
    /// Blocks of tables that commits wrote.
    pub table_written: f64,
    /// Share of the volume that only points saw, at the end.
    pub past: f64,
    /// Share of the volume that the tables had, at the end.
    pub table: f64,
    /// Points retained at the end.
    pub points: usize,
    /// Moves that a reader of the oldest point follows for each block; 0 with virtual numbers.
    pub hops_mean: f64,
    /// The most of them for one block.
    pub hops_max: u32,
    /// Bytes of remnants appended for each byte that the cleaner moved.
    pub remnant_bytes_per_moved_byte: f64,
}

/// Clean segments beside one for each log, at which the cleaner starts.
const SPARE: u32 = 2;

/// Runs one setup. Reports to `progress` the share that is done, 0 to 1.
///
/// # Errors
/// The volume cannot be set up as requested.
pub fn simulate(setup: &Setup, progress: &mut dyn FnMut(f64)) -> Result<Outcome, LabError> {
    let refuse = |why: String| Err(LabError::Setup(why));
    let Some(placement) = setup.placement.placement() else {
        return refuse("the oracle is no placement of a file system".into());
    };
    let past = if setup.design == Design::None { 0.0 } else { setup.past };
    if !(setup.live > 0.0 && past >= 0.0 && setup.live + past < 0.97) {
        return refuse(format!(
            "live {} and past {past}: together they must be less than 0.97 of the volume",
            setup.live
        ));
    }
    let low = u32::from(placement.logs()) + 2 + SPARE;
    let capacity = f64::from(setup.segments.saturating_sub(low + 1)) * f64::from(setup.segment_blocks);
    let live_blocks = (capacity * setup.live) as u32;
    if live_blocks < 2 || setup.segments < 4 * low {
        return refuse(format!("{} segments are too few; at least {} are needed", setup.segments, 4 * low));
    }
    let tables = match setup.design {
        Design::None => Tables::None,
        Design::Remnants => Tables::Remnants(Remnants::default()),
        Design::VirtualNumbers => Tables::Numbers(Numbers::default()),
    };
    let pace = Pace {
        point_blocks: (setup.design != Design::None).then(|| (live_blocks / setup.points.max(1)).max(1)),
        past_max: (capacity * past) as u64,
        commit_blocks: setup.commit_blocks.max(1),
        low: low as usize,
    };
    let mut engine = Engine::new(
        (setup.segments, setup.segment_blocks, live_blocks),
        setup.policy.for_volume(live_blocks),
        placement,
        pace,
        tables,
    );
    let mut stream = Stream::new(&setup.workload.workload, live_blocks, setup.seed);
    engine.run(&stream.initial());
    let mut windows = Vec::new();
    let mut ops = Vec::new();
    for window in 0..2 * setup.volumes {
        let mut left = i64::from(live_blocks);
        while left > 0 {
            stream.fill(&mut ops, 4096);
            engine.run(&ops);
            left -= ops.len() as i64;
        }
        let tally = engine.take_tally();
        if window >= setup.volumes {
            windows.push(tally);
        }
        progress(f64::from(window + 1) / f64::from(2 * setup.volumes));
    }
    Ok(outcome(&engine, &windows, capacity))
}

/// Runs all setups, as [`crate::cleaning::batch::run`].
///
/// # Errors
/// The error of the first setup that cannot be run.
pub fn run_all(
    setups: &[Setup],
    threads: usize,
    progress: &mut (dyn FnMut(f64) + Send),
) -> Result<Vec<Outcome>, LabError> {
    run_each(setups, threads, progress, simulate)
}

fn outcome(engine: &Engine, windows: &[Tally], capacity: f64) -> Outcome {
    let amplification = |w: &Tally| 1.0 + (w.moved + w.table) as f64 / (w.new as f64).max(1.0);
    let of = |value: fn(&Tally) -> u64| windows.iter().map(value).sum::<u64>() as f64;
    let new = of(|w| w.new).max(1.0);
    let is_read_directly = !matches!(engine.tables, Tables::Remnants(_));
    let (hops_mean, hops_max) = if is_read_directly { (0.0, 0) } else { engine.hops() };
    let appended_bytes = match &engine.tables {
        Tables::Remnants(remnants) => remnants.appended_bytes(),
        _ => 0,
    };
    Outcome {
        write_amplification: Interval::of(&windows.iter().map(amplification).collect::<Vec<_>>()),
        moved_past: of(|w| w.moved_past) / new,
        table_written: of(|w| w.table) / new,
        past: engine.log.count(Kind::Past) as f64 / capacity,
        table: engine.log.count(Kind::Table) as f64 / capacity,
        points: engine.points(),
        hops_mean,
        hops_max,
        remnant_bytes_per_moved_byte: appended_bytes as f64 / (engine.moved_ever as f64 * 4096.0).max(1.0),
    }
}
