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

/// Checks a volume that is open, after everything was made durable; nobody may change it meanwhile.
///
/// # Errors
/// Making it durable failed.
pub fn check_open(volume: &Volume<Lfs>, device: &dyn Device) -> Result<Report, FsError> {
    volume.sync(firnfs::store::Scope::All)?;
    volume.run(|vfs, _| Ok(firnfs::check::check_open(vfs.store_mut(), &mut reading(device))))
}
