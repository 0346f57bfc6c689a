//! The two benchmarks of File System Aging (section 4), on any mounted directory, in real time.
//!
//! *Sequential*: files of one size, 32 MB together, at most 25 to a directory, are made, written and read. *Hot files*: files that changed
//! lately are read and overwritten in place, sorted by directory. Writing includes the sync that makes the data durable, since memory
//! holds more than 32 MB today. All content that is read back is compared with what was written; hot files keep theirs.

#[cfg(test)]
mod tests;

use super::replay::{By, Model, note};
use crate::error::LabError;
use firnfs_workload::{Op, Reader};
use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Data of a sequential run, in bytes.
pub const TOTAL_BYTES: u64 = 32 << 20;
/// Longest single read or write, in bytes.
const UNIT_BYTES: u64 = 4 << 20;
const FILES_PER_DIRECTORY: u64 = 25;
/// The benchmark's own directory, removed afterwards.
const PLAYGROUND: &str = "firn-age-bench";
const DAY_NS: i64 = 86_400_000_000_000;

/// What a benchmark needs of its caller; most get a directory.
pub trait Help {
    /// Called before each file is made, read or overwritten.
    ///
    /// # Errors
    /// The benchmark is to stop.
    fn go_on(&self) -> Result<(), LabError>;
    /// Makes everything durable.
    ///
    /// # Errors
    /// The system refuses.
    fn sync(&mut self, dir: &Path) -> Result<(), LabError>;
    /// Makes the next reads come from the device, as far as that is possible.
    ///
    /// # Errors
    /// The system refuses.
    fn cool(&mut self, dir: &Path) -> Result<(), LabError>;
    /// Sees the files of the last sequential run before they are removed.
    ///
    /// # Errors
    /// They cannot be examined.
    fn examine(&mut self, dir: &Path) -> Result<(), LabError>;
}

/// Mean and standard deviation over the runs, in MB (2^20 bytes) a second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rate {
    /// The mean.
    pub mean: f64,
    /// The standard deviation; 0 with one run.
    pub deviation: f64,
}

impl Rate {
    fn of(rates: &[f64]) -> Self {
        let count = rates.len().max(1) as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        Self { mean, deviation: if rates.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 } }
    }
}

fn mb_per_s(bytes: u64, began: Instant) -> f64 {
    bytes as f64 / (1 << 20) as f64 / began.elapsed().as_secs_f64().max(1e-9)
}

/// The result for one set of files.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row {
    /// Size of each file in bytes; of hot files, the mean.
    pub file_bytes: u64,
    /// How many files.
    pub files: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// Reading.
    pub read: Rate,
    /// Making and writing; of hot files, overwriting.
    pub write: Rate,
}

/// Removes the benchmark's directory, also after an error.
struct Playground(PathBuf);

