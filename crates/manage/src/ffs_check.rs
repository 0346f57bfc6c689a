//! Drives the check of the Fast File System, and its repairs: first it writes the right inodes, pointers, bitmaps and counts,
//! then it repairs names on the opened volume, and the unmount marks the volume clean. The volume counts as in use until then.
//!
//! An intact volume that was unmounted is never written to.

use crate::reading::DeviceReads;
use firnfs::FsError;
use firnfs::check::Severity;
use firnfs::check::ffs::{FfsCheckError, FfsFinding, FfsProblem, FfsReport, Mend, check_ffs as check};
use firnfs::check::repair::{Fixed, Fixer, order};
use firnfs::ffs::{Ffs, Options, read_superblock};
use firnfs::vfs::{AtimeMode, Vfs};
use firnfs_device::{AlignedBuf, Clock, Device};
use firnfs_format::TimeNs;
use firnfs_format::ffs::State;
use firnfs_format::ffs::superblock::COPY_AT_BYTES;
use firnfs_volume::Volume;
use std::sync::Arc;

/// Rounds of checking and repairing: a repair may reveal further damage.
const ROUNDS_MAX: u32 = 6;
/// Bytes of the write that holds the superblock.
const SUPERBLOCK_WRITE_BYTES: usize = 4096;

/// The result of a repair.
#[derive(Clone, Debug)]
pub struct RepairedFfs {
    /// What the first check found.
    pub before: FfsReport,
    /// What the last check found.
    pub after: FfsReport,
    /// What could not be repaired, and why.
    pub failed: Vec<(FfsFinding, String)>,
}

/// Checks the volume on a device that no process writes to; writes nothing itself.
///
/// # Errors
/// If there is nothing to check: the device holds no such volume, a truncated one, or it failed.
pub fn check_ffs(device: &dyn Device) -> Result<FfsReport, FfsCheckError> {
    examine(device).map(|(report, _)| report)
}

fn examine(device: &dyn Device) -> Result<(FfsReport, Mend), FfsCheckError> {
    check(&mut DeviceReads::new(device), device.geometry().size_bytes)
}

/// Checks the volume on a device and repairs everything, if `decide` agrees to each finding; otherwise it writes nothing.
/// No other process may use the device.
///
/// # Errors
/// As [`check_ffs`], or if a write fails.
pub fn repair_ffs(
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    decide: &mut dyn FnMut(&FfsFinding) -> bool,
) -> Result<RepairedFfs, FfsCheckError> {
    let (before, mut mend) = examine(&**device)?;
    let mut after = before.clone();
    let mut failed = Vec::new();
    for _ in 0..ROUNDS_MAX {
        if after.findings.is_empty() || !after.findings.iter().all(&mut *decide) {
            break;
        }
        failed = round(device, clock, &after, &mend)?;
        let (report, next) = examine(&**device)?;
        mend = next;
        let last = std::mem::replace(&mut after, report);
        if last.findings == after.findings {
            break;
        }
    }
    Ok(RepairedFfs { before, after, failed })
}

/// One round: repairs the tables; if that changed nothing on which names depend, repairs names too.
fn round(
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    report: &FfsReport,
    mend: &Mend,
) -> Result<Vec<(FfsFinding, String)>, FfsCheckError> {
    let now = TimeNs(clock.now_ns());
    write_mend(&**device, mend, now)?;
    let mut read = DeviceReads::new(&**device);
    let sb = read_superblock(&mut read, device.geometry().size_bytes)?;
    let ffs = Ffs::open_mended(&mut read, sb, Options::default(), now)?;
    let volume = Volume::new(Vfs::new(ffs, AtimeMode::Noatime), Some(device.clone()), clock.clone());
    let mut names: Vec<_> = report
        .findings
        .iter()
        .filter_map(|finding| match &finding.problem {
            FfsProblem::Names(names) => Some((finding, names)),
            _ => None,
        })
        .collect();
    names.sort_by_key(|(_, names)| order(&names.problem));
    let mut fixer = Fixer::default();
    let mut failed = Vec::new();
    for (finding, names) in names {
        let why = match volume.run(|vfs, now| fixer.fix_shared(vfs, now, names)) {
            // The object of this finding went away with the repair of another finding.
            Ok(Fixed::Done) | Err(FsError::NotFound) => continue,
            Ok(Fixed::Cannot(why)) => why.to_owned(),
            Err(stop @ FsError::ReadOnly(_)) => return Err(stop.into()),
            Err(why) => why.to_string(),
        };
        failed.push((finding.clone(), why));
    }
    for dir in fixer.touched() {
        match volume.run(|vfs, now| Fixer::recount(vfs, now, dir)) {
            Ok(()) => {}
            Err(stop @ FsError::ReadOnly(_)) => return Err(stop.into()),
            Err(why) => {
                let about = report.findings.iter().find(|finding| finding.ino == Some(dir));
                failed.extend(about.map(|finding| (finding.clone(), why.to_string())));
            }
        }
    }
    volume.finish()?;
    Ok(failed)
}

/// Writes the repaired blocks. The volume is marked as in use first, so that an interruption leaves a volume that has to be
/// checked again.
fn write_mend(device: &dyn Device, mend: &Mend, now: TimeNs) -> Result<(), FfsCheckError> {
    let failed = |e: firnfs_device::DeviceError| FsError::Io(e.to_string());
    if mend.writes.is_empty() {
        return Ok(());
    }
    let mut sb = read_superblock(&mut DeviceReads::new(device), device.geometry().size_bytes)?;
    if sb.state == State::Clean {
        (sb.state, sb.changed_ns) = (State::InUse, now.0);
        let mut bytes = sb.encode().to_vec();
        bytes.resize(SUPERBLOCK_WRITE_BYTES, 0);
        device.write(COPY_AT_BYTES, Arc::new(AlignedBuf::copy_of(&bytes))).map_err(failed)?;
        device.flush().map_err(failed)?;
    }
    for (at_bytes, bytes) in &mend.writes {
        device.write(*at_bytes, Arc::new(AlignedBuf::copy_of(bytes))).map_err(failed)?;
    }
    device.flush().map_err(failed)?;
    Ok(())
}

/// After a crash: checks the volume, and repairs it if a crash explains everything but damaged copies of the superblock, of which one
/// is enough.
///
/// # Errors
/// `ReadOnly` if something is wrong that no crash explains; those of [`repair_ffs`].
pub(crate) fn recover(device: &Arc<dyn Device>, clock: &Arc<dyn Clock>) -> Result<(), FfsCheckError> {
    let repaired = repair_ffs(device, clock, &mut |finding| finding.severity() <= Severity::Copy)?;
    let worst = |report: &FfsReport| {
        report.findings.iter().find(|f| f.severity() > Severity::Copy).map(ToString::to_string)
    };
    match worst(&repaired.before).or_else(|| repaired.after.findings.first().map(ToString::to_string)) {
        None => Ok(()),
        Some(why) => Err(FsError::ReadOnly(format!("the volume is damaged, run a check: {why}")).into()),
    }
}
