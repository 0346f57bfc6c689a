//! What a client of the floor does: one task, many times, through system calls.
//!
//! Each call of [`Client::run`] uses names and files that no earlier one has used, so the kernel has none of them cached.

use crate::LabError;
use rustix::fs::{Mode, Timespec, Timestamps};
use rustix::process::{getgid, getuid};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes of a write and of a read call.
pub const CALL_BYTES: usize = 8192;
/// Bytes of a small file.
const SMALL_BYTES: usize = 1024;
/// What names begin with that the floor says exist: large files, small ones, directories.
const EXISTING: &str = "have";
const SMALL: &str = "small";
const DIRECTORY: &str = "tree";
/// Names in a directory: those that exist have as many, and so do those that are unpacked.
const NAMES: u32 = 14;
/// Bytes of an unpacked file.
const UNPACKED_BYTES: usize = 8192;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// stat(2) of a name that the kernel does not know: LOOKUP.
    Lookup,
    /// Write(2) of 8 KiB, with one fsync(2) at the end: WRITE, or what the kernel makes of several in its write-back cache.
    Write,
    /// A file of 1 KiB is created, written and closed.
    Create,
    /// unlink(2) of such a file.
    Unlink,
    /// read(2) of 8 KiB, in sequence, of a file that is not cached.
    Read,
    /// A file of 1 KiB that the kernel does not know is opened and read: LOOKUP, READ.
    ReadSmall,
    /// A directory of 14 names that the kernel does not know is listed, as find(1) does: LOOKUP, READDIRPLUS until nothing is left.
    List,
    /// What tar(1) does for a file of 8 KiB as root: create, write, times, owner, mode, close; for each 14 files mkdir(2) before.
    Unpack,
}

impl Task {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 8] = [
        Self::Lookup,
        Self::Write,
        Self::Create,
        Self::Unlink,
        Self::Read,
        Self::ReadSmall,
        Self::List,
        Self::Unpack,
    ];

    /// As the report calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lookup => "look a name up",
            Self::Write => "write 8 KiB",
            Self::Create => "create, write 1 KiB, close",
            Self::Unlink => "unlink",
            Self::Read => "read 8 KiB in sequence",
            Self::ReadSmall => "open and read 1 KiB",
            Self::List => "list a directory of 14",
            Self::Unpack => "unpack a file of 8 KiB",
        }
    }
}

/// One client.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Client {
    /// Where the floor is mounted.
    pub directory: PathBuf,
    /// What to do.
    pub task: Task,
    /// How often, at least once.
    pub count: u32,
    /// Makes the names of this run its own.
    pub run: u32,
    /// The processor that it stays on.
    pub processor: Option<usize>,
}

/// What a client measured.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Taken {
    /// Time for all of it, in nanoseconds.
    pub elapsed_ns: u64,
    /// Processor time that the client itself took, in nanoseconds.
    pub processor_ns: u64,
}

impl Client {
    /// Prepares, calls `begin` and waits for it to return, and measures.
    ///
    /// # Errors
    /// A system call failed.
    pub fn run(&self, begin: impl FnOnce() -> Result<(), LabError>) -> Result<Taken, LabError> {
        if let Some(processor) = self.processor {
            let mut set = CpuSet::new();
            set.set(processor);
            sched_setaffinity(None, &set)
                .map_err(|e| LabError::Setup(format!("processor {processor} cannot be used: {e}")))?;
        }
        let small = self.directory.join(format!("made{}.", self.run));
        let mut file = match self.task {
            Task::Write => Some(self.create(&self.directory.join(format!("large{}", self.run)))?),
            Task::Read => {
                let path = self.directory.join(format!("{EXISTING}{}", self.run));
                Some(File::open(&path).map_err(LabError::io("open", &path))?)
            }
            Task::Unlink => {
                (0..self.count).try_for_each(|n| self.create(&numbered(&small, n)).map(drop))?;
                None
            }
            Task::Lookup | Task::Create | Task::ReadSmall | Task::List | Task::Unpack => None,
        };
        begin()?;
        let (start, processor_before) = (Instant::now(), processor_ns());
        for n in 0..self.count {
            self.do_once(n, &small, file.as_mut())?;
        }
        if let (Task::Write, Some(file)) = (self.task, &file) {
            file.sync_all().map_err(LabError::io("fsync", &self.directory))?;
        }
        let elapsed_ns = start.elapsed().as_nanos() as u64;
        Ok(Taken { elapsed_ns, processor_ns: processor_ns() - processor_before })
    }

    fn create(&self, path: &Path) -> Result<File, LabError> {
        File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(LabError::io("create", path))
    }

