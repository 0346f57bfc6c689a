//! A mount reads a number of device blocks that does not grow with the volume.

use crate::promises::support::{GIB, MIB, Mounted, TIB, make_volume, pattern};
use firnfs::inode::Kind;
use firnfs::lfs::Options;
use firnfs_device::{CountingDevice, Counts, Device, MemDevice};
use firnfs_format::InodeNo;
use std::sync::Arc;

/// The state of the volume before the measured mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Left {
    /// As mkfs made it: a log with one partial segment, which holds the root directory.
    Fresh,
    /// With files, after a clean unmount.
    Clean,
    /// With files below the last checkpoint and a log tail above it.
    Crashed,
}

const FILES_BELOW: u64 = 3_000;
const FILES_ABOVE: u64 = 40;

fn fill(mounted: &Mounted, directory: &str, files: u64) {
    let dir = mounted.try_make(InodeNo::ROOT, directory, Kind::Directory).unwrap();
    for n in 0..files {
        let ino = mounted.create(dir, &format!("f{n}"));
        mounted.write(ino, 0, &pattern(n, 1_000 + (n % 7) as usize * 3_000));
    }
}

/// The reads of opening a volume of that size, and of finding a file right afterwards.
fn mount_reads(size_bytes: u64, left: Left) -> (Counts, Counts) {
    let device = Arc::new(CountingDevice::new(MemDevice::new(size_bytes)));
    make_volume(&*device, MIB);
    if left != Left::Fresh {
        let mounted = Mounted::new(device.clone(), Options::default());
        fill(&mounted, "below", FILES_BELOW);
        mounted.close();
    }
    if left == Left::Crashed {
        let mounted = Mounted::new(device.clone(), Options::default());
        fill(&mounted, "above", FILES_ABOVE);
        mounted.sync();
    }
    let before = device.counts();
    let mounted = Mounted::new(device.clone() as Arc<dyn Device>, Options::default());
    let opened = device.counts();
    let recovered = mounted.volume.run(|vfs, _| Ok(*vfs.store().recovered())).unwrap();
    assert_eq!(recovered.was_clean, left != Left::Crashed, "{left:?}: {recovered:?}");
    if left != Left::Fresh {
        let dir = mounted.find(InodeNo::ROOT, "below").unwrap();
        assert!(mounted.find(dir, "f1234").is_ok());
    }
    (opened.since(&before), device.counts().since(&opened))
}

#[test]
fn a_mount_reads_as_much_of_a_tebibyte_as_of_a_gibibyte() {
    for left in [Left::Fresh, Left::Clean, Left::Crashed] {
        let (small, small_lookup) = mount_reads(GIB, left);
        let (large, large_lookup) = mount_reads(TIB, left);
        assert!(small.reads > 0, "{left:?}: the mount is counted");
        // The usage table of the larger volume is deeper by a level or two; nothing else may differ.
        let block_bytes = 4096;
        assert!(
            large.reads <= small.reads + 4 && large.read_bytes <= small.read_bytes + 4 * block_bytes,
            "{left:?}: {small:?} of 1 GiB, {large:?} of 1 TiB"
        );
        assert!(
            large_lookup.read_bytes <= small_lookup.read_bytes + 4 * block_bytes,
            "{left:?}: a first lookup reads {small_lookup:?} and {large_lookup:?}"
        );
    }
}

#[test]
fn a_clean_mount_reads_as_much_with_many_files_as_with_none() {
    let (none, _) = mount_reads(GIB, Left::Fresh);
    let (many, _) = mount_reads(GIB, Left::Clean);
    assert!(many.reads <= none.reads && many.read_bytes <= none.read_bytes, "{none:?}, then {many:?}");
}
