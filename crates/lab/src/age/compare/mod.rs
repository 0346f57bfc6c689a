//! Ages file systems of several kinds by one workload, and measures what that did to them: for somebody who has to choose one.
//!
//! Each lives on a disk of its own, all of one size (`disk`). Its life is cut into stages (`life`). After each stage the whole tree is read
//! cold (`reading`), and so is a copy of it on a new file system of the same kind: the ratio is what age costs a reader (Conway et al.,
//! File Systems Fated for Senescence, FAST 2017). `page` draws the report. Caller: `firn age compare`.
//!
//! Invariants: every file system gets the same operations in the same order, and the same syncs; what exists at the end is compared with what
//! should; the tree and its copy have as many files and bytes.

mod disk;
mod life;
mod page;
mod reading;

pub use disk::Kind;
pub use life::Pace;

use super::layout::Layout;
use super::replay::{self, By, Outcome, Posix, Tally, replay};
use super::snapshot::Snapshot;
use crate::error::LabError;
use crate::micro::environment::Environment;
use crate::micro::mount::Firn;
use crate::micro::stop::Stop;
use disk::{Blank, Disk, Place};
use firnfs_workload::Reader;
use life::Life;
use serde::Serialize;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the workload's files are, so that nothing of the file system's own lies among them.
const HOME: &str = "home";
/// Sleeps are cut into pieces of this length, after which a signal is heard.
const NAP: Duration = Duration::from_millis(100);

/// What the log wrote since mkfs, and why.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Logged {
    /// Bytes that were written to the log.
    pub log_bytes: u64,
    /// Those of them that users caused; the others cleaning and coalescing did.
    pub new_bytes: u64,
}

/// What only the command line can ask a mounted file system.
pub struct Asks<'a> {
    /// Where its files lie.
    pub snapshot: &'a dyn Fn(&Path) -> Result<Snapshot, LabError>,
    /// What the log of a mounted firnfs wrote.
    pub logged: &'a dyn Fn(&Path) -> Result<Logged, LabError>,
}

/// What to compare.
pub struct Plan<'a> {
    /// The workload.
    pub workload: &'a Path,
    /// The file systems.
    pub kinds: &'a [Kind],
    /// Holds the images meanwhile: two of `size_bytes`.
    pub directory: &'a Path,
    /// Size of each disk.
    pub size_bytes: u64,
    /// Stages, at least 1.
    pub stages: u32,
    /// Readings of each tree; their median counts.
    pub runs: u32,
    /// Time of the workload after which what was written is made durable.
    pub sync_every: Duration,
    /// Time after each stage, and one reading of everything, in which nothing is asked of the file system.
    pub rest: Duration,
    /// How firnfs is made and mounted.
    pub firn: &'a Firn,
    /// Options of `firn mount`.
    pub options: &'a [String],
    /// Ends the run early.
    pub stop: &'a Stop,
}

/// A file system after a stage of its life.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Stage {
    /// Files that it had.
    pub files: u64,
    /// Their bytes.
    pub tree_bytes: u64,
    /// Reading all of them, cold, in milliseconds: the median.
    pub aged_ms: f64,
    /// The same of a copy on a new file system.
    pub fresh_ms: f64,
    /// The operations of the stage.
    pub pace: Pace,
}

impl Stage {
    /// Time to read the tree, over that of its copy on a new file system.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.aged_ms / self.fresh_ms.max(1e-6)
    }
}

/// The life of one file system.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Aged {
    /// Its name.
    pub name: String,
    /// Its stages.
    pub stages: Vec<Stage>,
    /// Bytes that the workload wrote.
    pub written_bytes: u64,
    /// Operations that were left out because there was no room.
    pub refused_operations: u64,
    /// Share of blocks that lie behind the one before, at the end; none where the file system does not say.
    pub layout_score: Option<f64>,
    /// The same of the last copy on a new file system.
    pub fresh_layout_score: Option<f64>,
    /// Of firnfs.
    pub logged: Option<Logged>,
}

