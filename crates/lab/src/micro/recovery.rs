//! The time to open a volume after a crash, if many small files were written after the last checkpoint.
//!
//! The volume is in memory, so that the figure is the cost of recovery and not the speed of a disk. Two more cases show that
//! the cost depends on the log's tail and not on the volume: a tenth of the files, and a volume ten times as large.

use super::report::{Figure, Spread};
use super::scenario::{content, elapsed_ns};
use super::stop::Stop;
use crate::LabError;
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{MemDevice, SparseImage, SystemClock};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_volume::Volume;
use std::sync::Arc;
use std::time::Instant;

/// The limit for recovering the files, in seconds.
const LIMIT_S: f64 = 1.0;
/// Space on the volume for each file, and in addition, in bytes.
const FILE_ROOM_BYTES: u64 = 8192;
const SPARE_BYTES: u64 = 128 << 20;

/// The files to recover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// Number of files.
    pub files: u64,
    /// Size of each in bytes.
    pub file_bytes: u32,
    /// How often each case is timed.
    pub rounds: u32,
}

impl Default for Recovery {
    fn default() -> Self {
        Self { files: 50_000, file_bytes: 1024, rounds: 5 }
    }
}

impl Recovery {
    /// Writes the files and times recoveries.
    ///
    /// # Errors
    /// The first error; also a recovery that finds nothing to recover; `Interrupted`.
    pub fn measure(&self, stop: &Stop) -> Result<Figure, LabError> {
        let size_bytes = self.files * FILE_ROOM_BYTES + SPARE_BYTES;
        let value = self.recoveries(self.files, size_bytes, stop)?;
        let fewer = self.recoveries(self.files / 10, size_bytes, stop)?;
        let larger = self.recoveries(self.files, 10 * size_bytes, stop)?;
        Ok(Figure {
            title: format!("recovery of {} files written after the last checkpoint, in seconds", self.files),
            value,
            limit: Some(LIMIT_S),
            at_least: false,
            detail: format!(
                "{:.3} s for {} files; {:.3} s on a volume ten times as large",
                fewer.median,
                self.files / 10,
                larger.median
            ),
        })
    }

    /// Seconds to recover this many files on a volume of that size.
    fn recoveries(&self, files: u64, size_bytes: u64, stop: &Stop) -> Result<Spread, LabError> {
        let failed = |action| move |source| LabError::Volume { action, source };
        let image = self.crashed(files, size_bytes).map_err(failed("filling the volume to recover"))?;
        let mut seconds = Vec::new();
        for _ in 0..self.rounds.max(1) {
            stop.check()?;
            let device = Arc::new(MemDevice::from_image(image.clone()));
            let start = Instant::now();
            let volume = open(device)?;
            seconds.push(elapsed_ns(start) as f64 / 1e9);
            let found = volume.run(|vfs, _| Ok(vfs.store().recovered().inodes));
            let found = found.map_err(failed("asking what was recovered"))?;
            if found < files {
                return Err(LabError::Setup(format!("{found} of {files} files were recovered")));
            }
        }
        Spread::of(&seconds).ok_or_else(|| LabError::Setup("no recoveries to time".to_owned()))
    }

    /// A volume whose power was cut after all files were synced, with no checkpoint since it was made.
    fn crashed(&self, files: u64, size_bytes: u64) -> Result<SparseImage, FsError> {
        let device = Arc::new(MemDevice::new(size_bytes));
        let mkfs = MkfsOptions {
            size_bytes,
            block_bytes: 4096,
            segment_bytes: 1 << 20,
            physical_block_bytes: 4096,
            inline_max_bytes: 2048,
            label: "recovery".to_owned(),
            uuid: *b"firnfs recovery!",
            hash_key: [1, 2],
            now: TimeNs(0),
            root_owner: (0, 0),
        };
        firnfs_manage::format(&*device, &mkfs)?;
        let volume = open(device.clone()).map_err(|e| FsError::Io(e.to_string()))?;
        let bytes = content(4, self.file_bytes as usize);
        let caller = Caller { uid: 0, gid: 0, umask: 0o022 };
        for n in 0..files {
            let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: &[] };
            let name = format!("file {n}");
            let make = |vfs: &mut firnfs::vfs::Vfs<Lfs>, now| {
                vfs.make(now, caller, InodeNo::ROOT, name.as_bytes(), node, false)
            };
            volume.write_all(volume.run(make)?.ino, 0, &bytes, false)?;
        }
        volume.sync(Scope::All)?;
        Ok(device.image())
    }
}

/// Opens a volume that never writes a checkpoint by itself.
fn open(device: Arc<MemDevice>) -> Result<Volume<Lfs>, LabError> {
    let options =
        Options { checkpoint_bytes: u64::MAX, checkpoint_interval_ms: u64::MAX, ..Options::default() };
    firnfs_manage::open(device, options, AtimeMode::Noatime, Arc::new(SystemClock))
        .map_err(|e| LabError::Setup(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recoveries_are_timed_and_find_every_file() {
        let figure =
            Recovery { files: 300, rounds: 2, ..Recovery::default() }.measure(&Stop::default()).unwrap();
        assert!(figure.value.min > 0.0 && figure.detail.contains("for 30 files"), "{figure:?}");
    }
}
