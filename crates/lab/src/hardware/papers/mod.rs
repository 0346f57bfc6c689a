//! The figures and tables of the papers, from one command: each printed with the paper's values beside ours, drawn as SVG with
//! its numbers as CSV, and shown in pages of HTML (`html`).
//!
//! A `unit` makes a figure or table (`figure`). It names the `runs` that it needs; each of them is made once, also if several
//! figures show it. `sprite`, `bsd` and `usenix` have the figures of the papers 001, 004 and 000, `transactions` those with
//! TPC-B, `fragmented` that of the aged FFS, `production` those of file systems in use, `heuristic` those of 002
//! (`heuristic_beyond` what lies beyond them), `andrew_users` those with several users, `aging` and `aging_policies` those of
//! 003. `sprite_short` has two short experiments of 001 (`small_runs` runs them), `andrew` the Andrew benchmark (`tree` runs it),
//! `beyond` what no paper asked; `load` is TPC-B with the cleaner at work. `scheme` and `aging_style` have the names and styles
//! of file systems, `size` says how much is run, `parts` is what several figures share. Nothing in the output depends on the time
//! or on the number of threads: two runs write the same bytes. Caller: `firn paper`.

mod aging;
mod aging_policies;
mod aging_style;
mod andrew;
mod andrew_users;
mod beyond;
mod bsd;
mod figure;
mod fragmented;
mod heuristic;
mod heuristic_beyond;
mod html;
mod load;
mod parts;
mod production;
mod runs;
mod scheme;
mod size;
mod small_runs;
mod sprite;
mod sprite_short;
mod transactions;
mod tree;
mod unit;
mod usenix;

pub use figure::{Figure, Table, deviation, number, published};
pub use size::Size;

use crate::error::LabError;
use crate::plot::{self, Origin};
use runs::{Job, Runs};
use std::path::Path;
use unit::Unit;

/// Seed of all random numbers.
const SEED: u64 = 1;

/// All units, in the order of the pages.
fn units() -> Vec<Unit> {
    let parts: [&[Unit]; 18] = [
        &sprite_short::FIRST,
        &sprite::UNITS,
        &production::CLEANING,
        &sprite_short::RECOVERY,
        &production::OVERHEADS,
        &bsd::UNITS,
        &andrew::UNITS,
        &andrew_users::UNITS,
        &transactions::OF_BSD,
        &usenix::UNITS,
        &transactions::OF_USENIX,
        &fragmented::UNITS,
        &heuristic::UNITS,
        &aging::UNITS,
        &aging_policies::UNITS,
        &transactions::BEYOND,
        &beyond::UNITS,
        &heuristic_beyond::UNITS,
    ];
    parts.concat()
}

/// Names and titles of all figures and tables.
#[must_use]
pub fn list() -> Vec<(&'static str, &'static str)> {
    units().iter().map(|unit| (unit.id, unit.title)).collect()
}

/// Figures that are going to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    units: Vec<Unit>,
    jobs: Vec<Job>,
    size: Size,
}

impl Plan {
    /// The figures of these names; all for a name of a whole paper, such as `001`.
    ///
    /// # Errors
    /// There is no such figure.
    pub fn of(names: &[String], size: Size) -> Result<Self, LabError> {
        let all = units();
        let is_meant = |unit: &Unit, name: &str| {
            unit.id == name || unit.id.split_once('/').is_some_and(|(paper, _)| paper == name)
        };
        if let Some(name) = names.iter().find(|name| !all.iter().any(|unit| is_meant(unit, name))) {
            return Err(LabError::Setup(format!("there is no figure {name}")));
        }
        Ok(Self::made_of(all.into_iter().filter(|unit| names.iter().any(|name| is_meant(unit, name))), size))
    }

    /// All figures.
    #[must_use]
    pub fn all(size: Size) -> Self {
        Self::made_of(units().into_iter(), size)
    }

    fn made_of(units: impl Iterator<Item = Unit>, size: Size) -> Self {
        let units: Vec<Unit> = units.collect();
        let mut jobs: Vec<Job> = units.iter().flat_map(|unit| (unit.jobs)(&size)).collect();
        jobs.sort_unstable();
        jobs.dedup();
        Self { units, jobs, size }
    }

    /// How many benchmarks are run.
    #[must_use]
    pub fn run_count(&self) -> usize {
        self.jobs.len()
    }

    /// Runs the benchmarks and makes the figures.
    ///
    /// # Errors
    /// A volume cannot be made, or a file system failed.
    pub fn make(
        &self,
        threads: usize,
        progress: &mut (dyn FnMut(f64) + Send),
    ) -> Result<Vec<Figure>, LabError> {
        let runs = Runs::of(&self.jobs, &self.size, threads, progress)?;
        self.units.iter().map(|unit| (unit.make)(&runs, &self.size)).collect()
    }
}

/// Writes the drawings with their numbers, a page for each paper, one of all claims, and `index.html`.
///
/// # Errors
/// A drawing cannot be drawn, or a file cannot be written.
pub fn write(directory: &Path, figures: &[Figure], command: &str) -> Result<(), LabError> {
    std::fs::create_dir_all(directory).map_err(LabError::io("create", directory))?;
    let origin = Origin::seeded(command, SEED);
    for figure in figures {
        plot::write_drawings(directory, &figure.drawings, &origin)?;
    }
    for (name, text) in html::pages(figures, &origin)? {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(LabError::io("write", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod doctored_tests;
#[cfg(test)]
mod style_tests;
#[cfg(test)]
mod tests;