impl Playground {
    fn make(dir: &Path) -> Result<Self, LabError> {
        let path = dir.join(PLAYGROUND);
        fs::create_dir(&path).map_err(LabError::io("make", &path))?;
        Ok(Self(path))
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        // What cannot be removed stays, and its name says whose it is.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn content(len_bytes: u64) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..len_bytes.div_ceil(8)).flat_map(|_| next()).collect();
    bytes.truncate(usize::try_from(len_bytes).unwrap_or(usize::MAX));
    bytes
}

/// The sequential benchmark for one size of files.
///
/// # Errors
/// The system refuses, or content is not what was written.
pub fn sequential(dir: &Path, file_bytes: u64, runs: u32, help: &mut dyn Help) -> Result<Row, LabError> {
    let files = (TOTAL_BYTES / file_bytes.max(1)).max(1);
    let bytes = files * file_bytes;
    let content = content(file_bytes.min(UNIT_BYTES));
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for run in 0..runs {
        let playground = Playground::make(dir)?;
        let began = Instant::now();
        let paths = write_files(&playground.0, (files, file_bytes), &content, help)?;
        help.sync(&playground.0)?;
        writes.push(mb_per_s(bytes, began));
        help.cool(&playground.0)?;
        let began = Instant::now();
        let mut buffer = vec![0; content.len()];
        for path in &paths {
            help.go_on()?;
            let mut file = File::open(path).map_err(LabError::io("open", path))?;
            for at_bytes in (0..file_bytes).step_by(UNIT_BYTES as usize) {
                let len = (file_bytes - at_bytes).min(UNIT_BYTES) as usize;
                file.read_exact(&mut buffer[..len]).map_err(LabError::io("read", path))?;
                if buffer[..len] != content[..len] {
                    return Err(LabError::WrongData { path: path.clone(), at_bytes });
                }
            }
        }
        reads.push(mb_per_s(bytes, began));
        if run + 1 == runs {
            help.examine(&playground.0)?;
        }
    }
    Ok(Row { file_bytes, files, bytes, read: Rate::of(&reads), write: Rate::of(&writes) })
}

fn write_files(
    root: &Path,
    (files, file_bytes): (u64, u64),
    content: &[u8],
    help: &dyn Help,
) -> Result<Vec<PathBuf>, LabError> {
    let mut paths = Vec::new();
    for nth in 0..files {
        help.go_on()?;
        let dir = root.join(format!("{}", nth / FILES_PER_DIRECTORY));
        if nth.is_multiple_of(FILES_PER_DIRECTORY) {
            fs::create_dir(&dir).map_err(LabError::io("make", &dir))?;
        }
        let path = dir.join(format!("{nth}"));
        let mut file = File::create_new(&path).map_err(LabError::io("make", &path))?;
        for at_bytes in (0..file_bytes).step_by(UNIT_BYTES as usize) {
            let len = (file_bytes - at_bytes).min(UNIT_BYTES) as usize;
            file.write_all(&content[..len]).map_err(LabError::io("write", &path))?;
        }
        paths.push(path);
    }
    Ok(paths)
}

/// The files below a directory that changed in that many days before the newest change.
///
/// # Errors
/// A directory cannot be listed.
pub fn hot_by_time(root: &Path, days: u32) -> Result<Vec<PathBuf>, LabError> {
    let device = fs::metadata(root).map_err(LabError::io("examine", root))?.dev();
    let (mut found, mut todo) = (Vec::new(), vec![root.to_owned()]);
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).map_err(LabError::io("list", &dir))? {
            let path = entry.map_err(LabError::io("list", &dir))?.path();
            let Ok(about) = fs::symlink_metadata(&path) else { continue };
            if about.is_dir() && about.dev() == device {
                todo.push(path);
            } else if about.is_file() && about.len() > 0 {
                found.push((about.ctime() * 1_000_000_000 + about.ctime_nsec(), path));
            }
        }
    }
    let newest_ns = found.iter().map(|(ctime_ns, _)| *ctime_ns).max().unwrap_or(0);
    let since_ns = newest_ns - i64::from(days) * DAY_NS;
    Ok(sorted(found.into_iter().filter(|(ctime_ns, _)| *ctime_ns >= since_ns).map(|(_, path)| path)))
}

/// The files that a workload, replayed on a directory, changed in its last days; without those for which there was no room.
///
/// # Errors
/// The workload is damaged, or does not know the groups by which it was replayed.
pub fn hot_by_workload<R: Read>(
    reader: Reader<R>,
    root: &Path,
    by: By,
    days: u32,
) -> Result<Vec<PathBuf>, LabError> {
    let mut model = Model::new(by, &reader.header().options)?;
    let mut changed_ns: BTreeMap<u64, u64> = BTreeMap::new();
    let mut end_ns = 0;
    for (number, record) in (1..).zip(reader) {
        let record = record.map_err(|error| LabError::Setup(error.to_string()))?;
        note(&mut model, &record, number)?;
        end_ns = end_ns.max(record.time_ns);
        let file = if record.made.is_some() { record.made.0 } else { record.file.0 };
        if matches!(record.op, Op::Create | Op::Rename | Op::Truncate | Op::Write) {
            changed_ns.insert(file, record.time_ns);
        }
    }
    let since_ns = end_ns.saturating_sub(u64::from(days) * DAY_NS.cast_unsigned());
    let is_hot = |file: u64| changed_ns.get(&file).is_some_and(|&at_ns| at_ns >= since_ns);
    let hot = model.files().filter(|(file, _, size_bytes)| *size_bytes > 0 && is_hot(*file));
    let paths = hot.map(|(_, spot, _)| root.join(spot.to_string()));
    Ok(sorted(paths.filter(|path| path.exists())))
}

