//! The log beside the Fast File System on the papers' machines: what Sprite LFS, BSD-LFS, USENIX'95 and File System Aging say of
//! FFS, or of LFS against FFS, as rows that hold or do not.
//!
//! `results` measures, with the benchmarks beside this folder and with `by_size` and `tpcb`; `published` has the papers' values
//! and what is known not to come out; `report` writes. All of it is in virtual time, so the values are the same on every
//! machine. Callers: `firn sim comparison`; the figures of the papers, which judge the same rows by their own runs.

mod by_size;
mod published;
mod report;
mod results;
mod tpcb;

pub use by_size::Rates;
pub use published::Row;
pub use report::markdown;

pub(in crate::hardware) use by_size::{Files, create_and_read, run as run_by_size};
pub(in crate::hardware) use results::{Bandwidth, Indirect, Micro, Results, Sized};
pub(in crate::hardware) use tpcb::run as run_transactions;

use crate::error::LabError;

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    /// Files of 1 KB.
    pub small_files: u64,
    /// Size of the large file.
    pub large_bytes: u64,
    /// Repetitions of a size, for the bandwidth.
    pub runs: u32,
    /// Data in files of one size,
    pub data_bytes: u64,
    /// in at least so many files,
    pub least_files: u64,
    /// and at most so many.
    pub most_files: u64,
    /// Size of the account file.
    pub account_bytes: u64,
    /// Transactions.
    pub transactions: u64,
}

impl Scale {
    /// As in the papers.
    pub const PAPER: Self = Self {
        small_files: 10_000,
        large_bytes: 100_000_000,
        runs: 50,
        data_bytes: 32 << 20,
        least_files: 10,
        most_files: u64::MAX,
        account_bytes: 237 << 20,
        transactions: 4000,
    };
    /// For a quick look, without the rows that depend on the sizes.
    pub const SHORT: Self = Self {
        small_files: 2000,
        large_bytes: 32 << 20,
        runs: 5,
        data_bytes: 8 << 20,
        least_files: 4,
        most_files: 1000,
        account_bytes: 237 << 20,
        transactions: 600,
    };
}

/// Measures, and judges every row.
///
/// # Errors
/// A volume cannot be made, or a file system failed.
pub fn run(scale: &Scale, progress: &mut dyn FnMut(f64)) -> Result<Vec<Row>, LabError> {
    Ok(rows(scale, &Results::measure(scale, progress)?))
}

fn rows(scale: &Scale, results: &Results) -> Vec<Row> {
    let rows = published::rows(results).into_iter();
    rows.filter(|row| *scale == Scale::PAPER || !row.needs_paper_sizes).collect()
}

/// Judges every row by measurements of the same benchmarks; a row without measurements has no number.
pub(in crate::hardware) fn judge(results: &Results) -> Vec<Row> {
    published::rows(results)
}

/// How many benchmarks [`run`] runs.
#[must_use]
pub fn step_count() -> usize {
    results::STEPS
}

#[cfg(test)]
mod tests;
