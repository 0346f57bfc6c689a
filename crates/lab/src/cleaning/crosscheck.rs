//! The simulator against the file system: both get the same writes, and their write amplifications of data are compared.
//!
//! The file system runs on a device in memory, in virtual time: each block that a user writes takes a second, so that its ages
//! count as the simulator's do. One file is overwritten in whole blocks. Some properties of the file system are not simulated.
//! They are measured and given to the simulator as conditions, none of which determines which blocks the cleaner moves:
//!
//! - *Room for data.* Segments of metadata, clean segments, and segments that wait for checkpoints before they may be written
//!   hold no data. The simulated disk has as many segments as are needed for its closed ones to hold as much, on average, as
//!   the closed data segments do.
//! - *Blocks in a segment.* Summaries and padding take space, so the comparison counts the blocks that closed data segments
//!   were written with, from their summaries. Both show a policy the live share of the whole segment.
//! - *Writes.* A block written twice before a commit reaches the log once. The simulator gets the writes that reach it.
//! - *Victims at a time*, on average.
//! - *Order.* The file system writes the blocks that it moves out of a batch of victims in the order of the file, and so does
//!   the simulator. If that order correlates with how often blocks are written, it sorts them; with [`Setup::scattered`] it
//!   mixes blocks that were apart in the victims.
//!
//! A second comparison uses no measured conditions: the simulator gets the volume's segments with as many blocks as their
//! bytes hold, every write of the users, and its usual regime. Of the design it gets only the placement and the order of
//! moved blocks.
//!
//! The rest is metadata: bytes in the log by kind, for each byte of data that users wrote.

use super::engine::{Engine, Regime, Sorter};
use super::real::{BLOCK_BYTES, Measured, all_writes, measure};
use super::scheme::NamedWorkload;
use super::workload::Op;
use crate::error::LabError;
use firnfs::clean::{PlacementName, Policy};
use serde::Serialize;

/// The comparison to make.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The users' writes: whole blocks overwritten, none deleted.
    pub workload: NamedWorkload,
    /// Which segments are cleaned.
    pub policy: Policy,
    /// Which log blocks go to, with no more logs than the volume has.
    pub placement: PlacementName,
    /// Data as a share of what the volume offers to users, above 0 and below 1.
    pub utilisation: f64,
    /// Segments of the volume, at least 256.
    pub segments: u32,
    /// Bytes of a segment, a power of two from 256 KiB on.
    pub segment_bytes: u32,
    /// Volumes of data written before measuring.
    pub warm_up_volumes: f64,
    /// Volumes of data written while measuring.
    pub measured_volumes: f64,
    /// Whether blocks are scattered over the file at random; otherwise they are in the workload's order.
    pub scattered: bool,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Data blocks that the file system wrote to the log for each block that users wrote.
    pub file_system: f64,
    /// The same for the simulator.
    pub simulator: f64,
    /// The first over the second.
    pub ratio: f64,
    /// The same for the simulator with nothing fitted.
    pub unfitted: f64,
    /// The first over `unfitted`.
    pub unfitted_ratio: f64,
    /// Further measurements of the file system.
    #[serde(flatten)]
    pub measured: Measured,
    /// Segments of the simulated disk.
    pub simulated_segments: u32,
}

/// Rounds of fitting the simulated disk's segments: the number of clean ones does not depend on their total.
const FITS: usize = 3;

/// Runs one comparison. Reports the share that is done to `progress`, 0 to 1.
///
/// # Errors
/// The volume or the disk cannot be set up as requested; the file system failed.
pub fn compare(setup: &Setup, progress: &mut dyn FnMut(f64)) -> Result<Comparison, LabError> {
    let (measured, writes) = measure(setup, &mut |share| progress(share * 0.9))?;
    let (simulated, simulated_segments) =
        simulate_as_measured(setup, &measured, &writes, &mut |share| progress(0.9 + share * 0.08))?;
    let unfitted = simulate_unfitted(setup, &measured)?.amplification;
    progress(1.0);
    Ok(Comparison {
        file_system: measured.amplification,
        simulator: simulated.amplification,
        ratio: measured.amplification / simulated.amplification,
        unfitted,
        unfitted_ratio: measured.amplification / unfitted,
        measured,
        simulated_segments,
    })
}

