//! The check after a crash as clients see it, on a device that answers only when the test allows it.

use super::*;
use crate::volume;
use firnfs::lfs::{MkfsOptions, Options};
use firnfs::vfs::AtimeMode;
use firnfs_device::{Completion, Device, Geometry, MemDevice, Request, Tag};
use firnfs_format::TimeNs;

/// Reads wait while the gate is shut.
struct Gated {
    inner: MemDevice,
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Gated {
    fn set(&self, is_shut: bool) {
        *self.is_shut.lock() = is_shut;
        self.opened.notify_all();
    }
}

impl Device for Gated {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        if matches!(request, Request::Read { .. }) {
            self.opened.wait_while(&mut self.is_shut.lock(), |is_shut| *is_shut);
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

fn volume() -> (Arc<Gated>, Arc<Volume<Lfs>>) {
    let size_bytes = 32 << 20;
    let mkfs = MkfsOptions {
        size_bytes,
        block_bytes: 4096,
        segment_bytes: 256 << 10,
        physical_block_bytes: 4096,
        inline_max_bytes: 2048,
        label: "test".to_owned(),
        uuid: [7; 16],
        hash_key: [1, 2],
        now: TimeNs(1_000_000_000),
        root_owner: (0, 0),
    };
    let device = Arc::new(Gated {
        inner: MemDevice::new(size_bytes),
        is_shut: Mutex::new(false),
        opened: Condvar::new(),
    });
    firnfs_manage::format(&*device, &mkfs).unwrap();
    let volume = volume::open(device.clone(), Options::default(), AtimeMode::Noatime).unwrap();
    (device, Arc::new(volume))
}

#[test]
fn the_check_after_a_crash_is_running_then_passed_and_another_check_does_not_hide_that() {
    let (device, volume) = volume();
    let service = Service::new(Arc::downgrade(&volume));
    assert_eq!(service.status(None, Duration::ZERO).after_crash, None);
    device.set(true);
    service.check_after_crash();
    let status = service.status(None, Duration::from_millis(50));
    assert!(matches!(status.after_crash, Some(AfterCrashView::Running { .. })), "{status:?}");
    device.set(false);
    let status = service.status(None, Duration::from_secs(20));
    let passed = status.after_crash;
    assert!(matches!(passed, Some(AfterCrashView::Passed { inodes: 1, .. })), "{passed:?}");
    assert_eq!(status.running, None);
    let (number, _) = service.start(Purpose::Scrub, None).unwrap();
    let status = service.status(Some(number), Duration::from_secs(20));
    assert_eq!(status.ended.map(|ended| ended.purpose), Some(Purpose::Scrub));
    assert_eq!(status.after_crash, passed);
    service.end();
}

#[test]
fn a_check_after_a_crash_that_an_unmount_stops_is_not_finished() {
    let (device, volume) = volume();
    let service = Service::new(Arc::downgrade(&volume));
    device.set(true);
    service.check_after_crash();
    service.stop(None);
    device.set(false);
    let status = service.status(None, Duration::from_secs(20));
    let why = "it was stopped".to_owned();
    assert_eq!(status.after_crash, Some(AfterCrashView::Unfinished { reason: why }));
    service.end();
    // Nor does one that cannot begin.
    service.check_after_crash();
    let line = service.status(None, Duration::ZERO).after_crash.unwrap().line();
    assert!(
        line.starts_with("not finished: it could not be started") && line.contains("firn scrub"),
        "{line}"
    );
}
