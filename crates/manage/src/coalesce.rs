//! Coalescing on request, for callers that may block: the guarantees are those of `firnfs::lfs`.

use firnfs::FsError;
use firnfs::lfs::{Coalesced, Lfs};
use firnfs_format::InodeNo;
use firnfs_volume::Volume;

/// Puts one window of a file, or of the small files of a directory, into order: `Lfs::coalesce`. `from` is 0 in the first
/// call, then the `next` of the previous call. The result is durable with the next commit; after an earlier crash the old
/// copies are still in place.
///
/// # Errors
/// `NotFound`, `Invalid` for anything but a file or directory, `Io`, `Corrupt`, `ReadOnly`; `NoSpace` if the volume has no
/// way to make room.
pub(crate) fn coalesce(volume: &Volume<Lfs>, ino: InodeNo, from: u64) -> Result<Coalesced, FsError> {
    let done = volume.run_quietly(|vfs, now| vfs.store_mut().coalesce(now, ino, from))?;
    volume.pump();
    Ok(done)
}
