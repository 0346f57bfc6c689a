//! The tree that the benchmark unpacks: a tar archive in memory with the shape of a source tree.
//!
//! Sizes follow the distribution of real source files (log-normal, median about 3 KiB, a few of several 100 KiB), in
//! directories of about 14 files, three levels deep. The same number of files always gives the same archive.

use super::stop::Stop;
use super::tool;
use crate::LabError;
use rand::{Rng, RngExt, SeedableRng};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory into which the archive unpacks.
pub const TOP: &str = "tree";

const FILES_PER_DIRECTORY: u32 = 14;
const DIRECTORIES_PER_PARENT: u32 = 24;
const MEDIAN_BYTES: f64 = 3000.0;
const SPREAD: f64 = 1.4;
const LARGEST_BYTES: usize = 1 << 20;

/// Makes the archive; it lives as long as the returned directory.
///
/// # Errors
/// Errors of writing it, or of tar(1); `Interrupted`.
pub fn make_archive(files: u32, stop: &Stop) -> Result<(tempfile::TempDir, PathBuf), LabError> {
    let home = in_memory()?;
    let top = home.path().join(TOP);
    write_tree(&top, files, stop)?;
    let archive = home.path().join("tree.tar");
    tool::run(
        Command::new("tar").args(["--sort=name", "-cf"]).arg(&archive).arg("-C").arg(home.path()).arg(TOP),
    )?;
    std::fs::remove_dir_all(&top).map_err(LabError::io("remove", &top))?;
    Ok((home, archive))
}

/// A directory in memory, if there is one, so that reading from it does not disturb a target's disk.
pub(super) fn in_memory() -> Result<tempfile::TempDir, LabError> {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new()
        .prefix("firn-bench-")
        .tempdir_in(&parent)
        .map_err(LabError::io("create a directory in", &parent))
}

/// Writes the files of the tree below `top`.
pub(super) fn write_tree(top: &Path, files: u32, stop: &Stop) -> Result<(), LabError> {
    let mut random = rand_pcg::Pcg64::seed_from_u64(8_000);
    let mut directory = top.to_owned();
    for i in 0..files {
        stop.check()?;
        if i % FILES_PER_DIRECTORY == 0 {
            let number = i / FILES_PER_DIRECTORY;
            directory = top
                .join(format!("group-{:02}", number / DIRECTORIES_PER_PARENT))
                .join(format!("module-{number:04}"));
            std::fs::create_dir_all(&directory).map_err(LabError::io("create", &directory))?;
        }
        let extension = if i % 3 == 0 { "rs" } else { "txt" };
        let path = directory.join(format!("source-{i:05}.{extension}"));
        let mut bytes = vec![0; size_of_file(&mut random)];
        random.fill_bytes(&mut bytes);
        std::fs::write(&path, &bytes).map_err(LabError::io("write", &path))?;
    }
    Ok(())
}

/// Log-normal: the sum of twelve uniform numbers approximates the normal distribution.
fn size_of_file(random: &mut rand_pcg::Pcg64) -> usize {
    let normal: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
    ((MEDIAN_BYTES * (SPREAD * normal).exp()) as usize).min(LARGEST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_holds_the_files_asked_for_and_is_the_same_every_time() {
        let (_home, archive) = make_archive(100, &Stop::default()).unwrap();
        let (_other_home, other) = make_archive(100, &Stop::default()).unwrap();
        let out = tempfile::tempdir().unwrap();
        tool::run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(out.path())).unwrap();
        let listing = Command::new("find").arg(out.path()).args(["-type", "f"]).output().unwrap();
        assert_eq!(String::from_utf8(listing.stdout).unwrap().lines().count(), 100);
        let contents = |path: &Path| {
            let listing = Command::new("tar").arg("-xOf").arg(path).output().unwrap();
            listing.stdout
        };
        assert_eq!(contents(&archive), contents(&other));
    }
}
