//! `firn log`: the states of a volume; `versions` has those of one file.

use super::service::PointView;
use super::snapshot::shown;
use super::states::{State, States};
use super::{versions, when};
use crate::completion::values;
use crate::failure::{Done, Failure};
use crate::names::readable;
use crate::output::{Output, write_two_parts};
use crate::sizes::Bytes;
use crate::target;
use clap::Args;
use firnfs_format::TimeNs;
use firnfs_fuse::mount::table;
use firnfs_lab::calendar::rfc3339;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Arguments of `firn log`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  firn log /mnt                      the states of the volume that are kept
  firn log disk.img                  of an image that is not mounted
  firn log /mnt/report.odt           the versions of one file
  firn log /mnt/report.odt --all     also those under its other names
  firn log /mnt/gone.odt             of a file that is no longer there
  firn log /mnt/report.odt --null | xargs -0 ls -l
                                     where to read each version
  firn log /mnt --null | xargs -0 -I{} firn diff /mnt@{} --stat
                                     how much each state differs from now

The newest comes first; a star marks snapshots, which stay until somebody deletes them. 'frees' is what deleting that one state
would give back. A file has a version for each size and modification time that one of the states shows; what changed
between two states and changed again before the second is not among them.

--all looks for the file under its inode number, through all directories of the states in which it is not at this path.")]
pub struct LogArgs {
    /// A mountpoint, an image file or a block device; or a file or directory on a mount, which may be gone
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// Follow the file through renames and deletions
    #[arg(long)]
    pub all: bool,
    /// Print only the names of the states, or the paths at which the versions can be read, each ended by NUL
    #[arg(long, conflicts_with = "json")]
    pub null: bool,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// Beside states that are not known to be snapshots or automatic.
pub const UNTOLD: &str = "only the owner of the mount and root are told which states are snapshots";

/// A state of a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StateRow {
    /// The name under which it is found.
    name: String,
    /// When it was made; null if this user cannot know.
    time: Option<String>,
    /// Number of its checkpoint.
    epoch: Option<u32>,
    /// Why it is kept: `snapshot` or `automatic`.
    kept_as: Option<&'static str>,
    /// Live bytes of the volume then.
    live_bytes: Option<u64>,
    /// Bytes that deleting it would give back; null if they were not counted.
    frees_bytes: Option<u64>,
    #[serde(skip)]
    time_ns: Option<TimeNs>,
}

impl StateRow {
    /// As an output shows a state.
    pub fn of(state: &State) -> Self {
        let kept_as = |is_automatic| if is_automatic { "automatic" } else { "snapshot" };
        Self {
            name: state.name.clone(),
            time: state.time.map(|time| rfc3339(time.0)),
            epoch: state.told.map(|told| told.epoch),
            kept_as: state.told.map(|told| kept_as(told.is_automatic)),
            live_bytes: state.told.map(|told| told.live_bytes),
            frees_bytes: state.told.and_then(|told| told.frees_bytes),
            time_ns: state.time,
        }
    }
}

impl From<&PointView> for StateRow {
    fn from(point: &PointView) -> Self {
        Self::of(&State::from(point.clone()))
    }
}

/// The states of a volume.
#[derive(Serialize)]
struct Log {
    /// The path on the command line.
    path: String,
    /// Newest first.
    states: Vec<StateRow>,
    /// Bytes that only they hold.
    past_bytes: Option<u64>,
}

/// Runs the command.
///
/// # Errors
/// No volume, or one that keeps no history; a path that no state has.
pub fn run(args: &LogArgs, output: &mut Output) -> Done {
    match is_volume(&args.path)? {
        true if args.all => {
            Err(Failure::usage(format!("{} is a volume: --all is for files", readable(&args.path))))
        }
        true => volume(args, output),
        false => versions::run(args, output),
    }
}

/// True for a mountpoint and for what is on no mount.
fn is_volume(path: &Path) -> Done<bool> {
    let failed = |e: io::Error| Failure::io("cannot read", Path::new("/proc/self/mountinfo"), &e);
    if let Ok(found) = path.canonicalize() {
        let mounts = table::firnfs_mounts().map_err(failed)?;
        let is_mounted = table::mount_of(path).map_err(failed)?.is_some();
        return Ok(!is_mounted || mounts.iter().any(|mount| mount.mountpoint == found));
    }
    // What is gone may have been on a mount; otherwise there is no image either.
    let parent = path.ancestors().skip(1).find(|parent| parent.exists());
    Ok(parent.is_none_or(|parent| !matches!(target::resolve(parent), Ok(target::Target::Mounted(_)))))
}

fn volume(args: &LogArgs, output: &mut Output) -> Done {
    if args.null {
        let states = States::of(&args.path)?;
        return output.names(states.list.iter().rev().map(|state| &state.name));
    }
    let States { list, past_bytes, .. } = States::counted(&args.path, |_| true)?;
    let states: Vec<StateRow> = list.iter().rev().map(StateRow::of).collect();
    let view = Log { path: shown(&args.path), states, past_bytes };
    output.show(args.json, &view, |out| {
        if view.states.is_empty() {
            return writeln!(out, "no states are kept; 'firn snapshot {} NAME' keeps one", view.path);
        }
        write_states(out, &view.states)?;
        if view.states.iter().any(|state| state.kept_as.is_none()) {
            return writeln!(out, "{UNTOLD}");
        }
        past_bytes.map_or(Ok(()), |bytes| writeln!(out, "the past alone holds {}", Bytes(bytes)))
    })
}

/// Writes a table of states. A star marks those that are known to stay until somebody deletes them.
///
/// # Errors
/// As writing fails.
pub fn write_states(out: &mut dyn Write, states: &[StateRow]) -> io::Result<()> {
    let now = when::now_ns();
    writeln!(out, "{:<19} {:<14} {:>9} {:>9}  state", "time", "", "live", "frees")?;
    states.iter().try_for_each(|state| {
        let time = state.time_ns.map_or_else(|| "unknown".to_owned(), when::local);
        let age = state.time_ns.map(|time| when::age(time, now)).unwrap_or_default();
        let live = state.live_bytes.map(|bytes| Bytes(bytes).to_string()).unwrap_or_default();
        let frees = state.frees_bytes.map(|bytes| Bytes(bytes).to_string()).unwrap_or_default();
        // The name of an automatic state is its time in UTC.
        let sign = if state.kept_as == Some("snapshot") { "*" } else { " " };
        let head = format!("{time:<19} {age:<14} {live:>9} {frees:>9}");
        write_two_parts(out, &head, &format!("{sign}{}", state.name))
    })
}
