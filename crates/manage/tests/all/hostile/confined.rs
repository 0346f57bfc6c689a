//! A flipped bit harms only its owner: background work, close and the next mount continue.

use super::doctor::Doctor;
use super::support::{
    INDIRECT_FILE_BYTES, assert_in_use, checkpoint, create, find, get, is_corrupt, mount, mount_read_only,
    new_device, patient, pattern, put, quarantined, read_only, unlink,
};
use firnfs::FsError;
use firnfs::lfs::{Lfs, Thing};
use firnfs::store::Scope;
use firnfs::vfs::SetAttr;
use firnfs_device::MemDevice;
use firnfs_format::{BlockPtr, InodeNo, SegmentId};
use firnfs_volume::Volume;
use std::sync::Arc;

#[test]
fn a_deleted_file_with_a_damaged_indirect_block_stays_an_orphan_and_harms_nothing_else() {
    let (device, ino) = patient();
    let doctor = Doctor::new(&device);
    doctor.flip(&doctor.roots(ino).indirect[0]);
    let volume = mount(&device);
    assert!(is_corrupt(&get(&volume, ino)));
    unlink(&volume, "ill").unwrap();
    volume.background().unwrap();
    assert_eq!(quarantined(&volume), [Thing::Inode(ino)]);
    assert_in_use(&device, volume, "well", &pattern(2, 5000));
    // Its number is not reused while its blocks are not free.
    let volume = mount(&device);
    assert_ne!(create(&volume, "new").unwrap(), ino);
    volume.background().unwrap();
    assert_eq!(quarantined(&volume), [Thing::Inode(ino)]);
    volume.close().unwrap();
}

#[test]
fn a_truncated_file_with_a_damaged_indirect_block_gives_errors_instead_of_waiting_for_ever() {
    let (device, ino) = patient();
    let doctor = Doctor::new(&device);
    doctor.flip(&doctor.roots(ino).indirect[0]);
    let volume = mount(&device);
    let cut = SetAttr { size_bytes: Some(4096), ..SetAttr::default() };
    volume.run(|vfs, now| vfs.setattr(now, ino, cut)).unwrap();
    volume.background().unwrap();
    assert_eq!(quarantined(&volume), [Thing::Inode(ino)]);
    assert!(is_corrupt(&volume.write(ino, 60_000, b"more", false)));
    assert_in_use(&device, volume, "well", &pattern(2, 5000));
}

#[test]
fn an_orphan_whose_record_is_damaged_does_not_keep_the_volume_from_being_mounted() {
    let device = new_device();
    let volume = mount(&device);
    put(&volume, "well", &pattern(2, 5000));
    let orphans: Vec<InodeNo> =
        (0..3).map(|n| put(&volume, &format!("held{n}"), &pattern(n, 9000))).collect();
    for (n, &ino) in orphans.iter().enumerate() {
        volume.run(|vfs, _| vfs.hold(ino)).unwrap();
        unlink(&volume, &format!("held{n}")).unwrap();
    }
    checkpoint(&volume);
    drop(volume);
    let doctor = Doctor::new(&device);
    doctor.flip(&doctor.record_ptr(orphans[1]));
    let volume = mount(&device);
    assert_eq!(quarantined(&volume), [Thing::Inode(orphans[1])]);
    let used = volume.run(|vfs, _| Ok(vfs.statfs().inodes_used)).unwrap();
    assert_eq!(used, 3, "the root, the intact file, and the damaged orphan");
    assert_in_use(&device, volume, "well", &pattern(2, 5000));
}

#[test]
fn damage_in_the_version_of_a_file_before_a_crash_does_no_harm() {
    for damage_record in [true, false] {
        let (device, ino) = patient();
        let doctor = Doctor::new(&device);
        let (old_record, old_indirect) = (doctor.record_ptr(ino), doctor.roots(ino).indirect[0]);
        let volume = mount(&device);
        volume.write(ino, 20 * 4096, &pattern(9, 4096), false).unwrap();
        volume.sync(Scope::All).unwrap();
        drop(volume);
        let live_bytes = |volume: &Volume<Lfs>| volume.run(|vfs, _| Ok(vfs.store().live_bytes())).unwrap();
        let healthy_bytes = live_bytes(&mount_read_only(&device));
        doctor.flip(if damage_record { &old_record } else { &old_indirect });
        let mut expected = pattern(1, INDIRECT_FILE_BYTES);
        expected[20 * 4096..21 * 4096].copy_from_slice(&pattern(9, 4096));
        assert_eq!(get(&mount_read_only(&device), ino).unwrap(), expected);
        let volume = mount(&device);
        assert_eq!(quarantined(&volume), [Thing::OldBlocks(ino)]);
        // The accounting still counts at most the blocks that died: a record, an indirect block, a data block.
        let kept_bytes = live_bytes(&volume) - healthy_bytes;
        assert!((4096..=3 * 4096).contains(&kept_bytes), "{kept_bytes}");
        assert_eq!(get(&volume, ino).unwrap(), expected);
        unlink(&volume, "ill").unwrap();
        assert_in_use(&device, volume, "well", &pattern(2, 5000));
    }
}

const OLD_FILES: usize = 100;

fn old_content(n: usize) -> Vec<u8> {
    pattern(n as u64, 120_000 + n * 512)
}

/// Old files of which three in four are deleted, so that every segment that holds them is worth cleaning; returns the
/// inodes of all.
fn aged() -> (Arc<MemDevice>, Vec<InodeNo>) {
    let device = new_device();
    let volume = mount(&device);
    let files: Vec<InodeNo> =
        (0..OLD_FILES).map(|n| put(&volume, &format!("old{n}"), &old_content(n))).collect();
    for n in (0..OLD_FILES).filter(|n| n % 4 != 3) {
        unlink(&volume, &format!("old{n}")).unwrap();
    }
    volume.close().unwrap();
    (device, files)
}

