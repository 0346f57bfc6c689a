//! `firn age compare`.

use super::{failed, target};
use crate::args::size;
use crate::bench::this_firn;
use crate::failure::{Done, Exit, Failure};
use crate::interrupt;
use crate::names::shell_word;
use crate::output::Output;
use crate::progress::Bar;
use crate::stat::cleaned_since_mkfs;
use clap::{Args, ValueEnum};
use firnfs_lab::LabError;
use firnfs_lab::age::compare::{Asks, Kind, Logged, Plan, Report, run as compare};
use firnfs_lab::age::snapshot::Chain;
use firnfs_lab::micro::stop::Stop;
use firnfs_lab::micro::table::markdown;
use firnfs_lab::plot::{Origin, write_drawings};
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the page.
const PAGE: &str = "compare.html";

/// Arguments of `firn age compare`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn age compare home.fwl --out report                 firnfs, ext4, XFS, btrfs and our FFS, as far as they are here
  firn age compare home.fwl --out report --on firnfs,ext4 --size 2G --dir /disk
  firn age compare linux.fwl --out report --mount-option=--cache=1G

Each file system lives on a disk of its own of that size: an image in --dir, behind a loop device with direct I/O. It goes through the
workload as fast as it can; after each --sync-every of the workload's time everything is made durable. After each stage
of its life all is read once, it rests (firnfs puts scattered files in order that have not changed for a minute), is mounted anew, and
the whole tree is read cold; so is a copy of the tree on a new file system of the
same kind. The report says what age costs a reader, how much more than the workload went to the disk, and how long operations
take, young and old. --out gets compare.html, which stands alone, and the plots as SVG and CSV. Needs root, and twice
--size in --dir; everything is removed at the end, also after Ctrl-C.
Most of the time is rest: with the defaults three quarters of an hour.")]
pub struct CompareArgs {
    /// A workload of `firn age workload`
    pub workload: PathBuf,
    /// Directory for the report; made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// File systems to age [default: all that are here]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,...")]
    pub on: Vec<KindArg>,
    /// Size of each disk
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4G")]
    pub size: u64,
    /// Directory for the disks
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Stages of the life after which everything is read
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub stages: u32,
    /// Readings of each tree; their median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Seconds of the workload's time after which everything is made durable
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub sync_every: u64,
    /// Seconds after each stage in which nothing is asked of the file system, so that it may tidy up
    #[arg(long, value_name = "SECONDS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(..=86400))]
    pub rest: u64,
    /// Option for `firn mount`; may be given several times
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub mount_option: Vec<String>,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// Names of file systems on the command line.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum KindArg {
    /// The log
    Firnfs,
    /// Linux's ext4
    Ext4,
    /// Linux's XFS
    Xfs,
    /// Linux's btrfs
    Btrfs,
    /// The Fast File System of firnfs
    Ffs,
}

impl From<KindArg> for Kind {
    fn from(arg: KindArg) -> Self {
        match arg {
            KindArg::Firnfs => Self::Firnfs,
            KindArg::Ext4 => Self::Ext4,
            KindArg::Xfs => Self::Xfs,
            KindArg::Btrfs => Self::Btrfs,
            KindArg::Ffs => Self::Ffs,
        }
    }
}

#[derive(Serialize)]
struct CompareView<'a> {
    workload: &'a Path,
    page: PathBuf,
    #[serde(flatten)]
    report: &'a Report,
    left_out: &'a [String],
}

/// Runs the command.
///
/// # Errors
/// Not root; a file system is not here; the system refuses; what exists at the end is not what should; a signal ends it.
pub fn run(args: &CompareArgs, output: &mut Output) -> Done {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::new(Exit::Refused, "only root makes and mounts file systems on loop devices")
            .advise("run it with sudo, or age one mounted directory with firn age replay"));
    }
    let (kinds, left_out) = kinds(&args.on)?;
    let stop = Stop::default();
    interrupt::sets(&stop.flag())?;
    let scratch = Scratch::make(&args.dir)?;
    let plan = Plan {
        workload: &args.workload,
        kinds: &kinds,
        directory: &scratch.0,
        size_bytes: args.size,
        stages: args.stages,
        runs: args.runs,
        sync_every: Duration::from_secs(args.sync_every),
        rest: Duration::from_secs(args.rest),
        firn: &this_firn().map_err(failed)?,
        options: &args.mount_option,
        stop: &stop,
    };
    let asks = Asks { snapshot: &snapshot, logged: &logged };
    let bar = Bar::of_steps();
    let report = compare(&plan, &asks, &mut |done, all, what| bar.show(done, all, what)).map_err(failed)?;
    drop(bar);
    let page = keep(args, &report)?;
    let view = CompareView { workload: &args.workload, page, report: &report, left_out: &left_out };
    output.show(args.json, &view, |out| text(out, &view))
}

