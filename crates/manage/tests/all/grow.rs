//! Volumes that become larger while they are in use.

use crate::common::{mkfs_options, mount, pattern, try_create};
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options};
use firnfs::store::Scope;
use firnfs_device::{AlignedBuf, Device, FileDevice, FileOptions, Geometry, MemDevice, SparseImage};
use firnfs_format::InodeNo;
use firnfs_format::superblock::{CHECKPOINT_SLOTS_AT, Superblock};
use firnfs_manage::{LogVolume, check, format};
use firnfs_volume::Volume;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// A volume of `size_bytes` that fills its device; the device can grow to 1 GiB.
fn growing_device(size_bytes: u64) -> Arc<dyn Device> {
    let geometry = Geometry { size_bytes, logical_block_bytes: 512, physical_block_bytes: 4096 };
    let device: Arc<dyn Device> = Arc::new(MemDevice::with_geometry(SparseImage::new(1024 * MIB), geometry));
    format(&*device, &mkfs_options(size_bytes, 0)).unwrap();
    device
}

/// Writes files of a mebibyte until the volume is full; returns them.
fn fill(volume: &Volume<Lfs>, from: u64) -> Vec<(u64, InodeNo)> {
    let mut files = Vec::new();
    for n in from.. {
        let written = try_create(volume, InodeNo::ROOT, &format!("file {n}"), Kind::Regular)
            .and_then(|ino| volume.write_all(ino, 0, &pattern(n, MIB as usize), false).map(|()| ino));
        match written {
            Ok(ino) => files.push((n, ino)),
            Err(FsError::NoSpace) => return files,
            Err(e) => panic!("{e}"),
        }
    }
    files
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

#[test]
fn a_full_volume_that_grows_takes_more_and_keeps_what_it_had() {
    let device = growing_device(24 * MIB);
    // Little memory: pointers to the new segments are read from the device again.
    let options = Options { cache_bytes: MIB, cache_file_data: false, ..Options::default() };
    let (volume, _) = mount(&device, options);
    let mut files = fill(&volume, 0);
    assert!((10..24).contains(&files.len()), "{} files", files.len());

    // The table of segments gets another level on the way.
    let grown = volume.grow(256 * MIB).unwrap();
    assert_eq!((grown.was_bytes, grown.size_bytes), (24 * MIB, 256 * MIB));
    assert_eq!(grown.segments - grown.was_segments, (256 - 24) * 4);
    let more = fill(&volume, 1000);
    assert!((190..256).contains(&more.len()), "{} files more", more.len());
    files.extend(more);
    assert_content(&volume, &files);
    volume.close().unwrap();
    drop(volume);

    assert_clean(&device);
    let (volume, _) = mount(&device, Options::default());
    assert_eq!(volume.run(|vfs, _| Ok(vfs.store().size())).unwrap(), (grown.size_bytes, grown.segments));
    assert_content(&volume, &files);
}

#[test]
fn all_three_superblocks_state_the_new_size() {
    let device = growing_device(24 * MIB);
    let (volume, _) = mount(&device, Options::default());
    volume.grow(64 * MIB).unwrap();
    volume.close().unwrap();
    for at_bytes in Superblock::places(64 * MIB) {
        let copy = Superblock::decode(&device.read(at_bytes, 4096).unwrap()).unwrap();
        assert_eq!(copy.size_bytes, 64 * MIB, "the copy at {at_bytes}");
        assert_eq!(copy.label, "test");
    }
    // The one at the end is found if the others are gone.
    for at_bytes in &Superblock::places(64 * MIB)[..2] {
        device.write(*at_bytes, Arc::new(AlignedBuf::zeroed(4096))).unwrap();
    }
    mount(&device, Options::default()).0.close().unwrap();
}

#[test]
fn a_volume_grows_again_and_again_while_it_is_written() {
    let device = growing_device(24 * MIB);
    let (volume, _) = mount(&device, Options::default());
    let mut files = fill(&volume, 0);
    for round in 1..8 {
        volume.grow((24 + round * 5) * MIB).unwrap();
        files.extend(fill(&volume, round * 1000));
    }
    assert!(files.len() > 40, "{} files", files.len());
    assert_content(&volume, &files);
    volume.close().unwrap();
    assert_clean(&device);
}

#[test]
fn sizes_that_are_not_larger_or_not_there_are_refused_and_change_nothing() {
    let device = growing_device(24 * MIB);
    let (volume, _) = mount(&device, Options::default());
    for size_bytes in [0, 23 * MIB, 24 * MIB, 24 * MIB + 512, 1 << 57, u64::MAX] {
        assert!(matches!(volume.grow(size_bytes), Err(FsError::Invalid(_))), "{size_bytes}");
    }
    assert!(matches!(volume.grow(1025 * MIB), Err(FsError::Io(_))), "larger than the device can be");
    assert_eq!(volume.run(|vfs, _| Ok(vfs.store().size().0)).unwrap(), 24 * MIB);
    volume.close().unwrap();
    assert!(matches!(volume.grow(64 * MIB), Err(FsError::ReadOnly(_))), "closed");
    assert_eq!(device.geometry().size_bytes, 24 * MIB);
    assert_clean(&device);
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

/// After a crash at that moment, from either slot if `slots` is 2, everything is there.
fn assert_survives(device: &Arc<dyn Device>, slots: usize, files: &[(u64, InodeNo)]) {
    let lost = [None, Some(CHECKPOINT_SLOTS_AT[0]), Some(CHECKPOINT_SLOTS_AT[1])];
    for slot in &lost[..if slots == 2 { 3 } else { 1 }] {
        let copy = copy_of(device);
        if let Some(at_bytes) = slot {
            copy.write(*at_bytes, Arc::new(AlignedBuf::zeroed(64 << 10))).unwrap();
        }
        assert_content(&mount(&copy, Options::default()).0, files);
    }
}

#[test]
fn whatever_was_synced_while_a_volume_grows_is_found_from_either_checkpoint_slot() {
    let device = growing_device(24 * MIB);
    // Checkpoints are written only where the test says so.
    let rare = Options { checkpoint_bytes: 1 << 30, checkpoint_interval_ms: 1 << 40, ..Options::default() };
    let (volume, _) = mount(&device, rare);
    let mut files = Vec::new();
    let mut write_some = |from: u64, count: u64| {
        for n in from..from + count {
            let ino = try_create(&volume, InodeNo::ROOT, &format!("file {n}"), Kind::Regular).unwrap();
            volume.write_all(ino, 0, &pattern(n, MIB as usize), false).unwrap();
            volume.sync(Scope::All).unwrap();
            files.push((n, ino));
        }
        files.clone()
    };
    let checkpoint = || {
        volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
        volume.until(|vfs| Ok((!vfs.store().is_checkpointing()).then_some(()))).unwrap();
    };
    let segments = || volume.run(|vfs, _| Ok(vfs.store().size().1)).unwrap();
    let (was, _) = (segments(), write_some(0, 1));
    checkpoint();
    volume.begin_growing(64 * MIB).unwrap();
    // The log would come past the new segments now if it knew of them.
    assert_survives(&device, 2, &write_some(10, 4));
    checkpoint();
    assert_eq!(segments(), was, "one slot does not know of them yet");
    assert_survives(&device, 2, &write_some(20, 4));
    checkpoint();
    assert!(segments() > was);
    assert_survives(&device, 2, &write_some(30, 20));
    volume.close().unwrap();
    assert_clean(&device);
}

#[test]
fn a_frozen_volume_does_not_grow() {
    let device = growing_device(24 * MIB);
    let volume = Arc::new(mount(&device, Options::default()).0);
    let frozen = volume.freeze().unwrap();
    assert!(matches!(volume.grow(64 * MIB), Err(FsError::NotPermitted(_))));
    assert_eq!(device.geometry().size_bytes, 24 * MIB);
    drop(frozen);
    assert_eq!(volume.grow(64 * MIB).unwrap().size_bytes, 64 * MIB);
}

#[test]
fn an_image_file_grows_by_a_hole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let file = FileDevice::create(&path, 24 * MIB, &FileOptions::default()).unwrap();
    let device: Arc<dyn Device> = Arc::new(file);
    format(&*device, &mkfs_options(24 * MIB, 0)).unwrap();
    let (volume, _) = mount(&device, Options::default());
    let mut files = fill(&volume, 0);
    volume.grow(64 * MIB).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 64 * MIB);
    files.extend(fill(&volume, 1000));
    assert!(files.len() > 45, "{} files", files.len());
    volume.close().unwrap();
    drop((volume, device));
    let device: Arc<dyn Device> = Arc::new(FileDevice::open(&path, &FileOptions::default()).unwrap());
    assert_content(&mount(&device, Options::default()).0, &files);
    assert_clean(&device);
}

