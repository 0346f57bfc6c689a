//! Making a volume smaller while it is in use: the steps that `firnfs::lfs` offers, one after the other, then the copies of the
//! superblock, and the end of the image (`firnfs::lfs`, modules `upkeep::shrink` and `write::shrinking`, says why in this order).
//!
//! Invariant: whatever ends [`shrink`] before checkpoints state the new size, the volume has its old size again.

use crate::grow::{SizeChange, size_of};
use firnfs::FsError;
use firnfs::lfs::{Lfs, ShrinkPhase, Shrunk};
use firnfs::store::Store;
use firnfs::vfs::Frozen;
use firnfs_volume::Volume;

/// How making a volume smaller ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShrinkEnd {
    /// The volume has its new size.
    Done(SizeChange),
    /// The caller stopped it: the volume has its old size.
    Stopped,
}

/// Stops emptying if the caller does not come to its end.
struct Emptying<'a> {
    volume: &'a Volume<Lfs>,
    is_over: bool,
}

impl Emptying<'_> {
    /// False if it is too late for that.
    fn stop(&mut self) -> bool {
        self.volume.run_quietly(|vfs, _| Ok(vfs.store_mut().stop_shrinking())).unwrap_or(true)
    }
}

impl Drop for Emptying<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.stop();
        }
    }
}

/// See [`LogVolume::shrink`](crate::LogVolume::shrink).
pub(crate) fn shrink(
    volume: &Volume<Lfs>,
    size_bytes: u64,
    go_on: &mut dyn FnMut(Shrunk) -> bool,
) -> Result<ShrinkEnd, FsError> {
    let (was_bytes, was_segments) = size_of(volume)?;
    if size_bytes != was_bytes {
        let begun = volume.run_quietly(|vfs, _| vfs.store_mut().begin_shrinking(size_bytes))?;
        let mut emptying = Emptying { volume, is_over: false };
        let mut so_far = begun;
        while so_far.phase != ShrinkPhase::Left {
            if !go_on(so_far) && emptying.stop() {
                emptying.is_over = true;
                return Ok(ShrinkEnd::Stopped);
            }
            so_far = part(volume)?;
        }
        emptying.is_over = true;
    }
    leave_end(volume)?;
    let (size_bytes, segments) = size_of(volume)?;
    Ok(ShrinkEnd::Done(SizeChange { was_bytes, size_bytes, was_segments, segments }))
}

/// See [`LogVolume::shrink_part`](crate::LogVolume::shrink_part).
pub(crate) fn part(volume: &Volume<Lfs>) -> Result<Shrunk, FsError> {
    let step = |vfs: &mut firnfs::vfs::Vfs<Lfs>, now| match vfs.frozen() {
        Frozen::No => vfs.store_mut().shrink_step(now).map(Some),
        _ => Ok(None),
    };
    let shrunk = loop {
        match volume.run_quietly(step)? {
            Some(shrunk) => break shrunk,
            None => volume.wait_for_thaw(),
        }
    };
    match shrunk.phase {
        ShrinkPhase::Emptying => volume.pump(),
        ShrinkPhase::Stating => {
            volume.until(|vfs| match vfs.store().read_only() {
                Some(why) => Err(FsError::ReadOnly(why.to_owned())),
                None => Ok((!vfs.store().is_checkpointing()).then_some(())),
            })?;
        }
        ShrinkPhase::Waiting => volume.until(|vfs| Ok((!vfs.store().is_end_used()).then_some(())))?,
        ShrinkPhase::Left => {}
    }
    Ok(shrunk)
}

/// See [`LogVolume::leave_end`](crate::LogVolume::leave_end).
pub(crate) fn leave_end(volume: &Volume<Lfs>) -> Result<(), FsError> {
    if volume.device().is_none() {
        return Ok(());
    }
    let direct = volume.write_directly();
    let (size_bytes, _) = size_of(volume)?;
    let copies = volume.run_quietly(|vfs, _| {
        let store = vfs.store();
        Ok(store.has_larger_superblock().then(|| store.superblock_copies_now()))
    })?;
    if let Some(copies) = copies {
        direct.write_in_order(copies)?;
        volume.run_quietly(|vfs, _| {
            vfs.store_mut().superblock_written();
            Ok(())
        })?;
    }
    direct.cut_device(size_bytes)
}
