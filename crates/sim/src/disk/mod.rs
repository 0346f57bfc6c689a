//! Models of disks: the time of a command, given the commands before it. Pure: no clock, no contents; time is a parameter, in
//! nanoseconds.
//!
//! From the bottom up: [`layout`] (where sectors are), [`rotation`] and [`seek`] (times of turning and moving), [`media`] (both
//! together), `ahead` (the track buffer), [`mechanical`], [`flash`] and `constant` (whole disks), [`model`] (any of them), [`order`] (the
//! queue in front). [`params`] reads them from files, [`library`] has the files that come with the program. `timed` makes a device
//! of a model and a clock.

mod ahead;
mod constant;
pub mod flash;
pub mod layout;
pub mod library;
pub mod mechanical;
pub mod media;
pub mod model;
pub mod order;
pub mod params;
pub mod rotation;
pub mod seek;

pub use layout::Lbn;
pub use mechanical::SECTOR_BYTES;
pub use model::DiskModel;
pub use params::{DiskParams, ParamError};

/// The kind of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Reads sectors.
    Read,
    /// Writes sectors.
    Write,
    /// Makes all completed writes durable.
    Flush,
    /// Discards sectors.
    Discard,
}

/// A command to a disk; a request of a device is one or several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// What it does.
    pub work: Work,
    /// The first sector; 0 for a flush.
    pub lbn: Lbn,
    /// Number of sectors; 0 for a flush, else at least 1.
    pub sectors: u64,
}

/// The time of a command, by parts that add up. In nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Service {
    /// When it started.
    pub start_ns: i64,
    /// Overhead of the controller; of a solid-state disk, its latency.
    pub controller_ns: i64,
    /// Waiting for the arm, the buffer, or other commands.
    pub wait_ns: i64,
    /// Moving the arm, or switching heads.
    pub seek_ns: i64,
    /// Waiting for the first sector; on a disk of constant times, passing over bytes.
    pub rotation_ns: i64,
    /// From the first sector's beginning to the last one's end.
    pub media_ns: i64,
    /// Time on the bus that nothing else overlaps.
    pub bus_ns: i64,
    /// Cylinders that the arm moved over.
    pub distance: u32,
    /// The buffer served it.
    pub is_hit: bool,
}

impl Service {
    /// A service that takes no time.
    #[must_use]
    pub fn at(start_ns: i64) -> Self {
        Self { start_ns, ..Self::default() }
    }

    /// The sum of the parts.
    #[must_use]
    pub fn took_ns(&self) -> i64 {
        self.controller_ns + self.wait_ns + self.seek_ns + self.rotation_ns + self.media_ns + self.bus_ns
    }

    /// When it is complete.
    #[must_use]
    pub fn end_ns(&self) -> i64 {
        self.start_ns + self.took_ns()
    }
}

/// Milliseconds as whole nanoseconds.
pub(crate) fn ns(ms: f64) -> i64 {
    (ms * 1e6).round() as i64
}