/// A directory for the disks, which is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn make(place: &Path) -> Done<Self> {
        let place = place.canonicalize().map_err(|e| Failure::io("cannot find", place, &e))?;
        let path = place.join(format!("firn-age-compare-{}", std::process::id()));
        fs::create_dir(&path).map_err(|e| Failure::io("cannot make", &path, &e))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Not what is in it: if something is still mounted there, it must not be emptied.
        let _ = fs::remove_dir(&self.0);
    }
}

/// The wanted file systems, or all that are here, and why others are not.
fn kinds(wanted: &[KindArg]) -> Done<(Vec<Kind>, Vec<String>)> {
    let wanted: Vec<Kind> = wanted.iter().map(|&kind| kind.into()).collect();
    for kind in &wanted {
        if let Some(why) = kind.missing_because() {
            return Err(Failure::failed(format!("{}: {why}", kind.name())));
        }
    }
    if !wanted.is_empty() {
        return Ok((wanted, Vec::new()));
    }
    let here = Kind::ALL.into_iter().filter(|kind| kind.missing_because().is_none()).collect();
    let why = |kind: Kind| kind.missing_because().map(|why| format!("{}: {why}", kind.name()));
    Ok((here, Kind::ALL.into_iter().filter_map(why).collect()))
}

fn snapshot(dir: &Path) -> Result<firnfs_lab::age::snapshot::Snapshot, LabError> {
    target::snapshot(dir, &mut Chain::default()).map_err(|failure| LabError::Setup(failure.to_string()))
}

fn logged(dir: &Path) -> Result<Logged, LabError> {
    let cleaned = cleaned_since_mkfs(dir).map_err(|failure| LabError::Setup(failure.to_string()))?;
    let cleaned = cleaned.ok_or_else(|| LabError::Setup(format!("{} has no log", dir.display())))?;
    Ok(Logged { log_bytes: cleaned.log_bytes, new_bytes: cleaned.new_bytes })
}

/// Writes the page and the drawings.
fn keep(args: &CompareArgs, report: &Report) -> Done<PathBuf> {
    let systems: Vec<&str> = report.systems.iter().map(|aged| aged.name.as_str()).collect();
    let origin = Origin { command: command(args, &systems), seed: report.seed() };
    write_drawings(&args.out, &report.drawings(), &origin).map_err(failed)?;
    let page = args.out.join(PAGE);
    let html = report.html(&origin).map_err(failed)?;
    fs::write(&page, html).map_err(|e| Failure::io("cannot write", &page, &e))?;
    Ok(page)
}

/// The command line that measures the same again, wherever it writes: on the file systems that were here.
fn command(args: &CompareArgs, systems: &[&str]) -> String {
    let mut words = vec![
        format!("firn age compare {} --on {}", shell_word(&args.workload), systems.join(",")),
        format!("--size {} --stages {} --runs {}", args.size, args.stages, args.runs),
        format!("--sync-every {} --rest {}", args.sync_every, args.rest),
        format!("--dir {}", shell_word(&args.dir)),
    ];
    words.extend(args.mount_option.iter().map(|option| shell_word(&format!("--mount-option={option}"))));
    words.push("--out DIR".to_owned());
    words.join(" ")
}

fn text(out: &mut dyn Write, view: &CompareView<'_>) -> io::Result<()> {
    let (titles, rows) = view.report.table();
    // A file system is a column, so that the table fits the terminal.
    let header: Vec<&str> = std::iter::once("").chain(rows.iter().map(|row| row[0].as_str())).collect();
    let line =
        |at: usize| std::iter::once(titles[at].to_owned()).chain(rows.iter().map(move |row| row[at].clone()));
    let turned: Vec<Vec<String>> = (1..titles.len()).map(|at| line(at).collect()).collect();
    out.write_all(markdown(&header, &turned).as_bytes())?;
    for why in view.left_out {
        writeln!(out, "left out: {why}")?;
    }
    writeln!(out, "{}", view.page.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CompareArgs,
    }

    fn command_of(line: &str) -> String {
        // The name of the program stands for `firn age compare`.
        let words = line.strip_prefix("firn age ").unwrap().split(' ');
        command(&Line::try_parse_from(words).unwrap().args, &["firnfs", "ext4"])
    }

    #[test]
    fn the_command_that_a_report_names_measures_the_same_again() {
        let given = "firn age compare w.fwl --out report --size 2G --stages 3 --runs 1 --rest 5 --dir /disk \
                     --mount-option=--cache=1G --mount-option=--writeback";
        let named = command_of(given);
        assert_eq!(command_of(&named), named);
        for part in [
            "compare w.fwl --on firnfs,ext4",
            "--size 2147483648 --stages 3 --runs 1",
            "--sync-every 3600 --rest 5 --dir /disk",
            "--mount-option=--cache=1G --mount-option=--writeback",
            "--out DIR",
        ] {
            assert!(named.contains(part), "{part} is not in {named}");
        }
    }
}
