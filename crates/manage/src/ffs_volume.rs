//! Making and opening volumes of the Fast File System on a device.

use crate::ffs_check::recover;
use crate::reading::DeviceReads;
use firnfs::FsError;
use firnfs::check::ffs::FfsCheckError;
use firnfs::ffs::{Ffs, MkfsOptions, NotFfs, Options, mkfs_around, read_superblock};
use firnfs::vfs::{AtimeMode, Vfs};
use firnfs_device::{AlignedBuf, Clock, Device};
use firnfs_format::TimeNs;
use firnfs_format::ffs::State;
use firnfs_format::ffs::superblock::COPY_AT_BYTES;
use firnfs_format::superblock::Superblock as LogSuperblock;
use firnfs_volume::Volume;
use std::sync::Arc;

/// Why a volume could not be opened.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenFfsError {
    /// The device holds no Fast File System.
    #[error(transparent)]
    NotFfs(#[from] NotFfs),
    /// The volume is damaged or was not unmounted, or the device failed.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// Bytes that are erased where a log keeps its superblocks.
const ERASED_BYTES: usize = 4096;

/// Writes an empty volume to a device. The previous content of the device is lost.
///
/// # Errors
/// `Invalid` options, `Io`.
pub fn format_ffs(device: &dyn Device, options: &MkfsOptions) -> Result<(), FsError> {
    format_ffs_around(device, options, &|_| false)
}

/// The same with some fragments taken that no file has: see [`firnfs::ffs::mkfs_around`].
///
/// # Errors
/// As [`format_ffs`].
pub fn format_ffs_around(
    device: &dyn Device,
    options: &MkfsOptions,
    is_taken: &dyn Fn(u64) -> bool,
) -> Result<(), FsError> {
    let failed = |e: firnfs_device::DeviceError| FsError::Io(e.to_string());
    let put = |at_bytes: u64, bytes: &[u8]| {
        device.write(at_bytes, Arc::new(AlignedBuf::copy_of(bytes))).map_err(failed)
    };
    let mut is_erased = false;
    let (at_bytes, bytes) = mkfs_around(options, is_taken, &mut |at_bytes, bytes| {
        // Only once the options have proved to be valid. The old superblocks are erased first, so that an interrupted mkfs
        // leaves neither the old volume nor a new one.
        if !is_erased {
            is_erased = true;
            let is_inside = |place: &u64| place + ERASED_BYTES as u64 <= options.size_bytes;
            let places = LogSuperblock::places(options.size_bytes).into_iter().filter(is_inside);
            for place in places.chain([COPY_AT_BYTES]) {
                put(place, &[0; ERASED_BYTES])?;
            }
            device.flush().map_err(failed)?;
        }
        put(at_bytes, bytes)
    })?;
    device.flush().map_err(failed)?;
    put(at_bytes, &bytes)?;
    device.flush().map_err(failed)
}

/// Opens the volume on a device. One that was not unmounted is checked first, and repaired if a crash explains everything.
///
/// # Errors
/// See [`OpenFfsError`]; `ReadOnly` if the volume is damaged and is to be written.
pub fn open_ffs(
    device: Arc<dyn Device>,
    options: Options,
    atime_mode: AtimeMode,
    clock: Arc<dyn Clock>,
) -> Result<Volume<Ffs>, OpenFfsError> {
    let size_bytes = device.geometry().size_bytes;
    let mut sb = read_superblock(&mut DeviceReads::new(&*device), size_bytes)?;
    if sb.state != State::Clean && !options.read_only {
        recover(&device, &clock).map_err(|why| match why {
            FfsCheckError::NotFfs(why) => OpenFfsError::NotFfs(why),
            FfsCheckError::Fs(why) => OpenFfsError::Fs(why),
        })?;
        sb = read_superblock(&mut DeviceReads::new(&*device), size_bytes)?;
    }
    let mut read = DeviceReads::new(&*device);
    let ffs = Ffs::open(&mut read, sb, options, TimeNs(clock.now_ns()))?;
    let volume = Volume::new(Vfs::new(ffs, atime_mode), Some(device), clock);
    volume.start_quotas()?;
    Ok(volume)
}
