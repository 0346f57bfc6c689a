//! `firn clean --coalesce`: puts the files below a path into order, with one request per window.
//!
//! This command walks the tree itself, so that stopping between two requests is always safe, and so that it can show
//! progress. Directories come before their files: the request for a directory also orders its small files, and leaves
//! nothing to do for them.

use super::failure_of;
use crate::failure::{Done, Failure};
use crate::output::Output;
use crate::port::wire::Coalesced;
use crate::progress::Bar;
use crate::sizes::{Bytes, Count};
use firnfs_fuse::control::{Client, ClientError, ErrorKind, OpError};
use serde::Serialize;
use serde_json::json;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
    /// Files and directories that could not be read, with the reasons.
    failed: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// Not a mount, a volume without a log, or a file that could not be put in order.
pub(super) fn run(path: &Path, json: bool, output: &mut Output) -> Done {
    let (mut client, _) = Client::for_path(path).map_err(|e| failure_of(&e))?;
    let bar = Bar::endless();
    let mut summary = Summary::default();
    let walked = walk(&mut client, path, &mut summary, &bar);
    drop(bar);
    walked.map_err(|e| failure_of(&e))?;
    output.show(json, &summary, |out| {
        let Summary { files, directories, seams_before, seams_after, moved_bytes, .. } = summary;
        writeln!(
            out,
            "{} files in {} directories, {} written again",
            Count(files),
            Count(directories),
            Bytes(moved_bytes)
        )?;
        writeln!(out, "{} seams before, {} now", Count(seams_before), Count(seams_after))?;
        summary.failed.iter().try_for_each(|why| writeln!(out, "! {why}"))
    })?;
    if let Some(first) = summary.failed.first() {
        return Err(Failure::failed(format!(
            "{} could not be put in order, the first: {first}",
            summary.failed.len()
        )));
    }
    if summary.short > 0 {
        let message =
            format!("too few clean segments to put {} files and directories in order", summary.short);
        return Err(Failure::failed(message).advise("clean with 'firn clean --until', or delete some files"));
    }
    Ok(())
}

/// Everything below a path, on its file system.
fn walk(client: &mut Client, path: &Path, summary: &mut Summary, bar: &Bar) -> Result<(), ClientError> {
    let mut device = None;
    let mut todo = vec![path.to_owned()];
    while let Some(path) = todo.pop() {
        // A file removed meanwhile needs no order.
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        if *device.get_or_insert(found.dev()) != found.dev() || !(found.is_dir() || found.is_file()) {
            continue;
        }
        match put_in_order(client, &found, summary, bar) {
            Err(ClientError::Refused(OpError { kind: ErrorKind::Failed, message, errno, .. })) => {
                // The file was removed during the request.
                if errno.as_deref() != Some("ENOENT") {
                    summary.failed.push(format!("{}: {message}", path.display()));
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
        summary.failed.push(format!("{}: {why}", path.display()));
        Vec::new()
    });
    children.reverse();
    children
}

fn put_in_order(
    client: &mut Client,
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
    let mut is_short = false;
    while let Some(at) = from {
        let answer = client.call("coalesce", json!({ "ino": found.ino(), "from": at }))?;
        let done: Coalesced = serde_json::from_value(answer).map_err(|e| {
            let message = format!("the daemon answers oddly ({e}); mount the volume with this firn");
            ClientError::Refused(OpError::new(ErrorKind::BadRequest, message))
        })?;
        summary.seams_before += done.seams_before;
        summary.seams_after += done.seams_after;
        summary.moved_bytes += done.moved_bytes;
        is_short |= done.short;
        bar.tell(format_args!(
            "{} files, {} written again, {} of {} seams left",
            Count(summary.files),
            Bytes(summary.moved_bytes),
            Count(summary.seams_after),
            Count(summary.seams_before)
        ));
        from = done.next;
    }
    summary.short += u64::from(is_short);
    Ok(())
}
