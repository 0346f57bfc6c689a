//! Which states of a volume in use are kept, durably.

use crate::trim::checkpoint_and_wait;
use firnfs::FsError;
use firnfs::lfs::Lfs;
use firnfs_format::Epoch;
use firnfs_format::checkpoint::Retention;
use firnfs_volume::Volume;

/// Sets which automatic points are made and kept, and waits until that is durable. Points that are kept no longer go in the background.
///
/// # Errors
/// `Invalid` for a share above 100 % or too many rules; `ReadOnly`, `Io`, `NoSpace` as a checkpoint.
pub fn set_retention(volume: &Volume<Lfs>, retention: &Retention) -> Result<(), FsError> {
    volume.run(|vfs, now| vfs.store_mut().set_retention(now, retention.clone()))?;
    volume.wake();
    checkpoint_and_wait(volume)
}

/// Gives an automatic point a name, under which it is kept until somebody drops it, and waits until that is durable.
///
/// # Errors
/// `Invalid` for a name that is not one word of at most 80 bytes; `Exists`; `NotFound`; `ReadOnly`, `Io`, `NoSpace` as a checkpoint.
pub fn name_point(volume: &Volume<Lfs>, epoch: Epoch, name: &str) -> Result<(), FsError> {
    volume.run(|vfs, now| vfs.store_mut().name_point(now, epoch, name))?;
    checkpoint_and_wait(volume)
}
