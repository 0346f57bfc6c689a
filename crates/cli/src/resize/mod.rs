//! `firn resize`: makes a volume larger or smaller. `service` is the daemon's side.
//!
//! It asks the daemon of a mounted volume; any other volume it opens itself.

pub mod service;

use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::interrupt;
use crate::mkfs::open_failed;
use crate::output::Output;
use crate::progress::Bar;
use crate::sizes::{Bytes, Count, parse_size};
use crate::target::{self, Target};
use clap::Args;
use firnfs::lfs::{Options, Shrunk};
use firnfs::vfs::AtimeMode;
use firnfs_device::{FileDevice, FileOptions};
use firnfs_fuse::control::{Client, ClientError, ErrorKind};
use serde::Serialize;
use serde_json::Value;
use service::{
    NOT_NOW, ProgressView, RESIZE_OP, RESIZE_STATUS_OP, RESIZE_STOP_OP, Request, Resized, Wanted, resize,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Time between two looks at the progress.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Arguments of `firn resize`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  firn resize /mnt 64G         a mounted volume, while it is in use: its image grows with it
  firn resize disk.img +8G     8 GiB more, for an image that is not mounted
  firn resize /dev/sdb1        a block device that was made larger: all of it
  firn resize /mnt 20G         smaller: what lies beyond the new end is moved first
  firn resize /mnt -5G         5 GiB less
  firn resize /mnt 64G --json  for scripts

Larger: the new space can be used when the command ends. An image file grows by a hole: the disk that
holds it gives space as it is written.

Smaller: programs go on meanwhile, with the room that the volume will have. If it holds too much, the
command says how small it can become. A volume that has snapshots or clones cannot shrink: delete them first.
States that it keeps by itself are dropped. An image file is cut at its new end; a block device keeps its size,
and is not used beyond the volume's end.

Ctrl-C stops a volume from becoming smaller; it keeps its size. After a crash it has its old size or its
new one; the same command goes on then.")]
pub struct ResizeArgs {
    /// Any path on a mount, an image file or a block device
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// The new size, or with + or - how much more or less; without it, the size of the block device
    #[arg(allow_hyphen_values = true)]
    pub size: Option<Wanted>,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = |text| parse_size(text).map_err(|e| e.to_string());
        match (text.strip_prefix('+'), text.strip_prefix('-')) {
            (Some(more), _) => size(more).map(Self::More),
            (_, Some(less)) => size(less).map(Self::Less),
            _ => size(text).map(Self::To),
        }
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
pub fn run(args: &ResizeArgs, output: &mut Output) -> Done<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::sets(&stop)?;
    let wanted = args.size.unwrap_or(Wanted::Device);
    let resized = match target::resolve(&args.path)? {
        Target::Mounted(mount) => {
            let client = || Client::for_mount(&mount).map_err(|e| failure_of(&e));
            ask(client()?, client()?, wanted, &stop)?
        }
        Target::Image(image) => resize_image(&image, wanted, &stop)?,
    };
    let summary = Summary { path: args.path.clone(), resized };
    output.show(args.json, &summary, |out| {
        let Resized { was_bytes, size_bytes, was_segments, segments, stopped } = resized;
        let place = args.path.display();
        if stopped {
            return writeln!(out, "{place}: stopped; it has {} as before", Bytes(size_bytes));
        }
        let word = if size_bytes >= was_bytes { "more" } else { "less" };
        let difference = Bytes(size_bytes.abs_diff(was_bytes));
        let count = Count(segments.abs_diff(was_segments)).of("segment", "segments");
        let (was, now) = (Bytes(was_bytes), Bytes(size_bytes));
        writeln!(out, "{place}: {was} -> {now}: {difference} {word}, in {count}")
    })?;
    Ok(if resized.stopped { ExitCode::from(interrupt::exit() as u8) } else { ExitCode::SUCCESS })
}

fn show(bar: &Bar, so_far: ProgressView) {
    let done_bytes = so_far.total_bytes.saturating_sub(so_far.left_bytes);
    bar.show(done_bytes, so_far.total_bytes, "moved");
}

/// Asks the daemon through one connection, and through the other one watches it at work, or stops it.
fn ask(mut client: Client, mut watcher: Client, wanted: Wanted, stop: &AtomicBool) -> Done<Resized> {
    let request = serde_json::to_value(Request { wanted }).map_err(|e| Failure::failed(e.to_string()))?;
    let (answers, answer) = std::sync::mpsc::channel();
    std::thread::Builder::new()
        .name("firn-resize".into())
        .spawn(move || answers.send(client.ask(RESIZE_OP, request)))
        .map_err(|e| Failure::system("cannot start a thread", &e))?;
    let bar = Bar::of_bytes();
    loop {
        match answer.recv_timeout(LOOK_EVERY) {
            Ok(answer) => return answer.map_err(|e| failure_of(&e)),
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::failed("the thread that asks ended")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.load(Ordering::SeqCst) {
            watcher.call(RESIZE_STOP_OP, Value::Null).map_err(|e| failure_of(&e))?;
        }
        // An older daemon knows no progress.
        let status = watcher.call(RESIZE_STATUS_OP, Value::Null).unwrap_or_default();
        if let Ok(Some(so_far)) = serde_json::from_value(status) {
            show(&bar, so_far);
        }
    }
}

fn resize_image(image: &Path, wanted: Wanted, stop: &AtomicBool) -> Done<Resized> {
    let device = FileDevice::open(image, &FileOptions::default()).map_err(|e| open_failed(&e))?;
    let volume = crate::volume::open(Arc::new(device), Options::default(), AtimeMode::Noatime)?;
    let bar = Bar::of_bytes();
    let mut go_on = |so_far: Shrunk| {
        show(&bar, so_far.into());
        !stop.load(Ordering::SeqCst)
    };
    let resized =
        resize(&volume, wanted, &mut go_on).map_err(|refused| failure_of(&ClientError::Refused(refused)));
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
        ClientError::Refused(refused) if refused.errno.as_deref() == Some(NOT_NOW) => {
            Failure::new(Exit::Refused, refused.message.clone())
        }
        _ => Failure::failed(format!("cannot resize: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_absolute_or_more_or_less() {
        assert_eq!("64G".parse(), Ok(Wanted::To(64 << 30)));
        assert_eq!("+1.5M".parse(), Ok(Wanted::More(3 << 19)));
        assert_eq!("-1.5M".parse(), Ok(Wanted::Less(3 << 19)));
        for bad in ["", "+", "-", "--8G", "+-1G", "++1G", "8X"] {
            assert!(bad.parse::<Wanted>().is_err(), "{bad}");
        }
    }
}
