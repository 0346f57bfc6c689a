//! `firn sim cleaning`: every combination of the given workloads, policies, placements and utilisations.

use super::{combinations, threads, with_bar};
use crate::completion::values;
use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::watch::SimulationArgs;
use clap::Args;
use firnfs_lab::cleaning::scheme::{
    NamedWorkload, PlacementName, PolicyName, WORKLOADS, placements, policies, utilisation,
};
use firnfs_lab::cleaning::{Outcome, Regime, Setup, Until, VictimOrder, batch};
use firnfs_lab::micro::table::markdown;
use serde::Serialize;
use std::time::Instant;

/// Arguments of `firn sim cleaning`.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Workloads:  {WORKLOADS}
Policies:   {policies}
Placements: {placements}

Examples:
  firn sim cleaning                              the default on hot and cold data, 75% full
  firn sim cleaning --policy greedy,cost-benefit --placement one,split --utilisation 0.5,0.75
  firn sim cleaning --workload zipf:1,shift:2 --placement dac,sepbit,mida,oracle --json
  firn sim cleaning --workload trace:writes.txt  lines \"w BLOCK [COUNT]\" and \"d BLOCK [COUNT]\"
  firn sim cleaning --sprite 20 --batch 10 --age-sort --placement one   as Sprite LFS's simulator
  firn sim cleaning --single-pass --batch 2 --age-sort --placement one --utilisation 0.95
  firn sim cleaning --watch --policy greedy --placement one   see it clean; ? explains the keys
  firn sim cleaning --workload uniform --policy greedy --placement one --threads 1   measure its speed

Every combination runs until its write cost is steady and known to --precision, or until the volume
has been written --max-volumes times. All runs with one workload and size see the same writes. The
result does not depend on --threads. Some segments stay clean and do not count: 8, or two more than
there are logs. \"To best\" compares a row with the lowest row of the same workload and share.

The cleaner starts when a log needs a segment. Then it cleans batch after batch until it has gained a
whole segment: with one victim at a time, about 1/(1-u) victims in a row. With --single-pass it cleans
only one batch, and survivors share segments with new blocks. The two give different costs, so state
which one you used.",
    policies = policies(), placements = placements()))]
pub struct CleaningArgs {
    /// Writes and deletions of users; several with commas
    #[arg(long, value_delimiter = ',', default_value = "hot-cold")]
    workload: Vec<NamedWorkload>,
    /// How the segments to clean are chosen; several with commas
    #[arg(long, value_delimiter = ',', default_values_t = [PolicyName::default()], add = values::listed(policies))]
    policy: Vec<PolicyName>,
    /// How the open log for a block is chosen; several with commas
    #[arg(long, value_delimiter = ',', default_values_t = [PlacementName::default()], add = values::listed(placements))]
    placement: Vec<PlacementName>,
    /// Live share of the disk; several with commas
    #[arg(long, value_delimiter = ',', value_parser = utilisation, default_value = "0.75")]
    utilisation: Vec<f64>,
    /// Segments of the disk
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(16..=1 << 20))]
    segments: u32,
    /// Blocks of a segment; several with commas
    #[arg(long, value_delimiter = ',', default_value = "256", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    segment_blocks: Vec<u32>,
    /// Clean only when no segment is clean, then until N are (one log only)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sprite: Option<u32>,
    /// When a log needs a segment, clean only one batch; otherwise cleaning continues until a whole segment is clean
    #[arg(long, conflicts_with = "sprite")]
    single_pass: bool,
    /// Segments cleaned at a time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// Order of the victims of a batch: policy (best first), random or number (by segment number)
    #[arg(long, value_name = "ORDER", default_value = "policy", value_parser = order)]
    victim_order: VictimOrder,
    /// Write the live blocks of a batch oldest first
    #[arg(long)]
    age_sort: bool,
    /// Write live blocks into the dead places of the oldest segments instead of a log
    #[arg(long)]
    plug: bool,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop when half the width of the 95% confidence interval is at most this share of the cost
    #[arg(long, default_value_t = 0.005)]
    precision: f64,
    /// Stop when the volume has been written N times
    #[arg(long, value_name = "N", default_value_t = 200.0)]
    max_volumes: f64,
    /// Threads [default: one for each core]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Show one run while it goes on, as firn watch shows a mount; a second of its clock is a sixtieth of a volume written
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    shown: SimulationArgs,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

fn order(text: &str) -> Result<VictimOrder, String> {
    match text {
        "policy" => Ok(VictimOrder::Policy),
        "random" => Ok(VictimOrder::Random),
        "number" => Ok(VictimOrder::Number),
        _ => Err("use policy, random or number".to_owned()),
    }
}

