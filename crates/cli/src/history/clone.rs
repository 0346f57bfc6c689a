//! `firn clone`: makes trees that begin as states of a volume and can be changed. Also the daemon's side: operations of the
//! control socket.
//!
//! A clone is a directory below `.firn/clones` of a mount. The command puts a symbolic link to it where people want it.

use super::snapshot::{check_name, shown};
use super::states::{self, States};
use super::when;
use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::output::Output;
use crate::socket;
use crate::target::{self, Target};
use clap::Args;
use firnfs::lfs::Lfs;
use firnfs::store::Store;
use firnfs_format::{Epoch, TimeNs};
use firnfs_fuse::control::{OpError, Registry};
use firnfs_fuse::mount::table::Mount;
use firnfs_lab::calendar::rfc3339;
use firnfs_volume::Volume;
use rustix::fs::Access;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Weak;

/// Makes a clone: a [`CloneRequest`], answered when it is durable.
pub const CLONE_OP: &str = "clone";
/// Answers with all clones: a list of [`CloneView`].
pub const CLONES_OP: &str = "clones";
/// Deletes a clone: a [`DropRequest`], answered when that is durable.
pub const DROP_CLONE_OP: &str = "drop_clone";

/// Where clones are, below a mountpoint.
pub const CLONES_DIR: &str = ".firn/clones";

/// See [`CLONE_OP`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CloneRequest {
    /// The state that it begins as.
    pub epoch: u32,
    /// Its name.
    pub name: String,
}

/// See [`DROP_CLONE_OP`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DropRequest {
    /// Its name.
    pub name: String,
}

/// A clone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CloneView {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub time_ns: i64,
    /// Number of the checkpoint of the state that it began as.
    pub origin: u32,
}

/// Registers the operations. The volume is held weakly: it must close after the unmount.
pub fn register(registry: &mut Registry, volume: Weak<Volume<Lfs>>) {
    let [for_make, for_list] = std::array::from_fn(|_| volume.clone());
    let help = "makes a tree called 'name' that begins as the state of checkpoint 'epoch', and waits until it is durable";
    registry.register(CLONE_OP, help, move |request| {
        let CloneRequest { epoch, name } = socket::arguments(request)?;
        let volume = socket::open(&for_make)?;
        firnfs_manage::make_clone(&volume, Epoch(epoch), &name).map_err(|e| OpError::from(&e))?;
        tracing::info!("clone {name} made");
        Ok(Value::Null)
    });
    registry.register(CLONES_OP, "the clones of the volume", move |_| {
        let volume = socket::open(&for_list)?;
        let clones = volume.run_quietly(|vfs, _| Ok(vfs.store().branches().unwrap_or_default()));
        let clones = clones.map_err(|e| OpError::from(&e))?.into_iter().map(|branch| CloneView {
            name: branch.name,
            time_ns: branch.time.0,
            origin: branch.origin.0,
        });
        socket::answer(&clones.collect::<Vec<_>>())
    });
    registry.register(DROP_CLONE_OP, "deletes the clone called 'name'", move |request| {
        let DropRequest { name } = socket::arguments(request)?;
        firnfs_manage::drop_clone(&*socket::open(&volume)?, &name).map_err(|e| OpError::from(&e))?;
        tracing::info!("clone {name} deleted");
        Ok(Value::Null)
    });
}

/// Arguments of `firn clone`.
#[derive(Args, Debug)]
#[command(
    override_usage = "firn clone [OPTIONS] <PATH> <STATE> <DIR>\n       firn clone [OPTIONS] <PATH> --list\n       firn clone [OPTIONS] <PATH> --delete <CLONE>",
    after_help = "Examples:
  firn clone /mnt before-upgrade /work   a tree at /work that began as that snapshot
  firn clone /mnt yesterday /mnt/try     of the volume as it was yesterday
  firn clone /mnt --list                 the clones that there are
  firn clone /mnt --delete /work         delete one, and its link

A clone is made at once, whatever its size: it copies nothing, and shares with the state what it has not changed. It can be changed
like the volume, with the permissions and owners of then, and changes neither the volume nor the state. DIR is a link to it;
the clone itself is .firn/clones/NAME on the mount, where NAME is the last part of DIR.

