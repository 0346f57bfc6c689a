//! Guarantees of POSIX that programs rely on in special cases.

use crate::promises::support::{GIB, KIB, MIB, Mounted, make_volume, mkfs_options, pattern};
use firnfs::FsError;
use firnfs::lfs::Options;
use firnfs::store::Scope;
use firnfs::vfs::{Allocate, SetAttr};
use firnfs_device::{Device, MemDevice};
use firnfs_format::InodeNo;
use std::sync::Arc;

fn device(size_bytes: u64) -> Arc<dyn Device> {
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(size_bytes));
    make_volume(&*device, 256 * KIB);
    device
}

#[test]
fn fsync_on_a_read_only_mount_has_nothing_to_do() {
    let device = device(16 * MIB);
    let mounted = Mounted::new(device.clone(), Options::default());
    let ino = mounted.create(InodeNo::ROOT, "file");
    mounted.close();
    let mounted = Mounted::new(device, Options { read_only: true, ..Options::default() });
    mounted.volume.sync(Scope::File(ino)).unwrap();
    mounted.volume.sync(Scope::All).unwrap();
}

#[test]
fn a_write_that_runs_out_of_space_reports_how_much_it_stored() {
    let mounted = Mounted::new(device(16 * MIB), Options::default());
    let ino = mounted.create(InodeNo::ROOT, "large");
    let bytes = pattern(1, 32 * MIB as usize);
    let written = mounted.volume.write(ino, 0, &bytes, false).unwrap();
    assert!(written > MIB as usize && written < bytes.len(), "{written}");
    assert!(mounted.content(ino) == bytes[..written]);
    let rest = mounted.volume.write(ino, written as u64, &bytes[written..], false);
    assert_eq!(rest, Err(FsError::NoSpace));
    assert_eq!(mounted.volume.write_all(ino, 0, &bytes, false), Err(FsError::NoSpace));
}

#[test]
fn fallocate_clears_set_id_bits_as_a_write_does() {
    let mounted = Mounted::new(device(16 * MIB), Options::default());
    let ino = mounted.create(InodeNo::ROOT, "program");
    let mode = |mode| SetAttr { mode: Some(mode), ..SetAttr::default() };
    for allocate in [Allocate::Grow, Allocate::PunchHole, Allocate::ZeroRange(true)] {
        mounted.volume.run(|vfs, now| vfs.setattr(now, ino, mode(0o6755))).unwrap();
        mounted.volume.run(|vfs, now| vfs.fallocate(now, ino, allocate, 0, 5000, false)).unwrap();
        assert_eq!(mounted.volume.run(|vfs, _| vfs.getattr(ino)).unwrap().mode, 0o6755);
        mounted.volume.run(|vfs, now| vfs.fallocate(now, ino, allocate, 0, 5000, true)).unwrap();
        assert_eq!(mounted.volume.run(|vfs, _| vfs.getattr(ino)).unwrap().mode, 0o755, "{allocate:?}");
    }
}

#[test]
fn a_fresh_volume_has_nothing_to_recover() {
    for (size_bytes, segment_bytes) in [(16 * MIB, 256 * KIB), (64 * GIB, 256 * KIB), (GIB, MIB)] {
        let device: Arc<dyn Device> = Arc::new(MemDevice::new(size_bytes));
        firnfs_manage::format(&*device, &mkfs_options(size_bytes, segment_bytes)).unwrap();
        for read_only in [true, false] {
            let mounted = Mounted::new(device.clone(), Options { read_only, ..Options::default() });
            let recovered = mounted.volume.run(|vfs, _| Ok(*vfs.store().recovered())).unwrap();
            assert!(recovered.was_clean, "{recovered:?}");
            assert_eq!((recovered.inodes, recovered.partials), (0, 0));
        }
    }
}
