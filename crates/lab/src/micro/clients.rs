//! Several clients at once: threads that share the files to create, each in a directory of its own, or the bytes to write, each in a file of
//! its own. The rows with one client are those of the small and the large files.
//!
//! Caller: `scenario`.

use super::scenario::{Run, clear, content, create_file, create_files, stamp};
use super::stop::Stop;
use super::task::{Task, Workload};
use crate::LabError;
use std::io::Write;
use std::path::{Path, PathBuf};

const CREATES: [Task; 4] = [Task::CreateTwo, Task::CreateFour, Task::CreateEight, Task::CreateSixteen];
const WRITES: [Task; 4] = [Task::WriteTwo, Task::WriteFour, Task::WriteEight, Task::WriteSixteen];

impl Run<'_> {
    /// All numbers of clients, first creating, then writing.
    pub fn clients(&mut self) -> Result<(), LabError> {
        let w = self.prepared.workload;
        CREATES.iter().try_for_each(|task| {
            self.together(*task, u64::from(w.small_files), |place, files, stop| {
                create_files(place, files, w.small_bytes, stop)
            })
        })?;
        WRITES.iter().try_for_each(|task| {
            let units = w.large_bytes / u64::from(w.unit_bytes);
            self.together(*task, units, |place, units, stop| write_units(&place.join("file"), units, w, stop))
        })
    }

    /// Divides `count` pieces of work among the clients of a task, each of which has a directory; times them together, then the target's sync.
    fn together(
        &mut self,
        task: Task,
        count: u64,
        work: impl Fn(&Path, std::ops::Range<u64>, &Stop) -> Result<(), LabError> + Sync,
    ) -> Result<(), LabError> {
        let clients = u64::from(task.clients());
        let places: Vec<PathBuf> = (0..clients).map(|n| self.directory.join(format!("client{n}"))).collect();
        for place in &places {
            std::fs::create_dir(place).map_err(LabError::io("create", place))?;
        }
        self.target.sync()?;
        let (stop, work) = (self.prepared.stop, &work);
        self.time_synced(task, |_, _| {
            std::thread::scope(|scope| {
                let share = |n: u64| n * count / clients..(n + 1) * count / clients;
                let started = (0..).zip(&places);
                let started = started.map(|(n, place)| scope.spawn(move || work(place, share(n), stop)));
                let started: Vec<_> = started.collect();
                let ended = started.into_iter().map(|client| {
                    client.join().unwrap_or_else(|_| Err(LabError::Setup("a client panicked".to_owned())))
                });
                // All are waited for, whatever the first says.
                ended.collect::<Vec<_>>().into_iter().collect()
            })
        })?;
        places.iter().try_for_each(|place| clear(place))
    }
}

/// Writes these units one after the other to a new file.
fn write_units(path: &Path, units: std::ops::Range<u64>, w: &Workload, stop: &Stop) -> Result<(), LabError> {
    let mut buffer = content(0, w.unit_bytes as usize);
    let mut file = create_file(path, &[])?;
    units.into_iter().try_for_each(|unit| {
        stop.check()?;
        stamp(&mut buffer, unit);
        file.write_all(&buffer).map_err(LabError::io("write", path))
    })
}
