//! Drives repairs: checks the device, opens the damaged volume, repairs each finding, closes the volume, and checks again,
//! until no finding is left or a round changes nothing.
//!
//! An intact volume is never written to.

use crate::reading::DeviceReads;
use firnfs::FsError;
use firnfs::check::repair::{Fixed, Fixer, order};
use firnfs::check::{CheckError, Depth, Facts, Finding, From, Problem, Progress, Report, Severity};
use firnfs::lfs::{Lfs, Options, read_superblock};
use firnfs::vfs::{AtimeMode, Vfs};
use firnfs_device::{AlignedBuf, Clock, Device};
use firnfs_format::TimeNs;
use firnfs_volume::Volume;
use std::sync::Arc;

/// Rounds of checking and repairing: a repair may reveal further damage. Rounds that give up a retained point are not counted: the
/// damage that other points share with it shows only then, and there are as many of them as there are points at most.
const ROUNDS_MAX: u32 = 6;

/// Why a repair cannot state accounts anew.
const STATES_STAY: &str = "damaged states of the past stay, and nobody knows all that they hold";

/// What was done about a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is repaired.
    Repaired,
    /// The caller declined the repair.
    Declined,
    /// It cannot be repaired; the text says why.
    Impossible(String),
}

/// A finding, and its outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Action {
    /// What was found.
    pub finding: Finding,
    /// What was done.
    pub outcome: Outcome,
}

/// The result of a repair.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// What the first check found.
    pub before: Report,
    /// What the last check found.
    pub after: Report,
    /// The actions taken, in order.
    pub actions: Vec<Action>,
}

/// Checks the volume on a device and repairs the findings to which `decide` agrees. No other process may use the device.
///
/// The repair of content that cannot be read ([`Finding::lost_bytes`]) fills it with zeros. If `decide` declines, reading that content
/// goes on to fail, and its space stays on the accounts. The repair of a state of the past that cannot be read completely
/// ([`Problem::costs_state`]) gives it up. If `decide` declines, it stays as it is, and so do the accounts.
///
/// # Errors
/// If there is nothing to check (see [`crate::check()`]), or if a write fails.
pub fn repair(
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    decide: &mut dyn FnMut(&Finding) -> bool,
    watch: &mut dyn FnMut(Progress),
) -> Result<Repaired, CheckError> {
    let size_bytes = device.geometry().size_bytes;
    let mut examine = || {
        firnfs::check::examine(
            &mut DeviceReads::new(&**device),
            size_bytes,
            (From::Newest, Depth::Everything),
            &mut *watch,
        )
    };
    let (before, mut facts) = examine()?;
    let mut after = before.clone();
    let mut actions: Vec<Action> = Vec::new();
    // Findings that stay: asking again would change nothing.
    let mut left: Vec<Finding> = Vec::new();
    let mut rounds = 0;
    while rounds < ROUNDS_MAX {
        let mut agreed: Vec<Finding> = Vec::new();
        for finding in after.findings.iter().filter(|finding| finding.severity() > Severity::Note) {
            if left.contains(finding) {
                continue;
            }
            if decide(finding) {
                agreed.push(finding.clone());
            } else {
                left.push(finding.clone());
                actions.push(Action { finding: finding.clone(), outcome: Outcome::Declined });
            }
        }
        if left.iter().any(|finding| finding.problem.costs_state()) {
            facts.leave_states();
            if agreed.iter().any(|finding| needs_accounts(&finding.problem)) {
                // What follows from such damage stays with it: names, for example, of a file that cannot be read.
                let is_of_volume = |f: &mut Finding| !matches!(f.problem, Problem::SuperblockCopy { .. });
                for finding in agreed.extract_if(.., is_of_volume) {
                    left.push(finding.clone());
                    actions.push(Action { finding, outcome: Outcome::Impossible(STATES_STAY.to_owned()) });
                }
            }
        }
        if agreed.is_empty() {
            break;
        }
        if agreed.iter().all(|finding| finding.lost_bytes == 0) {
            facts.leave_lost();
        }
        let done = round(device, clock, agreed, facts)?;
        rounds += u32::from(!done.iter().any(gives_up_point));
        // What several states see is a finding of each of them until the oldest is given up.
        actions.retain(|action| !done.iter().any(|later| later.finding == action.finding));
        actions.extend(done);
        let again = examine()?;
        facts = again.1;
        let last = std::mem::replace(&mut after, again.0);
        if last.findings == after.findings {
            break;
        }
    }
    Ok(Repaired { before, after, actions })
}

/// Whether the accounts are right after a repair of this only if they are stated anew: it is about them, or what hung below a record or a
/// block with pointers is not known. While a state stays that cannot be read completely, nobody knows what they should state.
fn needs_accounts(problem: &Problem) -> bool {
    let is_torn = match problem {
        Problem::Record { .. } => true,
        Problem::Block { key, .. } => key.level > 0,
        _ => false,
    };
    is_torn || problem.is_of_accounts()
}

/// Whether the volume has one retained point less.
fn gives_up_point(action: &Action) -> bool {
    matches!(action.finding.problem, Problem::Point { .. }) && action.outcome == Outcome::Repaired
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
            // The object of this finding went away with the repair of another finding.
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
    // The next check shows whatever fails from here on.
    for dir in fixer.touched() {
        let _ = settled(volume.run(|vfs, now| Fixer::recount(vfs, now, dir)))?;
    }
    // The next mount frees the orphans: one of them may be the thing that could not be repaired.
    volume.finish()?;
    Ok(actions)
}

/// Separates damage of the volume, which does not stop the repair, from errors that prevent writing to it.
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
    let lfs = firnfs::check::open_to_repair(
        &mut DeviceReads::new(&**device),
        size_bytes,
        options,
        now,
        end_lost_log,
    )?;
    Ok(Volume::new(Vfs::new(lfs, AtimeMode::Noatime), Some(device.clone()), clock.clone()))
}

/// Writes a copy of the superblock again. The other copies are good, so an interruption here is harmless.
fn write_copy(device: &dyn Device, problem: &Problem) -> Result<(), CheckError> {
    let Problem::SuperblockCopy { at_bytes, .. } = problem else { return Ok(()) };
    let sb = read_superblock(&mut DeviceReads::new(device), device.geometry().size_bytes)?;
    let failed = |e: firnfs_device::DeviceError| FsError::Io(e.to_string());
    device.write(*at_bytes, Arc::new(AlignedBuf::copy_of(&sb.encode()))).map_err(failed)?;
    device.flush().map_err(failed)?;
    Ok(())
}
