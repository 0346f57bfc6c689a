//! `firn workload convert`.

use super::source::{Form, Source};
use super::{Progress, failure_of};
use crate::failure::{Done, Exit, Failure};
use crate::output::Output;
use crate::sizes::Count;
use clap::Args;
use firnfs_workload::{End, Error, Header, NameKey, Naming, Record, Writer, csv};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

const STANDARD: &str = "-";

/// Arguments of `firn workload convert`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn workload convert lair62.txt lair62.fwl --from nfsdump
  strace -f -y -ttt -T -e trace=file,desc,process -o make.txt make
  firn workload convert make.txt make.fwl --from strace
  firn workload convert day.fwl day.csv --to csv          for programs of others
  firn workload convert day.fwl public.fwl --hash-names   to give away
  firn workload convert cut.fwl whole.fwl --partial       keep the records before a damage

A hashed name is the SipHash of the name under a random key that is stored nowhere; the components of paths are hashed each
on its own. With --key the same names have the same hashes in several files. Sizes, times, and (from NFS and from mounts)
numbers of files stay as they are. docs/internals/workload.md describes the format and the columns of tables.")]
pub struct ConvertArgs {
    /// A workload file or a trace; - is standard input
    pub input: PathBuf,
    /// The file to make, which must not exist; - is standard output
    pub output: PathBuf,
    /// What the input is; workload files are recognised
    #[arg(long, value_enum, value_name = "FORM")]
    pub from: Option<Form>,
    /// What to write
    #[arg(long, value_enum, value_name = "FORM", default_value = "firn")]
    pub to: Target,
    /// Replace names by keyed hashes
    #[arg(long)]
    pub hash_names: bool,
    /// Take the key from the first 16 bytes of this file; keep it secret
    #[arg(long, value_name = "FILE", requires = "hash_names")]
    pub key: Option<PathBuf>,
    /// If the input is damaged, keep the records before the damage
    #[arg(long)]
    pub partial: bool,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// What can be written.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// A workload file
    Firn,
    /// A table with a line of column names
    Csv,
}

/// What was done.
#[derive(Serialize)]
struct ConvertView {
    input: PathBuf,
    output: PathBuf,
    records: u64,
    /// Records that the recorder of the input had lost.
    lost_records: u64,
    /// With --partial: the damage after the last record.
    error: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// The input is damaged (without `--partial`) or cannot be read; the output exists or cannot be written. Then no output is left.
pub fn run(args: &ConvertArgs, output: &mut Output) -> Done {
    let is_standard = args.output == Path::new(STANDARD);
    let mut source = Source::open(&args.input, args.from)?;
    let key = args.hash_names.then(|| name_key(args.key.as_deref())).transpose()?;
    let converted = if is_standard {
        convert(args, &mut source, key.as_ref(), Box::new(io::stdout()))
    } else {
        let file = create(&args.output)?;
        convert(args, &mut source, key.as_ref(), Box::new(file)).inspect_err(|_| {
            // An error of its own would hide the first one.
            let _already_gone = std::fs::remove_file(&args.output);
        })
    };
    let view = converted?;
    if is_standard {
        return Ok(());
    }
    output.show(args.json, &view, |out| {
        write!(out, "{}: {}", view.output.display(), Count(view.records).of("record", "records"))?;
        if view.lost_records > 0 {
            write!(out, ", {} lost when it was recorded", Count(view.lost_records).of("was", "were"))?;
        }
        match &view.error {
            Some(damage) => writeln!(out, "; the rest is damaged: {damage}"),
            None => writeln!(out),
        }
    })
}

fn create(path: &Path) -> Done<File> {
    OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::new(Exit::Refused, format!("{} exists", path.display()))
            .advise("remove it first, or name another file"),
        _ => Failure::io("cannot create", path, &error),
    })
}

/// A random key, or that of a file.
fn name_key(file: Option<&Path>) -> Done<NameKey> {
    let path = file.unwrap_or(Path::new("/dev/urandom"));
    let mut key = [0; 16];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut key));
    read.map_err(|e| Failure::io("cannot read a key of 16 bytes from", path, &e))?;
    Ok(NameKey::new(&key))
}

/// An output with records in one of the forms.
enum Sink {
    Firn(Writer<BufWriter<Box<dyn Write>>>),
    Csv(BufWriter<Box<dyn Write>>),
}

impl Sink {
    fn new(target: Target, out: Box<dyn Write>, header: &Header) -> Result<Self, Error> {
        let mut out = BufWriter::new(out);
        Ok(match target {
            Target::Firn => Self::Firn(Writer::new(out, header)?),
            Target::Csv => {
                csv::write_head(&mut out)?;
                Self::Csv(out)
            }
        })
    }

    fn push(&mut self, record: &Record, lost_before: u64) -> Result<(), Error> {
        match self {
            Self::Firn(writer) => {
                writer.lose(lost_before)?;
                writer.push(record)
            }
            Self::Csv(out) => Ok(csv::write_record(out, record)?),
        }
    }

    fn finish(self, lost_before: u64, end: End) -> Result<(), Error> {
        match self {
            Self::Firn(mut writer) => {
                writer.lose(lost_before)?;
                writer.finish(end).map(drop)
            }
            Self::Csv(mut out) => Ok(out.flush()?),
        }
    }
}

fn convert(
    args: &ConvertArgs,
    source: &mut Source,
    key: Option<&NameKey>,
    out: Box<dyn Write>,
) -> Done<ConvertView> {
    let unwritten =
        |error: Error| Failure::failed(format!("cannot write {}: {error}", args.output.display()));
    let mut progress = Progress::of(source);
    // The first record first: texts do not say before when they start.
    let mut next = source.next();
    let mut header = source.header();
    if key.is_some() {
        header.naming = Naming::Hashed;
    }
    let mut sink = Sink::new(args.to, out, &header).map_err(unwritten)?;
    let (mut records, mut lost, mut damage) = (0, 0, None);
    while let Some(read) = next {
        let mut record = match read {
            Ok(record) => record,
            Err(error @ (Error::Damaged { .. } | Error::Line { .. })) if args.partial => {
                damage = Some(error.to_string());
                break;
            }
            Err(error) => return Err(failure_of(&args.input, &error)),
        };
        if let Some(key) = key {
            key.hide_all(header.origin, &mut record);
        }
        sink.push(&record, source.lost() - lost).map_err(unwritten)?;
        lost = source.lost();
        records += 1;
        progress.show(source);
        next = source.next();
    }
    let end = source.end().unwrap_or(End::Last);
    sink.finish(source.lost() - lost, end).map_err(unwritten)?;
    Ok(ConvertView {
        input: args.input.clone(),
        output: args.output.clone(),
        records,
        lost_records: source.lost(),
        error: damage,
    })
}
