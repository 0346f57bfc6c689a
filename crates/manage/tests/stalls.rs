//! A volume filled to 99% of what statfs offers, overwritten at random by several users for hours of virtual time, as fast as they
//! can and after pauses again: how long does one write wait for room at most? The driver is the one of a mount, with background work on a thread of its own.

mod common;

use common::{START_NS, create, mkfs_options};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::AtimeMode;
use firnfs_device::{Clock, MemDevice};
use firnfs_format::InodeNo;
use firnfs_manage::{format, open};
use firnfs_sim::{Speed, TimedDisk, Turns, VirtualClock};
use firnfs_volume::Volume;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

const SIZE_BYTES: u64 = 64 << 20;
const SEGMENT_BYTES: u64 = 256 << 10;
const BLOCK_BYTES: u64 = 4096;
const USERS: usize = 3;
/// Of each user.
const BURSTS: u64 = 7;
const BURST_WRITES: u64 = 500;
const THINK_NS: i64 = 100_000;
const PAUSE_NS: i64 = 1_200_000_000_000;
/// The bound that docs/internals/cleaner.md states, in transfers of a segment.
const STALL_MAX_SEGMENTS: i64 = 512;

struct Stage {
    volume: Volume<Lfs>,
    clock: Arc<VirtualClock>,
    disk: Arc<TimedDisk<MemDevice>>,
}

impl Stage {
    fn new(speed: Speed) -> Self {
        let clock = Arc::new(VirtualClock::at(START_NS));
        let disk = Arc::new(TimedDisk::new(MemDevice::new(SIZE_BYTES), clock.clone(), speed));
        let options = MkfsOptions { segment_bytes: SEGMENT_BYTES as u32, ..mkfs_options(SIZE_BYTES, 0) };
        format(&*disk, &options).unwrap();
        let options = Options { cache_file_data: false, cache_bytes: 64 << 20, ..Options::default() };
        let volume = open(disk.clone(), options, AtimeMode::Noatime, clock.clone()).unwrap();
        Self { volume, clock, disk }
    }

    fn free_bytes(&self) -> u64 {
        self.volume.run(|vfs, _| Ok(vfs.statfs())).unwrap().free_bytes
    }

    /// Files and their blocks that leave a hundredth of the free space.
    fn fill(&self, file_bytes: u64) -> Vec<(InodeNo, u64)> {
        let block = vec![7; BLOCK_BYTES as usize];
        let keep_bytes = self.free_bytes() / 100;
        let mut files = Vec::new();
        while self.free_bytes() > keep_bytes {
            let ino = create(&self.volume, InodeNo::ROOT, &format!("f{}", files.len()), Kind::Regular);
            let mut blocks = 0;
            while blocks * BLOCK_BYTES < file_bytes && self.free_bytes() > keep_bytes {
                self.volume.write_all(ino, blocks * BLOCK_BYTES, &block, false).unwrap();
                blocks += 1;
            }
            files.push((ino, blocks));
        }
        self.volume.sync(Scope::All).unwrap();
        files
    }

    /// Overwrites blocks at random, with pauses.
    fn overwrite(&self, turns: &Turns, files: &[(InodeNo, u64)], seed: u64) {
        let mut state = seed;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for written in 1..=BURSTS * BURST_WRITES {
            let (ino, blocks) = files[random(files.len() as u64) as usize];
            let content = [written as u8; BLOCK_BYTES as usize];
            self.volume.write_all(ino, random(blocks) * BLOCK_BYTES, &content, false).unwrap();
            let is_last = written.is_multiple_of(BURST_WRITES);
            turns.sleep_until(self.clock.now_ns() + if is_last { PAUSE_NS } else { THINK_NS });
        }
    }

    /// Users overwrite, the background works beside them.
    #[allow(clippy::disallowed_methods)] // a test may start threads
    fn wear(&self, files: &[(InodeNo, u64)]) {
        let turns = Arc::new(Turns::new(self.clock.clone(), USERS + 1));
        self.disk.take_turns(turns.clone());
        let (parked, woken) = (turns.clone(), turns.clone());
        let park = move |max: Duration| parked.wait(i64::try_from(max.as_nanos()).unwrap());
        self.volume.park_with(park, move || woken.notify());
        let users_left = AtomicU32::new(USERS as u32);
        let (turns, users_left) = (&turns, &users_left);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                turns.enter(0);
                while users_left.load(SeqCst) > 0 {
                    let sleep_ms = self.volume.background().unwrap();
                    self.volume.wait_for_work(sleep_ms);
                }
                turns.leave();
            });
            for n in 1..=USERS {
                scope.spawn(move || {
                    turns.enter(n);
                    self.overwrite(turns, files, n as u64);
                    users_left.fetch_sub(1, SeqCst);
                    self.volume.wake();
                    turns.leave();
                });
            }
        });
    }
}

fn hold_at_99_percent(speed: Speed, file_bytes: u64) {
    let stage = Stage::new(speed);
    let files = stage.fill(file_bytes);
    let began_ns = stage.clock.now_ns();
    stage.wear(&files);
    let stalls = stage.volume.stalls();
    let transfer_ns = speed.transfer_ns(SEGMENT_BYTES);
    println!(
        "files of {file_bytes} bytes: {:.1} h, {} stalls, longest {:.1} ms: {:.1} transfers of a segment; disk busy {:.0}%",
        (stage.clock.now_ns() - began_ns) as f64 / 3.6e12,
        stalls.count,
        stalls.longest_ns as f64 / 1e6,
        stalls.longest_ns as f64 / transfer_ns as f64,
        100.0 * stage.disk.work().busy_ns as f64 / (stage.clock.now_ns() - START_NS) as f64,
    );
    assert!(stalls.count > 0, "nobody had to wait: this tests nothing");
    assert!(
        (stalls.longest_ns as i64) < STALL_MAX_SEGMENTS * transfer_ns,
        "a write waited for {} ns: {} transfers of a segment",
        stalls.longest_ns,
        stalls.longest_ns as i64 / transfer_ns
    );
    stage.volume.close().unwrap();
}

#[test]
fn no_writer_on_a_volume_at_99_percent_waits_longer_than_stated() {
    for file_bytes in [64 << 10, 1 << 40, 4096] {
        for speed in [Speed::SOLID_STATE, Speed::HARD_DISK] {
            hold_at_99_percent(speed, file_bytes);
        }
    }
}
