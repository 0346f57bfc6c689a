//! `firn sim trace`: replays a workload file on the real log and a simulated disk, in virtual time. The lab has the simulation.

use crate::failure::{Done, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::{Bytes, Count};
use crate::watch::SimulationArgs;
use crate::workload::source::{Form, Source};
use clap::{Args, ValueEnum};
use firnfs_lab::LabError;
use firnfs_lab::hardware::{disk_names, find_disk};
use firnfs_lab::micro::stop::Stop;
use firnfs_lab::trace::{self, Cleaner, Model, Phase, Records, Replayed, Setup};
use firnfs_workload::Record;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Arguments of `firn sim trace`.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Disks: {disks}, or a parameter file

Examples:
  firn sim trace day.fwl                   both models of the paper, side by side
  firn sim trace day.fwl day.fwl.1 --model sync
  firn sim trace day.fwl --watch                    see it clean; ? explains the keys
  firn sim trace day.fwl --watch --record day.fww   to be seen again by firn watch day.fww
  firn sim trace lair.txt --from nfsdump --disk ssd --cleaner today --idle 0.5

Runs the log itself, in memory, on a simulated disk, at the times of the trace (Blackwell, Harris and Seltzer, USENIX
1995). Builds the state before the trace first. async: changes wait in non-volatile memory until there is a
segment's worth. sync: each changing request is written at once. The disk is as large as the trace needs to fill it
to --utilisation on average. See docs/internals/traces.md.", disks = disk_names()))]
pub struct TraceArgs {
    /// Workload files: a recording, with its parts in order
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// What the files are; workload files are recognised
    #[arg(long, value_enum, value_name = "FORM")]
    from: Option<Form>,
    /// How changes reach the log [default: both, with --watch async]
    #[arg(long, value_enum)]
    model: Option<Models>,
    /// Which cleaner works: the paper's, or that of firnfs
    #[arg(long, value_enum, default_value_t = Cleaners::Of1995)]
    cleaner: Cleaners,
    /// The disk, by name or parameter file
    #[arg(long, value_name = "NAME|FILE", default_value = "dsp3501")]
    disk: String,
    /// Share of the space for files that the trace takes on average
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, value_parser = share)]
    utilisation: f64,
    /// Idle time before the cleaner begins
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    idle: f64,
    /// Learn another time from the idle intervals of the disk; --idle is the first one
    #[arg(long)]
    learn: bool,
    /// Show one replay while it goes on, as firn watch shows a mount; < and > change its speed, down to one disk access a step
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    shown: SimulationArgs,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Models {
    /// Segments from non-volatile memory
    Async,
    /// A partial segment for each change
    Sync,
    /// Both, on two threads
    Both,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Cleaners {
    /// While the disk is idle; whole segments, the emptiest first; one log of data
    #[value(name = "1995")]
    Of1995,
    /// The defaults of firnfs: while no user makes requests
    Today,
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.05..=0.98).contains(&share) { Ok(share) } else { Err("allowed: 0.05 to 0.98".to_owned()) }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.001..=1e6).contains(&seconds) { Ok(seconds) } else { Err("allowed: 0.001 to 1000000".to_owned()) }
}

/// Workload files, one after the other.
struct Files<'a> {
    paths: &'a [PathBuf],
    form: Option<Form>,
}

impl Records for Files<'_> {
    fn open(&self) -> Result<Box<dyn Iterator<Item = Result<Record, LabError>> + '_>, LabError> {
        let sources: Result<Vec<_>, LabError> = self
            .paths
            .iter()
            .map(|path| match Source::open(path, self.form) {
                Ok(source) => Ok((path, source)),
                Err(failure) => Err(LabError::Setup(failure.message)),
            })
            .collect();
        Ok(Box::new(sources?.into_iter().flat_map(|(path, source)| {
            source.map(move |next| {
                next.map_err(|error| LabError::Setup(format!("{}: {error}", path.display())))
            })
        })))
    }
}

#[derive(Serialize)]
struct View {
    files: Vec<PathBuf>,
    disk: String,
    cleaner: &'static str,
    idle_after_ms: f64,
    learns_idle: bool,
    replays: Vec<ReplayView>,
}

