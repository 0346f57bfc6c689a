//! `firn bench DIR...`: the papers' workloads on mounted directories, in real time.

use super::{check_names, directory, failed};
use crate::failure::{Done, Failure};
use crate::interrupt;
use crate::names::shell_word;
use crate::output::Output;
use crate::progress::Bar;
use clap::{Args, ValueEnum};
use firnfs_lab::micro::stop::Stop;
use firnfs_lab::mounted::{self, Plan, Workload};
use firnfs_lab::plot::{self, Origin};
use std::path::PathBuf;

/// The end of the command's help.
pub const HELP: &str = "Examples:
  firn bench /mnt/firn /mnt/ext4               the workloads on two file systems, and ratios to the first
  firn bench new=/mnt/a old=/mnt/b --rounds 9 --out charts
  firn bench /mnt/firn --workloads tpcb,varmail --json
  firn bench /mnt/firn /mnt/ext4 --shrink 10   a quick look: a tenth of everything
  firn bench micro --against /mnt/ext4         the micro benchmark: see `firn bench micro --help`

Every round runs every workload once on every directory, in rotating order, and reports medians; a ratio is the median
of the rounds' ratios. Phases that write include the sync that makes the data durable. Before reads the kernel is asked
to forget the files; what a daemon or a disk caches stays. All data is compared with what was written; TPC-B compares
its sums after the run. Andrew compiles with cc, and is left out if there is none. Each directory needs 400 MB of
space and is left as it was.";

/// Arguments of `firn bench DIR...`.
#[derive(Args, Debug)]
pub struct MountedArgs {
    /// Directories on the file systems to measure; the first one is what the others are compared with
    #[arg(value_name = "[NAME=]DIR", required = true)]
    directories: Vec<String>,
    /// Only these workloads
    #[arg(long, value_enum, value_delimiter = ',')]
    workloads: Vec<WorkloadArg>,
    /// Interleaved rounds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Divide all amounts by this, for a quick look
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    shrink: u64,
    /// Also draw a chart of each workload, with its numbers, into a directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

/// Names of workloads on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum WorkloadArg {
    /// Create, read, delete files of 1 KB (Sprite LFS, figure 8)
    SmallFiles,
    /// A file of 100 MB, in order and at random (Sprite LFS, figure 9)
    LargeFile,
    /// Files of 4 KB to 4 MB (USENIX'95, figures 3 to 6)
    BySize,
    /// Make, copy, examine, read and compile a tree
    Andrew,
    /// Transactions whose sums are checked
    Tpcb,
    /// A pool of small files, without fsyncs
    Postmark,
    /// Mail, with an fsync for each delivery
    Varmail,
}

impl From<WorkloadArg> for Workload {
    fn from(arg: WorkloadArg) -> Self {
        match arg {
            WorkloadArg::SmallFiles => Self::SmallFiles,
            WorkloadArg::LargeFile => Self::LargeFile,
            WorkloadArg::BySize => Self::BySize,
            WorkloadArg::Andrew => Self::Andrew,
            WorkloadArg::Tpcb => Self::Tpcb,
            WorkloadArg::Postmark => Self::Postmark,
            WorkloadArg::Varmail => Self::Varmail,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// A directory cannot be used, or a workload failed or read other data than was written.
pub fn run(args: &MountedArgs, output: &mut Output) -> Done {
    let stop = Stop::default();
    interrupt::sets(&stop.flag())?;
    let targets = args.directories.iter().map(|text| directory(text)).collect::<Result<Vec<_>, _>>();
    let targets = targets.map_err(failed)?;
    check_names(&targets).map_err(|_| {
        Failure::usage("two directories have the same name").advise("name them apart: NAME=DIR")
    })?;
    let plan = Plan { targets, workloads: workloads(args)?, rounds: args.rounds, shrink: args.shrink, stop };
    if let Some(out) = &args.out {
        // First, so that a directory that cannot be made does not waste the measurements.
        std::fs::create_dir_all(out).map_err(|error| Failure::io("cannot create", out, &error))?;
    }
    let bar = Bar::of_steps();
    let report = mounted::run(&plan, &mut |done, total, what| bar.show(done, total, what)).map_err(failed)?;
    drop(bar);
    if let Some(out) = &args.out {
        let origin = Origin::seeded(command(args), 1);
        plot::write_drawings(out, &report.drawings(), &origin).map_err(failed)?;
    }
    output.show(args.json, &report, |to| to.write_all(report.markdown().as_bytes()))
}

/// The workloads that are wanted; without the compiler's if there is none and it was not asked for.
fn workloads(args: &MountedArgs) -> Result<Vec<Workload>, Failure> {
    let has_compiler = std::process::Command::new("cc").arg("--version").output().is_ok();
    if args.workloads.is_empty() {
        let all = Workload::ALL.into_iter();
        return Ok(all.filter(|workload| *workload != Workload::Andrew || has_compiler).collect());
    }
    if args.workloads.contains(&WorkloadArg::Andrew) && !has_compiler {
        return Err(Failure::failed("there is no C compiler").advise("Andrew compiles with cc: install one"));
    }
    Ok(args.workloads.iter().map(|&arg| arg.into()).collect())
}

/// The command line that measures the same again.
fn command(args: &MountedArgs) -> String {
    let mut words = vec!["firn bench".to_owned()];
    words.extend(args.directories.iter().map(shell_word));
    if !args.workloads.is_empty() {
        let names: Vec<&str> = args.workloads.iter().map(|&arg| Workload::from(arg).name()).collect();
        words.push(format!("--workloads {}", names.join(",")));
    }
    words.push(format!("--rounds {} --shrink {} --out DIR", args.rounds, args.shrink));
    words.join(" ")
}
