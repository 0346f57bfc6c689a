//! `firn sim`: simulations of cleaning and of disks. The lab contains the simulations.
//!
//! `cleaning`, `crosscheck`, `figures`, `history`, `disk`, `coalescing`, `comparison`, `paper` and `trace` are a command each.
//! `watch` and `watch_trace` show `cleaning` and `trace` while they run, at the speed of `pace`.

mod cleaning;
mod coalescing;
mod comparison;
mod crosscheck;
mod disk;
mod figures;
mod history;
mod pace;
mod paper;
mod trace;
mod watch;
mod watch_trace;

use crate::failure::Done;
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::Count;
use clap::Subcommand;
pub use pace::{PARTS, Pace};

/// What to simulate.
#[derive(Subcommand, Debug)]
pub enum SimCommand {
    /// Measure the write cost of cleaning policies and placements under a workload
    Cleaning(cleaning::CleaningArgs),
    /// Compare the simulator with the file system under the same writes
    Crosscheck(crosscheck::CrosscheckArgs),
    /// Measure how much faster files are read after idle time has put them in order, on a simulated disk
    Coalescing(coalescing::CoalescingArgs),
    /// Replay a workload on the log and a simulated disk, in virtual time
    Trace(trace::TraceArgs),
    /// Draw the cleaning figures of the Sprite LFS paper, and compare them with the published values
    Figures(figures::FiguresArgs),
    /// Measure what keeping the past costs, for two designs of the format
    History(history::HistoryArgs),
    /// Show the properties of a simulated disk, and the time of requests on it
    Disk(disk::DiskArgs),
    /// Run the papers' benchmarks on simulated machines and disks of their time
    Paper(paper::PaperArgs),
    /// Compare the log with the Fast File System as the papers do, and the results with theirs
    Comparison(comparison::ComparisonArgs),
}

/// Runs the command.
///
/// # Errors
/// The simulation cannot be set up as requested, or its result cannot be written.
pub fn run(command: SimCommand, output: &mut Output) -> Done {
    match command {
        SimCommand::Cleaning(args) => cleaning::run(&args, output),
        SimCommand::Crosscheck(args) => crosscheck::run(&args, output),
        SimCommand::Coalescing(args) => coalescing::run(&args, output),
        SimCommand::Trace(args) => trace::run(&args, output),
        SimCommand::Figures(args) => figures::run(&args, output),
        SimCommand::History(args) => history::run(&args, output),
        SimCommand::Disk(args) => disk::run(&args, output),
        SimCommand::Paper(args) => paper::run(&args, output),
        SimCommand::Comparison(args) => comparison::run(&args, output),
    }
}

/// Threads for a simulation: as requested, else one for each core.
fn threads(asked: Option<u32>) -> usize {
    asked.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), |n| n as usize)
}

/// Does some work with a progress bar; the work reports how many runs are done, fractions included.
fn with_bar<T>(runs: usize, work: impl FnOnce(&mut (dyn FnMut(f64) + Send)) -> T) -> T {
    let bar = Bar::of_share();
    work(&mut |done| {
        bar.show((done * 1000.0) as u64, runs as u64 * 1000, Count(runs as u64).of("run", "runs"))
    })
}

/// Every combination of the three parameters of a run; the last varies fastest.
fn combinations<P: Copy, L: Copy>(
    utilisations: &[f64],
    policies: &[P],
    placements: &[L],
) -> impl Iterator<Item = (f64, P, L)> {
    utilisations.iter().flat_map(move |&utilisation| {
        policies.iter().flat_map(move |&policy| {
            placements.iter().map(move |&placement| (utilisation, policy, placement))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_come_in_the_order_of_the_lists_the_last_fastest() {
        let all: Vec<_> = combinations(&[0.5, 0.6], &['p', 'q'], &[1]).collect();
        assert_eq!(all, [(0.5, 'p', 1), (0.5, 'q', 1), (0.6, 'p', 1), (0.6, 'q', 1)]);
    }
}
