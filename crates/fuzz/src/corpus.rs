//! The corpus: one directory per target, one file per input.
//!
//! `seed-*` files are structures of the specimen volume (`firn-fuzz seed` rewrites them after a change of the format);
//! all others are inputs that once caused a finding and must pass for ever.

use crate::targets::Target;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The place of the corpus in this source tree.
#[must_use]
pub fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// Inputs of a target, sorted by file name. Empty if there is no directory.
///
/// # Errors
/// A file cannot be read.
pub fn load(home: &Path, target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let directory = home.join(target.name);
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = fs::read_dir(&directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<PathBuf>>>()?;
    files.sort();
    files.iter().map(fs::read).collect()
}

/// Replaces the seeds of a target; returns how many it wrote.
///
/// # Errors
/// The directory cannot be written.
pub fn seed(home: &Path, target: &Target) -> io::Result<usize> {
    let directory = home.join(target.name);
    fs::create_dir_all(&directory)?;
    for entry in fs::read_dir(&directory)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("seed-") {
            fs::remove_file(entry.path())?;
        }
    }
    let seeds = (target.seeds)();
    for (number, bytes) in seeds.iter().enumerate() {
        fs::write(directory.join(format!("seed-{number:02}")), bytes)?;
    }
    Ok(seeds.len())
}

/// Keeps an input that caused a finding.
///
/// # Errors
/// The directory cannot be written.
pub fn keep(home: &Path, target: &str, token: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let directory = home.join(target);
    fs::create_dir_all(&directory)?;
    let file = directory.join(format!("found-{}", token.replace(':', "-")));
    fs::write(&file, bytes)?;
    Ok(file)
}
