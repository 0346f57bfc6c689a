//! The tasks, grouped into scenarios: tasks that build on each other and run in sequence on one target.
//!
//! All written data is derived from file and block numbers, so every read can be verified. Nothing is random except
//! the order of overwrites, which is the same in every round and on every target. A scenario empties its directory,
//! outside the timed part.

use super::processor::{Meter, Taken};
use super::programs::Programs;
use super::stop::Stop;
use super::target::Target;
use super::task::{Scenario, Task, Workload};
use super::{Durability, Sample, tool};
use crate::LabError;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The name of the directory that scenarios use within a target's directory.
const PLAYGROUND: &str = "firn-bench";

/// An archive, and the directory in memory that it lies in.
type Archive = (tempfile::TempDir, PathBuf);

/// Data that all rounds share, made once: archives to unpack, what other programs work on, and the order of overwrites.
pub struct Prepared<'a> {
    pub(super) workload: &'a Workload,
    pub(super) stop: &'a Stop,
    archive: Option<Archive>,
    kernel: Option<Archive>,
    programs: Programs,
    overwrite_order: Vec<u64>,
    cold_reads: bool,
}

impl<'a> Prepared<'a> {
    /// Prepares the data that `scenarios` need.
    ///
    /// # Errors
    /// Errors of making the archive.
    pub fn new(workload: &'a Workload, scenarios: &[Scenario], stop: &'a Stop) -> Result<Self, LabError> {
        let archive = |scenario, files| {
            scenarios.contains(&scenario).then(|| super::tree::make_archive(files, stop)).transpose()
        };
        let (tree, kernel) = (
            archive(Scenario::Tree, workload.tree_files)?,
            archive(Scenario::Kernel, workload.kernel_files)?,
        );
        let programs = Programs::prepare(workload, scenarios, stop)?;
        let mut overwrite_order: Vec<u64> =
            (0..workload.large_bytes / u64::from(workload.unit_bytes)).collect();
        overwrite_order.shuffle(&mut rand_pcg::Pcg64::seed_from_u64(0x66_69_72_6e));
        let cold_reads = super::target::may_drop_caches();
        Ok(Self { workload, stop, archive: tree, kernel, programs, overwrite_order, cold_reads })
    }

    /// Runs one scenario once on one target and adds its samples.
    ///
    /// # Errors
    /// The first error, or data that reads back wrong.
    pub fn run(
        &self,
        scenario: Scenario,
        target: &mut dyn Target,
        round: u32,
        samples: &mut Vec<Sample>,
    ) -> Result<(), LabError> {
        let directory = target.directory().join(PLAYGROUND);
        clear(&directory)?;
        std::fs::create_dir(&directory).map_err(LabError::io("create", &directory))?;
        target.sync()?;
        let mut run = Run { prepared: self, target, directory: directory.clone(), round, samples };
        let ran = match scenario {
            Scenario::Small => run.small(),
            Scenario::Fsync => run.fsync(),
            Scenario::Large => run.large(),
            Scenario::Tree => run.tree(),
            Scenario::Clients => run.clients(),
            Scenario::Kernel => run.kernel(),
            Scenario::Git => run.git(),
            Scenario::Build => run.build(),
            Scenario::Database => run.database(),
        };
        if ran.is_err() && target.is_scratch() {
            return ran;
        }
        let cleared = clear(&directory).and_then(|()| target.sync());
        ran.and(cleared)
    }
}

pub(super) fn clear(directory: &Path) -> Result<(), LabError> {
    match std::fs::remove_dir_all(directory) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(LabError::io("remove", directory)(e)),
        _ => Ok(()),
    }
}

/// One scenario on one target in one round.
pub(super) struct Run<'a> {
    pub prepared: &'a Prepared<'a>,
    pub target: &'a mut dyn Target,
    pub directory: PathBuf,
    round: u32,
    samples: &'a mut Vec<Sample>,
}

