//! Look-ahead: how much is read from the device for each byte asked for, at random and in sequence.

mod common;

use common::{create, mkfs_options, mount, pattern};
use firnfs::inode::Kind;
use firnfs::lfs::Options;
use firnfs_device::{CountingDevice, Device, MemDevice};
use firnfs_format::InodeNo;
use firnfs_manage::format;
use std::sync::Arc;

const FILE_BYTES: u64 = 100 << 20;
const READ_BYTES: u64 = 8 << 10;

/// A file on a volume whose device counts, to be read after a remount.
fn device_with_a_file() -> Arc<CountingDevice<MemDevice>> {
    let device = Arc::new(CountingDevice::new(MemDevice::new(256 << 20)));
    format(&*device, &mkfs_options(256 << 20, 0)).unwrap();
    let shared: Arc<dyn Device> = device.clone();
    let (volume, _) = mount(&shared, Options::default());
    let file = create(&volume, InodeNo::ROOT, "file", Kind::Regular);
    let piece = pattern(1, 1 << 20);
    for at_bytes in (0..FILE_BYTES).step_by(1 << 20) {
        volume.write_all(file, at_bytes, &piece, false).unwrap();
    }
    volume.close().unwrap();
    device
}

/// Bytes read from the device for each byte asked for, cold, and the number of reads.
fn cost_of(places: impl Iterator<Item = u64>) -> (f64, u64) {
    let device = device_with_a_file();
    let shared: Arc<dyn Device> = device.clone();
    // Content does not stay in memory: each place is cold.
    let options = Options { cache_file_data: false, ..Options::default() };
    let (volume, _) = mount(&shared, options);
    let file = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, b"file", false)).unwrap().ino;
    let before = device.counts();
    let (mut asked, mut out) = (0, vec![0; READ_BYTES as usize]);
    for at_bytes in places {
        asked += volume.read(file, at_bytes, &mut out).unwrap() as u64;
    }
    let counts = device.counts().since(&before);
    (counts.read_bytes as f64 / asked as f64, counts.reads)
}

#[test]
fn random_reads_fetch_little_more_than_they_ask_for() {
    let mut state = 42u64;
    let places = (0..FILE_BYTES / READ_BYTES).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % (FILE_BYTES / READ_BYTES) * READ_BYTES
    });
    let (cost, _) = cost_of(places);
    println!("{cost:.3} bytes fetched for each asked for at random");
    assert!(cost <= 1.02, "{cost:.3}");
}

#[test]
fn reads_in_sequence_are_few_and_fetch_everything_once() {
    let (cost, reads) = cost_of((0..FILE_BYTES).step_by(READ_BYTES as usize));
    println!("{cost:.3} bytes fetched for each asked for in sequence, {reads} reads");
    assert!(cost <= 1.05, "{cost:.3}");
    // Steps of 128 KiB: about 800, and a few for the beginning and for metadata.
    assert!(reads <= 850, "{reads} reads");
}
