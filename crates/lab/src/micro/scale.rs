//! How the cost of a create grows with the directory: windows of creates at a small and at a large number of files.
//!
//! Every window ends with a sync, so that what it put off is in its time.

use super::report::{Figure, Spread};
use super::scenario::{create_files, elapsed_ns};
use super::stop::Stop;
use super::target::Target;
use crate::LabError;
use std::path::Path;
use std::time::Instant;

/// The most that a create among the many may cost relative to one among the few.
const LIMIT: f64 = 1.3;
/// The name of the directory that is filled.
const DIRECTORY: &str = "firn-bench-scale";

/// Numbers of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    /// Few.
    pub few: u64,
    /// Many.
    pub many: u64,
    /// Creates timed at a time.
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
    /// The first call that fails; `Interrupted`.
    pub fn measure(&self, target: &mut dyn Target, stop: &Stop) -> Result<Figure, LabError> {
        let directory = target.directory().join(DIRECTORY);
        std::fs::create_dir(&directory).map_err(LabError::io("create", &directory))?;
        let timed = self.fill(target, &directory, stop);
        if timed.is_ok() || !target.is_scratch() {
            std::fs::remove_dir_all(&directory).map_err(LabError::io("remove", &directory))?;
            target.sync()?;
        }
        let (few, many) = timed?;
        let ratio = many.median / few.median;
        Ok(Figure {
            title: format!("cost per create at {} files against {} (durable)", self.many, self.few),
            value: Spread { median: ratio, min: many.min / few.max, max: many.max / few.min },
            limit: Some(LIMIT),
            at_least: false,
            detail: format!("{:.1} us / {:.1} us a create", many.median, few.median),
        })
    }

    /// Microseconds a create among the few and among the many.
    fn fill(&self, target: &dyn Target, directory: &Path, stop: &Stop) -> Result<(Spread, Spread), LabError> {
        create_files(directory, 0..self.few, self.file_bytes, stop)?;
        let (few, at) = self.windows(target, directory, self.few, stop)?;
        create_files(directory, at..self.many.max(at), self.file_bytes, stop)?;
        let (many, _) = self.windows(target, directory, self.many.max(at), stop)?;
        Ok((few, many))
    }

    /// Microseconds a create, and the number of files afterwards.
    fn windows(
        &self,
        target: &dyn Target,
        directory: &Path,
        from: u64,
        stop: &Stop,
    ) -> Result<(Spread, u64), LabError> {
        target.sync()?;
        let mut costs = Vec::new();
        for window in 0..self.windows {
            let first = from + window * self.window;
            let start = Instant::now();
            create_files(directory, first..first + self.window, self.file_bytes, stop)?;
            target.sync()?;
            costs.push(elapsed_ns(start) as f64 / 1000.0 / self.window as f64);
        }
        let spread = Spread::of(&costs).ok_or_else(|| LabError::Setup("no windows to time".to_owned()))?;
        Ok((spread, from + self.windows * self.window))
    }
}
