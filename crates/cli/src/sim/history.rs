//! `firn sim history`: what keeping the past costs, for two designs of the format (docs/decisions/0207).

use super::{threads, with_bar};
use crate::failure::{Done, Failure};
use crate::output::Output;
use clap::Args;
use firnfs_lab::cleaning::scheme::{self, NamedWorkload, PlacementName, PolicyName};
use firnfs_lab::history::{self, Design, Outcome, Setup};
use firnfs_lab::micro::table::markdown;
use serde::Serialize;

/// Arguments of `firn sim history`.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Workloads: {}

Examples:
  firn sim history                       the table of decision 0207
  firn sim history --live 0.6 --past 0.3 a longer past
  firn sim history --workload zipf       another workload

Blocks and segments only, as in firn sim cleaning. For each workload four runs: as
many live blocks without a past, live and past together as live blocks, and the two
designs with a past. Write amplification counts tables.", scheme::WORKLOADS))]
pub struct HistoryArgs {
    /// What users write; may be given several times
    #[arg(long, value_name = "NAME", default_values = ["uniform", "hot-cold", "zipf"])]
    workload: Vec<NamedWorkload>,
    /// How segments to clean are chosen
    #[arg(long, value_name = "NAME", default_value_t = PolicyName::default())]
    policy: PolicyName,
    /// How the open log for a block is chosen
    #[arg(long, value_name = "NAME", default_value_t = PlacementName::default())]
    placement: PlacementName,
    /// Share of the volume that users see, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.7)]
    live: f64,
    /// Share that only points in time see, at most; the oldest points go first
    #[arg(long, value_name = "SHARE", default_value_t = 0.2)]
    past: f64,
    /// Points made while users write as many blocks as they see
    #[arg(long, value_name = "N", default_value_t = 200)]
    points: u32,
    /// Segments of the volume
    #[arg(long, value_name = "N", default_value_t = 1024)]
    segments: u32,
    /// Blocks of a segment
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(2..=65_536))]
    segment_blocks: u32,
    /// Blocks that users write between two commits: 4096 are the write threshold, 16 MiB
    #[arg(long, value_name = "N", default_value_t = 4096)]
    commit_blocks: u32,
    /// Volumes written while measuring; as many are written before
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    volumes: u32,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct View {
    policy: String,
    placement: String,
    points_per_volume: u32,
    segments: u32,
    segment_blocks: u32,
    commit_blocks: u32,
    seed: u64,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    workload: String,
    design: Design,
    live: f64,
    past_max: f64,
    /// Times the write amplification of a volume with as many blocks, all of them live.
    ratio_to_live: f64,
    #[serde(flatten)]
    outcome: Outcome,
}

/// Runs the command.
///
/// # Errors
/// The simulation cannot be set up as requested.
pub(super) fn run(args: &HistoryArgs, output: &mut Output) -> Done {
    let setups: Vec<Setup> = args.workload.iter().flat_map(|workload| setups(args, workload)).collect();
    let outcomes = with_bar(setups.len(), |progress| history::run_all(&setups, threads(None), progress))
        .map_err(|error| Failure::usage(error.to_string()))?;
    let all_live: Vec<f64> = outcomes.chunks(RUNS).map(|four| four[1].write_amplification.mean).collect();
    let rows = setups.iter().zip(outcomes).enumerate().map(|(n, (setup, outcome))| Row {
        workload: setup.workload.name.clone(),
        design: setup.design,
        live: setup.live,
        past_max: setup.past,
        ratio_to_live: outcome.write_amplification.mean / all_live[n / RUNS],
        outcome,
    });
    let view = View {
        policy: args.policy.to_string(),
        placement: args.placement.to_string(),
        points_per_volume: args.points,
        segments: args.segments,
        segment_blocks: args.segment_blocks,
        commit_blocks: args.commit_blocks,
        seed: args.seed,
        rows: rows.collect(),
    };
    output.show(args.json, &view, |out| out.write_all(text(&view).as_bytes()))
}

/// Runs for each workload; the second has as many live blocks as the others have blocks.
const RUNS: usize = 4;

fn setups(args: &HistoryArgs, workload: &NamedWorkload) -> [Setup; RUNS] {
    let of = |design, live, past| Setup {
        workload: workload.clone(),
        policy: args.policy,
        placement: args.placement,
        live,
        past,
        design,
        segments: args.segments,
        segment_blocks: args.segment_blocks,
        points: args.points,
        commit_blocks: args.commit_blocks,
        seed: args.seed,
        volumes: args.volumes,
    };
    [
        of(Design::None, args.live, 0.0),
        of(Design::None, args.live + args.past, 0.0),
        of(Design::Remnants, args.live, args.past),
        of(Design::VirtualNumbers, args.live, args.past),
    ]
}

fn text(view: &View) -> String {
    let header = [
        "workload",
        "live",
        "past",
        "design",
        "amplification",
        "to all live",
        "past moved",
        "tables",
        "table size",
        "points",
        "hops",
    ];
    let rows: Vec<Vec<String>> = view.rows.iter().map(cells).collect();
    markdown(&header, &rows)
}

fn cells(row: &Row) -> Vec<String> {
    let outcome = &row.outcome;
    let percent = |share: f64| format!("{:.1}%", share * 100.0);
    let is_with_past = row.design != Design::None;
    let if_past = |text: String| if is_with_past { text } else { "-".to_owned() };
    vec![
        row.workload.clone(),
        percent(row.live),
        percent(outcome.past),
        row.design.to_string(),
        format!("{:.2} ± {:.2}", outcome.write_amplification.mean, outcome.write_amplification.half_width),
        format!("{:.2}", row.ratio_to_live),
        if_past(format!("{:.2}", outcome.moved_past)),
        if_past(format!("{:.3}", outcome.table_written)),
        if_past(percent(outcome.table)),
        if_past(outcome.points.to_string()),
        if_past(format!("{:.2}, at most {}", outcome.hops_mean, outcome.hops_max)),
    ]
}
