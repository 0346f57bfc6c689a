//! `firn age bench`.

use super::replay::ByArg;
use super::{failed, target};
use crate::failure::{Done, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::{Bytes, Count, parse_size};
use clap::Args;
use firnfs_fuse::control::Client;
use firnfs_fuse::mount::{table::mount_of, write_back};
use firnfs_lab::LabError;
use firnfs_lab::age::bench::{Help, Row, forget, hot, hot_by_time, hot_by_workload, sequential};
use firnfs_lab::age::layout::Layout;
use firnfs_lab::age::snapshot::Chain;
use firnfs_workload::Reader;
use serde::Serialize;
use serde_json::json;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Arguments of `firn age bench`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn age bench /mnt/ext4                      the sequential benchmark for 16 sizes of files, and hot files
  firn age bench /mnt/ext4 --workload home.fwl  after a replay: its hot files are those of the workload's last days
  firn age bench /mnt --sizes 64K,104K --runs 3
  firn age bench /mnt --between 'umount /mnt && mount /mnt'

The benchmarks of File System Aging, section 4. Sequential: files of one size, 32 MB together, at most 25 to a directory,
are made and written in units of up to 4 MB, then read. Hot files: those that changed in the 30 days before the newest
change, sorted by directory, are read and overwritten in place with what they have. Rates are means and standard
deviations over the runs, in MB (2^20 bytes) a second; writing includes a sync, unlike in the paper. Between writing
and reading the kernel is asked to forget the files; what a daemon or a disk caches stays, unless --between remounts.")]
pub struct BenchArgs {
    /// A directory on the file system to measure, with 32 MB of space
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Sizes of files of the sequential benchmark, 1K at least [default: the paper's sixteen, 16K to 32M]
    #[arg(
        long,
        value_name = "SIZE,...",
        value_delimiter = ',',
        value_parser = file_size,
        hide_default_value = true,
        default_value = "16K,32K,64K,96K,104K,128K,192K,256K,512K,1M,2M,4M,8M,16M,24M,32M"
    )]
    pub sizes: Vec<u64>,
    /// Runs of each
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Days before the newest change in which a hot file changed
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub hot_days: u32,
    /// The workload that was replayed in the directory: it says which files are hot
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// How that replay placed files
    #[arg(long, value_enum, value_name = "PLACEMENT", requires = "workload", default_value = "directory")]
    pub by: ByArg,
    /// Leave the hot files alone
    #[arg(long, conflicts_with_all = ["hot_days", "workload", "by"])]
    pub no_hot: bool,
    /// A shell command that empties the caches, such as a remount, before each reading
    #[arg(long, value_name = "COMMAND")]
    pub between: Option<String>,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// The smallest file of the sequential benchmark: there are 32,768 of them.
const FILE_BYTES_MIN: u64 = 1 << 10;

fn file_size(text: &str) -> Result<u64, String> {
    match parse_size(text).map_err(|e| e.to_string())? {
        file_bytes if file_bytes < FILE_BYTES_MIN => {
            Err(format!("the smallest file has {}", Bytes(FILE_BYTES_MIN)))
        }
        file_bytes => Ok(file_bytes),
    }
}

#[derive(Serialize)]
struct BenchView {
    directory: PathBuf,
    runs: u32,
    sequential: Vec<RowView>,
    hot: Option<RowView>,
}

/// Rates are in bytes a second.
#[derive(Serialize)]
struct RowView {
    file_bytes: u64,
    files: u64,
    bytes_per_run: u64,
    read_bytes_per_s: f64,
    read_deviation_bytes_per_s: f64,
    write_bytes_per_s: f64,
    write_deviation_bytes_per_s: f64,
    layout_score: Option<f64>,
}

impl RowView {
    fn of(row: &Row, layout_score: Option<f64>) -> Self {
        const MB: f64 = (1 << 20) as f64;
        Self {
            file_bytes: row.file_bytes,
            files: row.files,
            bytes_per_run: row.bytes,
            read_bytes_per_s: row.read.mean * MB,
            read_deviation_bytes_per_s: row.read.deviation * MB,
            write_bytes_per_s: row.write.mean * MB,
            write_deviation_bytes_per_s: row.write.deviation * MB,
            layout_score,
        }
    }

    fn write(&self, out: &mut dyn Write, label: &str) -> io::Result<()> {
        const MB: f64 = (1 << 20) as f64;
        let rate = |mean: f64, deviation: f64| format!("{:.1} +-{:.1}", mean / MB, deviation / MB);
        let score = self.layout_score.map_or_else(|| "-".to_owned(), |score| format!("{score:.3}"));
        writeln!(
            out,
            "{label:<12}{:>8}{:>19}{:>19}{score:>9}",
            Count(self.files),
            rate(self.write_bytes_per_s, self.write_deviation_bytes_per_s),
            rate(self.read_bytes_per_s, self.read_deviation_bytes_per_s)
        )
    }
}

/// What the benchmarks ask for.
struct Assistant<'a> {
    args: &'a BenchArgs,
    stop: &'a AtomicBool,
    layout_score: Option<f64>,
}

