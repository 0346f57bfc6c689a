//! `firn umount` and `firn sync`: clients of a running daemon.
//!
//! An unmount through umount(8) returns when the kernel has detached the mount; on plain FUSE that is before the daemon
//! has written its last checkpoint. `firn umount` waits until the volume is released, and reports whether that worked.

use super::namespace;
use crate::completion::values;
use crate::failure::{Done, Exit, Failure};
use crate::history::split_state;
use crate::names::{readable, shell_word};
use crate::target::write_back;
use clap::Args;
use firnfs_fuse::MountError;
use firnfs_fuse::control::{Client, ClientError};
use firnfs_fuse::mount::{self, table};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Arguments of `firn umount`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  firn umount /mnt
  firn umount disk.img        by its image, wherever it is mounted
  firn umount disk.img@monday a state of it alone
  firn umount --lazy /mnt     a busy mount

As umount.fuse.firnfs it has umount(8) wait until the volume is closed. There -f
and -l do not ask the daemon, which may no longer answer.")]
pub struct UmountArgs {
    /// The mountpoint, or the image, device or state mounted there
    #[arg(add = values::mounts())]
    path: PathBuf,
    /// Detach a busy mount now, without waiting; the volume is closed when its last user is done
    #[arg(short, long)]
    lazy: bool,
    /// For umount(8): do not make everything durable first
    #[arg(long, hide = true)]
    at_once: bool,
    /// For umount(8): end requests that the daemon does not answer
    #[arg(long, hide = true)]
    force: bool,
    /// For umount(8): unmount in this mount namespace
    #[arg(long, hide = true, value_name = "FILE")]
    namespace: Option<PathBuf>,
}

/// Arguments of `firn sync`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  firn sync /mnt

sync(1) and sync(2) reach the daemon only if the mount is fuseblk (a block device mounted by root); firn sync always
does.")]
pub struct SyncArgs {
    /// Any path on the mount
    #[arg(add = values::mounts())]
    path: PathBuf,
}

/// Makes everything durable.
///
/// # Errors
/// Not a mount, or the volume failed.
pub fn sync(args: &SyncArgs) -> Done {
    let (mut client, mount) = Client::for_path(&args.path).map_err(|e| failure_of(&e))?;
    write_back(&mount)?;
    client.call("sync", json!({})).map_err(|e| failure_of(&e))?;
    Ok(())
}

/// Unmounts and, unless `--lazy`, waits until the volume is closed.
///
/// # Errors
/// Not a mount, busy, not allowed, or closing the volume failed.
pub fn umount(args: &UmountArgs) -> Done {
    args.namespace.as_deref().map_or(Ok(()), namespace::enter)?;
    if args.force || args.at_once {
        return mount::unmount_unasked(&args.path, args.force, args.lazy).map_err(refused);
    }
    let path = &place_of_state(&args.path)?.unwrap_or_else(|| args.path.clone());
    if let Some(part) = table::part_on(path).map_err(|e| no_table(&e))? {
        // A state beside the present, or a bind mount: the daemon goes on.
        return unmount(&part.mountpoint, args.lazy);
    }
    let mount = find_mount(path)?;
    if !args.lazy {
        refuse_parts(&mount)?;
    }
    let mut client = match Client::for_mount(&mount) {
        Ok(client) => client,
        // The daemon is dead and will not close the volume; the remains of the mount can still be cleared.
        Err(ClientError::DeadDaemon(_)) => return unmount(&mount.mountpoint, true),
        Err(error) => return Err(failure_of(&error)),
    };
    // A failure shows again when the volume is closed; here it must not prevent the unmount. What the kernel has cached it hands over then.
    let synced = client.call("sync", json!({}));
    if args.lazy {
        unmount(&mount.mountpoint, true)?;
        return synced.map(drop).map_err(|e| failure_of(&e));
    }
    // Send the request before the unmount, read the answer after it: the daemon answers pending requests even while it
    // ends.
    client.send("await_release", json!({})).map_err(|e| failure_of(&e))?;
    unmount(&mount.mountpoint, false)?;
    while client.receive().map_err(|e| failure_of(&e))? != json!(true) {
        client.send("await_release", json!({})).map_err(|e| failure_of(&e))?;
    }
    Ok(())
}

/// Where `IMAGE@STATE` is mounted.
fn place_of_state(path: &Path) -> Done<Option<PathBuf>> {
    let (image, Some(state)) = split_state(path.as_os_str()) else { return Ok(None) };
    let Ok(mut source) = image.canonicalize().map(PathBuf::into_os_string) else { return Ok(None) };
    source.push("@");
    source.push(state);
    let mounts = table::firnfs_mounts().map_err(|e| no_table(&e))?;
    Ok(mounts
        .into_iter()
        .rev()
        .find(|mount| mount.source.as_os_str() == source)
        .map(|mount| mount.mountpoint))
}

fn find_mount(path: &Path) -> Done<table::Mount> {
    let by_source = |mounts: Vec<table::Mount>| {
        let wanted = path.canonicalize().ok()?;
        mounts.into_iter().rev().find(|mount| mount.source == wanted)
    };
    if let Some(mount) = table::mount_of(path).map_err(|e| no_table(&e))? {
        return Ok(mount);
    }
    by_source(table::firnfs_mounts().map_err(|e| no_table(&e))?).ok_or_else(|| {
        let error = MountError::NotMounted(path.to_owned());
        Failure::new(Exit::NotAVolume, error.to_string())
    })
}

/// Refuses to unmount a volume of which a part is mounted elsewhere as well. A state would be gone with it, under the programs that read it.
/// A bind mount would keep the daemon, and a caller would wait.
fn refuse_parts(mount: &table::Mount) -> Done {
    let all = table::firnfs_mounts().map_err(|e| no_table(&e))?;
    let is_part = |other: &&table::Mount| other.device == mount.device && !other.is_whole();
    let parts = all.iter().filter(is_part).filter(|part| !mount::is_dead(&part.mountpoint));
    let names: Vec<String> = parts.map(|part| shell_word(&part.mountpoint)).collect();
    if names.is_empty() {
        return Ok(());
    }
    let message =
        format!("a part of {} is also mounted on {}", readable(&mount.mountpoint), names.join(" and "));
    Err(Failure::new(Exit::Refused, message).advise(format!("first 'firn umount {}'", names[0])))
}

fn no_table(error: &std::io::Error) -> Failure {
    Failure::io("cannot read", Path::new("/proc/self/mountinfo"), error)
}

fn unmount(mountpoint: &Path, lazy: bool) -> Done {
    mount::unmount(mountpoint, lazy).map_err(refused)
}

fn refused(error: MountError) -> Failure {
    let exit = if matches!(error, MountError::Busy(_)) { Exit::Refused } else { Exit::Failed };
    Failure::new(exit, error.to_string())
}

fn failure_of(error: &ClientError) -> Failure {
    let exit = if matches!(error, ClientError::NotMounted(_)) { Exit::NotAVolume } else { Exit::Failed };
    Failure::new(exit, error.to_string())
}