/// By directory, then by name.
fn sorted(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.sort_by(|a, b| (a.parent(), a).cmp(&(b.parent(), b)));
    paths
}

/// The hot-file benchmark: reads the files, then overwrites each in place with what it has; the times of their content are set back.
///
/// # Errors
/// There is no file, or the system refuses.
pub fn hot(dir: &Path, paths: &[PathBuf], runs: u32, help: &mut dyn Help) -> Result<Row, LabError> {
    if paths.is_empty() {
        return Err(LabError::Setup("there are no hot files".to_owned()));
    }
    let (mut reads, mut writes, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut buffer = vec![0; UNIT_BYTES as usize];
    for _ in 0..runs {
        help.cool(dir)?;
        let began = Instant::now();
        bytes = 0;
        for path in paths {
            help.go_on()?;
            let mut file = File::open(path).map_err(LabError::io("open", path))?;
            loop {
                let len = file.read(&mut buffer).map_err(LabError::io("read", path))?;
                if len == 0 {
                    break;
                }
                bytes += len as u64;
            }
        }
        reads.push(mb_per_s(bytes, began));
        let mut seconds = 0.0;
        for path in paths {
            help.go_on()?;
            seconds += overwrite(path, &mut buffer)?;
        }
        let began = Instant::now();
        help.sync(dir)?;
        seconds += began.elapsed().as_secs_f64();
        writes.push(bytes as f64 / (1 << 20) as f64 / seconds.max(1e-9));
    }
    let files = paths.len() as u64;
    Ok(Row { file_bytes: bytes / files, files, bytes, read: Rate::of(&reads), write: Rate::of(&writes) })
}

/// Writes what a file has into it; the seconds that the writing took. Reading it before is not counted.
fn overwrite(path: &Path, buffer: &mut [u8]) -> Result<f64, LabError> {
    let file = File::options().read(true).write(true).open(path).map_err(LabError::io("open", path))?;
    let about = file.metadata().map_err(LabError::io("examine", path))?;
    let mut seconds = 0.0;
    let mut at_bytes = 0;
    loop {
        let len = file.read_at(buffer, at_bytes).map_err(LabError::io("read", path))?;
        if len == 0 {
            break;
        }
        let began = Instant::now();
        file.write_all_at(&buffer[..len], at_bytes).map_err(LabError::io("write", path))?;
        seconds += began.elapsed().as_secs_f64();
        at_bytes += len as u64;
    }
    if let Ok(modified) = about.modified() {
        file.set_times(FileTimes::new().set_modified(modified))
            .map_err(LabError::io("set the times of", path))?;
    }
    Ok(seconds)
}

/// Asks the kernel to forget what it has of the files below a directory. What a daemon or a disk caches stays.
///
/// # Errors
/// A directory cannot be listed, a file cannot be opened.
pub fn forget(dir: &Path) -> Result<(), LabError> {
    let mut todo = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).map_err(LabError::io("list", &dir))? {
            let path = entry.map_err(LabError::io("list", &dir))?.path();
            let Ok(about) = fs::symlink_metadata(&path) else { continue };
            if about.is_dir() {
                todo.push(path);
            } else if about.is_file() {
                let file = File::open(&path).map_err(LabError::io("open", &path))?;
                // Advice: a file system that ignores it reads from memory.
                let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            }
        }
    }
    Ok(())
}