fn labels(device: &dyn Device, size_bytes: u64) -> [String; 3] {
    Superblock::places(size_bytes).map(|at_bytes| {
        let copy = Superblock::decode(&device.read(at_bytes, 4096).unwrap()).unwrap();
        assert_eq!(copy.size_bytes, size_bytes, "the copy at {at_bytes}");
        copy.label
    })
}

fn label(volume: &Volume<Lfs>) -> String {
    volume.run(|vfs, _| Ok(vfs.store().superblock().label.clone())).unwrap()
}

#[test]
fn a_new_label_is_durable_when_it_is_told_and_an_impossible_one_changes_nothing() {
    let device = growing_device(24 * MIB);
    let (volume, _) = mount(&device, Options::default());
    volume.relabel("größer").unwrap();
    assert_eq!(labels(&*copy_of(&device), 24 * MIB), ["größer"; 3], "a power cut would not lose it");
    for wrong in ["a\0b".to_owned(), "x".repeat(65)] {
        assert!(matches!(volume.relabel(&wrong), Err(FsError::Invalid(_))), "{wrong:?}");
    }
    assert_eq!(label(&volume), "größer");
    volume.relabel("").unwrap();
    assert_eq!(labels(&*device, 24 * MIB), [""; 3]);
    volume.close().unwrap();
    assert!(matches!(volume.relabel("closed"), Err(FsError::ReadOnly(_))));
    assert_clean(&device);
}

