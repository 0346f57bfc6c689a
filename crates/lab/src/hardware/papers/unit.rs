//! A unit: a figure or table that the command can make, with the benchmarks that it needs.

use super::figure::Figure;
use super::runs::{Job, Runs};
use super::size::Size;
use crate::error::LabError;

/// See the module's head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    /// Its name on the command line: `001/fig8`.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The benchmarks that it needs.
    pub jobs: fn(&Size) -> Vec<Job>,
    /// Makes it from their results.
    pub make: fn(&Runs, &Size) -> Result<Figure, LabError>,
}