/// One row of the result.
#[derive(Serialize)]
struct Row {
    workload: String,
    policy: String,
    placement: String,
    utilisation: f64,
    segments: u32,
    segment_blocks: u32,
    seed: u64,
    regime: Regime,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
struct View {
    rows: Vec<Row>,
    /// Blocks written by users and the cleaner, per second and thread.
    #[serde(skip)]
    blocks_per_second: f64,
    #[serde(skip)]
    threads: usize,
}

/// Runs the command.
///
/// # Errors
/// A combination cannot be run.
pub(super) fn run(args: &CleaningArgs, output: &mut Output) -> Done {
    let setups = setups(args)?;
    if args.watch {
        let [setup] = &setups[..] else {
            return Err(Failure::usage("--watch shows one run").advise("give one of everything"));
        };
        return super::watch::run(setup, &args.shown, args.json, output);
    }
    let threads = threads(args.threads).min(setups.len());
    let start = Instant::now();
    let outcomes = with_bar(setups.len(), |done| batch::run(&setups, threads, done));
    let seconds = start.elapsed().as_secs_f64();
    let outcomes = outcomes.map_err(|e| Failure::usage(e.to_string()))?;
    let blocks: u64 = outcomes.iter().map(|o| o.blocks_written).sum();
    let rows = setups.iter().zip(outcomes).map(|(setup, outcome)| Row {
        workload: setup.workload.name.clone(),
        policy: setup.policy.to_string(),
        placement: setup.placement.to_string(),
        utilisation: setup.utilisation,
        segments: setup.segments,
        segment_blocks: setup.segment_blocks,
        seed: setup.seed,
        regime: setup.regime,
        outcome,
    });
    let view =
        View { rows: rows.collect(), blocks_per_second: blocks as f64 / seconds / threads as f64, threads };
    output.show(args.json, &view, |out| out.write_all(text(&view).as_bytes()))
}

fn setups(args: &CleaningArgs) -> Result<Vec<Setup>, Failure> {
    let regime = regime(args)?;
    let mut setups = Vec::new();
    for workload in &args.workload {
        for &segment_blocks in &args.segment_blocks {
            let all = combinations(&args.utilisation, &args.policy, &args.placement);
            setups.extend(all.map(|(utilisation, policy, placement)| Setup {
                workload: workload.clone(),
                policy,
                placement,
                utilisation,
                segments: args.segments,
                segment_blocks,
                regime,
                seed: args.seed,
                precision: args.precision,
                max_volumes: args.max_volumes,
            }));
        }
    }
    Ok(setups)
}

fn regime(args: &CleaningArgs) -> Result<Regime, Failure> {
    let with_choices = |regime| Regime {
        batch: args.batch,
        age_sort: args.age_sort,
        victim_order: args.victim_order,
        plug: args.plug,
        ..regime
    };
    let logs = args.placement.iter().map(|p| p.logs()).max().unwrap_or(1);
    let steady = Regime::STEADY.for_logs(logs);
    match args.sprite {
        Some(_) if logs > 1 => {
            Err(Failure::usage("--sprite works with one log only").advise("add --placement one"))
        }
        Some(high) => Ok(with_choices(Regime::sprite(high, args.batch, args.age_sort))),
        None if !args.single_pass => Ok(with_choices(steady)),
        None if logs == 1 => Ok(with_choices(Regime::single_pass(args.batch, args.age_sort))),
        None => Ok(with_choices(Regime { until: Until::SinglePass, ..steady })),
    }
}

fn text(view: &View) -> String {
    let header = [
        "workload",
        "full",
        "blocks",
        "policy",
        "placement",
        "write amplification",
        "write cost",
        "cleaned at",
        "empty",
        "to best",
        "to ideal",
        "to oracle",
        "volumes",
    ];
    let rows: Vec<Vec<String>> = view.rows.iter().map(|row| cells(row, &view.rows)).collect();
    let mut text = markdown(&header, &rows);
    if let Some(row) = view.rows.first() {
        text += &format!("\nCleaning: {}.\n", row.regime);
    }
    if view.rows.iter().any(|row| row.outcome.small_writes > 0.0) {
        for row in &view.rows {
            let writes = row.outcome.small_writes;
            text += &format!(
                "{} full, {}: {writes:.2} small writes for each block\n",
                row.utilisation, row.workload
            );
        }
    }
    text += &format!(
        "\n{:.1} million block writes a second on each of {} threads.\n",
        view.blocks_per_second / 1e6,
        view.threads
    );
    if view.rows.iter().any(|row| !row.outcome.is_steady) {
        text += "! Not steady, or not known to --precision, when --max-volumes were written.\n";
    }
    text
}

/// Write amplification relative to the lowest of the rows with the same conditions, either of the oracles or of
/// all others; `None` if there are none.
fn to_lowest(row: &Row, rows: &[Row], of_oracles: bool) -> Option<f64> {
    let is_rival = |other: &&Row| {
        other.placement.starts_with("oracle") == of_oracles
            && other.workload == row.workload
            && other.utilisation == row.utilisation
            && other.segment_blocks == row.segment_blocks
    };
    let lowest = rows.iter().filter(is_rival).map(|rival| rival.outcome.write_amplification.mean);
    lowest.min_by(f64::total_cmp).map(|lowest| row.outcome.write_amplification.mean / lowest)
}

fn cells(row: &Row, rows: &[Row]) -> Vec<String> {
    let ratio = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
    let outcome = &row.outcome;
    let amplification = &outcome.write_amplification;
    vec![
        row.workload.clone(),
        format!("{}", row.utilisation),
        format!("{}", row.segment_blocks),
        row.policy.clone(),
        row.placement.clone(),
        format!("{:.3} ± {:.3}", amplification.mean, amplification.half_width),
        format!("{:.2}", outcome.write_cost.mean),
        format!("{:.3}", outcome.cleaned_utilisation.mean),
        format!("{:.0}%", outcome.empty_share * 100.0),
        ratio(to_lowest(row, rows, false)),
        ratio(outcome.ideal_separation.map(|ideal| amplification.mean / ideal)),
        ratio(to_lowest(row, rows, true)),
        format!(
            "{:.0} + {:.0}{}",
            outcome.warm_up_volumes,
            outcome.measured_volumes,
            if outcome.is_steady { "" } else { " !" }
        ),
    ]
}
