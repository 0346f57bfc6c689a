//! Reads and copies whole trees: each directory in the order in which it lists its files, as grep -r, tar and cp do.

use crate::error::LabError;
use crate::micro::stop::Stop;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Instant;

/// Bytes of one read(2).
const UNIT_BYTES: usize = 128 << 10;

/// What was read.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Tree {
    pub files: u64,
    pub bytes: u64,
    pub seconds: f64,
}

/// Reads all files below a directory.
///
/// # Errors
/// The system refuses; `Interrupted`.
pub(super) fn read(root: &Path, stop: &Stop) -> Result<Tree, LabError> {
    let (began, mut tree) = (Instant::now(), Tree::default());
    let mut buffer = vec![0; UNIT_BYTES];
    walk(root, &mut |path, is_directory| {
        if is_directory {
            return stop.check();
        }
        let mut file = File::open(path).map_err(LabError::io("open", path))?;
        tree.files += 1;
        loop {
            let len = file.read(&mut buffer).map_err(LabError::io("read", path))?;
            tree.bytes += len as u64;
            if len == 0 {
                return Ok(());
            }
        }
    })?;
    tree.seconds = began.elapsed().as_secs_f64();
    Ok(tree)
}

/// Copies all directories and files below one to another.
///
/// # Errors
/// The system refuses; `Interrupted`.
pub(super) fn copy(from: &Path, to: &Path, stop: &Stop) -> Result<(), LabError> {
    walk(from, &mut |path, is_directory| {
        let below = path.strip_prefix(from).unwrap_or(path);
        let copy = to.join(below);
        if is_directory {
            stop.check()?;
            return fs::DirBuilder::new().mode(0o755).create(&copy).map_err(LabError::io("make", &copy));
        }
        fs::copy(path, &copy).map(drop).map_err(LabError::io("copy to", &copy))
    })
}

/// Visits everything below a directory. A directory comes before what it has, and all that it has before its neighbours' files.
fn walk(root: &Path, visit: &mut dyn FnMut(&Path, bool) -> Result<(), LabError>) -> Result<(), LabError> {
    let list = |dir: &Path| fs::read_dir(dir).map_err(LabError::io("list", dir));
    let mut open = vec![(root.to_owned(), list(root)?)];
    while let Some((dir, entries)) = open.last_mut() {
        let Some(entry) = entries.next() else {
            open.pop();
            continue;
        };
        let entry = entry.map_err(LabError::io("list", dir))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(LabError::io("examine", &path))?;
        visit(&path, kind.is_dir())?;
        if kind.is_dir() {
            let entries = list(&path)?;
            open.push((path, entries));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_every_file_and_reads_as_much() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        for dir in [&from, &to, &from.join("d"), &from.join("d/e")] {
            fs::create_dir(dir).unwrap();
        }
        for (name, len) in [("a", 1), ("d/b", 300_000), ("d/e/c", 0)] {
            fs::write(from.join(name), vec![7; len]).unwrap();
        }
        copy(&from, &to, &Stop::default()).unwrap();
        let (a, b) = (read(&from, &Stop::default()).unwrap(), read(&to, &Stop::default()).unwrap());
        assert_eq!((a.files, a.bytes, b.files, b.bytes), (3, 300_001, 3, 300_001));
        assert_eq!(fs::read(to.join("d/b")).unwrap(), vec![7; 300_000]);
        let stopped = Stop::default();
        stopped.flag().store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(matches!(read(&from, &stopped), Err(LabError::Interrupted)));
    }
}
