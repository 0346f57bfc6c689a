//! `firn sim figures`: draws the figures of the paper from simulations.

use super::{threads, with_bar};
use crate::failure::{Done, Failure};
use crate::output::Output;
use clap::Args;
use firnfs_lab::cleaning::figures;
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `firn sim figures`.
#[derive(Args, Debug)]
#[command(after_help = "Example:
  firn sim figures --out figures      figures 3 to 7 as SVG, and report.md with published values beside ours

Takes a minute or two. Prints the report, and fails if a row of it holds although it is recorded as not
holding, or the reverse.")]
pub struct FiguresArgs {
    /// Directory for the SVG files and report.md; made if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Threads [default: one for each core]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct View {
    /// The directory.
    out: PathBuf,
    /// The content of report.md.
    report: String,
    /// Every row holds or fails as it is recorded.
    as_recorded: bool,
}

/// Runs the command.
///
/// # Errors
/// A file cannot be written, or the outcome of a claim differs from the recorded one.
pub(super) fn run(args: &FiguresArgs, output: &mut Output) -> Done {
    let made = with_bar(figures::run_count(), |done| figures::make(&args.out, threads(args.threads), done));
    let (report, as_recorded) = made.map_err(|e| Failure::failed(e.to_string()))?;
    let view = View { out: args.out.clone(), report, as_recorded };
    output.show(args.json, &view, |out| out.write_all(view.report.as_bytes()))?;
    if as_recorded {
        return Ok(());
    }
    Err(Failure::failed("some rows differ from what is recorded")
        .advise("see the rows with NO or YES in capitals above"))
}
