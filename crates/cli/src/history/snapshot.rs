//! `firn snapshot`: makes, lists and deletes states that stay until a user deletes them.

use super::log::{StateRow, UNTOLD, write_states};
use super::service::{DROP_OP, DropRequest, HOLD_OP, HoldRequest, MakeRequest, PointView, SNAPSHOT_OP};
use super::states::{self, State, States, Told};
use super::when;
use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::mkfs::open_failed;
use crate::names::{readable, shell_word};
use crate::output::Output;
use crate::sizes::Bytes;
use crate::target::{self, Target, write_back};
use clap::Args;
use firnfs::FsError;
use firnfs::lfs::{Lfs, Options};
use firnfs::vfs::AtimeMode;
use firnfs_device::{FileDevice, FileOptions};
use firnfs_format::Epoch;
use firnfs_format::checkpoint::POINT_NAME_MAX;
use firnfs_fuse::mount::table::Mount;
use firnfs_manage::LogVolume;
use firnfs_volume::Volume;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `firn snapshot`.
#[derive(Args, Debug)]
#[command(
    override_usage = "firn snapshot [OPTIONS] <PATH> <NAME>\n       firn snapshot [OPTIONS] <PATH> --hold <STATE> <NAME>\n       firn snapshot [OPTIONS] <PATH> --list\n       firn snapshot [OPTIONS] <PATH> --delete <STATE>",
    after_help = "Examples:
  firn snapshot /mnt before-upgrade           keep the volume as it is now
  firn snapshot /mnt --hold yesterday rescue  keep a state that was made by itself
  firn snapshot /mnt --list                   the snapshots that there are
  ls /mnt/.firn/history/before-upgrade        look into one
  firn snapshot /mnt --delete before-upgrade  give its space back
  firn snapshot disk.img golden               of an image that is not mounted
  firn snapshot /mnt --list --null | grep -z ^nightly- |
    xargs -0 -rn1 firn snapshot /mnt --delete
                                              delete all of such a name

A snapshot copies nothing: it keeps what is there, and takes space only as the present moves away from it. It stays until
somebody deletes it. When the command ends it is durable, with everything that was written before.

Everybody can read it below .firn/history, which no listing shows, with the permissions of then, as far as those of today
leave them. To get files back: firn restore, firn undelete.

