//! Opens the volume that `firn mount` is about to serve.

use super::options::{MountPlan, Source};
use super::serve;
use crate::failure::Done;
use crate::mkfs::open_failed;
use crate::volume;
use firnfs::lfs::{Lfs, Options};
use firnfs::mem::{MemOptions, MemStore};
use firnfs::vfs::Vfs;
use firnfs_device::{Access, Clock, FileDevice, FileOptions, Lock, SystemClock};
use firnfs_format::TimeNs;
use firnfs_volume::Volume;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What `mount` shows for a volume in memory.
const MEMORY_SOURCE: &str = "firnfs-memory";

/// Opens the volume and serves it until it is unmounted.
///
/// # Errors
/// The volume cannot be opened or mounted, or serving it failed.
pub fn open_and_serve(plan: &MountPlan) -> Done {
    match &plan.source {
        Source::Memory(size_bytes) => {
            serve(Arc::new(memory_volume(plan, *size_bytes)), PathBuf::from(MEMORY_SOURCE), plan)
        }
        Source::Image(path) => serve(Arc::new(image_volume(plan, path)?), path.clone(), plan),
    }
}

/// How long a mount waits for the daemon of an unmount just before it to let go of the volume.
const LOCK_WAIT_MS: u64 = 10_000;

/// The volume on an image file or block device.
fn image_volume(plan: &MountPlan, path: &Path) -> Done<Volume<Lfs>> {
    let read_only = plan.mount_options.read_only;
    let (access, lock) = match read_only {
        true => (Access::ReadOnly, Lock::Shared),
        false => (Access::ReadWrite, Lock::Exclusive),
    };
    let file = FileOptions { access, lock, lock_wait_ms: LOCK_WAIT_MS, ..FileOptions::default() };
    let device = FileDevice::open(path, &file).map_err(|e| open_failed(&e))?;
    let options = Options {
        // The kernel caches pages.
        cache_file_data: false,
        cache_bytes: plan.cache_bytes,
        commit_interval_ms: plan.commit_interval_ms,
        read_only,
        ..Options::default()
    };
    volume::open(Arc::new(device), options)
}

/// A new, empty volume in memory; its root belongs to whoever mounts it.
fn memory_volume(plan: &MountPlan, size_bytes: u64) -> Volume<MemStore> {
    let clock = Arc::new(SystemClock);
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let options = MemOptions { root_owner: owner, ..MemOptions::with_capacity(size_bytes) };
    let store = MemStore::new(options, TimeNs(clock.now_ns()));
    Volume::new(Vfs::new(store, plan.mount_options.atime), None, clock)
}
