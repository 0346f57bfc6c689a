//! The papers' workloads, and two of others, on mounted directories in real time (`firn bench DIR...`).
//!
//! Every round runs every workload once on every directory; the order of the directories rotates, so that disturbances of the machine
//! affect all of them alike. Phases that write include the sync that makes the data durable. Before a phase that reads, the
//! kernel is asked to forget the files' content, which needs no rights; what a daemon or a disk caches stays. All data that is
//! read is compared with what was written.
//!
//! `files`, `andrew`, `tpcb` and `mail` have the workloads, `report` the medians and ratios. Caller: `firn bench`.

mod andrew;
mod files;
mod mail;
mod report;
mod tpcb;

pub use report::{Report, Row, Value};

use crate::error::LabError;
use crate::micro::environment::Environment;
use crate::micro::stop::Stop;
use crate::micro::target::Target;
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Many files of 1 KB are created, read and deleted (Sprite LFS, figure 8).
    SmallFiles,
    /// A file is written, read, written at random, and read again (Sprite LFS, figure 9).
    LargeFile,
    /// Files of one size after the other are created, read, overwritten and deleted (USENIX'95, figures 3 to 6).
    BySize,
    /// A tree is made, copied, examined, read and compiled by the C compiler (Andrew).
    Andrew,
    /// Transactions on accounts, tellers, branches and a history, whose sums are compared afterwards (TPC-B).
    Tpcb,
    /// A pool of small files is created, read, appended to and deleted (as PostMark).
    Postmark,
    /// Mail is delivered with fsyncs, read and deleted (as Filebench's varmail).
    Varmail,
}

impl Workload {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 7] = [
        Self::SmallFiles,
        Self::LargeFile,
        Self::BySize,
        Self::Andrew,
        Self::Tpcb,
        Self::Postmark,
        Self::Varmail,
    ];

    /// Its name in the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SmallFiles => "small-files",
            Self::LargeFile => "large-file",
            Self::BySize => "by-size",
            Self::Andrew => "andrew",
            Self::Tpcb => "tpcb",
            Self::Postmark => "postmark",
            Self::Varmail => "varmail",
        }
    }

    fn run(self, place: &Place<'_>) -> Result<Vec<Measured>, LabError> {
        match self {
            Self::SmallFiles => files::small(place),
            Self::LargeFile => files::large(place),
            Self::BySize => files::by_size(place),
            Self::Andrew => andrew::run(place),
            Self::Tpcb => tpcb::run(place),
            Self::Postmark => mail::postmark(place),
            Self::Varmail => mail::varmail(place),
        }
    }
}

/// What to run.
pub struct Plan {
    /// The directories; their names are unique.
    pub targets: Vec<Box<dyn Target>>,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// Rounds, at least 1.
    pub rounds: u32,
    /// All amounts are divided by this, at least 1.
    pub shrink: u64,
    /// Ends the run early.
    pub stop: Stop,
}

/// One phase of a workload, once.
#[derive(Clone, Debug, PartialEq)]
struct Measured {
    phase: String,
    operations: u64,
    elapsed_ns: u64,
}

/// Where a workload runs: an empty directory, removed afterwards.
struct Place<'a> {
    directory: PathBuf,
    target: &'a dyn Target,
    shrink: u64,
    stop: &'a Stop,
}

impl Place<'_> {
    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.join(name)
    }

    /// An amount of the full size, divided, at least `least`.
    fn amount(&self, full: u64, least: u64) -> u64 {
        (full / self.shrink).max(least)
    }

    /// Times a phase, in which `work` says how many operations it carried out.
    fn time(
        &self,
        phase: impl Into<String>,
        work: impl FnOnce() -> Result<u64, LabError>,
    ) -> Result<Measured, LabError> {
        let start = Instant::now();
        let operations = work()?;
        let elapsed_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1);
        self.stop.check()?;
        Ok(Measured { phase: phase.into(), operations, elapsed_ns })
    }

    /// The same, with a sync of the file system at its end.
    fn time_durable(
        &self,
        phase: impl Into<String>,
        work: impl FnOnce() -> Result<u64, LabError>,
    ) -> Result<Measured, LabError> {
        self.time(phase, || {
            let operations = work()?;
            self.target.sync()?;
            Ok(operations)
        })
    }
}

/// Asks the kernel to forget a file's content.
fn forget(path: &Path) -> Result<(), LabError> {
    let file = File::open(path).map_err(LabError::io("open", path))?;
    // Advice: a file system that ignores it reads from memory.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(())
}

/// An error unless content is as it was written.
fn expect(path: &Path, found: &[u8], written: &[u8]) -> Result<(), LabError> {
    if found == written {
        return Ok(());
    }
    let same = found.iter().zip(written).take_while(|(a, b)| a == b).count();
    Err(LabError::WrongData { path: path.to_owned(), at_bytes: same as u64 })
}

/// The directory of a run within a target's; removed when it is dropped.
struct Playground(PathBuf);

const PLAYGROUND: &str = "firn-bench-workloads";

impl Playground {
    fn make(target: &dyn Target) -> Result<Self, LabError> {
        let path = target.directory().join(PLAYGROUND);
        std::fs::create_dir(&path).map_err(LabError::io("create", &path))?;
        Ok(Self(path))
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        // The error would be useless: the run is over or has failed already.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the plan. Tells `progress` how many of how many steps are done, and what is next.
///
/// # Errors
/// The first error ends the run, since an incomplete benchmark compares nothing. `Interrupted` if it was asked to stop.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(u64, u64, &str)) -> Result<Report, LabError> {
    let environment = Environment::observe();
    let total = u64::from(plan.rounds) * (plan.workloads.len() * plan.targets.len()) as u64;
    let (mut samples, mut done) = (Vec::new(), 0);
    for round in 0..plan.rounds {
        for &workload in &plan.workloads {
            for turn in 0..plan.targets.len() {
                let number = (turn + round as usize) % plan.targets.len();
                let target = plan.targets[number].as_ref();
                progress(
                    done,
                    total,
                    &format!("round {}: {} on {}", round + 1, workload.name(), target.name()),
                );
                let playground = Playground::make(target)?;
                let place =
                    Place { directory: playground.0.clone(), target, shrink: plan.shrink, stop: &plan.stop };
                let measured = workload.run(&place)?;
                samples.extend(measured.into_iter().map(|measured| report::Sample {
                    workload,
                    target: number,
                    round,
                    measured,
                }));
                done += 1;
            }
        }
    }
    let names = plan.targets.iter().map(|target| target.name().to_owned()).collect();
    Ok(report::of(environment, names, plan, &samples))
}

#[cfg(test)]
mod tests;