The state stays as long as a clone of it. A clone has no history of its own, no quota counts it, and no file can be moved or
linked from it to elsewhere, only copied. Only the owner of the mount and root may make and delete clones."
)]
pub struct CloneArgs {
    /// Any path on a mount
    #[arg(add = values::mounts())]
    pub path: PathBuf,
    /// The state to begin with: the name of a snapshot, a time, or a number
    #[arg(required_unless_present_any = ["list", "delete"], conflicts_with_all = ["list", "delete"], add = values::states())]
    pub state: Option<String>,
    /// Where the clone appears: nothing may be there yet
    #[arg(required_unless_present_any = ["list", "delete"], conflicts_with_all = ["list", "delete"])]
    pub dir: Option<PathBuf>,
    /// List the clones
    #[arg(long, conflicts_with = "delete")]
    pub list: bool,
    /// Delete this clone: its name, or the link to it
    #[arg(long, value_name = "CLONE", add = values::clones())]
    pub delete: Option<PathBuf>,
    /// With --list, print only the names, each ended by NUL
    #[arg(long, conflicts_with_all = ["json", "state", "dir", "delete"])]
    pub null: bool,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

/// A clone that was made or deleted.
#[derive(Serialize)]
struct Summary {
    /// The path on the command line.
    path: String,
    /// Its name.
    name: String,
    /// Where it is.
    clone: String,
    /// The link to it; null if it was deleted by name.
    link: Option<String>,
    /// It was deleted, not made.
    deleted: bool,
}

/// A clone in a list.
#[derive(Serialize)]
struct Row {
    /// Its name.
    name: String,
    /// Where it is.
    clone: String,
    /// When it was made.
    made_at: String,
    /// The name of the state that it began as; null if this user may not know it.
    origin: Option<String>,
    #[serde(skip)]
    time: TimeNs,
}

/// The clones.
#[derive(Serialize)]
struct List {
    /// The path on the command line.
    path: String,
    /// In the order of their numbers.
    clones: Vec<Row>,
}

/// Runs the command.
///
/// # Errors
/// Not mounted; no such state or clone; the name is invalid or taken; something is at DIR; no room for the checkpoint; read-only.
pub fn run(args: &CloneArgs, output: &mut Output) -> Done {
    let mount = match target::resolve(&args.path)? {
        Target::Mounted(mount) => mount,
        Target::Image(_) => {
            let message = format!("{} is not mounted", args.path.display());
            return Err(Failure::new(Exit::Refused, message).advise("mount it: a clone is a tree of a mount"));
        }
    };
    match (&args.state, &args.dir, &args.delete) {
        (Some(state), Some(dir), _) => make(args, &mount, state, dir, output),
        (_, _, Some(clone)) => delete(args, &mount, clone, output),
        _ => list(args, &mount, output),
    }
}

fn make(args: &CloneArgs, mount: &Mount, word: &str, dir: &Path, output: &mut Output) -> Done {
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    check_name("clone", &name)?;
    if dir.symlink_metadata().is_ok() {
        return Err(Failure::new(Exit::Refused, format!("{} exists", dir.display()))
            .advise("name a place where nothing is: the clone appears there"));
    }
    let above = directory_of(dir);
    rustix::fs::access(above.join("."), Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|why| Failure::io("cannot make a link in", above, &why.into()))?;
    let state = States::of(&args.path)?.find(word)?.clone();
    let owner = format!("only the owner of {} and root may make a clone", args.path.display());
    let epoch = state.told.map(|told| told.epoch).ok_or_else(|| Failure::failed(owner))?;
    ask::<Option<()>>(mount, CLONE_OP, &CloneRequest { epoch, name: name.clone() }, &name)?;
    let clone = mount.mountpoint.join(CLONES_DIR).join(&name);
    if let Err(why) = std::os::unix::fs::symlink(link_target(mount, dir, &name), dir) {
        return Err(Failure::io("cannot make the link", dir, &why)
            .advise(format!("the clone itself is there: {}", clone.display())));
    }
    let link = Some(shown(dir));
    let view = Summary { path: shown(&args.path), name, clone: shown(&clone), link, deleted: false };
    output.show(args.json, &view, |out| {
        writeln!(out, "{}: a clone of {}; the tree itself is {}", dir.display(), state.name, view.clone)
    })
}

/// The directory that the link is made in.
fn directory_of(dir: &Path) -> &Path {
    dir.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The target of the link. A link on the mount itself is relative, so that it holds wherever the volume is mounted.
fn link_target(mount: &Mount, dir: &Path, name: &str) -> PathBuf {
    let inside = directory_of(dir).canonicalize().ok().and_then(|above| {
        let below = above.strip_prefix(&mount.mountpoint).ok()?;
        (!below.starts_with(".firn")).then(|| below.components().count())
    });
    match inside {
        Some(depth) => {
            let up: PathBuf = std::iter::repeat_n("..", depth).collect();
            up.join(CLONES_DIR).join(name)
        }
        None => mount.mountpoint.join(CLONES_DIR).join(name),
    }
}

fn delete(args: &CloneArgs, mount: &Mount, clone: &Path, output: &mut Output) -> Done {
    let clones = mount.mountpoint.join(CLONES_DIR);
    let is_link = clone.symlink_metadata().is_ok_and(|found| found.is_symlink());
    let to = clone.canonicalize().ok().filter(|to| is_link && to.parent() == Some(&clones));
    let link = to.is_some().then(|| shown(clone));
    let name = to.as_deref().unwrap_or(clone).file_name().and_then(|name| name.to_str());
    let name = name.filter(|_| link.is_some() || clone.components().count() == 1).ok_or_else(|| {
        Failure::usage(format!(
            "{} is neither the name of a clone of {} nor a link to one",
            clone.display(),
            args.path.display()
        ))
    })?;
    let name = name.to_owned();
    ask::<Option<()>>(mount, DROP_CLONE_OP, &DropRequest { name: name.clone() }, &name)?;
    if link.is_some() {
        std::fs::remove_file(clone).map_err(|e| Failure::io("cannot remove the link", clone, &e))?;
    }
    let view =
        Summary { path: shown(&args.path), clone: shown(&clones.join(&name)), name, link, deleted: true };
    output.show(args.json, &view, |out| {
        writeln!(
            out,
            "{}: clone {} deleted; its space comes back in the background",
            args.path.display(),
            view.name
        )
    })
}

fn list(args: &CloneArgs, mount: &Mount, output: &mut Output) -> Done {
    let clones = clones_of(mount)?;
    if args.null {
        return output.names(clones.iter().map(|clone| &clone.name));
    }
    let states = States::of(&args.path)?.list;
    let rows = clones.into_iter().map(|clone| {
        let origin = states.iter().find(|state| state.told.is_some_and(|told| told.epoch == clone.origin));
        Row {
            clone: shown(&mount.mountpoint.join(CLONES_DIR).join(&clone.name)),
            name: clone.name,
            made_at: rfc3339(clone.time_ns),
            time: TimeNs(clone.time_ns),
            origin: origin.map(|state| state.name.clone()),
        }
    });
    let view = List { path: shown(&args.path), clones: rows.collect() };
    output.show(args.json, &view, |out| {
        if view.clones.is_empty() {
            return writeln!(out, "no clones; 'firn clone {} STATE DIR' makes one", args.path.display());
        }
        write_clones(out, &view.clones)
    })
}

fn write_clones(out: &mut dyn Write, clones: &[Row]) -> io::Result<()> {
    let now = when::now_ns();
    writeln!(out, "{:<19} {:<14} clone", "made", "")?;
    clones.iter().try_for_each(|clone| {
        let (time, age) = (when::local(clone.time), when::age(clone.time, now));
        let origin = clone.origin.as_deref().map(|state| format!(" (of {state})")).unwrap_or_default();
        writeln!(out, "{time:<19} {age:<14} {}{origin}", clone.name)
    })
}

/// The clones of a mount.
///
/// # Errors
/// Its daemon is dead, or it keeps no history.
pub fn clones_of(mount: &Mount) -> Done<Vec<CloneView>> {
    ask(mount, CLONES_OP, &Value::Null, "clones")
}

/// Has the daemon do something; `name` is that of the clone.
fn ask<T: for<'a> Deserialize<'a>>(mount: &Mount, op: &str, request: &impl Serialize, name: &str) -> Done<T> {
    states::ask(mount, op, request, |errno, _| {
        Some(match errno {
            "EEXIST" => Failure::new(Exit::Refused, format!("there is a clone {name} already"))
                .advise("choose another last part of DIR, or delete that clone first"),
            "ENOSPC" => Failure::failed(format!("no clone {name} can be made"))
                .advise("64 clones are possible; delete one, or make room, or mount the volume anew"),
            "ENOENT" => Failure::failed(format!("there is no clone {name}, or its state is gone"))
                .advise(format!("firn clone {} --list shows the clones", mount.mountpoint.display())),
            _ => return None,
        })
    })
}
