//! Reads that are started and not waited for: disk and processor work at the same time, nothing stale is served, and only
//! what is needed can fail.

use firnfs::ffs::{self, Ffs};
use firnfs::inode::Kind;
use firnfs::lfs::{self, Lfs};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs::{FsError, engine::Engine};
use firnfs_device::{
    Clock, Completion, CountingDevice, Counts, Device, Geometry, MemDevice, Request, SparseImage, Tag,
};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{format, format_ffs, open, open_ffs};
use firnfs_sim::{Effect, Fault, FaultyDisk, On, Trigger};
use firnfs_sim::{Speed, TimedDisk, VirtualClock};
use firnfs_volume::Volume;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const START_NS: i64 = 2_000_000_000;

/// A kind of volume: the same test runs on both.
trait Store: Engine + Sized {
    fn format(device: &dyn Device, size_bytes: u64);
    fn mount(device: Arc<dyn Device>, clock: Arc<VirtualClock>) -> Volume<Self>;
}

impl Store for Lfs {
    fn format(device: &dyn Device, size_bytes: u64) {
        let options = lfs::MkfsOptions {
            size_bytes,
            block_bytes: 4096,
            segment_bytes: 256 << 10,
            physical_block_bytes: 4096,
            inline_max_bytes: 0,
            label: "ahead".to_owned(),
            uuid: [7; 16],
            hash_key: [1, 2],
            now: TimeNs(1_000_000_000),
            root_owner: (0, 0),
        };
        format(device, &options).unwrap();
    }

    fn mount(device: Arc<dyn Device>, clock: Arc<VirtualClock>) -> Volume<Self> {
        // Content does not stay in memory.
        let options = lfs::Options { cache_file_data: false, ..lfs::Options::default() };
        open(device, options, AtimeMode::Noatime, clock).unwrap()
    }
}

impl Store for Ffs {
    fn format(device: &dyn Device, size_bytes: u64) {
        format_ffs(device, &ffs::MkfsOptions::with_size(size_bytes)).unwrap();
    }

    fn mount(device: Arc<dyn Device>, clock: Arc<VirtualClock>) -> Volume<Self> {
        // As little content stays in memory as possible.
        let options = ffs::Options { cache_bytes: 0, ..ffs::Options::default() };
        open_ffs(device, options, AtimeMode::Noatime, clock).unwrap()
    }
}

fn new_clock() -> Arc<VirtualClock> {
    Arc::new(VirtualClock::at(START_NS))
}

fn create<S: Engine>(volume: &Volume<S>, name: &str) -> InodeNo {
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    volume.run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, name.as_bytes(), node, false)).unwrap().ino
}

fn find<S: Engine>(volume: &Volume<S>, name: &str) -> InodeNo {
    volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, name.as_bytes(), false)).unwrap().ino
}

/// What version `version` of a file has there: each 512 bytes differ.
fn content(version: u64, at_bytes: u64, len_bytes: u64) -> Vec<u8> {
    let words = (at_bytes / 8..(at_bytes + len_bytes) / 8).map(|n| (version << 48 | n).to_le_bytes());
    words.flatten().collect()
}

fn write<S: Engine>(volume: &Volume<S>, file: InodeNo, version: u64, places: std::ops::Range<u64>) {
    for at in places.clone().step_by(64 << 10) {
        let len = (64 * KIB).min(places.end - at);
        volume.write_all(file, at, &content(version, at, len), false).unwrap();
    }
}

fn read<S: Engine>(
    volume: &Volume<S>,
    file: InodeNo,
    at_bytes: u64,
    len_bytes: u64,
) -> Result<Vec<u8>, FsError> {
    let mut out = vec![0; len_bytes as usize];
    let len = volume.read(file, at_bytes, &mut out)?;
    out.truncate(len);
    Ok(out)
}

fn assert_is<S: Engine>(volume: &Volume<S>, file: InodeNo, version: u64, places: std::ops::Range<u64>) {
    for at in places.step_by(16 << 10) {
        let found = read(volume, file, at, 16 * KIB).unwrap();
        assert!(found == content(version, at, 16 * KIB), "version {version} at {at}");
    }
}

/// An image with one file, "file".
fn image_with_a_file<S: Store>(size_bytes: u64, file_bytes: u64) -> SparseImage {
    let device = Arc::new(MemDevice::new(size_bytes));
    S::format(&*device, size_bytes);
    let volume = S::mount(device.clone(), new_clock());
    write(&volume, create(&volume, "file"), 1, 0..file_bytes);
    volume.close().unwrap();
    device.image()
}