#[derive(Serialize)]
struct ReplayView {
    model: &'static str,
    records: u64,
    span_ms: f64,
    refused_records: u64,
    creates_without_file: u64,
    creates_matched: u64,
    size_bytes: u64,
    utilisation_percent: f64,
    idle_of_two_seconds: u64,
    idle_of_four_seconds: u64,
    four_after_two_percent: Option<f64>,
    user_requests: u64,
    undelayed_percent: f64,
    mean_delay_ms: f64,
    longest_delay_ms: f64,
    cleaner_requests: u64,
    interference: f64,
    segments_cleaned: u64,
    segments_cleaned_on_demand: u64,
    segments_cleaned_empty: u64,
    cleaned_utilisation_percent: f64,
    write_amplification: f64,
    dirty_below_mib_percent: f64,
    dirty_max_bytes: u64,
    cache_hit_bytes: u64,
    cache_miss_bytes: u64,
    user_read_bytes: u64,
    user_written_bytes: u64,
    cleaner_read_bytes: u64,
    cleaner_written_bytes: u64,
    idle_after_at_end_ms: u64,
    records_per_s: f64,
    processor_records_per_s: f64,
}

/// Runs the command.
///
/// # Errors
/// A file cannot be read, the trace does not fit the disk, or a signal ended it.
pub(super) fn run(args: &TraceArgs, output: &mut Output) -> Done {
    if args.files.iter().any(|path| path.as_os_str() == "-") {
        return Err(Failure::usage("a trace is read twice, so it cannot be standard input"));
    }
    let setups = setups(args)?;
    let files = Files { paths: &args.files, form: args.from };
    if args.watch {
        let [setup] = &setups[..] else {
            return Err(Failure::usage("--watch shows one replay").advise("give --model async or sync"));
        };
        return super::watch_trace::run(&files, setup, &args.shown, args.json, output);
    }
    let replayed = watched(|stop, progress| trace::run_side_by_side(&files, &setups, stop, progress))?;
    let replays = setups.iter().zip(&replayed.0).zip(replayed.1);
    let view = View {
        files: args.files.clone(),
        disk: args.disk.clone(),
        cleaner: setups[0].cleaner.name(),
        idle_after_ms: args.idle * 1e3,
        learns_idle: args.learn,
        replays: replays.map(|((setup, replayed), took)| replay_view(setup, replayed, &took)).collect(),
    };
    output.show(args.json, &view, |out| write(&view, out))
}

fn setups(args: &TraceArgs) -> Done<Vec<Setup>> {
    let failed = |error: LabError| Failure::usage(error.to_string());
    let disk = find_disk(&args.disk).map_err(failed)?;
    let by_default = if args.watch { Models::Async } else { Models::Both };
    let models: &[Model] = match args.model.unwrap_or(by_default) {
        Models::Async => &[Model::Async],
        Models::Sync => &[Model::Sync],
        Models::Both => &Model::ALL,
    };
    let cleaner = match args.cleaner {
        Cleaners::Of1995 => Cleaner::Of1995,
        Cleaners::Today => Cleaner::Today,
    };
    let setup = |&model: &Model| {
        Ok(Setup {
            cleaner,
            disk: disk.clone(),
            utilisation: args.utilisation,
            idle_after_ms: (args.idle * 1e3).round() as u64,
            learns_idle: args.learn,
            ..Setup::of_1995(model).map_err(failed)?
        })
    };
    models.iter().map(setup).collect()
}

type Show<'a> = &'a (dyn Fn(usize, Phase, f64) + Sync);

/// What a thread has used up.
#[derive(Clone, Copy)]
struct Used {
    real: Instant,
    processor: Duration,
}

impl Used {
    /// This thread, until now.
    fn now() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Self { real: Instant::now(), processor: Duration::new(time.tv_sec as u64, time.tv_nsec as u32) }
    }
}

/// How long a replay took, without its preparation: real time, and that of its thread's processor.
#[derive(Clone, Copy, Default)]
struct Took {
    real: Duration,
    processor: Duration,
}

/// How much of a replay is done, when it began to replay, and when it last made progress.
#[derive(Clone, Copy, Default)]
struct State {
    done: f64,
    began: Option<Used>,
    took: Took,
}

