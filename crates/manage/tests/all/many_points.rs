//! More retained points than a checkpoint slot has room for: the older ones are rows of a file, and everything about them is as before.

use crate::common::{create, list, mkfs_options, mount, new_device, step};
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options};
use firnfs::states::VIEWS_MAX;
use firnfs::store::{Scope, Store};
use firnfs_device::{CountingDevice, Device, MemDevice};
use firnfs_format::checkpoint::{MAX_SLOT_POINTS, Retention, Rule};
use firnfs_format::{Epoch, InodeNo};
use firnfs_manage::{LogVolume, check_all_points, format};
use firnfs_volume::Volume;
use std::sync::Arc;

/// Twice as many as any slot can have.
const POINTS: u32 = 2 * MAX_SLOT_POINTS as u32;

fn write(volume: &Volume<Lfs>, ino: InodeNo, n: u32) {
    volume.write_all(ino, 0, format!("{n:8}").as_bytes(), false).unwrap();
}

fn make_points(volume: &Volume<Lfs>, ino: InodeNo, numbers: std::ops::Range<u32>) {
    for n in numbers {
        write(volume, ino, n);
        volume.make_point(&format!("p{n}")).unwrap();
    }
}

/// The points by their names, each with the number that its file has.
fn found(volume: &Volume<Lfs>) -> Vec<(String, Epoch)> {
    let states: Vec<(String, Epoch)> = volume
        .run(|vfs, _| {
            let states = vfs.store_mut().states(Epoch(0))?.unwrap();
            Ok(states.map(|state| (state.title(), state.epoch)).collect())
        })
        .unwrap();
    for (state, _) in states.iter().filter(|(name, _)| name != "kept").step_by(37) {
        let path = [".firn", "history", state, "file"];
        let find = |dir, name: &&str| {
            volume.run(|vfs, now| vfs.lookup(now, dir, name.as_bytes(), false)).unwrap().ino
        };
        let ino = path.iter().fold(InodeNo::ROOT, find);
        let mut bytes = vec![0; 8];
        volume.read(ino, 0, &mut bytes).unwrap();
        assert_eq!(format!("p{}", String::from_utf8(bytes).unwrap().trim()), *state);
    }
    states
}

fn names(numbers: impl Iterator<Item = u32>) -> Vec<String> {
    numbers.map(|n| format!("p{n}")).collect()
}

fn assert_points(volume: &Volume<Lfs>, expected: &[String]) {
    let found: Vec<String> = found(volume).into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, expected);
}

fn assert_sound(device: &Arc<dyn Device>) {
    let report = check_all_points(&**device, &mut |_| {}).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}

/// Blocks of the file of points.
fn row_blocks(volume: &Volume<Lfs>) -> usize {
    let blocks = match volume.run(|vfs, _| vfs.store_mut().inode_blocks(InodeNo::POINTS)) {
        Err(FsError::NotFound) => return 0,
        blocks => blocks.unwrap(),
    };
    blocks.iter().filter(|placed| placed.key.level == 0).count()
}

/// Bytes that are read to open a volume with that many points, to write a file there and to make that durable.
fn bytes_to_use(points: u32) -> u64 {
    let device = Arc::new(CountingDevice::new(MemDevice::new(64 << 20)));
    format(&*device, &mkfs_options(64 << 20, 2048)).unwrap();
    let shared: Arc<dyn Device> = device.clone();
    let (volume, _) = mount(&shared, Options::default());
    let file = create(&volume, InodeNo::ROOT, "file", Kind::Regular);
    make_points(&volume, file, 0..points);
    volume.close().unwrap();
    drop(volume);
    let before = device.counts();
    let (volume, _) = mount(&shared, Options::default());
    write(&volume, file, 1);
    volume.sync(Scope::All).unwrap();
    let read_bytes = device.counts().since(&before).read_bytes;
    assert_points(&volume, &names(0..points));
    assert!(device.counts().since(&before).read_bytes > read_bytes + u64::from(points) * 192 / 2);
    read_bytes
}

#[test]
fn a_mount_does_not_read_the_points_beyond_the_slot() {
    let (few, many) = (bytes_to_use(POINTS), bytes_to_use(2 * POINTS));
    assert!(few.abs_diff(many) <= 4 << 10, "{few} and {many} bytes");
}

