//! Random writes to a large file: a commit by size leaves indirect blocks in memory, and the cleaner does not read victims that it
//! drops.

use crate::common::{create, mount, new_device, pattern};
use firnfs::inode::Kind;
use firnfs::lfs::{Counters, Lfs, Options};
use firnfs::store::Scope;
use firnfs_device::Device;
use firnfs_format::InodeNo;
use firnfs_sim::VirtualClock;
use firnfs_torture::audit::audit;
use firnfs_volume::Volume;
use std::sync::Arc;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const BLOCK_BYTES: usize = 4096;
const SEGMENT_BYTES: u64 = 256 * KIB;
/// A batch of the write threshold dirties most indirect blocks of a file of that size.
const FILE_BLOCKS: u64 = 10_000;

/// A volume with one large file, which is overwritten at random.
struct Scene {
    device: Arc<dyn Device>,
    volume: Volume<Lfs>,
    clock: Arc<VirtualClock>,
    ino: InodeNo,
    /// Which write each block has its content from.
    last: Vec<u64>,
    state: u64,
}

impl Scene {
    fn new(size_bytes: u64, options: Options) -> Self {
        let device = new_device(size_bytes, 0);
        let (volume, clock) = mount(&device, options);
        let ino = create(&volume, InodeNo::ROOT, "file", Kind::Regular);
        let mut scene = Self { device, volume, clock, ino, last: vec![0; FILE_BLOCKS as usize], state: 1 };
        (0..FILE_BLOCKS).for_each(|at| scene.write(at, at));
        scene.volume.sync(Scope::All).unwrap();
        scene
    }

    fn write(&mut self, at: u64, number: u64) {
        self.clock.advance_ns(50_000);
        let content = pattern(number, BLOCK_BYTES);
        self.volume.write_all(self.ino, at * BLOCK_BYTES as u64, &content, false).unwrap();
        self.last[at as usize] = number;
    }

    fn overwrite(&mut self, times: u64) {
        for number in 0..times {
            self.state =
                self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.write((self.state >> 33) % FILE_BLOCKS, FILE_BLOCKS + number);
        }
    }

    fn counters(&self) -> Counters {
        self.volume.run_quietly(|vfs, _| Ok(*vfs.store().counters())).unwrap()
    }

    /// Crashes, mounts again, and compares the file with what was written last.
    fn assert_survives_a_crash(self, options: Options) {
        drop(self.volume);
        let (volume, _) = mount(&self.device, options);
        let mut block = vec![0; BLOCK_BYTES];
        for (at, &number) in self.last.iter().enumerate() {
            volume.read(self.ino, (at * BLOCK_BYTES) as u64, &mut block).unwrap();
            assert!(block == pattern(number, BLOCK_BYTES), "block {at}");
        }
        assert_eq!(audit(&volume).unwrap(), Vec::<String>::new());
    }
}

fn options(held_indirect_bytes: u64) -> Options {
    Options {
        write_threshold_bytes: 512 * KIB,
        held_indirect_bytes,
        commit_interval_ms: 5_000,
        coalesce_age_ms: None,
        ..Options::default()
    }
}

#[test]
fn commits_by_size_leave_indirect_blocks_in_memory_and_a_commit_by_age_writes_them() {
    let mut indirect_bytes = [0, 0];
    for (n, held_indirect_bytes) in [0, 16 * MIB].into_iter().enumerate() {
        let options = options(held_indirect_bytes);
        let mut scene = Scene::new(256 * MIB, options);
        let before = scene.counters();
        scene.overwrite(8 * 128);
        let log = scene.counters().since(&before);
        assert!(log.log_file_bytes >= 6 * 128 * BLOCK_BYTES as u64, "the content was not written");
        indirect_bytes[n] = log.log_indirect_bytes;
        scene.clock.advance_ms(5_000);
        scene.volume.background().unwrap();
        assert!(scene.counters().since(&before).log_indirect_bytes >= 39 * BLOCK_BYTES as u64);
        scene.assert_survives_a_crash(options);
    }
    assert!(indirect_bytes[0] >= 6 * 30 * BLOCK_BYTES as u64, "{indirect_bytes:?}");
    assert_eq!(indirect_bytes[1], 0, "held back, but written");
}

#[test]
fn indirect_blocks_beyond_the_bound_are_written() {
    // Four of forty may stay.
    let options = options(4 * BLOCK_BYTES as u64);
    let mut scene = Scene::new(256 * MIB, options);
    let before = scene.counters();
    scene.overwrite(8 * 128);
    assert!(scene.counters().since(&before).log_indirect_bytes >= 4 * 30 * BLOCK_BYTES as u64);
    scene.volume.sync(Scope::All).unwrap();
    scene.assert_survives_a_crash(options);
}

#[test]
fn the_cleaner_uses_all_victims_that_it_reads() {
    let options = options(16 * MIB);
    let mut scene = Scene::new(58 * MIB, options);
    scene.overwrite(FILE_BLOCKS);
    let before = scene.counters();
    scene.overwrite(FILE_BLOCKS);
    let log = scene.counters().since(&before);
    let needed_bytes = log.segments_cleaned * SEGMENT_BYTES;
    assert!(log.segments_cleaned > 100, "{log:?}");
    let read_bytes = log.cleaner_read_bytes;
    assert!(read_bytes * 10 <= needed_bytes * 11, "{read_bytes} read of {needed_bytes}");
    scene.volume.sync(Scope::All).unwrap();
    scene.assert_survives_a_crash(options);
}