/// Does some work with a bar, until it ends or a signal arrives; returns its results, and how long each replay took.
fn watched(
    work: impl FnOnce(&Stop, Show<'_>) -> Result<Vec<Replayed>, LabError>,
) -> Done<(Vec<Replayed>, Vec<Took>)> {
    let stop = Stop::default();
    interrupt::sets(&stop.flag())?;
    let states: Mutex<Vec<State>> = Mutex::default();
    let bar = Bar::of_share();
    // Each replay calls it on its own thread.
    let show = |n: usize, phase: Phase, share: f64| {
        let now = Used::now();
        let Ok(mut states) = states.lock() else { return };
        if states.len() <= n {
            states.resize(n + 1, State::default());
        }
        let state = &mut states[n];
        match phase {
            Phase::Building => state.done = share * 0.1,
            Phase::Replaying => {
                let began = *state.began.get_or_insert(now);
                let (real, processor) = (now.real - began.real, now.processor - began.processor);
                (state.done, state.took) = (0.1 + share * 0.9, Took { real, processor });
            }
        }
        let sum: f64 = states.iter().map(|state| state.done).sum();
        bar.show((sum * 1000.0) as u64, states.len() as u64 * 1000, format_args!("{} replays", states.len()));
    };
    let replayed = work(&stop, &show);
    drop(bar);
    let replayed = replayed.map_err(|error| match error {
        LabError::Interrupted => Failure::new(interrupt::exit(), error.to_string()),
        LabError::Volume { source: firnfs::FsError::NoSpace, .. } => Failure::failed(error.to_string())
            .advise("the trace does not fit at its fullest: give a smaller --utilisation"),
        _ => Failure::failed(error.to_string()),
    })?;
    let states = states.into_inner().unwrap_or_default();
    Ok((replayed, states.into_iter().map(|state| state.took).collect()))
}

fn replay_view(setup: &Setup, replayed: &Replayed, took: &Took) -> ReplayView {
    let Replayed { disk, .. } = replayed;
    let requests = disk.delay_ms.count().max(1) as f64;
    // A replay shorter than a look at the clock has no rate worth telling.
    let rate =
        |took: Duration| if took.is_zero() { 0.0 } else { replayed.records as f64 / took.as_secs_f64() };
    ReplayView {
        model: setup.model.name(),
        records: replayed.records,
        span_ms: replayed.span_s * 1e3,
        refused_records: replayed.refused,
        creates_without_file: replayed.creates_asked,
        creates_matched: replayed.creates_matched,
        size_bytes: replayed.size_bytes,
        utilisation_percent: replayed.utilisation * 100.0,
        idle_of_two_seconds: disk.idle_s.at_least(2.0),
        idle_of_four_seconds: disk.idle_s.at_least(4.0),
        four_after_two_percent: replayed.four_after_two().map(|share| share * 100.0),
        user_requests: disk.user_requests,
        undelayed_percent: disk.delay_ms.zeros() as f64 / requests * 100.0,
        mean_delay_ms: disk.delay_ms.mean(),
        longest_delay_ms: disk.delay_ms.max(),
        cleaner_requests: disk.cleaner_requests,
        interference: replayed.interference(),
        segments_cleaned: replayed.segments_cleaned,
        segments_cleaned_on_demand: replayed.cleaned_on_demand,
        segments_cleaned_empty: replayed.segments_emptied,
        cleaned_utilisation_percent: replayed.cleaned_utilisation * 100.0,
        write_amplification: replayed.write_amplification,
        dirty_below_mib_percent: disk.dirty_mib.share_below(1.0) * 100.0,
        dirty_max_bytes: (disk.dirty_mib.max() * f64::from(1 << 20)) as u64,
        cache_hit_bytes: replayed.cache_hit_bytes,
        cache_miss_bytes: replayed.cache_miss_bytes,
        user_read_bytes: disk.user_read_bytes,
        user_written_bytes: disk.user_written_bytes,
        cleaner_read_bytes: disk.cleaner_read_bytes,
        cleaner_written_bytes: disk.cleaner_written_bytes,
        idle_after_at_end_ms: replayed.idle_after_ms,
        records_per_s: rate(took.real),
        processor_records_per_s: rate(took.processor),
    }
}

fn write(view: &View, out: &mut dyn Write) -> io::Result<()> {
    let Some(first) = view.replays.first() else { return Ok(()) };
    writeln!(
        out,
        "{} in {:.1} s of virtual time\non {}, cleaner: {}, begins after {} s of idle time{}",
        Count(first.records).of("record", "records"),
        first.span_ms / 1e3,
        view.disk,
        view.cleaner,
        view.idle_after_ms / 1e3,
        if view.learns_idle { ", then after what it learns" } else { "" }
    )?;
    if first.creates_without_file > 0 {
        let share = first.creates_matched as f64 / first.creates_without_file as f64 * 100.0;
        writeln!(
            out,
            "{share:.1}% of {} matched by looking ahead",
            Count(first.creates_without_file).of("create", "creates")
        )?;
    }
    if first.refused_records > 0 {
        writeln!(out, "{} could not be carried out", Count(first.refused_records).of("record", "records"))?;
    }
    let mut line = |name: &str, value: &dyn Fn(&ReplayView) -> String| {
        write!(out, "{name:<44}")?;
        view.replays.iter().try_for_each(|replay| write!(out, "{:>17}", value(replay)))?;
        writeln!(out)
    };
    let percent = |value: f64| format!("{value:.1}%");
    let bytes = |value: u64| Bytes(value).to_string();
    line("", &|replay| replay.model.to_owned())?;
    line("volume", &|replay| bytes(replay.size_bytes))?;
    line("space for files in use", &|replay| percent(replay.utilisation_percent))?;
    line("idle intervals of 2 s or more", &|replay| Count(replay.idle_of_two_seconds).to_string())?;
    line("  of them 4 s or more", &|replay| replay.four_after_two_percent.map_or("-".to_owned(), percent))?;
    line("segments cleaned", &|replay| Count(replay.segments_cleaned).to_string())?;
    line("  of them on demand", &|replay| {
        percent(replay.segments_cleaned_on_demand as f64 / replay.segments_cleaned.max(1) as f64 * 100.0)
    })?;
    line("  live share of them", &|replay| percent(replay.cleaned_utilisation_percent))?;
    line("segments emptied without the cleaner", &|replay| Count(replay.segments_cleaned_empty).to_string())?;
    line("log bytes for each byte that users wrote", &|replay| format!("{:.2}", replay.write_amplification))?;
    line("disk requests of users", &|replay| Count(replay.user_requests).to_string())?;
    line("  without delay", &|replay| percent(replay.undelayed_percent))?;
    line("  delay, mean", &|replay| format!("{:.2} ms", replay.mean_delay_ms))?;
    line("  delay, longest", &|replay| format!("{:.0} ms", replay.longest_delay_ms))?;
    line("  cleaner requests that they met, mean", &|replay| format!("{:.3}", replay.interference))?;
    line("disk requests of the cleaner", &|replay| Count(replay.cleaner_requests).to_string())?;
    line("written between chances to clean, below 1 MiB", &|replay| percent(replay.dirty_below_mib_percent))?;
    line("  most", &|replay| bytes(replay.dirty_max_bytes))?;
    line("reads from the cache", &|replay| bytes(replay.cache_hit_bytes))?;
    line("reads from the disk", &|replay| bytes(replay.user_read_bytes))?;
    line("users' writes to the disk", &|replay| bytes(replay.user_written_bytes))?;
    line("read by the cleaner", &|replay| bytes(replay.cleaner_read_bytes))?;
    line("written by the cleaner", &|replay| bytes(replay.cleaner_written_bytes))?;
    if view.learns_idle {
        let seconds = |replay: &ReplayView| format!("{} s", replay.idle_after_at_end_ms as f64 / 1e3);
        line("idle time before cleaning, learned: last", &seconds)?;
    }
    let rate = |per_s: f64| if per_s > 0.0 { Count(per_s as u64).to_string() } else { "-".to_owned() };
    line("records a second, in real time", &|replay| rate(replay.records_per_s))?;
    let per_processor = |replay: &ReplayView| rate(replay.processor_records_per_s);
    line("records a second of one processor's time", &per_processor)
}
