//! Reads at depth: a check, a recovery and a salvage find the same, in the same order, whether their reads are carried out one
//! by one or together and in any order; they have several under way, and no more than their bound.

use crate::fsck::fixture::{file, make, pattern};
use firnfs::FsError;
use firnfs::check::salvage::{Assumed, salvage};
use firnfs::check::{Depth, From, Report};
use firnfs::inode::Kind;
use firnfs::lfs::{MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::AtimeMode;
use firnfs_device::{Completion, Device, DeviceError, Geometry, MemDevice, Request, SparseImage, Tag};
use firnfs_format::superblock::LOG_START_BYTES;
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{check, format, open, put_together};
use firnfs_sim::{FaultyDisk, seeded};
use rand::RngExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const SIZE_BYTES: u64 = 192 << 20;
const DEPTH_BYTES: u64 = firnfs::device_reader::DEPTH_BYTES;

/// A volume of many files, most of which a crashed mount has rewritten in parts.
fn crashed() -> SparseImage {
    let device = Arc::new(MemDevice::new(SIZE_BYTES));
    let options = MkfsOptions {
        size_bytes: SIZE_BYTES,
        block_bytes: 4096,
        segment_bytes: 1 << 20,
        physical_block_bytes: 4096,
        inline_max_bytes: 2048,
        label: "depth".to_owned(),
        uuid: [7; 16],
        hash_key: [1, 2],
        now: TimeNs(1_000_000_000),
        root_owner: (0, 0),
    };
    format(&*device, &options).unwrap();
    let mount = |options| {
        open(device.clone() as Arc<dyn Device>, options, AtimeMode::Noatime, crate::fsck::fixture::clock())
    };
    let volume = mount(Options::default()).unwrap();
    let mut files = Vec::new();
    for d in 0..20 {
        let dir = make(&volume, InodeNo::ROOT, &format!("dir {d}"), Kind::Directory);
        for f in 0..100 {
            // More indirect blocks than the check expands at a time.
            let len = (f as usize * 797) % 20_000 + if f % 5 < 3 { 52_000 } else { 0 };
            files.push(file(&volume, dir, &format!("file {f}"), &pattern(d * 100 + f, len)));
        }
    }
    volume.close().unwrap();
    drop(volume);
    let volume = mount(Options { checkpoint_bytes: u64::MAX, ..Options::default() }).unwrap();
    for n in 0..1500 {
        let ino = files[n * 7919 % files.len()];
        volume.write_all(ino, (n as u64 * 13 % 16) * 4096, &pattern(n as u64, 5000), false).unwrap();
        if n % 200 == 0 {
            volume.sync(Scope::All).unwrap();
        }
    }
    volume.sync(Scope::All).unwrap();
    drop(volume);
    device.image()
}

/// Reads that have been submitted and not waited for.
struct Watching<D> {
    inner: D,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    under_way: BTreeMap<Tag, u64>,
    reads_max: usize,
    bytes_max: u64,
}

impl<D: Device> Watching<D> {
    fn new(inner: D) -> Self {
        Self { inner, state: Mutex::default() }
    }

    /// Asserts that reads were deep and within their bound, and that all were waited for.
    fn assert_deep(self, what: &str) {
        let State { under_way, reads_max, bytes_max } = self.state.into_inner().unwrap();
        assert!(under_way.is_empty(), "{what}: {} reads were never waited for", under_way.len());
        assert!(reads_max >= 3, "{what}: {reads_max} reads under way");
        assert!(bytes_max <= DEPTH_BYTES, "{what}: {bytes_max} bytes under way");
    }
}

impl<D: Device> Device for Watching<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        let len_bytes = request.len_bytes();
        let tag = self.inner.submit(request);
        let mut state = self.state.lock().unwrap();
        state.under_way.insert(tag, len_bytes);
        state.reads_max = state.reads_max.max(state.under_way.len());
        state.bytes_max = state.bytes_max.max(state.under_way.values().sum());
        tag
    }
    fn wait(&self, tag: Tag) -> Completion {
        self.state.lock().unwrap().under_way.remove(&tag);
        self.inner.wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
}

/// A disk with that content that carries out reads in an order of its own, and that cannot read some places.
fn disk(image: &SparseImage, unreadable: &[u64], seed: u64) -> FaultyDisk<MemDevice> {
    let disk = FaultyDisk::new(MemDevice::from_image(image.clone()), seed).shuffled();
    unreadable.iter().for_each(|&at| disk.spoil(at..at + 512));
    disk
}

