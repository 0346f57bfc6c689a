//! The volume of a scene: its files, their content, and the time to read them.

use super::{Conditions, Reading, SYNC_BYTES};
use crate::error::LabError;
use firnfs::FsError;
use firnfs::clean::Medium;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Attr, Caller, NewNode, SetAttr};
use firnfs_device::{Clock, MemDevice};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{OpenError, format, open};
use firnfs_sim::{DiskWork, TimedDisk, VirtualClock};
use firnfs_volume::Volume;
use std::sync::Arc;

const START_NS: i64 = 1_700_000_000_000_000_000;
/// A user's read, of the size that cp and cat use, in bytes.
const READ_BYTES: u64 = 128 << 10;
/// Content is written and compared in pieces of this size, in bytes.
const PIECE_BYTES: u64 = 1 << 20;
/// The smallest volume, in bytes.
const VOLUME_BYTES_MIN: u64 = 128 << 20;

type Disk = TimedDisk<MemDevice>;

struct File {
    ino: InodeNo,
    /// For each stretch of the content, the write that it comes from.
    written: Vec<(u64, u64, u64)>,
    size_bytes: u64,
}

/// See the module's head.
pub(super) struct Bench {
    disk: Arc<Disk>,
    clock: Arc<VirtualClock>,
    options: Options,
    volume: Volume<Lfs>,
    files: Vec<File>,
    writes: u64,
}

fn failed(action: &'static str) -> impl FnOnce(FsError) -> LabError {
    move |source| LabError::Volume { action, source }
}

fn mount(disk: &Arc<Disk>, clock: &Arc<VirtualClock>, options: Options) -> Result<Volume<Lfs>, LabError> {
    open(disk.clone(), options, AtimeMode::Noatime, clock.clone()).map_err(|error| match error {
        OpenError::Fs(source) => LabError::Volume { action: "mount", source },
        OpenError::NotFirnfs(other) => LabError::Setup(other.to_string()),
    })
}

impl Bench {
    /// A new volume, eight times as large as its content will be, or as large as the disk.
    pub fn new(bytes: u64, conditions: Conditions<'_>) -> Result<Self, LabError> {
        let Conditions { disk: params, cache_bytes } = conditions;
        let wanted_bytes = bytes.saturating_mul(8).max(VOLUME_BYTES_MIN);
        let size_bytes = wanted_bytes.min(params.kind.size_bytes().unwrap_or(u64::MAX)) / 4096 * 4096;
        let mkfs = MkfsOptions {
            size_bytes,
            block_bytes: 4096,
            segment_bytes: 1 << 20,
            physical_block_bytes: 4096,
            inline_max_bytes: 1024,
            label: "coalescing".to_owned(),
            uuid: *b"firnfs lab: seam",
            hash_key: [3, 5],
            now: TimeNs(START_NS),
            root_owner: (0, 0),
        };
        let clock = Arc::new(VirtualClock::at(START_NS));
        let disk = Arc::new(TimedDisk::of(MemDevice::new(size_bytes), clock.clone(), params, 0));
        let medium = Medium::of(params.kind.has_head());
        // As under FUSE: the kernel caches content, the daemon does not.
        let options = Options { cache_file_data: false, medium, cache_bytes, ..Options::default() };
        format(&*disk, &mkfs).map_err(failed("make a volume"))?;
        let volume = mount(&disk, &clock, options)?;
        Ok(Self { disk, clock, options, volume, files: Vec::new(), writes: 0 })
    }

    fn name(file: u64) -> String {
        format!("file {file:06}")
    }

