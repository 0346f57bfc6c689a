//! `firn freeze` and `firn thaw`: a quiet point at which the image beneath a mount can be copied. `service` is the daemon's side.

pub mod service;

use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::output::Output;
use crate::target::write_back;
use clap::Args;
use firnfs_fuse::control::{Client, ClientError, ErrorKind};
use serde_json::json;
use service::{FREEZE_OP, FREEZE_STATUS_OP, FreezeView, FrozenView, THAW_OP, TIMEOUT_MAX_S, ThawedView};
use std::path::PathBuf;

/// Arguments of `firn freeze`.
#[derive(Args, Debug)]
#[command(after_help = "Example:
  firn freeze /mnt --timeout 120 && cp --reflink=auto disk.img copy.img; firn thaw /mnt
                              a copy of the volume at one moment

Makes everything durable and holds new changes: programs that write wait, and nothing is written to the image or device until
the thaw. The copy mounts like a volume after a power cut, without loss of anything that was accepted before the freeze.

Reads go on, unless 32 requests wait. While a program waits that creates, renames or removes a name, the kernel keeps that
directory locked: a name in it that the kernel does not have in its cache can only be opened after the thaw.

When its time is over the volume thaws by itself, whatever became of the copy. 'firn thaw' then fails, so that a script learns
that the copy may hold later changes.")]
pub struct FreezeArgs {
    /// Any path on the mount
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// Thaw after this many seconds at the latest
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=TIMEOUT_MAX_S))]
    pub timeout: u64,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `firn thaw`.
#[derive(Args, Debug)]
#[command(after_help = "Example:
  firn thaw /mnt

Fails (exit code 1) if the volume has thawed by itself because its time was over: the copy may then hold later
changes. Fails with exit code 4 if it was not frozen.")]
pub struct ThawArgs {
    /// Any path on the mount
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// Freezes a mounted volume.
///
/// # Errors
/// Not a mount, frozen already, or making everything durable failed.
pub fn freeze(args: &FreezeArgs, output: &mut Output) -> Done {
    let (mut client, mount) = Client::for_path(&args.path).map_err(|e| failure_of(&e))?;
    let status: FreezeView = client.ask(FREEZE_STATUS_OP, json!({})).map_err(|e| failure_of(&e))?;
    // A frozen volume takes nothing; it refuses the second freeze below.
    if status.thaws_in_ms.is_none() {
        write_back(&mount)?;
    }
    let view: FrozenView =
        client.ask(FREEZE_OP, json!({ "timeout_s": args.timeout })).map_err(|e| failure_of(&e))?;
    output.show(args.json, &view, |out| {
        writeln!(out, "{}: frozen; thaws by itself in {} s", args.path.display(), view.timeout_ms / 1000)
    })
}

/// Ends a freeze.
///
/// # Errors
/// Not a mount, not frozen, or thawed by itself before.
pub fn thaw(args: &ThawArgs, output: &mut Output) -> Done {
    let (mut client, _) = Client::for_path(&args.path).map_err(|e| failure_of(&e))?;
    let view: ThawedView = client.ask(THAW_OP, json!({})).map_err(|e| failure_of(&e))?;
    output.show(args.json, &view, |out| {
        writeln!(out, "{}: thawed after {:.1} s", args.path.display(), view.frozen_ms as f64 / 1000.0)
    })
}

fn failure_of(error: &ClientError) -> Failure {
    match error {
        ClientError::NotMounted(_) => Failure::new(Exit::NotAVolume, error.to_string()),
        ClientError::Refused(refused) if refused.kind == ErrorKind::InvalidArgument => {
            Failure::new(Exit::Refused, refused.message.clone())
        }
        _ => Failure::failed(error.to_string()),
    }
}
