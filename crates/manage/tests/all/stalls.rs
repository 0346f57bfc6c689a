//! Several users overwrite a volume at random that is filled to 99% of the space that statfs offers, for hours of virtual time
//! and as fast as they can, both with and without pauses: how long does one write wait for room at most? The driver is that of
//! a mount, with background work on a thread of its own.

use crate::common::{START_NS, create, mkfs_options};
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

const BLOCK_BYTES: u64 = 4096;
const USERS: usize = 3;

/// A volume and the disk that it is on.
#[derive(Clone, Copy)]
struct Place {
    size_bytes: u64,
    segment_bytes: u64,
    speed: Speed,
}

impl Place {
    /// The longest time that a write may wait: the bound in docs/internals/cleaner.md. Each segment is read once and written
    /// once.
    fn wait_max_ns(&self) -> i64 {
        let segments = (self.size_bytes / self.segment_bytes) as i64;
        2 * segments * self.speed.transfer_ns(self.segment_bytes)
    }
}

/// The behaviour of each user.
#[derive(Clone, Copy)]
struct Habits {
    burst_writes: u64,
    think_ns: i64,
    /// Pause between bursts.
    pause_ns: i64,
    /// The end of the test, by whichever limit is reached first.
    writes: u64,
    time_ns: i64,
}

const WITH_PAUSES: Habits = Habits {
    burst_writes: 500,
    think_ns: 100_000,
    pause_ns: 1_200_000_000_000,
    writes: 3_500,
    time_ns: i64::MAX,
};

fn without_pauses(writes: u64, time_ns: i64) -> Habits {
    Habits { burst_writes: u64::MAX, think_ns: 0, pause_ns: 0, writes, time_ns }
}

struct Stage {
    volume: Volume<Lfs>,
    clock: Arc<VirtualClock>,
    disk: Arc<TimedDisk<MemDevice>>,
}

impl Stage {
    fn new(place: Place) -> Self {
        let Place { size_bytes, segment_bytes, speed } = place;
        let clock = Arc::new(VirtualClock::at(START_NS));
        let disk = Arc::new(TimedDisk::new(MemDevice::new(size_bytes), clock.clone(), speed));
        let options = MkfsOptions { segment_bytes: segment_bytes as u32, ..mkfs_options(size_bytes, 0) };
        format(&*disk, &options).unwrap();
        let options = Options { cache_file_data: false, cache_bytes: 64 << 20, ..Options::default() };
        let volume = open(disk.clone(), options, AtimeMode::Noatime, clock.clone()).unwrap();
        Self { volume, clock, disk }
    }

    fn free_bytes(&self) -> u64 {
        self.volume.run(|vfs, _| Ok(vfs.statfs())).unwrap().free_bytes
    }

    /// Files that leave a hundredth of the free space, with their numbers of blocks.
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

    /// Overwrites blocks at random.
    fn overwrite(&self, turns: &Turns, habits: Habits, files: &[(InodeNo, u64)], seed: u64) {
        let end_ns = self.clock.now_ns().saturating_add(habits.time_ns);
        let mut state = seed;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for written in 1..=habits.writes {
            if self.clock.now_ns() >= end_ns {
                break;
            }
            let (ino, blocks) = files[random(files.len() as u64) as usize];
            let content = [written as u8; BLOCK_BYTES as usize];
            self.volume.write_all(ino, random(blocks) * BLOCK_BYTES, &content, false).unwrap();
            let is_last = written.is_multiple_of(habits.burst_writes);
            let rest_ns = if is_last { habits.pause_ns } else { habits.think_ns };
            turns.sleep_until(self.clock.now_ns() + rest_ns);
        }
    }

    /// Users overwrite while background work runs.
    #[allow(clippy::disallowed_methods)] // a test may start threads
    fn wear(&self, habits: Habits, files: &[(InodeNo, u64)]) {
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
                    self.overwrite(turns, habits, files, n as u64);
                    users_left.fetch_sub(1, SeqCst);
                    self.volume.wake();
                    turns.leave();
                });
            }
        });
    }
}

fn hold_at_99_percent(place: Place, habits: Habits, file_bytes: u64) {
    let stage = Stage::new(place);
    let files = stage.fill(file_bytes);
    let began_ns = stage.clock.now_ns();
    stage.wear(habits, &files);
    let stalls = stage.volume.stalls();
    let transfer_ns = place.speed.transfer_ns(place.segment_bytes);
    println!(
        "{} MiB in segments of {} KiB, files of {file_bytes} bytes: {:.2} h, {} stalls, longest {:.1} ms: {:.1} transfers of a segment, {:.2} of the bound; disk busy {:.0}%",
        place.size_bytes >> 20,
        place.segment_bytes >> 10,
        (stage.clock.now_ns() - began_ns) as f64 / 3.6e12,
        stalls.count,
        stalls.longest_ns as f64 / 1e6,
        stalls.longest_ns as f64 / transfer_ns as f64,
        stalls.longest_ns as f64 / place.wait_max_ns() as f64,
        100.0 * stage.disk.work().busy_ns as f64 / (stage.clock.now_ns() - START_NS) as f64,
    );
    assert!(stalls.count > 0, "no writer had to wait, so this tests nothing");
    assert!(
        (stalls.longest_ns as i64) < place.wait_max_ns(),
        "a write waited for {} ns: {} transfers of a segment",
        stalls.longest_ns,
        stalls.longest_ns as i64 / transfer_ns
    );
    stage.volume.close().unwrap();
}

const SPEEDS: [Speed; 2] = [Speed::SOLID_STATE, Speed::HARD_DISK];
const SMALL: (u64, u64) = (64 << 20, 256 << 10);
const LARGE: (u64, u64) = (192 << 20, 512 << 10);

fn place((size_bytes, segment_bytes): (u64, u64), speed: Speed) -> Place {
    Place { size_bytes, segment_bytes, speed }
}

#[test]
fn no_writer_on_a_volume_at_99_percent_waits_longer_than_stated() {
    for file_bytes in [64 << 10, 1 << 40, 4096] {
        for speed in SPEEDS {
            hold_at_99_percent(place(SMALL, speed), WITH_PAUSES, file_bytes);
        }
    }
}

#[test]
fn nor_does_one_that_never_pauses_on_volumes_and_segments_of_two_sizes() {
    for (volume, writes) in [(SMALL, 3_500), (LARGE, 7_000)] {
        for speed in SPEEDS {
            hold_at_99_percent(place(volume, speed), without_pauses(writes, i64::MAX), 64 << 10);
        }
    }
}

#[test]
#[ignore = "takes minutes: scripts/scale.sh runs this in release"]
fn nor_does_one_in_an_hour_without_pauses() {
    const HOUR_NS: i64 = 3_600_000_000_000;
    for volume in [SMALL, LARGE] {
        let hour = without_pauses(u64::MAX, HOUR_NS);
        hold_at_99_percent(place(volume, Speed::HARD_DISK), hour, 64 << 10);
    }
}