    fn do_once(&self, n: u32, small: &Path, file: Option<&mut File>) -> Result<(), LabError> {
        match (self.task, file) {
            (Task::Lookup, _) => {
                let path = self.directory.join(format!("{EXISTING}{}.{n}", self.run));
                path.symlink_metadata().map(drop).map_err(LabError::io("look up", &path))
            }
            (Task::Create, _) => {
                let path = numbered(small, n);
                self.create(&path)?.write_all(&[1; SMALL_BYTES]).map_err(LabError::io("write", &path))
            }
            (Task::Unlink, _) => {
                let path = numbered(small, n);
                std::fs::remove_file(&path).map_err(LabError::io("unlink", &path))
            }
            (Task::Write, Some(file)) => file
                .write_all_at(&[1; CALL_BYTES], u64::from(n) * CALL_BYTES as u64)
                .map_err(LabError::io("write", &self.directory)),
            (Task::Read, Some(file)) => {
                file.read_exact(&mut [0; CALL_BYTES]).map_err(LabError::io("read", &self.directory))
            }
            (Task::ReadSmall, _) => {
                let path = self.directory.join(format!("{SMALL}{}.{n}", self.run));
                let read = File::open(&path).and_then(|mut file| file.read_exact(&mut [0; SMALL_BYTES]));
                read.map_err(LabError::io("read", &path))
            }
            (Task::List, _) => {
                let path = self.directory.join(format!("{DIRECTORY}{}.{n}", self.run));
                let listed = std::fs::read_dir(&path).and_then(|names| names.collect::<Result<Vec<_>, _>>());
                match listed.map_err(LabError::io("list", &path))?.len() {
                    len if len == NAMES as usize => Ok(()),
                    len => Err(LabError::Setup(format!("{} has {len} names", path.display()))),
                }
            }
            (Task::Unpack, _) => self.unpack(n, small),
            (Task::Write | Task::Read, None) => Ok(()),
        }
    }

    fn unpack(&self, n: u32, stem: &Path) -> Result<(), LabError> {
        let directory = numbered(stem, n / NAMES);
        if n.is_multiple_of(NAMES) {
            std::fs::create_dir(&directory).map_err(LabError::io("create", &directory))?;
        }
        let path = directory.join(n.to_string());
        let set = |file: File| {
            let now = Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
            rustix::fs::futimens(&file, &Timestamps { last_access: now, last_modification: now })?;
            rustix::fs::fchown(&file, Some(getuid()), Some(getgid()))?;
            rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH)
        };
        let made = File::options().create_new(true).write(true).open(&path);
        let written = made.and_then(|mut file| file.write_all(&[1; UNPACKED_BYTES]).map(|()| file));
        written.and_then(|file| Ok(set(file)?)).map_err(LabError::io("unpack", &path))
    }
}

fn numbered(stem: &Path, n: u32) -> PathBuf {
    let mut path = stem.as_os_str().to_owned();
    path.push(n.to_string());
    path.into()
}

/// Processor time of this process so far.
#[must_use]
pub fn processor_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_does_as_often_as_it_says_what_it_says() {
        let directory = tempfile::tempdir().unwrap();
        let client = |task, run| Client {
            directory: directory.path().to_owned(),
            task,
            count: 3,
            run,
            processor: Some(0),
        };
        let begin = || Ok(());
        client(Task::Create, 1).run(begin).unwrap();
        client(Task::Write, 1).run(begin).unwrap();
        let size = |name: &str| std::fs::metadata(directory.path().join(name)).unwrap().len();
        assert_eq!([size("made1.0"), size("made1.2"), size("large1")], [1024, 1024, 3 * 8192]);
        client(Task::Unlink, 1).run(begin).unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        // On a file system where names have to exist.
        assert!(client(Task::Lookup, 1).run(begin).is_err());
        (0..3).for_each(|n| std::fs::write(directory.path().join(format!("have2.{n}")), "").unwrap());
        std::fs::write(directory.path().join("have2"), vec![0; 3 * CALL_BYTES]).unwrap();
        assert!(client(Task::Lookup, 2).run(begin).unwrap().elapsed_ns > 0);
        client(Task::Read, 2).run(begin).unwrap();
        (0..3).for_each(|n| std::fs::write(directory.path().join(format!("small2.{n}")), [0; 1024]).unwrap());
        client(Task::ReadSmall, 2).run(begin).unwrap();
        client(Task::Unpack, 3).run(begin).unwrap();
        let unpacked = directory.path().join("made3.0");
        assert_eq!(std::fs::metadata(unpacked.join("2")).unwrap().len(), 8192);
        let listed = directory.path().join("tree3.0");
        std::fs::rename(&unpacked, &listed).unwrap();
        let once = Client { count: 1, ..client(Task::List, 3) };
        assert!(once.run(begin).is_err(), "it has three names");
        (3..14).for_each(|n| std::fs::write(listed.join(n.to_string()), "").unwrap());
        once.run(begin).unwrap();
    }
}
