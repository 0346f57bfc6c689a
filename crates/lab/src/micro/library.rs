//! The rows that bypass the mount: the library on an image of its own.
//!
//! It is a preallocated file on the same disk as the mounted volumes. A thread does the volume's background work, as in the
//! daemon of a mount. [`bandwidth`](super::bandwidth) uses the same parts on other devices.

use super::processor::{Meter, Taken};
use super::scenario::{content, small_name};
use super::stop::Stop;
use super::task::{Task, Workload};
use super::{Durability, Sample};
use crate::LabError;
use crate::calendar::now_ns;
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{AlignedBuf, Device, FileDevice, FileOptions, SystemClock};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_volume::Volume;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Unit of sequential writing, in bytes: a segment.
pub(super) const UNIT_BYTES: usize = 1 << 20;
/// Space on the image beyond the written data, in bytes: the volume's reserve and metadata.
pub(super) const SPARE_BYTES: u64 = 256 << 20;
/// Name of the library in samples.
const LIBRARY: &str = "library";

pub(super) fn writing(source: FsError) -> LabError {
    LabError::Volume { action: "writing through the library", source }
}

/// The image that the rows run on; it is removed at the end.
pub struct Library {
    image: PathBuf,
}

impl Library {
    /// Preallocates the image in `directory`.
    ///
    /// # Errors
    /// Errors of writing; `Interrupted`.
    pub fn prepare(directory: &Path, stop: &Stop) -> Result<Self, LabError> {
        let library = Self { image: directory.join("firn-bench-library.img") };
        preallocate(&library.image, SPARE_BYTES, stop)?;
        Ok(library)
    }

    /// Runs every row once.
    ///
    /// # Errors
    /// The first error; `Interrupted`.
    pub fn round(
        &self,
        w: &Workload,
        round: u32,
        samples: &mut Vec<Sample>,
        stop: &Stop,
    ) -> Result<(), LabError> {
        let mut record = |task, taken| {
            let target = LIBRARY.to_owned();
            samples.push(Sample { task, durability: Durability::Durable, target, round, taken });
        };
        record(Task::LibraryCreate, self.create_small(w, stop)?);
        record(Task::Checksum, checksum(w));
        Ok(())
    }

    fn create_small(&self, w: &Workload, stop: &Stop) -> Result<Taken, LabError> {
        let bytes = content(0, w.small_bytes as usize);
        timed(open_image(&self.image)?, |volume| {
            for i in 0..u64::from(w.small_files) {
                write_file(volume, small_name(i).as_bytes(), &bytes, stop)?;
            }
            volume.sync(Scope::All).map_err(writing)
        })
    }
}

/// Makes a fresh volume, times `work` on it, and closes it.
///
/// # Errors
/// The volume cannot be made, or the error of `work`.
pub(super) fn timed(
    device: Arc<dyn Device>,
    work: impl FnOnce(&Volume<Lfs>) -> Result<(), LabError>,
) -> Result<Taken, LabError> {
    let volume = volume_on(device)?;
    let stop = AtomicBool::new(false);
    let taken = std::thread::scope(|scope| {
        scope.spawn(|| run_background(&volume, &stop));
        let mut meter = Meter::start(None);
        let worked = work(&volume);
        let taken = meter.read();
        stop.store(true, Ordering::Relaxed);
        volume.wake();
        worked.map(|()| taken)
    });
    let taken = taken?;
    volume.close().map_err(|source| LabError::Volume { action: "closing the library's volume", source })?;
    Ok(taken)
}

/// Makes a file in the root directory and writes its content.
///
/// # Errors
/// Errors of writing; `Interrupted`.
fn write_file(volume: &Volume<Lfs>, name: &[u8], content: &[u8], stop: &Stop) -> Result<(), LabError> {
    stop.check()?;
    let ino = make_file(volume, name)?;
    volume.write_all(ino, 0, content, false).map_err(writing)
}

/// Makes a file in the root directory and hands buffers over to it, one after the other.
///
/// # Errors
/// Errors of writing; `Interrupted`.
pub(super) fn hand_over(
    volume: &Volume<Lfs>,
    name: &[u8],
    buffers: &[Arc<AlignedBuf>],
    stop: &Stop,
) -> Result<(), LabError> {
    let ino = make_file(volume, name)?;
    let mut at_bytes = 0;
    for buffer in buffers {
        stop.check()?;
        let written = volume.write_lent(true, ino, at_bytes, buffer, false).map_err(writing)?;
        // After a short count the rest meets the error.
        volume.write_all(ino, at_bytes + written as u64, &buffer[written..], false).map_err(writing)?;
        at_bytes += buffer.len() as u64;
    }
    Ok(())
}

