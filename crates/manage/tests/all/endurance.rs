//! Volumes filled to 99% of the space that statfs offers, then overwritten at random for hours of virtual time: no write is
//! refused, and none waits for more than a stated amount of device traffic.

use crate::common::{START_NS, create, mkfs_options};
use firnfs::inode::Kind;
use firnfs::lfs::{Counters, Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::AtimeMode;
use firnfs_device::{CountingDevice, Device, MemDevice};
use firnfs_format::InodeNo;
use firnfs_manage::{format_with_logs, open};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::sync::Arc;

/// Virtual time between two writes: no more work falls due by time than in real use.
const PAUSE_NS: i64 = 1_000_000_000;

/// The size of the files, and of the overwrites, in bytes.
#[derive(Clone, Copy, Debug)]
struct Shape {
    file_bytes: u64,
    write_bytes: u64,
    /// The most device traffic that one write may wait for, in volumes.
    wait_max_volumes: u64,
}

const SHAPES: [Shape; 4] = [
    // One file: each block needs an indirect block of 256 to be written with it.
    Shape { file_bytes: 1 << 40, write_bytes: 4096, wait_max_volumes: 1 },
    Shape { file_bytes: 64 << 10, write_bytes: 4096, wait_max_volumes: 3 },
    // One block per file: each needs a record and a part of the inode map to be written with it.
    Shape { file_bytes: 4096, write_bytes: 4096, wait_max_volumes: 4 },
    Shape { file_bytes: 1 << 20, write_bytes: 64 << 10, wait_max_volumes: 1 },
];

struct Worn {
    volume: Volume<Lfs>,
    clock: Arc<VirtualClock>,
    device: Arc<CountingDevice<MemDevice>>,
}

impl Worn {
    fn new(size_bytes: u64, segment_bytes: u32, data_logs: Option<u8>) -> Self {
        let device = Arc::new(CountingDevice::new(MemDevice::new(size_bytes)));
        let dynamic: Arc<dyn Device> = device.clone();
        let mkfs = MkfsOptions { segment_bytes, ..mkfs_options(size_bytes, 0) };
        format_with_logs(&*dynamic, &mkfs, data_logs).unwrap();
        let clock = Arc::new(VirtualClock::at(START_NS));
        let options = Options { cache_file_data: false, cache_bytes: 64 << 20, ..Options::default() };
        let volume = open(dynamic, options, AtimeMode::Noatime, clock.clone()).unwrap();
        Self { volume, clock, device }
    }

    fn free_bytes(&self) -> u64 {
        self.volume.run(|vfs, _| Ok(vfs.statfs())).unwrap().free_bytes
    }

    fn counters(&self) -> Counters {
        self.volume.run(|vfs, _| Ok(*vfs.store().counters())).unwrap()
    }

    fn traffic_bytes(&self) -> u64 {
        let counts = self.device.counts();
        counts.read_bytes + counts.write_bytes
    }

    /// Fills the volume with files that leave a hundredth of the free space; returns them with their lengths.
    fn fill(&self, shape: Shape) -> Vec<(InodeNo, u64)> {
        let block = vec![7; shape.write_bytes as usize];
        let keep_bytes = self.free_bytes() / 100;
        let mut files = Vec::new();
        while self.free_bytes() > keep_bytes {
            let ino = create(&self.volume, InodeNo::ROOT, &format!("f{}", files.len()), Kind::Regular);
            let mut len = 0;
            while len < shape.file_bytes && self.free_bytes() > keep_bytes {
                self.volume.write_all(ino, len, &block, false).unwrap();
                len += shape.write_bytes;
            }
            files.push((ino, len));
        }
        self.volume.sync(Scope::All).unwrap();
        files
    }

    /// Overwrites that many bytes; returns the most device traffic that one write waited for, in bytes.
    fn overwrite(&self, shape: Shape, files: &[(InodeNo, u64)], bytes: u64) -> u64 {
        let block = vec![9; shape.write_bytes as usize];
        let mut state = 12345u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        let mut longest_bytes = 0;
        for _ in 0..bytes / shape.write_bytes {
            let (ino, len) = files[random(files.len() as u64) as usize];
            let at_bytes = random(len / shape.write_bytes) * shape.write_bytes;
            let before = self.traffic_bytes();
            self.volume.write_all(ino, at_bytes, &block, false).unwrap();
            longest_bytes = longest_bytes.max(self.traffic_bytes() - before);
            self.clock.advance_ns(PAUSE_NS);
        }
        longest_bytes
    }
}

fn wear(shape: Shape, size_bytes: u64, segment_bytes: u32, data_logs: Option<u8>, bytes: u64) {
    let worn = Worn::new(size_bytes, segment_bytes, data_logs);
    let files = worn.fill(shape);
    let (before, traffic_before) = (worn.counters(), worn.traffic_bytes());
    let longest_bytes = worn.overwrite(shape, &files, bytes);
    let after = worn.counters();
    let per_byte = |part: u64| part as f64 / bytes as f64;
    println!(
        "{shape:?}, {} MiB: device bytes a byte {:.1}, log {:.1}, cleaner {:.1}, longest wait {:.1} MiB of traffic",
        size_bytes >> 20,
        per_byte(worn.traffic_bytes() - traffic_before),
        per_byte(after.log_bytes - before.log_bytes),
        per_byte(after.cleaner_moved_bytes - before.cleaner_moved_bytes),
        longest_bytes as f64 / f64::from(1 << 20),
    );
    assert!(after.segments_cleaned > before.segments_cleaned, "the cleaner was not needed");
    assert!(
        longest_bytes <= shape.wait_max_volumes * size_bytes,
        "{shape:?}: a write waited for {longest_bytes} bytes"
    );
    worn.volume.close().unwrap();
}

#[test]
fn a_volume_filled_to_99_percent_is_overwritten_for_hours_without_a_refusal() {
    for shape in SHAPES {
        wear(shape, 64 << 20, 256 << 10, None, 16 << 20);
    }
}

/// More logs than mkfs would choose for such a volume: each of them holds clean segments, and dirty blocks go to all.
#[test]
fn a_volume_with_the_most_logs_is_overwritten_for_hours_without_a_refusal() {
    for shape in SHAPES {
        wear(shape, 64 << 20, 256 << 10, Some(5), 16 << 20);
    }
}

#[test]
#[ignore = "takes some ten minutes: scripts/scale.sh runs this in release"]
fn a_large_volume_filled_to_99_percent_is_overwritten_four_times() {
    for shape in SHAPES {
        wear(shape, 512 << 20, 1 << 20, None, 4 * (512 << 20));
    }
}
