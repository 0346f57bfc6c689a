//! `firn age`: studies what use does to file systems (File System Aging, SIGMETRICS'97).
//!
//! `target` takes the snapshot of whatever the command line names, `service` answers for a mounted volume; each command has its
//! file: `snapshot`, `layout`, `workload`, `replay`, `compare`, `bench`. `watch` shows a replay.

mod bench;
mod compare;
mod layout;
mod replay;
pub mod service;
mod snapshot;
mod target;
mod watch;
mod workload;

use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::sizes::Count;
use bench::BenchArgs;
use clap::Subcommand;
use compare::CompareArgs;
use firnfs_lab::LabError;
use layout::LayoutArgs;
use replay::ReplayArgs;
use snapshot::SnapshotArgs;
use workload::WorkloadArgs;

/// What to do.
#[derive(Subcommand, Debug)]
pub enum AgeCommand {
    /// Save which files a file system has and where their blocks lie
    Snapshot(SnapshotArgs),
    /// Show how well files are laid out: layout scores, split files, free space
    Layout(LayoutArgs),
    /// Make a workload that ages a file system, from snapshots, a git repository, or at random
    Workload(WorkloadArgs),
    /// Age a file system: replay a workload on it
    Replay(ReplayArgs),
    /// Measure reading and writing: files of one size after the other, and files that changed lately
    Bench(BenchArgs),
    /// Age firnfs and other file systems by one workload, and report what that did to each
    Compare(CompareArgs),
}

/// Runs the command.
///
/// # Errors
/// A path cannot be read or written, or is damaged.
pub fn run(command: &AgeCommand, output: &mut Output) -> Done {
    match command {
        AgeCommand::Snapshot(args) => snapshot::run(args, output),
        AgeCommand::Layout(args) => layout::run(args, output),
        AgeCommand::Workload(args) => workload::run(args, output),
        AgeCommand::Replay(args) => replay::run(args, output),
        AgeCommand::Bench(args) => bench::run(args, output),
        AgeCommand::Compare(args) => compare::run(args, output),
    }
}

fn failed(error: LabError) -> Failure {
    match error {
        LabError::Io { action, path, source } => Failure::io(&format!("cannot {action}"), &path, &source),
        LabError::Volume { action, source } => Failure::fs(format_args!("cannot {action}"), &source),
        LabError::Interrupted => Failure::new(crate::interrupt::exit(), "interrupted"),
        other => Failure::failed(other.to_string()),
    }
}

/// For files that a layout has to leave out.
fn unmapped(files: u64) -> String {
    Count(files).of("file does not say where its blocks lie", "files do not say where their blocks lie")
}
