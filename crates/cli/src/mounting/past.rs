//! `firn mount IMAGE@STATE`: opens a volume as one of its states has it, or has the daemon show the state that has mounted the volume.

use super::open::log_options;
use super::options::{MountPlan, Source};
use super::{failure_of, tags};
use crate::failure::{Done, Exit, Failure};
use crate::history::{self, HISTORY_DIR, States, has_no_history, split_state, states_of_volume};
use crate::mkfs::open_failed;
use crate::names::{readable, shell_word};
use crate::socket::{self, Called};
use crate::target::mount_of_image;
use firnfs::lfs::Lfs;
use firnfs::vfs::AtimeMode;
use firnfs_device::{Access, FileDevice, FileOptions, Lock, SystemClock};
use firnfs_format::Epoch;
use firnfs_fuse::beside::{MOUNT_OP, StateRequest};
use firnfs_fuse::control::{Client, ClientError, ErrorKind};
use firnfs_fuse::handover::send_fd;
use firnfs_fuse::mount::table::{self, Mount};
use firnfs_fuse::{MountError, MountRequest, SessionError, mount};
use firnfs_manage::{VolumeKind, kind_of, open_point};
use firnfs_volume::Volume;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{StatVfsMountFlags, statvfs};
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
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

/// Mounts a state of a volume that is mounted itself: the daemon of that mount serves both. False if this is no such plan.
///
/// # Errors
/// There is no such state; another user has mounted the volume; it is to be served in the foreground; it cannot be mounted there.
pub(super) fn mount_beside(plan: &MountPlan) -> Done<bool> {
    let (Source::Image(path), Some(word)) = (&plan.source, &plan.state) else { return Ok(false) };
    let image = tags::resolve(path)?;
    let Some(mounted) = written_mount(&image)? else { return Ok(false) };
    let owner = mounted.owner_uid;
    if rustix::process::geteuid().as_raw() != owner {
        // Its daemon has not the rights of this user, and this user need not trust what it serves.
        return Err(refusal(
            &image,
            &mounted,
            word,
            &format!(", and only user {owner} may mount its states"),
        )?);
    }
    let states = States::of_mount(&mounted)?;
    let state = states.find(word)?;
    if plan.foreground {
        return Err(refusal(&image, &mounted, word, "")?
            .advise("without --foreground: the daemon of that mount serves the state too"));
    }
    let mut source = OsString::from(&mounted.source);
    source.push("@");
    source.push(&state.name);
    let failed = |e| failure_of(&SessionError::Mount(e));
    let mountpoint = mount::prepare_mountpoint(&plan.mountpoint).map_err(failed)?;
    let request = MountRequest { source: source.into(), mountpoint, options: plan.mount_options.clone() };
    let fuse = mount::mount(&request).map_err(failed)?;
    let epoch = state.told.map_or(0, |told| told.epoch);
    let served = hand_over(fuse, &request.mountpoint, epoch, &mounted);
    served.map(|()| true).inspect_err(|_| {
        let _gone_already = mount::unmount(&request.mountpoint, true);
    })
}

/// Has the daemon of a mount serve another one, through its descriptor of `/dev/fuse`.
fn hand_over(fuse: OwnedFd, mountpoint: &Path, epoch: u32, mounted: &Mount) -> Done {
    // Nobody answers there yet, so it must not be looked at.
    let device = table::device_on(mountpoint).map_err(|e| no_table(&e))?;
    let device =
        device.ok_or_else(|| failure_of(&SessionError::Mount(MountError::NotMounted(mountpoint.into()))))?;
    let client = Client::for_mount(mounted).map_err(|e| history::failure_of(&e))?;
    let request = |socket| StateRequest { epoch, mountpoint: mountpoint.to_owned(), device, socket };
    let Called { stream, answer } = socket::be_called(client, MOUNT_OP, request)?;
    let sent = send_fd(&stream, fuse.as_fd());
    // If the daemon does not serve it, nobody does.
    drop((fuse, stream));
    match answer.wait::<()>() {
        Err(ClientError::Refused(refused)) if refused.kind == ErrorKind::UnknownOp => {
            let message = format!("the daemon of {} is of an older version", readable(&mounted.mountpoint));
            Err(Failure::failed(message).advise("mount the volume with this version of firn"))
        }
        Err(ClientError::Refused(refused)) => {
            Err(Failure::failed(format!("the daemon cannot show the state: {refused}")))
        }
        Err(error) => Err(history::failure_of(&error)),
        Ok(()) => sent.map_err(|errno| Failure::failed(format!("cannot talk to the daemon: {errno}"))),
    }
}

/// Refuses an image that a mount may change: that mount shows its states.
fn refuse_written(image: &Path, word: &str) -> Done {
    match written_mount(image)? {
        None => Ok(()),
        Some(mounted) => Err(refusal(image, &mounted, word, "")?),
    }
}

/// Says where a state can be read that is not mounted.
///
/// # Errors
/// There is no such state.
fn refusal(image: &Path, mounted: &Mount, word: &str, why: &str) -> Done<Failure> {
    let mut directory = mounted.mountpoint.join(HISTORY_DIR);
    // A user who may not look there still learns where to look.
    if let Ok(states) = States::of_mount(mounted) {
        directory.push(&states.find(word)?.name);
    }
    let message = format!("{} is mounted on {}{why}", readable(&image), readable(&mounted.mountpoint));
    Ok(Failure::new(Exit::Refused, message).advise(format!("look into {}", shell_word(&directory))))
}

/// The mount that may change an image.
fn written_mount(image: &Path) -> Done<Option<Mount>> {
    let Some(mounted) = mount_of_image(image).map_err(|e| no_table(&e))? else { return Ok(None) };
    let flags = statvfs(&mounted.mountpoint).map(|found| found.f_flag);
    let is_read_only = flags.is_ok_and(|flags| flags.contains(StatVfsMountFlags::RDONLY));
    let is_left_alone = mount::is_dead(&mounted.mountpoint) || is_read_only && leaves_image_alone(&mounted);
    Ok(Some(mounted).filter(|_| !is_left_alone))
}

/// Whether a read-only mount was one from its beginning; after a remount its daemon still keeps others from the image.
fn leaves_image_alone(mounted: &Mount) -> bool {
    let space = Client::for_mount(mounted).and_then(|mut client| client.call("statfs", json!({})));
    space.map_or(true, |space| !space["read_only"].is_null())
}

fn no_table(error: &std::io::Error) -> Failure {
    Failure::io("cannot read", Path::new("/proc/self/mountinfo"), error)
}

/// Whether the source of a mount is a state of that image.
pub(super) fn is_state_of(source: &Path, image: &Path) -> bool {
    let state = source.as_os_str().as_bytes().strip_prefix(image.as_os_str().as_bytes());
    state.is_some_and(|state| state.starts_with(b"@"))
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