/// A disk without a head: 80 µs for a request and 50 MB/s.
const DISK: Speed = Speed { seek_ns: 0, request_ns: 80_000, byte_ps: 20_000, flush_ns: 0 };
const STREAM_BYTES: u64 = 16 * MIB;
const UNIT_BYTES: u64 = 16 * KIB;

/// How long a program takes that reads the file in sequence, and thinks about every 16 KiB for that long; and the disk's part.
fn sequential_ns<S: Store>(image: &SparseImage, think_ns: i64) -> (i64, i64) {
    let clock = new_clock();
    let disk = Arc::new(TimedDisk::new(MemDevice::from_image(image.clone()), clock.clone(), DISK));
    let volume = S::mount(disk.clone(), clock.clone());
    let file = find(&volume, "file");
    let (start_ns, busy_ns) = (clock.now_ns(), disk.work().busy_ns);
    for at in (0..STREAM_BYTES).step_by(UNIT_BYTES as usize) {
        assert!(read(&volume, file, at, UNIT_BYTES).unwrap() == content(1, at, UNIT_BYTES));
        clock.advance_ns(think_ns);
    }
    (clock.now_ns() - start_ns, disk.work().busy_ns - busy_ns)
}

fn a_program_takes_the_longer_of_its_time_and_the_disks<S: Store>() {
    let image = image_with_a_file::<S>(64 * MIB, STREAM_BYTES);
    // The bytes alone take 16 MiB / 50 MB/s = 335.5 ms.
    let bytes_ns = STREAM_BYTES as i64 * 20;
    let reads = (STREAM_BYTES / UNIT_BYTES) as i64;
    for think_ns in [0, 160_000, 320_000, 960_000] {
        let (took_ns, disk_ns) = sequential_ns::<S>(&image, think_ns);
        let thought_ns = reads * think_ns;
        println!(
            "thinking {} ms, disk {} ms: {} ms",
            thought_ns / 1_000_000,
            disk_ns / 1_000_000,
            took_ns / 1_000_000
        );
        assert!(disk_ns >= bytes_ns && disk_ns < bytes_ns * 5 / 4, "{disk_ns}");
        // Waited for are four blocks of metadata, with up to 320 KiB of neighbours each, and the beginning: less than 1.5 MiB, 31.5
        // ms, and ten requests.
        let bound_ns = thought_ns.max(disk_ns) + 3 * MIB as i64 / 2 * 20 + 10 * 80_000;
        assert!(took_ns <= bound_ns, "{took_ns} ns, thinking {thought_ns}, disk {disk_ns}");
        assert_eq!((took_ns, disk_ns), sequential_ns::<S>(&image, think_ns), "the same again");
    }
}

#[test]
fn on_the_log_a_program_takes_the_longer_of_its_time_and_the_disks() {
    a_program_takes_the_longer_of_its_time_and_the_disks::<Lfs>();
}

#[test]
fn on_the_fast_file_system_a_program_takes_the_longer_of_its_time_and_the_disks() {
    a_program_takes_the_longer_of_its_time_and_the_disks::<Ffs>();
}

const RANDOM_BYTES: u64 = 100 * MIB;

/// Bytes per byte asked for when the file's blocks are read in another order than they have.
fn cost_at_random<S: Store>(unit_bytes: u64) -> f64 {
    let image = image_with_a_file::<S>(256 * MIB, RANDOM_BYTES);
    let device = Arc::new(CountingDevice::new(MemDevice::from_image(image)));
    let volume = S::mount(device.clone(), new_clock());
    let file = find(&volume, "file");
    let before: Counts = device.counts();
    let (mut state, reads) = (42u64, RANDOM_BYTES / unit_bytes);
    for _ in 0..reads {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (state >> 33) % reads * unit_bytes;
        assert!(read(&volume, file, at, unit_bytes).unwrap() == content(1, at, unit_bytes));
    }
    device.counts().since(&before).read_bytes as f64 / (reads * unit_bytes) as f64
}

#[test]
fn random_reads_of_single_blocks_fetch_little_else() {
    let (log, fast) = (cost_at_random::<Lfs>(8 * KIB), cost_at_random::<Ffs>(8 * KIB));
    println!(
        "{log:.3} bytes fetched for each asked for at random on the log, {fast:.3} on the Fast File System"
    );
    assert!(log <= 1.02 && fast <= 1.02, "{log:.3} {fast:.3}");
}

#[test]
fn random_reads_of_two_blocks_fetch_one_cluster_on_the_fast_file_system() {
    // USENIX'95 section 2: the second block counts as sequential, so the cluster that it begins is read with it: 9 blocks for 2.
    let cost = cost_at_random::<Ffs>(16 * KIB);
    println!("{cost:.3} bytes fetched for each asked for at random, two blocks at a time");
    assert!((3.5..=4.6).contains(&cost), "{cost:.3}");
}

