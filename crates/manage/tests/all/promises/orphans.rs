//! The next mount finds the orphans of a crash in the inode map, without examining each inode, and frees them.

use crate::promises::support::{KIB, MIB, Mounted, make_volume};
use firnfs::lfs::Options;
use firnfs::store::Store;
use firnfs_device::{Device, MemDevice};
use firnfs_format::InodeNo;
use std::sync::Arc;

const ORPHANS: u64 = 3_000;

#[test]
fn orphans_are_found_by_reading_the_inode_map_and_freed_by_a_mount() {
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(64 * MIB));
    make_volume(&*device, 256 * KIB);
    let mounted = Mounted::new(device.clone(), Options::default());
    for n in 0..ORPHANS {
        let name = format!("f{n}");
        let ino = mounted.create(InodeNo::ROOT, &name);
        mounted.volume.run(|vfs, _| vfs.hold(ino)).unwrap();
        mounted.unlink(InodeNo::ROOT, &name);
    }
    mounted.volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
    mounted.sync();
    drop(mounted);

    let read_only = Mounted::new(device.clone(), Options { read_only: true, ..Options::default() });
    let mut calls = 0;
    let found = read_only.volume.run(|vfs, _| {
        calls += 1;
        vfs.store_mut().orphans()
    });
    assert_eq!(found.unwrap().len() as u64, ORPHANS);
    // One more call for each block of the inode map, which has more than a hundred entries; not one for each orphan.
    assert!(calls <= 3 + ORPHANS / 100, "{calls} calls");
    drop(read_only);

    let mounted = Mounted::new(device, Options::default());
    assert_eq!(mounted.space().inodes_used, 1);
    assert!(mounted.volume.run(|vfs, _| vfs.store_mut().orphans()).unwrap().is_empty());
}
