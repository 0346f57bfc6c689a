//! An idle volume: useful work is done in the first moments, and then nothing happens at all.

use crate::common::{START_NS, create, mkfs_options, pattern, unlink};
use firnfs::inode::Kind;
use firnfs::lfs::{Counters, Lfs, Options, Tuning};
use firnfs::vfs::{AtimeMode, Vfs};
use firnfs_device::{Clock, CountingDevice, Counts, MemDevice};
use firnfs_format::InodeNo;
use firnfs_manage::{format, open};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::sync::Arc;

const SIZE_BYTES: u64 = 64 << 20;
const HOUR_MS: u64 = 3_600_000;

struct Idle {
    volume: Volume<Lfs>,
    clock: Arc<VirtualClock>,
    device: Arc<CountingDevice<MemDevice>>,
}

impl Idle {
    fn new(options: Options) -> Self {
        let device = Arc::new(CountingDevice::new(MemDevice::new(SIZE_BYTES)));
        format(&*device, &mkfs_options(SIZE_BYTES, 0)).unwrap();
        let clock = Arc::new(VirtualClock::at(START_NS));
        let volume = open(device.clone(), options, AtimeMode::Noatime, clock.clone()).unwrap();
        // Only this thread does background work.
        volume.wait_for_work(0);
        Self { volume, clock, device }
    }

    /// Fills three quarters of the volume and overwrites parts of it, so that there are segments of all kinds.
    fn use_it(&self) {
        let files: Vec<_> = (0..40u64)
            .map(|n| {
                let ino = create(&self.volume, InodeNo::ROOT, &format!("f{n}"), Kind::Regular);
                self.volume.write_all(ino, 0, &pattern(n, 1 << 20), false).unwrap();
                self.volume.background().unwrap();
                ino
            })
            .collect();
        let mut state = 3u64;
        for n in 0..7000u64 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (ino, at) = (files[(state >> 33) as usize % 40], (state >> 50) % 256 * 4096);
            self.volume.write_all(ino, at, &pattern(n, 4096), false).unwrap();
            if n % 50 == 0 {
                self.volume.background().unwrap();
            }
        }
        unlink(&self.volume, InodeNo::ROOT, "f5").unwrap();
    }

    /// Lets time pass as a driver would; returns the number of calls.
    fn pass(&self, ms: u64) -> u32 {
        let end_ns = self.clock.now_ns() + ms as i64 * 1_000_000;
        let mut calls = 0;
        while self.clock.now_ns() < end_ns {
            let sleep_ms = self.volume.background().unwrap();
            calls += 1;
            assert!(calls < 100_000, "the background work never sleeps");
            self.clock.advance_ms(sleep_ms as i64);
        }
        calls
    }

    fn counters(&self) -> Counters {
        self.volume.run_quietly(|vfs, _| Ok(*vfs.store().counters())).unwrap()
    }

    fn ready_segments(&self) -> u64 {
        self.volume.run_quietly(|vfs, _| Ok(vfs.store().room().ready_segments)).unwrap()
    }
}

/// Other work in idle time (coalescing) has its own tests.
fn cleaning_alone() -> Options {
    Options { write_threshold_bytes: 1 << 20, coalesce_age_ms: None, ..Options::default() }
}

#[test]
fn an_idle_hour_has_work_in_its_first_seconds_and_none_after() {
    let idle = Idle::new(cleaning_alone());
    idle.use_it();
    let (before, ready_before) = (idle.counters(), idle.ready_segments());
    let early_calls = idle.pass(60_000);
    let (after, ready_after) = (idle.counters(), idle.ready_segments());
    assert!(after.segments_cleaned > before.segments_cleaned, "{after:?}");
    assert_eq!(after.segments_cleaned_on_demand, before.segments_cleaned_on_demand);
    assert!(ready_after > ready_before, "{ready_before} clean segments before, {ready_after} after");
    assert!(early_calls < 20, "{early_calls} calls in the first minute");
    let quiet: Counts = idle.device.counts();
    let calls = idle.pass(HOUR_MS);
    assert_eq!(idle.device.counts(), quiet, "the device was used");
    assert_eq!(idle.counters(), after);
    assert!(calls <= 61, "{calls} calls in an hour with nothing to do");
}