/// Simulates the same writes on a disk with as much room for data. Also returns the number of segments.
fn simulate_as_measured(
    setup: &Setup,
    measured: &Measured,
    writes: &[Op],
    progress: &mut dyn FnMut(f64),
) -> Result<(Simulated, u32), LabError> {
    let room = measured.data_segments * measured.blocks_per_segment;
    let segment_blocks = measured.blocks_per_segment.round() as u32;
    let batch = (measured.victims_at_a_time.round() as u32).max(1);
    let logs = measured.placement.logs();
    let number_sort = !measured.placement.placement().sorts_by_age();
    let regime = Regime { batch, number_sort, ..Regime::STEADY.for_logs(logs) };
    let wanted = room / f64::from(segment_blocks);
    let mut segments = wanted.round() as u32 + regime.low + u32::from(logs) + 1;
    let mut fits = 0;
    loop {
        let simulated = simulate(setup, measured, writes, segments, segment_blocks, regime)?;
        fits += 1;
        progress(fits as f64 / FITS as f64);
        let missing = wanted - simulated.closed;
        if missing.abs() < 0.5 || fits == FITS {
            return Ok((simulated, segments));
        }
        segments = (f64::from(segments) + missing).round() as u32;
    }
}

/// Simulates the same writes without any measured condition.
fn simulate_unfitted(setup: &Setup, measured: &Measured) -> Result<Simulated, LabError> {
    let (writes, measured_writes) = all_writes(setup, measured.data_blocks)?;
    let known = Measured { measured_writes, emptiest_share: 0.0, ..measured.clone() };
    let number_sort = !measured.placement.placement().sorts_by_age();
    let regime = Regime { number_sort, ..Regime::STEADY.for_logs(measured.placement.logs()) };
    simulate(setup, &known, &writes, setup.segments, setup.segment_bytes / BLOCK_BYTES, regime)
}

#[derive(Default)]
struct Simulated {
    amplification: f64,
    /// Closed segments, on average.
    closed: f64,
}

/// Writes between two looks at the disk.
const LOOK_EVERY: usize = 1000;

fn simulate(
    setup: &Setup,
    measured: &Measured,
    writes: &[Op],
    segments: u32,
    segment_blocks: u32,
    regime: Regime,
) -> Result<Simulated, LabError> {
    let live = measured.data_blocks;
    let spare = i64::from(segments) * i64::from(segment_blocks) - i64::from(live);
    if spare <= i64::from(regime.high + 2) * i64::from(segment_blocks) {
        return Err(LabError::Setup(format!("{segments} segments are too few for {live} blocks")));
    }
    let units = setup.segment_bytes / BLOCK_BYTES;
    let sorter = Sorter::Placement(measured.placement.placement());
    let mut engine = Engine::new(segments, segment_blocks, live, setup.policy, sorter, regime)
        .seen_as(units)
        .taking_emptiest(measured.emptiest_share);
    let before = writes.len() - measured.measured_writes;
    engine.run(&writes[..before]);
    engine.take_tally();
    let (mut closed, mut looks) = (0, 0);
    for chunk in writes[before..].chunks(LOOK_EVERY) {
        engine.run(chunk);
        closed += engine.disk.closed();
        looks += 1;
    }
    let tally = engine.take_tally();
    Ok(Simulated {
        amplification: 1.0 + tally.moved as f64 / tally.new.max(1) as f64,
        closed: closed as f64 / f64::from(looks.max(1)),
    })
}

#[cfg(test)]
#[path = "crosscheck_tests.rs"]
mod tests;
