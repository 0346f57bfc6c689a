//! Making and opening volumes on a device.

use crate::reading::DeviceReads;
use firnfs::FsError;
use firnfs::lfs::{Lfs, MkfsOptions, NotFirnfs, Options, mkfs_with_logs, read_superblock};
use firnfs::store::Store;
use firnfs::vfs::{AtimeMode, Vfs};
use firnfs_device::{AlignedBuf, Clock, Device};
use firnfs_format::superblock::Superblock;
use firnfs_format::{Epoch, TimeNs};
use firnfs_volume::Volume;
use std::sync::Arc;

/// Why a volume could not be opened.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// The device holds no firnfs volume.
    #[error(transparent)]
    NotFirnfs(#[from] NotFirnfs),
    /// The volume is damaged, or the device failed.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// Writes an empty volume to a device. The previous content of the device is lost.
///
/// # Errors
/// `Invalid` options, `Io`.
pub fn format(device: &dyn Device, options: &MkfsOptions) -> Result<(), FsError> {
    format_with_logs(device, options, None)
}

/// As [`format()`], but with the given number of data logs, 2 to 5, instead of the number that suits the volume's
/// size.
///
/// # Errors
/// As [`format()`].
pub fn format_with_logs(
    device: &dyn Device,
    options: &MkfsOptions,
    data_logs: Option<u8>,
) -> Result<(), FsError> {
    let failed = |e: firnfs_device::DeviceError| FsError::Io(e.to_string());
    let writes = mkfs_with_logs(options, data_logs)?;
    let (last, others) = writes.split_last().ok_or(FsError::Invalid("nothing to write"))?;
    // The old superblocks are erased first, all copies: an interrupted mkfs leaves neither the old volume nor a new
    // one.
    for at_bytes in Superblock::places(options.size_bytes) {
        device.write(at_bytes, Arc::new(AlignedBuf::zeroed(last.1.len()))).map_err(failed)?;
    }
    device.flush().map_err(failed)?;
    for (at_bytes, bytes) in others {
        device.write(*at_bytes, Arc::new(AlignedBuf::copy_of(bytes))).map_err(failed)?;
    }
    device.flush().map_err(failed)?;
    device.write(last.0, Arc::new(AlignedBuf::copy_of(&last.1))).map_err(failed)?;
    device.flush().map_err(failed)
}

/// Opens the volume on a device, rolls forward, and frees the orphans that a crash left.
///
/// # Errors
/// See [`OpenError`].
pub fn open(
    device: Arc<dyn Device>,
    options: Options,
    atime_mode: AtimeMode,
    clock: Arc<dyn Clock>,
) -> Result<Volume<Lfs>, OpenError> {
    let mut read = DeviceReads::new(&*device);
    let sb = read_superblock(&mut read, device.geometry().size_bytes)?;
    let lfs = Lfs::open(&mut read, sb, options, TimeNs(clock.now_ns()))?;
    let volume = Volume::new(Vfs::new(lfs, atime_mode), Some(device), clock);
    let may_write = volume.run(|vfs, _| Ok(vfs.store().read_only().is_none()))?;
    if may_write {
        volume.run(|vfs, now| vfs.release_orphans(now))?;
        volume.start_quotas()?;
        if volume.run(|vfs, _| Ok(vfs.store().needs_checkpoint_at_mount()))? {
            volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now))?;
            volume.background()?;
        }
    }
    Ok(volume)
}

/// Opens the volume on a device as it was at a retained point, to be read.
///
/// # Errors
/// See [`OpenError`]; `NotFound` if there is no such point.
pub fn open_point(
    device: Arc<dyn Device>,
    options: Options,
    clock: Arc<dyn Clock>,
    epoch: Epoch,
) -> Result<Volume<Lfs>, OpenError> {
    let mut read = DeviceReads::new(&*device);
    let sb = read_superblock(&mut read, device.geometry().size_bytes)?;
    let options = Options { read_only: true, ..options };
    let mut lfs = Lfs::open(&mut read, sb, options, TimeNs(clock.now_ns()))?;
    lfs.show(&mut read, epoch)?;
    Ok(Volume::new(Vfs::new(lfs, AtimeMode::Noatime), Some(device), clock))
}
