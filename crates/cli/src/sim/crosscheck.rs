//! `firn sim crosscheck`: compares the simulator with the file system, under the same writes.

use super::{combinations, with_bar};
use crate::completion::values;
use crate::failure::{Done, Failure};
use crate::output::Output;
use clap::Args;
use firnfs::clean::names::{AGE_THRESHOLD, AGELESS_POLICIES, PLACEMENTS};
use firnfs::clean::{PlacementName, Policy};
use firnfs_lab::LabError;
use firnfs_lab::cleaning::crosscheck::{Comparison, Setup, compare};
use firnfs_lab::cleaning::scheme::{NamedWorkload, utilisation};
use firnfs_lab::micro::table::markdown;
use serde::Serialize;

/// Arguments of `firn sim crosscheck`.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Workloads:  those of firn sim cleaning that delete nothing
Policies:   {AGELESS_POLICIES}, {AGE_THRESHOLD}
Placements: {PLACEMENTS}

Examples:
  firn sim crosscheck                     uniform and hot and cold, 75% and 85% full: a minute or two
  firn sim crosscheck --workload zipf:1,shift:2 --placement split,dac-leap:5
  firn sim crosscheck --utilisation 0.75 --segments 256 --segment-size 256K --json

One file on a volume in memory is overwritten block by block, in virtual time, one block a second.
Then the simulator gets the writes that reached the log, as much room for data as the volume had on
average, and segments of as many blocks as fit beside their summaries. \"Nothing fitted\" is the
simulator without these adjustments, with the volume's segments as they are. Shares refer to the
space that the volume offers to users. Metadata is in bytes of log for each byte of data written.
The command fails if the first ratio differs from 1 by more than --within."))]
pub struct CrosscheckArgs {
    /// Writes of users; several with commas
    #[arg(long, value_delimiter = ',', default_value = "uniform,hot-cold")]
    workload: Vec<NamedWorkload>,
    /// How the segments to clean are chosen; several with commas
    #[arg(long, value_delimiter = ',', default_values_t = [Policy::default()], add = values::policies())]
    policy: Vec<Policy>,
    /// How the open log for a block is chosen; several with commas
    #[arg(long, value_delimiter = ',', default_values_t = [PlacementName::Split, PlacementName::LeapingDac(5)], add = values::placements())]
    placement: Vec<PlacementName>,
    /// Data as a share of what the volume offers; several with commas
    #[arg(long, value_delimiter = ',', value_parser = utilisation, default_value = "0.75,0.85")]
    utilisation: Vec<f64>,
    /// Segments of the volume
    #[arg(long, default_value_t = 768, value_parser = clap::value_parser!(u32).range(256..=1 << 16))]
    segments: u32,
    /// Size of a segment
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = segment_bytes)]
    segment_size: u32,
    /// Volumes of data written before measuring
    #[arg(long, default_value_t = 4.0)]
    warm_up: f64,
    /// Volumes of data written while measuring
    #[arg(long, default_value_t = 4.0)]
    volumes: f64,
    /// Put often written blocks side by side in the file; otherwise each block is at a random place
    #[arg(long)]
    in_order: bool,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Largest difference allowed between file system and simulator, as a share
    #[arg(long, default_value_t = 0.05)]
    within: f64,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

fn segment_bytes(text: &str) -> Result<u32, String> {
    let bytes = crate::args::size(text)?;
    let fits = bytes.is_power_of_two() && (256 << 10..=64 << 20).contains(&bytes);
    u32::try_from(bytes).ok().filter(|_| fits).ok_or_else(|| "a power of two from 256K to 64M".to_owned())
}

/// One row of the result.
#[derive(Serialize)]
struct Row {
    workload: String,
    policy: String,
    placement: String,
    utilisation: f64,
    #[serde(flatten)]
    comparison: Comparison,
}

#[derive(Serialize)]
struct View {
    rows: Vec<Row>,
}

/// Runs the command.
///
/// # Errors
/// A volume cannot be set up as requested, or file system and simulator disagree.
pub(super) fn run(args: &CrosscheckArgs, output: &mut Output) -> Done {
    let setups = setups(args);
    let rows = with_bar(setups.len(), |done| {
        let numbered = setups.iter().enumerate();
        let run = |(n, setup)| Ok(row(setup, compare(setup, &mut |share| done(n as f64 + share))?));
        numbered.map(run).collect::<Result<Vec<Row>, LabError>>()
    });
    let view = View { rows: rows.map_err(|e| Failure::failed(e.to_string()))? };
    output.show(args.json, &view, |out| out.write_all(text(&view).as_bytes()))?;
    let is_off = |row: &&Row| (row.comparison.ratio - 1.0).abs() > args.within;
    match view.rows.iter().filter(is_off).count() {
        0 => Ok(()),
        off => {
            Err(Failure::failed(format!("{off} of {} differ by more than {}", view.rows.len(), args.within)))
        }
    }
}

fn setups(args: &CrosscheckArgs) -> Vec<Setup> {
    let of_workload = |workload: &NamedWorkload| {
        let all = combinations(&args.utilisation, &args.policy, &args.placement);
        all.map(|(utilisation, policy, placement)| Setup {
            workload: workload.clone(),
            policy,
            placement,
            utilisation,
            segments: args.segments,
            segment_bytes: args.segment_size,
            warm_up_volumes: args.warm_up,
            measured_volumes: args.volumes,
            scattered: !args.in_order,
            seed: args.seed,
        })
        .collect::<Vec<_>>()
    };
    args.workload.iter().flat_map(of_workload).collect()
}

fn row(setup: &Setup, comparison: Comparison) -> Row {
    Row {
        workload: setup.workload.name.clone(),
        policy: setup.policy.to_string(),
        placement: comparison.measured.placement.to_string(),
        utilisation: setup.utilisation,
        comparison,
    }
}

fn text(view: &View) -> String {
    let header = [
        "workload",
        "full",
        "policy",
        "placement",
        "file system",
        "simulator",
        "ratio",
        "nothing fitted",
        "ratio",
        "segments: data + metadata + clean",
        "blocks each",
        "victims",
        "absorbed",
        "metadata",
    ];
    let rows: Vec<Vec<String>> = view.rows.iter().map(cells).collect();
    let mut text = markdown(&header, &rows);
    text += "\nMetadata by kind, bytes for each byte of data written:\n";
    for row in &view.rows {
        let kinds = row.comparison.measured.metadata.iter();
        let kinds: Vec<String> = kinds.map(|(kind, share)| format!("{kind} {share:.3}")).collect();
        text += &format!("  {} {}, {}: {}\n", row.workload, row.utilisation, row.placement, kinds.join(", "));
    }
    text
}

fn cells(row: &Row) -> Vec<String> {
    let Comparison { file_system, simulator, ratio, unfitted, unfitted_ratio, measured, .. } =
        &row.comparison;
    vec![
        row.workload.clone(),
        format!("{}", row.utilisation),
        row.policy.clone(),
        row.placement.clone(),
        format!("{file_system:.3}"),
        format!("{simulator:.3}"),
        format!("{ratio:.3}"),
        format!("{unfitted:.3}"),
        format!("{unfitted_ratio:.3}"),
        format!(
            "{:.1} + {:.1} + {:.1}",
            measured.data_segments, measured.metadata_segments, measured.clean_segments
        ),
        format!("{:.1}", measured.blocks_per_segment),
        format!("{:.1}", measured.victims_at_a_time),
        format!("{:.1}%", measured.absorbed * 100.0),
        format!("{:.3}", measured.metadata.values().sum::<f64>()),
    ]
}
