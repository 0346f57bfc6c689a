//! The driver under a model checker: threads write, sync, read, do background work and unmount on a small volume, in orders
//! that a real scheduler would not produce in years. No order may end in a deadlock, lose data that a sync acknowledged, or
//! have two writes to one place under way. Timeouts never end a wait here, so a lost wake-up shows as a deadlock.
//!
//! Run it with `scripts/test.sh interleavings`, which is `cargo test` with `RUSTFLAGS="--cfg shuttle"`; FIRNFS_SCHEDULES sets
//! the number of orders. A failure prints the schedule; `shuttle::replay` runs it again.
#![cfg(shuttle)]

mod common;

use common::{START_NS, create, mkfs_options};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options};
use firnfs::store::Scope;
use firnfs::vfs::AtimeMode;
use firnfs_device::{Clock, Completion, Device, Geometry, MemDevice, Request, SparseImage, Tag};
use firnfs_format::InodeNo;
use firnfs_manage::LogVolume;
use firnfs_manage::{format, open};
use firnfs_sim::VirtualClock;
use firnfs_sim::crash::{CrashDisk, CrashState, DiscardMode, History};
use firnfs_volume::{Volume, lose_notifications};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::{Config, Runner, thread};
use std::sync::Arc;

const SIZE_BYTES: u64 = 16 << 20;
const STACK_BYTES: usize = 1 << 20;
const WRITERS: u64 = 2;
/// Versions that each writer makes of its file.
const VERSIONS: u64 = 3;
/// Two blocks and a bit, more than an inode can hold.
const CALM_BYTES: usize = 9_000;
/// Large enough that writers wait for room over and over.
const PRESSED_BYTES: usize = 60_000;
/// Power cuts in the history of each schedule.
const CUTS: usize = 4;
/// Writes of the only user of a volume whose background thread ends, and the switching points before that thread is told to
/// end: about as many as those writes have.
const LONE_WRITES: u64 = 6;
const LONE_SWITCHES_MAX: u32 = 60;

/// A disk on which every request takes so long that all others can come in between.
struct Slow(CrashDisk);

impl Device for Slow {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        self.0.submit(request)
    }
    fn wait(&self, tag: Tag) -> Completion {
        thread::yield_now();
        self.0.wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.0.describe()
    }
}

/// A clock that advances at every look.
struct Ticking(VirtualClock);

impl Clock for Ticking {
    fn now_ns(&self) -> i64 {
        self.0.advance_ms(1);
        self.0.now_ns()
    }
}

/// Everything falls due early: commits, checkpoints, full segments.
fn options() -> Options {
    Options {
        write_threshold_bytes: 16 << 10,
        commit_interval_ms: 20,
        checkpoint_interval_ms: 60,
        checkpoint_bytes: 64 << 10,
        ..Options::default()
    }
}

fn empty_volume() -> SparseImage {
    let device = MemDevice::new(SIZE_BYTES);
    format(&device, &mkfs_options(SIZE_BYTES, 2048)).unwrap();
    device.image()
}

fn mounted(device: Arc<dyn Device>) -> Volume<Lfs> {
    let clock = Arc::new(Ticking(VirtualClock::at(START_NS)));
    open(device, options(), AtimeMode::Noatime, clock).unwrap()
}

fn name_of(writer: u64) -> String {
    format!("of writer {writer}")
}

fn content(writer: u64, version: u64, file_bytes: usize) -> Vec<u8> {
    vec![(writer * 16 + version) as u8; file_bytes]
}

/// Writes and syncs one version after the other, and marks on the disk what was acknowledged.
fn write(volume: &Volume<Lfs>, disk: &Slow, writer: u64, file_bytes: usize) {
    let ino = create(volume, InodeNo::ROOT, &name_of(writer), Kind::Regular);
    for version in 1..=VERSIONS {
        volume.write_all(ino, 0, &content(writer, version, file_bytes), false).unwrap();
        volume.sync(if version == VERSIONS { Scope::All } else { Scope::File(ino) }).unwrap();
        disk.0.mark(writer << 8 | version);
    }
}

fn read(volume: &Volume<Lfs>, writer: u64) -> Option<Vec<u8>> {
    let name = name_of(writer);
    let attr = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, name.as_bytes(), false)).ok()?;
    let mut bytes = vec![0; PRESSED_BYTES];
    let len = volume.read(attr.ino, 0, &mut bytes).unwrap();
    bytes.truncate(len);
    Some(bytes)
}

/// Every block is of one version, and not older than the version that this reader last saw there.
fn read_again_and_again(volume: &Volume<Lfs>, writer: u64) {
    let mut seen = vec![0; PRESSED_BYTES.div_ceil(4096)];
    for _ in 0..VERSIONS {
        for (seen, block) in seen.iter_mut().zip(read(volume, writer).unwrap_or_default().chunks(4096)) {
            assert!(block.iter().all(|byte| *byte == block[0]), "a torn block");
            assert!(*seen <= block[0], "version {} after {seen}", block[0]);
            *seen = block[0];
        }
    }
}

/// Does background work as the thread of a mount does.
fn do_background_work(volume: &Volume<Lfs>, stop: &AtomicBool) {
    let _promise = volume.promise_background();
    while !stop.load(Ordering::SeqCst) {
        let sleep_ms = volume.background().unwrap();
        if !stop.load(Ordering::SeqCst) {
            volume.wait_for_work(sleep_ms);
        }
    }
}

