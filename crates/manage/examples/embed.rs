//! A volume inside a program: made on a memory device, written, synced, opened again.
//!
//! `docs/embedding.md` walks through it. For a file or a block device use `firnfs_device::FileDevice` instead of
//! [`MemDevice`]; nothing else changes. Run it with `cargo run -p firnfs-manage --example embed`; `cargo test` runs it too.

use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode};
use firnfs_device::{Clock, Device, MemDevice, SystemClock};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{format, open};
use firnfs_volume::Volume;
use std::error::Error;
use std::sync::Arc;

/// Owner of the files that this program makes.
const CALLER: Caller = Caller { uid: 1000, gid: 1000, umask: 0o022 };

/// Options of an empty volume over the whole device.
fn mkfs_options(device: &dyn Device) -> MkfsOptions {
    let geometry = device.geometry();
    MkfsOptions {
        size_bytes: geometry.size_bytes,
        block_bytes: 4096,
        segment_bytes: 1 << 20,
        physical_block_bytes: geometry.physical_block_bytes,
        inline_max_bytes: 2048,
        label: "embedded".to_owned(),
        // Both must be random if several volumes may be used together, or if names may come from strangers.
        uuid: *b"an example's own",
        hash_key: [1, 2],
        now: TimeNs(SystemClock.now_ns()),
        root_owner: (CALLER.uid, CALLER.gid),
    }
}

fn mount(device: &Arc<dyn Device>) -> Result<Volume<Lfs>, Box<dyn Error>> {
    Ok(open(device.clone(), Options::default(), AtimeMode::Relatime, Arc::new(SystemClock))?)
}

fn make(volume: &Volume<Lfs>, parent: InodeNo, name: &str, kind: Kind) -> Result<InodeNo, firnfs::FsError> {
    let node = NewNode { kind, mode: 0o755, rdev: 0, target: b"" };
    // An operation is a closure over the core; the driver calls it again until it needs nothing more.
    let attr = volume.run(|vfs, now| vfs.make(now, CALLER, parent, name.as_bytes(), node, false))?;
    Ok(attr.ino)
}

fn read_to_end(volume: &Volume<Lfs>, ino: InodeNo) -> Result<Vec<u8>, firnfs::FsError> {
    let mut bytes = vec![0; volume.run(|vfs, _| vfs.getattr(ino))?.size_bytes as usize];
    let mut done = 0;
    while done < bytes.len() {
        match volume.read(ino, done as u64, &mut bytes[done..])? {
            0 => break,
            len => done += len,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

fn main() -> Result<(), Box<dyn Error>> {
    let device: Arc<dyn Device> = Arc::new(MemDevice::new(64 << 20));
    format(&*device, &mkfs_options(&*device))?;

    let volume = mount(&device)?;
    let notes = make(&volume, InodeNo::ROOT, "notes", Kind::Directory)?;
    let file = make(&volume, notes, "first", Kind::Regular)?;
    volume.write_all(file, 0, b"what was synced is there, ", false)?;
    volume.sync(Scope::File(file))?;
    volume.write_all(file, 26, b"and what was closed as well", false)?;
    volume.close()?;
    drop(volume);

    let volume = mount(&device)?;
    let notes = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, b"notes", false))?.ino;
    let file = volume.run(|vfs, now| vfs.lookup(now, notes, b"first", false))?.ino;
    let text = String::from_utf8(read_to_end(&volume, file)?)?;
    println!("{text}");
    if text != "what was synced is there, and what was closed as well" {
        return Err(format!("read back: {text}").into());
    }
    let space = volume.run(|vfs, _| Ok(vfs.statfs()))?;
    println!("{} of {} bytes are free", space.free_bytes, space.total_bytes);
    volume.close()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_reads_back_what_it_wrote() {
        super::main().unwrap();
    }
}
