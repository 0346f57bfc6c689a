//! The cleaner of a real mount with bursts of user activity: it works in the pauses, and an idle mount
//! sleeps.

use crate::common::{Kind, Mount, can_mount, firn_json};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const FILES: u64 = 184;
const FILE_BYTES: u64 = 1 << 20;
const BLOCK_BYTES: u64 = 4096;
const BURSTS: u64 = 9;
/// Blocks of a burst, with an fsync after each tenth: 6 MiB of log, where 50 MiB are free beyond the reserve.
const BURST_BLOCKS: u64 = 1000;
/// The last part of it is idle time.
const PAUSE: Duration = Duration::from_millis(2_800);

/// Segments cleaned since the mount, by name.
fn cleaned(mount: &Mount) -> Value {
    let stat = firn_json(&["stat", "--json", mount.mnt.to_str().unwrap()]);
    stat["log"]["cleaning"]["since_mount"].clone()
}

/// Works in bursts; returns the sorted times of all writes, each with its fsync if it has one.
fn work(mount: &Mount, pause: Duration) -> Vec<Duration> {
    let files: Vec<File> = (0..FILES)
        .map(|n| {
            std::fs::write(mount.path(&format!("f{n}")), vec![1; FILE_BYTES as usize]).unwrap();
            OpenOptions::new().write(true).open(mount.path(&format!("f{n}"))).unwrap()
        })
        .collect();
    mount.sync();
    std::thread::sleep(pause);
    let mut state = 7u64;
    let mut took = Vec::new();
    for n in 1..=BURSTS * BURST_BLOCKS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let file = &files[(state >> 33) as usize % files.len()];
        let at_bytes = (state >> 45) % (FILE_BYTES / BLOCK_BYTES) * BLOCK_BYTES;
        let began = Instant::now();
        file.write_all_at(&[n as u8; BLOCK_BYTES as usize], at_bytes).unwrap();
        if n % 10 == 0 {
            file.sync_all().unwrap();
        }
        took.push(began.elapsed());
        if n % BURST_BLOCKS == 0 {
            std::thread::sleep(pause);
        }
    }
    took.sort_unstable();
    took
}

#[test]
fn nearly_all_cleaning_of_a_mount_with_pauses_is_done_in_them() {
    if !can_mount() {
        return;
    }
    let small = Mount::with(Kind::Image, "256M", &[]);
    small.keep_no_history();
    let with = work(&small, PAUSE);
    let cleaning = cleaned(&small);
    let large = Mount::with(Kind::Image, "2G", &[]);
    large.keep_no_history();
    let without = work(&large, PAUSE / 10);
    assert_eq!(cleaned(&large)["segments_background"], 0, "the larger volume should need no cleaning");
    let p99 = |sorted: &[Duration]| sorted[sorted.len() * 99 / 100];
    println!("p99 with cleaning {:?}, without {:?}; {cleaning}", p99(&with), p99(&without));
    let [background, on_demand] =
        ["segments_background", "segments_on_demand"].map(|name| cleaning[name].as_u64().unwrap());
    assert!(background >= 10, "{cleaning}");
    assert!(on_demand * 97 <= background * 3, "{cleaning}");
}
