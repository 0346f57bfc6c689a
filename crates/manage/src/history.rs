//! Retained points of a volume in use: making one and waiting until it is durable, dropping one.

use crate::trim::checkpoint_and_wait;
use firnfs::lfs::Lfs;
use firnfs::store::Store;
use firnfs::{FsError, Stop};
use firnfs_format::Epoch;
use firnfs_format::checkpoint::Point;
use firnfs_volume::Volume;
use std::time::Duration;

/// Time between two looks at a point that is being dropped.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// See [`LogVolume::make_point`](crate::LogVolume::make_point).
pub(crate) fn make_point(volume: &Volume<Lfs>, name: &str) -> Result<Point, FsError> {
    let epoch = volume.run(|vfs, now| vfs.store_mut().make_point(now, name))?;
    volume.until(|vfs| match vfs.store().read_only() {
        Some(why) => Err(FsError::ReadOnly(why.to_owned())),
        None => Ok((vfs.store().durable_epoch() >= epoch).then_some(())),
    })?;
    // Whoever has dropped it meanwhile knew its name.
    points(volume)?.into_iter().find(|point| point.epoch == epoch).ok_or(FsError::NotFound)
}

/// See [`LogVolume::points`](crate::LogVolume::points).
pub(crate) fn points(volume: &Volume<Lfs>) -> Result<Vec<Point>, FsError> {
    let is_whole = |point: &&Point| point.dropped_to.is_none();
    volume.run_quietly(|vfs, _| Ok(vfs.store().points().iter().filter(is_whole).cloned().collect()))
}

/// See [`LogVolume::drop_point`](crate::LogVolume::drop_point).
pub(crate) fn drop_point(volume: &Volume<Lfs>, epoch: Epoch) -> Result<(), FsError> {
    // The walk through one point has to end before the next one begins.
    while !begin_drop(volume, epoch)? {
        volume.background()?;
        std::thread::sleep(LOOK_EVERY);
    }
    volume.wake();
    checkpoint_and_wait(volume)
}

/// False while another point is being dropped.
fn begin_drop(volume: &Volume<Lfs>, epoch: Epoch) -> Result<bool, FsError> {
    volume.run_quietly(|vfs, now| match vfs.store_mut().drop_point(now, epoch) {
        Err(Stop::Room) => Ok(false),
        other => other.map(|()| true),
    })
}
