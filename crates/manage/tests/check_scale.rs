//! The file system check of a million files: memory and time.
//!
//! Memory is the peak resident set of the whole process (VmHWM), reset before the check, on an image file. So this
//! test has a binary of its own.

use firnfs::check::From;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Access, Device, FileDevice, FileOptions};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{check, format, open};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const MIB: u64 = 1 << 20;
const FILES_A_DIRECTORY: u64 = 10_000;

fn status_bytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix(field)).expect("Linux says it");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn make(volume: &Volume<Lfs>, parent: InodeNo, name: &str, kind: Kind) -> InodeNo {
    let node = NewNode { kind, mode: 0o755, rdev: 0, target: b"" };
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    volume.run(|vfs, now| vfs.make(now, caller, parent, name.as_bytes(), node, false)).unwrap().ino
}

/// A volume with that many files of 1 KiB, every tenth of 8 KiB in blocks.
fn fill(path: &Path, files: u64, size_bytes: u64) {
    let device: Arc<dyn Device> =
        Arc::new(FileDevice::create(path, size_bytes, &FileOptions::default()).unwrap());
    let options = MkfsOptions {
        size_bytes,
        block_bytes: 4096,
        segment_bytes: 1 << 20,
        physical_block_bytes: 4096,
        inline_max_bytes: 2048,
        label: "scale".to_owned(),
        uuid: [7; 16],
        hash_key: [1, 2],
        now: TimeNs(1_000_000_000),
        root_owner: (0, 0),
    };
    format(&*device, &options).unwrap();
    let clock = Arc::new(VirtualClock::at(2_000_000_000));
    let volume = open(device, Options::default(), AtimeMode::Noatime, clock).unwrap();
    for d in 0..files.div_ceil(FILES_A_DIRECTORY) {
        let dir = make(&volume, InodeNo::ROOT, &format!("d{d}"), Kind::Directory);
        for f in 0..FILES_A_DIRECTORY.min(files - d * FILES_A_DIRECTORY) {
            let ino = make(&volume, dir, &format!("file {f}"), Kind::Regular);
            let len = if f % 10 == 0 { 8192 } else { 1024 };
            volume.write(ino, 0, &vec![f as u8 | 1; len], false).unwrap();
        }
    }
    volume.close().unwrap();
}

/// Checks that many files; returns the memory that the check took, in bytes.
#[allow(clippy::disallowed_methods)] // it reports how long it took
fn memory_to_check(files: u64, size_bytes: u64) -> u64 {
    let home = tempfile::tempdir().unwrap();
    let image = home.path().join("disk.img");
    fill(&image, files, size_bytes);
    let options = FileOptions { access: Access::ReadOnly, ..FileOptions::default() };
    let device = FileDevice::open(&image, &options).unwrap();
    // Resets the peak to the present resident set.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status_bytes("VmRSS");
    let start = Instant::now();
    let report = check(&device, From::Newest, &mut |_| {}).unwrap();
    let elapsed = start.elapsed();
    let peak = status_bytes("VmHWM").saturating_sub(before);
    assert_eq!(report.findings, []);
    assert_eq!(report.totals.entries, files + files.div_ceil(FILES_A_DIRECTORY));
    let (live_mib, read_mib) = (report.totals.live_bytes / MIB, report.totals.read_bytes / MIB);
    println!(
        "{files} files, {live_mib} MiB live, {read_mib} MiB read: peak {} MiB, {elapsed:.1?}",
        peak / MIB
    );
    peak
}

#[test]
fn fifty_thousand_files_are_checked_in_64_mib() {
    assert!(memory_to_check(50_000, 1 << 30) <= 64 * MIB);
}

#[test]
#[ignore = "a million files take minutes unless optimised: scripts/scale.sh runs this in release"]
fn a_million_files_are_checked_in_512_mib() {
    assert!(memory_to_check(1_000_000, 1 << 40) <= 512 * MIB);
}
