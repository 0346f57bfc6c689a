//! Trim: returns all clean segments to the device, on request. `firnfs::lfs` says which segments are clean.

use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::lfs::{Lfs, Trimmed};
use firnfs::store::Store;
use firnfs_volume::Volume;

/// Checkpoints after which a segment that is empty now may be discarded: the first finds it empty, the next replaces the last
/// checkpoint that needs it.
const CHECKPOINTS_TO_FREE: u32 = 2;

/// Discards the clean segments in one part of the volume and waits for the device; `from` is 0 in the first call, then the
/// `next` of the previous call. The first call also frees empty segments.
///
/// # Errors
/// `Io` also if the device does not discard; `ReadOnly`, `Corrupt`, `NoSpace` as a checkpoint.
pub(crate) fn trim(volume: &Volume<Lfs>, from: u64) -> Result<Trimmed, FsError> {
    if from == 0 {
        free_emptied(volume)?;
        volume.run_quietly(|vfs, _| Ok(vfs.store_mut().take_refused_discard()))?;
    }
    let trimmed = volume.run_quietly(|vfs, _| vfs.store_mut().trim(from))?;
    volume.pump();
    volume.until(|vfs| Ok((vfs.store().broken().is_some() || !vfs.store().is_discarding()).then_some(())))?;
    let refused = volume.run_quietly(|vfs, _| Ok(vfs.store_mut().take_refused_discard()))?;
    refused.map_or(Ok(trimmed), |why| Err(FsError::Io(why)))
}

/// Drops deleted files, and makes checkpoints until their segments are clean.
fn free_emptied(volume: &Volume<Lfs>) -> Result<(), FsError> {
    volume.background()?;
    for _ in 0..CHECKPOINTS_TO_FREE {
        checkpoint_and_wait(volume)?;
    }
    Ok(())
}

/// Writes a checkpoint and waits until it is durable.
pub(crate) fn checkpoint_and_wait(volume: &Volume<Lfs>) -> Result<(), FsError> {
    volume.run_quietly(|vfs, now| vfs.store_mut().checkpoint_now(now))?;
    volume.until(|vfs| match vfs.store().read_only() {
        Some(why) => Err(FsError::ReadOnly(why.to_owned())),
        None => Ok((!vfs.store().is_checkpointing()).then_some(())),
    })
}
