//! Inodes that differ between two states of a volume with thousands of them: inode maps of different heights, more than one call looks at.

use crate::common::{create, mount, new_device, unlink};
use firnfs::inode::Kind;
use firnfs::lfs::{Differing, Lfs, Options};
use firnfs::store::{Scope, Store};
use firnfs_format::{Epoch, InodeNo};
use firnfs_manage::LogVolume;
use firnfs_volume::Volume;
use std::collections::BTreeMap;
use std::ops::Range;

/// Files, by their numbers: which byte they have. One that is used again for another file gets a byte of its own.
type Files = BTreeMap<InodeNo, u8>;

/// A block of the map has 128 entries, so this many need a map of three levels. A map of one level has no second child in any of those
/// above.
const MANY: usize = 16_800;

fn write(volume: &Volume<Lfs>, ino: InodeNo, content: u8) {
    volume.write_all(ino, 0, &[content], false).unwrap();
}

fn make(volume: &Volume<Lfs>, dir: InodeNo, numbers: Range<usize>, content: u8, files: &mut Files) {
    for n in numbers {
        let ino = create(volume, dir, &n.to_string(), Kind::Regular);
        write(volume, ino, content);
        files.insert(ino, content);
    }
}

fn find(volume: &Volume<Lfs>, dir: InodeNo, n: usize) -> InodeNo {
    volume.run(|vfs, now| vfs.lookup(now, dir, n.to_string().as_bytes(), false)).unwrap().ino
}

fn point(volume: &Volume<Lfs>, name: &str) -> Epoch {
    volume.make_point(name).unwrap();
    volume
        .run(|vfs, _| Ok(vfs.store_mut().states(Epoch(0))?.unwrap().map(|state| state.epoch).max()))
        .unwrap()
        .unwrap()
}

fn expected(before: &Files, after: &Files) -> Vec<(InodeNo, bool, bool)> {
    let all: BTreeMap<InodeNo, ()> = before.keys().chain(after.keys()).map(|ino| (*ino, ())).collect();
    let differs = |ino: &&InodeNo| before.get(ino) != after.get(ino);
    all.keys().filter(differs).map(|ino| (*ino, before.contains_key(ino), after.contains_key(ino))).collect()
}

#[test]
fn all_that_differ_are_found_in_maps_of_different_heights() {
    let device = new_device(64 << 20, 2048);
    let options = Options { cache_bytes: Options::CACHE_BYTES_LEAST, ..Options::default() };
    let (volume, _) = mount(&device, options);
    let dir = create(&volume, InodeNo::ROOT, "dir", Kind::Directory);
    let mut files = Files::new();
    let mut states: Vec<(Option<Epoch>, Files)> = Vec::new();
    make(&volume, dir, 0..20, 1, &mut files);
    states.push((Some(point(&volume, "few")), files.clone()));
    make(&volume, dir, 20..MANY, 1, &mut files);
    states.push((Some(point(&volume, "many")), files.clone()));
    for (ino, content) in files.iter_mut().step_by(77) {
        *content = 2;
        write(&volume, *ino, 2);
    }
    states.push((Some(point(&volume, "changed")), files.clone()));
    let numbers: Vec<InodeNo> = (0..MANY).map(|n| find(&volume, dir, n)).collect();
    for n in (20..MANY).filter(|n| n % 3 != 0) {
        unlink(&volume, dir, &n.to_string()).unwrap();
        let before = files.remove(&numbers[n]);
        assert!(before.is_some());
    }
    states.push((Some(point(&volume, "fewer")), files.clone()));
    // The present, of which some is in no map yet.
    volume.sync(Scope::All).unwrap();
    let (ino, _) = files.pop_last().unwrap();
    write(&volume, ino, 3);
    files.insert(ino, 3);
    make(&volume, dir, MANY..MANY + 5, 4, &mut files);
    states.push((None, files.clone()));
    assert_differences(&volume, dir, &states);
    // All of it is read from the device.
    volume.sync(Scope::All).unwrap();
    volume.close().unwrap();
    drop(volume);
    let (volume, _) = mount(&device, options);
    assert_differences(&volume, dir, &states);
}

fn assert_differences(volume: &Volume<Lfs>, dir: InodeNo, states: &[(Option<Epoch>, Files)]) {
    for (at, (first, before)) in states.iter().enumerate() {
        let Some(first) = first else { continue };
        for (second, after) in &states[at + 1..] {
            let found = volume.differing_inodes(*first, *second).unwrap();
            let is_file = |differing: &&Differing| ![InodeNo::ROOT, dir].contains(&differing.ino);
            let found: Vec<_> = found
                .iter()
                .filter(is_file)
                .map(|differing| (differing.ino, differing.is_in_first, differing.is_in_second))
                .collect();
            let wanted = expected(before, after);
            let wrong = found.iter().zip(&wanted).find(|(found, wanted)| found != wanted);
            assert_eq!(wrong, None, "{first} and {second:?}");
            assert_eq!(found.len(), wanted.len(), "{first} and {second:?}");
        }
    }
}
