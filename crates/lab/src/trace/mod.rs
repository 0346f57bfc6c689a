//! Traces in virtual time, after Blackwell, Harris and Seltzer, *Heuristic Cleaning Algorithms in Log-Structured File Systems*, USENIX
//! 1995 (paper 002): the real log on a simulated disk, at the times of a workload file.
//!
//! `generator` makes traces with the counts of the paper's servers (`servers`). `survey` is the first pass over a trace,
//! `initial` builds the state before it, `replay` carries it out. `setup` makes the volume and the cleaner, `driver` drives the
//! log, `pages` is the cache above it, `disk` is the queue that it meets, `sectors` what is stored there, `learned` a cleaner's
//! threshold, `matched` and `names` find out which file a record is about; `histogram` counts values by size. Callers:
//! `firn sim trace`. Page: docs/internals/traces.md.

mod disk;
mod driver;
mod generator;
mod histogram;
mod initial;
mod learned;
mod matched;
mod names;
mod pages;
mod replay;
mod sectors;
mod servers;
mod setup;
mod survey;
#[cfg(test)]
mod tests;

pub use disk::DiskSeen;
pub(crate) use driver::{Driver, IdleRule};
pub use generator::{Generated, Synthetic};
pub use histogram::Histogram;
pub(crate) use matched::Matched;
pub use matched::Matches;
pub(crate) use names::nameless;
pub use replay::{Replayed, Steps, run, run_side_by_side};
pub use servers::{SERVERS, Server};
pub use setup::{Cleaner, Model, Setup};
pub use survey::Survey;

use crate::error::LabError;
use firnfs_workload::Record;

/// Records that can be read several times, each time the same ones.
pub trait Records: Sync {
    /// From the first record on.
    ///
    /// # Errors
    /// They cannot be read.
    fn open(&self) -> Result<Box<dyn Iterator<Item = Result<Record, LabError>> + '_>, LabError>;
}

/// What a replay is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It writes the state before the trace.
    Building,
    /// It replays.
    Replaying,
}

/// Is told how much of a phase is done.
pub struct Progress<'a>(pub &'a (dyn Fn(Phase, f64) + Sync));

impl Progress<'_> {
    fn show(&self, phase: Phase, share: f64) {
        (self.0)(phase, share);
    }
}
