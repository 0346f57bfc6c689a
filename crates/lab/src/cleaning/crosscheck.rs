//! The simulator against the file system: the same writes through both, and the write amplification of data that comes out.
//!
//! The file system runs on a device in memory, in virtual time: a second for each block that a user writes, so that its ages
//! count the same as the simulator's. One file is overwritten in whole blocks. What the simulator leaves out is measured there and
//! given to it as conditions, none of which says anything of what the cleaner moves:
//!
//! - *Room for data.* Segments of metadata, clean ones, and those that wait for checkpoints before they may be written hold no data.
//!   The simulated disk has as many segments as makes its closed ones hold as much, on average, as the closed data segments do.
//! - *Blocks in a segment.* Summaries and padding: what closed data segments were written with, counted in their summaries. A
//!   policy sees the live share of the whole segment in both.
//! - *Writes.* A block written twice before a commit reaches the log once. The simulator gets the writes that reach it.
//! - *Victims at a time*, on average.
//! - *Order.* What is moved out of a batch of victims is written in the order of the file, and so it is in the simulator. Where
//!   that order says something of how often blocks are written, it sorts them; with [`Setup::scattered`] it mixes what lay
//!   apart in the victims.
//!
//! The same comparison is also made with nothing fitted: the simulator gets the volume's segments with as many blocks as their bytes
//! hold, every write that users made, its usual regime, and of the design only the placement and the order within what is moved.
//!
//! Metadata is what is left: bytes in the log by kind for each byte of data that users wrote.

use super::engine::{Engine, Regime, Sorter};
use super::real::{BLOCK_BYTES, Measured, all_writes, measure};
use super::scheme::NamedWorkload;
use super::workload::Op;
use crate::error::LabError;
use firnfs::clean::{PlacementName, Policy};
use serde::Serialize;

/// What is compared.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What users do: whole blocks overwritten, none deleted.
    pub workload: NamedWorkload,
    /// Which segments are cleaned.
    pub policy: Policy,
    /// Which log blocks go to, with no more logs than the volume is made with.
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
    /// Whether each block of the workload is at a place in the file that says nothing of it; else they are in order.
    pub scattered: bool,
    /// Where the random numbers start.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Data blocks written to the log for each that users wrote, by the file system.
    pub file_system: f64,
    /// The same by the simulator.
    pub simulator: f64,
    /// The first over the second.
    pub ratio: f64,
    /// By the simulator with nothing fitted.
    pub unfitted: f64,
    /// The first over that.
    pub unfitted_ratio: f64,
    /// What was measured in the file system beside that.
    #[serde(flatten)]
    pub measured: Measured,
    /// Segments of the simulated disk.
    pub simulated_segments: u32,
}

/// Rounds of fitting the simulated disk's segments: what of them is clean does not depend on how many there are.
const FITS: usize = 3;

/// Runs one comparison. `progress` is told the share that is done, 0 to 1.
///
/// # Errors
/// The volume or the disk cannot be as asked; the file system failed.
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

/// The same writes on a disk that has as much room for data. Also returns how many segments that took.
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

/// The same without anything that was measured.
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
