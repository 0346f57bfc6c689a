//! `firn sim`: simulations of cleaning and of disks. What is simulated lives in the lab.

mod cleaning;
mod coalescing;
mod crosscheck;
mod figures;

use crate::failure::Done;
use crate::output::Output;
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};

/// What to simulate.
#[derive(Subcommand, Debug)]
pub enum SimCommand {
    /// Find the write cost of cleaning policies and placements under a workload
    Cleaning(cleaning::CleaningArgs),
    /// Compare the simulator with the file system under the same writes
    Crosscheck(crosscheck::CrosscheckArgs),
    /// Find what putting scattered files in order in idle time is worth, on a simulated disk
    Coalescing(coalescing::CoalescingArgs),
    /// Draw the cleaning figures of the Sprite LFS paper again, and compare them with what was published
    Figures(figures::FiguresArgs),
}

/// Runs the command.
///
/// # Errors
/// The simulation cannot be set up as asked, or its result cannot be written.
pub fn run(command: SimCommand, output: &mut Output) -> Done {
    match command {
        SimCommand::Cleaning(args) => cleaning::run(&args, output),
        SimCommand::Crosscheck(args) => crosscheck::run(&args, output),
        SimCommand::Coalescing(args) => coalescing::run(&args, output),
        SimCommand::Figures(args) => figures::run(&args, output),
    }
}

/// Threads for a simulation: as asked, else one for each core.
fn threads(asked: Option<u32>) -> usize {
    asked.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), |n| n as usize)
}

/// A bar for a number of runs, fractions included.
fn progress_bar(runs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent}% of {msg} [{elapsed} + {eta}]");
    ProgressBar::new(runs as u64 * 1000)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(format!("{runs} runs"))
}