fn make_file(volume: &Volume<Lfs>, name: &[u8]) -> Result<InodeNo, LabError> {
    let caller = Caller { uid: 0, gid: 0, umask: 0o022 };
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: &[] };
    let made = volume.run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, name, node, false));
    Ok(made.map_err(writing)?.ino)
}

fn open_image(image: &Path) -> Result<Arc<dyn Device>, LabError> {
    let device = FileDevice::open(image, &FileOptions::default());
    Ok(Arc::new(device.map_err(|e| LabError::Setup(e.to_string()))?))
}

/// A fresh volume on an existing image, opened.
///
/// # Errors
/// The image cannot be opened or is too small.
pub fn fresh_volume(image: &Path) -> Result<Volume<Lfs>, LabError> {
    volume_on(open_image(image)?)
}

fn volume_on(device: Arc<dyn Device>) -> Result<Volume<Lfs>, LabError> {
    let geometry = device.geometry();
    let options = MkfsOptions {
        size_bytes: geometry.size_bytes,
        block_bytes: 4096,
        segment_bytes: UNIT_BYTES as u32,
        physical_block_bytes: geometry.physical_block_bytes,
        inline_max_bytes: 2048,
        label: "bench".to_owned(),
        uuid: content(now_ns() as u64, 16).try_into().unwrap_or_default(),
        hash_key: [1, 2],
        now: TimeNs(now_ns()),
        root_owner: (0, 0),
    };
    firnfs_manage::format(&*device, &options)
        .map_err(|source| LabError::Volume { action: "making the library's volume", source })?;
    // As a mount opens it: written content stays in memory only until it is on the device.
    let options = Options { cache_file_data: false, ..Options::default() };
    firnfs_manage::open(device, options, AtimeMode::Noatime, Arc::new(SystemClock))
        .map_err(|e| LabError::Setup(e.to_string()))
}

impl Drop for Library {
    fn drop(&mut self) {
        // The error would be useless: the run is over or has failed already.
        let _ = std::fs::remove_file(&self.image);
    }
}

fn run_background(volume: &Volume<Lfs>, stop: &AtomicBool) {
    let _promise = volume.promise_background();
    while !stop.load(Ordering::Relaxed) {
        // An error here shows again in the timed operation.
        let sleep_ms = volume.background().unwrap_or(100);
        if !stop.load(Ordering::Relaxed) {
            volume.wait_for_work(sleep_ms);
        }
    }
}

/// The cost of verifying the large file: its checksum, block by block.
fn checksum(w: &Workload) -> Taken {
    let block = content(2, 4096);
    let mut meter = Meter::start(None);
    let mut mixed = 0;
    for _ in 0..w.large_bytes / 4096 {
        mixed ^= firnfs_format::crc32c(std::hint::black_box(&block));
    }
    std::hint::black_box(mixed);
    meter.read()
}

fn open_direct(path: &Path) -> Result<File, LabError> {
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or(0);
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(direct)
        .open(path)
        .map_err(LabError::io("open with O_DIRECT", path))
}

/// Writes zeros through to the disk. It does not use fallocate: the first write to an unwritten extent costs a journal
/// entry of the disk's own file system, which must not fall into the timed part.
///
/// # Errors
/// Errors of writing; `Interrupted`.
pub fn preallocate(path: &Path, len_bytes: u64, stop: &Stop) -> Result<(), LabError> {
    let file = open_direct(path)?;
    let zeros = AlignedBuf::zeroed(UNIT_BYTES);
    let mut at_bytes = 0;
    while at_bytes < len_bytes {
        stop.check()?;
        file.write_all_at(&zeros, at_bytes).map_err(LabError::io("preallocate", path))?;
        at_bytes += UNIT_BYTES as u64;
    }
    file.set_len(len_bytes).map_err(LabError::io("preallocate", path))?;
    file.sync_all().map_err(LabError::io("preallocate", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_beside_the_mount_is_measured_and_the_files_are_gone_afterwards() {
        let home = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let w = Workload { small_files: 50, large_bytes: 1 << 20, ..Workload::default() };
        let (mut samples, stop) = (Vec::new(), Stop::default());
        let library = Library::prepare(home.path(), &stop).unwrap();
        library.round(&w, 0, &mut samples, &stop).unwrap();
        library.round(&w, 1, &mut samples, &stop).unwrap();
        drop(library);
        for task in [Task::LibraryCreate, Task::Checksum] {
            assert_eq!(
                samples.iter().filter(|s| s.task == task && s.taken.elapsed_ns > 0).count(),
                2,
                "{task:?}"
            );
        }
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
