//! Regression: discards of emptied segments against writes into the same segments.

use firnfs::inode::Kind;
use firnfs::lfs::{MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Completion, Device, Geometry, MemDevice, Request, Tag};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_sim::VirtualClock;
use firnfs_volume::{Volume, format, open};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SIZE_BYTES: u64 = 32 << 20;
const FILE_BYTES: usize = 40_000;
const WRITERS: usize = 3;

/// A device whose discards take their time, as those of real ones do.
struct SlowDiscards {
    memory: MemDevice,
    discards: AtomicU64,
}

impl Device for SlowDiscards {
    fn geometry(&self) -> Geometry {
        self.memory.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        if matches!(request, Request::Discard { .. }) {
            self.discards.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(3));
        }
        self.memory.submit(request)
    }
    fn wait(&self, tag: Tag) -> Completion {
        self.memory.wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.memory.describe()
    }
}

fn pattern(seed: u64) -> Vec<u8> {
    (0..FILE_BYTES as u64).map(|i| (seed.wrapping_mul(31).wrapping_add(i * 7) >> 2) as u8).collect()
}

/// Overwrites the files at random, then checks them.
fn overwrite(volume: &Volume<firnfs::lfs::Lfs>, inodes: &[InodeNo], seed: u64) {
    let mut seeds = vec![0; inodes.len()];
    let mut state = seed;
    for step in 0..inodes.len() * 10 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let n = if step < inodes.len() { step } else { (state >> 33) as usize % inodes.len() };
        seeds[n] = state;
        volume.write(inodes[n], 0, &pattern(state), false).unwrap();
        if step % 5 == 0 {
            volume.sync(Scope::File(inodes[n])).unwrap();
        }
    }
    for (ino, seed) in inodes.iter().zip(seeds) {
        let mut found = vec![0; FILE_BYTES];
        assert_eq!(volume.read(*ino, 0, &mut found).unwrap(), FILE_BYTES);
        assert!(found == pattern(seed), "inode {ino}");
    }
}

#[test]
fn a_segment_is_not_written_again_before_its_discard_is_complete() {
    let slow = Arc::new(SlowDiscards { memory: MemDevice::new(SIZE_BYTES), discards: AtomicU64::new(0) });
    let device: Arc<dyn Device> = slow.clone();
    let options = MkfsOptions {
        size_bytes: SIZE_BYTES,
        block_bytes: 4096,
        segment_bytes: 256 << 10,
        physical_block_bytes: 4096,
        inline_max_bytes: 2048,
        label: String::new(),
        uuid: [9; 16],
        hash_key: [3, 4],
        now: TimeNs(0),
        root_owner: (0, 0),
    };
    format(&*device, &options).unwrap();
    // A small cache, so that reads go to the device.
    let options =
        Options { write_threshold_bytes: 1 << 20, cache_bytes: 4 << 20, discard: true, ..Options::default() };
    let volume = open(device, options, AtimeMode::Noatime, Arc::new(VirtualClock::at(0))).unwrap();
    let total_bytes = volume.run(|vfs, _| Ok(vfs.statfs())).unwrap().total_bytes;
    let files = total_bytes as usize * 9 / 10 / (FILE_BYTES + 3000);
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
    let make = |n: usize| {
        let name = format!("file {n}");
        volume.run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, name.as_bytes(), node, false)).unwrap().ino
    };
    let inodes: Vec<InodeNo> = (0..files).map(make).collect();
    std::thread::scope(|scope| {
        for (writer, part) in inodes.chunks(inodes.len().div_ceil(WRITERS)).enumerate() {
            let volume = &volume;
            scope.spawn(move || overwrite(volume, part, writer as u64));
        }
    });
    let discards = slow.discards.load(Ordering::Relaxed);
    assert!(discards > 50, "segments are discarded all the time: {discards}");
}
