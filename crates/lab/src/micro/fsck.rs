//! The time of the file system check, over many small files on an image of its own.
//!
//! The image is read past the page cache if the system allows it, so every round is a cold one.

use super::library::fresh_volume;
use super::report::{Figure, Spread};
use super::scenario::{content, elapsed_ns};
use super::stop::Stop;
use crate::LabError;
use firnfs::FsError;
use firnfs::check::From;
use firnfs::inode::Kind;
use firnfs::lfs::Lfs;
use firnfs::vfs::{Caller, NewNode};
use firnfs_device::{Access, FileDevice, FileOptions};
use firnfs_format::InodeNo;
use firnfs_volume::Volume;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The limit for checking [`FILES`] files, in seconds.
const LIMIT_S: f64 = 30.0;
/// Files of the figure.
const FILES: u64 = 1_000_000;
const FILES_A_DIRECTORY: u64 = 10_000;
/// Space on the image for each file, and in addition, in bytes.
const FILE_ROOM_BYTES: u64 = 4096;
const SPARE_BYTES: u64 = 1 << 30;

/// The files to check; the image is removed at the end.
pub struct Fsck {
    image: PathBuf,
    /// Number of files.
    pub files: u64,
    /// Size of each in bytes.
    pub file_bytes: u32,
    /// How often the check is timed.
    pub rounds: u32,
}

impl Fsck {
    /// On an image in `directory`.
    #[must_use]
    pub fn in_directory(directory: &Path) -> Self {
        Self { image: directory.join("firn-bench-fsck.img"), files: FILES, file_bytes: 1024, rounds: 3 }
    }

    /// Fills the image and times the check.
    ///
    /// # Errors
    /// The first error; also a check with findings; `Interrupted`.
    pub fn measure(&self, stop: &Stop) -> Result<Figure, LabError> {
        let made = File::create(&self.image).map_err(LabError::io("create", &self.image))?;
        made.set_len(self.files * FILE_ROOM_BYTES + SPARE_BYTES)
            .map_err(LabError::io("size", &self.image))?;
        let failed = |action| move |source| LabError::Volume { action, source };
        let volume = fresh_volume(&self.image)?;
        self.fill(&volume, stop)?;
        volume.close().map_err(failed("closing the volume to check"))?;
        drop(volume);
        let mut seconds = Vec::new();
        let mut live_bytes = 0;
        for _ in 0..self.rounds.max(1) {
            stop.check()?;
            let (elapsed_ns, live) = self.check()?;
            seconds.push(elapsed_ns as f64 / 1e9);
            live_bytes = live;
        }
        let value = Spread::of(&seconds).ok_or_else(|| LabError::Setup("no checks to time".to_owned()))?;
        Ok(Figure {
            title: format!("fsck of {} files on an image, in seconds (cold)", self.files),
            value,
            limit: Some(LIMIT_S),
            at_least: false,
            detail: format!("{} MiB live", live_bytes >> 20),
        })
    }

    fn fill(&self, volume: &Volume<Lfs>, stop: &Stop) -> Result<(), LabError> {
        let directories = (0..self.files).step_by(FILES_A_DIRECTORY as usize);
        for first in directories {
            stop.check()?;
            self.fill_directory(volume, first)
                .map_err(|source| LabError::Volume { action: "filling the volume to check", source })?;
        }
        Ok(())
    }

    /// Makes a directory with the files from `first` on.
    fn fill_directory(&self, volume: &Volume<Lfs>, first: u64) -> Result<(), FsError> {
        let bytes = content(3, self.file_bytes as usize);
        let make = |parent, name: String, kind| {
            let caller = Caller { uid: 0, gid: 0, umask: 0o022 };
            let node = NewNode { kind, mode: 0o755, rdev: 0, target: &[] };
            volume
                .run(|vfs, now| vfs.make(now, caller, parent, name.as_bytes(), node, false))
                .map(|attr| attr.ino)
        };
        let dir = make(InodeNo::ROOT, format!("directory {first}"), Kind::Directory)?;
        for n in first..(first + FILES_A_DIRECTORY).min(self.files) {
            let ino = make(dir, format!("file {n}"), Kind::Regular)?;
            volume.write_all(ino, 0, &bytes, false)?;
        }
        Ok(())
    }

    /// Returns nanoseconds and live bytes.
    fn check(&self) -> Result<(u64, u64), LabError> {
        let setup = |e: &dyn std::fmt::Display| LabError::Setup(e.to_string());
        let options = FileOptions { access: Access::ReadOnly, ..FileOptions::default() };
        let device = FileDevice::open(&self.image, &options).map_err(|e| setup(&e))?;
        let start = Instant::now();
        let report = firnfs_manage::check(&device, From::Newest, &mut |_| {}).map_err(|e| setup(&e))?;
        let elapsed = elapsed_ns(start);
        match report.findings.first() {
            None => Ok((elapsed, report.totals.live_bytes)),
            Some(finding) => Err(setup(finding)),
        }
    }
}

impl Drop for Fsck {
    fn drop(&mut self) {
        // The error would be useless: the run is over or has failed already.
        let _ = std::fs::remove_file(&self.image);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_timed_and_the_image_is_gone_afterwards() {
        let home = tempfile::tempdir().unwrap();
        let mut fsck = Fsck::in_directory(home.path());
        (fsck.files, fsck.rounds) = (300, 2);
        let figure = fsck.measure(&Stop::default()).unwrap();
        assert!(figure.value.min > 0.0 && figure.title.contains("300 files"), "{figure:?}");
        drop(fsck);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
