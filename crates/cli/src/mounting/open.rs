//! Opens the volume that `firn mount` is about to serve.

use super::options::{MountPlan, Source};
use super::{failure_of, past, serve, tags, thresholds};
use crate::failure::{Done, Exit, Failure};
use crate::mkfs::open_failed;
use crate::sizes::{Bytes, Count};
use crate::target::mount_of_image;
use crate::tell::tell;
use crate::volume;
use firnfs::clean::Medium;
use firnfs::ffs::{self, Ffs};
use firnfs::lfs::{Lfs, Options};
use firnfs::mem::{MemOptions, MemStore};
use firnfs::store::Store;
use firnfs::vfs::Vfs;
use firnfs_device::{Access, Clock, FileDevice, FileOptions, Lock, SystemClock};
use firnfs_format::TimeNs;
use firnfs_fuse::mount::table::{self, Mount};
use firnfs_fuse::{SessionError, mount};
use firnfs_manage::{VolumeKind, kind_of};
use firnfs_volume::Volume;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The source that `mount` shows for a volume in memory.
const MEMORY_SOURCE: &str = "firnfs-memory";

/// How long a mount waits for the daemon of a previous mount to release the volume.
const LOCK_WAIT_MS: u64 = 10_000;

/// How long a mount waits until an unmount that has begun removes the volume from the mount table.
const TABLE_WAIT: Duration = Duration::from_millis(500);
const TABLE_LOOK: Duration = Duration::from_millis(10);

/// Lines about damage that a mount prints; `firn stat` shows them all.
const DAMAGE_LINES: usize = 8;

/// Opens the volume and serves it until it is unmounted.
///
/// # Errors
/// The volume cannot be opened or mounted, or serving it failed.
pub fn open_and_serve(plan: &MountPlan) -> Done {
    // Before the volume is opened: a dead mount at this place may be what keeps the device in use.
    mount::prepare_mountpoint(&plan.mountpoint).map_err(|e| failure_of(&SessionError::Mount(e)))?;
    match &plan.source {
        Source::Memory(size_bytes) => {
            serve(Arc::new(memory_volume(plan, *size_bytes)), PathBuf::from(MEMORY_SOURCE), plan)
        }
        Source::Image(path) => {
            let path = &tags::resolve(path)?;
            let path = path.canonicalize().map_err(|e| Failure::io("cannot open", path, &e))?;
            if let Some(word) = &plan.state {
                let (volume, source) = past::volume(plan, &path, word)?;
                return serve(Arc::new(volume), source, plan);
            }
            let device = image_device(plan, &path)?;
            match kind_of(&device) {
                VolumeKind::Log => serve(Arc::new(log_volume(plan, device)?), path, plan),
                VolumeKind::Ffs => serve(Arc::new(fast_volume(plan, device)?), path, plan),
            }
        }
    }
}

/// An image file or block device, locked.
fn image_device(plan: &MountPlan, path: &Path) -> Done<FileDevice> {
    refuse_second_mount(path)?;
    let read_only = plan.mount_options.read_only;
    let (access, lock) =
        if read_only { (Access::ReadOnly, Lock::Shared) } else { (Access::ReadWrite, Lock::Exclusive) };
    let file = FileOptions {
        access,
        lock,
        lock_wait_ms: LOCK_WAIT_MS,
        // If it is mounted as fuseblk, that claims the device.
        hold_claim: !mount::uses_fuseblk(path),
        ..FileOptions::default()
    };
    FileDevice::open(path, &file).map_err(|e| open_failed(&e))
}

/// The Fast File System on a device. Settings of the log do not concern it.
fn fast_volume(plan: &MountPlan, device: FileDevice) -> Done<Volume<Ffs>> {
    let options = ffs::Options {
        cache_bytes: plan.cache_bytes,
        read_only: plan.mount_options.read_only,
        ..ffs::Options::default()
    };
    volume::open_fast(Arc::new(device), options, plan.mount_options.atime)
}

/// The log-structured volume on a device.
fn log_volume(plan: &MountPlan, device: FileDevice) -> Done<Volume<Lfs>> {
    let read_only = plan.mount_options.read_only;
    let options = log_options(plan, &device);
    let volume = volume::open(Arc::new(device), options, plan.mount_options.atime)?;
    if plan.verbose {
        report_recovery(&volume);
    }
    if !read_only {
        report_damage(&volume);
        report_marks(&volume, plan);
    }
    Ok(volume)
}

