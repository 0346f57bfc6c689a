//! Opens the volume that `firn mount` is about to serve.

use super::options::{MountPlan, Source};
use super::serve;
use crate::failure::{Done, Failure};
use firnfs::mem::{MemOptions, MemStore};
use firnfs::vfs::Vfs;
use firnfs_device::{Clock, SystemClock};
use firnfs_format::TimeNs;
use firnfs_volume::Volume;
use std::path::PathBuf;
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
        Source::Image(path) => {
            Err(Failure::failed(format!("{}: images cannot be mounted by this build", path.display())))
        }
    }
}

/// A new, empty volume in memory; its root belongs to whoever mounts it.
fn memory_volume(plan: &MountPlan, size_bytes: u64) -> Volume<MemStore> {
    let clock = Arc::new(SystemClock);
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let options = MemOptions { root_owner: owner, ..MemOptions::with_capacity(size_bytes) };
    let store = MemStore::new(options, TimeNs(clock.now_ns()));
    Volume::new(Vfs::new(store, plan.mount_options.atime), None, clock)
}