/// Data that was acknowledged before a cut is there after it, although nothing survived without a flush.
fn check_cut(history: &History, cut: usize, file_bytes: usize) {
    let state = CrashState { cut, fates: Vec::new(), discards: DiscardMode::Zeros };
    let volume = mounted(Arc::new(MemDevice::from_image(history.image(&state).unwrap())));
    for mark in history.marks_before(cut) {
        let (writer, version) = (mark >> 8, mark & 0xff);
        let found = read(&volume, writer).unwrap_or_else(|| panic!("{} is lost", name_of(writer)));
        let oldest = found.iter().min().copied();
        assert!(
            found.len() == file_bytes && oldest >= content(writer, version, 1).pop(),
            "version {version} of writer {writer} is lost at cut {cut}"
        );
    }
}

/// A volume with a thread that does its background work until told to stop.
struct Served {
    volume: Arc<Volume<Lfs>>,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Served {
    fn new(volume: Arc<Volume<Lfs>>, is_served: bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (served, stopped) = (volume.clone(), stop.clone());
        let thread = is_served.then(|| thread::spawn(move || do_background_work(&served, &stopped)));
        Self { volume, stop, thread }
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.volume.wake();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// One life of a volume: mount, threads at work, unmount.
fn live(image: &SparseImage, file_bytes: usize, is_served: bool) -> Arc<Slow> {
    let disk = Arc::new(Slow(CrashDisk::new(image.clone(), 4096)));
    let volume = Arc::new(mounted(disk.clone()));
    let mut served = Served::new(volume.clone(), is_served);
    let mut users = Vec::new();
    for writer in 1..=WRITERS {
        let (volume, disk) = (volume.clone(), disk.clone());
        users.push(thread::spawn(move || write(&volume, &disk, writer, file_bytes)));
    }
    let reader = volume.clone();
    users.push(thread::spawn(move || read_again_and_again(&reader, 1)));
    if file_bytes == PRESSED_BYTES {
        // Wait until no request is under way, which other threads bring about.
        let checked = volume.clone();
        users.push(thread::spawn(move || assert_eq!(checked.check().unwrap().findings, [])));
    }
    users.into_iter().for_each(|user| user.join().unwrap());
    // Every thread that got this far was woken; the end of the background thread shows nothing more.
    lose_notifications(None);
    served.end();
    volume.close().unwrap();
    disk
}

fn live_and_check(image: &SparseImage, file_bytes: usize, is_served: bool) {
    let disk = live(image, file_bytes, is_served);
    let history = disk.0.history();
    assert!(history.hazards().is_empty(), "{:#?}", history.hazards());
    let end = history.events().len();
    for _ in 0..CUTS {
        check_cut(&history, thread_rng().gen_range(0..=end), file_bytes);
    }
    let volume = mounted(Arc::new(MemDevice::from_image(disk.0.live_image())));
    for writer in 1..=WRITERS {
        assert!(
            read(&volume, writer) == Some(content(writer, VERSIONS, file_bytes)),
            "lost by a clean unmount"
        );
    }
}

fn end_background_work_amid_writes(image: &SparseImage) {
    let device = Arc::new(MemDevice::from_image(image.clone()));
    let volume = Arc::new(mounted(device.clone()));
    let mut served = Served::new(volume.clone(), true);
    let writer = volume.clone();
    let user = thread::spawn(move || {
        let ino = create(&writer, InodeNo::ROOT, &name_of(1), Kind::Regular);
        for version in 1..=LONE_WRITES {
            writer.write_all(ino, 0, &content(1, version, PRESSED_BYTES), false).unwrap();
        }
    });
    (0..thread_rng().gen_range(0..LONE_SWITCHES_MAX)).for_each(|_| thread::yield_now());
    served.end();
    user.join().unwrap();
    volume.close().unwrap();
    let volume = mounted(device);
    assert!(read(&volume, 1) == Some(content(1, LONE_WRITES, PRESSED_BYTES)), "lost by a clean unmount");
}

fn schedules() -> usize {
    std::env::var("FIRNFS_SCHEDULES").map_or(1000, |text| text.parse().unwrap())
}

fn check(scheduler: impl Scheduler + 'static, life: impl Fn(&SparseImage) + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.silence_warnings = true;
    let image = empty_volume();
    Runner::new(scheduler, config).run(move || life(&image));
}

#[test]
fn in_random_orders_no_thread_waits_for_ever_and_nothing_synced_is_lost() {
    check(RandomScheduler::new(schedules()), |image| live_and_check(image, CALM_BYTES, true));
}

#[test]
fn nor_with_few_switches_at_the_worst_moments() {
    check(PctScheduler::new(3, schedules()), |image| live_and_check(image, CALM_BYTES, true));
}

#[test]
fn nor_when_writers_wait_for_room() {
    check(RandomScheduler::new(schedules()), |image| {
        live_and_check(image, PRESSED_BYTES, true);
    });
}

#[test]
fn nor_when_writers_wait_for_room_and_switches_are_few() {
    check(PctScheduler::new(3, schedules()), |image| {
        live_and_check(image, PRESSED_BYTES, true);
    });
}

/// A writer that waits for room must learn that the background thread no longer makes any. It is the only user: no other
/// user's requests wake it.
#[test]
fn nor_when_background_work_ends_while_a_writer_waits_for_it() {
    check(RandomScheduler::new(schedules()), end_background_work_amid_writes);
}

#[test]
fn nor_when_writers_make_room_themselves() {
    check(RandomScheduler::new(schedules()), |image| {
        live_and_check(image, PRESSED_BYTES, false);
    });
}

/// The checker works: if notifications are lost from some moment on, a thread waits for ever.
#[test]
#[should_panic(expected = "deadlock")]
fn lost_notifications_are_found() {
    check(RandomScheduler::new(schedules()), |image| {
        lose_notifications(Some(thread_rng().gen_range(0..40)));
        live(image, CALM_BYTES, true);
    });
}
