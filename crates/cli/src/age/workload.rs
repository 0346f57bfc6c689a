//! `firn age workload`.

use super::failed;
use super::snapshot::create;
use crate::args::size;
use crate::failure::{Done, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::{Bytes, Count};
use clap::{Args, ValueEnum};
use firnfs_lab::LabError;
use firnfs_lab::age::snapshot::{Chain, Snapshot};
use firnfs_lab::age::workload::{
    Counts, Preset, Profile, Random, Repository, Series, cut, from_git, from_snapshots, random,
};
use firnfs_workload::Reader;
use serde::Serialize;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Arguments of `firn age workload`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn age workload night*.snap -o home.fwl                 from snapshots, in the order of time
  firn age workload night*.snap -o home.fwl --profiles day.fwl   short-lived files from a recording
  firn age workload --git ~/linux --commits 1000 -o linux.fwl
  firn age workload --git ~/linux --checkout-every 20 -o back-and-forth.fwl
  firn age workload --random 1G --full 65 --operations 500000 -o random.fwl
  firn workload info home.fwl

From snapshots as in File System Aging, section 3.2: the files of the first, in the order of their changes; then what was
created, deleted, modified and replaced between neighbours; and short-lived files, which no snapshot has seen: a profile is
what happened on one day in one directory, and for each 40 MB of the original one is put into the most active
directories of each day. Presets and build products are synthetic, and the header of the workload says so. The same
input and seed make the same file.")]
pub struct WorkloadArgs {
    /// Snapshots in the order of time
    #[arg(value_name = "SNAP", required_unless_present_any = ["git", "random"], conflicts_with_all = ["git", "random"])]
    pub snapshots: Vec<PathBuf>,
    /// The workload to make, which must not exist
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Take profiles of short-lived files from a recorded workload; may be given several times
    #[arg(long, value_name = "WORKLOAD", conflicts_with_all = ["git", "random", "preset"])]
    pub profiles: Vec<PathBuf>,
    /// Made-up profiles of short-lived files
    #[arg(long, value_enum, value_name = "KIND", conflicts_with_all = ["git", "random"], default_value = "engineering")]
    pub preset: PresetArg,
    /// From the history of a git repository
    #[arg(long, value_name = "REPO")]
    pub git: Option<PathBuf>,
    /// The newest commits at most, after a clone of the state before them
    #[arg(long, value_name = "N", requires = "git")]
    pub commits: Option<u64>,
    /// Commits between two builds; 0: never build
    #[arg(long, value_name = "N", requires = "git", default_value_t = 1)]
    pub build_every: u64,
    /// Commits after which the state before them is checked out, and the present one again; 0: never
    #[arg(long, value_name = "N", requires = "git", default_value_t = 0)]
    pub checkout_every: u64,
    /// At random, for a file system of that size, as Herrin and Finkel did
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "git")]
    pub random: Option<u64>,
    /// How full the random ager makes it, in percent
    #[arg(long, value_name = "N", requires = "random", default_value_t = 65, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub full: u32,
    /// Creates and deletes of the random ager
    #[arg(long, value_name = "N", requires = "random", default_value_t = 100_000)]
    pub operations: u64,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// Kinds of profiles on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PresetArg {
    /// Editors and compilers
    Engineering,
    /// A news server
    News,
    /// Mail spools
    Mail,
    /// Sorts of a database
    Database,
    /// No short-lived files
    None,
}

impl PresetArg {
    fn preset(self) -> Option<Preset> {
        match self {
            Self::Engineering => Some(Preset::Engineering),
            Self::News => Some(Preset::News),
            Self::Mail => Some(Preset::Mail),
            Self::Database => Some(Preset::Database),
            Self::None => None,
        }
    }
}

/// What was made.
#[derive(Serialize)]
struct WorkloadView {
    output: PathBuf,
    file_operations: u64,
    creates: u64,
    short_lived: u64,
    changes: u64,
    touches: u64,
    moves: u64,
    deletes: u64,
    directories: u64,
    left_files: u64,
    written_bytes: u64,
}

