//! Scrub: checks a volume while it is in use, at the speed that the caller sets.
//!
//! The scrub checks a snapshot of one moment (`firnfs::lfs::Snapshot`). It holds the lock only to take the snapshot and to look
//! up a finding. If the volume runs short of clean segments meanwhile, it drops the snapshot, and the scrub starts again with a
//! newer one. After [`ATTEMPTS`] snapshots the scrub reports the findings that it has confirmed, and that it is incomplete.
//!
//! Callers: `firn scrub`, and mounts after a crash; each runs it on a thread of its own.

use crate::reading::DeviceReads;
use firnfs::FsError;
use firnfs::check::{
    CheckError, Depth, Finding, Progress, Report, Severity, Subject, check_recovered, check_still, subject_of,
};
use firnfs::device_reader::{DeviceReader, Extent};
use firnfs::engine::Engine;
use firnfs::lfs::{HoldId, Lfs, Snapshot};
use firnfs::store::Store;
use firnfs_format::BlockPtr;
use firnfs_volume::Volume;
use std::cell::Cell;

/// Snapshots that a scrub tries.
const ATTEMPTS: u32 = 3;

/// The caller's choices.
pub struct Scrub<'a> {
    /// How much is read.
    pub depth: Depth,
    /// Called with the number of bytes before each read; may wait as long as it likes. `false` stops the scrub.
    pub pace: &'a mut dyn FnMut(u64) -> bool,
    /// Called with the progress.
    pub watch: &'a mut dyn FnMut(Progress),
}

/// The result of a scrub.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scrubbed {
    /// Every finding is confirmed. The totals are those of the last snapshot.
    pub report: Report,
    /// The scrub checked everything, all in one snapshot.
    pub is_complete: bool,
    /// The caller stopped the scrub: the report covers the part that was checked until then.
    pub is_stopped: bool,
    /// Live bytes of the volume, of which the report's totals name those that were checked.
    pub volume_live_bytes: u64,
}

/// Checks the volume while others use it.
///
/// # Errors
/// `Io`; `ReadOnly` if the volume turned read-only with changes in memory that are not in the log.
pub(crate) fn scrub(volume: &Volume<Lfs>, scrub: &mut Scrub<'_>) -> Result<Scrubbed, FsError> {
    let device = volume.device().ok_or(FsError::Unsupported("a scrub without a device"))?;
    let is_stopped = Cell::new(false);
    let mut attempt = 1;
    loop {
        let mut read = DeviceReads::paced(device, &mut *scrub.pace, &is_stopped);
        let Snapshot { mut lfs, ticket, hold } =
            volume.run_quietly(|vfs, now| vfs.store_mut().hold_snapshot(now))?;
        let durable = volume.wait_durable(ticket);
        if durable.is_err() {
            end_hold(volume, hold)?;
        }
        durable?;
        let device_bytes = device.geometry().size_bytes;
        let volume_live_bytes = lfs.live_bytes();
        let mut report = check_still(&mut lfs, &mut read, device_bytes, scrub.depth, scrub.watch);
        let found = std::mem::take(&mut report.findings);
        // A stop while findings are looked at again must not make them look confirmed.
        read.allow_last_reads();
        let (was_held, confirmed) = confirm(volume, hold, &mut lfs, &mut read, found)?;
        let is_stopped = is_stopped.get();
        let is_complete = was_held && confirmed.is_complete && !is_stopped;
        if is_complete || is_stopped || attempt >= ATTEMPTS {
            report.findings = confirmed.findings;
            return Ok(Scrubbed { report, is_complete, is_stopped, volume_live_bytes });
        }
        attempt += 1;
    }
}

/// Turns the volume read-only because its structure is damaged.
pub(crate) fn doubt(volume: &Volume<Lfs>, why: &str) {
    // This cannot stop: it needs neither blocks nor room.
    let _never = volume.run_quietly(|vfs, _| {
        vfs.store_mut().doubt(why.to_owned());
        Ok(())
    });
    volume.wake();
}

