//! `firn sim comparison`: what the papers say of the Fast File System, and of the log against it, claim by claim.

use super::with_bar;
use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::sizes::Count;
use clap::Args;
use firnfs_lab::hardware::comparison::{self, Row, Scale};
use serde::Serialize;

/// Arguments of `firn sim comparison`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn sim comparison              everything at the papers' sizes
  firn sim comparison --short      fewer and smaller files

Runs both file systems on the papers' machines and disks, in memory and in virtual time: the values are the same
on every machine. Prints a row for each claim, with its condition, the published value and tolerance, and ours,
and fails if a row holds although it is recorded as not holding, or the reverse. See
docs/internals/simulated-hardware.md.")]
pub struct ComparisonArgs {
    /// Fewer and smaller files: seconds instead of minutes
    #[arg(long)]
    short: bool,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct View {
    rows: Vec<Judged>,
}

#[derive(Serialize)]
struct Judged {
    #[serde(flatten)]
    row: Row,
    holds: bool,
}

/// Runs the command.
///
/// # Errors
/// A file system failed, or the outcome of a row differs from the recorded one.
pub(super) fn run(args: &ComparisonArgs, output: &mut Output) -> Done {
    let scale = if args.short { Scale::SHORT } else { Scale::PAPER };
    let rows = with_bar(comparison::step_count(), |done| comparison::run(&scale, done));
    let rows = rows.map_err(|error| Failure::failed(error.to_string()))?;
    let text = comparison::markdown(&rows);
    let others = rows.iter().filter(|row| !row.claim.is_as_recorded()).count();
    let view = View { rows: rows.into_iter().map(|row| Judged { holds: row.claim.holds(), row }).collect() };
    output.show(args.json, &view, |out| out.write_all(text.as_bytes()))?;
    if others == 0 {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "{} from what is recorded",
        Count(others as u64).of("row differs", "rows differ")
    ))
    .advise("see the rows with NO or YES in capitals above"))
}
