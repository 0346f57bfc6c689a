//! Pointers that lead outside the volume, have zero length, or have the form that exists only in memory.

use super::doctor::{Doctor, field, put_ptr};
use super::support::{assert_in_use, find, get, is_corrupt, mount, patient, pattern, quarantined, unlink};
use firnfs::lfs::Thing;
use firnfs_device::MemDevice;
use firnfs_format::pointer::PtrKind;
use firnfs_format::{BlockPtr, SectorAddr};
use std::sync::Arc;

/// Impossible pointers, each in place of the pointer to a data block of the volume.
fn impossible(doctor: &Doctor) -> Vec<(&'static str, BlockPtr)> {
    let plain = BlockPtr { len_sectors: 8, kind: PtrKind::Plain, addr: SectorAddr(64), ..BlockPtr::HOLE };
    let volume_sectors = doctor.geo.segments * u64::from(doctor.geo.segment_sectors);
    vec![
        ("beyond the volume", BlockPtr { addr: SectorAddr(volume_sectors), ..plain }),
        ("far beyond the volume", BlockPtr { addr: SectorAddr((1 << 48) - 2), ..plain }),
        ("over the end of a segment", BlockPtr { addr: SectorAddr(512 - 4), ..plain }),
        ("of zero length", BlockPtr { len_sectors: 0, ..plain }),
        ("longer than a block", BlockPtr { len_sectors: 9, ..plain }),
        ("pending", BlockPtr::PENDING),
        (
            "of an unknown kind, without a place",
            BlockPtr { kind: PtrKind::Unknown(5), addr: SectorAddr(1 << 40), ..plain },
        ),
    ]
}

/// Asserts that operations on the ill file fail and that the rest is unharmed, whatever operation runs.
fn assert_refused(device: &Arc<MemDevice>, what: &str) {
    let volume = mount(device);
    let ino = find(&volume, "ill").and_then(|ino| get(&volume, ino).map(|_| ino));
    assert!(is_corrupt(&ino), "{what}: {ino:?}");
    // It may be deleted or stay; neither may harm the volume.
    let _ = unlink(&volume, "ill");
    volume.background().unwrap();
    assert_in_use(device, volume, "well", &pattern(2, 5000));
}

#[test]
fn impossible_pointers_in_a_record_are_refused_with_the_record() {
    let (device, ino) = patient();
    let image = device.image();
    for (what, ptr) in impossible(&Doctor::new(&device)) {
        let device = Arc::new(MemDevice::from_image(image.clone()));
        Doctor::new(&device).edit_record(ino, |record| put_ptr(record, field::POINTERS + 3 * 16, &ptr));
        assert_refused(&device, what);
    }
}

#[test]
fn impossible_pointers_in_an_indirect_block_are_refused_with_the_block() {
    let (device, ino) = patient();
    let image = device.image();
    for (what, ptr) in impossible(&Doctor::new(&device)) {
        let device = Arc::new(MemDevice::from_image(image.clone()));
        Doctor::new(&device).edit_indirect(ino, |block| put_ptr(block, 5 * 16, &ptr));
        assert_refused(&device, what);
    }
}

#[test]
fn only_data_blocks_can_be_reserved() {
    let (device, ino) = patient();
    let record = |record: &mut [u8]| put_ptr(record, field::POINTERS + 12 * 16, &BlockPtr::RESERVED);
    Doctor::new(&device).edit_record(ino, record);
    assert_refused(&device, "a reserved indirect block");
}

#[test]
fn impossible_pointers_in_the_inode_map_are_refused_with_its_leaf() {
    let (device, ino) = patient();
    let image = device.image();
    for (what, ptr) in impossible(&Doctor::new(&device)) {
        // A record may be longer than a block.
        if what == "longer than a block" {
            continue;
        }
        let device = Arc::new(MemDevice::from_image(image.clone()));
        Doctor::new(&device).edit_imap_entry(ino, |entry| entry.ptr = ptr);
        let volume = mount(&device);
        assert!(is_corrupt(&find(&volume, "well")), "{what}");
    }
}

#[test]
fn an_orphan_that_has_no_record_is_refused_with_its_leaf() {
    let (device, ino) = patient();
    let doctor = Doctor::new(&device);
    doctor.edit_imap_entry(ino, |entry| (entry.ptr, entry.orphan) = (BlockPtr::HOLE, true));
    doctor.edit_checkpoint(|c| c.imap.special = 1);
    let volume = mount(&device);
    assert_eq!(quarantined(&volume), [Thing::InodeMap]);
    assert!(is_corrupt(&find(&volume, "well")));
}
