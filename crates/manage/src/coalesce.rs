//! Coalescing for somebody who asks for it, for callers that may block: see `firnfs::lfs` for what it promises.

use firnfs::FsError;
use firnfs::lfs::{Coalesced, Lfs};
use firnfs_format::InodeNo;
use firnfs_volume::Volume;

/// Puts one window of a file, or of the small files of a directory, in order: `Lfs::coalesce`. `from`: 0, then what the call
/// before returned as `next`. What comes out is durable with the next commit; a crash before leaves what was there.
///
/// # Errors
/// `NotFound`, `Invalid` for what is neither file nor directory, `Io`, `Corrupt`, `ReadOnly`; `NoSpace` if the volume has no
/// way to make room.
pub(crate) fn coalesce(volume: &Volume<Lfs>, ino: InodeNo, from: u64) -> Result<Coalesced, FsError> {
    let done = volume.run_quietly(|vfs, now| vfs.store_mut().coalesce(now, ino, from))?;
    volume.pump();
    Ok(done)
}
