//! `firn mount -o remount,...`: changes a mount that is being served. The daemon changes its own settings, the kernel the flags
//! that it keeps for every file system. What the options do not name stays as it is.
//!
//! Invariant: what cannot be done is refused by name, before anything is changed. Caller: `firn mount`.

use super::failure_of;
use super::options::{MountArgs, MountPlan};
use crate::failure::{Done, Exit, Failure};
use crate::names::readable;
use crate::tune;
use firnfs::vfs::AtimeMode;
use firnfs_fuse::control::{Client, ClientError};
use firnfs_fuse::mount::table;
use firnfs_fuse::{MountOptions, SessionError};
use rustix::fs::{StatVfsMountFlags, statvfs};
use serde_json::json;
use std::path::Path;

/// Changes the mount.
///
/// # Errors
/// Not a mount, or one that shows a state; a setting that only a mount sets; `rw` on a volume that the daemon cannot write.
pub(super) fn remount(args: &MountArgs, plan: &MountPlan) -> Done {
    refuse_part(&plan.mountpoint)?;
    let failed = |e: ClientError| match e {
        ClientError::NotMounted(_) => Failure::new(Exit::NotAVolume, e.to_string()),
        _ => Failure::failed(e.to_string()),
    };
    let (mut client, _) = Client::for_path(&plan.mountpoint).map_err(failed)?;
    let now = present(&plan.mountpoint)?;
    let (shared, own) = args.words();
    let mut wanted = now.clone();
    // Each word is one of those that all file systems share.
    let _applied = shared.iter().filter(|word| wanted.apply(word)).count();
    let place = plan.mountpoint.display();
    if wanted.atime != now.atime && names_atime(&shared) {
        let message = format!("{place}: only a mount sets how access times are kept");
        let advice = format!("'firn umount {place}', then mount it with that option");
        return Err(Failure::new(Exit::Refused, message).advise(advice));
    }
    // The daemon may have turned read-only although the kernel's flag does not say so.
    if !wanted.read_only && (now.read_only || shared.iter().any(|word| word == "rw")) {
        let space = client.call("statfs", json!({})).map_err(failed)?;
        refuse_read_only(&plan.mountpoint, space["read_only"].as_str())?;
    }
    if !own.is_empty() {
        tune::change(&mut client, &own)?;
    }
    if wanted == now {
        return Ok(());
    }
    firnfs_fuse::mount::remount(&plan.mountpoint, &wanted)
        .map_err(|e| failure_of(&SessionError::Mount(e)))?;
    if wanted.read_only && !now.read_only {
        // Users write no more: make durable what they wrote.
        client.call("sync", json!({})).map_err(failed)?;
    }
    Ok(())
}

/// Refuses a mount whose settings are those of another one.
fn refuse_part(mountpoint: &Path) -> Done {
    let failed = |e: std::io::Error| Failure::io("cannot read", Path::new("/proc/self/mountinfo"), &e);
    let Some(part) = table::part_on(mountpoint).map_err(failed)? else { return Ok(()) };
    let message =
        format!("{} shows only a part of a volume: {}", readable(&mountpoint), readable(&part.source));
    Err(Failure::new(Exit::Refused, message).advise("name the mount of the whole volume"))
}

/// The options that the kernel keeps for a mount.
fn present(mountpoint: &Path) -> Done<MountOptions> {
    let flags =
        statvfs(mountpoint).map_err(|errno| Failure::io("cannot examine", mountpoint, &errno.into()))?.f_flag;
    let atime = match flags {
        flags if flags.contains(StatVfsMountFlags::NOATIME) => AtimeMode::Noatime,
        flags if flags.contains(StatVfsMountFlags::RELATIME) => AtimeMode::Relatime,
        _ => AtimeMode::Strictatime,
    };
    Ok(MountOptions {
        read_only: flags.contains(StatVfsMountFlags::RDONLY),
        remount: true,
        no_dev: flags.contains(StatVfsMountFlags::NODEV),
        no_suid: flags.contains(StatVfsMountFlags::NOSUID),
        no_exec: flags.contains(StatVfsMountFlags::NOEXEC),
        synchronous: flags.contains(StatVfsMountFlags::SYNCHRONOUS),
        atime,
        ..MountOptions::default()
    })
}

/// Whether the options say how access times are kept; `defaults` alone does not.
fn names_atime(shared: &[String]) -> bool {
    shared.iter().any(|word| matches!(word.as_str(), "relatime" | "noatime" | "strictatime" | "norelatime"))
}

/// Refuses `rw` if the daemon could not write anyway; `why` is its reason.
fn refuse_read_only(mountpoint: &Path, why: Option<&str>) -> Done {
    let Some(why) = why else { return Ok(()) };
    let place = mountpoint.display();
    let advice = match why {
        "mounted read-only" => {
            format!("its device is open for reading only: 'firn umount {place}', then mount it without 'ro'")
        }
        _ => format!("'firn scrub --writable {place}' makes it writable once the cause is gone"),
    };
    Err(Failure::new(Exit::Refused, format!("cannot remount {place} read-write: {why}")).advise(advice))
}
