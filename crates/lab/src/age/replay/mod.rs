//! Replays a workload as fast as it goes (File System Aging, section 3.3): on any directory, or on a volume of firnfs in this process.
//!
//! `model` knows what exists; `posix` and `volume` carry out; this file reads records, counts, stops and continues, and compares what
//! exists at the end with what should.
//!
//! Invariants: a replay that is stopped leaves a state file in the root of the target, from which it continues at the next record; a file for which
//! there is no room is not there at all, nor is one whose directory has none, and later operations on it are left out and counted.

mod model;
mod posix;
#[cfg(test)]
mod tests;
mod volume;

pub use firnfs_sim::VirtualClock;
pub(super) use model::Model;
pub use model::{By, Spot};
pub use posix::Posix;
pub use volume::{OnVolume, clock_at};

use crate::error::LabError;
use firnfs_workload::{Op, Origin, Reader, Record};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::time::Instant;

/// Name of the state file.
pub const STATE: &str = ".firn-age";
/// Names that may be in the root of an empty target.
const NOT_OURS: [&str; 2] = ["lost+found", STATE];
/// Mismatches that are named.
const NAMED: usize = 5;

/// Why an operation was not done.
pub enum Fault {
    /// There is no room.
    NoRoom,
    /// Anything else.
    Failed(LabError),
}

impl From<LabError> for Fault {
    fn from(error: LabError) -> Self {
        Self::Failed(error)
    }
}

/// Where a workload is replayed. Directories are one level deep.
pub trait Target {
    /// The time of the workload, in nanoseconds since 1970, before an operation.
    ///
    /// # Errors
    /// Background work failed.
    fn at(&mut self, time_ns: i64) -> Result<(), LabError>;
    /// Makes a directory.
    ///
    /// # Errors
    /// As the system reports.
    fn mkdir(&mut self, dir: &str) -> Result<(), Fault>;
    /// Removes a directory.
    ///
    /// # Errors
    /// As the system reports.
    fn rmdir(&mut self, dir: &str) -> Result<(), Fault>;
    /// Makes a file that does not exist.
    ///
    /// # Errors
    /// As the system reports.
    fn create(&mut self, spot: &Spot) -> Result<(), Fault>;
    /// Writes a part of a file.
    ///
    /// # Errors
    /// As the system reports.
    fn write(&mut self, spot: &Spot, at_bytes: u64, len_bytes: u64) -> Result<(), Fault>;
    /// Changes the size of a file.
    ///
    /// # Errors
    /// As the system reports.
    fn truncate(&mut self, spot: &Spot, size_bytes: u64) -> Result<(), Fault>;
    /// Changes the mode of a file.
    ///
    /// # Errors
    /// As the system reports.
    fn chmod(&mut self, spot: &Spot, mode: u32) -> Result<(), Fault>;
    /// Moves a file.
    ///
    /// # Errors
    /// As the system reports.
    fn rename(&mut self, from: &Spot, to: &Spot) -> Result<(), Fault>;
    /// Removes a file.
    ///
    /// # Errors
    /// As the system reports.
    fn unlink(&mut self, spot: &Spot) -> Result<(), Fault>;
    /// Closes a file.
    ///
    /// # Errors
    /// As the system reports.
    fn close(&mut self, spot: &Spot) -> Result<(), Fault>;
    /// All files, with their sizes in bytes, and empty directories with none: `d1/f2`, `f3`, `d4`.
    ///
    /// # Errors
    /// As the system reports.
    fn list(&mut self) -> Result<BTreeMap<String, Option<u64>>, LabError>;
    /// The content of a file in the root, if it exists.
    ///
    /// # Errors
    /// As the system reports.
    fn load(&mut self, name: &str) -> Result<Option<Vec<u8>>, LabError>;
    /// Replaces a file in the root, or removes it, and makes everything durable.
    ///
    /// # Errors
    /// As the system reports.
    fn save(&mut self, name: &str, content: Option<&[u8]>) -> Result<(), LabError>;
}

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Records that were read.
    pub records: u64,
    /// Creates, changes and deletes of files.
    pub operations: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Operations left out because there was no room for their file.
    pub refused: u64,
}

/// The state of a replay that was stopped.
#[derive(Serialize, Deserialize)]
struct State {
    workload: String,
    by: By,
    tally: Tally,
    absent: Vec<u64>,
    #[serde(default)]
    absent_dirs: Vec<u64>,
}

/// The end of a replay.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// What was done, runs before this one included.
    pub tally: Tally,
    /// Operations and seconds of this run.
    pub run_operations: u64,
    /// The time of this run in seconds.
    pub seconds: f64,
    /// It was stopped, and can be continued.
    pub is_stopped: bool,
    /// Files that exist in the end.
    pub files: u64,
    /// What exists and should not, or the reverse; some of them.
    pub mismatches: Vec<String>,
    /// How many there are.
    pub mismatch_count: u64,
}