#[test]
fn a_mount_whose_slot_has_only_dropped_points_reads_the_others() {
    let device = new_device(64 << 20, 2048);
    let options = Options { slot_points: 4, ..Options::default() };
    let (volume, _) = mount(&device, options);
    let file = create(&volume, InodeNo::ROOT, "file", Kind::Regular);
    make_points(&volume, file, 0..20);
    // Too many for the slot, and no background work drops them.
    for (_, epoch) in found(&volume).into_iter().skip(10) {
        volume.run_quietly(|vfs, now| vfs.store_mut().drop_point(now, epoch)).unwrap();
    }
    volume.run_quietly(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
    volume.sync(Scope::All).unwrap();
    // What dies now in the log's tail is held by points in rows.
    write(&volume, file, 99);
    volume.sync(Scope::All).unwrap();
    drop(volume);
    let (volume, _) = mount(&device, options);
    assert_points(&volume, &names(0..10));
    while volume.run(|vfs, _| Ok(vfs.store().is_dropping())).unwrap() {
        step(&volume);
    }
    assert_points(&volume, &names(0..10));
    volume.close().unwrap();
    assert_sound(&device);
}

#[test]
fn a_listing_has_more_states_than_users_can_look_into() {
    const STATES: u32 = VIEWS_MAX as u32 + 100;
    let device = new_device(1 << 30, 2048);
    let (volume, clock) = mount(&device, Options::default());
    let all = Retention { percent: 100, rules: vec![Rule { every_s: 0, for_s: u32::MAX }] };
    volume.run(|vfs, now| vfs.store_mut().set_retention(now, all.clone())).unwrap();
    let file = create(&volume, InodeNo::ROOT, "file", Kind::Regular);
    for n in 0..STATES {
        write(&volume, file, n);
        volume.sync(Scope::All).unwrap();
        volume.pump();
        clock.advance_ms(1_000);
    }
    volume.close().unwrap();
    drop(volume);
    let (volume, _) = mount(&device, Options::default());
    let find =
        |dir, name: &str| volume.run(|vfs, now| vfs.lookup(now, dir, name.as_bytes(), false)).unwrap().ino;
    let history = find(find(InodeNo::ROOT, ".firn"), "history");
    let names = list(&volume, history);
    assert!(names.len() >= STATES as usize, "{}", names.len());
    let last = find(find(history, &names.last().unwrap().0), "file");
    let mut bytes = vec![0; 8];
    volume.read(last, 0, &mut bytes).unwrap();
    assert_eq!(bytes, format!("{:8}", STATES - 1).as_bytes());
    volume.close().unwrap();
    assert_sound(&device);
}

#[test]
fn points_beyond_the_slot_outlive_a_power_cut_and_their_rows_are_used_again() {
    let device = new_device(64 << 20, 2048);
    let (volume, _) = mount(&device, Options::default());
    let file = create(&volume, InodeNo::ROOT, "file", Kind::Regular);
    make_points(&volume, file, 0..POINTS);
    let blocks = row_blocks(&volume);
    assert!(blocks as u32 * 21 >= POINTS - MAX_SLOT_POINTS as u32, "{blocks} blocks of 21 rows");
    // The power goes.
    drop(volume);
    let (volume, _) = mount(&device, Options::default());
    assert_points(&volume, &names(0..POINTS));
    assert_sound(&device);

    for (_, epoch) in found(&volume).into_iter().step_by(2) {
        volume.run(|vfs, now| vfs.store_mut().drop_point(now, epoch)).unwrap();
    }
    let left = || names((1..POINTS).step_by(2));
    while volume.run(|vfs, _| Ok(vfs.store().points_len())).unwrap() > left().len() {
        step(&volume);
    }
    volume.close().unwrap();
    drop(volume);
    assert_sound(&device);

    let (volume, _) = mount(&device, Options::default());
    assert_points(&volume, &left());
    make_points(&volume, file, POINTS..POINTS + POINTS / 2);
    assert_eq!(row_blocks(&volume), blocks, "in the rows of those that are gone");
    let all = [left(), names(POINTS..POINTS + POINTS / 2)].concat();
    assert_points(&volume, &all);
    let oldest = found(&volume)[0].1;
    volume.run(|vfs, now| vfs.store_mut().name_point(now, oldest, "kept")).unwrap();
    volume.close().unwrap();
    drop(volume);
    assert_sound(&device);

    let (volume, _) = mount(&device, Options::default());
    let points = found(&volume);
    assert_eq!((points[0].0.as_str(), points.len()), ("kept", all.len()));
    for (_, epoch) in points {
        volume.run(|vfs, now| vfs.store_mut().drop_point(now, epoch)).unwrap();
    }
    while volume.run(|vfs, _| Ok(vfs.store().points_len() > 0)).unwrap() {
        step(&volume);
    }
    volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
    volume.sync(Scope::All).unwrap();
    let past_bytes = volume.run_quietly(|vfs, _| Ok(vfs.store().past_bytes())).unwrap();
    assert_eq!((past_bytes, row_blocks(&volume)), (0, 0), "the file is gone with its last row");
    volume.close().unwrap();
    assert_sound(&device);
}
