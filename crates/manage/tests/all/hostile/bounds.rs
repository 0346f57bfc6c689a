//! Numbers and trees that lead nowhere or are endless: each ends, with an error that names the place.

use super::doctor::{Doctor, field, put_ptr, put_u64};
use super::support::{
    assert_in_use, find, is_corrupt, mkfs_options, mount, mount_read_only, patient, pattern, quarantined,
    try_mount, unlink,
};
use firnfs::FsError;
use firnfs::lfs::{Options, Thing, mkfs};
use firnfs::store::Scope;
use firnfs_device::MemDevice;
use firnfs_format::checkpoint::Checkpoint;
use firnfs_format::table::{Node, TABLE_ENTRY_BYTES};
use firnfs_format::{BlockPtr, InodeNo, SegmentId, Serial};
use firnfs_manage::OpenError;
use std::sync::Arc;

/// As [`patient`], followed by a crash: `ill` and `well` were rewritten, and are in the log's last partial segment.
fn crashed_patient() -> (Arc<MemDevice>, InodeNo) {
    let (device, ino) = patient();
    let volume = mount(&device);
    volume.write(ino, 0, b"changed", false).unwrap();
    volume.sync(Scope::All).unwrap();
    (device, ino)
}

fn assert_open_refused(device: &Arc<MemDevice>, what: &str) {
    for read_only in [false, true] {
        match try_mount(device, Options { read_only, ..Options::default() }).map(drop) {
            Err(OpenError::Fs(e @ FsError::Corrupt { .. })) => {
                assert!(e.to_string().contains(what), "{e}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
}

/// A record whose data fork is a bomb of five levels, in which all pointers of a level lead to the same block:
/// 256^5 blocks.
fn plant_bomb(record: &mut [u8], bomb: &BlockPtr) {
    record[field::DIRECT] = 0;
    record[field::INDIRECT] = 5;
    for slot in 0..5 {
        put_ptr(record, field::POINTERS + slot * 16, if slot == 4 { bomb } else { &BlockPtr::HOLE });
    }
    put_u64(record, field::SIZE, 1 << 50);
}

#[test]
fn a_tree_that_leads_into_itself_is_quarantined_when_its_file_is_deleted() {
    let (device, ino) = patient();
    let mut doctor = Doctor::new(&device);
    let bomb = doctor.bomb(5);
    doctor.edit_record(ino, |record| plant_bomb(record, &bomb));
    let volume = mount(&device);
    let listed = volume.run(|vfs, _| vfs.store_mut().inode_blocks(ino));
    assert!(is_corrupt(&listed), "{:?}", listed.map(|l| l.len()));
    unlink(&volume, "ill").unwrap();
    volume.background().unwrap();
    assert_eq!(quarantined(&volume), [Thing::Inode(ino)]);
    assert_in_use(&device, volume, "well", &pattern(2, 5000));
}

#[test]
fn a_tree_that_leads_into_itself_ends_roll_forward() {
    let (device, ino) = crashed_patient();
    let mut doctor = Doctor::new(&device);
    let bomb = doctor.bomb(5);
    doctor.edit_last_record(ino, |record| plant_bomb(record, &bomb));
    assert_open_refused(&device, &format!("block tree of inode {ino}"));
}

#[test]
fn roll_forward_refuses_records_with_pointers_outside_the_volume() {
    let (device, ino) = crashed_patient();
    let doctor = Doctor::new(&device);
    doctor.edit_last_record(ino, |record| put_ptr(record, field::POINTERS + 16, &BlockPtr::PENDING));
    assert_open_refused(&device, &format!("inode {ino}"));
}

#[test]
fn summaries_with_impossible_numbers_are_refused_with_their_place() {
    let (device, _) = crashed_patient();
    let image = device.image();
    let segments = Doctor::new(&device).geo.segments;
    Doctor::new(&device).edit_last_summary(|summary, _| summary.next_segment = SegmentId(segments));
    assert_open_refused(&device, "next segment in a summary at segment");
    for ino in [0, 1 << 48, u64::MAX] {
        let device = Arc::new(MemDevice::from_image(image.clone()));
        Doctor::new(&device).edit_last_summary(|_, entries| {
            entries.iter_mut().for_each(|entry| entry.ino = InodeNo(ino));
        });
        assert_open_refused(&device, "inode number in a summary at segment");
    }
}

#[test]
fn checkpoints_with_impossible_numbers_are_refused() {
    let (device, _) = patient();
    let image = device.image();
    type Change = fn(&mut Checkpoint);
    let changes: [(&str, Change); 8] = [
        ("a log inside a write unit", |c| c.tails[0].as_mut().unwrap().sector = 3),
        ("two logs in one segment", |c| c.tails[1] = c.tails[0]),
        ("a serial at its end", |c| c.serial = Serial(u64::MAX)),
        ("more orphans than inodes", |c| c.imap.special = c.imap.used + 1),
        ("more inodes than sectors", |c| (c.imap.used, c.next_ino) = (1 << 40, InodeNo(1 << 41))),
        ("inodes without a map", |c| c.imap.ptr = BlockPtr::HOLE),
        ("a map higher than numbers go", |c| c.imap.height = 8),
        ("a volume of all bytes that there are", |c| c.size_bytes = u64::MAX),
    ];
    for (what, change) in changes {
        let device = Arc::new(MemDevice::from_image(image.clone()));
        Doctor::new(&device).edit_checkpoint(change);
        let opened = try_mount(&device, Options::default()).map(drop);
        assert!(matches!(opened, Err(OpenError::Fs(FsError::Corrupt { .. }))), "{what}: {opened:?}");
    }
}

/// An inode map of that height, whose sums claim orphans, over a leaf that has none.
fn map_of_lies(device: &Arc<MemDevice>, height: u32) {
    let mut doctor = Doctor::new(device);
    let leaf = doctor.checkpoint().imap.ptr;
    let mut ptr = leaf;
    for _ in 0..height {
        let node = Node { ptr, used: 64, special: 64 };
        let block: Vec<u8> = node.encode().repeat(4096 / TABLE_ENTRY_BYTES);
        ptr = doctor.make_up(&block);
    }
    doctor.edit_checkpoint(|c| {
        (c.imap.ptr, c.imap.height, c.next_ino) = (ptr, height, InodeNo((1 << 40) - 1));
        (c.imap.used, c.imap.special) = (40_000, 40_000);
    });
}

#[test]
fn a_search_for_orphans_that_the_sums_count_but_the_map_lacks_ends() {
    for height in [1, 6] {
        let (device, _) = patient();
        map_of_lies(&device, height);
        let volume = mount(&device);
        assert_eq!(quarantined(&volume), [Thing::InodeMap]);
        assert!(find(&volume, "well").is_ok());
    }
}

#[test]
fn sums_over_a_hole_in_the_map_are_refused() {
    let (device, _) = patient();
    let mut doctor = Doctor::new(&device);
    let leaf = doctor.checkpoint().imap;
    let mut nodes = Node { ptr: leaf.ptr, used: leaf.used, special: 0 }.encode().to_vec();
    nodes.extend(Node { ptr: BlockPtr::HOLE, used: 9, special: 9 }.encode());
    let root = doctor.make_up(&nodes);
    doctor.edit_checkpoint(|c| {
        (c.imap.ptr, c.imap.height, c.next_ino, c.imap.special) = (root, 1, InodeNo((1 << 40) - 1), 9);
        c.imap.used += 9;
    });
    let volume = mount(&device);
    assert_eq!(quarantined(&volume), [Thing::InodeMap]);
    assert!(is_corrupt(&find(&volume, "well")));
}

#[test]
fn a_point_with_an_impossible_inode_map_makes_its_checkpoint_invalid() {
    let (device, _) = patient();
    let volume = mount(&device);
    volume.run(|vfs, now| vfs.store_mut().make_point(now, "kept")).unwrap();
    volume.close().unwrap();
    mount_read_only(&device);
    for height in [9, 1 << 16, u32::MAX] {
        let doctor = Doctor::new(&device);
        doctor.edit_checkpoint(|c| c.points[0].imap.height = height);
        let refused = try_mount(&device, Options { read_only: true, ..Options::default() }).map(drop);
        assert!(matches!(refused, Err(OpenError::Fs(FsError::Corrupt { .. }))), "{height}: {refused:?}");
    }
}

#[test]
fn mkfs_refuses_a_physical_block_that_is_no_power_of_two() {
    for physical_block_bytes in [0, 4095, 12_288, 131_072] {
        let options = firnfs::lfs::MkfsOptions { physical_block_bytes, ..mkfs_options(64 << 20) };
        assert!(matches!(mkfs(&options), Err(FsError::Invalid(_))), "{physical_block_bytes}");
    }
    assert!(mkfs(&firnfs::lfs::MkfsOptions { physical_block_bytes: 512, ..mkfs_options(64 << 20) }).is_ok());
}

#[test]
fn unknown_incompatible_features_are_refused_and_known_ones_are_set_by_a_writing_mount() {
    let (device, _) = patient();
    let incompat_at = 200;
    // The state of a volume from before the first such feature: a read-write mount declares that it may use it from
    // now on.
    Doctor::new(&device).edit_checkpoint_bytes(|slot| slot[incompat_at] = 0);
    mount_read_only(&device);
    let feature = || Doctor::new(&device).checkpoint_bytes()[incompat_at];
    assert_eq!(feature(), 0);
    mount(&device).close().unwrap();
    assert_eq!(feature(), 1);
    Doctor::new(&device).edit_checkpoint_bytes(|slot| slot[incompat_at] |= 16);
    let refused = try_mount(&device, Options { read_only: true, ..Options::default() }).map(drop);
    // The other slot is intact and has no such feature, but the log after it may.
    assert!(matches!(refused, Err(OpenError::Fs(FsError::Unsupported(_)))), "{refused:?}");
}

#[test]
fn a_checkpoint_that_names_points_which_are_nowhere_is_only_read() {
    let (device, _) = patient();
    Doctor::new(&device).edit_checkpoint_bytes(|slot| {
        slot[200] |= 2 | 8;
        slot[268] = 3;
    });
    let volume = mount(&device);
    let well = find(&volume, "well").unwrap();
    let refused = volume.write_all(well, 0, b"new", false);
    assert!(
        matches!(&refused, Err(FsError::ReadOnly(why)) if why.contains("retained points")),
        "{refused:?}"
    );
}

#[test]
fn unknown_features_that_allow_only_reading_prevent_writing_and_stay_set() {
    let (device, _) = patient();
    let image = device.image();
    let (compat_at, ro_compat_at) = (184, 192);
    Doctor::new(&device).edit_checkpoint_bytes(|slot| slot[ro_compat_at] = 4);
    match try_mount(&device, Options::default()).map(drop) {
        Err(OpenError::Fs(e @ FsError::ReadOnly(_))) => assert!(e.to_string().contains("read-only"), "{e}"),
        other => panic!("{other:?}"),
    }
    let volume = mount_read_only(&device);
    assert!(find(&volume, "well").is_ok());
    let device = Arc::new(MemDevice::from_image(image));
    Doctor::new(&device).edit_checkpoint_bytes(|slot| slot[compat_at] = 4);
    mount(&device).close().unwrap();
    assert_eq!(Doctor::new(&device).checkpoint().features.compat, 4);
}
