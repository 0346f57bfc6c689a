//! What a client of the floor does: one task, many times, through system calls.
//!
//! Each call of [`Client::run`] uses names and files that no earlier one has used, so the kernel has none of them cached.

use crate::LabError;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes of a write and of a read call.
pub const CALL_BYTES: usize = 8192;
/// Bytes of a created file.
const SMALL_BYTES: usize = 1024;
/// What names of files begin with that the floor says exist.
const EXISTING: &str = "have";

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// stat(2) of a name that the kernel does not know: LOOKUP.
    Lookup,
    /// write(2) of 8 KiB: WRITE.
    Write,
    /// A file of 1 KiB is created, written and closed.
    Create,
    /// unlink(2) of such a file.
    Unlink,
    /// read(2) of 8 KiB, in sequence, of a file that is not cached.
    Read,
}

impl Task {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 5] = [Self::Lookup, Self::Write, Self::Create, Self::Unlink, Self::Read];

    /// As the report calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lookup => "look a name up",
            Self::Write => "write 8 KiB",
            Self::Create => "create, write 1 KiB, close",
            Self::Unlink => "unlink",
            Self::Read => "read 8 KiB in sequence",
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
            Task::Lookup | Task::Create => None,
        };
        begin()?;
        let (start, processor_before) = (Instant::now(), processor_ns());
        for n in 0..self.count {
            self.do_once(n, &small, file.as_mut())?;
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
            (Task::Write | Task::Read, None) => Ok(()),
        }
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
    }
}
