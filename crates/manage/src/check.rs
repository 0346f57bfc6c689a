//! Drives the file system check: gives it the device to read.

use crate::reading::DeviceReads;
use firnfs::FsError;
use firnfs::check::{CheckError, Depth, From, Progress, Report};
use firnfs::lfs::Lfs;
use firnfs_device::Device;
use firnfs_volume::Volume;

/// Checks the volume on a device that no process writes to; writes nothing itself. Reports its progress to `watch`.
///
/// # Errors
/// If there is nothing to check: the device holds no volume, a truncated one or no usable checkpoint, or it failed.
pub fn check(device: &dyn Device, from: From, watch: &mut dyn FnMut(Progress)) -> Result<Report, CheckError> {
    let size_bytes = device.geometry().size_bytes;
    firnfs::check::check(&mut DeviceReads::new(device), size_bytes, (from, Depth::Everything), watch)
}

/// As [`check`], and also checks each retained point as a volume of its own.
///
/// # Errors
/// As [`check`].
pub fn check_all_points(device: &dyn Device, watch: &mut dyn FnMut(Progress)) -> Result<Report, CheckError> {
    let (size_bytes, wanted) = (device.geometry().size_bytes, (From::Newest, Depth::AllPoints));
    firnfs::check::check(&mut DeviceReads::new(device), size_bytes, wanted, watch)
}

/// Checks the volume while it is open: makes everything durable, then checks it as it is. Operations wait meanwhile; the check
/// begins once no change is left to be written.
///
/// # Errors
/// If making everything durable failed.
pub(crate) fn check_open(volume: &Volume<Lfs>) -> Result<Report, FsError> {
    volume.look_when_drained(|vfs, device| match device {
        Some(device) => Ok(firnfs::check::check_open(vfs.store_mut(), &mut DeviceReads::new(device))),
        None => Err(FsError::Unsupported("a check without a device")),
    })?
}