/// How a log-structured volume is to be run.
pub(super) fn log_options(plan: &MountPlan, device: &FileDevice) -> Options {
    // Assuming a head where there is none costs less than assuming none and then seeking for each block.
    let is_rotational = plan.rotational.or_else(|| device.is_rotational()).unwrap_or(true);
    Options {
        // The kernel caches pages.
        cache_file_data: false,
        cache_bytes: plan.cache_bytes,
        commit_interval_ms: plan.commit_interval_ms,
        checkpoint_interval_ms: plan.checkpoint_interval_ms,
        checkpoint_bytes: plan.checkpoint_bytes,
        cleaning_policy: plan.cleaning_policy,
        thresholds: plan.thresholds,
        placement: plan.placement,
        coalesce_age_ms: plan.coalesce_age_ms,
        idle_after_ms: plan.idle_after_ms,
        idle_bytes_per_s: plan.idle_bytes_per_s,
        medium: Medium::of(is_rotational),
        discard: plan.discard,
        read_only: plan.mount_options.read_only,
        ..Options::default()
    }
}

/// Refuses a volume that is mounted already. The lock would refuse too, but only after a wait, and without saying where
/// it is mounted. If the daemon of such a mount has died, clears the mount, wherever it is: the kernel keeps a block
/// device claimed for it.
fn refuse_second_mount(path: &Path) -> Done {
    let table_failed = |e: std::io::Error| Failure::io("cannot read", Path::new("/proc/self/mountinfo"), &e);
    let began = Instant::now();
    while let Some(mounted) = mount_of_image(path).map_err(table_failed)? {
        let place = mounted.mountpoint.display();
        if !mount::is_dead(&mounted.mountpoint) {
            if began.elapsed() < TABLE_WAIT {
                std::thread::sleep(TABLE_LOOK);
                continue;
            }
            let message = format!("{} is already mounted on {place}", path.display());
            let advice = format!("use it there, or 'firn umount {place}' first");
            return Err(Failure::new(Exit::Refused, message).advise(advice));
        }
        mount::unmount(&mounted.mountpoint, true).map_err(|e| failure_of(&SessionError::Mount(e)))?;
    }
    clear_dead_states(path).map_err(table_failed)
}

/// Clears mounts of states of the volume whose daemon has died.
fn clear_dead_states(image: &Path) -> std::io::Result<()> {
    let is_of_image = |mount: &Mount| past::is_state_of(&mount.source, image);
    for mounted in table::firnfs_mounts()?.into_iter().filter(is_of_image) {
        if mount::is_dead(&mounted.mountpoint)
            && let Err(error) = mount::unmount(&mounted.mountpoint, true)
        {
            tracing::warn!("{error}");
        }
    }
    Ok(())
}

/// For `-v`: what was found in the log after the last checkpoint.
fn report_recovery(volume: &Volume<Lfs>) {
    let Ok(done) = volume.run(|vfs, _| Ok(*vfs.store().recovered())) else { return };
    if done.was_clean {
        tell("the last unmount was clean");
    } else {
        let (files, bytes) = (Count(done.inodes).of("file", "files"), Bytes(done.bytes));
        let partials = Count(done.partials).of("partial segment", "partial segments");
        let ignored = Count(done.incomplete).of("was ignored, as its", "were ignored, as their");
        tell(format_args!(
            "recovered {files} from {bytes} of log ({partials}; {ignored} batch is incomplete)"
        ));
    }
}

/// Reports why a volume that should be writable is not, and which parts are quarantined because they are damaged.
fn report_damage(volume: &Volume<Lfs>) {
    let told = volume.run(|vfs, _| {
        let why = vfs.store().read_only().map(str::to_owned);
        let aside = vfs.store().quarantined().map(|(thing, why)| format!("{thing} is quarantined: {why}"));
        Ok((why, aside.take(DAMAGE_LINES).collect::<Vec<_>>()))
    });
    let Ok((read_only, aside)) = told else { return };
    if let Some(why) = read_only {
        tell(format_args!("mounted read-only: {why}"));
    }
    aside.iter().for_each(tell);
}

/// Reports that the cleaner cannot keep to marks of the mount. That refuses no mount: files may have been added since fstab(5)
/// was written.
fn report_marks(volume: &Volume<Lfs>, plan: &MountPlan) {
    let judged = volume.run_quietly(|vfs, _| Ok(vfs.store().judge_thresholds(plan.thresholds)));
    if let Ok(Err(unfit)) = judged {
        tell(format_args!("{}; 'firn tune --list' shows what is done", thresholds::refusal(&unfit)));
    }
}

/// A new, empty volume in memory; its root directory belongs to the user who mounts it.
fn memory_volume(plan: &MountPlan, size_bytes: u64) -> Volume<MemStore> {
    let clock = Arc::new(SystemClock);
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let options = MemOptions { root_owner: owner, ..MemOptions::with_capacity(size_bytes) };
    let store = MemStore::new(options, TimeNs(clock.now_ns()));
    Volume::new(Vfs::new(store, plan.mount_options.atime), None, clock)
}