#[test]
fn blocks_of_a_segment_that_empties_by_itself_are_not_moved() {
    let idle = Idle::new(cleaning_alone());
    for n in 0..40u64 {
        let ino = create(&idle.volume, InodeNo::ROOT, &format!("f{n}"), Kind::Regular);
        idle.volume.write_all(ino, 0, &pattern(n, 1 << 20), false).unwrap();
        idle.volume.background().unwrap();
    }
    (0..40).for_each(|n| unlink(&idle.volume, InodeNo::ROOT, &format!("f{n}")).unwrap());
    idle.pass(60_000);
    let counters = idle.counters();
    assert_eq!(counters.segments_cleaned, 0, "{counters:?}");
    assert!(idle.ready_segments() * 100 > SIZE_BYTES / (256 << 10) * 85, "{}", idle.ready_segments());
}

#[test]
fn the_time_after_which_a_volume_is_idle_changes_while_it_is_open() {
    let idle = Idle::new(cleaning_alone());
    idle.use_it();
    let tuning = Tuning { idle_after_ms: 500, ..Tuning::from(cleaning_alone()) };
    let tune = |vfs: &mut Vfs<Lfs>| {
        vfs.store_mut().tune(&tuning);
        Ok(())
    };
    idle.volume.run_quietly(|vfs, _| tune(vfs)).unwrap();
    let before = idle.counters().segments_cleaned;
    idle.clock.advance_ms(499);
    assert_eq!((idle.volume.background().unwrap(), idle.counters().segments_cleaned), (1, before));
    idle.pass(1_000);
    assert!(idle.counters().segments_cleaned > before, "it cleans after half a second already");
}

#[test]
fn a_request_of_a_user_ends_a_pass_before_it_moves_anything() {
    let idle = Idle::new(cleaning_alone());
    idle.use_it();
    idle.clock.advance_ms(1_999);
    let before = idle.counters();
    let sleep_ms = idle.volume.background().unwrap();
    assert_eq!(
        (sleep_ms, idle.counters().segments_cleaned),
        (1, before.segments_cleaned),
        "woken when it is quiet"
    );
    idle.volume.read(InodeNo::ROOT, 0, &mut [0; 10]).unwrap_err();
    idle.clock.advance_ms(1);
    let sleep_ms = idle.volume.background().unwrap();
    assert_eq!((sleep_ms, idle.counters().segments_cleaned), (1_999, before.segments_cleaned));
}

#[test]
fn idle_work_keeps_to_its_rate_and_does_as_much_in_the_end() {
    let [free, held] = [None, Some(1 << 20)].map(|idle_bytes_per_s| {
        let idle = Idle::new(Options { idle_bytes_per_s, ..cleaning_alone() });
        idle.use_it();
        // Cleaning on demand has no rate: it ends before the volume is idle.
        idle.pass(1_999);
        let before = idle.counters();
        let begun_ms = idle.clock.now_ns() / 1_000_000;
        let mut slowest = 0;
        let mut calls = 0;
        // The largest pass alone takes longer than a second at that rate: its time is paid after it.
        for _ in 0..600 {
            calls += idle.pass(1000);
            let spent = idle.counters();
            let bytes = spent.cleaner_read_bytes + spent.cleaner_moved_bytes
                - before.cleaner_read_bytes
                - before.cleaner_moved_bytes;
            let passed_s = (idle.clock.now_ns() / 1_000_000 - begun_ms) as u64 / 1000;
            slowest = slowest.max(bytes.saturating_sub(passed_s << 20));
        }
        assert!(calls < 2000, "{calls} calls in ten minutes");
        let cleaned = idle.counters().segments_cleaned - before.segments_cleaned;
        (cleaned, idle.ready_segments(), slowest)
    });
    assert!(free.0 > 10 && held.0 >= free.0, "{} segments without a rate, {} with one", free.0, held.0);
    assert!(held.1 >= free.1, "{} clean segments without a rate, {} with one", free.1, held.1);
    assert!(free.2 > 16 << 20, "without a rate it takes {} bytes more than that", free.2);
    assert!(held.2 <= 8 << 20, "{} bytes ahead of its rate: more than one pass", held.2);
}
