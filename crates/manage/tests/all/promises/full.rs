//! Space: a volume at 80% can be overwritten for ever; a full volume refuses writes early and correctly, and still allows
//! deletions.

use crate::promises::support::{GIB, KIB, MIB, Mounted, TIB, make_volume, pattern};
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::Options;
use firnfs::vfs::Allocate;
use firnfs_device::{Device, MemDevice};
use firnfs_format::InodeNo;
use firnfs_torture::audit::audit;
use firnfs_torture::ops::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

const VOLUME_BYTES: u64 = 24 * MIB;
/// Sizes that files are made of: inline, a fragment, some blocks, with an indirect block.
const SIZES: [usize; 8] = [0, 300, 2_000, 3_000, 9_000, 40_000, 120_000, 300_000];

fn device() -> Arc<dyn Device> {
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(VOLUME_BYTES));
    make_volume(&*device, 256 * KIB);
    device
}

fn options() -> Options {
    Options { write_threshold_bytes: MIB, cache_bytes: 8 * MIB, ..Options::default() }
}

/// Files by name, with their accepted content: a seed and a length.
#[derive(Default)]
struct Accepted(BTreeMap<String, (u64, usize)>);

impl Accepted {
    /// Makes a file; if the volume has no space for all of it, removes it again and returns false.
    fn add(&mut self, mounted: &Mounted, seed: u64, len: usize) -> bool {
        let name = format!("f{seed}");
        let Ok(ino) = expect_space(mounted.try_make(InodeNo::ROOT, &name, Kind::Regular)) else {
            return false;
        };
        if expect_space(mounted.volume.write(ino, 0, &pattern(seed, len), false)).is_err() {
            mounted.unlink(InodeNo::ROOT, &name);
            return false;
        }
        self.0.insert(name, (seed, len));
        true
    }

    fn remove(&mut self, mounted: &Mounted, name: &str) {
        self.0.remove(name).unwrap();
        mounted.unlink(InodeNo::ROOT, name);
    }

    fn verify(&self, mounted: &Mounted, when: &str) {
        for (name, &(seed, len)) in &self.0 {
            let ino = mounted.find(InodeNo::ROOT, name).unwrap();
            assert!(mounted.content(ino) == pattern(seed, len), "{when}: {name} of {len} bytes");
        }
    }
}

/// Lets success and ENOSPC pass; a caller who fills a volume must get no other error.
fn expect_space<T>(result: Result<T, FsError>) -> Result<T, ()> {
    result.map_err(|e| assert_eq!(e, FsError::NoSpace))
}

fn assert_accounts_are_right(mounted: &Mounted, when: &str) {
    mounted.sync();
    mounted.idle_ms(60_000);
    let wrong = audit(&mounted.volume).unwrap();
    assert!(wrong.is_empty(), "{when}: {wrong:#?}");
}

#[test]
fn a_write_with_room_for_only_a_part_reports_how_much_was_written() {
    let mounted = Mounted::new(device(), options());
    let mut kept = Accepted::default();
    while mounted.space().free_bytes > 5 * MIB / 2 {
        assert!(kept.add(&mounted, kept.0.len() as u64, 300_000));
    }
    let ino = mounted.create(InodeNo::ROOT, "large");
    let content = pattern(77, 6 * MIB as usize);
    let written = mounted.volume.write(ino, 0, &content, false).unwrap();
    assert!((MIB as usize..content.len()).contains(&written), "{written} bytes");
    let rest = mounted.volume.write(ino, written as u64, &content[written..], false);
    assert_eq!(rest, Err(FsError::NoSpace));
    assert!(mounted.content(ino) == content[..written]);
    kept.verify(&mounted, "full");
    assert_accounts_are_right(&mounted, "full");
}

#[test]
fn the_free_space_of_statfs_can_be_allocated_to_one_file() {
    for size_bytes in [256 * MIB, 6 * GIB, 20 * GIB] {
        let device = Arc::new(MemDevice::new(size_bytes));
        make_volume(&*device, MIB);
        let mounted = Mounted::new(device, options());
        let file = mounted.create(InodeNo::ROOT, "f");
        let free = mounted.space().free_bytes;
        mounted.volume.fallocate(file, Allocate::Grow, 0..free - 512 * KIB, false).unwrap();
        let left = mounted.space().free_bytes;
        assert!(left < free / 1000 + MIB, "{left} of {free} bytes are left of {size_bytes}");
    }
}

