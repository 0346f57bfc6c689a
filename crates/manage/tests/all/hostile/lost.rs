//! The log is damaged in a durable part: the mount reports that, and never takes it for the end of the log.

use super::doctor::Doctor;
use super::support::{find, get, mount, new_device, pattern, put, read_only, try_mount};
use firnfs::FsError;
use firnfs::lfs::{Lfs, Options};
use firnfs::store::Scope;
use firnfs_device::MemDevice;
use firnfs_format::SegmentId;
use firnfs_volume::Volume;
use std::sync::Arc;

const FILES: u64 = 6;

/// A crash after several files were made durable one by one, each by a partial segment of its own.
fn crashed(file_bytes: usize) -> Arc<MemDevice> {
    let device = new_device();
    mount(&device).close().unwrap();
    let volume = mount(&device);
    for n in 0..FILES {
        put(&volume, &format!("file{n}"), &pattern(n, file_bytes));
        volume.sync(Scope::All).unwrap();
    }
    device
}

/// Asserts that the volume is read-only, reports where the log is damaged, and shows the state before that place.
fn assert_reported(device: &Arc<MemDevice>, segment: SegmentId, survivors: u64, file_bytes: usize) {
    let image = device.image();
    for asked_read_only in [false, true] {
        let options = Options { read_only: asked_read_only, ..Options::default() };
        let volume: Volume<Lfs> = try_mount(device, options).unwrap();
        let lost = volume.run(|vfs, _| Ok(vfs.store().recovered().lost)).unwrap().expect("lost log");
        assert_eq!(lost.segment, segment);
        let why = read_only(&volume).expect("read-only");
        assert!(asked_read_only || why.contains(&format!("log at segment {segment} sector")), "{why}");
        for n in 0..survivors {
            let ino = find(&volume, &format!("file{n}")).unwrap();
            assert_eq!(get(&volume, ino).unwrap(), pattern(n, file_bytes));
        }
        assert_eq!(find(&volume, &format!("file{survivors}")), Err(FsError::NotFound));
        volume.close().unwrap();
    }
    // The mount has overwritten nothing that a check may still find.
    for at_bytes in (0..image.size_bytes()).step_by(1 << 20) {
        let (mut before, mut after) = (vec![0; 1 << 20], vec![0; 1 << 20]);
        image.read(at_bytes, &mut before);
        device.image().read(at_bytes, &mut after);
        assert!(before == after, "byte {at_bytes} and up");
    }
}

#[test]
fn a_damaged_summary_before_a_later_durable_one_is_reported() {
    for file_bytes in [3_000, 100_000, 300_000] {
        for damaged in 0..FILES - 1 {
            let device = crashed(file_bytes);
            let doctor = Doctor::new(&device);
            let batches = doctor.tail_batches();
            assert_eq!(batches.len() as u64, FILES);
            let segment = doctor.flip_summary(batches[damaged as usize]);
            assert_reported(&device, segment, damaged, file_bytes);
        }
    }
}

#[test]
fn a_damaged_block_in_a_durable_part_of_the_log_is_reported() {
    let device = crashed(3_000);
    let segment = Doctor::new(&device).flip_block_of(2);
    assert_reported(&device, segment, 2, 3_000);
}

#[test]
fn a_last_partial_segment_that_is_torn_is_the_end_of_the_log() {
    let device = crashed(3_000);
    let doctor = Doctor::new(&device);
    doctor.flip_summary(doctor.tail_len() - 1);
    let volume = mount(&device);
    assert_eq!(read_only(&volume), None);
    assert!(find(&volume, &format!("file{}", FILES - 2)).is_ok());
    volume.close().unwrap();
}

#[test]
fn a_summary_of_another_mount_proves_nothing() {
    let device = crashed(3_000);
    let doctor = Doctor::new(&device);
    let batches = doctor.tail_batches();
    doctor.edit_last_summary(|summary, _| summary.incarnation.0 += 1);
    doctor.flip_summary(batches[FILES as usize - 2]);
    let volume = mount(&device);
    assert_eq!(read_only(&volume), None);
    volume.close().unwrap();
}

#[test]
fn partial_segments_that_a_crashed_mount_left_after_the_end_do_not_count_against_a_later_mount() {
    let device = crashed(3_000);
    let doctor = Doctor::new(&device);
    doctor.flip_summary(doctor.tail_len() - 1);
    // The next mount continues where the log ended, and crashes as well, again and again.
    for round in 0..5 {
        let volume = mount(&device);
        assert_eq!(read_only(&volume), None, "round {round}");
        put(&volume, &format!("round{round}"), b"short");
        volume.sync(Scope::All).unwrap();
        put(&volume, &format!("lost{round}"), &pattern(round, 30_000));
        volume.background().unwrap();
    }
    mount(&device).close().unwrap();
}
