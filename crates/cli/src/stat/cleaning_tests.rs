//! `firn stat --cleaning` and `firn df` report exactly the work that was done on a volume.

use super::cleaning::{CleaningView, RoomView};
use super::view::StatView;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, LogKind, MkfsOptions, Options};
use firnfs::vfs::{AtimeMode, Caller, NewNode, XattrMode};
use firnfs_device::{Clock, Device, MemDevice, SystemClock};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::sync::Arc;

const SIZE_BYTES: u64 = 24 << 20;
const FILE_BYTES: u64 = 1 << 20;

fn new_device() -> Arc<MemDevice> {
    let device = Arc::new(MemDevice::new(SIZE_BYTES));
    let options = MkfsOptions {
        size_bytes: SIZE_BYTES,
        block_bytes: 4096,
        segment_bytes: 256 << 10,
        physical_block_bytes: 4096,
        inline_max_bytes: 128,
        label: String::new(),
        uuid: [3; 16],
        hash_key: [1, 2],
        now: TimeNs(0),
        root_owner: (0, 0),
    };
    firnfs_manage::format(&*device, &options).unwrap();
    device
}

fn open(device: &Arc<MemDevice>, read_only: bool) -> Volume<Lfs> {
    open_with(device, read_only, Arc::new(SystemClock))
}

fn open_with(device: &Arc<MemDevice>, read_only: bool, clock: Arc<dyn Clock>) -> Volume<Lfs> {
    let options = Options { write_threshold_bytes: 256 << 10, read_only, ..Options::default() };
    let device: Arc<dyn Device> = device.clone();
    firnfs_manage::open(device, options, AtimeMode::Noatime, clock).unwrap()
}

fn make(volume: &Volume<Lfs>, dir: InodeNo, name: &str, kind: Kind) -> InodeNo {
    let node = NewNode { kind, mode: 0o755, rdev: 0, target: b"" };
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    volume.run(|vfs, now| vfs.make(now, caller, dir, name.as_bytes(), node, false)).unwrap().ino
}

fn look(volume: &Volume<Lfs>) -> (RoomView, CleaningView) {
    let log = StatView::of(volume).unwrap().log.unwrap();
    (log.room.unwrap(), log.cleaning.unwrap())
}

fn assert_adds_up(volume: &Volume<Lfs>) -> CleaningView {
    let (room, cleaning) = look(volume);
    let RoomView {
        live_bytes,
        reclaimable_bytes,
        pinned_bytes,
        clean_bytes,
        reserve_bytes,
        fixed_bytes,
        history_bytes,
        ..
    } = room;
    let parts = [live_bytes, reclaimable_bytes, pinned_bytes, clean_bytes, reserve_bytes, fixed_bytes];
    assert_eq!(parts.iter().sum::<u64>() + history_bytes, room.size_bytes, "{room:?}");
    assert_eq!(room.size_bytes, SIZE_BYTES);
    assert!(parts.iter().all(|&bytes| bytes > 0), "{room:?}");
    let live: u64 = cleaning.kinds.iter().map(|row| row.live_bytes.unwrap()).sum();
    assert_eq!(live, live_bytes, "{cleaning:?}");
    let written: u64 = cleaning.kinds.iter().map(|row| row.log_bytes).sum();
    assert_eq!(written, cleaning.since_mkfs.log_bytes);
    cleaning
}

/// Fills more than half, then overwrites random places that many times.
fn work(volume: &Volume<Lfs>, overwrites: u64) {
    let dir = make(volume, InodeNo::ROOT, "dir", Kind::Directory);
    for n in 0..300 {
        make(volume, dir, &format!("a file with a name of some length, number {n}"), Kind::Regular);
    }
    volume.run(|vfs, now| vfs.setxattr(now, dir, b"user.large", &[7; 8000], XattrMode::Any)).unwrap();
    let files: Vec<_> = (0..13).map(|n| make(volume, dir, &format!("f{n}"), Kind::Regular)).collect();
    for &file in &files {
        volume.write_all(file, 0, &vec![1; FILE_BYTES as usize], false).unwrap();
    }
    let mut at = 1u64;
    for _ in 0..overwrites {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let block = (at >> 33) % (FILE_BYTES / 4096);
        let file = files[(at >> 50) as usize % files.len()];
        volume.write_all(file, block * 4096, &[at as u8; 4096], false).unwrap();
    }
}