impl Aged {
    /// Bytes that went to the disk in its life, for each byte that the workload wrote.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        let disk_bytes: u64 = self.stages.iter().map(|stage| stage.pace.disk_bytes).sum();
        disk_bytes as f64 / self.written_bytes.max(1) as f64
    }
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub environment: Environment,
    /// What the workload says of itself.
    #[serde(skip)]
    pub workload_options: Vec<(String, String)>,
    /// Its records.
    pub records: u64,
    /// Size of each disk in bytes.
    pub size_bytes: u64,
    /// Readings of each tree.
    pub runs: u32,
    /// Time of the workload between syncs, in milliseconds.
    pub sync_every_ms: f64,
    /// Rest after each stage, in milliseconds.
    pub rest_ms: f64,
    /// The file systems.
    pub systems: Vec<Aged>,
}

/// Runs the plan. `progress` gets steps done, all steps, and the present one.
///
/// # Errors
/// The first error ends the run: an incomplete comparison compares nothing. `Interrupted` if it was asked to stop.
pub fn run(
    plan: &Plan<'_>,
    asks: &Asks<'_>,
    progress: &mut dyn FnMut(u64, u64, &str),
) -> Result<Report, LabError> {
    let records = count(plan)?;
    let place = Place {
        directory: plan.directory,
        size_bytes: plan.size_bytes,
        firn: plan.firn,
        options: plan.options,
        stop: plan.stop,
    };
    let mut report = Report {
        environment: Environment::observe(),
        workload_options: open(plan)?.header().options.clone(),
        records,
        size_bytes: plan.size_bytes,
        runs: plan.runs,
        sync_every_ms: plan.sync_every.as_secs_f64() * 1e3,
        rest_ms: plan.rest.as_secs_f64() * 1e3,
        systems: Vec::new(),
    };
    let all = records * plan.kinds.len() as u64;
    let spare = Blank::make(&place, "fresh")?;
    for (nth, &kind) in (0..).zip(plan.kinds) {
        let mut lived = |done: u64, what: &str| {
            progress(nth * records + done, all, &format!("{}: {what}", kind.name()));
        };
        lived(0, "making a disk");
        let aged = Vec::new();
        let mut subject =
            Subject { plan, asks, place: &place, kind, spare: &spare, aged, scores: (None, None) };
        report.systems.push(subject.live(records, &mut lived)?);
    }
    progress(all, all, "done");
    Ok(report)
}

fn open(plan: &Plan<'_>) -> Result<Reader<BufReader<File>>, LabError> {
    let file = File::open(plan.workload).map_err(LabError::io("open", plan.workload))?;
    Reader::new(BufReader::new(file)).map_err(LabError::Workload)
}

fn count(plan: &Plan<'_>) -> Result<u64, LabError> {
    let mut records = 0u64;
    for record in open(plan)? {
        record.map_err(LabError::Workload)?;
        records += 1;
        if records.is_multiple_of(1 << 16) {
            plan.stop.check()?;
        }
    }
    match records {
        0 => Err(LabError::Setup(format!("{} has no records", plan.workload.display()))),
        _ => Ok(records),
    }
}

/// A file system that is being compared.
struct Subject<'a> {
    plan: &'a Plan<'a>,
    asks: &'a Asks<'a>,
    place: &'a Place<'a>,
    kind: Kind,
    /// The disk for copies on a new file system.
    spare: &'a Blank,
    aged: Vec<Stage>,
    /// Layout scores of the tree and of its copy.
    scores: (Option<f64>, Option<f64>),
}

