//! `mount -f`, the fake mount of mount(8): everything but the mount itself. A mistake in fstab(5) shows by it while nothing happens.

use super::options::{MountPlan, Source};
use super::tags;
use crate::failure::{Done, Failure};
use crate::volume::open_any_read_only;
use std::path::Path;

/// Checks what a mount would check. Takes no lock, so the volume may be mounted; writes nothing, and clears no dead mount.
///
/// # Errors
/// The mountpoint is no directory; the volume is not found, or cannot be opened.
pub(super) fn check(plan: &MountPlan) -> Done {
    let place = &plan.mountpoint;
    // It does not set off an automount, as `is_dir` would.
    let found = rustix::fs::stat(place).map_err(|errno| Failure::io("cannot use", place, &errno.into()))?;
    if rustix::fs::FileType::from_raw_mode(found.st_mode) != rustix::fs::FileType::Directory {
        return Err(Failure::usage(format!("{} is not a directory", place.display())));
    }
    match &plan.source {
        // A remount need not name the volume.
        Source::Image(path) if *path != Path::new("") => open_any_read_only(&tags::resolve(path)?).map(drop),
        Source::Image(_) | Source::Memory(_) => Ok(()),
    }
}