fn one_by_one(device: &dyn Device) -> impl FnMut(u64, u32) -> Result<Vec<u8>, FsError> {
    |at_bytes, len_bytes| {
        let failed = |e: DeviceError| FsError::Io(e.to_string());
        let (start, end) = (at_bytes / 512 * 512, (at_bytes + u64::from(len_bytes)).next_multiple_of(512));
        let data = device.read(start, (end - start) as u32).map_err(failed)?;
        let from = (at_bytes - start) as usize;
        Ok(data[from..from + len_bytes as usize].to_vec())
    }
}

fn shown<E: std::fmt::Display>(result: Result<Report, E>) -> Result<Report, String> {
    result.map_err(|e| e.to_string())
}

fn check_both_ways(image: &SparseImage, unreadable: &[u64], seed: u64) -> Result<Report, String> {
    let one = disk(image, unreadable, seed);
    let expected = firnfs::check::check(
        &mut one_by_one(&one),
        SIZE_BYTES,
        (From::Newest, Depth::Everything),
        &mut |_| {},
    );
    let deep = Watching::new(disk(image, unreadable, seed + 1));
    let found = shown(check(&deep, From::Newest, &mut |_| {}));
    assert_eq!(found, shown(expected), "unreadable: {unreadable:?}");
    if found.is_ok() {
        deep.assert_deep("check");
    }
    found
}

#[test]
fn a_check_after_a_crash_finds_the_same_however_many_reads_are_under_way() {
    let image = crashed();
    let report = check_both_ways(&image, &[], 1).unwrap();
    assert!(report.is_clean() && report.rolled_forward > 10, "{report:?}");
    let mut rng = seeded(1, "depth");
    let mut with_findings = 0;
    for round in 0..30 {
        let mut damaged = image.clone();
        let mut place = || LOG_START_BYTES + rng.random_range(0..(100 << 20) / 512) * 512;
        for _ in 0..round % 8 {
            let at = place();
            let mut sector = [0; 512];
            damaged.read(at, &mut sector);
            sector[100] ^= 4;
            damaged.write(at, &sector);
        }
        let unreadable: Vec<u64> = (0..round % 5).map(|_| place()).collect();
        let report = check_both_ways(&damaged, &unreadable, round * 2);
        with_findings += u32::from(report.is_ok_and(|report| report.findings.len() > 1));
    }
    assert!(with_findings > 5, "{with_findings} images had several findings");
}

#[test]
fn recovery_reads_at_depth_within_its_bound_and_reaches_the_same_state() {
    let image = crashed();
    let options = Options { read_only: true, ..Options::default() };
    let deep = Arc::new(Watching::new(disk(&image, &[], 5)));
    let volume =
        open(deep.clone() as Arc<dyn Device>, options, AtimeMode::Noatime, crate::fsck::fixture::clock())
            .unwrap();
    let found = *volume.into_vfs().store().recovered();
    let one = disk(&image, &[], 6);
    let mut read = one_by_one(&one);
    let sb = firnfs::lfs::read_superblock(&mut read, SIZE_BYTES).unwrap();
    let expected = *firnfs::lfs::Lfs::open(&mut read, sb, options, TimeNs(1)).unwrap().recovered();
    assert_eq!(found, expected);
    assert!(found.inodes > 1000, "{found:?}");
    Arc::into_inner(deep).unwrap().assert_deep("recovery");
}

#[test]
fn a_salvage_finds_the_same_however_many_reads_are_under_way() {
    let image = crashed();
    let assumed = Assumed { block_bytes: None, segment_bytes: None, hash_key: [1, 2], now: TimeNs(1) };
    let mut without = image.clone();
    for at in firnfs_format::superblock::Superblock::places(SIZE_BYTES) {
        without.zero(at, 4096);
    }
    let unreadable = [LOG_START_BYTES + (5 << 20) + 8192, LOG_START_BYTES + (9 << 20)];
    for image in [image, without] {
        let deep = Watching::new(disk(&image, &unreadable, 7));
        let found = put_together(&deep, &assumed, &mut |_| {}).unwrap();
        let one = disk(&image, &unreadable, 8);
        let expected = salvage(&mut one_by_one(&one), SIZE_BYTES, &assumed, &mut |_| {}).unwrap();
        assert_eq!(found.superblock, expected.superblock);
        assert_eq!(found.segments, expected.segments);
        assert_eq!(found.report, expected.report);
        assert!(found.report.totals.inodes > 2000, "{:?}", found.report.totals);
        deep.assert_deep("salvage");
    }
}
