//! `firn record`: starts and stops the recording of a live mount. The daemon records (`firnfs_fuse::record`); this is its client.

use crate::args::size;
use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::output::Output;
use crate::sizes::{Bytes, Count};
use clap::{Args, Subcommand};
use firnfs_fuse::control::{Client, ClientError, ErrorKind};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Least size of a part: smaller ones would be mostly headers.
pub const PART_MIN_BYTES: u64 = 1 << 20;

/// Arguments of `firn record`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  firn record /mnt start /var/log/day.fwl                 from now on
  firn record /mnt start day.fwl --part-size 64M --hash-names
  firn record /mnt status                                 how many records, how many lost
  firn record /mnt stop                                   ends the file
  firn workload info day.fwl                              what was recorded
  firn sim trace day.fwl                                  the same on the log and a simulated disk
  firn mount disk.img /mnt --record day.fwl               from the first operation on

Records what reaches the daemon: reads that the kernel's page cache answers do not, nor does open(2) of existing files on
most mounts. Content is not recorded. The file must be on another file system than the mount. If its disk is full or
too slow, records are lost, which the file says, and the mount goes on. Only root and the owner of the mount may ask.")]
pub struct RecordArgs {
    /// Any path on the mount
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// What to do
    #[command(subcommand)]
    pub what: What,
}

/// What to do with a recording.
#[derive(Subcommand, Debug)]
pub enum What {
    /// Record all operations into a file
    #[command(after_help = "Example:
  firn record /mnt start day.fwl --part-size 64M")]
    Start(StartArgs),
    /// Stop, and end the file
    #[command(after_help = "Example:
  firn record /mnt stop")]
    Stop(ShowArgs),
    /// Show what was recorded so far
    #[command(after_help = "Example:
  firn record /mnt status --json")]
    Status(ShowArgs),
}

/// Arguments of `firn record PATH start`.
#[derive(Args, Debug)]
pub struct StartArgs {
    /// The file to make, which must not exist
    pub file: PathBuf,
    /// Begin another part (FILE.1, FILE.2, ...) once one has this size [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub part_size: Option<u64>,
    /// Replace names by hashes under a key that is forgotten at the end
    #[arg(long)]
    pub hash_names: bool,
}

/// Arguments of the others.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// What the daemon answers.
#[derive(Serialize, Deserialize, Debug)]
struct StatusView {
    path: PathBuf,
    records: u64,
    /// Operations that were not recorded, because the disk was full or too slow.
    #[serde(rename(deserialize = "lost"))]
    lost_records: u64,
    file_bytes: u64,
    parts: u32,
    age_ms: u64,
    /// Why the last write failed; `null` if it did not.
    #[serde(rename(deserialize = "trouble"))]
    error: Option<String>,
}

/// The output of `stop` and `status`.
#[derive(Serialize)]
struct RecordingView {
    /// What was recorded; null if nothing is being recorded.
    recording: Option<StatusView>,
}

/// Runs the command.
///
/// # Errors
/// Not a mount, recording already or not at all, or the file cannot be made.
pub fn run(args: &RecordArgs, output: &mut Output) -> Done {
    let (mut client, _) = Client::for_path(&args.path).map_err(|e| failure_of(&e))?;
    match &args.what {
        What::Start(start) => {
            let part_bytes = start.part_size.map(checked_part_bytes).transpose()?;
            let file = absolute(&start.file)?;
            let file = file.to_str().ok_or_else(|| {
                Failure::usage(format!("{}: the name is not UTF-8", file.display()))
                    .advise("name it otherwise")
            })?;
            let arguments = json!({ "path": file, "part_bytes": part_bytes, "hash_names": start.hash_names });
            client.call("record_start", arguments).map(drop).map_err(|e| failure_of(&e))
        }
        What::Stop(show) => told(&mut client, "record_stop", show.json, output),
        What::Status(show) => told(&mut client, "record_status", show.json, output),
    }
}

/// Shows what the daemon answers about its recording.
fn told(client: &mut Client, op: &str, json: bool, output: &mut Output) -> Done {
    let recording = client.ask(op, json!({})).map_err(|e| failure_of(&e))?;
    let view = RecordingView { recording };
    output.show(json, &view, |out| write_status(out, view.recording.as_ref()))
}

/// A path for the daemon, which is in another directory.
///
/// # Errors
/// The working directory is not known.
pub fn absolute(path: &Path) -> Done<PathBuf> {
    std::path::absolute(path).map_err(|e| Failure::io("cannot resolve", path, &e))
}

/// Refuses parts that would be mostly headers.
///
/// # Errors
/// It is too small.
pub fn checked_part_bytes(bytes: u64) -> Done<u64> {
    if bytes < PART_MIN_BYTES {
        return Err(Failure::usage(format!("size of a part: {bytes} is less than 1M")));
    }
    Ok(bytes)
}

fn write_status(out: &mut dyn Write, status: Option<&StatusView>) -> io::Result<()> {
    let Some(status) = status else { return writeln!(out, "nothing is being recorded") };
    writeln!(
        out,
        "{}: {} in {} s, {} in {}",
        status.path.display(),
        Count(status.records).of("record", "records"),
        status.age_ms / 1000,
        Bytes(status.file_bytes),
        Count(status.parts.into()).of("part", "parts")
    )?;
    if status.lost_records > 0 {
        writeln!(
            out,
            "{} lost, because the disk was full or too slow",
            Count(status.lost_records).of("record was", "records were")
        )?;
    }
    match &status.error {
        Some(error) => writeln!(out, "the last write failed: {error}"),
        None => Ok(()),
    }
}

fn failure_of(error: &ClientError) -> Failure {
    match error {
        ClientError::NotMounted(_) => Failure::new(Exit::NotAVolume, error.to_string()),
        ClientError::Refused(refused) if refused.kind == ErrorKind::UnknownOp => {
            Failure::failed("the daemon of this mount cannot record")
                .advise("unmount the volume, and mount it with this firn")
        }
        ClientError::Refused(refused) if refused.kind == ErrorKind::InvalidArgument => {
            Failure::new(Exit::Refused, refused.message.clone())
        }
        _ => Failure::failed(error.to_string()),
    }
}
