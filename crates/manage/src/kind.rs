//! Which kind of volume is on a device.

use crate::reading::DeviceReads;
use firnfs::device_reader::{DeviceReader, Extent};
use firnfs::ffs::find_superblock;
use firnfs::lfs::{NotFirnfs, read_superblock};
use firnfs_device::Device;
use firnfs_format::ffs;
use firnfs_format::ffs::superblock::{COPY_AT_BYTES, SUPERBLOCK_BYTES};

/// A kind of volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VolumeKind {
    /// Log-structured; also everything that is not known to be of another kind: its superblock has copies.
    Log,
    /// The Fast File System.
    Ffs,
}

/// The kind of volume on a device: by the place of the Fast File System's first superblock; if that is damaged and no log is there, by
/// the other copies.
pub fn kind_of(device: &dyn Device) -> VolumeKind {
    let mut reads = DeviceReads::new(device);
    let reads: &mut dyn DeviceReader = &mut reads;
    match reads.read(Extent::new(COPY_AT_BYTES, SUPERBLOCK_BYTES as u32)) {
        Ok(bytes) if ffs::Superblock::is_one(&bytes) => return VolumeKind::Ffs,
        _ => {}
    }
    let size_bytes = device.geometry().size_bytes;
    match read_superblock(reads, size_bytes) {
        Err(NotFirnfs::NoSuperblock(_)) if find_superblock(reads, size_bytes).is_ok() => VolumeKind::Ffs,
        _ => VolumeKind::Log,
    }
}
