//! `firn workload`: shows workload files, and turns traces of others into them.
//!
//! `source` opens any input, `convert` writes another one, `generate` makes one up, `view` is what `info` prints. A damaged input is one line that says at
//! which record; what comes before it is whole, and `info` shows it, `convert --partial` keeps it.

mod convert;
mod generate;
pub mod source;
mod view;

use crate::failure::{Done, Exit, Failure};
use crate::output::{Output, terminal_columns};
use crate::progress::Bar;
use crate::sizes::Count;
use clap::{Args, Subcommand};
use convert::ConvertArgs;
use firnfs_workload::{Error, Summary};
use generate::GenerateArgs;
use rustix::stdio::stdout;
use serde::Serialize;
use source::{Form, Source};
use std::path::{Path, PathBuf};
use std::time::Instant;
use view::{InfoView, RecordView, write_record};

/// What to do with workloads.
#[derive(Subcommand, Debug)]
pub enum WorkloadCommand {
    /// Read workloads to the end and show what they consist of
    Info(InfoArgs),
    /// Print the first records of a workload
    Head(HeadArgs),
    /// Convert a trace of another program, or a workload, into a workload or a table
    Convert(ConvertArgs),
    /// Write a made-up workload with the counts of a server of the papers
    Generate(GenerateArgs),
}

/// Arguments of `firn workload info`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn workload info day.fwl             what a recording has, and whether it is whole
  firn workload info day.fwl day.fwl.1   all parts of a recording
  firn workload info trace.txt --from nfsdump --json

A file that is cut short or damaged shows the whole records before the damage; the exit code is 1 then.")]
pub struct InfoArgs {
    /// Workload files; - is standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// What the files are; workload files are recognised
    #[arg(long, value_enum, value_name = "FORM")]
    pub from: Option<Form>,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `firn workload head`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn workload head day.fwl
  firn workload head day.fwl -n 1000 --json
  strace -f -y -ttt -T -e trace=file,desc,process -o /dev/stdout -- make -s 2>&1 | firn workload head - --from strace

A line is the time in seconds since the start, the operation, what it was about, its outcome, and how long it took. On a
terminal, a long one goes on in the next line.")]
pub struct HeadArgs {
    /// A workload file; - is standard input
    pub file: PathBuf,
    /// Records to print
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub records: u64,
    /// What the file is; workload files are recognised
    #[arg(long, value_enum, value_name = "FORM")]
    pub from: Option<Form>,
    /// Print JSON for programs: a list of records
    #[arg(long)]
    pub json: bool,
}

/// The output of `info`.
#[derive(Serialize)]
struct InfosView {
    workloads: Vec<InfoView>,
}

/// The output of `head`.
#[derive(Serialize)]
struct HeadView {
    first_records: Vec<RecordView>,
}

/// Runs the command.
///
/// # Errors
/// An input is damaged, is not of the form that it should be, or cannot be read; an output cannot be written.
pub fn run(command: &WorkloadCommand, output: &mut Output) -> Done {
    match command {
        WorkloadCommand::Info(args) => info(args, output),
        WorkloadCommand::Head(args) => head(args, output),
        WorkloadCommand::Convert(args) => convert::run(args, output),
        WorkloadCommand::Generate(args) => generate::run(args, output),
    }
}

fn info(args: &InfoArgs, output: &mut Output) -> Done {
    let mut views = Vec::new();
    let mut damage = None;
    for path in &args.files {
        let mut source = Source::open(path, args.from)?;
        let mut summary = Summary::default();
        let mut progress = Progress::of(&source);
        let error = loop {
            match source.next() {
                None => break None,
                Some(Err(error)) => break Some(error),
                Some(Ok(record)) => summary.add(&record),
            }
            progress.show(&source);
        };
        views.push(InfoView::of(path, &source, &summary, error.as_ref()));
        damage = damage.or(error.map(|error| failure_of(path, &error)));
    }
    let view = InfosView { workloads: views };
    output.show(args.json, &view, |out| view.workloads.iter().try_for_each(|view| view.write(out)))?;
    damage.map_or(Ok(()), Err)
}

fn head(args: &HeadArgs, output: &mut Output) -> Done {
    let mut source = Source::open(&args.file, args.from)?;
    if args.json {
        let mut views = Vec::new();
        for next in source.by_ref().take(usize::try_from(args.records).unwrap_or(usize::MAX)) {
            views.push(RecordView::of(&next.map_err(|error| failure_of(&args.file, &error))?));
        }
        return output.show(true, &HeadView { first_records: views }, |_| Ok(()));
    }
    let width = terminal_columns(stdout());
    for _ in 0..args.records {
        match source.next() {
            None => break,
            Some(Err(error)) => return Err(failure_of(&args.file, &error)),
            Some(Ok(record)) => output.text(|out| write_record(out, &record, width))?,
        }
    }
    Ok(())
}

/// A bar over the bytes of an input, with the rate of records.
struct Progress {
    bar: Bar,
    total_bytes: u64,
    began: Instant,
    records: u64,
}

impl Progress {
    /// Records between two looks at the clock.
    const STRIDE: u64 = 4096;

    fn of(source: &Source) -> Self {
        Self { bar: Bar::of_bytes(), total_bytes: source.total_bytes(), began: Instant::now(), records: 0 }
    }

    fn show(&mut self, source: &Source) {
        self.records += 1;
        if self.records.is_multiple_of(Self::STRIDE) {
            let rate = self.records as f64 / self.began.elapsed().as_secs_f64().max(1e-6);
            let message =
                format!("{}, {} a second", Count(self.records).of("record", "records"), Count(rate as u64));
            let done = source.read_bytes();
            self.bar.show(done, self.total_bytes.max(done), message);
        }
    }
}

fn failure_of(path: &Path, error: &Error) -> Failure {
    let failure = Failure::failed(format!("{}: {error}", path.display()));
    match error {
        Error::NotAWorkload => Failure { exit: Exit::Usage, ..failure }
            .advise("if it is a trace of another program, say of which: --from nfsdump, strace or csv"),
        Error::Damaged { .. } => failure
            .advise("the records before it are whole; keep them with 'firn workload convert --partial'"),
        Error::Line { .. } => {
            failure.advise("correct or remove the line, or keep what precedes it with --partial")
        }
        Error::Version(_) => failure.advise("use the firn that wrote it, or a later one"),
        _ => failure,
    }
}
