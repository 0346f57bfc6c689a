//! Wrong accounting on the device: the volume turns read-only and reports which number is wrong; it neither
//! wraps around nor panics.

use super::doctor::{Doctor, field, put_u64};
use super::support::{
    INDIRECT_FILE_BYTES, find, get, mount, new_device, pattern, put, read_only, try_mount, unlink,
};
use firnfs::FsError;
use firnfs::lfs::{Lfs, Options};
use firnfs_device::MemDevice;
use firnfs_format::{InodeNo, SegmentId};
use firnfs_volume::Volume;
use std::sync::Arc;

fn patient() -> (Arc<MemDevice>, InodeNo) {
    let device = new_device();
    let volume = mount(&device);
    let ino = put(&volume, "big", &pattern(1, INDIRECT_FILE_BYTES));
    put(&volume, "small", &pattern(2, 5000));
    volume.close().unwrap();
    (device, ino)
}

/// Deleting the file reveals the wrong number.
fn assert_detected(device: &Arc<MemDevice>, what: &str) -> Volume<Lfs> {
    let volume = mount(device);
    unlink(&volume, "big").unwrap();
    volume.background().unwrap();
    let closed = volume.close();
    assert!(matches!(closed, Ok(()) | Err(FsError::ReadOnly(_))), "{closed:?}");
    let why = read_only(&volume).expect("read-only");
    assert!(why.contains(what) && why.contains("corrupt"), "{why}");
    let small = find(&volume, "small").unwrap();
    assert_eq!(get(&volume, small).unwrap(), pattern(2, 5000));
    assert!(matches!(unlink(&volume, "small"), Err(FsError::ReadOnly(_))));
    volume
}

#[test]
fn a_usage_entry_with_too_few_live_bytes_is_detected() {
    let (device, ino) = patient();
    let doctor = Doctor::new(&device);
    let segment = doctor.geo.segment_of(doctor.roots(ino).direct[0].addr);
    doctor.edit_usage_entry(segment, |entry| entry.live_bytes = 512);
    assert_detected(&device, &format!("live bytes of segment {segment}"));
    // Nothing was built on the wrong number: the volume opens as before.
    let volume = mount(&device);
    assert_eq!(get(&volume, find(&volume, "small").unwrap()).unwrap(), pattern(2, 5000));
}

#[test]
fn a_usage_table_that_calls_a_full_segment_clean_is_detected() {
    let (device, ino) = patient();
    let doctor = Doctor::new(&device);
    let segment = doctor.geo.segment_of(doctor.roots(ino).direct[0].addr);
    doctor.edit_usage_entry(segment, |entry| *entry = Default::default());
    assert_detected(&device, &format!("live bytes of segment {segment}"));
}

#[test]
fn a_volume_that_states_too_few_live_bytes_is_detected() {
    let (device, _) = patient();
    Doctor::new(&device).edit_checkpoint(|c| c.live_bytes = 0);
    assert_detected(&device, "live bytes of the volume");
}

#[test]
fn a_record_that_states_too_small_a_charge_is_detected() {
    let (device, ino) = patient();
    // Enough for the number of its blocks, so that its tree can be walked.
    Doctor::new(&device).edit_record(ino, |record| put_u64(record, field::CHARGED, 41 * 512));
    assert_detected(&device, &format!("charge of inode {ino}"));
}

#[test]
fn a_record_that_states_too_large_a_charge_is_detected() {
    let (device, ino) = patient();
    Doctor::new(&device).edit_record(ino, |record| put_u64(record, field::CHARGED, 1 << 20));
    assert_detected(&device, &format!("charge of inode {ino}"));
}

#[test]
fn a_charge_beyond_the_volume_and_live_bytes_beyond_the_segment_are_refused() {
    let (device, ino) = patient();
    let image = device.image();
    Doctor::new(&device).edit_record(ino, |record| put_u64(record, field::CHARGED, u64::MAX));
    let volume = mount(&device);
    let read = get(&volume, ino);
    assert!(
        matches!(&read, Err(FsError::Corrupt { expected, .. }) if expected.contains("charged")),
        "{read:?}"
    );
    let device = Arc::new(MemDevice::from_image(image));
    Doctor::new(&device).edit_usage_entry(SegmentId(0), |entry| entry.live_bytes = u32::MAX);
    let volume = mount(&device);
    put(&volume, "more", b"x");
    assert!(volume.close().is_err());
    assert!(read_only(&volume).unwrap().contains("segment usage table"));
}

#[test]
fn counters_at_their_largest_value_do_no_harm() {
    let (device, _) = patient();
    Doctor::new(&device).edit_checkpoint(|c| c.counters = [u64::MAX; 64]);
    let volume = mount(&device);
    unlink(&volume, "big").unwrap();
    volume.close().unwrap();
    assert!(try_mount(&device, Options::default()).is_ok());
}
