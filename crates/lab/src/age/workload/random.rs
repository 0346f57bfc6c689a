//! The random ager of Herrin and Finkel, as a contrast: makes and deletes files of random sizes at random until the file system
//! is as full as it should be, and then for as long as wanted. It has no days, no neighbours and no bursts.

use super::{Act, Counts, Emitter, Event, ROOT};
use crate::error::LabError;
use firnfs_workload::{Header, Origin};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::io::Write;

/// What it does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Random {
    /// Size of the file system in bytes.
    pub size_bytes: u64,
    /// How full it should be, 1 to 99.
    pub full_percent: u32,
    /// Creates and deletes in all.
    pub operations: u64,
    /// For all choices.
    pub seed: u64,
}

impl Random {
    const DIRECTORIES: u64 = 64;
    /// Sizes: the logarithm is uniform.
    const SIZES_BYTES: (f64, f64) = (512.0, 4_194_304.0);
    /// Time between two operations.
    const STEP_NS: u64 = 1_000_000_000;
    const START_NS: u64 = 700_000_000_000_000_000;

    fn header(&self) -> Header {
        let mut header = Header::new(Origin::Made);
        header.start_ns = Self::START_NS;
        let mut option = |name: &str, value: String| header.options.push((name.to_owned(), value));
        option("from", "random".to_owned());
        option("size_bytes", self.size_bytes.to_string());
        option("full_percent", self.full_percent.to_string());
        option("seed", self.seed.to_string());
        header
    }
}

/// Writes the workload.
///
/// # Errors
/// Writing failed.
pub fn random(plan: &Random, out: impl Write) -> Result<Counts, LabError> {
    let mut emitter = Emitter::new(out, &plan.header())?;
    let mut rng = Pcg64Mcg::seed_from_u64(plan.seed);
    let goal_bytes = plan.size_bytes / 100 * u64::from(plan.full_percent);
    let (mut live, mut live_bytes): (Vec<(u64, u64, u64)>, u64) = (Vec::new(), 0);
    let mut next_file = ROOT + Random::DIRECTORIES + 1;
    for nth in 0..plan.operations {
        let time_ns = (Random::START_NS + nth * Random::STEP_NS).cast_signed();
        if live_bytes < goal_bytes || live.is_empty() {
            let (from, to) = Random::SIZES_BYTES;
            let size_bytes = (from * (to / from).powf(rng.random::<f64>())) as u64;
            let dir = ROOT + 1 + rng.random_range(0..Random::DIRECTORIES);
            emitter.event(&Event { time_ns, dir, file: next_file, act: Act::Create { size_bytes } })?;
            live.push((next_file, dir, size_bytes));
            live_bytes += size_bytes;
            next_file += 1;
        } else {
            let (file, dir, size_bytes) = live.swap_remove(rng.random_range(0..live.len()));
            emitter.event(&Event { time_ns, dir, file, act: Act::Delete })?;
            live_bytes -= size_bytes;
        }
    }
    emitter.finish()
}