#[test]
fn an_allocation_that_does_not_fit_takes_nothing() {
    let mounted = Mounted::new(device(), options());
    let kept = mounted.create(InodeNo::ROOT, "kept");
    mounted.write(kept, 0, &pattern(1, 4 * MIB as usize));
    let file = mounted.create(InodeNo::ROOT, "f");
    mounted.sync();
    let space = mounted.space();
    for mode in [Allocate::Grow, Allocate::KeepSize, Allocate::ZeroRange(false)] {
        for (at_bytes, len_bytes) in
            [(0, space.free_bytes + 4 * KIB), (5, 16 * TIB), (TIB, space.total_bytes)]
        {
            let refused = mounted.volume.fallocate(file, mode, at_bytes..at_bytes + len_bytes, false);
            assert_eq!(refused, Err(FsError::NoSpace), "{mode:?} of {len_bytes} bytes at {at_bytes}");
        }
    }
    let too_far = mounted.volume.fallocate(file, Allocate::Grow, GIB..u64::MAX, false);
    assert_eq!(too_far, Err(FsError::TooLarge));
    let attr = mounted.attr(file);
    assert_eq!((attr.size_bytes, attr.allocated_bytes), (0, 0));
    assert_eq!(mounted.space(), space);
    assert!(expect_space(mounted.volume.write(file, 0, &pattern(2, MIB as usize), false)).is_ok());
}

#[test]
fn an_allocation_is_measured_by_the_holes_of_its_range_alone() {
    let mounted = Mounted::new(device(), options());
    let file = mounted.create(InodeNo::ROOT, "f");
    let free = mounted.space().free_bytes;
    // Two of three blocks of the first half exist already, written or reserved.
    let (block, half) = (4 * KIB, free / 2 / (12 * KIB) * 12 * KIB);
    for at_bytes in (0..half).step_by(3 * block as usize) {
        mounted.write(file, at_bytes, &pattern(at_bytes, block as usize));
        mounted
            .volume
            .fallocate(file, Allocate::Grow, at_bytes + block..at_bytes + 2 * block, false)
            .unwrap();
    }
    let (free_now, holes) = (mounted.space().free_bytes, half / 3);
    let fits = half + (free_now - holes) - 256 * KIB;
    let refused = mounted.volume.fallocate(file, Allocate::Grow, 0..fits + 512 * KIB, false);
    assert_eq!(refused, Err(FsError::NoSpace));
    assert_eq!(mounted.space().free_bytes, free_now);
    mounted.volume.fallocate(file, Allocate::Grow, 0..fits, false).unwrap();
    assert_eq!(mounted.attr(file).size_bytes, fits);
    assert_accounts_are_right(&mounted, "allocated");
}

#[test]
fn a_volume_at_80_percent_is_overwritten_for_ever() {
    let device = device();
    let mut mounted = Mounted::new(device.clone(), options());
    let mut rng = Rng::new(80);
    let mut files = Vec::new();
    let total_bytes = mounted.space().total_bytes;
    while total_bytes - mounted.space().free_bytes < total_bytes * 8 / 10 {
        let len = rng.pick(&SIZES);
        let n = files.len() as u64;
        let ino = mounted.create(InodeNo::ROOT, &format!("f{n}"));
        mounted.write(ino, 0, &pattern(n, len));
        files.push((ino, n, len));
    }
    mounted.idle_ms(6_000);
    let free_at_first = mounted.space().free_bytes;
    let (mut written_bytes, mut step) = (0, 1_000_000);
    while written_bytes < 12 * VOLUME_BYTES {
        let at = rng.below(files.len() as u64) as usize;
        let (ino, _, len) = files[at];
        step += 1;
        mounted.write(ino, 0, &pattern(step, len));
        files[at].1 = step;
        written_bytes += len as u64;
        mounted.idle_ms(5);
        if step.is_multiple_of(2_000) {
            mounted.close();
            mounted = Mounted::new(device.clone(), options());
        }
    }
    assert!(mounted.counters().segments_cleaned > 100, "{:?}", mounted.counters());
    for &(ino, seed, len) in &files {
        assert!(mounted.content(ino) == pattern(seed, len), "inode {ino}");
    }
    assert_accounts_are_right(&mounted, "at the end");
    // Only the inode map and the usage table may use other blocks now.
    let drift = free_at_first.abs_diff(mounted.space().free_bytes);
    assert!(drift <= total_bytes / 100, "overwriting changed the free space by {drift} bytes");
}

