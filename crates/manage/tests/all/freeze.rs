//! A frozen volume: nothing reaches the device, changes wait, reads go on; a copy of the device has everything that was accepted
//! before the freeze.
#![allow(clippy::disallowed_methods)] // a test may start threads

use crate::common::{CALLER, mkfs_options, pattern, within_two_minutes};
use firnfs::FsError;
use firnfs::check::From;
use firnfs::engine::Engine;
use firnfs::ffs;
use firnfs::inode::Kind;
use firnfs::lfs::Options;
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, NewNode};
use firnfs_device::{
    Clock, Completion, Device, DeviceError, Geometry, MemDevice, Request, SparseImage, SystemClock, Tag,
};
use firnfs_format::superblock::Superblock;
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{LogVolume, check, format, format_ffs, open, open_ffs};
use firnfs_volume::Volume;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

const SIZE_BYTES: u64 = 64 << 20;
const WRITERS: u64 = 3;
const FILE_BYTES: usize = 20_000;
/// Files of each writer.
const FILES: u64 = 300;

fn image_of(device: &dyn Device) -> Vec<u8> {
    device.read(0, SIZE_BYTES as u32).unwrap().to_vec()
}

fn name(writer: u64, number: u64) -> String {
    format!("{writer}.{number}")
}

/// Makes files until told to stop; counts those that are complete.
fn write_files<S: Engine>(volume: &Volume<S>, writer: u64, done: &AtomicU64, stop: &AtomicBool) {
    for number in 0..FILES {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let (node, name) =
            (NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" }, name(writer, number));
        let made = volume
            .run(|vfs, now| vfs.make(now, CALLER, InodeNo::ROOT, name.as_bytes(), node, false))
            .unwrap();
        volume.write_all(made.ino, 0, &pattern(writer * FILES + number, FILE_BYTES), false).unwrap();
        done.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn read<S: Engine>(volume: &Volume<S>, name: &str) -> Result<Vec<u8>, FsError> {
    let ino = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, name.as_bytes(), false))?.ino;
    let mut out = vec![0; FILE_BYTES];
    let len_bytes = volume.read(ino, 0, &mut out)?;
    out.truncate(len_bytes);
    Ok(out)
}

/// Freezes while threads write; returns the copy, and how many files of each writer were complete before the freeze.
fn copy_while_writing<S: Engine>(volume: &Arc<Volume<S>>, device: &dyn Device) -> (Vec<u8>, Vec<u64>)
where
    Volume<S>: Send + Sync,
{
    let done: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let counts = || -> Vec<u64> { done.iter().map(|done| done.load(Ordering::SeqCst)).collect() };
    let (stop, stop_background) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let background = scope.spawn(|| {
            let _promise = volume.promise_background();
            while !stop_background.load(Ordering::SeqCst) {
                volume.wait_for_work(volume.background().unwrap().min(100));
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (done, stop) = (&done[writer as usize], &stop);
                scope.spawn(move || write_files(volume, writer, done, stop))
            })
            .collect();
        while counts().iter().any(|count| *count < 20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = counts();
        let freeze = volume.freeze().unwrap();
        assert!(matches!(volume.freeze(), Err(FsError::Invalid(_))), "one at a time");
        assert!(matches!(volume.close(), Err(FsError::Invalid(_))), "closing writes");
        let held = counts();
        let copy = image_of(device);
        // Longer than every interval of the volume.
        let until = Instant::now() + Duration::from_millis(700);
        while Instant::now() < until {
            for writer in 0..WRITERS {
                let content = read(volume, &name(writer, 3)).unwrap();
                assert_eq!(content, pattern(writer * FILES + 3, FILE_BYTES), "reads go on");
            }
            volume.sync(Scope::All).unwrap();
        }
        assert!(image_of(device) == copy, "something was written to the frozen device");
        // Each writer may have been between its last change and the count.
        assert!(
            counts().iter().zip(&held).all(|(now, held)| *now <= held + 1),
            "{held:?}, then {:?}",
            counts()
        );
        drop(freeze);
        let resumed = counts();
        while counts().iter().zip(&resumed).any(|(now, then)| *now < (then + 3).min(FILES)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::SeqCst);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop_background.store(true, Ordering::SeqCst);
        volume.wake();
        background.join().unwrap();
        (copy, before)
    })
}

fn device_of(image: &[u8]) -> Arc<dyn Device> {
    let device = MemDevice::new(SIZE_BYTES);
    device.write(0, Arc::new(firnfs_device::AlignedBuf::copy_of(image))).unwrap();
    Arc::new(device)
}

fn has_all<S: Engine>(volume: &Volume<S>, before: &[u64]) {
    for (writer, count) in (0..).zip(before) {
        for number in 0..*count {
            let content = read(volume, &name(writer, number)).unwrap();
            assert!(content == pattern(writer * FILES + number, FILE_BYTES), "{}", name(writer, number));
        }
    }
}

#[test]
fn a_copy_of_a_frozen_log_has_everything_and_nothing_reaches_the_device() {
    within_two_minutes(|| {
        let device: Arc<dyn Device> = Arc::new(MemDevice::new(SIZE_BYTES));
        format(&*device, &mkfs_options(SIZE_BYTES, 2048)).unwrap();
        let options = Options {
            commit_interval_ms: 50,
            checkpoint_interval_ms: 100,
            coalesce_age_ms: Some(10),
            ..Options::default()
        };
        // Every read changes an access time.
        let volume = open(device.clone(), options, AtimeMode::Strictatime, Arc::new(SystemClock)).unwrap();
        let (copy, before) = copy_while_writing(&Arc::new(volume), &*device);
        let copied = device_of(&copy);
        let report = check(&*copied, From::Newest, &mut |_| {}).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        let volume = open(copied, Options::default(), AtimeMode::Noatime, Arc::new(SystemClock)).unwrap();
        has_all(&volume, &before);
    });
}

#[test]
fn a_copy_of_a_frozen_fast_file_system_has_everything_and_nothing_reaches_the_device() {
    within_two_minutes(|| {
        let device: Arc<dyn Device> = Arc::new(MemDevice::new(SIZE_BYTES));
        let mkfs =
            ffs::MkfsOptions { now: TimeNs(SystemClock.now_ns()), ..ffs::MkfsOptions::with_size(SIZE_BYTES) };
        format_ffs(&*device, &mkfs).unwrap();
        let options = ffs::Options { update_interval_ms: 50, ..ffs::Options::default() };
        let volume =
            open_ffs(device.clone(), options, AtimeMode::Strictatime, Arc::new(SystemClock)).unwrap();
        let (copy, before) = copy_while_writing(&Arc::new(volume), &*device);
        let volume =
            open_ffs(device_of(&copy), ffs::Options::default(), AtimeMode::Noatime, Arc::new(SystemClock))
                .unwrap();
        has_all(&volume, &before);
    });
}

/// Calls a function before the first write to the second copy of the superblock.
struct Hooked {
    inner: MemDevice,
    hook: OnceLock<Box<dyn Fn() + Send + Sync>>,
    has_fired: AtomicBool,
}

impl Device for Hooked {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn grow(&self, size_bytes: u64) -> Result<(), DeviceError> {
        self.inner.grow(size_bytes)
    }
    fn submit(&self, request: Request) -> Tag {
        let is_copy =
            matches!(&request, Request::Write { at_bytes, .. } if *at_bytes == Superblock::places(0)[1]);
        if let Some(hook) =
            self.hook.get().filter(|_| is_copy && !self.has_fired.swap(true, Ordering::SeqCst))
        {
            hook();
        }
        self.inner.submit(request)
    }
    fn wait(&self, tag: Tag) -> Completion {
        self.inner.wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
}

#[test]
fn a_freeze_waits_for_copies_of_the_superblock_that_a_resize_has_begun_to_write() {
    let geometry = Geometry { size_bytes: SIZE_BYTES, logical_block_bytes: 512, physical_block_bytes: 4096 };
    let inner = MemDevice::with_geometry(SparseImage::new(2 * SIZE_BYTES), geometry);
    let device = Arc::new(Hooked { inner, hook: OnceLock::new(), has_fired: AtomicBool::new(false) });
    format(&*device, &mkfs_options(SIZE_BYTES, 0)).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let volume = Arc::new(open(device.clone(), Options::default(), AtimeMode::Noatime, clock).unwrap());
    let frozen = Arc::new(AtomicBool::new(false));
    let freezer = Arc::new(std::sync::Mutex::new(None));
    let (of_hook, for_hook, thread) = (Arc::downgrade(&volume), frozen.clone(), freezer.clone());
    let hook = move || {
        let (volume, frozen) = (of_hook.upgrade().unwrap(), for_hook.clone());
        *thread.lock().unwrap() = Some(std::thread::spawn(move || {
            let freeze = volume.freeze().unwrap();
            frozen.store(true, Ordering::SeqCst);
            let sizes = Superblock::places(2 * SIZE_BYTES).map(|at_bytes| {
                let copy = volume.device().unwrap().read(at_bytes, 4096).unwrap();
                Superblock::decode(&copy).unwrap().size_bytes
            });
            drop(freeze);
            sizes
        }));
        // Long enough for a freeze that waits for nothing.
        std::thread::sleep(Duration::from_millis(200));
        assert!(!for_hook.load(Ordering::SeqCst), "frozen amid the copies");
    };
    assert!(device.hook.set(Box::new(hook)).is_ok());
    volume.begin_growing(2 * SIZE_BYTES).unwrap();
    let freezer = freezer.lock().unwrap().take().unwrap();
    assert_eq!(freezer.join().unwrap(), [2 * SIZE_BYTES; 3]);
}
