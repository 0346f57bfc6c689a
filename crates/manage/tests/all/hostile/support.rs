//! Volumes to operate on, and short names for the calls.

use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options, Thing};
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Device, MemDevice};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{OpenError, format, open};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::sync::Arc;

pub const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0o022 };
pub const VOLUME_BYTES: u64 = 24 << 20;
/// Blocks that need a single indirect block.
pub const INDIRECT_FILE_BYTES: usize = 40 * 4096;

pub fn mkfs_options(size_bytes: u64) -> MkfsOptions {
    MkfsOptions {
        size_bytes,
        block_bytes: 4096,
        segment_bytes: 256 << 10,
        physical_block_bytes: 4096,
        inline_max_bytes: 2048,
        label: "patient".to_owned(),
        uuid: [7; 16],
        hash_key: [1, 2],
        now: TimeNs(1_000_000_000),
        root_owner: (0, 0),
    }
}

pub fn new_device() -> Arc<MemDevice> {
    let device = Arc::new(MemDevice::new(VOLUME_BYTES));
    format(&*device, &mkfs_options(VOLUME_BYTES)).unwrap();
    device
}

pub fn try_mount(device: &Arc<MemDevice>, options: Options) -> Result<Volume<Lfs>, OpenError> {
    let clock = Arc::new(VirtualClock::at(2_000_000_000));
    let device: Arc<dyn Device> = device.clone();
    open(device, options, AtimeMode::Noatime, clock)
}

pub fn mount(device: &Arc<MemDevice>) -> Volume<Lfs> {
    try_mount(device, Options::default()).unwrap()
}

pub fn mount_read_only(device: &Arc<MemDevice>) -> Volume<Lfs> {
    try_mount(device, Options { read_only: true, ..Options::default() }).unwrap()
}

pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (seed.wrapping_mul(31).wrapping_add(i * 7) >> 2) as u8 | 1).collect()
}

/// A clean volume with a file of many blocks, `ill`, and another file, `well`; the inode of `ill`.
pub fn patient() -> (Arc<MemDevice>, InodeNo) {
    let device = new_device();
    let volume = mount(&device);
    let ino = put(&volume, "ill", &pattern(1, INDIRECT_FILE_BYTES));
    put(&volume, "well", &pattern(2, 5000));
    volume.close().unwrap();
    (device, ino)
}

pub fn create(volume: &Volume<Lfs>, name: &str) -> Result<InodeNo, FsError> {
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
    volume
        .run(|vfs, now| vfs.make(now, CALLER, InodeNo::ROOT, name.as_bytes(), node, false))
        .map(|attr| attr.ino)
}

pub fn put(volume: &Volume<Lfs>, name: &str, bytes: &[u8]) -> InodeNo {
    let ino = create(volume, name).unwrap();
    volume.write(ino, 0, bytes, false).unwrap();
    ino
}

pub fn get(volume: &Volume<Lfs>, ino: InodeNo) -> Result<Vec<u8>, FsError> {
    let size = volume.run(|vfs, _| vfs.getattr(ino))?.size_bytes;
    let mut out = vec![0; usize::try_from(size).unwrap()];
    let mut done = 0;
    while done < out.len() {
        done += volume.read(ino, done as u64, &mut out[done..])?;
    }
    Ok(out)
}

pub fn unlink(volume: &Volume<Lfs>, name: &str) -> Result<(), FsError> {
    volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, name.as_bytes()))
}

pub fn find(volume: &Volume<Lfs>, name: &str) -> Result<InodeNo, FsError> {
    volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, name.as_bytes(), false)).map(|attr| attr.ino)
}

/// Makes everything durable with a complete checkpoint, but leaves the volume open: for a crash with nothing to roll
/// forward.
pub fn checkpoint(volume: &Volume<Lfs>) {
    volume.run(|vfs, now| vfs.store_mut().close(now)).unwrap();
    while !volume.run(|vfs, _| Ok(vfs.store().is_drained())).unwrap() {
        volume.background().unwrap();
    }
}

pub fn quarantined(volume: &Volume<Lfs>) -> Vec<Thing> {
    volume.run(|vfs, _| Ok(vfs.store().quarantined().map(|(thing, _)| thing).collect())).unwrap()
}

pub fn read_only(volume: &Volume<Lfs>) -> Option<String> {
    volume.run(|vfs, _| Ok(firnfs::store::Store::read_only(vfs.store()).map(str::to_owned))).unwrap()
}

pub fn is_corrupt<T: std::fmt::Debug>(result: &Result<T, FsError>) -> bool {
    matches!(result, Err(FsError::Corrupt { .. }))
}

/// Asserts that the volume is still usable: the content of `name` is there, new files can be made, it closes and
/// opens again.
pub fn assert_in_use(device: &Arc<MemDevice>, volume: Volume<Lfs>, name: &str, content: &[u8]) {
    assert_eq!(read_only(&volume), None);
    let ino = find(&volume, name).unwrap();
    assert_eq!(get(&volume, ino).unwrap(), content);
    put(&volume, &format!("{name}-neighbour"), content);
    volume.background().unwrap();
    volume.close().unwrap();
    drop(volume);
    let volume = mount(device);
    let ino = find(&volume, &format!("{name}-neighbour")).unwrap();
    assert_eq!(get(&volume, ino).unwrap(), content);
    unlink(&volume, &format!("{name}-neighbour")).unwrap();
    volume.close().unwrap();
}
