//! When the cleaner works, in virtual time on a simulated disk: users write in bursts with pauses in between.
//!
//! A user and the background work have threads of their own, as on a mount; they take turns, so every run is the
//! same.

use crate::common::{START_NS, create, mkfs_options};
use firnfs::inode::Kind;
use firnfs::lfs::{Counters, Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::AtimeMode;
use firnfs_device::{Clock, MemDevice};
use firnfs_format::InodeNo;
use firnfs_manage::{format, open};
use firnfs_sim::{Speed, TimedDisk, Turns, VirtualClock};
use firnfs_volume::Volume;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const MS: i64 = 1_000_000;
const BLOCK: usize = 4096;
/// Blocks of one file.
const FILE_BLOCKS: u64 = 256;

/// The behaviour of users.
#[derive(Clone, Copy)]
struct Habits {
    bursts: u32,
    /// Operations of a burst: three writes of a block at random places, a read, an fsync every tenth.
    burst_operations: u32,
    think_ns: i64,
    /// Mean pause.
    pause_ns: i64,
}

const HABITS: Habits = Habits { bursts: 120, burst_operations: 800, think_ns: 2 * MS, pause_ns: 12_000 * MS };

/// A user between two operations.
struct User {
    habits: Habits,
    files: Vec<InodeNo>,
    random: u64,
    /// Time of each operation that writes, in nanoseconds.
    latencies_ns: Vec<i64>,
}

impl User {
    fn random(&mut self, n: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % n
    }

    fn act(&mut self, volume: &Volume<Lfs>, clock: &VirtualClock, turns: &Turns) {
        let Habits { bursts, burst_operations, think_ns, pause_ns } = self.habits;
        for operation in 1..=bursts * burst_operations {
            let began_ns = clock.now_ns();
            let writes = self.operate(volume, operation);
            let ended_ns = clock.now_ns();
            if writes {
                self.latencies_ns.push(ended_ns - began_ns);
            }
            let is_last = operation.is_multiple_of(burst_operations);
            // Pauses of any length: some end in the middle of background work.
            let pause_ns = pause_ns / 1000 * self.random(2000) as i64;
            turns.sleep_until(ended_ns + if is_last { pause_ns } else { think_ns });
        }
    }

    /// Returns whether the operation wrote.
    fn operate(&mut self, volume: &Volume<Lfs>, operation: u32) -> bool {
        let which = self.random(self.files.len() as u64) as usize;
        let ino = self.files[which];
        let at_bytes = self.random(FILE_BLOCKS) * BLOCK as u64;
        if operation % 10 == 9 {
            volume.sync(Scope::File(ino)).unwrap();
        } else if operation % 4 == 3 {
            volume.read(ino, at_bytes, &mut [0; BLOCK]).unwrap();
            return false;
        } else {
            volume.write_all(ino, at_bytes, &[operation as u8; BLOCK], false).unwrap();
        }
        true
    }
}

type Disk = TimedDisk<MemDevice>;

struct Stage {
    volume: Volume<Lfs>,
    clock: Arc<VirtualClock>,
    disk: Arc<Disk>,
}

impl Stage {
    fn new(size_bytes: u64, speed: Speed) -> Self {
        let clock = Arc::new(VirtualClock::at(START_NS));
        let disk = Arc::new(TimedDisk::new(MemDevice::new(size_bytes), clock.clone(), speed));
        format(&*disk, &MkfsOptions { segment_bytes: 512 << 10, ..mkfs_options(size_bytes, 0) }).unwrap();
        let options = Options { cache_file_data: false, write_threshold_bytes: MIB, ..Options::default() };
        let volume = open(disk.clone(), options, AtimeMode::Noatime, clock.clone()).unwrap();
        Self { volume, clock, disk }
    }

    /// Creates files of this many bytes in total, written in an order that leaves segments of all ages.
    fn fill(&self, bytes: u64) -> Vec<InodeNo> {
        let content = vec![1; FILE_BLOCKS as usize * BLOCK];
        (0..bytes / content.len() as u64)
            .map(|n| {
                let ino = create(&self.volume, InodeNo::ROOT, &format!("f{n}"), Kind::Regular);
                self.volume.write_all(ino, 0, &content, false).unwrap();
                self.volume.background().unwrap();
                ino
            })
            .collect()
    }

    fn counters(&self) -> Counters {
        self.volume.run_quietly(|vfs, _| Ok(*vfs.store().counters())).unwrap()
    }

    /// Lets a user act, and background work run whenever it is due; returns the times of operations that write.
    #[allow(clippy::disallowed_methods)] // a test may start threads
    fn play(&self, habits: Habits, files: Vec<InodeNo>) -> Vec<i64> {
        let turns = Arc::new(Turns::new(self.clock.clone(), 2));
        self.disk.take_turns(turns.clone());
        let (parked, woken) = (turns.clone(), turns.clone());
        let park = move |max: Duration| parked.wait(i64::try_from(max.as_nanos()).unwrap());
        self.volume.park_with(park, move || woken.notify());
        let mut user = User { habits, files, random: 5, latencies_ns: Vec::new() };
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                turns.enter(0);
                while !is_done.load(Relaxed) {
                    let sleep_ms = self.volume.background().unwrap();
                    self.volume.wait_for_work(sleep_ms);
                }
                turns.leave();
            });
            turns.enter(1);
            user.act(&self.volume, &self.clock, &turns);
            is_done.store(true, Relaxed);
            self.volume.wake();
            turns.leave();
        });
        user.latencies_ns
    }
}

