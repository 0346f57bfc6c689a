//! Drives the file system check: gives it the device to read.

use crate::open::reading;
use crate::volume::Volume;
use firnfs::FsError;
use firnfs::check::{CheckError, From, Progress, Report};
use firnfs::lfs::Lfs;
use firnfs_device::Device;

/// Checks the volume on a device that nobody writes to; nothing is written. `watch` is told how far it has come.
///
/// # Errors
/// There is nothing to check: no volume, one cut short, no checkpoint that can be used, or the device failed.
pub fn check(device: &dyn Device, from: From, watch: &mut dyn FnMut(Progress)) -> Result<Report, CheckError> {
    firnfs::check::check(&mut reading(device), device.geometry().size_bytes, from, watch)
}

impl Volume<Lfs> {
    /// Checks the volume while it is open: makes everything durable, then checks it as it is. Operations wait meanwhile; it begins at a
    /// moment when none has left anything to write.
    ///
    /// # Errors
    /// Making it durable failed.
    pub fn check(&self) -> Result<Report, FsError> {
        self.look_when_quiet(|vfs, device| match device {
            Some(device) => Ok(firnfs::check::check_open(vfs.store_mut(), &mut reading(device))),
            None => Err(FsError::Unsupported("a check without a device")),
        })?
    }
}
