//! `firn resize`: makes a volume larger. `service` is the daemon's side.
//!
//! It asks the daemon of a mounted volume; any other volume it opens itself.

pub mod service;

use crate::failure::{Done, Exit, Failure};
use crate::mkfs::open_failed;
use crate::output::Output;
use crate::sizes::{Bytes, parse_size};
use crate::target::{self, Target};
use clap::Args;
use firnfs::lfs::Options;
use firnfs::vfs::AtimeMode;
use firnfs_device::{FileDevice, FileOptions};
use firnfs_fuse::control::{Client, ClientError, ErrorKind};
use serde::Serialize;
use service::{RESIZE_OP, Request, Resized, Wanted, resize};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// Arguments of `firn resize`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  firn resize /mnt 64G         a mounted volume, while it is in use: its image grows with it
  firn resize disk.img +8G     8 GiB more, for an image that is not mounted
  firn resize /dev/sdb1        a block device that was made larger: all of it
  firn resize /mnt 64G --json  for scripts

The new space can be used when the command ends. An image file grows by a hole: the disk that
holds it gives space as it is written. Stopping this command is safe, as is a crash: the volume
then has its old size or its new one. Volumes cannot be made smaller.")]
pub struct ResizeArgs {
    /// Any path on a mount, an image file or a block device
    pub path: PathBuf,
    /// The new size, or with + how much more; without it, the size of the block device
    pub size: Option<Wanted>,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = |text| parse_size(text).map_err(|e| e.to_string());
        text.strip_prefix('+').map_or_else(|| size(text).map(Self::To), |more| size(more).map(Self::More))
    }
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Summary {
    /// The path on the command line.
    path: PathBuf,
    #[serde(flatten)]
    resized: Resized,
}

/// Runs the command.
///
/// # Errors
/// No volume, in use by another process, read-only, a size that it cannot have, or the device cannot be that large.
pub fn run(args: &ResizeArgs, output: &mut Output) -> Done {
    let wanted = args.size.unwrap_or(Wanted::Device);
    let resized = match target::resolve(&args.path)? {
        Target::Mounted(mount) => {
            let mut client = Client::for_mount(&mount).map_err(|e| failure_of(&e))?;
            ask(&mut client, wanted)?
        }
        Target::Image(image) => resize_image(&image, wanted)?,
    };
    let summary = Summary { path: args.path.clone(), resized };
    output.show(args.json, &summary, |out| {
        let Resized { was_bytes, size_bytes, was_segments, segments } = resized;
        writeln!(
            out,
            "{}: {} -> {}, {} segments more",
            args.path.display(),
            Bytes(was_bytes),
            Bytes(size_bytes),
            segments - was_segments
        )
    })
}

fn ask(client: &mut Client, wanted: Wanted) -> Done<Resized> {
    let request = serde_json::to_value(Request { wanted }).map_err(|e| Failure::failed(e.to_string()))?;
    let answer = client.call(RESIZE_OP, request).map_err(|e| failure_of(&e))?;
    crate::socket::understood(answer)
}

fn resize_image(image: &Path, wanted: Wanted) -> Done<Resized> {
    let device = FileDevice::open(image, &FileOptions::default()).map_err(|e| open_failed(&e))?;
    let volume = crate::volume::open(Arc::new(device), Options::default(), AtimeMode::Noatime)?;
    let resized = resize(&volume, wanted).map_err(|refused| failure_of(&ClientError::Refused(refused)));
    let closed = volume.close().map_err(|e| Failure::fs("cannot close the volume", &e));
    resized.and_then(|resized| closed.map(|()| resized))
}

fn failure_of(error: &ClientError) -> Failure {
    match error {
        ClientError::NotMounted(_) => Failure::new(Exit::NotAVolume, error.to_string()),
        ClientError::Refused(refused) if refused.kind == ErrorKind::UnknownOp => {
            Failure::new(Exit::Refused, "this volume cannot change its size")
                .advise("only log-structured volumes can; if this is one, mount it with this version of firn")
        }
        ClientError::Refused(refused) if refused.kind == ErrorKind::InvalidArgument => {
            Failure::usage(refused.message.clone())
        }
        _ => Failure::failed(format!("cannot resize: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_absolute_or_more() {
        assert_eq!("64G".parse(), Ok(Wanted::To(64 << 30)));
        assert_eq!("+1.5M".parse(), Ok(Wanted::More(3 << 19)));
        for bad in ["", "+", "-8G", "++1G", "8X"] {
            assert!(bad.parse::<Wanted>().is_err(), "{bad}");
        }
    }
}
