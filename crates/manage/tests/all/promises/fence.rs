//! The fence: a writer whose device is another program's by now writes no checkpoint, and becomes read-only.

use crate::promises::support::{KIB, MIB, Mounted, make_volume, pattern};
use firnfs::ffs;
use firnfs::inode::Kind;
use firnfs::lfs::Options;
use firnfs::store::Scope;
use firnfs::vfs::AtimeMode;
use firnfs_device::{Completion, Device, DeviceError, Geometry, MemDevice, Request, Tag};
use firnfs_format::InodeNo;
use firnfs_manage::{LogVolume, format_ffs, open_ffs};
use firnfs_sim::VirtualClock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const VOLUME_BYTES: u64 = 16 * MIB;

/// A device that another program may take over.
struct Shared {
    inner: MemDevice,
    is_replaced: AtomicBool,
    writes: AtomicU64,
}

impl Device for Shared {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        let is_write = matches!(request, Request::Write { .. });
        self.writes.fetch_add(u64::from(is_write), Ordering::Relaxed);
        self.inner.submit(request)
    }
    fn wait(&self, tag: Tag) -> Completion {
        self.inner.wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
    fn fence(&self) -> Result<(), DeviceError> {
        let is_replaced = self.is_replaced.load(Ordering::Relaxed);
        if is_replaced { Err(DeviceError::replaced(self.describe(), "it is process 7's")) } else { Ok(()) }
    }
}

fn empty() -> Arc<Shared> {
    Arc::new(Shared {
        inner: MemDevice::new(VOLUME_BYTES),
        is_replaced: AtomicBool::new(false),
        writes: AtomicU64::new(0),
    })
}

fn shared() -> Arc<Shared> {
    let device = empty();
    make_volume(&device, 256 * KIB);
    device
}

fn assert_is_cut_off(mounted: &Mounted) {
    let why = mounted.volume.broken().unwrap();
    assert!(why.contains("claim of") && why.contains("it is process 7's"), "{why}");
    assert!(mounted.try_make(InodeNo::ROOT, "late", Kind::Regular).is_err());
}

#[test]
fn a_writer_that_is_not_the_only_one_writes_nothing_at_all() {
    let device = shared();
    device.is_replaced.store(true, Ordering::Relaxed);
    let before = device.writes.load(Ordering::Relaxed);
    let mounted = Mounted::new(device.clone(), Options::default());
    let file = mounted.try_make(InodeNo::ROOT, "file", Kind::Regular);
    file.and_then(|ino| mounted.volume.sync(Scope::File(ino))).unwrap_err();
    assert_is_cut_off(&mounted);
    assert_eq!(device.writes.load(Ordering::Relaxed), before);
}

#[test]
fn the_fast_file_system_writes_nothing_either() {
    let device = empty();
    let mkfs = ffs::MkfsOptions::with_size(VOLUME_BYTES);
    format_ffs(&*device, &mkfs).unwrap();
    device.is_replaced.store(true, Ordering::Relaxed);
    let before = device.writes.load(Ordering::Relaxed);
    let clock = Arc::new(VirtualClock::at(1));
    let volume = open_ffs(device.clone(), ffs::Options::default(), AtimeMode::Noatime, clock).unwrap();
    volume.sync(Scope::All).unwrap_err();
    assert!(volume.broken().unwrap().contains("it is process 7's"), "{:?}", volume.broken());
    assert_eq!(device.writes.load(Ordering::Relaxed), before);
}

#[test]
fn a_writer_that_was_replaced_writes_no_checkpoint_and_becomes_read_only() {
    let device = shared();
    let mounted = Mounted::new(device.clone(), Options::default());
    let ino = mounted.create(InodeNo::ROOT, "file");
    mounted.write(ino, 0, &pattern(1, 100_000));
    mounted.sync();
    device.is_replaced.store(true, Ordering::Relaxed);
    let before = device.writes.load(Ordering::Relaxed);
    mounted.volume.close().unwrap_err();
    assert_is_cut_off(&mounted);
    // The checkpoint's tables may be in the log, but no slot refers to them.
    let log_writes = device.writes.load(Ordering::Relaxed) - before;
    assert!(log_writes > 0);
    drop(mounted);
    device.is_replaced.store(false, Ordering::Relaxed);
    let again = Mounted::new(device, Options::default());
    assert!(again.volume.run(|vfs, _| Ok(!vfs.store().recovered().was_clean)).unwrap());
    let ino = again.find(InodeNo::ROOT, "file").unwrap();
    assert_eq!(again.content(ino), pattern(1, 100_000));
    again.close();
}

#[test]
fn a_volume_whose_device_is_anothers_keeps_its_label_and_its_size() {
    let device = shared();
    let mounted = Mounted::new(device.clone(), Options::default());
    mounted.sync();
    device.is_replaced.store(true, Ordering::Relaxed);
    let before = device.writes.load(Ordering::Relaxed);
    for refused in [mounted.volume.relabel("late"), mounted.volume.begin_growing(2 * VOLUME_BYTES)] {
        let why = refused.unwrap_err().to_string();
        assert!(why.contains("it is process 7's"), "{why}");
    }
    assert_eq!(device.writes.load(Ordering::Relaxed), before);
    assert_eq!(device.geometry().size_bytes, VOLUME_BYTES);
}
