//! `firn age snapshot`.

use super::{failed, target, unmapped};
use crate::failure::{Done, Exit, Failure};
use crate::output::Output;
use crate::sizes::{Bytes, Count};
use clap::Args;
use firnfs_lab::age::snapshot::{Chain, Snapshot, write};
use firnfs_lab::calendar::rfc3339;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind};
use std::path::{Path, PathBuf};

/// Arguments of `firn age snapshot`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn age snapshot /home -o mon.snap                   the files of any mounted file system
  firn age snapshot /home -o tue.snap --since mon.snap  the next night: only what changed
  firn age snapshot disk.img -o disk.snap               a volume that is not mounted
  firn age layout tue.snap                              how its files are laid out

For each file it saves inode number, time of change, generation, type, size, directory and extents; no names and no content.
Extents come from FIEMAP, those of firnfs from the volume itself. A file made with --since needs the snapshots before it,
in the same directory. docs/internals/aging.md describes the format.")]
pub struct SnapshotArgs {
    /// A directory, an image file or a block device
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,
    /// The file to make, which must not exist
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Save only the differences to this snapshot, which has to stay beside the new one
    #[arg(long, value_name = "FILE")]
    pub since: Option<PathBuf>,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// What was saved.
#[derive(Serialize)]
struct SnapshotView {
    output: PathBuf,
    taken: String,
    fs_type: String,
    entries: u64,
    /// Differences to the earlier snapshot; null without one.
    changed_entries: Option<u64>,
    unmapped_files: u64,
    file_bytes: u64,
}

/// Runs the command.
///
/// # Errors
/// The source cannot be read, or the output exists or cannot be written; then no output is left.
pub fn run(args: &SnapshotArgs, output: &mut Output) -> Done {
    let mut chain = Chain::default();
    let since = args.since.as_ref().map(|path| base(path, &args.output, &mut chain)).transpose()?;
    let file = create(&args.output)?;
    let made = target::snapshot(&args.source, &mut chain).and_then(|snapshot| {
        let base = since.as_ref().map(|(name, base)| (name.as_str(), base));
        let file_bytes = write(&mut BufWriter::new(file), &snapshot, base)
            .map_err(|e| Failure::io("cannot write", &args.output, &e))?;
        Ok((snapshot, file_bytes))
    });
    let (snapshot, file_bytes) = made.inspect_err(|_| {
        // An error of its own would hide the first one.
        let _already_gone = std::fs::remove_file(&args.output);
    })?;
    let view = SnapshotView {
        output: args.output.clone(),
        taken: rfc3339(snapshot.meta.taken_ns),
        entries: snapshot.files.len() as u64,
        changed_entries: since.map(|(_, base)| changes(&base, &snapshot)),
        unmapped_files: snapshot.meta.unmapped_files,
        fs_type: snapshot.meta.fs_type,
        file_bytes,
    };
    output.show(args.json, &view, |out| {
        let entries = Count(view.entries).of("file or directory", "files and directories");
        let bytes = Bytes(view.file_bytes);
        write!(out, "{}: {entries} of {}", view.output.display(), view.fs_type)?;
        if let Some(changed) = view.changed_entries {
            write!(out, ", {} changed", Count(changed))?;
        }
        writeln!(out, ", in {bytes}")?;
        if view.unmapped_files > 0 {
            writeln!(out, "{}", unmapped(view.unmapped_files))?;
        }
        Ok(())
    })
}

/// The snapshot that differences are counted from, and its name beside the output.
fn base(path: &Path, output: &Path, chain: &mut Chain) -> Done<(String, Snapshot)> {
    let directory = |path: &Path| {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new(".")).canonicalize().ok()
    };
    let name = path.file_name().and_then(|name| name.to_str());
    match name {
        Some(name) if directory(path) == directory(output) => {
            Ok((name.to_owned(), chain.open(path).map_err(failed)?))
        }
        _ => Err(Failure::usage(format!("{} is not in the directory of the output", path.display()))
            .advise("differences and the snapshots that they need belong into one directory")),
    }
}

fn changes(base: &Snapshot, now: &Snapshot) -> u64 {
    let gone = base.files.keys().filter(|ino| !now.files.contains_key(ino)).count();
    let other = now.files.iter().filter(|(ino, entry)| base.files.get(ino) != Some(entry)).count();
    (gone + other) as u64
}

/// Makes a file that must not exist.
///
/// # Errors
/// It exists, or cannot be made.
pub fn create(path: &Path) -> Done<File> {
    OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::new(Exit::Refused, format!("{} exists", path.display()))
            .advise("remove it first, or name another file"),
        _ => Failure::io("cannot create", path, &error),
    })
}
