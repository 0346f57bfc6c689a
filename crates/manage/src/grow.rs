//! What a volume in use writes into its superblock: growing it (the device, the copies of the superblock, and the checkpoints that
//! state the new size, in the order that `firnfs::lfs` asks for; its module `write::growth` says why), and its label.

use crate::trim::checkpoint_and_wait;
use firnfs::FsError;
use firnfs::lfs::Lfs;
use firnfs::vfs::Frozen;
use firnfs_volume::Volume;

/// Checkpoints that have to state the new size before the new segments may be written: one in each slot.
const CHECKPOINTS: u32 = 2;

/// How the size of a volume changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeChange {
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
pub(crate) fn grow(volume: &Volume<Lfs>, size_bytes: u64) -> Result<SizeChange, FsError> {
    let (was_bytes, was_segments) = size_of(volume)?;
    begin(volume, size_bytes)?;
    for _ in 0..CHECKPOINTS {
        checkpoint_and_wait(volume)?;
    }
    let (size_bytes, segments) =
        volume.until(|vfs| Ok((!vfs.store().is_growing()).then(|| vfs.store().size())))?;
    Ok(SizeChange { was_bytes, size_bytes, was_segments, segments })
}

/// See [`LogVolume::begin_growing`](crate::LogVolume::begin_growing).
pub(crate) fn begin(volume: &Volume<Lfs>, size_bytes: u64) -> Result<(), FsError> {
    volume.device().ok_or(FsError::Invalid("a volume in memory has the size of its mount"))?;
    volume.run_quietly(|vfs, _| match vfs.frozen() {
        Frozen::No => Ok(()),
        _ => Err(FsError::NotPermitted("the volume is frozen; thaw it first").into()),
    })?;
    // A copy of the device that begins now would have some of the superblocks.
    let direct = volume.write_directly();
    let copies = volume.run_quietly(|vfs, _| Ok(vfs.store().superblock_copies_for(size_bytes)?))?;
    direct.grow_device(size_bytes)?;
    direct.write_in_order(copies)?;
    volume.run_quietly(|vfs, _| Ok(vfs.store_mut().grow(size_bytes)?))
}

/// See [`LogVolume::relabel`](crate::LogVolume::relabel).
pub(crate) fn relabel(volume: &Volume<Lfs>, label: &str) -> Result<(), FsError> {
    volume.device().ok_or(FsError::Invalid("a volume in memory has no label"))?;
    let direct = volume.write_directly();
    let copies = volume.run_quietly(|vfs, _| Ok(vfs.store().superblock_copies_labelled(label)?))?;
    direct.write_in_order(copies)?;
    volume.run_quietly(|vfs, _| {
        vfs.store_mut().label_written(label.to_owned());
        Ok(())
    })
}

/// Size in bytes, and segments.
pub(crate) fn size_of(volume: &Volume<Lfs>) -> Result<(u64, u64), FsError> {
    volume.run_quietly(|vfs, _| Ok(vfs.store().size()))
}