impl Help for Assistant<'_> {
    fn go_on(&self) -> Result<(), LabError> {
        if self.stop.load(Ordering::SeqCst) { Err(LabError::Interrupted) } else { Ok(()) }
    }

    fn sync(&mut self, dir: &Path) -> Result<(), LabError> {
        // Beyond the kernel's page cache syncfs(2) does not reach through FUSE.
        if let Ok(Some(mount)) = mount_of(dir) {
            write_back(&mount).map_err(|errno| LabError::io("sync", dir)(errno.into()))?;
            let synced = Client::for_mount(&mount).and_then(|mut client| client.call("sync", json!({})));
            return synced.map(drop).map_err(|e| LabError::Setup(e.to_string()));
        }
        let root = File::open(dir).map_err(LabError::io("open", dir))?;
        rustix::fs::syncfs(&root).map_err(|e| LabError::io("sync", dir)(e.into()))
    }

    fn cool(&mut self, dir: &Path) -> Result<(), LabError> {
        self.go_on()?;
        let Some(command) = &self.args.between else { return forget(dir) };
        let status =
            Command::new("sh").args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).status();
        let tool = |reason| LabError::Tool { command: command.clone(), reason };
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(tool(status.to_string())),
            Err(error) => Err(tool(error.to_string())),
        }
    }

    fn examine(&mut self, dir: &Path) -> Result<(), LabError> {
        let snapshot = target::snapshot(dir, &mut Chain::default());
        let snapshot = snapshot.map_err(|failure| LabError::Setup(failure.to_string()))?;
        self.layout_score = Layout::of(&snapshot).all.score.value();
        Ok(())
    }
}

/// Runs the command.
///
/// # Errors
/// The system refuses, content is not what was written, or a signal ends it.
pub fn run(args: &BenchArgs, output: &mut Output) -> Done {
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let dir = &args.directory;
    let mut help = Assistant { args, stop: &stop, layout_score: None };
    let bar = Bar::of_steps();
    let steps = args.sizes.len() as u64 + u64::from(!args.no_hot);
    // First: the sequential files would be the newest.
    let hot_files = if args.no_hot { Vec::new() } else { hot_files(args)? };
    let mut rows = Vec::new();
    for (nth, &file_bytes) in (0..).zip(&args.sizes) {
        bar.show(nth, steps, format_args!("files of {}", Bytes(file_bytes)));
        help.layout_score = None;
        let row = sequential(dir, file_bytes, args.runs, &mut help).map_err(sequential_failed)?;
        rows.push(RowView::of(&row, help.layout_score));
    }
    let hot_row = (!hot_files.is_empty()).then(|| {
        bar.show(steps - 1, steps, Count(hot_files.len() as u64).of("hot file", "hot files"));
        hot(dir, &hot_files, args.runs, &mut help).map_err(failed)
    });
    let hot_row = hot_row.transpose()?.map(|row| RowView::of(&row, None));
    drop(bar);
    let view = BenchView { directory: dir.clone(), runs: args.runs, sequential: rows, hot: hot_row };
    output.show(args.json, &view, |out| {
        let runs = Count(view.runs.into()).of("run", "runs");
        writeln!(out, "{}: {runs}, MB a second", view.directory.display())?;
        writeln!(out, "{:<12}{:>8}{:>19}{:>19}{:>9}", "size", "files", "write", "read", "score")?;
        for row in &view.sequential {
            row.write(out, &Bytes(row.file_bytes).to_string())?;
        }
        match &view.hot {
            Some(row) => row.write(out, "hot files"),
            None if args.no_hot => Ok(()),
            None => writeln!(out, "no hot files"),
        }
    })
}

fn sequential_failed(error: LabError) -> Failure {
    let is_taken =
        matches!(&error, LabError::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists);
    let failure = failed(error);
    if !is_taken {
        return failure;
    }
    failure.advise("a benchmark that was killed leaves it: delete it, unless one is running there")
}

fn hot_files(args: &BenchArgs) -> Done<Vec<PathBuf>> {
    let Some(path) = &args.workload else {
        return hot_by_time(&args.directory, args.hot_days).map_err(failed);
    };
    let file = File::open(path).map_err(|e| Failure::io("cannot open", path, &e))?;
    let unusable = |why: String| Failure::failed(format!("{}: {why}", path.display()));
    let reader = Reader::new(BufReader::new(file)).map_err(|e| unusable(e.to_string()))?;
    hot_by_workload(reader, &args.directory, args.by.into(), args.hot_days)
        .map_err(|e| unusable(e.to_string()))
}
