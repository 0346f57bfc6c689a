//! `Specimen`: a small volume that holds an object of every kind, to damage. Callers: the tests of damage, the fuzzer.

use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::ffs;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{Allocate, AtimeMode, Caller, NewNode, XattrMode};
use firnfs_device::{Device, MemDevice, SparseImage};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{OpenError, format, format_ffs, open, open_ffs};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::sync::Arc;

/// Size of the volume in bytes.
pub const VOLUME_BYTES: u64 = 12 << 20;
/// Its uuid.
pub const UUID: [u8; 16] = *b"some specimen...";
/// Entries of a leaf of the inode map.
pub const LEAF_ENTRIES: u64 = 4096 / 32;
/// Enough to clean most segments.
const CLEAN_STEPS: u32 = 400;
/// Time of all mounts.
const NOW: TimeNs = TimeNs(3_000_000_000);

/// Opens the volume on an image, on a device of its own.
///
/// # Errors
/// As [`open`].
pub fn mount(image: &SparseImage, options: Options) -> Result<(Volume<Lfs>, Arc<MemDevice>), OpenError> {
    let device = Arc::new(MemDevice::from_image(image.clone()));
    let shared: Arc<dyn Device> = device.clone();
    let volume = open(shared, options, AtimeMode::Noatime, Arc::new(VirtualClock::at(NOW.0)))?;
    Ok((volume, device))
}

/// Makes an inode; character devices get a number.
///
/// # Errors
/// As `Vfs::make`.
pub fn make<S: Engine>(
    volume: &Volume<S>,
    parent: InodeNo,
    name: &str,
    kind: Kind,
    target: &[u8],
) -> Result<InodeNo, FsError> {
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    let rdev = if kind == Kind::CharDevice { 5 << 32 | 7 } else { 0 };
    let node = NewNode { kind, mode: 0o755, rdev, target };
    let made = volume.run(|vfs, now| vfs.make(now, caller, parent, name.as_bytes(), node, false));
    made.map(|attr| attr.ino)
}

/// Bytes that differ from seed to seed and from block to block; none is zero.
#[must_use]
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let byte = |i: u64| (seed.wrapping_mul(31).wrapping_add(i.wrapping_mul(i | 1) >> 3)) as u8 | 1;
    (0..len as u64).map(byte).collect()
}

/// The state in which the specimen was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// Cleanly unmounted.
    Closed,
    /// As after a crash: some of everything was changed and synced after the last checkpoint.
    Crashed,
    /// Cleanly unmounted, with two retained points: much has changed since each of them, and the cleaner has moved what they hold.
    Past,
}

/// Makes the specimen.
///
/// # Errors
/// None in a correct implementation.
pub fn specimen(left: Left) -> Result<SparseImage, FsError> {
    let device = Arc::new(MemDevice::new(VOLUME_BYTES));
    let mkfs = MkfsOptions {
        size_bytes: VOLUME_BYTES,
        block_bytes: 4096,
        segment_bytes: 256 << 10,
        physical_block_bytes: 4096,
        inline_max_bytes: 1024,
        label: "specimen".to_owned(),
        uuid: UUID,
        hash_key: [1, 2],
        now: TimeNs(1_000_000_000),
        root_owner: (0, 0),
    };
    format(&*device, &mkfs)?;
    let (volume, device) = mount(&device.image(), Options::default()).map_err(plain)?;
    populate(&volume)?;
    volume.close()?;
    drop(volume);
    let closed = device.image();
    if left == Left::Closed {
        return Ok(closed);
    }
    let (volume, device) = mount(&closed, Options::default()).map_err(plain)?;
    if left == Left::Past {
        for name in ["older", "newer"] {
            volume.run(|vfs, now| vfs.store_mut().make_point(now, name))?;
            volume.pump();
            if name == "older" {
                change(&volume)?
            } else {
                overwrite(&volume)?
            }
            clean(&volume)?;
        }
        volume.close()?;
    } else {
        change(&volume)?;
    }
    Ok(device.image())
}

/// New content for files of several blocks.
fn overwrite(volume: &Volume<Lfs>) -> Result<(), FsError> {
    for name in ["moved", "indirect"] {
        let ino = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, name.as_bytes(), false))?.ino;
        volume.write_all(ino, 2000, &pattern(0x77, 40_000), false)?;
    }
    Ok(())
}

/// Steps of background work as if an operation waited for room: the cleaner moves what is live and what points hold.
fn clean(volume: &Volume<Lfs>) -> Result<(), FsError> {
    for _ in 0..CLEAN_STEPS {
        volume.run_quietly(|vfs, now| vfs.store_mut().step(now, true))?;
        volume.pump();
    }
    Ok(())
}

fn plain(error: OpenError) -> FsError {
    match error {
        OpenError::Fs(error) => error,
        OpenError::NotFirnfs(other) => FsError::Io(other.to_string()),
    }
}