/// Reads the first blocks of the file, so that the reading of the next ones is started.
fn start_reading<S: Engine>(volume: &Volume<S>) -> InodeNo {
    let file = find(volume, "file");
    for at in (0..48 * KIB).step_by(8 << 10) {
        assert!(read(volume, file, at, 8 * KIB).unwrap() == content(1, at, 8 * KIB));
    }
    file
}

/// Reads so much of "other" that nothing of "file" stays in the cache.
fn forget<S: Engine>(volume: &Volume<S>) {
    let other = find(volume, "other");
    for at in (0..6 * MIB / (16 * KIB)).rev().map(|n| n * 16 * KIB) {
        assert!(read(volume, other, at, 16 * KIB).unwrap() == content(9, at, 16 * KIB));
    }
}

fn volume_with_two_files<S: Store>() -> Volume<S> {
    let device = Arc::new(MemDevice::new(64 * MIB));
    S::format(&*device, 64 * MIB);
    let volume = S::mount(device.clone(), new_clock());
    write(&volume, create(&volume, "file"), 1, 0..MIB);
    write(&volume, create(&volume, "other"), 9, 0..6 * MIB);
    volume.close().unwrap();
    drop(volume);
    S::mount(device, new_clock())
}

fn what_is_being_read_is_not_served_after_it_was_overwritten<S: Store>() {
    let volume = volume_with_two_files::<S>();
    let file = start_reading(&volume);
    write(&volume, file, 2, 0..MIB);
    volume.sync(Scope::All).unwrap();
    forget(&volume);
    assert_is(&volume, file, 2, 0..MIB);
}

#[test]
fn on_the_log_what_is_being_read_is_not_served_after_it_was_overwritten() {
    what_is_being_read_is_not_served_after_it_was_overwritten::<Lfs>();
}

#[test]
fn on_the_fast_file_system_what_is_being_read_is_not_served_after_it_was_overwritten() {
    what_is_being_read_is_not_served_after_it_was_overwritten::<Ffs>();
}

fn what_is_being_read_is_not_served_after_it_was_cut_off<S: Store>() {
    let volume = volume_with_two_files::<S>();
    let file = start_reading(&volume);
    volume
        .run(|vfs, now| {
            let change = firnfs::vfs::SetAttr { size_bytes: Some(16 * KIB), ..Default::default() };
            vfs.setattr(now, file, change)
        })
        .unwrap();
    volume.sync(Scope::All).unwrap();
    assert_eq!(read(&volume, file, 16 * KIB, 8 * KIB).unwrap().len(), 0, "beyond the end");
    // Its blocks are free for others, and for itself.
    write(&volume, file, 3, 16 * KIB..MIB);
    write(&volume, create(&volume, "third"), 4, 0..MIB);
    volume.sync(Scope::All).unwrap();
    forget(&volume);
    assert_is(&volume, file, 1, 0..16 * KIB);
    assert_is(&volume, file, 3, 16 * KIB..MIB);
    assert_is(&volume, find(&volume, "third"), 4, 0..MIB);
}

#[test]
fn on_the_log_what_is_being_read_is_not_served_after_it_was_cut_off() {
    what_is_being_read_is_not_served_after_it_was_cut_off::<Lfs>();
}

#[test]
fn on_the_fast_file_system_what_is_being_read_is_not_served_after_it_was_cut_off() {
    what_is_being_read_is_not_served_after_it_was_cut_off::<Ffs>();
}

#[test]
fn what_is_being_read_is_not_served_after_its_segment_was_cleaned_and_written_again() {
    let device = Arc::new(MemDevice::from_image(image_with_a_file::<Lfs>(32 * MIB, MIB)));
    let volume = Lfs::mount(device, new_clock());
    let file = start_reading(&volume);
    volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, b"file")).unwrap();
    let _gone = file;
    let next = create(&volume, "next");
    // Half of the volume, twelve times: every segment is written again, most of them more than once.
    for version in 2..14 {
        write(&volume, next, version, 0..16 * MIB);
        volume.sync(Scope::All).unwrap();
        volume.background().unwrap();
    }
    assert!(volume.run(|vfs, _| Ok(vfs.store().counters().segments_cleaned)).unwrap() > 0);
    assert_is(&volume, next, 13, 0..16 * MIB);
}

/// In the second cluster, before the first block that has an indirect block, and within the first bytes that the log reads ahead.
const BAD_KIB: u64 = 80;

