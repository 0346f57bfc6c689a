//! Drives salvage: writes the volume that `firnfs::check::salvage` reconstructs to another device, and repairs it
//! there.

use crate::reading::DeviceReads;
use crate::repair::{Repaired, repair};
use firnfs::FsError;
use firnfs::check::repair::Fixer;
use firnfs::check::salvage::{Assumed, Salvaged, salvage};
use firnfs::check::{CheckError, Finding, Progress};
use firnfs::device_reader::{DeviceReader, Extent};
use firnfs::lfs::{Geometry, Options};
use firnfs::vfs::{AtimeMode, Vfs};
use firnfs_device::{AlignedBuf, Clock, Device, DeviceError, Request, Tag};
use firnfs_format::TimeNs;
use firnfs_volume::Volume;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Writes under way while live data is copied: as many as a segment writer with double buffering has.
const WRITES: usize = 3;

/// Reconstructs a volume from the log on a device; writes nothing.
///
/// # Errors
/// If there is no log; `Io`.
pub fn put_together(
    source: &dyn Device,
    assumed: &Assumed,
    watch: &mut dyn FnMut(Progress),
) -> Result<Salvaged, FsError> {
    salvage(&mut DeviceReads::new(source), source.geometry().size_bytes, assumed, watch)
}

/// Writes a salvaged volume to a device of the same size, and repairs there the findings to which `decide` agrees ([`repair`]). The
/// target device holds no valid volume until the end.
///
/// # Errors
/// If live data cannot be read, or if a write fails.
pub fn write_salvaged(
    source: &dyn Device,
    mut salvaged: Salvaged,
    out: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    decide: &mut dyn FnMut(&Finding) -> bool,
    watch: &mut dyn FnMut(Progress),
) -> Result<Repaired, CheckError> {
    copy_segments(source, &salvaged, &**out)?;
    let (options, now) = (Options::default(), TimeNs(clock.now_ns()));
    let lfs = salvaged.open(&mut DeviceReads::new(&**out), options, now)?;
    let volume = Volume::new(Vfs::new(lfs, AtimeMode::Noatime), Some(out.clone()), clock.clone());
    let mut facts = salvaged.facts();
    if volume.run(|vfs, _| Ok(Fixer::restate(vfs, &mut facts)))? {
        volume.run(|vfs, _| Fixer::move_logs(vfs))?;
    }
    volume.finish()?;
    drop(volume);
    for (at_bytes, bytes) in salvaged.superblock_writes() {
        out.write(at_bytes, Arc::new(AlignedBuf::copy_of(&bytes))).map_err(failed)?;
        out.flush().map_err(failed)?;
    }
    repair(out, clock, decide, watch)
}

fn failed(error: DeviceError) -> FsError {
    FsError::Io(error.to_string())
}

/// Copies the live data. Unreadable bytes stay zeros: their checksums no longer match, so the repair handles them.
fn copy_segments(source: &dyn Device, salvaged: &Salvaged, out: &dyn Device) -> Result<(), FsError> {
    let geo = Geometry::new(&salvaged.superblock, salvaged.superblock.size_bytes);
    let whole = |segment| Extent::new(geo.device_bytes(geo.addr(segment, 0)), geo.segment_bytes);
    let pieces = salvaged.segments.iter().flat_map(|&segment| whole(segment).pieces());
    let read: &mut dyn DeviceReader = &mut DeviceReads::new(source);
    let mut writing: VecDeque<Tag> = VecDeque::new();
    let failure = read.read_in_order(pieces.map(|piece| (piece, piece)), |_, piece, bytes| {
        let written = match bytes {
            Ok(data) => {
                let request = Request::Write { at_bytes: piece.at_bytes, data: data.into() };
                writing.push_back(out.submit(request));
                let oldest = if writing.len() > WRITES { writing.pop_front() } else { None };
                oldest.map_or(Ok(()), |tag| out.wait(tag).map(drop).map_err(failed))
            }
            Err(_) => copy(source, out, piece.at_bytes, u64::from(piece.len_bytes)),
        };
        written.map_or_else(ControlFlow::Break, ControlFlow::Continue)
    });
    let mut result = failure.map_or(Ok(()), Err);
    for tag in writing {
        result = result.and(out.wait(tag).map(drop).map_err(failed));
    }
    result?;
    out.flush().map_err(failed)
}

/// Copies a part of which something cannot be read.
fn copy(source: &dyn Device, out: &dyn Device, at_bytes: u64, len_bytes: u64) -> Result<(), FsError> {
    let unit_bytes = u64::from(source.geometry().logical_block_bytes.max(4096));
    match source.read(at_bytes, len_bytes as u32) {
        Ok(data) => out.write(at_bytes, Arc::new(data)).map_err(failed),
        Err(_) if len_bytes > unit_bytes => {
            let half = (len_bytes / 2).next_multiple_of(unit_bytes);
            copy(source, out, at_bytes, half)?;
            copy(source, out, at_bytes + half, len_bytes - half)
        }
        Err(_) => Ok(()),
    }
}
