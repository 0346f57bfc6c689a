//! `firn-torture`: the crash explorer and the model tests from the command line. `firn-torture --help`

use clap::{Parser, Subcommand};
use firnfs_torture::crash::campaign::{Family, Replayed, Report, explore, mixed, replay, soak};
use firnfs_torture::crash::scenario::Scenario;
use firnfs_torture::crash::{Firn, Limits, Plan, Totals};
use firnfs_torture::histories::{History, Ran};
use parking_lot::Mutex;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Seconds between two lines of progress.
const REPORT_EVERY_S: u64 = 10;

/// Cuts the power of small volumes in every way, and looks whether anything was lost.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Threads.
    #[arg(long, global = true, default_value_t = 2)]
    threads: usize,
    /// Draws everything that is random.
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Volumes with five logs for data, which are sorted into them, as large volumes have.
    #[arg(long, global = true)]
    sorting: bool,
    /// Volumes that do not discard by themselves, but are trimmed whenever they are idle.
    #[arg(long, global = true, conflicts_with = "sorting")]
    trimming: bool,
    /// Every how many-th state is crashed again during its recovery; 0 for none.
    #[arg(long, global = true, default_value_t = 40)]
    nested_every: u64,
}

#[derive(Subcommand)]
enum What {
    /// All sequences of one and two operations, mixed with everything else: well over a million states.
    Soak {
        /// Stop after so many distinct crash states; beyond the end of the soak, the mixture goes on.
        #[arg(long)]
        states: Option<u64>,
    },
    /// A mixture of long histories, sampled sequences and full volumes.
    Mixed {
        /// Distinct crash states to look at.
        #[arg(long, default_value_t = 50_000)]
        states: u64,
    },
    /// The named scenarios, such as ace2-17, long-3, long-3.2, full-1, stale-4.1, mend-7, wide-2, open-5, tight-1.
    Run {
        /// Names.
        #[arg(required = true)]
        scenarios: Vec<Scenario>,
    },
    /// Random histories with remounts against the model, one a seed from --seed on: thousands in a night.
    Model {
        /// Histories.
        #[arg(long, default_value_t = 20_000)]
        histories: u64,
        /// Stop after so many hours.
        #[arg(long)]
        hours: Option<f64>,
    },
    /// Shows a failure again: SCENARIO:CUTS as it was printed (with the same --seed).
    Replay {
        /// SCENARIO:CUTS, or SCENARIO for the operations alone.
        token: String,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let plan = Plan { seed: arguments.seed, ..Plan::default() };
    let limits = Limits { plan, nested_every: arguments.nested_every, ..Limits::default() };
    let (threads, seed) = (arguments.threads, arguments.seed);
    let firn = match (arguments.sorting, arguments.trimming) {
        (true, _) => Firn::sorting(),
        (_, true) => Firn::trimming(),
        _ => Firn::small(),
    };
    match arguments.what {
        What::Soak { states: None } => campaign(&firn, limits, soak(seed), threads, u64::MAX),
        What::Soak { states: Some(states) } => {
            let more = mixed(seed.wrapping_add(1 << 32));
            campaign(&firn, limits, soak(seed).chain(more), threads, states)
        }
        What::Mixed { states } => campaign(&firn, limits, mixed(seed), threads, states),
        What::Run { scenarios } => campaign(&firn, limits, scenarios.into_iter(), threads, u64::MAX),
        What::Model { histories, hours } => model(seed, histories, hours, threads),
        What::Replay { token } => show(&firn, limits, &token),
    }
}

/// Runs histories in parallel; a failure prints the command that shows it again.
fn model(first: u64, histories: u64, hours: Option<f64>, threads: usize) -> ExitCode {
    let started = Instant::now();
    let (next, reported) = (AtomicU64::new(0), AtomicU64::new(0));
    let so_far = Mutex::new((Ran::default(), 0u64, 0u64));
    let is_over = || hours.is_some_and(|hours| started.elapsed().as_secs_f64() > hours * 3600.0);
    let work = || {
        while !is_over() {
            let n = next.fetch_add(1, Relaxed);
            if n >= histories {
                break;
            }
            let seed = first.wrapping_add(n);
            let result = History::of(seed).run();
            let mut so_far = so_far.lock();
            so_far.1 += 1;
            match result {
                Ok(ran) => so_far.0.add(ran),
                Err(why) => {
                    so_far.2 += 1;
                    println!(
                        "FAILED seed {seed}: {why}\n       firn-torture --seed {seed} model --histories 1"
                    );
                }
            }
            let period = started.elapsed().as_secs() / REPORT_EVERY_S;
            if reported.fetch_max(period, Relaxed) < period {
                eprintln!("{}", tell(*so_far, started));
            }
        }
    };
    std::thread::scope(|scope| (0..threads.max(1)).for_each(|_| drop(scope.spawn(work))));
    let so_far = *so_far.lock();
    println!("seeds from {first} on: {}", tell(so_far, started));
    if so_far.2 == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell((ran, histories, failed): (Ran, u64, u64), since: Instant) -> String {
    format!(
        "{histories} histories, {} operations, {} remounts, {} segments made clean, {failed} failed, {:.0} s",
        ran.steps,
        ran.remounts,
        ran.cleaned,
        since.elapsed().as_secs_f64()
    )
}

fn campaign(
    firn: &Firn,
    limits: Limits,
    scenarios: impl Iterator<Item = Scenario> + Send,
    threads: usize,
    states: u64,
) -> ExitCode {
    let started = Instant::now();
    let reported = AtomicU64::new(0);
    let progress = |totals: &Totals| {
        let period = started.elapsed().as_secs() / REPORT_EVERY_S;
        if reported.fetch_max(period, Relaxed) < period {
            eprintln!("{totals}, {:.0} states a second and thread", rate(totals, started, threads));
        }
    };
    let report = explore(firn, limits, scenarios, threads, states, &progress);
    print(&report, started, threads)
}

fn rate(totals: &Totals, since: Instant, threads: usize) -> f64 {
    totals.states as f64 / since.elapsed().as_secs_f64() / threads.max(1) as f64
}

fn print(report: &Report, started: Instant, threads: usize) -> ExitCode {
    for finding in &report.findings {
        println!("FAILED {}\n       {}", finding.token, finding.reason);
    }
    for (name, Family { totals, busy }) in &report.families {
        let rate = totals.states as f64 / busy.as_secs_f64();
        println!(
            "{name:10} {:9} states of {:6} scenarios, {rate:6.0} a second and thread",
            totals.states, totals.scenarios
        );
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{}, {} findings, {seconds:.1} s, {:.0} states a second and thread",
        report.totals,
        report.findings.len(),
        rate(&report.totals, started, threads)
    );
    if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show(firn: &Firn, limits: Limits, token: &str) -> ExitCode {
    let Replayed { run, verdict } = replay(firn, limits, token);
    for (index, op) in run.iter().flat_map(|run| run.record.ops().iter().enumerate()) {
        println!("{:4}  {op}", index + 1);
    }
    match verdict {
        Ok(()) => println!("no promise is broken"),
        Err(why) => {
            println!("FAILED {token}\n       {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
