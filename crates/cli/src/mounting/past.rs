//! Opens a volume as one of its states has it, for `firn mount IMAGE@STATE`.

use super::open::log_options;
use super::options::{MountPlan, Source};
use super::{failure_of, tags};
use crate::failure::{Done, Exit, Failure};
use crate::history::{HISTORY_DIR, States, has_no_history, split_state, states_of_volume};
use crate::mkfs::open_failed;
use crate::names::{readable, shell_word};
use crate::target::mount_of_image;
use firnfs::lfs::Lfs;
use firnfs::vfs::AtimeMode;
use firnfs_device::{Access, FileDevice, FileOptions, Lock, SystemClock};
use firnfs_format::Epoch;
use firnfs_fuse::SessionError;
use firnfs_fuse::mount::{self, table::Mount};
use firnfs_manage::{VolumeKind, kind_of, open_point};
use firnfs_volume::Volume;
use rustix::fs::{StatVfsMountFlags, statvfs};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How long it waits for a daemon that releases the volume.
const LOCK_WAIT_MS: u64 = 2_000;

/// The volume as a state has it, and the source that `mount` shows: it is not the image, whose present is mounted nowhere.
///
/// # Errors
/// The image is mounted to be written, keeps no history, or has no such state.
pub(super) fn volume(plan: &MountPlan, image: &Path, word: &str) -> Done<(Volume<Lfs>, PathBuf)> {
    refuse_written(image, word)?;
    let file = FileOptions {
        access: Access::ReadOnly,
        lock: Lock::Shared,
        lock_wait_ms: LOCK_WAIT_MS,
        ..FileOptions::default()
    };
    let device = FileDevice::open(image, &file).map_err(|e| open_failed(&e))?;
    if kind_of(&device) != VolumeKind::Log {
        return Err(has_no_history(image));
    }
    let options = log_options(plan, &device);
    let device = Arc::new(device);
    let present = crate::volume::open(device.clone(), options, AtimeMode::Noatime)?;
    let view = states_of_volume(&present).map_err(|e| Failure::fs("cannot list the states", &e))?;
    drop(present);
    let states = States::told(view, image.to_owned());
    let state = states.find(word)?;
    let epoch = Epoch(state.told.map_or(0, |told| told.epoch));
    let volume = open_point(device, options, Arc::new(SystemClock), epoch).map_err(|e| {
        Failure::new(Exit::NotAVolume, format!("cannot open {} as in {}: {e}", image.display(), state.name))
    })?;
    let mut source = OsString::from(image);
    source.push("@");
    source.push(&state.name);
    Ok((volume, PathBuf::from(source)))
}

/// Mounts a state of a volume that is mounted itself: the daemon shows the states, so the state's directory appears in the other place as
/// well. False if this is no such plan.
///
/// # Errors
/// There is no such state; the caller is not root; it is to be served in the foreground.
pub(super) fn mount_beside(plan: &MountPlan) -> Done<bool> {
    let (Source::Image(path), Some(word)) = (&plan.source, &plan.state) else { return Ok(false) };
    let image = tags::resolve(path)?;
    let Some((mounted, directory)) = shown_by_mount(&image, word)? else { return Ok(false) };
    if !rustix::process::geteuid().is_root() {
        return Err(refusal(&image, &mounted, &directory));
    }
    if plan.foreground {
        return Err(refusal(&image, &mounted, &directory)
            .advise("without --foreground: the daemon of that mount serves the state too"));
    }
    let mountpoint = mount::prepare_mountpoint(&plan.mountpoint);
    let bound = mountpoint.and_then(|at| mount::bind_read_only(&directory, &at, &plan.mount_options));
    bound.map(|()| true).map_err(|e| failure_of(&SessionError::Mount(e)))
}

/// Refuses an image that a mount may change: that mount shows its states.
fn refuse_written(image: &Path, word: &str) -> Done {
    match shown_by_mount(image, word)? {
        None => Ok(()),
        Some((mounted, directory)) => Err(refusal(image, &mounted, &directory)),
    }
}

fn refusal(image: &Path, mounted: &Mount, directory: &Path) -> Failure {
    let message = format!("{} is mounted on {}", readable(&image), readable(&mounted.mountpoint));
    Failure::new(Exit::Refused, message).advise(format!("look into {}", shell_word(&directory)))
}

/// The mount that may change an image, and the directory in which it shows the state.
fn shown_by_mount(image: &Path, word: &str) -> Done<Option<(Mount, PathBuf)>> {
    let failed = |e: std::io::Error| Failure::io("cannot read", Path::new("/proc/self/mountinfo"), &e);
    let Some(mounted) = mount_of_image(image).map_err(failed)? else { return Ok(None) };
    let flags = statvfs(&mounted.mountpoint).map(|found| found.f_flag);
    if mount::is_dead(&mounted.mountpoint)
        || flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::RDONLY))
    {
        return Ok(None);
    }
    let states = States::of_mount(&mounted)?;
    let directory = mounted.mountpoint.join(HISTORY_DIR).join(&states.find(word)?.name);
    Ok(Some((mounted, directory)))
}

/// Takes the state off `IMAGE@STATE`, if there is such an image.
pub(super) fn at_state(source: Source) -> (Source, Option<String>) {
    if let Source::Image(path) = &source
        && let (image, Some(state)) = split_state(path.as_os_str())
        && image.exists()
    {
        return (Source::Image(image), Some(state));
    }
    (source, None)
}
