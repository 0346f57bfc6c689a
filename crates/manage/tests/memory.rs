//! Memory is bounded: the cache, and at most 128 MiB beyond it, with a million files on a volume of 1 TiB.
//!
//! It is measured as the peak resident set of the whole process (VmHWM), on a sparse image file, so that only the
//! library's own memory counts. So these tests have a binary of their own, and every run of it executes only one of them.

use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Device, FileDevice, FileOptions};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{format, open};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const TIB: u64 = 1 << 40;
const MIB: u64 = 1 << 20;
const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0o022 };
const FILES_A_DIRECTORY: u64 = 10_000;
const FILE_BYTES: usize = 1024;

/// Peak resident set of this process so far, in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("Linux says VmHWM");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn volume_of_1_tib(path: &Path) -> Arc<dyn Device> {
    let device = FileDevice::create(path, TIB, &FileOptions::default()).unwrap();
    let options = MkfsOptions {
        size_bytes: TIB,
        block_bytes: 4096,
        segment_bytes: 1 << 20,
        physical_block_bytes: 4096,
        inline_max_bytes: 2048,
        label: "memory".to_owned(),
        uuid: [7; 16],
        hash_key: [1, 2],
        now: TimeNs(1_000_000_000),
        root_owner: (0, 0),
    };
    format(&device, &options).unwrap();
    Arc::new(device)
}

struct Load {
    volume: Volume<Lfs>,
    clock: Arc<VirtualClock>,
    files: u64,
}

impl Load {
    fn mount(device: &Arc<dyn Device>, cache_bytes: u64, files: u64) -> Self {
        let clock = Arc::new(VirtualClock::at(2_000_000_000));
        let options = Options { cache_bytes, ..Options::default() };
        // Every read changes an access time, which loads more of the inode map than anything else.
        let volume = open(device.clone(), options, AtimeMode::Strictatime, clock.clone()).unwrap();
        Self { volume, clock, files }
    }

    fn make(&self, parent: InodeNo, name: &str, kind: Kind) -> InodeNo {
        let node = NewNode { kind, mode: 0o755, rdev: 0, target: b"" };
        self.volume.run(|vfs, now| vfs.make(now, CALLER, parent, name.as_bytes(), node, false)).unwrap().ino
    }

    fn find(&self, parent: InodeNo, name: &str) -> InodeNo {
        self.volume.run(|vfs, now| vfs.lookup(now, parent, name.as_bytes(), false)).unwrap().ino
    }

    fn directories(&self) -> u64 {
        self.files.div_ceil(FILES_A_DIRECTORY)
    }

    fn create_all(&self) {
        for d in 0..self.directories() {
            let dir = self.make(InodeNo::ROOT, &format!("d{d}"), Kind::Directory);
            for f in 0..FILES_A_DIRECTORY.min(self.files - d * FILES_A_DIRECTORY) {
                let ino = self.make(dir, &format!("f{f}"), Kind::Regular);
                self.volume.write(ino, 0, &[f as u8 | 1; FILE_BYTES], false).unwrap();
            }
            self.clock.advance_ms(6_000);
        }
        self.volume.sync(Scope::All).unwrap();
    }

    /// Reads every `stride`th file in an order that defeats every cache.
    fn read_scattered(&self, stride: u64) {
        let dirs: Vec<_> =
            (0..self.directories()).map(|d| self.find(InodeNo::ROOT, &format!("d{d}"))).collect();
        let mut out = [0; FILE_BYTES];
        for n in 0..self.files / stride {
            self.clock.advance_ms(1);
            let at = n.wrapping_mul(7_919 * stride) % self.files;
            let f = at % FILES_A_DIRECTORY;
            let ino = self.find(dirs[(at / FILES_A_DIRECTORY) as usize], &format!("f{f}"));
            assert_eq!(self.volume.read(ino, 0, &mut out).unwrap(), FILE_BYTES);
            assert!(out == [f as u8 | 1; FILE_BYTES], "file {at}");
        }
    }

    /// A file much larger than the cache, written and read.
    fn stream(&self, len_bytes: u64) {
        let ino = self.make(InodeNo::ROOT, "stream", Kind::Regular);
        let mut unit = vec![7; MIB as usize];
        for at_bytes in (0..len_bytes).step_by(unit.len()) {
            self.volume.write(ino, at_bytes, &unit, false).unwrap();
        }
        for at_bytes in (0..len_bytes).step_by(unit.len()) {
            assert_eq!(self.volume.read(ino, at_bytes, &mut unit).unwrap(), unit.len());
        }
    }

    fn delete_all(&self) {
        for d in 0..self.directories() {
            let dir = self.find(InodeNo::ROOT, &format!("d{d}"));
            for f in 0..FILES_A_DIRECTORY.min(self.files - d * FILES_A_DIRECTORY) {
                let name = format!("f{f}");
                self.volume.run(|vfs, now| vfs.unlink(now, dir, name.as_bytes())).unwrap();
            }
        }
        assert_eq!(self.volume.run(|vfs, _| Ok(vfs.statfs())).unwrap().inodes_used, self.directories() + 2);
    }
}

/// Works on that many files with that cache; returns the additional memory of the process.
#[allow(clippy::disallowed_methods)] // it reports how long it took
fn memory_for(files: u64, cache_bytes: u64, stream_bytes: u64) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let device = volume_of_1_tib(&dir.path().join("disk.img"));
    let before = peak_bytes();
    let start = Instant::now();
    let told = |what: &str| {
        let (peak_mib, elapsed) = ((peak_bytes() - before) / MIB, start.elapsed());
        println!("{what}: peak {peak_mib} MiB with a cache of {} MiB, {elapsed:.1?}", cache_bytes / MIB);
    };
    let load = Load::mount(&device, cache_bytes, files);
    load.create_all();
    told("files created");
    load.read_scattered(9);
    told("files read");
    load.stream(stream_bytes);
    told("large file written and read");
    load.volume.close().unwrap();
    drop(load);
    let load = Load::mount(&device, cache_bytes, files);
    load.read_scattered(3);
    told("files read after a remount");
    load.delete_all();
    told("files deleted");
    load.volume.close().unwrap();
    told("closed");
    peak_bytes() - before
}

#[test]
fn a_hundred_thousand_files_on_a_tebibyte_take_the_cache_and_little_more() {
    let cache_bytes = 24 * MIB;
    let peak = memory_for(100_000, cache_bytes, 96 * MIB);
    assert!(peak <= cache_bytes + 128 * MIB, "{} MiB with a cache of {}", peak / MIB, cache_bytes / MIB);
}

#[test]
#[ignore = "a million files take minutes unless optimised: scripts/scale.sh runs this in release"]
fn a_million_files_on_a_tebibyte_take_the_cache_and_at_most_128_mib() {
    let cache_bytes = Options::default().cache_bytes;
    assert_eq!(cache_bytes, 256 * MIB, "the default that the README states");
    let peak = memory_for(1_000_000, cache_bytes, 1024 * MIB);
    assert!(peak <= cache_bytes + 128 * MIB, "{} MiB with a cache of {}", peak / MIB, cache_bytes / MIB);
}
