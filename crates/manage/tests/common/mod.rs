//! Helpers that the tests of a volume share: they make a volume on a memory device, and give the calls short
//! names.
#![allow(dead_code)] // each test file uses its part

use firnfs::FsError;
use firnfs::engine::{Engine, Step};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Device, MemDevice};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{format, open};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

pub const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0o022 };
pub const START_NS: i64 = 2_000_000_000;

pub fn mkfs_options(size_bytes: u64, inline_max_bytes: u32) -> MkfsOptions {
    MkfsOptions {
        size_bytes,
        block_bytes: 4096,
        segment_bytes: 256 << 10,
        physical_block_bytes: 4096,
        inline_max_bytes,
        label: "test".to_owned(),
        uuid: [7; 16],
        hash_key: [1, 2],
        now: TimeNs(1_000_000_000),
        root_owner: (0, 0),
    }
}

/// A new volume of segments of 256 KiB.
pub fn new_device(size_bytes: u64, inline_max_bytes: u32) -> Arc<dyn Device> {
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(size_bytes));
    format(&*device, &mkfs_options(size_bytes, inline_max_bytes)).unwrap();
    device
}

pub fn mount(device: &Arc<dyn Device>, options: Options) -> (Volume<Lfs>, Arc<VirtualClock>) {
    let clock = Arc::new(VirtualClock::at(START_NS));
    let volume = open(device.clone(), options, AtimeMode::Noatime, clock.clone()).unwrap();
    (volume, clock)
}

pub fn try_create(volume: &Volume<Lfs>, parent: InodeNo, name: &str, kind: Kind) -> Result<InodeNo, FsError> {
    let node = NewNode { kind, mode: 0o755, rdev: 0, target: b"" };
    volume.run(|vfs, now| vfs.make(now, CALLER, parent, name.as_bytes(), node, false)).map(|a| a.ino)
}

pub fn create(volume: &Volume<Lfs>, parent: InodeNo, name: &str, kind: Kind) -> InodeNo {
    try_create(volume, parent, name, kind).unwrap()
}

pub fn unlink(volume: &Volume<Lfs>, parent: InodeNo, name: &str) -> Result<(), FsError> {
    volume.run(|vfs, now| vfs.unlink(now, parent, name.as_bytes()))
}

pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len).map(|i| (seed.wrapping_mul(31).wrapping_add(i as u64 * 7) >> 2) as u8).collect()
}

/// Fails if `work` does not end within a time that it can never need.
#[allow(clippy::disallowed_methods)] // a test may start threads
pub fn within_two_minutes(work: impl FnOnce() + Send + 'static) {
    let (done, ended) = channel();
    let worker = std::thread::spawn(move || {
        work();
        done.send(()).ok();
    });
    match ended.recv_timeout(Duration::from_secs(120)) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("the work did not end within two minutes"),
        _ => worker.join().unwrap_or_else(|why| std::panic::resume_unwind(why)),
    }
}

/// One step of background work, and the requests that it makes.
pub fn step(volume: &Volume<Lfs>) -> Step {
    let step = volume.run_quietly(|vfs, now| vfs.store_mut().step(now, true)).unwrap();
    volume.pump();
    step
}

/// All names in a directory, without `.` and `..`.
pub fn list(volume: &Volume<Lfs>, dir: InodeNo) -> Vec<(String, Kind, InodeNo)> {
    let mut names = Vec::new();
    let mut cookie = 0;
    loop {
        let from = (names.len(), cookie);
        volume
            .run(|vfs, now| {
                names.truncate(from.0);
                vfs.readdir(now, dir, from.1, &mut |entry| {
                    names.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.kind, entry.ino));
                    cookie = entry.next;
                    true
                })
            })
            .unwrap();
        if names.len() == from.0 {
            break;
        }
    }
    names.retain(|(name, ..)| name != "." && name != "..");
    names
}

/// Asserts that a file has those bytes and no more.
pub fn assert_content(volume: &Volume<Lfs>, ino: InodeNo, bytes: &[u8], what: &str) {
    let mut found = vec![0; bytes.len() + 1];
    assert_eq!(volume.read(ino, 0, &mut found).unwrap(), bytes.len(), "{what}");
    assert!(found[..bytes.len()] == *bytes, "{what} has other bytes");
}

/// Seeds of histories: `FIRNFS_SEEDS=a..b`, three if it is not set.
pub fn seeds() -> std::ops::Range<u64> {
    let Ok(range) = std::env::var("FIRNFS_SEEDS") else { return 0..3 };
    let (from, to) = range.split_once("..").expect("FIRNFS_SEEDS=a..b");
    from.parse().expect("a number")..to.parse().expect("a number")
}
