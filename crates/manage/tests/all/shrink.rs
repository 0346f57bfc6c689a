//! Volumes that become smaller while they are in use.

use crate::common::{mkfs_options, mount, pattern, try_create};
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options, ShrinkPhase};
use firnfs::store::Scope;
use firnfs_device::{AlignedBuf, Device, FileDevice, FileOptions, MemDevice, SparseImage};
use firnfs_format::InodeNo;
use firnfs_format::superblock::{CHECKPOINT_SLOTS_AT, Superblock};
use firnfs_manage::{LogVolume, ShrinkEnd, check, format};
use firnfs_volume::Volume;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

fn device_of(size_bytes: u64) -> Arc<dyn Device> {
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(size_bytes));
    format(&*device, &mkfs_options(size_bytes, 0)).unwrap();
    device
}

/// Writes a file of a mebibyte.
fn write(volume: &Volume<Lfs>, n: u64) -> Result<(u64, InodeNo), FsError> {
    let ino = try_create(volume, InodeNo::ROOT, &format!("file {n}"), Kind::Regular)?;
    volume.write_all(ino, 0, &pattern(n, MIB as usize), false)?;
    Ok((n, ino))
}

/// Writes files of a mebibyte until the volume is full; returns them.
fn fill(volume: &Volume<Lfs>, from: u64) -> Vec<(u64, InodeNo)> {
    let written = (from..).map_while(|n| match write(volume, n) {
        Ok(file) => Some(file),
        Err(FsError::NoSpace) => None,
        Err(e) => panic!("{e}"),
    });
    written.collect()
}

fn delete(volume: &Volume<Lfs>, n: u64) {
    let name = format!("file {n}");
    volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, name.as_bytes())).unwrap();
}

/// A full volume on which only every fifth file is left: live blocks lie everywhere.
fn scattered(volume: &Volume<Lfs>) -> Vec<(u64, InodeNo)> {
    let files = fill(volume, 0);
    let (kept, gone): (Vec<_>, Vec<_>) = files.into_iter().partition(|(n, _)| n % 5 == 0);
    gone.iter().for_each(|(n, _)| delete(volume, *n));
    volume.sync(Scope::All).unwrap();
    volume.background().unwrap();
    kept
}

fn assert_content(volume: &Volume<Lfs>, files: &[(u64, InodeNo)]) {
    for (n, ino) in files {
        let mut bytes = vec![0; MIB as usize];
        assert_eq!(volume.read(*ino, 0, &mut bytes).unwrap(), bytes.len());
        assert!(bytes == pattern(*n, bytes.len()), "file {n}");
    }
}

