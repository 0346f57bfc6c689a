//! Look-ahead: how much is read from the device for each byte asked for, at random and in sequence.

use crate::common::{create, list, mkfs_options, mount, pattern};
use firnfs::inode::Kind;
use firnfs::lfs::Options;
use firnfs::store::Scope;
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

/// 10,000 files of 1 KiB in 100 directories, listed and read in the order in which they were made, after a remount: bytes read from the
/// device for each byte that the volume has of them, with their inodes, directories and tables.
fn cost_of_small_files(inline_max_bytes: u32) -> (f64, u64) {
    let size_bytes = 128 << 20;
    let device = Arc::new(CountingDevice::new(MemDevice::new(size_bytes)));
    format(&*device, &mkfs_options(size_bytes, inline_max_bytes)).unwrap();
    let shared: Arc<dyn Device> = device.clone();
    let (volume, _) = mount(&shared, Options::default());
    for d in 0..100 {
        let dir = create(&volume, InodeNo::ROOT, &format!("dir{d:02}"), Kind::Directory);
        for n in 0..100 {
            let file = create(&volume, dir, &format!("file{n:02}"), Kind::Regular);
            volume.write_all(file, 0, &pattern(100 * d + n, 1024), false).unwrap();
        }
    }
    volume.close().unwrap();
    drop(volume);
    let (volume, _) = mount(&shared, Options::default());
    let live_bytes = volume.run(|vfs, _| Ok(vfs.store().live_bytes())).unwrap();
    let before = device.counts();
    let mut bytes = vec![0; 1024];
    for (d, (_, _, dir)) in (0..).zip(list(&volume, InodeNo::ROOT)) {
        for (n, (name, _, _)) in (0..).zip(list(&volume, dir)) {
            let file = volume.run(|vfs, now| vfs.lookup(now, dir, name.as_bytes(), false)).unwrap().ino;
            assert_eq!(volume.read(file, 0, &mut bytes).unwrap(), 1024);
            assert!(bytes == pattern(100 * d + n, 1024), "{d}/{name}");
        }
    }
    let counts = device.counts().since(&before);
    (counts.read_bytes as f64 / live_bytes as f64, counts.reads)
}

#[test]
fn small_files_that_are_read_in_the_order_of_their_making_are_read_about_once() {
    for inline_max_bytes in [0, 2048] {
        let (cost, reads) = cost_of_small_files(inline_max_bytes);
        println!(
            "inline up to {inline_max_bytes}: {cost:.3} bytes fetched for each byte of small files, {reads} reads"
        );
        assert!(cost <= 1.2, "inline up to {inline_max_bytes}: {cost:.3}");
    }
}

/// 3,000 files of 1, 6 and 12 KiB, every third one inline, with a sync after each `sync_every` of them; then, after a remount, all are
/// looked up: bytes read from the device for each byte of their content.
fn cost_of_attributes(sync_every: u64) -> f64 {
    let size_bytes = 128 << 20;
    let device = Arc::new(CountingDevice::new(MemDevice::new(size_bytes)));
    format(&*device, &mkfs_options(size_bytes, 2048)).unwrap();
    let shared: Arc<dyn Device> = device.clone();
    let (volume, _) = mount(&shared, Options::default());
    let mut content_bytes = 0;
    for d in 0..100 {
        let dir = create(&volume, InodeNo::ROOT, &format!("dir{d:02}"), Kind::Directory);
        for n in 0..30 {
            let file = create(&volume, dir, &format!("file{n:02}"), Kind::Regular);
            let bytes = pattern(30 * d + n, [1, 6, 12][n as usize % 3] << 10);
            volume.write_all(file, 0, &bytes, false).unwrap();
            content_bytes += bytes.len();
            if (30 * d + n + 1) % sync_every == 0 {
                volume.sync(Scope::All).unwrap();
            }
        }
    }
    volume.close().unwrap();
    drop(volume);
    let (volume, _) = mount(&shared, Options::default());
    let before = device.counts();
    for (_, _, dir) in list(&volume, InodeNo::ROOT) {
        for (name, _, _) in list(&volume, dir) {
            volume.run(|vfs, now| vfs.lookup(now, dir, name.as_bytes(), false)).unwrap();
        }
    }
    device.counts().since(&before).read_bytes as f64 / content_bytes as f64
}

#[test]
fn attributes_of_many_files_are_read_without_their_content() {
    // A commit of some 18 MiB is laid out in steps, one of 3 MiB at once.
    for sync_every in [u64::MAX, 500] {
        let cost = cost_of_attributes(sync_every);
        println!("a sync after {sync_every} files: {cost:.3} bytes fetched for each byte of content");
        assert!(cost <= 0.45, "a sync after {sync_every} files: {cost:.3}");
    }
}