#[test]
fn the_room_of_a_volume_adds_up_and_its_cleaning_is_counted() {
    let device = new_device();
    let volume = open(&device, false);
    work(&volume, 12_000);
    volume.sync(firnfs::store::Scope::All).unwrap();
    let cleaning = assert_adds_up(&volume);
    let all = cleaning.since_mkfs;
    assert!(all.segments_empty > 0 && all.segments_background + all.segments_on_demand > 0, "{all:?}");
    assert_eq!(all.segments_cleaned, all.segments_empty + all.segments_background + all.segments_on_demand);
    assert!(all.utilisation.is_some_and(|u| u > 0.1 && u < 1.0), "{all:?}");
    assert_eq!(all.new_bytes + all.upkeep_bytes, all.log_bytes);
    assert!(all.upkeep_bytes > all.moved_bytes, "metadata of what moved: {all:?}");
    assert!(
        all.write_cost.is_some_and(|cost| cost > 1.0) && all.measured_cost.is_some_and(|c| c > 1.0),
        "{all:?}"
    );
    // Segments are read whole, as the default is a device with a head: for each segment read, its share u is moved.
    assert_eq!(all.segments_read_in_part, 0);
    assert!(all.read_bytes >= (all.segments_background + all.segments_on_demand) * (256 << 10), "{all:?}");
    assert!(all.read_per_moved.unwrap() * all.utilisation.unwrap() >= 0.99, "{all:?}");
    // Nobody has kept anything of the past.
    for row in cleaning.kinds.iter().filter(|row| row.kind != "past") {
        assert!(row.log_bytes > 0, "{row:?}");
        assert!(row.live_bytes.unwrap() > 0 || row.kind == "summary", "{row:?}");
    }
    let of = |kind: LogKind| cleaning.kinds.iter().find(|row| row.kind == kind.name()).unwrap();
    assert_eq!(of(LogKind::File).live_bytes, Some(13 * FILE_BYTES));
    assert_eq!(of(LogKind::Attributes).live_bytes, Some(8192));
    drop(volume);
    // After the crash, roll-forward leads to the same numbers.
    let volume = open(&device, true);
    let again = look(&volume).1;
    let live = |view: &CleaningView| view.kinds[..3].iter().map(|row| row.live_bytes).collect::<Vec<_>>();
    assert_eq!(live(&again), live(&cleaning));
    assert_eq!((again.since_mount, again.stalls), (None, None));
}

#[test]
fn counts_since_mkfs_outlive_the_mount_and_those_since_the_mount_do_not() {
    let device = new_device();
    // Which segments are cleaned follows from when they were written. Where time passes, some runs end with so few clean segments
    // that the next mount cleans before anybody looks, which counts. No time passes here, so that all runs are the same.
    let clock = Arc::new(VirtualClock::at(1_000_000_000));
    let volume = open_with(&device, false, clock.clone());
    work(&volume, 12_000);
    volume.close().unwrap();
    let (_, before) = look(&volume);
    drop(volume);
    let volume = open_with(&device, false, clock);
    let (_, after) = look(&volume);
    assert_eq!(after.since_mkfs, before.since_mkfs);
    assert_eq!(after.since_mount.unwrap().log_bytes, 0);
    assert!(after.kinds.iter().all(|row| row.log_bytes_since_mount == Some(0)));
    make(&volume, InodeNo::ROOT, "one more", Kind::Regular);
    volume.sync(firnfs::store::Scope::All).unwrap();
    let (_, now) = look(&volume);
    let grown = now.since_mkfs.log_bytes - before.since_mkfs.log_bytes;
    assert!(grown > 0);
    assert_eq!(now.since_mount.unwrap().log_bytes, grown);
}

