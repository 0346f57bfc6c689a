//! The cleaner's port for callers that may block: the guarantees are those of `firnfs::lfs::port`.
//!
//! The port reads segments without the lock and without a pin: what it has read may be out of date, so every use checks
//! it.

use firnfs::FsError;
use firnfs::lfs::Lfs;
use firnfs::lfs::port::{BlockInfo, Emptiness, Marked, Room};
use firnfs::lfs::scan::partials;
use firnfs_format::SegmentId;
use firnfs_format::summary::Entry;
use firnfs_volume::Volume;
use std::collections::BTreeMap;
use std::time::Duration;

/// At most this many bytes of segments are read for one move request.
const SEGMENT_BYTES_MAX: u64 = 16 << 20;

/// Lists the entries in the summaries of a segment, in log order, live or not.
///
/// # Errors
/// `Io`; `Invalid` if there is no such segment.
pub(crate) fn segment_entries(volume: &Volume<Lfs>, segment: SegmentId) -> Result<Vec<Entry>, FsError> {
    let (geo, uuid) =
        volume.run_quietly(|vfs, _| Ok((vfs.store().geometry(), vfs.store().superblock().uuid)))?;
    let bytes = segment_bytes(volume, segment)?;
    Ok(partials(&bytes, &uuid, &geo, segment).into_iter().flat_map(|p| p.entries).collect())
}

fn segment_bytes(volume: &Volume<Lfs>, segment: SegmentId) -> Result<Vec<u8>, FsError> {
    let geo = volume.run_quietly(|vfs, _| Ok(vfs.store().geometry()))?;
    if segment.0 >= geo.segments {
        return Err(FsError::Invalid("there is no such segment"));
    }
    volume.read_raw(geo.device_bytes(geo.addr(segment, 0)), u64::from(geo.segment_bytes))
}

/// Moves blocks to the heads of their logs: `Lfs::markv`, for which this reads the segments that hold them. One call at a
/// time.
///
/// # Errors
/// `Io`, `ReadOnly`; `Invalid` for blocks of more than 16 segments or 16 MiB of them (2 segments are always possible);
/// `NoSpace` if the volume has no way to make room.
pub(crate) fn markv(volume: &Volume<Lfs>, blocks: &[BlockInfo]) -> Result<Marked, FsError> {
    let geo = volume.run_quietly(|vfs, _| Ok(vfs.store().geometry()))?;
    let mut segments = BTreeMap::new();
    for block in blocks {
        let segment = geo.segment_of(block.addr);
        // A block outside all segments is answered without reading one.
        if segment.0 >= geo.segments || segments.contains_key(&segment) {
            continue;
        }
        let held_bytes = segments.len() as u64 * u64::from(geo.segment_bytes);
        if segments.len() >= 2 && held_bytes >= SEGMENT_BYTES_MAX {
            return Err(FsError::Invalid("more segments than one request moves"));
        }
        segments.insert(segment, segment_bytes(volume, segment)?);
    }
    let marked = volume.run_quietly(|vfs, now| vfs.store_mut().markv(now, blocks, &segments))?;
    volume.pump();
    Ok(marked)
}

/// Tells whether segments are empty; a checkpoint finds out: `Lfs::segclean`.
///
/// # Errors
/// `Io`, `ReadOnly`, `Corrupt`.
pub(crate) fn segclean(volume: &Volume<Lfs>, segments: &[SegmentId]) -> Result<Vec<Emptiness>, FsError> {
    let found = volume.run_quietly(|vfs, now| vfs.store_mut().segclean(now, segments))?;
    volume.pump();
    Ok(found)
}

/// Waits until `log_bytes` of the log have been written, counted since mkfs, or until `timeout` has passed. Returns how
/// much room there is.
///
/// # Errors
/// None of its own.
pub(crate) fn wait_for_log(volume: &Volume<Lfs>, log_bytes: u64, timeout: Duration) -> Result<Room, FsError> {
    let room = volume.look_again(timeout, |vfs| {
        let room = vfs.store().room();
        (room.log_bytes >= log_bytes).then_some(room)
    });
    room.map_or_else(|| volume.run_quietly(|vfs, _| Ok(vfs.store().room())), Ok)
}
