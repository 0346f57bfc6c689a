//! Growing a volume in use: the device, the copies of the superblock, and the checkpoints that state the new size, in the order
//! that `firnfs::lfs` asks for (its module `write::growth` says why).

use crate::trim::checkpoint_and_wait;
use firnfs::FsError;
use firnfs::lfs::Lfs;
use firnfs::vfs::Frozen;
use firnfs_device::AlignedBuf;
use firnfs_volume::Volume;
use std::sync::Arc;

/// Checkpoints that have to state the new size before the new segments may be written: one in each slot.
const CHECKPOINTS: u32 = 2;

/// What growing did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grown {
    /// Size before, in bytes.
    pub was_bytes: u64,
    /// Size now, in bytes.
    pub size_bytes: u64,
    /// Segments before.
    pub was_segments: u64,
    /// Segments now.
    pub segments: u64,
}

/// See [`LogVolume::grow`](crate::LogVolume::grow).
pub(crate) fn grow(volume: &Volume<Lfs>, size_bytes: u64) -> Result<Grown, FsError> {
    let (was_bytes, was_segments) = volume.run_quietly(|vfs, _| Ok(vfs.store().size()))?;
    begin(volume, size_bytes)?;
    for _ in 0..CHECKPOINTS {
        checkpoint_and_wait(volume)?;
    }
    let (size_bytes, segments) =
        volume.until(|vfs| Ok((!vfs.store().is_growing()).then(|| vfs.store().size())))?;
    Ok(Grown { was_bytes, size_bytes, was_segments, segments })
}

/// See [`LogVolume::begin_growing`](crate::LogVolume::begin_growing).
pub(crate) fn begin(volume: &Volume<Lfs>, size_bytes: u64) -> Result<(), FsError> {
    let failed = |e: firnfs_device::DeviceError| FsError::Io(e.to_string());
    let device = volume.device().ok_or(FsError::Invalid("a volume in memory has the size of its mount"))?;
    let copies = volume.run_quietly(|vfs, _| match vfs.frozen() {
        Frozen::No => Ok(vfs.store().superblock_copies_for(size_bytes)?),
        _ => Err(FsError::Invalid("the volume is frozen; thaw it first").into()),
    })?;
    device.fence().map_err(failed)?;
    device.grow(size_bytes).map_err(failed)?;
    for (at_bytes, bytes) in copies {
        device.write(at_bytes, Arc::new(AlignedBuf::copy_of(&bytes))).map_err(failed)?;
        device.flush().map_err(failed)?;
    }
    volume.run_quietly(|vfs, _| Ok(vfs.store_mut().grow(size_bytes)?))
}