/// The content of the specimen on a Fast File System, cleanly unmounted: in several groups.
///
/// # Errors
/// None in a correct implementation.
pub fn fast_specimen() -> Result<SparseImage, FsError> {
    let device = Arc::new(MemDevice::new(VOLUME_BYTES));
    let mkfs = ffs::MkfsOptions {
        block_bytes: 4096,
        frag_bytes: 1024,
        group_bytes: Some(3 << 20),
        uuid: UUID,
        hash_key: [1, 2],
        now: TimeNs(1_000_000_000),
        ..ffs::MkfsOptions::with_size(VOLUME_BYTES)
    };
    format_ffs(&*device, &mkfs)?;
    let clock = Arc::new(VirtualClock::at(NOW.0));
    let opened = open_ffs(device.clone(), ffs::Options::default(), AtimeMode::Noatime, clock);
    let volume = opened.map_err(|why| FsError::Io(why.to_string()))?;
    populate(&volume)?;
    volume.close()?;
    drop(volume);
    Ok(device.image())
}

fn put<S: Engine>(volume: &Volume<S>, parent: InodeNo, name: &str, len: usize) -> Result<InodeNo, FsError> {
    let ino = make(volume, parent, name, Kind::Regular, b"")?;
    volume.write_all(ino, 0, &pattern(ino.0, len), false)?;
    Ok(ino)
}

fn populate<S: Engine>(volume: &Volume<S>) -> Result<(), FsError> {
    let root = InodeNo::ROOT;
    put(volume, root, "inline", 700)?;
    put(volume, root, "fragment", 5000)?;
    let file = put(volume, root, "indirect", 30 * 4096 + 10)?;
    put_sparse(volume)?;
    put_xattrs(volume, file, 20)?;
    let rich = put(volume, root, "rich", 100)?;
    put_xattrs(volume, rich, 7000)?;
    make(volume, root, "short link", Kind::Symlink, b"inline")?;
    make(volume, root, "long link", Kind::Symlink, &[b'x'; 4000])?;
    make(volume, root, "fifo", Kind::Fifo, b"")?;
    make(volume, root, "device", Kind::CharDevice, b"")?;
    make(volume, root, "socket", Kind::Socket, b"")?;
    let small = make(volume, root, "small", Kind::Directory, b"")?;
    put(volume, small, "below", 3000)?;
    let large = make(volume, root, "large", Kind::Directory, b"")?;
    // More names than one leaf of the index holds.
    for n in 0..700 {
        let name = format!("name number {n}");
        volume.run(|vfs, now| vfs.link(now, file, large, name.as_bytes(), false))?;
    }
    // More inodes than one leaf of the inode map holds, few of which remain.
    let name = |n: u64| format!("f{n}");
    for n in 0..LEAF_ENTRIES + 40 {
        put(volume, small, &name(n), n as usize)?;
    }
    for n in (0..LEAF_ENTRIES + 40).filter(|n| n % 16 != 0) {
        volume.run(|vfs, now| vfs.unlink(now, small, name(n).as_bytes()))?;
    }
    Ok(())
}

/// A file with blocks below one, two and three levels of indirect blocks, and mostly holes.
fn put_sparse<S: Engine>(volume: &Volume<S>) -> Result<(), FsError> {
    let ino = make(volume, InodeNo::ROOT, "sparse", Kind::Regular, b"")?;
    for block in [0u64, 12, 13, 268, 269, 600, 66_000, 66_100] {
        volume.write_all(ino, block * 4096, &pattern(block, 4096), false)?;
    }
    let kept = Allocate::KeepSize;
    volume.run(|vfs, now| vfs.fallocate(now, ino, kept, 20 * 4096, 8 * 4096, false)).map(drop)
}

fn put_xattrs<S: Engine>(volume: &Volume<S>, ino: InodeNo, len: usize) -> Result<(), FsError> {
    for name in ["user.one", "user.two", "trusted.three"] {
        let value = pattern(name.len() as u64, len);
        volume.run(|vfs, now| vfs.setxattr(now, ino, name.as_bytes(), &value, XattrMode::Any))?;
    }
    Ok(())
}

/// Work for roll-forward: files made, changed, renamed and removed, in several partial segments.
fn change(volume: &Volume<Lfs>) -> Result<(), FsError> {
    let root = InodeNo::ROOT;
    let find = |name: &[u8]| volume.run(|vfs, now| vfs.lookup(now, root, name, false)).map(|attr| attr.ino);
    put(volume, root, "late", 20_000)?;
    volume.sync(Scope::All)?;
    let file = find(b"indirect")?;
    volume.write_all(file, 20 * 4096, &pattern(99, 9000), false)?;
    volume.sync(Scope::File(file))?;
    volume.run(|vfs, now| vfs.unlink(now, root, b"fragment"))?;
    let mode = firnfs::vfs::RenameMode::Replace;
    volume.run(|vfs, now| vfs.rename(now, (root, b"inline"), (root, b"moved"), mode))?;
    // Held, so that it stays an orphan.
    let held = find(b"rich")?;
    volume.run(|vfs, _| vfs.hold(held))?;
    volume.run(|vfs, now| vfs.unlink(now, root, b"rich"))?;
    volume.sync(Scope::All)
}
