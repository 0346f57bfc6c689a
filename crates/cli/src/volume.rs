//! Opens volumes on images and devices for commands that work on them without mounting.

use crate::failure::{Done, Exit, Failure};
use crate::mkfs::open_failed;
use firnfs::ffs::{self, Ffs};
use firnfs::lfs::{Lfs, NotFirnfs, Options};
use firnfs::vfs::AtimeMode;
use firnfs_device::{Access, Clock, Device, FileDevice, FileOptions, Lock, SystemClock};
use firnfs_manage::{OpenError, OpenFfsError, VolumeKind, kind_of, open_ffs};
use firnfs_volume::Volume;
use std::path::Path;
use std::sync::Arc;

/// A volume of either kind.
pub enum AnyVolume {
    /// Log-structured.
    Log(Box<Volume<Lfs>>),
    /// The Fast File System.
    Ffs(Box<Volume<Ffs>>),
}

/// Opens a volume for reading: takes no lock, writes nothing. A log is recovered from a crash in memory only; a Fast File System that was
/// not unmounted is shown as it is.
///
/// # Errors
/// It cannot be opened, is no volume, or is damaged.
pub fn open_any_read_only(path: &Path) -> Done<AnyVolume> {
    let file = FileOptions { access: Access::ReadOnly, lock: Lock::None, ..FileOptions::default() };
    let device: Arc<dyn Device> = Arc::new(FileDevice::open(path, &file).map_err(|e| open_failed(&e))?);
    match kind_of(&*device) {
        VolumeKind::Log => {
            let options = Options { read_only: true, ..Options::default() };
            open(device, options, AtimeMode::Noatime).map(|volume| AnyVolume::Log(Box::new(volume)))
        }
        VolumeKind::Ffs => {
            let options = ffs::Options { read_only: true, ..ffs::Options::default() };
            open_fast(device, options, AtimeMode::Noatime).map(|volume| AnyVolume::Ffs(Box::new(volume)))
        }
    }
}

/// Opens a volume of either kind for writing; its times are those of the clock.
///
/// # Errors
/// It cannot be opened, is in use, is no volume, or is damaged.
pub fn open_any_at(path: &Path, clock: Arc<dyn Clock>) -> Done<AnyVolume> {
    let device = FileDevice::open(path, &FileOptions::default()).map_err(|e| open_failed(&e))?;
    let device: Arc<dyn Device> = Arc::new(device);
    let (name, atime) = (device.describe(), AtimeMode::Noatime);
    match kind_of(&*device) {
        VolumeKind::Log => firnfs_manage::open(device, Options::default(), atime, clock)
            .map(|volume| AnyVolume::Log(Box::new(volume)))
            .map_err(|e| not_opened(&name, &e)),
        VolumeKind::Ffs => open_fast_at(device, ffs::Options::default(), atime, clock)
            .map(|volume| AnyVolume::Ffs(Box::new(volume))),
    }
}

/// As [`open_any_read_only`], of a log.
///
/// # Errors
/// The same; it is a Fast File System.
pub fn open_read_only(path: &Path) -> Done<Volume<Lfs>> {
    match open_any_read_only(path)? {
        AnyVolume::Log(volume) => Ok(*volume),
        AnyVolume::Ffs(_) => Err(has_no_log(path)),
    }
}

/// Refuses to look for a log in a Fast File System.
#[must_use]
pub fn has_no_log(path: &Path) -> Failure {
    Failure::usage(format!("{} is a Fast File System: it has no log", path.display()))
        .advise("see its groups with `firn stat` and `firn dump`, its files with a mount")
}

/// Opens the volume on a device.
///
/// # Errors
/// It is no volume, or is damaged.
pub fn open(device: Arc<dyn Device>, options: Options, atime: AtimeMode) -> Done<Volume<Lfs>> {
    let name = device.describe();
    firnfs_manage::open(device, options, atime, Arc::new(SystemClock)).map_err(|e| not_opened(&name, &e))
}

/// Opens the Fast File System on a device; one that was not unmounted is checked first.
///
/// # Errors
/// It is no such volume, or is damaged.
pub fn open_fast(device: Arc<dyn Device>, options: ffs::Options, atime: AtimeMode) -> Done<Volume<Ffs>> {
    open_fast_at(device, options, atime, Arc::new(SystemClock))
}

fn open_fast_at(
    device: Arc<dyn Device>,
    options: ffs::Options,
    atime: AtimeMode,
    clock: Arc<dyn Clock>,
) -> Done<Volume<Ffs>> {
    let name = device.describe();
    open_ffs(device, options, atime, clock).map_err(|e| match e {
        OpenFfsError::NotFfs(why) => Failure::new(Exit::NotAVolume, format!("{name}: {why}"))
            .advise("check the path, or the volume with `firn fsck`"),
        OpenFfsError::Fs(why) => {
            Failure::fs(format_args!("cannot open {name}"), &why).advise("check it with `firn fsck`")
        }
    })
}

fn not_opened(name: &str, error: &OpenError) -> Failure {
    let not_a_volume =
        |advice: &str| Failure::new(Exit::NotAVolume, format!("{name}: {error}")).advise(advice);
    match error {
        OpenError::NotFirnfs(NotFirnfs::NoSuperblock(_)) => {
            not_a_volume("make one with `firn mkfs`, or check the path")
        }
        OpenError::NotFirnfs(NotFirnfs::Version(_)) => not_a_volume("use a firn that knows this version"),
        OpenError::NotFirnfs(NotFirnfs::Truncated { .. }) => {
            not_a_volume("copy it again from an intact source")
        }
        OpenError::NotFirnfs(NotFirnfs::Io(e)) | OpenError::Fs(e) => {
            Failure::fs(format_args!("cannot open {name}"), e)
        }
    }
}
