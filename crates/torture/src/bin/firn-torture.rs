//! `firn-torture`: the crash explorer and the model tests from the command line. `firn-torture --help`

use clap::{Parser, Subcommand};
use firnfs_torture::crash::campaign::{Family, Replayed, Report, explore_by, replay};
use firnfs_torture::crash::scenario::Scenario;
use firnfs_torture::crash::soak::{SHARE_PERCENT, Soak, mixed, shares};
use firnfs_torture::crash::{Firn, Limits, Plan, Totals};
use firnfs_torture::histories::{History, OnLog, Ran};
use parking_lot::Mutex;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Seconds between two lines of progress.
const REPORT_EVERY_S: u64 = 10;

/// Cuts the power of small volumes in every way, and checks whether anything was lost.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Threads.
    #[arg(long, global = true, default_value_t = 2)]
    threads: usize,
    /// Seed of everything that is random.
    #[arg(long, global = true, default_value_t = 1)]
    seed: u64,
    /// Volumes with five logs for data, which are sorted into them, as large volumes have.
    #[arg(long, global = true)]
    sorting: bool,
    /// Volumes that do not discard by themselves, but are trimmed whenever they are idle.
    #[arg(long, global = true, conflicts_with = "sorting")]
    trimming: bool,
    /// Volumes on larger devices, into which they grow whenever they are idle.
    #[arg(long, global = true, conflicts_with_all = ["sorting", "trimming"])]
    growing: bool,
    /// Volumes that become smaller and larger again whenever they are idle.
    #[arg(long, global = true, conflicts_with_all = ["sorting", "trimming", "growing"])]
    shrinking: bool,
    /// Crash every N-th state again during its recovery; 0 for none.
    #[arg(long, global = true, default_value_t = 40)]
    nested_every: u64,
}

#[derive(Subcommand)]
enum What {
    /// All sequences of one and two operations, mixed with everything else; a tenth at least is cut during cleaning, and another
    /// during repair.
    Soak {
        /// Stop after N distinct crash states; beyond the end of the soak, the mixture continues.
        #[arg(long)]
        states: Option<u64>,
    },
    /// A mixture of everything but those sequences.
    Mixed {
        /// Distinct crash states to judge.
        #[arg(long, default_value_t = 50_000)]
        states: u64,
    },
    /// Measure how many states are judged in a second of processor time, as a table in Markdown: the beginning of a soak, on
    /// one thread.
    Bench {
        /// Distinct crash states to judge.
        #[arg(long, default_value_t = 20_000)]
        states: u64,
    },
    /// The named scenarios, such as ace2-17, long-3, long-3.2, full-1, stale-4.1, mend-7, split-3, clean-2, wide-2, open-5, tight-1.
    Run {
        /// Names.
        #[arg(required = true)]
        scenarios: Vec<Scenario>,
    },
    /// Random histories with remounts against the model, one for each seed from --seed on: thousands in a night.
    Model {
        /// Histories.
        #[arg(long, default_value_t = 20_000)]
        histories: u64,
        /// Stop after N hours.
        #[arg(long)]
        hours: Option<f64>,
    },
    /// Reproduce a failure: SCENARIO:CUTS as it was printed (with the same --seed).
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
    let firn = match (arguments.sorting, arguments.trimming, arguments.growing, arguments.shrinking) {
        (true, ..) => Firn::sorting(),
        (_, true, ..) => Firn::trimming(),
        (_, _, true, _) => Firn::growing(),
        (.., true) => Firn::shrinking(),
        _ => Firn::small(),
    };
    match arguments.what {
        What::Soak { states } => {
            let mut soak = Soak::new(seed, states);
            let next = move |totals: &Totals| soak.next(totals);
            let report = campaign(&firn, limits, next, threads, u64::MAX);
            let missed = shares(&report.totals).err();
            missed
                .iter()
                .for_each(|missed| println!("FAILED to keep the shares of {SHARE_PERCENT}%: {missed}"));
            exit(report.findings.is_empty() && missed.is_none())
        }
        What::Mixed { states } => {
            let mut mixed = mixed(seed);
            let report = campaign(&firn, limits, move |_: &Totals| mixed.next(), threads, states);
            exit(report.findings.is_empty())
        }
        What::Bench { states } => {
            let mut soak = Soak::new(seed, Some(states));
            let next = move |totals: &Totals| soak.next(totals);
            let report = explore_by(&firn, limits, next, 1, u64::MAX, &|_| {});
            print_bench(&report);
            exit(report.findings.is_empty())
        }
        What::Run { scenarios } => {
            let mut scenarios = scenarios.into_iter();
            let report = campaign(&firn, limits, move |_: &Totals| scenarios.next(), threads, u64::MAX);
            exit(report.findings.is_empty())
        }
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
            let result = History::of(seed).run::<OnLog>();
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
        "{histories} histories, {} operations, {} remounts, {} segments made clean, {} points read, {failed} failed, {:.0} s",
        ran.steps,
        ran.remounts,
        ran.cleaned,
        ran.points_read,
        since.elapsed().as_secs_f64()
    )
}

fn exit(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn campaign(
    firn: &Firn,
    limits: Limits,
    next: impl FnMut(&Totals) -> Option<Scenario> + Send,
    threads: usize,
    states: u64,
) -> Report {
    let started = Instant::now();
    let reported = AtomicU64::new(0);
    let rate =
        |totals: &Totals| totals.judged as f64 / started.elapsed().as_secs_f64() / threads.max(1) as f64;
    let progress = |totals: &Totals| {
        let period = started.elapsed().as_secs() / REPORT_EVERY_S;
        if reported.fetch_max(period, Relaxed) < period {
            eprintln!("{totals}, {:.0} states a second and thread", rate(totals));
        }
    };
    let report = explore_by(firn, limits, next, threads, states, &progress);
    print(&report);
    println!(
        "{}, {} findings, {:.1} s, {:.0} states a second and thread, {:.0} a second of processor time",
        report.totals,
        report.findings.len(),
        started.elapsed().as_secs_f64(),
        rate(&report.totals),
        report.totals.judged as f64 / report.busy().as_secs_f64()
    );
    report
}

fn print(report: &Report) {
    for finding in &report.findings {
        println!("FAILED {}\n       {}", finding.token, finding.reason);
    }
    println!("kind        scenarios  distinct    judged   repeats  states a second of processor time");
    for (name, Family { totals, busy }) in &report.families {
        let Totals { scenarios, distinct, judged, repeats, .. } = totals;
        let rate = *judged as f64 / busy.as_secs_f64();
        println!("{name:10} {scenarios:10} {distinct:9} {judged:9} {repeats:9} {rate:7.0}");
    }
}

fn print_bench(report: &Report) {
    println!("# States a second of the crash explorer\n");
    println!(
        "`firn-torture bench`: the beginning of a soak on one thread. A state is an image on which fsck, a read-only mount"
    );
    println!("and a read-write mount have run, each over everything in it. Seconds are processor time.\n");
    println!("| kind | states judged | distinct | states a second |\n|---|---:|---:|---:|");
    let rate = |totals: &Totals, busy: Duration| totals.judged as f64 / busy.as_secs_f64();
    for (name, Family { totals, busy }) in &report.families {
        println!("| {name} | {} | {} | {:.0} |", totals.judged, totals.distinct, rate(totals, *busy));
    }
    let totals = &report.totals;
    println!("| **all** | {} | {} | {:.0} |", totals.judged, totals.distinct, rate(totals, report.busy()));
    report.findings.iter().for_each(|finding| println!("\nFAILED {}: {}", finding.token, finding.reason));
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