impl Run<'_> {
    /// Starts measuring, with the daemon that serves the target now.
    fn meter(&self) -> Meter {
        Meter::start(self.target.served().map(|served| served.pid))
    }

    fn record(&mut self, task: Task, durability: Durability, taken: Taken) {
        self.samples.push(Sample {
            task,
            durability,
            target: self.target.name().to_owned(),
            round: self.round,
            taken,
        });
    }

    /// Times `work`, then the target's sync after it: a buffered and a durable sample.
    pub fn time_synced(
        &mut self,
        task: Task,
        work: impl FnOnce(&Path, &Workload) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        self.prepared.stop.check()?;
        let mut meter = self.meter();
        work(&self.directory, self.prepared.workload)?;
        let buffered = meter.read();
        self.target.sync()?;
        let durable = meter.read();
        self.record(task, Durability::Buffered, buffered);
        self.record(task, Durability::Durable, durable);
        Ok(())
    }

    /// Times a read with cold caches; skipped if this process may not drop them.
    fn time_cold(
        &mut self,
        task: Task,
        work: impl FnOnce(&Path, &Workload) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        if !self.prepared.cold_reads {
            return Ok(());
        }
        self.prepared.stop.check()?;
        self.target.make_cold()?;
        let mut meter = self.meter();
        work(&self.directory, self.prepared.workload)?;
        self.record(task, Durability::Cold, meter.read());
        Ok(())
    }

    fn small(&mut self) -> Result<(), LabError> {
        let stop = self.prepared.stop;
        self.time_synced(Task::CreateSmall, |dir, w| {
            create_files(dir, 0..u64::from(w.small_files), w.small_bytes, stop)
        })?;
        self.time_cold(Task::ReadSmall, |dir, w| read_small(dir, w, stop))?;
        self.time_synced(Task::DeleteSmall, |dir, w| {
            (0..u64::from(w.small_files)).try_for_each(|i| {
                stop.check()?;
                let path = small_path(dir, i);
                std::fs::remove_file(&path).map_err(LabError::io("remove", &path))
            })
        })
    }

    fn fsync(&mut self) -> Result<(), LabError> {
        let mut meter = self.meter();
        let w = self.prepared.workload;
        for i in 0..u64::from(w.fsync_files) {
            self.prepared.stop.check()?;
            let path = small_path(&self.directory, i);
            let file = create_file(&path, &content(i, w.small_bytes as usize))?;
            file.sync_all().map_err(LabError::io("fsync", &path))?;
        }
        self.record(Task::CreateFsync, Durability::Durable, meter.read());
        Ok(())
    }

    fn large(&mut self) -> Result<(), LabError> {
        let stop = self.prepared.stop;
        let path = self.directory.join("large");
        let file = create_file(&path, &[])?;
        self.write_units(Task::WriteSequential, &file, &path, 0)?;
        drop(file);
        self.time_cold(Task::ReadSequential, |_, w| read_large(&path, w, 0, stop))?;
        let order = &self.prepared.overwrite_order;
        self.time_cold(Task::ReadRandom, |_, w| read_units(&path, w, order, stop))?;
        let file = OpenOptions::new().write(true).open(&path).map_err(LabError::io("open", &path))?;
        self.write_units(Task::OverwriteRandom, &file, &path, 1)?;
        drop(file);
        self.time_cold(Task::Reread, |_, w| read_large(&path, w, 1, stop))
    }

    /// Writes every unit once, in order for version 0 and in random order after that, then fsyncs.
    fn write_units(&mut self, task: Task, file: &File, path: &Path, version: u64) -> Result<(), LabError> {
        let unit_bytes = self.prepared.workload.unit_bytes;
        let units = self.prepared.overwrite_order.len() as u64;
        let mut buffer = content(0, unit_bytes as usize);
        let mut meter = self.meter();
        for i in 0..units {
            self.prepared.stop.check()?;
            let unit = if version == 0 { i } else { self.prepared.overwrite_order[i as usize] };
            stamp(&mut buffer, unit + version * units);
            file.write_all_at(&buffer, unit * u64::from(unit_bytes)).map_err(LabError::io("write", path))?;
        }
        let buffered = meter.read();
        file.sync_all().map_err(LabError::io("fsync", path))?;
        let durable = meter.read();
        self.record(task, Durability::Buffered, buffered);
        self.record(task, Durability::Durable, durable);
        Ok(())
    }

    fn kernel(&mut self) -> Result<(), LabError> {
        self.unpack(Task::UnpackKernel, self.prepared.kernel.as_ref())
    }

    fn unpack(&mut self, task: Task, archive: Option<&Archive>) -> Result<(), LabError> {
        let Some((_, archive)) = archive else {
            return Err(LabError::Setup("the archive to unpack was not prepared".to_owned()));
        };
        self.time_synced(task, |dir, _| {
            tool::run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(dir))
        })
    }

    fn tree(&mut self) -> Result<(), LabError> {
        self.unpack(Task::Unpack, self.prepared.archive.as_ref())?;
        let find = |dir: &Path| tool::run(Command::new("find").arg(dir).args(["-name", "*.rs"]));
        let mut meter = self.meter();
        find(&self.directory)?;
        self.record(Task::Find, Durability::Warm, meter.read());
        self.time_cold(Task::Find, |dir, _| find(dir))?;
        self.time_synced(Task::RemoveTree, |dir, _| {
            tool::run(Command::new("rm").arg("-rf").arg(dir.join(super::tree::TOP)))
        })
    }
}

impl Run<'_> {
    fn git(&mut self) -> Result<(), LabError> {
        let programs = &self.prepared.programs;
        self.time_synced(Task::GitClone, |dir, _| programs.clone_repository(&dir.join("clone")))
    }

    fn build(&mut self) -> Result<(), LabError> {
        super::programs::write_project(&self.directory, self.prepared.workload.crates)?;
        self.target.sync()?;
        self.time_synced(Task::Build, |dir, _| super::programs::build(dir))
    }

    /// Each transaction is durable when it ends, so there is no buffered time.
    fn database(&mut self) -> Result<(), LabError> {
        self.prepared.stop.check()?;
        let database = self.directory.join("database");
        let mut meter = self.meter();
        self.prepared.programs.transact(&database)?;
        self.record(Task::Transactions, Durability::Durable, meter.read());
        super::programs::count_rows(&database, self.prepared.workload.transactions)
    }
}

