//! Retained points of a volume in use: making one and waiting until it is durable, dropping one, what they hold and how they differ.

use crate::trim::checkpoint_and_wait;
use firnfs::FsError;
use firnfs::lfs::{Differing, Lfs};
use firnfs::store::Store;
use firnfs_format::checkpoint::Point;
use firnfs_format::{Epoch, InodeNo};
use firnfs_volume::Volume;

/// See [`LogVolume::make_point`](crate::LogVolume::make_point).
pub(crate) fn make_point(volume: &Volume<Lfs>, name: &str) -> Result<Point, FsError> {
    let epoch = volume.run(|vfs, now| vfs.store_mut().make_point(now, name))?;
    volume.until(|vfs| match vfs.store().read_only() {
        Some(why) => Err(FsError::ReadOnly(why.to_owned())),
        None => Ok((vfs.store().durable_epoch() > epoch).then_some(())),
    })?;
    // Another caller may have dropped it meanwhile.
    points(volume)?.into_iter().find(|point| point.epoch == epoch).ok_or(FsError::NotFound)
}

/// See [`LogVolume::points`](crate::LogVolume::points).
pub(crate) fn points(volume: &Volume<Lfs>) -> Result<Vec<Point>, FsError> {
    let is_whole = |point: &&Point| point.dropped_to.is_none();
    volume.run_quietly(|vfs, _| Ok(vfs.store_mut().points()?.iter().filter(is_whole).cloned().collect()))
}

/// See [`LogVolume::drop_point`](crate::LogVolume::drop_point).
pub(crate) fn drop_point(volume: &Volume<Lfs>, epoch: Epoch) -> Result<(), FsError> {
    volume.run_quietly(|vfs, now| vfs.store_mut().drop_point(now, epoch))?;
    volume.wake();
    checkpoint_and_wait(volume)
}

/// Makes a clone of a retained point, and waits until it is durable.
///
/// # Errors
/// As [`Lfs::make_clone`]; `Io`.
pub fn make_clone(volume: &Volume<Lfs>, origin: Epoch, name: &str) -> Result<(), FsError> {
    let epoch = volume.run(|vfs, now| vfs.store_mut().make_clone(now, origin, name))?;
    volume.until(|vfs| match vfs.store().read_only() {
        Some(why) => Err(FsError::ReadOnly(why.to_owned())),
        None => Ok((vfs.store().durable_epoch() > epoch).then_some(())),
    })
}

/// Begins to delete a clone, and waits until that is durable.
///
/// # Errors
/// As [`Lfs::drop_clone`]; `Io`.
pub fn drop_clone(volume: &Volume<Lfs>, name: &str) -> Result<(), FsError> {
    volume.run_quietly(|vfs, now| vfs.store_mut().drop_clone(now, name))?;
    checkpoint_and_wait(volume)?;
    volume.wake();
    Ok(())
}

/// See [`LogVolume::held_by_point`](crate::LogVolume::held_by_point).
pub(crate) fn held_by_point(volume: &Volume<Lfs>, epoch: Epoch) -> Result<u64, FsError> {
    let mut holdings = volume.run_quietly(|vfs, _| vfs.store_mut().count_held_by(epoch))?;
    loop {
        if let Some(bytes) = volume.run_quietly(|vfs, _| vfs.store_mut().count_on(&mut holdings))? {
            return Ok(bytes);
        }
    }
}

/// See [`LogVolume::differing_inodes`](crate::LogVolume::differing_inodes).
pub(crate) fn differing_inodes(
    volume: &Volume<Lfs>,
    first: Epoch,
    second: Option<Epoch>,
) -> Result<Vec<Differing>, FsError> {
    let (mut found, mut from) = (Vec::new(), Some(InodeNo::ROOT));
    while let Some(start) = from {
        let mut part = Vec::new();
        from = volume.run_quietly(|vfs, _| {
            part.clear();
            vfs.store_mut().differing_inodes(Some(first), second, start, &mut part)
        })?;
        found.append(&mut part);
    }
    Ok(found)
}
