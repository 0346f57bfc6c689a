//! `firn age replay`.

use super::failed;
use super::watch::{self, Gate};
use crate::failure::{Done, Exit, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::{Bytes, Count};
use crate::target::mount_of_image;
use crate::volume::{AnyVolume, open_any_at};
use crate::watch::{Simulation, SimulationArgs};
use clap::{Args, ValueEnum};
use firnfs::lfs::Lfs;
use firnfs_device::Clock;
use firnfs_lab::LabError;
use firnfs_lab::age::replay::{
    By, OnVolume, Outcome, Plan, Posix, Tally, Target, VirtualClock, clock_at, replay,
};
use firnfs_volume::Volume;
use firnfs_workload::Reader;
use serde::Serialize;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Bytes of a workload that tell it from others.
const IDENTITY_BYTES: u64 = 1 << 20;

/// Arguments of `firn age replay`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn age replay home.fwl /mnt/ext4            on any mounted file system, as fast as it goes
  firn age replay home.fwl disk.img             on a volume of firnfs that is not mounted
  firn age replay home.fwl /mnt/ext4 --continue after Ctrl-C
  firn age replay home.fwl disk.img --watch     see its segments fill and be cleaned; ? explains the keys
  firn age layout /mnt/ext4                     how its files are laid out now

The target has to be empty. In an image files get the times of the workload, and the same workload makes the same
requests to the device; in a directory they get the time of the day. A file for which there is no room is left out, with
all later operations on it, and counted. At the end what exists is compared with what should: exit code 1 if it
differs. Ctrl-C stops between two records and saves the state in .firn-age in the target's root.")]
pub struct ReplayArgs {
    /// A workload of `firn age workload`
    pub workload: PathBuf,
    /// An empty directory, or an image with an empty volume
    #[arg(value_name = "DIR|IMAGE")]
    pub target: PathBuf,
    /// How files are placed
    #[arg(long, value_enum, value_name = "PLACEMENT", default_value = "directory")]
    pub by: ByArg,
    /// Go on with a replay that was stopped
    #[arg(long = "continue")]
    pub continues: bool,
    /// Show a volume in an image meanwhile, as firn watch shows a mount; < and > change the speed, q lets the replay go on alone
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub shown: SimulationArgs,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// Placements on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ByArg {
    /// In directories as in the original
    Directory,
    /// In one directory for each cylinder group of the original, by inode number, as in the paper
    Group,
}

impl From<ByArg> for By {
    fn from(arg: ByArg) -> Self {
        match arg {
            ByArg::Directory => Self::Directory,
            ByArg::Group => Self::Group,
        }
    }
}

/// What was done.
#[derive(Serialize)]
struct ReplayView {
    workload: PathBuf,
    target: PathBuf,
    records: u64,
    file_operations: u64,
    written_bytes: u64,
    refused_operations: u64,
    elapsed_ms: f64,
    operations_per_s: f64,
    stopped: bool,
    files: u64,
    mismatches: u64,
    first_mismatches: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// The workload or the target cannot be used; what exists at the end is not what should.
pub fn run(args: &ReplayArgs, output: &mut Output) -> Done {
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let about = std::fs::metadata(&args.target).map_err(|e| Failure::io("cannot open", &args.target, &e))?;
    let job = Job::of(args, &stop)?;
    let outcome = if about.is_dir() {
        if args.watch {
            return Err(Failure::usage("--watch shows the log of a volume in an image")
                .advise("a mounted volume is shown by firn watch, in another terminal"));
        }
        job.on(&mut Posix::new(&args.target), None)?
    } else {
        if let Ok(Some(mount)) = mount_of_image(&args.target) {
            let message = format!("{} is mounted", args.target.display());
            let advice = format!("name its mountpoint: {}", mount.mountpoint.display());
            return Err(Failure::new(Exit::Refused, message).advise(advice));
        }
        let clock = Arc::new(clock_at(job.start_ns));
        let unclosed = |e| Failure::fs(format_args!("cannot close {}", args.target.display()), &e);
        match open_any_at(&args.target, clock.clone())? {
            AnyVolume::Log(volume) => {
                let outcome = match args.watch {
                    true => job.watched(&volume, &clock, output),
                    false => job.on(&mut OnVolume::new(&volume, &clock), None),
                };
                volume.close().map_err(unclosed).and(outcome)?
            }
            AnyVolume::Ffs(_) if args.watch => {
                return Err(Failure::usage("--watch shows a log; this is a Fast File System"));
            }
            AnyVolume::Ffs(volume) => {
                let outcome = job.on(&mut OnVolume::new(&volume, &clock), None);
                volume.close().map_err(unclosed).and(outcome)?
            }
        }
    };
    let view = ReplayView::of(args, &outcome);
    // What a watcher prints are lines of another kind.
    if !(args.watch && args.json) {
        output.show(args.json, &view, |out| view.write(out))?;
    }
    if outcome.mismatch_count > 0 {
        let count = Count(outcome.mismatch_count);
        let count = count.of("file or directory is", "files or directories are");
        return Err(Failure::failed(format!("{count} not as they should be")));
    }
    if outcome.is_stopped {
        return Err(
            Failure::new(interrupt::exit(), "stopped").advise("go on with the same command and --continue")
        );
    }
    Ok(())
}

/// A workload, opened.
struct Job<'a> {
    args: &'a ReplayArgs,
    stop: &'a AtomicBool,
    plan: Plan,
    total_bytes: u64,
    start_ns: i64,
}

impl<'a> Job<'a> {
    fn of(args: &'a ReplayArgs, stop: &'a AtomicBool) -> Done<Self> {
        let unread = |e: std::io::Error| Failure::io("cannot read", &args.workload, &e);
        let file = File::open(&args.workload).map_err(|e| Failure::io("cannot open", &args.workload, &e))?;
        let total_bytes = file.metadata().map_err(unread)?.len();
        let mut head = Vec::new();
        (&file).take(IDENTITY_BYTES).read_to_end(&mut head).map_err(unread)?;
        let identity = format!("{total_bytes}-{:08x}", firnfs_format::crc32c(&head));
        let reader = Reader::new(&head[..]).map_err(|e| unusable(&args.workload, &e.to_string()))?;
        let start_ns = i64::try_from(reader.header().start_ns).unwrap_or(i64::MAX);
        Ok(Self {
            args,
            stop,
            plan: Plan { by: args.by.into(), continues: args.continues, identity },
            total_bytes,
            start_ns,
        })
    }

    /// The same, watched; it goes on alone if the watcher quits.
    fn watched(&self, volume: &Volume<Lfs>, clock: &VirtualClock, output: &mut Output) -> Done<Outcome> {
        let simulation = Simulation::new(&self.args.shown, self.args.json)?;
        let span_s = self.span_s()?;
        let gate = Gate::new(clock.now_ns());
        std::thread::scope(|scope| {
            let replay = scope.spawn(|| {
                let _end = gate.end_when_dropped();
                self.on(&mut OnVolume::new(volume, clock), Some((&gate, clock)))
            });
            let shown = watch::run(volume, clock, &gate, &self.args.target, span_s, simulation, output);
            if shown.is_err() {
                self.stop.store(true, Ordering::SeqCst);
            }
            gate.open();
            let outcome = replay.join().unwrap_or_else(|_| Err(Failure::failed("the replay panicked")))?;
            // A signal is told as that of a replay that is not watched.
            if outcome.is_stopped { Ok(outcome) } else { shown.map(|()| outcome) }
        })
    }

    /// Seconds that the workload spans. It is read for that; what is wrong with it the replay will say.
    fn span_s(&self) -> Done<f64> {
        let path = &self.args.workload;
        let file = File::open(path).map_err(|e| Failure::io("cannot open", path, &e))?;
        let mut reader = Reader::new(BufReader::new(file)).map_err(|e| unusable(path, &e.to_string()))?;
        let bar = Bar::of_bytes();
        let mut last_ns = 0;
        while let Some(Ok(record)) = reader.next() {
            last_ns = last_ns.max(record.time_ns);
            bar.show(reader.read_bytes(), self.total_bytes, "of the workload".to_owned());
        }
        Ok(last_ns as f64 / 1e9)
    }

    fn on(&self, target: &mut dyn Target, gate: Option<(&Gate, &VirtualClock)>) -> Done<Outcome> {
        let path = &self.args.workload;
        let file = File::open(path).map_err(|e| Failure::io("cannot open", path, &e))?;
        let reader = Reader::new(BufReader::new(file)).map_err(|e| unusable(path, &e.to_string()))?;
        let bar = Bar::of_bytes();
        let began = Instant::now();
        let mut first = None;
        let mut progress = |tally: &Tally, read_bytes: u64| {
            let first = *first.get_or_insert(tally.operations);
            if let Some((gate, clock)) = gate {
                gate.pass(clock.now_ns(), tally.operations);
            }
            let is_alone = gate.is_none_or(|(gate, _)| gate.is_open());
            if is_alone && tally.records.is_multiple_of(256) {
                let rate = (tally.operations - first) as f64 / began.elapsed().as_secs_f64().max(1e-6);
                let done = Count(tally.operations).of("operation", "operations");
                let message = format!("{done}, {} a second", Count(rate as u64));
                bar.show(read_bytes, self.total_bytes.max(read_bytes), message);
            }
            if self.stop.load(Ordering::SeqCst) { Err(LabError::Interrupted) } else { Ok(()) }
        };
        replay(&self.plan, reader, target, &mut progress).map_err(|error| match error {
            LabError::Setup(why) => unusable(path, &why),
            other => failed(other),
        })
    }
}

fn unusable(path: &Path, why: &str) -> Failure {
    Failure::failed(format!("{}: {why}", path.display()))
}

impl ReplayView {
    fn of(args: &ReplayArgs, outcome: &Outcome) -> Self {
        Self {
            workload: args.workload.clone(),
            target: args.target.clone(),
            records: outcome.tally.records,
            file_operations: outcome.tally.operations,
            written_bytes: outcome.tally.written_bytes,
            refused_operations: outcome.tally.refused,
            elapsed_ms: outcome.seconds * 1e3,
            operations_per_s: outcome.run_operations as f64 / outcome.seconds.max(1e-9),
            stopped: outcome.is_stopped,
            files: outcome.files,
            mismatches: outcome.mismatch_count,
            first_mismatches: outcome.mismatches.clone(),
        }
    }

    fn write(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        let operations = Count(self.file_operations).of("operation", "operations");
        let written = Bytes(self.written_bytes);
        writeln!(out, "{}: {operations} on files, {written} written", self.target.display())?;
        let rate = Count(self.operations_per_s as u64).of("operation", "operations");
        writeln!(out, "  {:.1} s, {rate} a second", self.elapsed_ms / 1e3)?;
        if self.refused_operations > 0 {
            let refused = Count(self.refused_operations).of("operation was", "operations were");
            writeln!(out, "  {refused} left out for lack of room")?;
        }
        let at = if self.stopped { "so far" } else { "in the end" };
        writeln!(out, "  {} {at}", Count(self.files).of("file", "files"))?;
        self.first_mismatches.iter().try_for_each(|what| writeln!(out, "! {what}"))
    }
}
