//! `firn trim`: returns the space of clean segments to the device, or to the file system that holds the image.
//!
//! It asks the daemon of a mounted volume, part by part, so that stopping between two parts is always safe and progress can
//! be shown; any other volume it opens itself.

use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::mkfs::open_failed;
use crate::output::Output;
use crate::port::wire::Trimmed;
use crate::progress::Bar;
use crate::sizes::Bytes;
use crate::target::{self, Target};
use clap::Args;
use firnfs::FsError;
use firnfs::lfs::Options;
use firnfs::vfs::AtimeMode;
use firnfs_device::{FileDevice, FileOptions};
use firnfs_fuse::control::{Client, ClientError, ErrorKind};
use firnfs_manage::LogVolume;
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `firn trim`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  firn trim /mnt               a mounted volume, while it is in use
  firn trim disk.img           an image that is not mounted: its clean segments become holes
  firn trim /mnt --json        for scripts

Discards every clean segment, even one that was never written, but nothing that a mount after a
crash could need. Stopping this command at any point is safe. A mount with -o discard
does so by itself as segments become clean.")]
pub struct TrimArgs {
    /// Any path on a mount, an image file or a block device
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Summary {
    /// The path on the command line.
    path: PathBuf,
    /// Clean segments that were discarded, in bytes.
    discarded_bytes: u64,
}

/// Runs the command.
///
/// # Errors
/// No volume, in use by another process, read-only, or the device does not discard.
pub fn run(args: &TrimArgs, output: &mut Output) -> Done {
    let discarded_bytes = match target::resolve(&args.path)? {
        Target::Mounted(mount) => {
            let mut client = Client::for_mount(&mount).map_err(|e| failure_of(&e))?;
            each_part(|from| ask(&mut client, from).map_err(|e| failure_of(&e)))?
        }
        Target::Image(image) => trim_image(&image)?,
    };
    let summary = Summary { path: args.path.clone(), discarded_bytes };
    output.show(args.json, &summary, |out| {
        writeln!(out, "{}: {} discarded", summary.path.display(), Bytes(summary.discarded_bytes))
    })
}

/// Trims all parts, with a progress bar; returns the total number of bytes.
fn each_part(mut trim: impl FnMut(u64) -> Done<Trimmed>) -> Done<u64> {
    let bar = Bar::of_share();
    let (mut bytes, mut from) = (0, Some(0));
    while let Some(part) = from {
        let trimmed = trim(part)?;
        bytes += trimmed.bytes;
        bar.show(part + 1, trimmed.parts, format_args!("the volume, {} discarded", Bytes(bytes)));
        from = trimmed.next;
    }
    Ok(bytes)
}

fn ask(client: &mut Client, from: u64) -> Result<Trimmed, ClientError> {
    client.ask("trim", json!({ "from": from }))
}

fn trim_image(image: &Path) -> Done<u64> {
    let device = FileDevice::open(image, &FileOptions::default()).map_err(|e| open_failed(&e))?;
    let volume = crate::volume::open(Arc::new(device), Options::default(), AtimeMode::Noatime)?;
    let trimmed = each_part(|from| volume.trim(from).map(Into::into).map_err(|e| failed(&e)));
    let closed = volume.close().map_err(|e| Failure::fs("cannot close the volume", &e));
    trimmed.and_then(|bytes| closed.map(|()| bytes))
}

fn failed(error: &FsError) -> Failure {
    Failure::fs("cannot discard", error)
}

fn failure_of(error: &ClientError) -> Failure {
    match error {
        ClientError::NotMounted(_) => Failure::new(Exit::NotAVolume, error.to_string()),
        ClientError::Refused(refused) if refused.kind == ErrorKind::UnknownOp => Failure::new(
            Exit::Refused,
            "this volume has no log, so there is nothing to discard",
        )
        .advise(
            "only log-structured volumes on a device can; if this is one, mount it with this version of firn",
        ),
        _ => Failure::failed(format!("cannot discard: {error}")),
    }
}