#[test]
fn a_writer_that_waits_for_room_has_stalled() {
    let device = new_device();
    let volume = open(&device, false);
    assert_eq!(look(&volume).1.stalls.unwrap().count, 0);
    // From now on background work is promised, but never done.
    volume.wait_for_work(0);
    work(&volume, 3000);
    let (_, cleaning) = look(&volume);
    let stalls = cleaning.stalls.unwrap();
    assert!(stalls.count > 0 && stalls.longest_ms > 0.0, "{stalls:?}");
    assert!(stalls.total_ms >= stalls.longest_ms, "{stalls:?}");
    let [p50_ms, p99_ms] = [stalls.p50_ms, stalls.p99_ms].map(Option::unwrap);
    assert!(0.0 < p50_ms && p50_ms <= p99_ms && p99_ms <= stalls.longest_ms, "{stalls:?}");
    assert!(stalls.total_ms >= p99_ms, "{stalls:?}");
    assert!(cleaning.since_mkfs.segments_on_demand > 0, "{cleaning:?}");
    assert_eq!(cleaning.since_mkfs.segments_background, 0, "{cleaning:?}");
}

#[test]
fn what_a_log_has_yet_to_write_is_not_dead() {
    let device = new_device();
    let volume = open(&device, false);
    let by_mkfs = StatView::of(&volume).unwrap().log.unwrap();
    // mkfs does not count its first write.
    let counted_bytes = by_mkfs.cleaning.unwrap().since_mkfs.log_bytes;
    let uncounted_bytes = by_mkfs.live_bytes + by_mkfs.dead_bytes - counted_bytes;
    assert!(uncounted_bytes <= 16 << 10, "{uncounted_bytes}");
    let file = make(&volume, InodeNo::ROOT, "file", Kind::Regular);
    volume.write_all(file, 0, &[1; 40_000], false).unwrap();
    volume.sync(firnfs::store::Scope::All).unwrap();
    let written = |volume: &Volume<Lfs>| {
        let log = StatView::of(volume).unwrap().log.unwrap();
        let all_bytes = log.segments_in_use * u64::from(log.segment_bytes);
        assert_eq!(log.live_bytes + log.dead_bytes + log.unwritten_bytes, all_bytes, "{log:?}");
        assert!(log.live_bytes > 40_000 && log.unwritten_bytes > all_bytes / 2, "{log:?}");
        // Nothing was closed or cleaned yet, so all that was written since mkfs is where it was.
        let log_bytes = log.cleaning.unwrap().since_mkfs.log_bytes;
        assert_eq!(log.live_bytes + log.dead_bytes, uncounted_bytes + log_bytes);
        log.dead_bytes
    };
    let before = written(&volume);
    volume.write_all(file, 0, &[2; 40_000], false).unwrap();
    volume.sync(firnfs::store::Scope::All).unwrap();
    assert!(written(&volume) >= before + 40_000, "what was overwritten is dead");
    volume.close().unwrap();
    drop(volume);
    written(&open(&device, true));
}

#[test]
fn stat_says_what_a_power_cut_would_lose() {
    let device: Arc<dyn Device> = new_device();
    let clock = Arc::new(VirtualClock::at(1_000_000_000));
    let options = Options::default();
    let volume = firnfs_manage::open(device, options, AtimeMode::Noatime, clock.clone()).unwrap();
    // Background work is promised and never done, so only syncs write.
    volume.wait_for_work(0);
    let power_cut = || StatView::of(&volume).unwrap().log.unwrap().power_cut.unwrap();
    assert_eq!((power_cut().loses_up_to_ms, power_cut().dirty_bytes), (None, 0));
    let one = make(&volume, InodeNo::ROOT, "one", Kind::Regular);
    clock.advance_ms(1200);
    volume.write_all(one, 0, &[1; 40_000], false).unwrap();
    clock.advance_ms(300);
    let before = power_cut();
    assert_eq!(before.loses_up_to_ms, Some(1500), "the name came first");
    assert!((40_000..80_000).contains(&before.dirty_bytes), "{before:?}");
    assert_eq!(before.checkpoint_age_ms, 1500, "none since the mount");
    volume.sync(firnfs::store::Scope::All).unwrap();
    assert_eq!((power_cut().loses_up_to_ms, power_cut().in_flight_bytes), (None, 0));
    volume.write_all(one, 0, &[2; 4096], false).unwrap();
    clock.advance_ms(50);
    assert_eq!(power_cut().loses_up_to_ms, Some(50));
    // Nothing else was changed, so nothing can be lost after the fsync.
    volume.sync(firnfs::store::Scope::File(one)).unwrap();
    assert_eq!(power_cut().loses_up_to_ms, None);
    volume.close().unwrap();
    assert!(power_cut().checkpoint_age_ms < 50);
}