/// Fills the volume until it needs the old segments; asserts that the cleaner quarantines at least one of `harmed`, and no
/// others.
fn assert_cleaned_around(device: &Arc<MemDevice>, files: &[InodeNo], ill: usize, harmed: &[SegmentId]) {
    let volume = mount(device);
    let new_content = |n: u64| pattern(1000 + n, 150_000);
    for n in (0..140).map(|n| n % 70) {
        // In the second pass the first ones make room.
        let _is_new = unlink(&volume, &format!("new{n}"));
        put(&volume, &format!("new{n}"), &new_content(n));
        volume.sync(Scope::All).unwrap();
        volume.background().unwrap();
    }
    assert!(volume.run(|vfs, _| Ok(vfs.store().counters().segments_cleaned)).unwrap() > 0);
    let aside = quarantined(&volume);
    let is_harmed = |thing: &Thing| matches!(thing, Thing::Segment(s) if harmed.contains(s));
    assert!(!aside.is_empty() || harmed.is_empty(), "none of {harmed:?} was met");
    assert!(aside.iter().all(is_harmed), "{aside:?} is more than {harmed:?}");
    assert_eq!(read_only(&volume), None);
    for n in (3..OLD_FILES).step_by(4).filter(|&n| n != ill) {
        assert_eq!(get(&volume, files[n]).unwrap(), old_content(n), "old{n}");
    }
    volume.close().unwrap();
    drop(volume);
    let volume = mount(device);
    assert_eq!(get(&volume, find(&volume, "new69").unwrap()).unwrap(), new_content(69));
    volume.close().unwrap();
}

/// Segments with blocks of a file below its indirect block, and segments with the damaged blocks.
fn segments_below(doctor: &Doctor, volume: &Volume<Lfs>, ino: InodeNo, from: u64) -> Vec<SegmentId> {
    let blocks = volume.run(|vfs, _| vfs.store_mut().inode_blocks(ino)).unwrap();
    let below = blocks.iter().filter(|b| b.key.level > 0 || b.key.index.0 >= from);
    let record = (from == 0).then(|| doctor.record_ptr(ino));
    let mut found: Vec<SegmentId> =
        below.map(|b| b.ptr).chain(record).map(|ptr| doctor.geo.segment_of(ptr.addr)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn on_a_healthy_volume_the_cleaner_quarantines_nothing() {
    let (device, files) = aged();
    assert_cleaned_around(&device, &files, OLD_FILES, &[]);
}

/// Overwriting large files empties segments while others are still being written to the device: if the cleaner read those
/// from the device, they would seem to have lost the blocks that the usage table counts in them.
#[test]
fn segments_that_are_still_being_written_are_not_taken_for_damaged() {
    let device = new_device();
    let volume = mount(&device);
    for n in 0..60 {
        put(&volume, &format!("old{n}"), &old_content(n));
    }
    for n in (0..60).step_by(2) {
        unlink(&volume, &format!("old{n}")).unwrap();
    }
    for round in 0..40 {
        for n in 0..4 {
            let name = format!("new{n}");
            let ino = find(&volume, &name).or_else(|_| create(&volume, &name)).unwrap();
            volume.write_all(ino, 0, &pattern(round * 4 + n, 300_000), false).unwrap();
        }
        volume.sync(Scope::All).unwrap();
        volume.background().unwrap();
    }
    assert!(volume.run(|vfs, _| Ok(vfs.store().counters().segments_cleaned)).unwrap() > 0);
    assert_eq!(quarantined(&volume), []);
    volume.close().unwrap();
}

#[test]
fn the_cleaner_works_around_a_damaged_record() {
    let (device, files) = aged();
    let doctor = Doctor::new(&device);
    let harmed = segments_below(&doctor, &mount_read_only(&device), files[31], 0);
    doctor.flip(&doctor.record_ptr(files[31]));
    assert!(is_corrupt(&get(&mount_read_only(&device), files[31])));
    assert_cleaned_around(&device, &files, 31, &harmed);
}

#[test]
fn the_cleaner_works_around_a_damaged_indirect_block() {
    let (device, files) = aged();
    let doctor = Doctor::new(&device);
    let harmed = segments_below(&doctor, &mount_read_only(&device), files[31], 12);
    doctor.flip(&doctor.roots(files[31]).indirect[0]);
    assert_cleaned_around(&device, &files, 31, &harmed);
}

#[test]
fn the_cleaner_works_around_a_damaged_summary() {
    let (device, files) = aged();
    let doctor = Doctor::new(&device);
    let block = doctor.roots(files[31]).direct[5];
    let segment = doctor.geo.segment_of(block.addr);
    doctor.flip(&BlockPtr { addr: doctor.geo.addr(segment, 0), len_sectors: 1, ..block });
    // The blocks are intact: only the cleaner reads the summary.
    assert_cleaned_around(&device, &files, OLD_FILES, &[segment]);
}

#[test]
fn a_damaged_usage_table_makes_the_volume_read_only_once_it_has_to_be_written() {
    let (device, _) = patient();
    let doctor = Doctor::new(&device);
    let volume = mount(&device);
    doctor.flip(&doctor.checkpoint().usage.ptr);
    put(&volume, "new", b"accepted");
    let closed = volume.close();
    assert!(is_corrupt(&closed), "{closed:?}");
    assert!(read_only(&volume).unwrap().contains("segment usage table"));
    // Without the table no clean segment is known, so no change could be made durable: callers get an error.
    assert!(matches!(volume.sync(Scope::All), Err(FsError::ReadOnly(_))));
    assert_eq!(get(&volume, find(&volume, "well").unwrap()).unwrap(), pattern(2, 5000));
}