#[test]
fn fill_delete_refill_twenty_times_and_every_accepted_byte_is_there() {
    let device = device();
    let mut mounted = Mounted::new(device.clone(), options());
    let mut accepted = Accepted::default();
    let mut rng = Rng::new(20);
    let mut seed = 0;
    for round in 0..20 {
        let when = format!("round {round}");
        // ENOSPC for a size ends that size; ENOSPC for the smallest ends the round.
        let mut largest = SIZES.len();
        while largest > 0 {
            let choice = rng.below(largest as u64) as usize;
            seed += 1;
            if !accepted.add(&mounted, seed, SIZES[choice]) {
                largest = choice;
            }
        }
        let space = mounted.space();
        assert!(
            space.free_bytes < space.total_bytes / 50,
            "{when}: ENOSPC for an empty file with {} of {} bytes free",
            space.free_bytes,
            space.total_bytes
        );
        // Accepted data is never refused later: not by the sync, not after a crash or an unmount.
        mounted.sync();
        if round % 2 == 0 {
            mounted.close();
        }
        mounted = Mounted::new(device.clone(), options());
        accepted.verify(&mounted, &when);
        assert_accounts_are_right(&mounted, &when);
        let names: Vec<String> = accepted.0.keys().cloned().collect();
        for name in names {
            if rng.percent(60) {
                accepted.remove(&mounted, &name);
            }
        }
    }
    for name in accepted.0.keys().cloned().collect::<Vec<_>>() {
        accepted.remove(&mounted, &name);
    }
    assert_accounts_are_right(&mounted, "emptied");
    let space = mounted.space();
    assert!(space.free_bytes > space.total_bytes * 95 / 100, "all deleted, {space:?}");
}

#[test]
fn the_free_space_of_statfs_can_be_filled_with_one_file() {
    let mounted = Mounted::new(device(), options());
    let free_bytes = mounted.space().free_bytes;
    let ino = mounted.create(InodeNo::ROOT, "all");
    let unit = pattern(5, 64 << 10);
    let mut filled_bytes = 0;
    while expect_space(mounted.volume.write(ino, filled_bytes, &unit, false)).is_ok() {
        filled_bytes += unit.len() as u64;
    }
    assert!(filled_bytes <= free_bytes, "{filled_bytes} bytes went into {free_bytes}");
    assert!(
        filled_bytes >= free_bytes * 97 / 100,
        "only {filled_bytes} of {free_bytes} free bytes could be used"
    );
    mounted.sync();
    // The file can still be overwritten in place, and it can shrink.
    for at_bytes in (0..filled_bytes).step_by(unit.len()) {
        mounted.write(ino, at_bytes, &unit);
    }
    mounted.sync();
    mounted.truncate(ino, 10_000);
    assert!(mounted.space().free_bytes >= free_bytes * 97 / 100);
    assert_eq!(mounted.content(ino), unit[..10_000]);
}

#[test]
fn everything_can_be_deleted_from_a_volume_full_of_tiny_files() {
    let device = device();
    let mut mounted = Mounted::new(device.clone(), options());
    let mut dirs = Vec::new();
    'filling: for d in 0.. {
        let name = format!("d{d}");
        let Ok(dir) = expect_space(mounted.try_make(InodeNo::ROOT, &name, Kind::Directory)) else { break };
        dirs.push((name, dir, 0));
        for f in 0..500 {
            let made = expect_space(mounted.try_make(dir, &format!("f{f}"), Kind::Regular));
            if made.is_err() {
                break 'filling;
            }
            dirs.last_mut().unwrap().2 += 1;
        }
    }
    let files: u32 = dirs.iter().map(|d| d.2).sum();
    assert!(files > 10_000, "{files} files of no bytes fill the volume");
    mounted.sync();
    mounted = Mounted::new(device, options());
    for (name, dir, files) in dirs {
        for f in 0..files {
            mounted.unlink(dir, &format!("f{f}"));
        }
        mounted.volume.run(|vfs, now| vfs.rmdir(now, InodeNo::ROOT, name.as_bytes())).unwrap();
    }
    assert_accounts_are_right(&mounted, "emptied");
    let space = mounted.space();
    assert_eq!(space.inodes_used, 1, "the root directory alone is left");
    assert!(space.free_bytes > space.total_bytes * 90 / 100, "all deleted, {space:?}");
}