fn percentile(sorted: &[i64], percent: usize) -> i64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

struct Played {
    counters: Counters,
    sorted_ns: Vec<i64>,
}

fn play(title: &str, size_bytes: u64, speed: Speed, habits: Habits) -> Played {
    let stage = Stage::new(size_bytes, speed);
    let files = stage.fill(176 * MIB);
    let before = stage.counters();
    let began_ns = stage.clock.now_ns();
    let mut sorted_ns = stage.play(habits, files);
    sorted_ns.sort_unstable();
    let counters = stage.counters().since(&before);
    let ms = |ns: i64| ns as f64 / MS as f64;
    println!(
        "{title}: {:.1} h, user {} MiB, log {} MiB, cleaned {} ({} on demand, {} found empty), u {:.2}, p50 {:.2} p99 {:.2} p99.9 {:.2} max {:.2} ms, stalls {:?}",
        ms(stage.clock.now_ns() - began_ns) / 3_600_000.0,
        counters.user_bytes / MIB,
        counters.log_bytes / MIB,
        counters.segments_cleaned,
        counters.segments_cleaned_on_demand,
        counters.segments_cleaned_empty,
        counters.cleaner_moved_bytes as f64 / (counters.segments_cleaned.max(1) as f64 * 524_288.0),
        ms(percentile(&sorted_ns, 50)),
        ms(percentile(&sorted_ns, 99)),
        ms(sorted_ns[sorted_ns.len() * 999 / 1000]),
        ms(sorted_ns[sorted_ns.len() - 1]),
        stage.volume.stalls(),
    );
    Played { counters, sorted_ns }
}

#[test]
fn writers_in_bursts_do_not_notice_the_cleaner() {
    for speed in [Speed::SOLID_STATE, Speed::HARD_DISK] {
        let small = play("256 MiB", 256 * MIB, speed, HABITS);
        let large = play("8 GiB", 8192 * MIB, speed, HABITS);
        assert_eq!(large.counters.segments_cleaned, 0, "the larger volume should need no cleaning");
        assert!(small.counters.segments_cleaned > 500, "{:?}", small.counters);
        let (with, without) = (percentile(&small.sorted_ns, 99), percentile(&large.sorted_ns, 99));
        assert!(with * 10 <= without * 11, "p99 {with} ns with cleaning, {without} ns without");
        let on_demand = small.counters.segments_cleaned_on_demand;
        assert!(on_demand * 100 <= small.counters.segments_cleaned * 3, "{:?}", small.counters);
    }
}
