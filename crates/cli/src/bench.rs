//! `firn bench`: workloads on mounted directories (`mounted`), or `firn bench micro`, whose setup is here: it shows progress,
//! prints and keeps the report. `variant` has the columns that firnfs serves. `floor` is `firn bench floor`, the cost of FUSE
//! itself.

mod floor;
mod mounted;
mod variant;

use crate::args::size;
use crate::failure::{Done, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Bar;
use clap::{Args, Subcommand};
use firnfs_lab::LabError;
use firnfs_lab::micro::bandwidth::Bandwidth;
use firnfs_lab::micro::fsck::Fsck;
use firnfs_lab::micro::library::Library;
use firnfs_lab::micro::mount::{Backing, Firn, FirnMount};
use firnfs_lab::micro::recovery::Recovery;
use firnfs_lab::micro::report::{Report, Roles};
use firnfs_lab::micro::scale::Scale;
use firnfs_lab::micro::stop::Stop;
use firnfs_lab::micro::target::{PosixDirectory, Target};
use firnfs_lab::micro::task::{Scenario, Workload};
use firnfs_lab::micro::{Plan, tool};
use mounted::MountedArgs;
use std::path::{Path, PathBuf};
use variant::Variant;

/// Arguments of `firn bench`: those of the workloads on directories, or a command.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = mounted::HELP)]
pub struct BenchArgs {
    /// What to measure instead
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    mounted: MountedArgs,
}

/// What to measure.
#[derive(Subcommand, Debug)]
pub enum BenchCommand {
    /// Time small tasks on firnfs and on other file systems, in interleaved rounds
    Micro(MicroArgs),
    /// Time requests to a FUSE daemon with nothing behind it: this machine's floor
    Floor(floor::FloorArgs),
    #[command(hide = true)]
    FloorClient(floor::ClientArgs),
}

/// Arguments of `firn bench micro`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn bench micro --against /mnt/ext4 --image /disk/bench.img --size 8G
  firn bench micro --against /mnt/ext4 --against btrfs=/mnt/b --rounds 9
  firn bench micro --against /mnt/ext4 --report docs/bench/micro
  firn bench micro --against /mnt/ext4 --variant dev=transport=dev --variant wb=writeback
  firn bench micro --against /mnt/ext4 --subject mine=/mnt/mine     compare two directories, without making a firnfs volume

Makes a firnfs volume on the image, mounts it and a memory volume during the run, and removes both, also when it is
interrupted (exit code 130, or 143 after SIGTERM).
Variants are further columns: the same image, mounted in their turns with the options of the variant alone.
Cold reads need root: before each, the volume is unmounted, the kernel's caches are dropped, and it is mounted again.
`scripts/bench-micro.sh` sets up a fair ext4 beside it and runs everything.")]
pub struct MicroArgs {
    /// Directory on the file system to compare with; the goals refer to the first one
    #[arg(long, value_name = "[NAME=]DIR", required = true)]
    pub against: Vec<String>,
    /// Measure this directory instead of a fresh firnfs volume
    #[arg(long, value_name = "[NAME=]DIR", conflicts_with_all = ["image", "size", "null_size", "name", "variant"])]
    pub subject: Option<String>,
    /// Image file to make the firnfs volume on; must not exist unless it is preallocated to --size
    #[arg(long, default_value = "firn-bench.img")]
    pub image: PathBuf,
    /// Size of the firnfs volume
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4G")]
    pub size: u64,
    /// Size of the memory volume mounted the same way; 0 leaves it out
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4G")]
    pub null_size: u64,
    /// Option for `firn mount`; may be given several times
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub mount_option: Vec<String>,
    /// Name of the column of the firnfs volume
    #[arg(long, value_name = "NAME", value_parser = variant::name, default_value = "firn")]
    pub name: String,
    /// A further column: the same image mounted with -o OPTIONS; may be given several times
    #[arg(long, value_name = "NAME=OPTIONS")]
    pub variant: Vec<Variant>,
    /// Interleaved rounds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Only these scenarios
    #[arg(long, value_enum, value_delimiter = ',')]
    pub scenarios: Vec<ScenarioArg>,
    /// Leave out measurements that bypass the mount: the library, bandwidth, recovery
    #[arg(long)]
    pub no_library: bool,
    /// Also fill a directory with a million files and time creates among them, and check a volume with a million files
    /// (minutes, 4 GiB)
    #[arg(long)]
    pub million: bool,
    /// Divide all sizes by this, for a quick look; the goals do not apply then
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub shrink: u32,
    /// Also write the report to PATH.md and PATH.json
    #[arg(long, value_name = "PATH")]
    pub report: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// Names of scenarios on the command line.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScenarioArg {
    /// Create, read, delete small files
    Small,
    /// Small files, each fsynced
    Fsync,
    /// One large file, sequential and random
    Large,
    /// Unpack, find, rm -rf
    Tree,
    /// Create and write with 2, 4, 8 and 16 clients at once
    Clients,
    /// Unpack a tree of the size of a kernel's source
    Kernel,
    /// Clone a repository with git
    Git,
    /// Build a project with cargo
    Build,
    /// Transactions with sqlite3
    Database,
}

impl From<ScenarioArg> for Scenario {
    fn from(arg: ScenarioArg) -> Self {
        match arg {
            ScenarioArg::Small => Self::Small,
            ScenarioArg::Fsync => Self::Fsync,
            ScenarioArg::Large => Self::Large,
            ScenarioArg::Tree => Self::Tree,
            ScenarioArg::Clients => Self::Clients,
            ScenarioArg::Kernel => Self::Kernel,
            ScenarioArg::Git => Self::Git,
            ScenarioArg::Build => Self::Build,
            ScenarioArg::Database => Self::Database,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// If the setup or a measurement fails.
pub fn run(args: BenchArgs, output: &mut Output) -> Done {
    let args = match args.command {
        None => return mounted::run(&args.mounted, output),
        Some(BenchCommand::Floor(args)) => return floor::run(&args, output),
        Some(BenchCommand::FloorClient(args)) => return floor::client(&args),
        Some(BenchCommand::Micro(args)) => args,
    };
    let stop = Stop::default();
    interrupt::sets(&stop.flag())?;
    let report = micro(&args, stop).map_err(failed)?;
    if let Some(stem) = &args.report {
        keep(&report, stem, output)?;
    }
    let text = report.to_markdown();
    output.show(args.json, &report, |out| out.write_all(text.as_bytes()))
}

fn failed(error: LabError) -> Failure {
    match error {
        LabError::Interrupted => Failure::new(interrupt::exit(), error.to_string()),
        _ => Failure::failed(error.to_string()),
    }
}

fn micro(args: &MicroArgs, stop: Stop) -> Result<Report, LabError> {
    // Declared first, so dropped last: all mounts of it are unmounted by then, even if the setup fails halfway.
    let _image =
        if args.subject.is_none() { Some(ScratchImage::make(&args.image, args.size)?) } else { None };
    let mut plan = plan(args, stop)?;
    let bar = Bar::of_steps();
    firnfs_lab::micro::run(&mut plan, &mut |step| bar.show(step.done, step.total, &step.what))
}

/// The image of the benchmark's own volume; removed at the end.
struct ScratchImage(PathBuf);

impl ScratchImage {
    fn make(path: &Path, size_bytes: u64) -> Result<Self, LabError> {
        let mut mkfs = std::process::Command::new(this_program()?);
        tool::run(mkfs.arg("mkfs").arg(path).arg("--size").arg(size_bytes.to_string()))?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for ScratchImage {
    fn drop(&mut self) {
        // The error would be useless: the run is over or has failed already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// This program, to make and mount volumes with.
///
/// # Errors
/// The system does not say where it is.
pub fn this_firn() -> Result<Firn, LabError> {
    Ok(Firn { program: this_program()?, inspect: variant::inspect })
}

fn this_program() -> Result<PathBuf, LabError> {
    std::env::current_exe().map_err(LabError::io("find", Path::new("firn")))
}

/// Resolves the arguments into mounted targets with distinct names.
fn plan(args: &MicroArgs, stop: Stop) -> Result<Plan, LabError> {
    let mut targets: Vec<Box<dyn Target>> = Vec::new();
    let mut roles = Roles { subject: None, variants: Vec::new(), null: None, against: Vec::new() };
    for text in &args.against {
        roles.against.push(add(&mut targets, directory(text)?));
    }
    if let Some(text) = &args.subject {
        roles.subject = Some(add(&mut targets, directory(text)?));
    } else {
        mount_all(args, &mut targets, &mut roles)?;
    }
    check_names(&targets)?;
    let scenarios = match args.scenarios.as_slice() {
        [] => Scenario::ALL.to_vec(),
        chosen => chosen.iter().map(|&arg| arg.into()).collect(),
    };
    let beside = args.image.parent().filter(|parent| !parent.as_os_str().is_empty());
    let beside = beside.unwrap_or(Path::new("."));
    let workload = shrunk(args.shrink);
    let has_library = !args.no_library && args.subject.is_none();
    let library = has_library.then(|| Library::prepare(beside, &stop)).transpose()?;
    let bandwidth =
        has_library.then(|| Bandwidth::prepare(beside, workload.sequential_bytes, &stop)).transpose()?;
    let scale = args.million.then(Scale::default);
    let fsck = (args.million && args.subject.is_none()).then(|| Fsck::in_directory(beside));
    let recovery = library.is_some().then(|| {
        let all = Recovery::default();
        Recovery { files: (all.files / u64::from(args.shrink)).max(100), ..all }
    });
    Ok(Plan {
        targets,
        roles,
        workload,
        rounds: args.rounds,
        scenarios,
        library,
        bandwidth,
        scale,
        fsck,
        recovery,
        stop,
    })
}

/// The image with the options of the subject and of each variant, and the memory volume.
fn mount_all(
    args: &MicroArgs,
    targets: &mut Vec<Box<dyn Target>>,
    roles: &mut Roles,
) -> Result<(), LabError> {
    let firn = this_firn()?;
    let image = args.image.clone();
    let backing = if args.variant.is_empty() { Backing::Image(image) } else { Backing::SharedImage(image) };
    let mut mount = |name: &str, backing: &Backing, suffix: &str, options: &[String]| {
        let mountpoint = mountpoint_beside(&args.image, suffix);
        let mount = FirnMount::mount(name, &firn, backing.clone(), &mountpoint, options)?;
        Ok::<_, LabError>(add(targets, Box::new(mount)))
    };
    roles.subject = Some(mount(&args.name, &backing, "mnt", &args.mount_option)?);
    for variant in &args.variant {
        let suffix = format!("mnt-{}", variant.name);
        roles.variants.push(mount(&variant.name, &backing, &suffix, &variant.mount_arguments())?);
    }
    if args.null_size > 0 {
        let memory = Backing::Memory(args.null_size);
        roles.null = Some(mount("mem", &memory, "mem", &args.mount_option)?);
    }
    Ok(())
}

fn add(targets: &mut Vec<Box<dyn Target>>, target: Box<dyn Target>) -> String {
    let name = target.name().to_owned();
    targets.push(target);
    name
}

fn directory(text: &str) -> Result<Box<dyn Target>, LabError> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) if !name.contains('/') => (Some(name.to_owned()), path),
        _ => (None, text),
    };
    Ok(Box::new(PosixDirectory::new(name, Path::new(path))?))
}

fn check_names(targets: &[Box<dyn Target>]) -> Result<(), LabError> {
    let mut names: Vec<&str> = targets.iter().map(|target| target.name()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(LabError::Setup(format!(
            "two columns are called {}; name them apart: --against NAME=DIR, --name, --variant NAME=OPTIONS",
            pair[0]
        ))),
        None => Ok(()),
    }
}

fn mountpoint_beside(image: &Path, suffix: &str) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

fn shrunk(by: u32) -> Workload {
    let full = Workload::default();
    Workload {
        small_files: full.small_files / by,
        fsync_files: full.fsync_files / by,
        large_bytes: full.large_bytes / u64::from(by) / u64::from(full.unit_bytes)
            * u64::from(full.unit_bytes),
        tree_files: full.tree_files / by,
        kernel_files: full.kernel_files / by,
        repository_files: full.repository_files / by,
        crates: (full.crates / by).max(1),
        transactions: full.transactions / by,
        sequential_bytes: full.sequential_bytes / u64::from(by),
        ..full
    }
}

fn keep(report: &Report, stem: &Path, output: &Output) -> Done {
    if let Some(directory) = stem.parent() {
        std::fs::create_dir_all(directory).map_err(|e| Failure::io("cannot create", directory, &e))?;
    }
    let write = |extension: &str, text: String| {
        let mut path = stem.as_os_str().to_owned();
        path.push(extension);
        let path = PathBuf::from(path);
        std::fs::write(&path, text).map_err(|e| Failure::io("cannot write", &path, &e))
    };
    let json = output
        .document(report)
        .map_err(|e| Failure::failed(format!("cannot turn the report into JSON: {e}")))?;
    write(".md", format!("# Micro benchmark\n\n{}", report.to_markdown()))?;
    write(".json", json)
}