/// Runs the command.
///
/// # Errors
/// An input cannot be read or is damaged, the output exists or cannot be written; then no output is left.
pub fn run(args: &WorkloadArgs, output: &mut Output) -> Done {
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let file = BufWriter::new(create(&args.output)?);
    let made = match (&args.git, args.random) {
        (Some(repository), _) => of_git(args, repository, file, &stop),
        (_, Some(size_bytes)) => {
            let (full_percent, operations) = (args.full, args.operations);
            random(&Random { size_bytes, full_percent, operations, seed: args.seed }, file).map_err(failed)
        }
        _ => of_snapshots(args, file, &stop),
    };
    let counts = made.inspect_err(|_| {
        // An error of its own would hide the first one.
        let _already_gone = std::fs::remove_file(&args.output);
    })?;
    let view = WorkloadView::of(&args.output, &counts);
    output.show(args.json, &view, |out| {
        let operations = Count(view.file_operations).of("operation", "operations");
        writeln!(out, "{}: {operations} on files", view.output.display())?;
        writeln!(
            out,
            "  {} ({} of short-lived files), {}, {}",
            Count(view.creates).of("create", "creates"),
            Count(view.short_lived),
            Count(view.changes).of("change", "changes"),
            Count(view.deletes).of("delete", "deletes")
        )?;
        let (written, left) = (Bytes(view.written_bytes), Count(view.left_files).of("file", "files"));
        writeln!(out, "  {written} written, {left} left in the end")
    })
}

impl WorkloadView {
    fn of(output: &Path, counts: &Counts) -> Self {
        Self {
            output: output.to_owned(),
            file_operations: counts.operations(),
            creates: counts.creates,
            short_lived: counts.short_lived,
            changes: counts.changes,
            touches: counts.touches,
            moves: counts.moves,
            deletes: counts.deletes,
            directories: counts.directories,
            left_files: counts.left_files,
            written_bytes: counts.written_bytes,
        }
    }
}

fn of_git(args: &WorkloadArgs, path: &Path, file: BufWriter<File>, stop: &AtomicBool) -> Done<Counts> {
    let bar = Bar::endless();
    let repository = Repository {
        path: path.to_owned(),
        commits_max: args.commits,
        build_every: args.build_every,
        checkout_every: args.checkout_every,
        seed: args.seed,
    };
    let mut progress = |commits: u64| {
        bar.tell(Count(commits).of("commit", "commits"));
        goes_on(stop)
    };
    from_git(&repository, file, &mut progress).map_err(failed)
}

fn of_snapshots(args: &WorkloadArgs, file: BufWriter<File>, stop: &AtomicBool) -> Done<Counts> {
    let (profiles, from) = profiles(args)?;
    let bar = Bar::of_steps();
    let mut chain = Chain::default();
    let total = args.snapshots.len() as u64;
    let open = |(nth, path): (u64, &PathBuf)| -> Result<Snapshot, LabError> {
        goes_on(stop)?;
        bar.show(nth, total, "snapshots");
        chain.open(path)
    };
    let mut snapshots = (0..).zip(&args.snapshots).map(open);
    let series = Series { profiles: &profiles, profiles_from: &from, seed: args.seed };
    from_snapshots(&series, &mut snapshots, file).map_err(failed)
}

fn goes_on(stop: &AtomicBool) -> Result<(), LabError> {
    if stop.load(Ordering::SeqCst) { Err(LabError::Interrupted) } else { Ok(()) }
}

/// The profiles of short-lived files, and where they come from.
fn profiles(args: &WorkloadArgs) -> Done<(Vec<Profile>, String)> {
    if args.profiles.is_empty() {
        let Some(preset) = args.preset.preset() else { return Ok((Vec::new(), "none".to_owned())) };
        return Ok((preset.profiles(args.seed), format!("synthetic: {}", preset.name())));
    }
    let mut all = Vec::new();
    for path in &args.profiles {
        let file = File::open(path).map_err(|e| Failure::io("cannot open", path, &e))?;
        let damaged = |e: String| Failure::failed(format!("{}: {e}", path.display()));
        let reader = Reader::new(BufReader::new(file)).map_err(|e| {
            damaged(e.to_string())
                .advise("traces of other programs: convert them with 'firn workload convert'")
        })?;
        let start_ns = reader.header().start_ns;
        all.extend(cut(reader, start_ns).map_err(|e| damaged(e.to_string()))?);
    }
    if all.is_empty() {
        return Err(Failure::failed("the recordings have no file that was made and deleted on one day")
            .advise("take a --preset, or record longer"));
    }
    let from = format!("{} from {} recordings", all.len(), args.profiles.len());
    Ok((all, from))
}
