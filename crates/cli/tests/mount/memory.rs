//! Memory of the daemon when the kernel knows many files: the daemon must remember each file until the kernel forgets it.

use crate::common::{Kind, Mount, can_mount, kernel_caches_stay};
use std::fs;
use std::time::Instant;

const MIB: u64 = 1 << 20;
const FILES_A_DIRECTORY: u64 = 10_000;
const FILE_BYTES: usize = 1024;
/// The bound beyond the cache that the README states.
const BESIDE_CACHE_BYTES: u64 = 128 * MIB;

/// Peak resident set of the daemon so far, in bytes.
fn peak_bytes(mount: &Mount) -> u64 {
    let pid = mount.daemon_pid().as_raw_nonzero();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("Linux says VmHWM");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Calls `act` with the path of each file, from two threads.
fn each_file(mount: &Mount, files: u64, act: impl Fn(&std::path::Path) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let act = &act;
            scope.spawn(move || {
                for d in (thread..files.div_ceil(FILES_A_DIRECTORY)).step_by(2) {
                    let directory = mount.path(&format!("d{d}"));
                    for f in 0..FILES_A_DIRECTORY.min(files - d * FILES_A_DIRECTORY) {
                        act(&directory.join(format!("f{f}")));
                    }
                }
            });
        }
    });
}

fn forgotten(mount: &Mount) -> u64 {
    mount.requests("forget") + mount.requests("batch_forget")
}

/// Prints and checks the peak; call it while the kernel knows all files.
fn check_peak(mount: &Mount, title: &str, cache_bytes: u64, beside_bytes: u64, since: Instant) {
    let peak = peak_bytes(mount);
    println!(
        "{title}: the daemon took {} MiB at most, {} MiB of it cache, in {:.0} s",
        peak / MIB,
        cache_bytes / MIB,
        since.elapsed().as_secs_f64()
    );
    assert!(peak <= cache_bytes + beside_bytes, "{title}: {peak} bytes");
}

fn memory_with(files: u64, size: &str, cache_bytes: u64, beside_bytes: u64) {
    if !can_mount() {
        return;
    }
    let _caches = kernel_caches_stay();
    let cache = format!("{}M", cache_bytes / MIB);
    let options = ["--cache", &cache];
    let mount = Mount::with(Kind::Image, size, &options);
    let began = Instant::now();
    for d in 0..files.div_ceil(FILES_A_DIRECTORY) {
        fs::create_dir(mount.path(&format!("d{d}"))).unwrap();
    }
    each_file(&mount, files, |path| fs::write(path, [7; FILE_BYTES]).unwrap());
    assert_eq!(forgotten(&mount), 0, "the kernel forgot files: too little memory for this test");
    check_peak(&mount, &format!("{files} files made"), cache_bytes, beside_bytes, began);

    mount.umount();
    mount.mount_image(&options);
    let began = Instant::now();
    each_file(&mount, files, |path| {
        assert_eq!(fs::symlink_metadata(path).unwrap().len(), FILE_BYTES as u64);
        assert_eq!(fs::read(path).unwrap().len(), FILE_BYTES);
    });
    assert!(mount.requests("lookup") >= files, "the kernel asked for every file");
    assert_eq!(forgotten(&mount), 0, "the kernel forgot files: too little memory for this test");
    check_peak(&mount, &format!("{files} files looked up and read"), cache_bytes, beside_bytes, began);
    mount.umount();
}

#[test]
fn fifty_thousand_files_that_the_kernel_knows_fit_into_the_memory_stated() {
    memory_with(50_000, "1G", 16 * MIB, BESIDE_CACHE_BYTES / 2);
}

#[test]
#[ignore = "takes minutes and 5 GB of memory: scripts/scale.sh runs this in release"]
fn a_million_files_that_the_kernel_knows_fit_into_the_memory_stated() {
    memory_with(1_000_000, "16G", 256 * MIB, BESIDE_CACHE_BYTES);
}
