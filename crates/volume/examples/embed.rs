//! The library alone: makes a volume in memory, writes a file, makes it durable, and finds it again after reopening.
//!
//! Run it with `cargo run -p firnfs-volume --example embed`. For a real disk put a `FileDevice` in place of the
//! `MemDevice`; nothing else changes.

use firnfs::inode::Kind;
use firnfs::lfs::{MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Device, MemDevice, SystemClock};
use firnfs_format::{InodeNo, TimeNs};
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    const SIZE_BYTES: u64 = 64 << 20;
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(SIZE_BYTES));
    let clock = Arc::new(SystemClock);

    // mkfs. A real program draws uuid and hash key at random: the library draws no randomness and reads no clock.
    let options = MkfsOptions {
        size_bytes: SIZE_BYTES,
        block_bytes: 4096,
        segment_bytes: 1 << 20,
        physical_block_bytes: device.geometry().physical_block_bytes,
        inline_max_bytes: 2048,
        label: "embedded".to_owned(),
        uuid: [7; 16],
        hash_key: [1, 2],
        now: TimeNs(0),
        root_owner: (0, 0),
    };
    firnfs_volume::format(device.as_ref(), &options)?;

    // Open it, make a file, write, and wait until it is durable. Who embeds the library calls `background` now and
    // then, from a thread or a timer of its own; `sync` does what is needed by itself.
    let volume = firnfs_volume::open(device.clone(), Options::default(), AtimeMode::Noatime, clock.clone())?;
    let caller = Caller { uid: 0, gid: 0, umask: 0o022 };
    let node = NewNode { kind: Kind::Regular, mode: 0o666, rdev: 0, target: &[] };
    let file = volume.run(|vfs, now| vfs.make(now, caller, InodeNo::ROOT, b"hello", node, false))?;
    volume.write(file.ino, 0, b"Hello, log.", false)?;
    volume.sync(Scope::File(file.ino))?;
    // Dropped without `close`, as a crash would leave it: what was synced is in the log.
    drop(volume);

    let volume = firnfs_volume::open(device, Options::default(), AtimeMode::Noatime, clock)?;
    let found = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, b"hello", false))?;
    let mut bytes = vec![0; found.size_bytes as usize];
    volume.read(found.ino, 0, &mut bytes)?;
    assert_eq!(bytes, b"Hello, log.");
    println!("{}", String::from_utf8(bytes)?);
    volume.close()?;
    Ok(())
}