    /// Creates the next file; its number must be the number of existing files.
    pub fn create(&mut self, file: u64) -> Result<(), LabError> {
        let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
        let caller = Caller { uid: 0, gid: 0, umask: 0 };
        let name = Self::name(file);
        let made =
            self.volume.run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, name.as_bytes(), node, false));
        let ino = made.map_err(failed("make a file"))?.ino;
        self.files.push(File { ino, written: Vec::new(), size_bytes: 0 });
        Ok(())
    }

    /// Writes a stretch of a file with unique content.
    pub fn write(&mut self, file: u64, at_bytes: u64, len_bytes: u64) -> Result<(), LabError> {
        self.writes += 1;
        let target = &mut self.files[file as usize];
        for from in (at_bytes..at_bytes + len_bytes).step_by(PIECE_BYTES as usize) {
            let len = PIECE_BYTES.min(at_bytes + len_bytes - from);
            let content = content(self.writes, from, len);
            self.volume.write_all(target.ino, from, &content, false).map_err(failed("write"))?;
        }
        target.size_bytes = target.size_bytes.max(at_bytes + len_bytes);
        target.written.push((at_bytes, len_bytes, self.writes));
        Ok(())
    }

    /// Cuts a file to nothing.
    pub fn truncate(&mut self, file: u64) -> Result<(), LabError> {
        let target = &mut self.files[file as usize];
        let set = SetAttr { size_bytes: Some(0), ..SetAttr::default() };
        self.volume.run(|vfs, now| vfs.setattr(now, target.ino, set)).map_err(failed("truncate"))?;
        target.written.clear();
        target.size_bytes = 0;
        Ok(())
    }

    /// Makes everything durable.
    pub fn sync(&mut self) -> Result<(), LabError> {
        self.volume.sync(Scope::All).map_err(failed("sync"))
    }

    /// The same, whenever enough has been written; `done_bytes` includes the last write of `last_bytes`.
    pub fn sync_now_and_then(&mut self, done_bytes: u64, last_bytes: u64) -> Result<(), LabError> {
        if done_bytes / SYNC_BYTES == (done_bytes - last_bytes) / SYNC_BYTES { Ok(()) } else { self.sync() }
    }

    /// Remounts, reads everything in directory order, and compares it with what was written.
    pub fn read_cold(&mut self) -> Result<Reading, LabError> {
        self.volume.close().map_err(failed("unmount"))?;
        self.volume = mount(&self.disk, &self.clock, self.options)?;
        let before = self.disk.work();
        for (number, file) in (0..).zip(&self.files) {
            let name = Self::name(number);
            let found: Attr = self
                .volume
                .run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, name.as_bytes(), false))
                .map_err(failed("look up"))?;
            self.read_file(&name, &found, file)?;
        }
        let work = self.disk.work().since(&before);
        Ok(Reading {
            ms: work.busy_ns as f64 / 1e6,
            seeks: work.seeks,
            requests: work.asked.reads,
            bytes: work.asked.read_bytes,
        })
    }

    fn read_file(&self, name: &str, found: &Attr, file: &File) -> Result<(), LabError> {
        let mut read = vec![0; file.size_bytes as usize];
        for (at, part) in (0..).step_by(READ_BYTES as usize).zip(read.chunks_mut(READ_BYTES as usize)) {
            let len = self.volume.read(found.ino, at, part).map_err(failed("read"))?;
            if len != part.len() {
                return Err(LabError::WrongData { path: name.into(), at_bytes: at + len as u64 });
            }
        }
        let mut right = vec![0; file.size_bytes as usize];
        for &(at, len, write) in &file.written {
            right[at as usize..(at + len) as usize].copy_from_slice(&content(write, at, len));
        }
        match read.iter().zip(&right).position(|(read, right)| read != right) {
            Some(at) => Err(LabError::WrongData { path: name.into(), at_bytes: at as u64 }),
            None => Ok(()),
        }
    }

    /// Leaves the volume idle except for its background work. Returns the work of the disk.
    pub fn idle(&mut self, seconds: u64) -> Result<DiskWork, LabError> {
        let before = self.disk.work();
        let end_ns = self.clock.now_ns() + seconds as i64 * 1_000_000_000;
        while self.clock.now_ns() < end_ns {
            let sleep_ms = self.volume.background().map_err(failed("do background work"))?;
            self.clock.advance_ms(sleep_ms.clamp(1, 1000) as i64);
        }
        Ok(self.disk.work().since(&before))
    }

    /// Bytes that were put in order since the volume was made.
    pub fn moved_bytes(&self) -> Result<u64, LabError> {
        let counted = self.volume.run_quietly(|vfs, _| Ok(vfs.store().counters().coalesced_bytes));
        counted.map_err(failed("look at the volume"))
    }
}

/// Content of a stretch that identifies its write and its place.
fn content(write: u64, at_bytes: u64, len_bytes: u64) -> Vec<u8> {
    let word = |at: u64| (write << 40 | (at / 8)).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let first = at_bytes / 8 * 8;
    let words = (first..at_bytes + len_bytes).step_by(8).flat_map(word);
    words.skip((at_bytes - first) as usize).take(len_bytes as usize).collect()
}