fn assert_clean(device: &Arc<dyn Device>) {
    let report = check(&**device, firnfs::check::From::Newest, &mut |_| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

fn size_of(volume: &Volume<Lfs>) -> u64 {
    volume.run(|vfs, _| Ok(vfs.store().size().0)).unwrap()
}

fn least_of(volume: &Volume<Lfs>) -> u64 {
    volume.run(|vfs, _| Ok(vfs.store().least_size_bytes())).unwrap()
}

/// An image of the device as it is now.
fn copy_of(device: &Arc<dyn Device>) -> Arc<dyn Device> {
    let size_bytes = device.geometry().size_bytes;
    let mut image = SparseImage::new(size_bytes);
    for at_bytes in (0..size_bytes).step_by(1 << 20) {
        let len_bytes = (size_bytes - at_bytes).min(1 << 20) as u32;
        image.write(at_bytes, &device.read(at_bytes, len_bytes).unwrap());
    }
    Arc::new(MemDevice::from_image(image))
}

#[test]
fn a_volume_shrinks_to_its_least_size_and_grows_again() {
    let device = device_of(96 * MIB);
    // Little memory: pointers are read from the device again.
    let options = Options { cache_bytes: MIB, cache_file_data: false, ..Options::default() };
    let (volume, _) = mount(&device, options);
    let mut files = scattered(&volume);
    let least_bytes = least_of(&volume);
    assert!((20 * MIB..48 * MIB).contains(&least_bytes), "{least_bytes}");
    assert!(matches!(volume.shrink(least_bytes - MIB, &mut |_| true), Err(FsError::NoSpace)));

    let mut seen = Vec::new();
    let end = volume.shrink(least_bytes, &mut |so_far| {
        seen.push(so_far);
        true
    });
    let ShrinkEnd::Done(change) = end.unwrap() else { panic!("nobody stopped it") };
    assert_eq!((change.was_bytes, change.size_bytes), (96 * MIB, least_bytes));
    assert!(seen.iter().all(|so_far| so_far.left_bytes <= so_far.total_bytes), "{seen:?}");
    assert!(seen[0].total_bytes > MIB && seen.last().unwrap().left_bytes == 0, "{seen:?}");
    assert_eq!(device.geometry().size_bytes, least_bytes, "the device has lost its end");
    assert_content(&volume, &files);
    assert!(fill(&volume, 1000).is_empty(), "it is full");
    volume.close().unwrap();
    drop(volume);

    assert_clean(&device);
    for at_bytes in Superblock::places(least_bytes) {
        let copy = Superblock::decode(&device.read(at_bytes, 4096).unwrap()).unwrap();
        assert_eq!(copy.size_bytes, least_bytes, "the copy at {at_bytes}");
    }
    let (volume, _) = mount(&device, options);
    assert_eq!(size_of(&volume), least_bytes);
    assert_content(&volume, &files);
    volume.grow(96 * MIB).unwrap();
    files.extend(fill(&volume, 2000));
    assert!(files.len() > 60, "{} files", files.len());
    assert_content(&volume, &files);
    volume.close().unwrap();
    assert_clean(&device);
}

#[test]
fn users_who_write_as_much_as_they_can_do_not_keep_a_volume_from_shrinking() {
    let device = device_of(96 * MIB);
    let (volume, _) = mount(&device, Options::default());
    let mut files = scattered(&volume);
    let size_bytes = 64 * MIB;
    let mut next = 1000;
    let end = volume.shrink(size_bytes, &mut |_| {
        match write(&volume, next) {
            Ok(file) => files.push(file),
            Err(FsError::NoSpace) => {}
            Err(e) => panic!("{e}"),
        }
        next += 1;
        true
    });
    assert!(matches!(end.unwrap(), ShrinkEnd::Done(change) if change.size_bytes == size_bytes));
    files.extend(fill(&volume, 5000).into_iter().filter(|(n, _)| *n >= 5000));
    assert_content(&volume, &files);
    volume.close().unwrap();
    assert_clean(&device);
}

#[test]
fn wherever_it_is_stopped_the_volume_has_its_old_size_and_all_of_it_is_usable() {
    for steps in 0.. {
        let device = device_of(64 * MIB);
        let (volume, _) = mount(&device, Options::default());
        let room_bytes = || volume.run(|vfs, _| Ok(vfs.statfs().total_bytes)).unwrap();
        let before_bytes = room_bytes();
        let mut files = scattered(&volume);
        let (mut left, mut last) = (steps, ShrinkPhase::Emptying);
        let end = volume.shrink(40 * MIB, &mut |so_far| {
            assert_ne!(so_far.phase, ShrinkPhase::Left);
            assert!(room_bytes() < before_bytes, "no more room for users than it will have");
            (left, last) = (left - 1, so_far.phase);
            left >= 0
        });
        if last != ShrinkPhase::Emptying {
            assert!(matches!(end, Ok(ShrinkEnd::Done(_))), "{steps}: too late");
            break;
        }
        assert_eq!(end.unwrap(), ShrinkEnd::Stopped, "{steps}");
        assert_eq!((size_of(&volume), device.geometry().size_bytes), (64 * MIB, 64 * MIB));
        assert_eq!(room_bytes(), before_bytes);
        files.extend(fill(&volume, 1000));
        assert!(files.len() > 40, "{} files", files.len());
        assert_content(&volume, &files);
        volume.close().unwrap();
        assert_clean(&device);
    }
}

#[test]
fn after_a_crash_between_any_two_steps_everything_is_found_from_either_checkpoint_slot() {
    let device = device_of(48 * MIB);
    let (volume, _) = mount(&device, Options::default());
    let mut files = scattered(&volume);
    let mut sizes = Vec::new();
    volume.run(|vfs, _| vfs.store_mut().begin_shrinking(32 * MIB)).unwrap();
    for n in 0.. {
        let phase = volume.shrink_part().unwrap().phase;
        // Synced beyond any checkpoint.
        if n % 3 == 0 {
            files.push(write(&volume, 1000 + n).unwrap());
        }
        volume.sync(Scope::All).unwrap();
        for lost in [None, Some(CHECKPOINT_SLOTS_AT[0]), Some(CHECKPOINT_SLOTS_AT[1])] {
            let copy = copy_of(&device);
            if let Some(at_bytes) = lost {
                copy.write(at_bytes, Arc::new(AlignedBuf::zeroed(64 << 10))).unwrap();
            }
            let (after, _) = mount(&copy, Options::default());
            sizes.push(size_of(&after));
            assert_content(&after, &files);
            // A crash may have come before the superblock was written: the same command completes it.
            if size_of(&after) == 32 * MIB {
                after.shrink(32 * MIB, &mut |_| true).unwrap();
                assert_eq!(copy.geometry().size_bytes, 32 * MIB);
            }
            after.close().unwrap();
            assert_clean(&copy);
        }
        if phase == ShrinkPhase::Left {
            break;
        }
    }
    assert!(sizes.contains(&(48 * MIB)) && sizes.ends_with(&[32 * MIB; 3]), "{sizes:?}");
    volume.leave_end().unwrap();
    assert_content(&volume, &files);
    volume.close().unwrap();
    assert_clean(&device);
}

#[test]
fn damage_that_cannot_move_ends_it_with_the_place() {
    let device = device_of(64 * MIB);
    let (volume, _) = mount(&device, Options::default());
    let files = scattered(&volume);
    volume.close().unwrap();
    drop(volume);
    // One block of the last file that lies beyond the new end.
    let (volume, _) = mount(&device, Options::default());
    let geo = volume.run(|vfs, _| Ok(vfs.store().geometry())).unwrap();
    let beyond = geo.segments / 2;
    let block = files.iter().rev().find_map(|(_, ino)| {
        let blocks = volume.run(|vfs, _| vfs.store_mut().inode_blocks(*ino)).unwrap();
        blocks
            .iter()
            .map(|placed| placed.ptr)
            .find(|ptr| ptr.is_stored() && geo.segment_of(ptr.addr).0 > beyond)
    });
    let at_bytes = geo.device_bytes(block.unwrap().addr);
    device.write(at_bytes, Arc::new(AlignedBuf::zeroed(4096))).unwrap();
    let why = volume.shrink(32 * MIB, &mut |_| true).unwrap_err().to_string();
    assert!(why.contains("cannot be emptied"), "{why}");
    assert_eq!(size_of(&volume), 64 * MIB);
    assert!(!volume.run(|vfs, _| Ok(vfs.store().is_shrinking())).unwrap());
    write(&volume, 1000).unwrap();
    volume.close().unwrap();
}

#[test]
fn sizes_that_are_not_smaller_are_refused_and_change_nothing() {
    let device = device_of(48 * MIB);
    let (volume, _) = mount(&device, Options::default());
    for size_bytes in [48 * MIB - 512, 48 * MIB + 512, 64 * MIB] {
        assert!(matches!(volume.shrink(size_bytes, &mut |_| true), Err(FsError::Invalid(_))), "{size_bytes}");
    }
    assert!(matches!(volume.shrink(0, &mut |_| true), Err(FsError::NoSpace)));
    volume.run(|vfs, _| vfs.store_mut().begin_shrinking(32 * MIB)).unwrap();
    assert!(matches!(volume.grow(64 * MIB), Err(FsError::Invalid(_))), "one change at a time");
    assert!(matches!(volume.shrink(24 * MIB, &mut |_| true), Err(FsError::Invalid(_))));
    volume.close().unwrap();
    assert_clean(&device);
    assert_eq!(size_of(&mount(&device, Options::default()).0), 48 * MIB);
}

#[test]
fn an_image_file_becomes_shorter() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let file = FileDevice::create(&path, 96 * MIB, &FileOptions::default()).unwrap();
    let device: Arc<dyn Device> = Arc::new(file);
    format(&*device, &mkfs_options(96 * MIB, 0)).unwrap();
    let (volume, _) = mount(&device, Options::default());
    let files = scattered(&volume);
    volume.shrink(48 * MIB, &mut |_| true).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 48 * MIB);
    assert_content(&volume, &files);
    volume.close().unwrap();
    drop((volume, device));
    let device: Arc<dyn Device> = Arc::new(FileDevice::open(&path, &FileOptions::default()).unwrap());
    assert_content(&mount(&device, Options::default()).0, &files);
    assert_clean(&device);
}
