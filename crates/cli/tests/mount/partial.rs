//! Partial writes: write(2) returns how much was written, exactly that much is there, and a program that writes the rest gets
//! the error.

use crate::common::{ALL, Kind, Mount, can_mount, firn_ok, pattern};
use crate::in_process::{Served, volume_image};
use firnfs::lfs::Options;
use firnfs_device::MemDevice;
use firnfs_sim::{Effect, Fault, FaultyDisk, On, Trigger};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The most that the kernel sends the daemon in one request.
const REQUEST_BYTES: usize = 1 << 20;

fn errno(result: io::Result<usize>) -> Option<Errno> {
    result.err().and_then(|error| Errno::from_io_error(&error))
}

#[test]
fn a_write_with_room_for_only_a_part_returns_how_much_was_written() {
    if !can_mount() {
        return;
    }
    for kind in ALL {
        let mount = Mount::with(kind, "64M", &[]);
        let filler = File::create(mount.path("filler")).unwrap();
        let mut at_bytes = 0;
        while filler.write_at(&pattern(2, REQUEST_BYTES), at_bytes).is_ok() {
            at_bytes += REQUEST_BYTES as u64;
        }
        // Room for three and a half of eight requests.
        filler.set_len(at_bytes - (REQUEST_BYTES * 7 / 2) as u64).unwrap();
        filler.sync_all().unwrap();
        let content = pattern(3, 8 * REQUEST_BYTES);
        let file = File::create(mount.path("file")).unwrap();
        let written = file.write_at(&content, 0).unwrap();
        assert!((REQUEST_BYTES..content.len()).contains(&written), "{kind:?}: {written} bytes");
        assert_eq!(file.metadata().unwrap().len(), written as u64, "{kind:?}");
        let rest = file.write_at(&content[written..], written as u64);
        assert_eq!(errno(rest), Some(Errno::NOSPC), "{kind:?}");
        file.sync_all().unwrap();
        drop((file, filler));
        if kind.is_kept() {
            mount.remount_image();
        }
        assert!(fs::read(mount.path("file")).unwrap() == content[..written], "{kind:?}");
    }
}

#[test]
fn a_write_that_meets_an_unreadable_block_returns_how_much_was_written_before() {
    if !can_mount() {
        return;
    }
    let disk = Arc::new(FaultyDisk::new(MemDevice::from_image(volume_image()), 1));
    let options = Options { cache_file_data: false, commit_interval_ms: 3_600_000, ..Options::default() };
    let served = Served::start(disk.clone(), options);
    let path = served.mnt.join("file");
    let old = pattern(4, 3 * REQUEST_BYTES);
    fs::write(&path, &old).unwrap();
    served.end().unwrap();
    let served = Served::start(disk.clone(), options);
    let path = served.mnt.join("file");
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    // Read one block of each MiB, and nothing ahead of it: the places of all blocks are then known, and no other block is in
    // memory.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
    for mebibyte in 0..3 {
        let (at_bytes, mut out) = (mebibyte * REQUEST_BYTES + REQUEST_BYTES / 2, [0; 8]);
        file.read_exact_at(&mut out, at_bytes as u64).unwrap();
        assert_eq!(out[..], old[at_bytes..at_bytes + 8]);
    }
    // It ends within a block, the rest of which has to be read.
    let new = pattern(5, 2 * REQUEST_BYTES + 50_000);
    disk.arm(Fault::anywhere(On::Read, Trigger::Always, Effect::Fail));
    assert_eq!(file.write_at(&new, 0).unwrap(), 2 * REQUEST_BYTES);
    let rest = file.write_at(&new[2 * REQUEST_BYTES..], (2 * REQUEST_BYTES) as u64);
    assert_eq!(errno(rest), Some(Errno::IO));
    disk.clear();
    drop(file);
    served.end().unwrap();
    let served = Served::start(disk, options);
    let found = fs::read(served.mnt.join("file")).unwrap();
    assert!(found[..2 * REQUEST_BYTES] == new[..2 * REQUEST_BYTES], "the part that was reported as written");
    assert!(found[2 * REQUEST_BYTES..] == old[2 * REQUEST_BYTES..], "the part that was not");
    served.end().unwrap();
}

/// The kernel takes an answer to what it collected for the whole, so a part is no answer.
#[test]
fn what_the_kernel_collected_is_written_whole_or_fsync_fails() {
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Image, "64M", &["--writeback"]);
    let file = File::create(mount.path("large")).unwrap();
    // Blocks that an inode of the log reaches: 12 by itself, and five levels of 256.
    let largest_bytes = 4096 * (12 + (1..=5).map(|level| 256_u64.pow(level)).sum::<u64>());
    assert_eq!(file.write_at(&[1; 8192], largest_bytes - 4096).unwrap(), 8192, "the kernel knows no limit");
    assert_eq!(file.sync_all().err().and_then(|e| Errno::from_io_error(&e)), Some(Errno::FBIG));
}

#[test]
fn a_full_fast_file_system_loses_nothing_that_the_kernel_collected_without_a_word() {
    const BYTES: usize = 128 << 10;
    if !can_mount() {
        return;
    }
    let mount = Mount::with(Kind::Fast, "64M", &[]);
    mount.umount();
    let image = mount.image.to_str().unwrap();
    firn_ok(&["mkfs", "--force", "--type", "ffs", "--realloc", image]);
    mount.mount_image(&["--writeback"]);
    let room = rustix::fs::statvfs(&mount.mnt).unwrap();
    let filler_bytes = room.f_bavail * room.f_frsize - (300 << 10);
    let filler = File::create(mount.path("filler")).unwrap();
    (0..filler_bytes)
        .step_by(64 << 10)
        .for_each(|at| filler.write_all_at(&pattern(1, 64 << 10), at).unwrap());
    filler.sync_all().unwrap();
    let mut synced = Vec::new();
    for n in 0..6 {
        let name = format!("f{n}");
        let written = File::create(mount.path(&name)).and_then(|file| {
            file.write_all_at(&pattern(n, BYTES), 0)?;
            file.sync_all()
        });
        synced.extend(written.is_ok().then_some((name, n)));
    }
    drop(filler);
    assert!((1..6).contains(&synced.len()), "the last ones find no room: {synced:?}");
    mount.remount_image();
    for (name, seed) in synced {
        assert!(fs::read(mount.path(&name)).unwrap() == pattern(seed, BYTES), "{name}");
    }
}