/// Makes an open volume writable again that a check or a failed log write had made read-only. First it writes the changes that
/// could not be written before; then it checks the device as a mount would find it. The volume stays read-only if the check
/// finds damage, or if the log on the device ends elsewhere than the log in memory. A volume that is already writable is only
/// checked.
///
/// # Errors
/// `ReadOnly` with the reason; `Io`, `Corrupt` if the device cannot be checked.
pub(crate) fn make_writable(volume: &Volume<Lfs>, scrub: &mut Scrub<'_>) -> Result<Scrubbed, FsError> {
    if volume.run_quietly(|vfs, _| Ok(vfs.store().read_only().is_none()))? {
        return self::scrub(volume, scrub);
    }
    let device = volume.device().ok_or(FsError::Unsupported("a check without a device"))?;
    volume.until(|vfs| Ok(vfs.store_mut().try_writes()?.then_some(())))?;
    volume.until(|vfs| Ok((vfs.store().is_drained() || vfs.store().is_log_stopped()).then_some(())))?;
    if volume.run_quietly(|vfs, _| Ok(vfs.store().is_log_stopped()))? {
        return Err(FsError::ReadOnly("the device still fails".to_owned()));
    }
    volume.pump();
    let is_stopped = Cell::new(false);
    let mut read = DeviceReads::paced(device, &mut *scrub.pace, &is_stopped);
    let device_bytes = device.geometry().size_bytes;
    let volume_live_bytes = volume.run_quietly(|vfs, _| Ok(vfs.store().live_bytes()))?;
    let checked = check_recovered(&mut read, device_bytes, scrub.depth, scrub.watch);
    if is_stopped.get() {
        let report = Report::default();
        return Ok(Scrubbed { report, is_complete: false, is_stopped: true, volume_live_bytes });
    }
    let (report, end) = checked.map_err(|error| match error {
        CheckError::Fs(error) => error,
        other => FsError::Io(other.to_string()),
    })?;
    if report.is_clean() {
        volume.run_quietly(|vfs, _| Ok(vfs.store_mut().allow_writes(end)?))?;
        volume.wake();
    }
    Ok(Scrubbed { report, is_complete: true, is_stopped: false, volume_live_bytes })
}

/// Ends the hold on the snapshot; true if it lasted until now.
fn end_hold(volume: &Volume<Lfs>, hold: HoldId) -> Result<bool, FsError> {
    volume.run_quietly(|vfs, _| Ok(vfs.store_mut().release_snapshot(hold)))
}

/// Returns the findings that still hold, and whether the snapshot lasted until the end of the check.
fn confirm(
    volume: &Volume<Lfs>,
    hold: HoldId,
    still: &mut Lfs,
    read: &mut dyn DeviceReader,
    found: Vec<Finding>,
) -> Result<(bool, Confirmed), FsError> {
    let mut confirmed = Confirmed { findings: Vec::new(), is_complete: true };
    // Look up the places while the snapshot can still be read.
    let found: Vec<_> = found.into_iter().map(|f| (subject_of(still, read, &f), f)).collect();
    let was_held = end_hold(volume, hold)?;
    for (subject, finding) in found {
        let is_so = match subject {
            None => was_held || finding.severity() == Severity::Copy,
            Some((subject, place)) => is_still_bad(volume, subject, place, was_held, still, read),
        };
        if is_so {
            confirmed.findings.push(finding);
        } else {
            // The check did not follow the damaged block further.
            confirmed.is_complete = false;
        }
    }
    Ok((was_held, confirmed))
}

/// Looks again: a block that was rewritten meanwhile, or that reads well now, is no finding.
fn is_still_bad(
    volume: &Volume<Lfs>,
    subject: Subject,
    place: BlockPtr,
    was_held: bool,
    still: &Lfs,
    read: &mut dyn DeviceReader,
) -> bool {
    let now = volume.run_quietly(|vfs, _| subject.place_in(vfs.store_mut()));
    // If a block above it is damaged too, the place cannot be looked up; assume that the block is still there.
    if now.is_ok_and(|now| now != Some(place)) {
        return false;
    }
    let geo = still.geometry();
    let bytes = read.read(Extent::new(geo.device_bytes(place.addr), place.stored_bytes()));
    let is_bad = bytes.and_then(|bytes| subject.verify(&place, &geo, &bytes)).is_err();
    // A record can be wrong although its checksum matches.
    is_bad || was_held && matches!(subject, Subject::Record(_))
}

struct Confirmed {
    findings: Vec<Finding>,
    is_complete: bool,
}