/// How to replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// How files are placed.
    pub by: By,
    /// Go on with a replay that was stopped.
    pub continues: bool,
    /// Something that tells one workload from another.
    pub identity: String,
}

/// Replays a workload. `progress` hears of the records and bytes that were read and of the operations of this run; if it returns
/// `Interrupted`, the state is saved.
///
/// # Errors
/// The workload is damaged, not one for aging, or not that of the state; the target is in use otherwise, or fails.
pub fn replay<R: Read>(
    plan: &Plan,
    mut reader: Reader<R>,
    target: &mut dyn Target,
    progress: &mut dyn FnMut(&Tally, u64) -> Result<(), LabError>,
) -> Result<Outcome, LabError> {
    if reader.header().origin != Origin::Made {
        let advice =
            "only workloads of `firn age workload` are replayed: others do not say what existed before";
        return Err(LabError::Setup(advice.to_owned()));
    }
    let start_ns = reader.header().start_ns;
    let mut model = Model::new(plan.by, &reader.header().options)?;
    let mut tally = Tally::default();
    if let Some(state) = begin(plan, target)? {
        while tally.records < state.tally.records {
            let record = next(&mut reader)?
                .ok_or_else(|| LabError::Setup("the state is beyond the workload's end".to_owned()))?;
            tally.records += 1;
            note(&mut model, &record, tally.records)?;
        }
        model.forget(&state.absent, &state.absent_dirs);
        tally = state.tally;
    } else {
        for dir in model.groups() {
            target.mkdir(&dir).map_err(|fault| reason(fault, 0))?;
        }
    }
    let (began, before) = (Instant::now(), tally.operations);
    let mut is_stopped = false;
    while let Some(record) = next(&mut reader)? {
        target.at(start_ns.saturating_add(record.time_ns).try_into().unwrap_or(i64::MAX))?;
        step(&mut model, &record, Some(target), &mut tally).map_err(failed_at(tally.records + 1))?;
        tally.records += 1;
        match progress(&tally, reader.read_bytes()) {
            Err(LabError::Interrupted) => {
                is_stopped = true;
                break;
            }
            other => other?,
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let (absent, absent_dirs) = (model.absent(), model.absent_dirs());
    let state = State { workload: plan.identity.clone(), by: plan.by, tally, absent, absent_dirs };
    let text = serde_json::to_vec(&state).map_err(|e| LabError::Setup(e.to_string()))?;
    target.save(STATE, is_stopped.then_some(&text[..]))?;
    let mut outcome = Outcome {
        tally,
        run_operations: tally.operations - before,
        seconds,
        is_stopped,
        files: model.len(),
        mismatches: Vec::new(),
        mismatch_count: 0,
    };
    verify(&model, target, &mut outcome)?;
    Ok(outcome)
}

/// Looks at the target: the state to continue from, or nothing in an empty one.
fn begin(plan: &Plan, target: &mut dyn Target) -> Result<Option<State>, LabError> {
    let setup = |why: &str| Err(LabError::Setup(why.to_owned()));
    let state = match target.load(STATE)? {
        None if plan.continues => return setup("no replay was stopped there: leave out --continue"),
        None => {
            let listed = target.list()?;
            let theirs = listed.keys().find(|name| !is_not_ours(name));
            return match theirs {
                Some(name) => setup(&format!("the target is not empty: it has {name}")),
                None => Ok(None),
            };
        }
        Some(_) if !plan.continues => {
            return setup("a replay was stopped there: go on with --continue, or empty it");
        }
        Some(text) => text,
    };
    let state: State =
        serde_json::from_slice(&state).map_err(|e| LabError::Setup(format!("{STATE} is damaged: {e}")))?;
    if state.workload != plan.identity {
        return setup("the replay that was stopped there was of another workload");
    }
    if state.by != plan.by {
        return setup("the replay that was stopped there placed files in another way: see --by");
    }
    Ok(Some(state))
}

fn is_not_ours(path: &str) -> bool {
    NOT_OURS.iter().any(|name| path == *name || path.split('/').next() == Some(name))
}

fn next<R: Read>(reader: &mut Reader<R>) -> Result<Option<Record>, LabError> {
    reader.next().transpose().map_err(|error| LabError::Setup(error.to_string()))
}

fn failed_at(record: u64) -> impl Fn(Fault) -> LabError {
    move |fault| reason(fault, record)
}

fn reason(fault: Fault, record: u64) -> LabError {
    match fault {
        Fault::NoRoom => LabError::Setup(format!("record {record}: there is no room for a directory")),
        Fault::Failed(LabError::Setup(why)) => LabError::Setup(format!("record {record}: {why}")),
        Fault::Failed(other) => other,
    }
}

/// Notes what a record changes, without a target.
///
/// # Errors
/// It contradicts the records before it.
pub(super) fn note(model: &mut Model, record: &Record, number: u64) -> Result<(), LabError> {
    step(model, record, None, &mut Tally::default()).map_err(failed_at(number))
}

/// Carries out a record, or only notes it without a target.
fn step(
    model: &mut Model,
    record: &Record,
    mut target: Option<&mut dyn Target>,
    tally: &mut Tally,
) -> Result<(), Fault> {
    macro_rules! act {
        ($method:ident($($argument:expr),*)) => {
            target.as_mut().map_or(Ok(()), |target| target.$method($($argument),*))
        };
    }
    let file = if record.made.is_some() { record.made.0 } else { record.file.0 };
    match record.op {
        Op::Mkdir => {
            let done = model.mkdir(record.made.0).map_or(Ok(()), |dir| act!(mkdir(&dir)));
            return done.or_else(|fault| refuse_dir(fault, model, record.made.0, tally));
        }
        Op::Rmdir => return model.rmdir(&record.name)?.map_or(Ok(()), |dir| act!(rmdir(&dir))),
        Op::Create => {
            tally.operations += 1;
            return match model.create(file, record.file.0).and_then(|spot| act!(create(&spot))) {
                Err(Fault::NoRoom) => refuse(model, file, tally),
                done => done,
            };
        }
        Op::Truncate | Op::Write | Op::Setattr | Op::Close | Op::Rename | Op::Unlink => {}
        _ => return Ok(()),
    }
    let Some(spot) = model.spot(file)? else {
        tally.refused += u64::from(record.op != Op::Close);
        if record.op == Op::Unlink {
            model.remove(file);
        }
        return Ok(());
    };
    let length = record.length.unwrap_or(0);
    let done = match record.op {
        Op::Write => {
            let at_bytes = record.offset.unwrap_or(0);
            tally.operations += u64::from(at_bytes > 0);
            tally.written_bytes = tally.written_bytes.saturating_add(length);
            model.extend(file, at_bytes.saturating_add(length));
            act!(write(&spot, at_bytes, length))
        }
        Op::Truncate => {
            tally.operations += 1;
            model.resize(file, length);
            act!(truncate(&spot, length))
        }
        Op::Setattr => {
            tally.operations += 1;
            act!(chmod(&spot, record.argument.unwrap_or(0o644)))
        }
        Op::Rename => {
            tally.operations += 1;
            model
                .rename(file, record.to_file.0)
                .and_then(|to| to.map_or(Ok(()), |to| act!(rename(&spot, &to))))
        }
        Op::Unlink => {
            tally.operations += 1;
            model.remove(file);
            act!(unlink(&spot))
        }
        _ => act!(close(&spot)),
    };
    match done {
        Err(Fault::NoRoom) => {
            // What there was room for goes, too.
            act!(unlink(&spot))?;
            refuse(model, file, tally)
        }
        done => done,
    }
}

fn refuse(model: &mut Model, file: u64, tally: &mut Tally) -> Result<(), Fault> {
    model.lose(file);
    tally.refused += 1;
    Ok(())
}

/// Goes on without a directory for which there is no room.
fn refuse_dir(fault: Fault, model: &mut Model, dir: u64, tally: &mut Tally) -> Result<(), Fault> {
    match fault {
        Fault::NoRoom => {
            model.lose_dir(dir);
            tally.refused += 1;
            Ok(())
        }
        Fault::Failed(_) => Err(fault),
    }
}

/// Compares what exists with what should.
fn verify(model: &Model, target: &mut dyn Target, outcome: &mut Outcome) -> Result<(), LabError> {
    let mut expected = model.tree();
    let mut report = |what: String| {
        outcome.mismatch_count += 1;
        if outcome.mismatches.len() < NAMED {
            outcome.mismatches.push(what);
        }
    };
    let size =
        |size: Option<u64>| size.map_or_else(|| "a directory".to_owned(), |bytes| format!("{bytes} bytes"));
    for (path, found) in target.list()? {
        if is_not_ours(&path) {
            continue;
        }
        match expected.remove(&path) {
            Some(wanted) if wanted == found => {}
            Some(wanted) => report(format!("{path}: {} instead of {}", size(found), size(wanted))),
            None if found.is_none() => report(format!("{path} is empty: it should have files, or be gone")),
            None => report(format!("{path} should not exist")),
        }
    }
    expected.into_keys().for_each(|path| report(format!("{path} is missing")));
    Ok(())
}