fn a_bad_sector_ahead_fails_only_a_read_that_needs_it<S: Store>() {
    let image = image_with_a_file::<S>(64 * MIB, MIB);
    // Where these bytes of the file are.
    let wanted = content(1, BAD_KIB * KIB, 512);
    let whole = MemDevice::from_image(image.clone());
    let bad = (0..64 * MIB).step_by(512).find(|at| *whole.read(*at, 512).unwrap() == wanted[..]).unwrap();
    let disk = Arc::new(FaultyDisk::new(MemDevice::from_image(image), 1));
    let volume = S::mount(disk.clone(), new_clock());
    let fault = Fault { on: On::Read, place: bad..bad + 512, trigger: Trigger::Always, effect: Effect::Fail };
    disk.arm(fault);
    let file = find(&volume, "file");
    let unit = 8 * KIB;
    for at in (0..BAD_KIB * KIB).step_by(unit as usize) {
        assert!(read(&volume, file, at, unit).unwrap() == content(1, at, unit), "{at}");
    }
    assert!(!disk.injected().is_empty(), "it was read ahead, in vain");
    for _ in 0..2 {
        let failed = read(&volume, file, BAD_KIB * KIB, unit).unwrap_err();
        assert!(matches!(failed, FsError::Io(_)), "{failed}");
    }
    for at in ((BAD_KIB + 8) * KIB..MIB).step_by(unit as usize) {
        assert!(read(&volume, file, at, unit).unwrap() == content(1, at, unit), "{at}");
    }
    // A read that fails only once is not noticed at all.
    disk.clear();
    let whole = read(&volume, file, BAD_KIB * KIB, unit).unwrap();
    assert!(whole == content(1, BAD_KIB * KIB, unit));
}

#[test]
fn on_the_log_a_bad_sector_ahead_fails_only_a_read_that_needs_it() {
    a_bad_sector_ahead_fails_only_a_read_that_needs_it::<Lfs>();
}

#[test]
fn on_the_fast_file_system_a_bad_sector_ahead_fails_only_a_read_that_needs_it() {
    a_bad_sector_ahead_fails_only_a_read_that_needs_it::<Ffs>();
}

/// Counts the bytes of reads that nobody has waited for.
struct Waiting {
    inner: MemDevice,
    reads: Mutex<(BTreeMap<Tag, u64>, u64)>,
}

impl Waiting {
    fn new(image: SparseImage) -> Self {
        Self { inner: MemDevice::from_image(image), reads: Mutex::default() }
    }

    /// Bytes now, and the most so far.
    fn bytes(&self) -> (u64, u64) {
        let reads = self.reads.lock().unwrap();
        (reads.0.values().sum(), reads.1)
    }
}

impl Device for Waiting {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        let tag = self.inner.submit(request.clone());
        if let Request::Read { len_bytes, .. } = request {
            let mut reads = self.reads.lock().unwrap();
            reads.0.insert(tag, len_bytes.into());
            reads.1 = reads.1.max(reads.0.values().sum());
        }
        tag
    }
    fn wait(&self, tag: Tag) -> Completion {
        self.reads.lock().unwrap().0.remove(&tag);
        self.inner.wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
}

fn reads_that_nobody_waits_for_are_bounded<S: Store>() {
    let device = Arc::new(MemDevice::new(256 * MIB));
    S::format(&*device, 256 * MIB);
    let volume = S::mount(device.clone(), new_clock());
    let names: Vec<String> = (0..40).map(|n| format!("file {n}")).collect();
    for (name, version) in names.iter().zip(0..) {
        write(&volume, create(&volume, name), version, 0..3 * MIB);
    }
    volume.close().unwrap();
    let device = Arc::new(Waiting::new(device.image()));
    let volume = S::mount(device.clone(), new_clock());
    let files: Vec<InodeNo> = names.iter().map(|name| find(&volume, name)).collect();
    // All of them in turn, each a little further; the last ones are left where they are.
    for at in (0..3 * MIB).step_by(16 << 10) {
        let some = if at < MIB { 0..40 } else { 0..16 };
        for n in some {
            assert!(read(&volume, files[n], at, 16 * KIB).unwrap() == content(n as u64, at, 16 * KIB));
        }
    }
    let (_, most) = device.bytes();
    println!("at most {} KiB under way", most / KIB);
    assert!((64 * KIB..=6 * MIB).contains(&most), "{most}");
    drop(volume);
    assert_eq!(device.bytes().0, 0, "each request is waited for");
}

#[test]
fn on_the_log_reads_that_nobody_waits_for_are_bounded() {
    reads_that_nobody_waits_for_are_bounded::<Lfs>();
}

#[test]
fn on_the_fast_file_system_reads_that_nobody_waits_for_are_bounded() {
    reads_that_nobody_waits_for_are_bounded::<Ffs>();
}