Space comes back in the background after a deletion. --delete takes automatic states as well, by name, time or number."
)]
pub struct SnapshotArgs {
    /// Any path on a mount, an image file or a block device
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// Name of the new snapshot: one word, at most 80 bytes
    #[arg(required_unless_present_any = ["list", "delete"], conflicts_with_all = ["list", "delete"])]
    pub name: Option<String>,
    /// Keep this automatic state under the name
    #[arg(long, value_name = "STATE", requires = "name", add = values::states())]
    pub hold: Option<String>,
    /// List the snapshots
    #[arg(long, conflicts_with = "delete")]
    pub list: bool,
    /// Delete this snapshot or automatic state
    #[arg(long, value_name = "STATE", add = values::states())]
    pub delete: Option<String>,
    /// With --list, print only the names, each ended by NUL
    #[arg(long, conflicts_with_all = ["json", "name", "delete"])]
    pub null: bool,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// A snapshot that was made or deleted.
#[derive(Serialize)]
struct Summary {
    /// The path on the command line.
    path: String,
    #[serde(flatten)]
    state: StateRow,
    /// It was deleted, not made.
    deleted: bool,
}

/// The snapshots.
#[derive(Serialize)]
struct List {
    /// The path on the command line.
    path: String,
    /// Newest first.
    states: Vec<StateRow>,
    /// Bytes that only snapshots and automatic states hold.
    past_bytes: Option<u64>,
}

/// Runs the command.
///
/// # Errors
/// No volume; it is in use by another process, read-only or full; the name is invalid or taken; no such state.
pub fn run(args: &SnapshotArgs, output: &mut Output) -> Done {
    match (&args.name, &args.delete) {
        (Some(name), _) => match &args.hold {
            Some(state) => hold(args, state, name, output),
            None => make(args, name, output),
        },
        (None, Some(state)) => delete(args, state, output),
        (None, None) => list(args, output),
    }
}

fn make(args: &SnapshotArgs, name: &str, output: &mut Output) -> Done {
    check_name("snapshot", name)?;
    let point = match target::resolve(&args.path)? {
        Target::Mounted(mount) => make_on_mount(&mount, name)?,
        Target::Image(image) => {
            on_image(&image, |volume| volume.make_point(name).map(|p| PointView::from(&p)), name)?
        }
    };
    let (path, state) = (shown(&args.path), StateRow::from(&point));
    output.show(args.json, &Summary { path, state, deleted: false }, |out| {
        writeln!(out, "{}: snapshot {name} made", readable(&args.path))
    })
}

/// Makes a snapshot of a mounted volume.
///
/// # Errors
/// As [`run`].
pub fn make_on_mount(mount: &Mount, name: &str) -> Done<PointView> {
    write_back(mount)?;
    let request = MakeRequest { name: name.to_owned() };
    ask(mount, SNAPSHOT_OP, &request, name)
}

/// Keeps an automatic state under a name.
fn hold(args: &SnapshotArgs, word: &str, name: &str, output: &mut Output) -> Done {
    check_name("snapshot", name)?;
    let state = States::of(&args.path)?.find(word)?.clone();
    let epoch = epoch_of(args, &state)?;
    if state.told.is_some_and(|told| !told.is_automatic) {
        let message = format!("{} is a snapshot, which stays until somebody deletes it", state.name);
        return Err(Failure::new(Exit::Refused, message).advise("--hold is for automatic states"));
    }
    match target::resolve(&args.path)? {
        Target::Mounted(mount) => {
            let request = HoldRequest { epoch, name: name.to_owned() };
            ask::<Option<()>>(&mount, HOLD_OP, &request, name).map(drop)?
        }
        Target::Image(image) => {
            on_image(&image, |volume| firnfs_manage::name_point(volume, Epoch(epoch), name), name)?
        }
    }
    let told = state.told.map(|told| Told { is_automatic: false, ..told });
    let kept = State { name: name.to_owned(), told, ..state.clone() };
    let (path, row) = (shown(&args.path), StateRow::of(&kept));
    output.show(args.json, &Summary { path, state: row, deleted: false }, |out| {
        writeln!(out, "{}: {} is kept as snapshot {name}", readable(&args.path), state.name)
    })
}

/// The number of a state; users who may not change states do not get it.
fn epoch_of(args: &SnapshotArgs, state: &State) -> Done<u32> {
    state.told.map(|told| told.epoch).ok_or_else(|| {
        Failure::failed(format!("only the owner of {} and root may do that to states", readable(&args.path)))
    })
}

fn delete(args: &SnapshotArgs, word: &str, output: &mut Output) -> Done {
    let state = States::of(&args.path)?.find(word)?.clone();
    let epoch = epoch_of(args, &state)?;
    match target::resolve(&args.path)? {
        Target::Mounted(mount) => {
            ask::<Option<()>>(&mount, DROP_OP, &DropRequest { epoch }, &state.name).map(drop)?
        }
        Target::Image(image) => on_image(&image, |volume| volume.drop_point(Epoch(epoch)), &state.name)?,
    }
    let (path, name) = (shown(&args.path), state.name.clone());
    let state = StateRow::of(&state);
    output.show(args.json, &Summary { path, state, deleted: true }, |out| {
        writeln!(out, "{}: {name} deleted; its space comes back in the background", readable(&args.path))
    })
}

fn list(args: &SnapshotArgs, output: &mut Output) -> Done {
    let States { list, past_bytes, .. } =
        States::counted(&args.path, |state| !args.null && is_snapshot(state))?;
    let kept = list.iter().rev().filter(|state| is_snapshot(state));
    if args.null {
        return output.names(kept.map(|state| &state.name));
    }
    let states: Vec<StateRow> = kept.map(StateRow::of).collect();
    let view = List { path: shown(&args.path), states, past_bytes };
    output.show(args.json, &view, |out| {
        if view.states.is_empty() {
            writeln!(out, "no snapshots; 'firn snapshot {} NAME' makes one", shell_word(&args.path))?;
        } else {
            write_states(out, &view.states)?;
        }
        if list.iter().any(|state| state.told.is_none()) {
            return writeln!(out, "{UNTOLD}; those with a time for a name are left out");
        }
        let past_bytes = past_bytes.filter(|_| !view.states.is_empty());
        past_bytes.map_or(Ok(()), |bytes| writeln!(out, "the past alone holds {}", Bytes(bytes)))
    })
}

/// True for a snapshot. A user who is not told takes a state with a time for a name for an automatic one.
fn is_snapshot(state: &State) -> bool {
    match state.told {
        Some(told) => !told.is_automatic,
        None => state.name.parse::<Timestamp>().is_err(),
    }
}

/// A path in the form of the outputs.
pub fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Refuses an invalid name.
pub fn check_name(what: &str, name: &str) -> Done {
    let refuse = |why: String| Err(Failure::usage(format!("a {what} cannot be called '{name}': {why}")));
    if name.is_empty() {
        return refuse("the name is empty".to_owned());
    }
    if name.len() > POINT_NAME_MAX {
        return refuse(format!("the name has {} bytes, {POINT_NAME_MAX} at most are possible", name.len()));
    }
    if name.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '/' | '@')) {
        return refuse("a name is one word without / and @".to_owned());
    }
    if name == "." || name == ".." {
        return refuse("every directory has that name".to_owned());
    }
    if name.starts_with('-') {
        return refuse("commands would take it for an option".to_owned());
    }
    if when::parse(name, &when::now()).is_some() || name.bytes().all(|b| b.is_ascii_digit()) {
        return refuse("commands would take it for a time or for the number of a state".to_owned());
    }
    Ok(())
}