/// Nanoseconds since `start`.
pub(super) fn elapsed_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Name of the i-th small file in a directory.
pub(super) fn small_name(i: u64) -> String {
    format!("file-{i:07}")
}

pub(super) fn small_path(directory: &Path, i: u64) -> PathBuf {
    directory.join(small_name(i))
}

/// Incompressible bytes that differ from file to file and are the same on every call.
pub(super) fn content(seed: u64, len_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; len_bytes];
    rand_pcg::Pcg64::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// Stamps a unit of the large file with its number.
pub(super) fn stamp(unit: &mut [u8], number: u64) {
    unit[..8].copy_from_slice(&number.to_le_bytes());
}

/// Creates files `range` of `len_bytes` each.
pub(super) fn create_files(
    directory: &Path,
    range: std::ops::Range<u64>,
    len_bytes: u32,
    stop: &Stop,
) -> Result<(), LabError> {
    let mut bytes = content(0, len_bytes as usize);
    range.into_iter().try_for_each(|i| {
        stop.check()?;
        let stamp_bytes = bytes.len().min(8);
        bytes[..stamp_bytes].copy_from_slice(&i.to_le_bytes()[..stamp_bytes]);
        create_file(&small_path(directory, i), &bytes).map(drop)
    })
}

pub(super) fn create_file(path: &Path, bytes: &[u8]) -> Result<File, LabError> {
    let mut file =
        OpenOptions::new().write(true).create_new(true).open(path).map_err(LabError::io("create", path))?;
    file.write_all(bytes).map_err(LabError::io("write", path))?;
    Ok(file)
}

fn read_small(directory: &Path, w: &Workload, stop: &Stop) -> Result<(), LabError> {
    let mut expected = content(0, w.small_bytes as usize);
    let stamp_bytes = expected.len().min(8);
    let mut found = vec![0; expected.len() + 1];
    for i in 0..u64::from(w.small_files) {
        stop.check()?;
        let path = small_path(directory, i);
        expected[..stamp_bytes].copy_from_slice(&i.to_le_bytes()[..stamp_bytes]);
        let len = read_whole(&path, &mut found).map_err(LabError::io("read", &path))?;
        check(&path, 0, &found[..len], &expected)?;
    }
    Ok(())
}

/// Open, read until the end or until `out` is full, close; returns how much was read. `read_to_end` would ask for the time of birth first, with its statx(2):
/// through FUSE a request more for each file (docs/internals/fuse.md).
fn read_whole(path: &Path, out: &mut [u8]) -> std::io::Result<usize> {
    let mut file = File::open(path)?;
    let mut len = 0;
    loop {
        match file.read(&mut out[len..])? {
            0 => return Ok(len),
            more => len += more,
        }
    }
}

fn read_large(path: &Path, w: &Workload, version: u64, stop: &Stop) -> Result<(), LabError> {
    let units = w.large_bytes / u64::from(w.unit_bytes);
    let mut expected = content(0, w.unit_bytes as usize);
    let mut found = vec![0; expected.len()];
    let mut file = File::open(path).map_err(LabError::io("open", path))?;
    for unit in 0..units {
        stop.check()?;
        stamp(&mut expected, unit + version * units);
        file.read_exact(&mut found).map_err(LabError::io("read", path))?;
        check(path, unit * u64::from(w.unit_bytes), &found, &expected)?;
    }
    Ok(())
}

/// Reads every unit of version 0 once, in that order.
fn read_units(path: &Path, w: &Workload, order: &[u64], stop: &Stop) -> Result<(), LabError> {
    let mut expected = content(0, w.unit_bytes as usize);
    let mut found = vec![0; expected.len()];
    let file = File::open(path).map_err(LabError::io("open", path))?;
    for &unit in order {
        stop.check()?;
        let at_bytes = unit * u64::from(w.unit_bytes);
        stamp(&mut expected, unit);
        file.read_exact_at(&mut found, at_bytes).map_err(LabError::io("read", path))?;
        check(path, at_bytes, &found, &expected)?;
    }
    Ok(())
}

fn check(path: &Path, at_bytes: u64, found: &[u8], expected: &[u8]) -> Result<(), LabError> {
    if found == expected {
        return Ok(());
    }
    let same = found.iter().zip(expected).take_while(|(a, b)| a == b).count();
    Err(LabError::WrongData { path: path.to_owned(), at_bytes: at_bytes + same as u64 })
}

#[cfg(test)]
#[path = "scenario_tests.rs"]
mod tests;