#[test]
fn after_a_power_cut_between_its_copies_a_label_is_the_old_or_the_new_one() {
    let device = growing_device(24 * MIB);
    let (volume, _) = mount(&device, Options::default());
    let files = fill(&volume, 0);
    volume.sync(Scope::All).unwrap();
    let copies = volume.run(|vfs, _| Ok(vfs.store().superblock_copies_labelled("new")?)).unwrap();
    let mut seen = Vec::new();
    for written in 0..=copies.len() {
        let copy = copy_of(&device);
        for (at_bytes, bytes) in &copies[..written] {
            copy.write(*at_bytes, Arc::new(AlignedBuf::copy_of(bytes))).unwrap();
        }
        let (volume, _) = mount(&copy, Options::default());
        assert_content(&volume, &files);
        seen.push(label(&volume));
        volume.close().unwrap();
        assert_clean(&copy);
    }
    assert_eq!(seen, ["test", "test", "test", "new"], "the first copy counts, and is written last");
}

#[test]
fn a_label_and_a_size_that_change_at_the_same_time_are_both_right_in_every_copy() {
    let device = growing_device(24 * MIB);
    let volume = Arc::new(mount(&device, Options::default()).0);
    let other = Arc::clone(&volume);
    let relabelling =
        std::thread::spawn(move || (0..200).for_each(|n| other.relabel(&format!("label {n}")).unwrap()));
    let sizes = (1..=20).map(|round| (24 + round) * MIB);
    sizes.clone().for_each(|size_bytes| _ = volume.grow(size_bytes).unwrap());
    relabelling.join().unwrap();
    assert_eq!(labels(&*device, 44 * MIB), ["label 199"; 3]);
    volume.close().unwrap();
    assert_clean(&device);
}
