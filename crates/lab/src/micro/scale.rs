//! How the cost of an operation grows with the directory: times windows of creates, lookups and deletes at a small and at a
//! large number of files.
//!
//! Every window ends with a sync, so that its time includes deferred work. The lookups reach the file system: the kernel has
//! forgotten the names, or has never seen them.

use super::report::{Figure, Spread};
use super::scenario::{create_files, elapsed_ns, small_path};
use super::stop::Stop;
use super::target::{Target, drop_caches, may_drop_caches};
use crate::LabError;
use std::ops::Range;
use std::path::Path;
use std::time::Instant;

/// The name of the directory to fill.
const DIRECTORY: &str = "firn-bench-scale";

/// The timed operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operation {
    Create,
    /// Lookup of existing names.
    Lookup,
    /// Lookup of absent names.
    Miss,
    Delete,
}

/// All of them, in an order that leaves the size of the directory unchanged.
const OPERATIONS: [Operation; 4] = [Operation::Create, Operation::Lookup, Operation::Miss, Operation::Delete];

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Lookup => "lookup",
            Self::Miss => "lookup of nothing",
            Self::Delete => "delete",
        }
    }

    /// The limit for the cost among the many files relative to that among the few.
    fn limit(self) -> f64 {
        match self {
            Self::Create => 1.3,
            Self::Lookup | Self::Miss | Self::Delete => 2.5,
        }
    }

    /// Whether this process has the rights to time it.
    fn is_possible(self) -> bool {
        self != Self::Lookup || may_drop_caches()
    }
}

/// An operation, and the microseconds that each one takes.
type Timed = (Operation, Spread);

/// Numbers of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    /// Few.
    pub few: u64,
    /// Many.
    pub many: u64,
    /// Operations timed at a time.
    pub window: u64,
    /// Windows timed at either size.
    pub windows: u64,
    /// Size of each file in bytes.
    pub file_bytes: u32,
}

impl Default for Scale {
    fn default() -> Self {
        Self { few: 10_000, many: 1_000_000, window: 5_000, windows: 7, file_bytes: 1024 }
    }
}

impl Scale {
    /// Fills a directory on `target`, and removes it.
    ///
    /// # Errors
    /// The first error; `Interrupted`.
    pub fn measure(&self, target: &mut dyn Target, stop: &Stop) -> Result<Vec<Figure>, LabError> {
        let directory = target.directory().join(DIRECTORY);
        std::fs::create_dir(&directory).map_err(LabError::io("create", &directory))?;
        let timed = self.fill(target, &directory, stop);
        if timed.is_ok() || !target.is_scratch() {
            std::fs::remove_dir_all(&directory).map_err(LabError::io("remove", &directory))?;
            target.sync()?;
        }
        let (few, many) = timed?;
        let figures = few.into_iter().zip(many).map(|((operation, few), (_, many))| {
            let ratio = many.median / few.median;
            let name = operation.name();
            Figure {
                title: format!("cost per {name} at {} files against {} (durable)", self.many, self.few),
                value: Spread { median: ratio, min: many.min / few.max, max: many.max / few.min },
                limit: Some(operation.limit()),
                at_least: false,
                detail: format!("{:.1} us / {:.1} us a {name}", many.median, few.median),
            }
        });
        Ok(figures.collect())
    }

    /// Microseconds per operation among the few files and among the many.
    fn fill(
        &self,
        target: &dyn Target,
        directory: &Path,
        stop: &Stop,
    ) -> Result<(Vec<Timed>, Vec<Timed>), LabError> {
        create_files(directory, 0..self.few, self.file_bytes, stop)?;
        let few = self.all(target, directory, self.few, stop)?;
        create_files(directory, self.few..self.many.max(self.few), self.file_bytes, stop)?;
        let many = self.all(target, directory, self.many.max(self.few), stop)?;
        Ok((few, many))
    }

    /// Times each operation among that many files; afterwards there are as many again.
    fn all(
        &self,
        target: &dyn Target,
        directory: &Path,
        files: u64,
        stop: &Stop,
    ) -> Result<Vec<Timed>, LabError> {
        let possible = OPERATIONS.into_iter().filter(|operation| operation.is_possible());
        let timed = possible.map(|operation| {
            let costs = self.windows(operation, target, directory, files, stop)?;
            let spread =
                Spread::of(&costs).ok_or_else(|| LabError::Setup("no windows to time".to_owned()))?;
            Ok((operation, spread))
        });
        timed.collect()
    }

    /// Microseconds per operation, for each window.
    fn windows(
        &self,
        operation: Operation,
        target: &dyn Target,
        directory: &Path,
        files: u64,
        stop: &Stop,
    ) -> Result<Vec<f64>, LabError> {
        target.sync()?;
        let window = |number: u64| {
            let first = files + number * self.window;
            if operation == Operation::Lookup {
                drop_caches()?;
            }
            let start = Instant::now();
            self.window(operation, directory, first..first + self.window, files, stop)?;
            target.sync()?;
            Ok(elapsed_ns(start) as f64 / 1000.0 / self.window as f64)
        };
        (0..self.windows).map(window).collect()
    }

    /// `new`: numbers of files after the first `files`.
    fn window(
        &self,
        operation: Operation,
        directory: &Path,
        new: Range<u64>,
        files: u64,
        stop: &Stop,
    ) -> Result<(), LabError> {
        for number in new {
            stop.check()?;
            match operation {
                Operation::Create => create_files(directory, number..number + 1, self.file_bytes, stop)?,
                Operation::Lookup => {
                    // The same number of different ones at both sizes, so that the comparison does not measure the caches.
                    let back = scattered(number, self.few.min(files));
                    let path = small_path(directory, files - 1 - back);
                    path.symlink_metadata().map_err(LabError::io("look up", &path)).map(drop)?;
                }
                Operation::Miss => {
                    let path = directory.join(format!("absent-{number}"));
                    if path.symlink_metadata().is_ok() {
                        return Err(LabError::Setup(format!("{} is there", path.display())));
                    }
                }
                Operation::Delete => {
                    let path = small_path(directory, number);
                    std::fs::remove_file(&path).map_err(LabError::io("remove", &path))?;
                }
            }
        }
        Ok(())
    }
}

/// A number below `bound`, in scattered order.
fn scattered(number: u64, bound: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % bound.max(1)
}