impl Subject<'_> {
    fn live(&mut self, records: u64, told: &mut dyn FnMut(u64, &str)) -> Result<Aged, LabError> {
        let kind = self.kind;
        let blank = Blank::make(self.place, "aged")?;
        let mut disk = blank.with(kind, self.place)?;
        let home = disk.directory().join(HOME);
        fs::create_dir(&home).map_err(LabError::io("make", &home))?;
        disk.sync()?;
        let outcome = self.replay(records, &mut disk, &home, told)?;
        if let Some(mismatch) = outcome.mismatches.first() {
            return Err(LabError::Setup(format!("{} after the workload: {mismatch}", kind.name())));
        }
        let logged = (kind == Kind::Firnfs).then(|| (self.asks.logged)(disk.directory())).transpose()?;
        Ok(Aged {
            name: kind.name().to_owned(),
            stages: std::mem::take(&mut self.aged),
            written_bytes: outcome.tally.written_bytes,
            refused_operations: outcome.tally.refused,
            layout_score: self.scores.0,
            fresh_layout_score: self.scores.1,
            logged,
        })
    }

    fn replay(
        &mut self,
        records: u64,
        disk: &mut Disk<'_>,
        home: &Path,
        told: &mut dyn FnMut(u64, &str),
    ) -> Result<Outcome, LabError> {
        let plan = self.plan;
        let how = replay::Plan { by: By::Directory, continues: false, identity: String::new() };
        let sync_every_ns = i64::try_from(plan.sync_every.as_nanos()).unwrap_or(i64::MAX);
        let stage_records = records.div_ceil(u64::from(plan.stages));
        let mut look = |disk: &mut Disk<'_>, pace: Pace| self.look(disk, pace);
        let mut life = Life::new(Posix::new(home), disk, stage_records, sync_every_ns, &mut look)?;
        let mut progress = |tally: &Tally, _| {
            if tally.records.is_multiple_of(64) {
                told(tally.records, "aging");
            }
            plan.stop.check()
        };
        let outcome = replay(&how, open(plan)?, &mut life, &mut progress)?;
        // A stopped replay saves its state, and the file system is thrown away.
        plan.stop.check()?;
        if !life.is_at_end_of_stage() {
            life.end_stage()?;
        }
        Ok(outcome)
    }

    /// Reads the tree and a copy of it on a new file system, in turns.
    fn look(&mut self, disk: &mut Disk<'_>, pace: Pace) -> Result<(), LabError> {
        let (plan, stop) = (self.plan, self.plan.stop);
        // Somebody works with the tree, and then goes home. What a file system does with that is its own business.
        reading::read(&disk.directory().join(HOME), stop)?;
        rest(plan.rest, stop)?;
        let mut copy = self.spare.with(self.kind, self.place)?;
        reading::copy(&disk.directory().join(HOME), copy.directory(), stop)?;
        copy.sync()?;
        let score = |of: &Disk<'_>| {
            let snapshot = (self.asks.snapshot)(of.directory())?;
            Ok::<_, LabError>(Layout::of(&snapshot).all.score.value())
        };
        self.scores = (score(disk)?, score(&copy)?);
        let (mut aged_ms, mut fresh_ms) = (Vec::new(), Vec::new());
        let read_cold = |disk: &mut Disk<'_>, path: PathBuf, times_ms: &mut Vec<f64>| {
            disk.make_cold()?;
            let tree = reading::read(&path, stop)?;
            times_ms.push(tree.seconds * 1e3);
            Ok::<_, LabError>((tree.files, tree.bytes))
        };
        let mut read = (0, 0);
        for _ in 0..plan.runs {
            let home = disk.directory().join(HOME);
            read = read_cold(disk, home, &mut aged_ms)?;
            let root = copy.directory().to_owned();
            let copied = read_cold(&mut copy, root, &mut fresh_ms)?;
            // ext4 has a directory of its own, without files.
            if copied != read {
                let why = format!("{}: {read:?} files and bytes, {copied:?} in the copy", self.kind.name());
                return Err(LabError::Setup(why));
            }
        }
        let (files, tree_bytes) = read;
        self.aged.push(Stage {
            files,
            tree_bytes,
            aged_ms: median(aged_ms),
            fresh_ms: median(fresh_ms),
            pace,
        });
        Ok(())
    }
}

fn rest(time: Duration, stop: &Stop) -> Result<(), LabError> {
    let end = std::time::Instant::now() + time;
    loop {
        stop.check()?;
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(NAP));
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests;
