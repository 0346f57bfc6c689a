//! A flipped bit harms what owned it and nothing else: background work, close and the next mount go on.

use super::doctor::Doctor;
use super::support::{
    INDIRECT_FILE_BYTES, assert_in_use, checkpoint, create, find, get, is_corrupt, mount, mount_read_only,
    new_device, pattern, put, read_only, set_aside, unlink,
};
use firnfs::FsError;
use firnfs::lfs::{Lfs, Thing};
use firnfs::store::Scope;
use firnfs::vfs::SetAttr;
use firnfs_device::MemDevice;
use firnfs_format::InodeNo;
use firnfs_volume::Volume;
use std::sync::Arc;

fn patient() -> (Arc<MemDevice>, InodeNo) {
    let device = new_device();
    let volume = mount(&device);
    let ino = put(&volume, "ill", &pattern(1, INDIRECT_FILE_BYTES));
    put(&volume, "well", &pattern(2, 5000));
    volume.close().unwrap();
    (device, ino)
}

#[test]
fn a_deleted_file_with_a_damaged_indirect_block_stays_an_orphan_and_nothing_else_minds() {
    let (device, ino) = patient();
    let doctor = Doctor::new(&device);
    doctor.flip(&doctor.roots(ino).indirect[0]);
    let volume = mount(&device);
    assert!(is_corrupt(&get(&volume, ino)));
    unlink(&volume, "ill").unwrap();
    volume.background().unwrap();
    assert_eq!(set_aside(&volume), [Thing::Inode(ino)]);
    assert_in_use(&device, volume, "well", &pattern(2, 5000));
    // Its number is not given out again while its blocks are not free.
    let volume = mount(&device);
    assert_ne!(create(&volume, "new").unwrap(), ino);
    volume.background().unwrap();
    assert_eq!(set_aside(&volume), [Thing::Inode(ino)]);
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
    assert_eq!(set_aside(&volume), [Thing::Inode(ino)]);
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
    assert_eq!(set_aside(&volume), [Thing::Inode(orphans[1])]);
    let used = volume.run(|vfs, _| Ok(vfs.statfs().inodes_used)).unwrap();
    assert_eq!(used, 3, "the root, the file that is well, and the damaged orphan");
    assert_in_use(&device, volume, "well", &pattern(2, 5000));
}

#[test]
fn what_a_file_was_before_a_crash_may_be_damaged_if_what_it_is_now_is_not() {
    for damage_record in [true, false] {
        let (device, ino) = patient();
        let doctor = Doctor::new(&device);
        let (old_record, old_indirect) = (doctor.record_ptr(ino), doctor.roots(ino).indirect[0]);
        let volume = mount(&device);
        volume.write(ino, 20 * 4096, &pattern(9, 4096), false).unwrap();
        volume.sync(Scope::All).unwrap();
        drop(volume);
        doctor.flip(if damage_record { &old_record } else { &old_indirect });
        let mut expected = pattern(1, INDIRECT_FILE_BYTES);
        expected[20 * 4096..21 * 4096].copy_from_slice(&pattern(9, 4096));
        assert_eq!(get(&mount_read_only(&device), ino).unwrap(), expected);
        let volume = mount(&device);
        assert_eq!(set_aside(&volume), [Thing::OldBlocks(ino)]);
        assert_eq!(get(&volume, ino).unwrap(), expected);
        unlink(&volume, "ill").unwrap();
        assert_in_use(&device, volume, "well", &pattern(2, 5000));
    }
}

/// Files on a volume small enough for the cleaner to be needed, every second one of which goes.
fn aged() -> (Arc<MemDevice>, Vec<InodeNo>) {
    let device = new_device();
    let volume = mount(&device);
    let files: Vec<InodeNo> = (0..60u64)
        .map(|n| put(&volume, &format!("old{n}"), &pattern(n, 120_000 + n as usize * 512)))
        .collect();
    for n in (0..60).step_by(2) {
        unlink(&volume, &format!("old{n}")).unwrap();
    }
    volume.close().unwrap();
    (device, files)
}

/// Writes more than the volume has clean segments for, so that the cleaner has to work.
fn churn(volume: &Volume<Lfs>) {
    for round in 0..40u64 {
        for n in 0..4u64 {
            let name = format!("new{n}");
            let ino = find(volume, &name).or_else(|_| create(volume, &name)).unwrap();
            volume.write(ino, 0, &pattern(round * 4 + n, 300_000), false).unwrap();
        }
        volume.sync(Scope::All).unwrap();
        volume.background().unwrap();
    }
}

fn assert_cleaned_around(device: &Arc<MemDevice>, files: &[InodeNo], ill: usize) {
    let volume = mount(device);
    churn(&volume);
    assert!(volume.run(|vfs, _| Ok(vfs.store().counters().segments_cleaned)).unwrap() > 0);
    assert!(
        set_aside(&volume).iter().any(|thing| matches!(thing, Thing::Segment(_))),
        "{:?}",
        set_aside(&volume)
    );
    assert_eq!(read_only(&volume), None);
    for n in (1..60).step_by(2).filter(|&n| n != ill) {
        assert_eq!(get(&volume, files[n]).unwrap(), pattern(n as u64, 120_000 + n * 512), "old{n}");
    }
    volume.close().unwrap();
    drop(volume);
    let volume = mount(device);
    assert_eq!(get(&volume, find(&volume, "new3").unwrap()).unwrap(), pattern(39 * 4 + 3, 300_000));
    volume.close().unwrap();
}

#[test]
fn the_cleaner_goes_around_a_damaged_record() {
    let (device, files) = aged();
    let doctor = Doctor::new(&device);
    doctor.flip(&doctor.record_ptr(files[31]));
    assert!(is_corrupt(&get(&mount_read_only(&device), files[31])));
    assert_cleaned_around(&device, &files, 31);
}

#[test]
fn the_cleaner_goes_around_a_damaged_indirect_block() {
    let (device, files) = aged();
    let doctor = Doctor::new(&device);
    doctor.flip(&doctor.roots(files[31]).indirect[0]);
    assert_cleaned_around(&device, &files, 31);
}

#[test]
fn the_cleaner_goes_around_a_damaged_summary() {
    let (device, files) = aged();
    let doctor = Doctor::new(&device);
    let segment = doctor.geo.segment_of(doctor.roots(files[31]).direct[5].addr);
    let start = firnfs_format::BlockPtr {
        addr: doctor.geo.addr(segment, 0),
        len_sectors: 1,
        ..doctor.roots(files[31]).direct[5]
    };
    doctor.flip(&start);
    // The blocks are well: nobody reads the summary but the cleaner.
    assert_cleaned_around(&device, &files, 60);
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
    // No clean segment is known without the table, so nothing could be accepted for good: whoever asks is told.
    assert!(matches!(volume.sync(Scope::All), Err(FsError::ReadOnly(_))));
    assert_eq!(get(&volume, find(&volume, "well").unwrap()).unwrap(), pattern(2, 5000));
}
