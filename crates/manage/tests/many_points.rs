//! More retained points than a checkpoint slot has room for: the older ones are rows of a file, and everything about them is as before.

mod common;

use common::{create, mount, new_device, step};
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options};
use firnfs::store::{Scope, Store};
use firnfs_device::Device;
use firnfs_format::checkpoint::MAX_SLOT_POINTS;
use firnfs_format::{Epoch, InodeNo};
use firnfs_manage::{LogVolume, check_all_points};
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
    let told = |store: &Lfs| store.states().unwrap().map(|state| (state.title(), state.epoch)).collect();
    let states: Vec<(String, Epoch)> = volume.run(|vfs, _| Ok(told(vfs.store()))).unwrap();
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
    while volume.run(|vfs, _| Ok(vfs.store().points().len())).unwrap() > left().len() {
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
    while volume.run(|vfs, _| Ok(!vfs.store().points().is_empty())).unwrap() {
        step(&volume);
    }
    volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
    volume.sync(Scope::All).unwrap();
    let past_bytes = volume.run_quietly(|vfs, _| Ok(vfs.store().past_bytes())).unwrap();
    assert_eq!((past_bytes, row_blocks(&volume)), (0, 0), "the file is gone with its last row");
    volume.close().unwrap();
    assert_sound(&device);
}
