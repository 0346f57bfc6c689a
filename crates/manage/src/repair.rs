//! Drives repairs: checks, opens the damaged volume, has each finding repaired, closes it, and checks again, until nothing
//! is left or nothing changes any more.
//!
//! A sound volume is not written to at all.

use crate::open::reading;
use firnfs::FsError;
use firnfs::check::repair::{Fixed, Fixer, order};
use firnfs::check::{CheckError, Facts, Finding, From, Problem, Progress, Report, Severity};
use firnfs::lfs::{Lfs, Options, read_superblock};
use firnfs::vfs::{AtimeMode, Vfs};
use firnfs_device::{AlignedBuf, Clock, Device};
use firnfs_format::TimeNs;
use firnfs_volume::Volume;
use std::sync::Arc;

/// Rounds of checking and repairing: what is repaired may bring to light what lay behind it.
const ROUNDS_MAX: u32 = 6;

/// What was done about a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is repaired.
    Repaired,
    /// Whoever was asked said no.
    Declined,
    /// It cannot be repaired; says why.
    Impossible(String),
}

/// A finding, and what was done about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Action {
    /// What was found.
    pub finding: Finding,
    /// What was done.
    pub outcome: Outcome,
}

/// What came of a repair.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// What the first check found.
    pub before: Report,
    /// What the last check found.
    pub after: Report,
    /// What was done, in order.
    pub actions: Vec<Action>,
}

/// Checks the volume on a device and repairs what `decide` agrees to. Nobody else may use the device.
///
/// # Errors
/// There is nothing to check (see [`crate::check()`]), or writing fails.
pub fn repair(
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    decide: &mut dyn FnMut(&Finding) -> bool,
    watch: &mut dyn FnMut(Progress),
) -> Result<Repaired, CheckError> {
    let size_bytes = device.geometry().size_bytes;
    let mut examine =
        || firnfs::check::examine(&mut reading(&**device), size_bytes, From::Newest, &mut *watch);
    let (before, mut facts) = examine()?;
    let mut after = before.clone();
    let mut actions: Vec<Action> = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let mut agreed = Vec::new();
        for finding in after.findings.iter().filter(|finding| finding.severity() > Severity::Note) {
            let is_declined = |a: &Action| a.outcome == Outcome::Declined && a.finding == *finding;
            if actions.iter().any(is_declined) {
                continue;
            }
            if decide(finding) {
                agreed.push(finding.clone());
            } else {
                actions.push(Action { finding: finding.clone(), outcome: Outcome::Declined });
            }
        }
        if agreed.is_empty() {
            break;
        }
        actions.extend(round(device, clock, agreed, facts)?);
        let again = examine()?;
        facts = again.1;
        let last = std::mem::replace(&mut after, again.0);
        if last.findings == after.findings {
            break;
        }
    }
    Ok(Repaired { before, after, actions })
}

/// Repairs findings in one mount.
fn round(
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    mut findings: Vec<Finding>,
    mut facts: Facts,
) -> Result<Vec<Action>, CheckError> {
    let mut actions = Vec::new();
    for finding in findings.extract_if(.., |f| matches!(f.problem, Problem::SuperblockCopy { .. })) {
        write_copy(&**device, &finding.problem)?;
        actions.push(Action { finding, outcome: Outcome::Repaired });
    }
    if findings.is_empty() {
        return Ok(actions);
    }
    findings.sort_by_key(|finding| order(&finding.problem));
    let end_lost_log = findings.iter().any(|f| matches!(f.problem, Problem::LostLog { .. }));
    let volume = open(device, clock, end_lost_log)?;
    if volume.run(|vfs, _| Ok(Fixer::restate(vfs, &mut facts)))? {
        volume.run(|vfs, _| Fixer::move_logs(vfs))?;
    }
    for &charge in facts.charges() {
        // An inode whose record cannot be read is a finding of its own.
        let _ = settled(volume.run(|vfs, now| Fixer::charge(vfs, now, charge)))?;
    }
    let mut fixer = Fixer::default();
    for finding in findings {
        let fixed = match volume.run(|vfs, now| fixer.fix(vfs, now, &finding)) {
            // What it was about is gone with something that another finding was about.
            Err(FsError::NotFound) => Ok(Fixed::Done),
            other => other,
        };
        let outcome = match settled(fixed)? {
            Ok(Fixed::Done) => Outcome::Repaired,
            Ok(Fixed::Cannot(why)) => Outcome::Impossible(why.to_owned()),
            Err(why) => Outcome::Impossible(why),
        };
        actions.push(Action { finding, outcome });
    }
    // What fails from here on shows in the next check.
    for dir in fixer.touched() {
        let _ = settled(volume.run(|vfs, now| Fixer::recount(vfs, now, dir)))?;
    }
    // Orphans are left to the next mount: one of them may be what could not be repaired.
    volume.finish()?;
    Ok(actions)
}

/// Separates what is wrong with the volume, which is no reason to stop, from what keeps it from being written.
fn settled<T>(result: Result<T, FsError>) -> Result<Result<T, String>, FsError> {
    match result {
        Err(stop @ FsError::ReadOnly(_)) => Err(stop),
        other => Ok(other.map_err(|e| e.to_string())),
    }
}

fn open(
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    end_lost_log: bool,
) -> Result<Volume<Lfs>, CheckError> {
    let size_bytes = device.geometry().size_bytes;
    let (options, now) = (Options::default(), TimeNs(clock.now_ns()));
    let lfs = firnfs::check::open_to_repair(&mut reading(&**device), size_bytes, options, now, end_lost_log)?;
    Ok(Volume::new(Vfs::new(lfs, AtimeMode::Noatime), Some(device.clone()), clock.clone()))
}

/// Writes a copy of the superblock again. The others are good, so this can be cut short.
fn write_copy(device: &dyn Device, problem: &Problem) -> Result<(), CheckError> {
    let Problem::SuperblockCopy { at_bytes, .. } = problem else { return Ok(()) };
    let sb = read_superblock(&mut reading(device), device.geometry().size_bytes)?;
    let failed = |e: firnfs_device::DeviceError| FsError::Io(e.to_string());
    device.write(*at_bytes, Arc::new(AlignedBuf::copy_of(&sb.encode()))).map_err(failed)?;
    device.flush().map_err(failed)?;
    Ok(())
}
