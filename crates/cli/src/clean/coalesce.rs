//! `firn clean --coalesce`: puts the files below a path into order, with one request per window.
//!
//! A request for which clean segments are short cleans some and asks to be repeated; what is left in the end, and why, is shown.
//!
//! This command walks the tree itself, so that stopping between two requests is always safe, and so that it can show
//! progress. Directories come before their files: the request for a directory also orders its small files, and leaves
//! nothing to do for them.

use super::failure_of;
use crate::failure::{Done, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::port::wire::{Coalesced, Shortage};
use crate::progress::Bar;
use crate::sizes::{Bytes, Count};
use firnfs_fuse::control::{Client, ClientError, ErrorKind, OpError};
use serde::Serialize;
use serde_json::json;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lines about what is left that are shown to people.
const LINES: usize = 20;

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Summary {
    /// Regular files examined.
    files: u64,
    /// Directories examined, whose small files are put in order together.
    directories: u64,
    /// Places where a reader had to seek.
    seams_before: u64,
    /// Places where a reader still has to seek.
    seams_after: u64,
    /// Bytes rewritten.
    moved_bytes: u64,
    /// Files and directories of which a part was left out for lack of clean segments.
    short: u64,
    /// These files and directories, with the reason and the seams left in them.
    left: Vec<String>,
    /// Files and directories that could not be read, with the reasons.
    errors: Vec<String>,
    /// Ctrl-C or SIGTERM ended it.
    stopped: bool,
}

/// Runs the command.
///
/// # Errors
/// Not a mount, a volume without a log, or a file that could not be put in order.
pub(super) fn run(path: &Path, json: bool, stop: &AtomicBool, output: &mut Output) -> Done<ExitCode> {
    let (mut client, _) = Client::for_path(path).map_err(|e| failure_of(&e))?;
    let bar = Bar::endless();
    let mut summary = Summary::default();
    let walked = walk(&mut client, path, &mut summary, &bar, stop);
    drop(bar);
    walked.map_err(|e| failure_of(&e))?;
    output.show(json, &summary, |out| {
        let Summary { files, directories, seams_before, seams_after, moved_bytes, .. } = summary;
        writeln!(
            out,
            "{} in {}, {} rewritten",
            Count(files).of("file", "files"),
            Count(directories).of("directory", "directories"),
            Bytes(moved_bytes)
        )?;
        let before = Count(seams_before).of("seam", "seams");
        let stopped = if summary.stopped { "; stopped" } else { "" };
        writeln!(out, "{before} before, {} now{stopped}", Count(seams_after))?;
        summary.left.iter().take(LINES).try_for_each(|left| writeln!(out, "- {left}"))?;
        let more = summary.left.len().saturating_sub(LINES);
        if more > 0 {
            writeln!(out, "- and {} more", Count(more as u64))?;
        }
        summary.errors.iter().try_for_each(|why| writeln!(out, "! {why}"))
    })?;
    if summary.stopped {
        return Ok(ExitCode::from(interrupt::exit() as u8));
    }
    if let Some(first) = summary.errors.first() {
        return Err(Failure::failed(format!(
            "{} could not be put in order, the first: {first}",
            summary.errors.len()
        )));
    }
    if summary.short > 0 {
        let message = format!(
            "{} not completely in order, for lack of room",
            Count(summary.short).of("file or directory is", "files and directories are")
        );
        return Err(Failure::failed(message).advise("delete some files, and run this again"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything below a path, on its file system.
fn walk(
    client: &mut Client,
    path: &Path,
    summary: &mut Summary,
    bar: &Bar,
    stop: &AtomicBool,
) -> Result<(), ClientError> {
    let mut device = None;
    let mut todo = vec![path.to_owned()];
    while let Some(path) = todo.pop() {
        if stop.load(Ordering::SeqCst) {
            summary.stopped = true;
            return Ok(());
        }
        // A file removed meanwhile needs no order.
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if *device.get_or_insert(found.dev()) != found.dev() || !(found.is_dir() || found.is_file()) {
            continue;
        }
        match put_in_order(client, &path, &found, summary, bar) {
            Err(ClientError::Refused(OpError { kind: ErrorKind::Failed, message, errno, .. })) => {
                // The file was removed during the request.
                if errno.as_deref() != Some("ENOENT") {
                    summary.errors.push(format!("{}: {message}", path.display()));
                }
            }
            other => other?,
        }
        if found.is_dir() {
            todo.extend(children(&path, summary));
        }
    }
    Ok(())
}

/// The entries of a directory, in reverse: the walk takes from the end.
fn children(path: &Path, summary: &mut Summary) -> Vec<PathBuf> {
    let listed = fs::read_dir(path).and_then(|list| list.map(|entry| entry.map(|e| e.path())).collect());
    let mut children: Vec<PathBuf> = listed.unwrap_or_else(|why: std::io::Error| {
        summary.errors.push(format!("{}: {why}", path.display()));
        Vec::new()
    });
    children.reverse();
    children
}

fn put_in_order(
    client: &mut Client,
    path: &Path,
    found: &Metadata,
    summary: &mut Summary,
    bar: &Bar,
) -> Result<(), ClientError> {
    if found.is_dir() {
        summary.directories += 1;
    } else {
        summary.files += 1;
    }
    let mut from = Some(0);
    let (mut shortage, mut seams_left) = (None, 0);
    while let Some(at) = from {
        let done: Coalesced = client.ask("coalesce", json!({ "ino": found.ino(), "from": at }))?;
        summary.seams_before += done.seams_before;
        summary.seams_after += done.seams_after;
        summary.moved_bytes += done.moved_bytes;
        if done.short {
            shortage = shortage.or(done.short_because).or(Some(Shortage::NoGain));
            seams_left += done.seams_after;
        }
        bar.tell(format_args!(
            "{}, {} rewritten, {} of {} left",
            Count(summary.files).of("file", "files"),
            Bytes(summary.moved_bytes),
            Count(summary.seams_after),
            Count(summary.seams_before).of("seam", "seams")
        ));
        from = done.next;
    }
    if let Some(why) = shortage {
        let why = match why {
            Shortage::Full => "more than 90% of the volume is live",
            Shortage::NoGain => "cleaning gains no segments any more",
        };
        summary.short += 1;
        summary.left.push(format!(
            "{}: {} left, {why}",
            path.display(),
            Count(seams_left).of("seam", "seams")
        ));
    }
    Ok(())
}
