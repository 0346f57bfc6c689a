//! What many retained states cost: opening a volume, reading the rest of them afterwards, making one more, listing all.
//!
//!     cargo run --release -p firnfs-manage --example many_states [STATES]...
//!
//! Prints a table with a row for each number of states; without arguments 1,000, 65,000 and 1,000,000. Each state has a file that
//! changed since the one before. The device is in memory: the times are those of the processor alone. A million states take
//! minutes, and 20 GB of memory: the device has 16 GiB.

use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::{Scope, Store};
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{CountingDevice, Device, MemDevice};
use firnfs_format::checkpoint::{Retention, Rule};
use firnfs_format::{Epoch, InodeNo, TimeNs};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::sync::Arc;
use std::time::{Duration, Instant};

const DEVICE_BYTES: u64 = 16 << 30;
/// Milliseconds between two states.
const STATE_MS: i64 = 5_000;
/// Times that a volume is opened, and states that are made while it is measured.
const ROUNDS: u32 = 5;
const MADE: u32 = 1_000;

fn open(device: &Arc<dyn Device>, clock: &Arc<VirtualClock>, read_only: bool) -> Volume<Lfs> {
    let options = Options { read_only, ..Options::default() };
    firnfs_manage::open(device.clone(), options, AtimeMode::Noatime, clock.clone()).expect("a volume")
}

fn states_of(volume: &Volume<Lfs>) -> usize {
    volume.run(|vfs, _| Ok(vfs.store().points_len())).expect("open")
}

/// Makes states until there are `count` more. Returns the longest time that one took.
fn make(volume: &Volume<Lfs>, clock: &VirtualClock, file: InodeNo, count: u32) -> Duration {
    let mut longest = Duration::ZERO;
    for n in 0..count {
        let began = Instant::now();
        volume.write_all(file, 0, &n.to_le_bytes(), false).expect("room");
        volume.sync(Scope::All).expect("a device in memory");
        volume.pump();
        longest = longest.max(began.elapsed());
        clock.advance_ms(STATE_MS);
    }
    longest
}

fn new_volume(clock: &Arc<VirtualClock>) -> (Arc<CountingDevice<MemDevice>>, InodeNo) {
    let device = Arc::new(CountingDevice::new(MemDevice::new(DEVICE_BYTES)));
    let options = MkfsOptions {
        size_bytes: DEVICE_BYTES,
        block_bytes: 4096,
        segment_bytes: 1 << 20,
        physical_block_bytes: 512,
        inline_max_bytes: 2048,
        label: String::new(),
        uuid: [1; 16],
        hash_key: [1, 2],
        now: TimeNs(1),
        root_owner: (0, 0),
    };
    firnfs_manage::format(&*device, &options).expect("a volume of that size");
    let shared: Arc<dyn Device> = device.clone();
    let volume = open(&shared, clock, false);
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
    let file = volume.run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, b"file", node, false));
    let retention = Retention { percent: 100, rules: vec![Rule { every_s: 0, for_s: u32::MAX }] };
    volume.run(|vfs, now| vfs.store_mut().set_retention(now, retention.clone())).expect("open");
    volume.close().expect("a device in memory");
    (device, file.expect("room").ino)
}

fn measure(states: u32) {
    let clock = Arc::new(VirtualClock::at(2));
    let (device, file) = new_volume(&clock);
    let shared: Arc<dyn Device> = device.clone();
    let volume = open(&shared, &clock, false);
    let began = Instant::now();
    make(&volume, &clock, file, states);
    let per_state = began.elapsed() / states;
    assert!(states_of(&volume) as u32 >= states, "each sync is a state");
    volume.close().expect("a device in memory");
    drop(volume);
    let (mut opened, mut read, mut read_bytes) = (Vec::new(), Vec::new(), 0);
    // Opened for reading: otherwise the cleaner would begin at once if the device is nearly full, as it is with a million states.
    for _ in 0..ROUNDS {
        let before = device.counts();
        let began = Instant::now();
        let _volume = open(&shared, &clock, true);
        opened.push(began.elapsed());
        read_bytes = device.counts().since(&before).read_bytes;
    }
    for _ in 0..ROUNDS {
        let volume = open(&shared, &clock, false);
        let began = Instant::now();
        volume.background().expect("sound");
        read.push(began.elapsed());
        assert!(!volume.run(|vfs, _| Ok(vfs.store().is_dropping())).expect("open"), "all are read");
        volume.close().expect("a device in memory");
    }
    let volume = open(&shared, &clock, false);
    let began = Instant::now();
    let listed = volume.run(|vfs, _| Ok(vfs.store_mut().states(Epoch(0))?.into_iter().flatten().count()));
    let list = began.elapsed();
    let states = listed.expect("sound");
    let longest = make(&volume, &clock, file, MADE);
    let began = Instant::now();
    make(&volume, &clock, file, MADE);
    let more = began.elapsed() / MADE;
    let ms = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1e3
    };
    println!(
        "| {states} | {:.2} | {} | {:.1} | {:.1} | {} | {} | {:.1} |",
        ms(&mut opened),
        read_bytes >> 10,
        ms(&mut read),
        list.as_secs_f64() * 1e3,
        per_state.as_micros(),
        more.as_micros(),
        longest.as_secs_f64() * 1e3,
    );
}

fn main() {
    let counts: Vec<u32> = std::env::args().skip(1).map(|count| count.parse().expect("a number")).collect();
    let counts = if counts.is_empty() { vec![1_000, 65_000, 1_000_000] } else { counts };
    println!(
        "| states | open, ms | read to open, KiB | read the others, ms | list cold, ms | make, us | make one more, us | the longest, ms |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    counts.into_iter().for_each(measure);
}
