//! `firn scrub`: has the daemon of a mount check the volume while it is in use. `service` is the daemon's side, `view`
//! declares the messages.

pub mod service;
pub mod view;

use crate::args::size;
use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Bar;
use crate::tell::tell;
use clap::Args;
use firnfs_fuse::control::{Client, ClientError, ErrorKind};
use serde::Deserialize;
use serde_json::{Value, json};
use service::{START_OP, STATUS_OP, STOP_OP};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use view::{ProgressView, ScrubView, StatusView};

/// Time between two requests for the progress, in milliseconds.
const LOOK_EVERY_MS: u64 = 200;

/// Arguments of `firn scrub`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn scrub /mnt               verify everything on a mounted volume
  firn scrub /mnt --rate 20M    read at most 20 MiB each second
  firn scrub /mnt --json        for scripts
  firn scrub /mnt --writable    make a mount that turned read-only writable again

Reads everything that is live, verifies every checksum, and checks directories, link counts and
accounting, as 'firn fsck' does. It checks the volume as it was at one moment, and delays none of its
users. It lists damaged files by path, and does not report data that was overwritten during the check.
It repairs nothing: overwrite or delete the damaged files, or unmount and run 'firn fsck --repair'.
Ctrl-C stops it. If a scrub is already running, this command joins it.

A mount turns read-only when the log cannot be written, and when the check that follows a crash finds the
structure damaged. Use --writable once the cause is gone: it writes what could not be written, checks the
structure that a mount would find on the device, and makes the volume writable again if that structure is
sound and agrees with memory. Otherwise it says why it did not; no data is lost: unmount and run 'firn fsck'.

Exit codes:
  0    sound
  1    the check could not be done, or missed a part because too much was written meanwhile
  3    damaged
  4    not made writable
  130  stopped by Ctrl-C (143: by SIGTERM): says how far it came, and what it found until then")]
pub struct ScrubArgs {
    /// Any path on the mount
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// Bytes that it may read each second
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "100M")]
    pub rate: u64,
    /// Make the volume writable again if its structure is sound
    #[arg(long)]
    pub writable: bool,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

#[derive(Deserialize)]
struct Started {
    number: u64,
    joined: bool,
}

/// Runs the command; its exit code.
///
/// # Errors
/// Not a mount, the daemon cannot be reached, or the check could not be done.
pub fn run(args: &ScrubArgs, output: &mut Output) -> Done<ExitCode> {
    if args.rate == 0 {
        return Err(Failure::usage("--rate 0 would never end")
            .advise("name the bytes that it may read each second, such as 100M"));
    }
    let (mut client, mount) = Client::for_path(&args.path).map_err(|e| failure_of(&e))?;
    let interrupted = Arc::new(AtomicBool::new(false));
    interrupt::sets(&interrupted)?;
    let started: Started =
        answer(&mut client, START_OP, json!({ "rate_bytes": args.rate, "writable": args.writable }))?;
    if started.joined && !args.json {
        tell("joined a scrub that was already running; Ctrl-C does not stop it");
    }
    let view = follow(&mut client, &started, &interrupted).map_err(|failure| refused(failure, args))?;
    let place = mount.mountpoint.display().to_string();
    output.show(args.json, &view, |out| view.describe(out, &place))?;
    Ok(ExitCode::from(exit_of(&view)))
}

/// A volume that stays read-only counts as refused, and the message needs advice.
fn refused(failure: Failure, args: &ScrubArgs) -> Failure {
    if !args.writable {
        return failure;
    }
    Failure { exit: Exit::Refused, ..failure }.advise("unmount it, then mount it again or run 'firn fsck'")
}

fn exit_of(view: &ScrubView) -> u8 {
    match view.sound {
        _ if view.stopped => interrupt::exit() as u8,
        Some(false) => Exit::NotAVolume as u8,
        Some(true) => 0,
        None => Exit::Failed as u8,
    }
}

/// Shows progress until the check ends. If the check was already running, an interrupt only ends the watching.
fn follow(client: &mut Client, started: &Started, interrupted: &AtomicBool) -> Done<ScrubView> {
    let bar = Bar::of_bytes();
    let mut is_told = false;
    loop {
        if interrupted.load(Ordering::SeqCst) && !std::mem::replace(&mut is_told, true) {
            if started.joined {
                return Err(Failure::failed("stopped watching; the scrub is still running"));
            }
            answer::<Value>(client, STOP_OP, json!({ "number": started.number }))?;
        }
        let arguments = json!({ "number": started.number, "wait_ms": LOOK_EVERY_MS });
        let status: StatusView = answer(client, STATUS_OP, arguments)?;
        if let Some(running) = status.running.filter(|running| running.number == started.number) {
            running.progress.iter().for_each(|progress| show(&bar, progress));
            continue;
        }
        return match status.ended.filter(|ended| ended.number == started.number) {
            Some(ended) => ended.outcome.map_err(|why| Failure::failed(format!("the check ended: {why}"))),
            None => {
                Err(Failure::failed("another scrub has run since, so the outcome of this one is unknown"))
            }
        };
    }
}

fn show(bar: &Bar, progress: &ProgressView) {
    bar.show(progress.done_bytes, progress.total_bytes, format_args!("phase {} of 5", progress.phase));
}

fn answer<T: serde::de::DeserializeOwned>(client: &mut Client, op: &str, arguments: Value) -> Done<T> {
    client.ask(op, arguments).map_err(|e| failure_of(&e))
}

fn failure_of(error: &ClientError) -> Failure {
    match error {
        ClientError::Refused(refused) if refused.kind == ErrorKind::UnknownOp => {
            Failure::new(Exit::Refused, "this volume has no log, so it cannot be checked while it is mounted")
                .advise("'firn fsck' checks a Fast File System that is not mounted; if this volume has a log, mount it with this version of firn")
        }
        ClientError::NotMounted(_) => Failure::new(Exit::NotAVolume, error.to_string())
            .advise("'firn fsck' checks a volume that is not mounted"),
        _ => Failure::failed(error.to_string()),
    }
}