/// Asks the daemon to do something; `name` is that of the state.
fn ask<T: for<'a> Deserialize<'a>>(mount: &Mount, op: &str, request: &impl Serialize, name: &str) -> Done<T> {
    states::ask(mount, op, request, |errno, message| Some(refusal(name, errno, message)))
}

/// Opens an image, does something with it, and closes it.
fn on_image<T>(image: &Path, work: impl FnOnce(&Volume<Lfs>) -> Result<T, FsError>, name: &str) -> Done<T> {
    let device = FileDevice::open(image, &FileOptions::default()).map_err(|e| open_failed(&e))?;
    let volume = crate::volume::open(Arc::new(device), Options::default(), AtimeMode::Noatime)?;
    let done = work(&volume).map_err(|e| refusal(name, e.errno_name(), &e.to_string()));
    let closed = volume.close().map_err(|e| Failure::fs("cannot close the volume", &e));
    done.and_then(|done| closed.map(|()| done))
}

/// Why a state could not be made or deleted, from the name of the error.
fn refusal(name: &str, errno: &str, message: &str) -> Failure {
    match errno {
        "EEXIST" => Failure::new(Exit::Refused, format!("there is a snapshot {name} already"))
            .advise("choose another name, or delete that one first"),
        "ENOSPC" => Failure::failed(format!("there is no room for a snapshot {name}")).advise(
            "delete a snapshot (firn snapshot --list), or files, or make the volume larger (firn resize)",
        ),
        "ENOENT" => Failure::failed(format!("{name} is no longer there")),
        _ => Failure::failed(format!("{name}: {message}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use firnfs_format::TimeNs;

    #[test]
    fn a_name_that_a_command_would_misread_is_refused_with_its_reason() {
        for good in ["before-upgrade", "v1.2", "größer", "2026-plan", "a", &"x".repeat(80)] {
            check_name("snapshot", good).unwrap();
        }
        for (bad, why) in [
            ("", "empty"),
            (&"x".repeat(81), "81 bytes"),
            ("two words", "one word"),
            ("a/b", "one word"),
            ("a@b", "one word"),
            ("..", "every directory"),
            ("-x", "option"),
            ("17", "number"),
            ("yesterday", "time"),
            ("2026-11-24", "time"),
        ] {
            let refused = check_name("snapshot", bad).unwrap_err();
            assert!(refused.exit == Exit::Usage && refused.message.contains(why), "{bad}: {refused}");
        }
    }

    /// Nothing runs the examples, and `friday` is a time.
    #[test]
    fn every_name_of_a_snapshot_or_clone_in_the_examples_of_the_help_can_be_given() {
        let help = crate::help::command();
        let texts = help.get_subcommands().filter_map(clap::Command::get_after_help).map(ToString::to_string);
        let texts: Vec<String> = texts.collect();
        let lines = texts.iter().flat_map(|text| text.lines());
        let examples = lines.filter_map(|line| line.strip_prefix("  firn ")?.split("  ").next());
        let mut names = Vec::new();
        for example in
            examples.filter(|example| example.starts_with("snapshot ") || example.starts_with("clone "))
        {
            let words = example.split('|').next().unwrap_or_default().split_whitespace();
            match crate::args::Cli::try_parse_from(std::iter::once("firn").chain(words)).unwrap().command {
                crate::args::Command::Snapshot(args) => names.extend(args.name),
                crate::args::Command::Clone(args) => {
                    names.extend(args.dir.map(|dir| dir.file_name().unwrap().to_str().unwrap().to_owned()))
                }
                other => panic!("{example}: {other:?}"),
            }
        }
        assert!(names.len() >= 5, "{names:?}");
        names.iter().for_each(|name| check_name("name", name).unwrap());
    }

    #[test]
    fn a_user_who_is_told_nothing_gets_no_automatic_state_for_a_snapshot() {
        let (now, told) = (TimeNs(0), None);
        let untold = |name: &str| State { name: name.to_owned(), time: None, not_after: now, told };
        assert!(!is_snapshot(&untold("2026-11-28T07:05:56.100Z")));
        assert!(is_snapshot(&untold("before-upgrade")));
        let mut out = Vec::new();
        write_states(&mut out, &[StateRow::of(&untold("before-upgrade"))]).unwrap();
        assert!(!String::from_utf8(out).unwrap().contains('*'), "it may be no snapshot");
    }
}
