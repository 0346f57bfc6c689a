//! `firn workload generate`: writes a made-up trace with the counts of a server of the paper.

use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::{Bytes, Count};
use clap::{Args, ValueEnum};
use firnfs_lab::trace::{Server, Synthetic};
use firnfs_workload::{End, Writer};
use serde::Serialize;
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

/// Arguments of `firn workload generate`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn workload generate attic -o attic.fwl             9 days, 4 million records
  firn workload generate maytag -o day.fwl --days 1 --seed 7
  firn sim trace attic.fwl                              what the log makes of it

The counts of each kind of request, the time and the size of the files are those of the NFS servers of Blackwell,
Harris and Seltzer (USENIX 1995, table 2). Gaps, bursts and sizes are assumed: a synthetic workload, which its header
says. The same seed gives the same file.")]
pub struct GenerateArgs {
    /// Whose counts
    #[arg(value_enum, value_name = "NAME")]
    server: Name,
    /// The file to write; it must not exist
    #[arg(short, long, value_name = "F")]
    output: PathBuf,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Days that it spans [default: as the paper's]
    #[arg(long, value_name = "DAYS", value_parser = days)]
    days: Option<f64>,
    /// Bytes of files, as a share of the server's
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = files)]
    files: f64,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Name {
    /// 4.0 million requests in 9 days, files of 3.6 GB
    Attic,
    /// 1.5 million in 16 days, 0.9 GB
    Cellar,
    /// 7.5 million in 2.5 days, 7.2 GB
    Maytag,
}

fn days(text: &str) -> Result<f64, String> {
    let days: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.001..=1000.0).contains(&days) { Ok(days) } else { Err("allowed: 0.001 to 1000".to_owned()) }
}

fn files(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.001..=10.0).contains(&share) { Ok(share) } else { Err("allowed: 0.001 to 10".to_owned()) }
}

#[derive(Serialize)]
struct View {
    path: PathBuf,
    server: &'static str,
    seed: u64,
    records: u64,
    file_bytes: u64,
}

/// Runs the command.
///
/// # Errors
/// The file exists, or cannot be written.
pub(super) fn run(args: &GenerateArgs, output: &mut Output) -> Done {
    let name = match args.server {
        Name::Attic => "attic",
        Name::Cellar => "cellar",
        Name::Maytag => "maytag",
    };
    let server = Server::find(name).ok_or_else(|| Failure::usage(format!("there is no server {name}")))?;
    let whole = Synthetic::of(server, args.seed);
    let synthetic = Synthetic {
        days: args.days.unwrap_or(whole.days),
        files_bytes: whole.files_bytes * args.files,
        ..whole
    };
    let path = &args.output;
    let file = File::create_new(path).map_err(|error| Failure::io("cannot create", path, &error))?;
    let written = write(file, &synthetic);
    let (records, file_bytes) = written.map_err(|error| {
        // What was written lacks its end.
        let _ = std::fs::remove_file(path);
        Failure::failed(format!("{}: {error}", path.display()))
    })?;
    let view = View { path: path.clone(), server: name, seed: args.seed, records, file_bytes };
    output.show(args.json, &view, |out| {
        let records = Count(records).of("record", "records");
        writeln!(out, "{}: {records} in {}, synthetic", path.display(), Bytes(file_bytes))
    })
}

fn write(file: File, synthetic: &Synthetic) -> Result<(u64, u64), firnfs_workload::Error> {
    let bar = Bar::of_share();
    let mut writer = Writer::new(BufWriter::new(file), &synthetic.header())?;
    let about = synthetic.records();
    for (n, record) in (0_u64..).zip(synthetic.generate()) {
        writer.push(&record)?;
        if n % 4096 == 0 {
            bar.show(n, about.max(n), Count(about).of("record", "records"));
        }
    }
    let (file, records) = writer.finish(End::Last)?;
    let file = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    Ok((records, file.metadata()?.len()))
}
