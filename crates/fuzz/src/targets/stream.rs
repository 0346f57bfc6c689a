//! Send streams, received by the replica of a small volume.

use firnfs::FsError;
use firnfs::check::From as CheckFrom;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::vfs::{AtimeMode, Caller, NewNode, XattrMode};
use firnfs_device::{Device, MemDevice, SparseImage};
use firnfs_format::stream::{FRAME_HEADER_BYTES, STREAM_HEADER_BYTES, StreamHeader};
use firnfs_format::{InodeNo, TimeNs, crc32c_of};
use firnfs_manage::{LogVolume, StreamReader, check, format, open, receive, send};
use firnfs_sim::VirtualClock;
use firnfs_torture::listing::children;
use firnfs_volume::Volume;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

const SIZE_BYTES: u64 = 16 << 20;

/// Reads the bytes as they are; then gives them the header of the seeds and right checksums, and has them received. A stream that is
/// refused leaves the replica as it was; whatever is received, the replica is sound.
pub fn received(bytes: &[u8]) {
    let mut input = bytes;
    if let Ok(mut stream) = StreamReader::new(&mut input) {
        while stream.next_frame().is_ok() {}
    }
    let bytes = corrected(bytes);
    let device: Arc<dyn Device> = Arc::new(MemDevice::from_image(REPLICA.0.clone()));
    let mut input = &bytes[..];
    let Ok(mut stream) = StreamReader::new(&mut input) else { return };
    let result = receive(mount(&device), &mut stream, "received", &mut |_, _| {});
    match result {
        Ok(_) => {}
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "an error is one line");
            assert_eq!(names(&device), REPLICA.1, "{error}");
        }
    }
    let report = check(&*device, CheckFrom::Newest, &mut |_| {}).expect("it can be checked");
    assert!(report.is_clean(), "{:?}", report.findings);
}

/// The seeds' header, and frames with right numbers and checksums, as far as they are whole.
fn corrected(bytes: &[u8]) -> Vec<u8> {
    let mut out = HEADER.encode().to_vec();
    let mut rest = bytes.get(STREAM_HEADER_BYTES..).unwrap_or_default();
    let mut number = 0_u32;
    while let Some(head) = rest.first_chunk::<FRAME_HEADER_BYTES>() {
        let mut head = *head;
        let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let Some(payload) = rest[FRAME_HEADER_BYTES..].get(..len) else { break };
        head[8..12].copy_from_slice(&number.to_le_bytes());
        head[12..].copy_from_slice(&HEADER.checksum().to_le_bytes());
        let crc = crc32c_of(&[&head, payload]);
        head[12..].copy_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(payload);
        number += 1;
        rest = &rest[FRAME_HEADER_BYTES + len..];
    }
    out
}

type Names = BTreeMap<Vec<u8>, (InodeNo, u64, i64)>;

/// A replica that has received the first state, and its names.
static REPLICA: LazyLock<(SparseImage, Names)> = LazyLock::new(|| {
    let memory = new_device(2);
    let device: Arc<dyn Device> = memory.clone();
    let mut input = &STREAMS[0][..];
    let mut stream = StreamReader::new(&mut input).expect("a stream");
    receive(mount(&device), &mut stream, "one", &mut |_, _| {}).expect("a whole state");
    let names = names(&device);
    let report = check(&*device, CheckFrom::Newest, &mut |_| {}).expect("it can be checked");
    assert!(report.is_clean(), "{:?}", report.findings);
    (memory.image(), names)
});

/// The header of all that comes after the first state: numbers above its `next_ino` are in neither stream.
static HEADER: LazyLock<StreamHeader> = LazyLock::new(|| {
    let mut input = &STREAMS[2][..];
    StreamReader::new(&mut input).expect("a stream").header().clone()
});

/// All of the first state, and two changes.
static STREAMS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let device: Arc<dyn Device> = new_device(1);
    let volume = mount(&device);
    let points: Vec<_> = (0..3)
        .map(|turn| {
            change(&volume, turn).expect("there is room");
            volume.make_point(&format!("p{turn}")).expect("there is room").epoch
        })
        .collect();
    [(None, 0), (Some(points[0]), 1), (Some(points[0]), 2)]
        .map(|(from, to)| {
            let mut bytes = Vec::new();
            send(&volume, from, points[to], 0, &mut bytes, &mut |_| true).expect("a vector takes all");
            bytes
        })
        .to_vec()
});

const ROOT: Caller = Caller { uid: 0, gid: 0, umask: 0 };

fn change(volume: &Volume<Lfs>, turn: u8) -> Result<(), FsError> {
    let node = |kind| NewNode {
        kind,
        mode: 0o644,
        rdev: 0,
        target: if kind == Kind::Symlink { b"there" } else { b"" },
    };
    let make = |dir, name: String, kind| {
        volume
            .run(|vfs, now| vfs.make(now, ROOT, dir, name.as_bytes(), node(kind), false))
            .map(|attr| attr.ino)
    };
    let dir = make(InodeNo::ROOT, format!("d{turn}"), Kind::Directory)?;
    let file = make(dir, "file".to_owned(), Kind::Regular)?;
    volume.write_all(file, 0, &vec![turn + 1; 20_000], false)?;
    volume.write_all(file, 100_000, b"behind a hole", false)?;
    make(dir, "small".to_owned(), Kind::Regular)?;
    make(dir, "link".to_owned(), Kind::Symlink)?;
    volume.run(|vfs, now| vfs.setxattr(now, file, b"user.x", b"value", XattrMode::Any))?;
    volume
        .run(|vfs, now| vfs.link(now, file, InodeNo::ROOT, format!("f{turn}").as_bytes(), false).map(drop))?;
    if turn > 0 {
        let old = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, b"d0", false))?.ino;
        let mode = firnfs::vfs::RenameMode::NoReplace;
        if turn == 1 {
            volume.run(|vfs, now| vfs.unlink(now, old, b"small"))?;
            volume.run(|vfs, now| vfs.rename(now, (old, b"link"), (dir, b"moved"), mode))?;
        } else {
            volume.run(|vfs, now| vfs.rename(now, (InodeNo::ROOT, b"d0"), (dir, b"d0"), mode))?;
        }
        let file = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, b"f0", false))?.ino;
        volume.write_all(file, 4096, &[9; 5000], false)?;
    }
    Ok(())
}

fn new_device(uuid: u8) -> Arc<MemDevice> {
    let device = Arc::new(MemDevice::new(SIZE_BYTES));
    let options = MkfsOptions {
        size_bytes: SIZE_BYTES,
        block_bytes: 4096,
        segment_bytes: 256 << 10,
        physical_block_bytes: 4096,
        inline_max_bytes: 512,
        label: String::new(),
        uuid: [uuid; 16],
        hash_key: [1, 2],
        now: TimeNs(1),
        root_owner: (0, 0),
    };
    format(&*device, &options).expect("options of a volume");
    device
}

fn mount(device: &Arc<dyn Device>) -> Volume<Lfs> {
    let options = Options { cache_bytes: 1 << 20, ..Options::default() };
    let clock = Arc::new(VirtualClock::at(1_700_000_000_000_000_000));
    open(device.clone(), options, AtimeMode::Noatime, clock).expect("a sound volume")
}

/// All names, with inode, size and time of change.
fn names(device: &Arc<dyn Device>) -> Names {
    let volume = mount(device);
    let (mut found, mut pending) = (Names::new(), vec![(Vec::new(), InodeNo::ROOT)]);
    while let Some((path, ino)) = pending.pop() {
        let attr = volume.run(|vfs, _| vfs.getattr(ino)).expect("a sound volume");
        if attr.kind == Kind::Directory {
            let children = children(&volume, ino).expect("a sound volume");
            pending
                .extend(children.into_iter().map(|(name, child)| ([&path[..], b"/", &name].concat(), child)));
        }
        found.insert(path, (ino, attr.size_bytes, attr.ctime.0));
    }
    found
}

/// Streams for the replica.
pub fn seeds() -> Vec<Vec<u8>> {
    STREAMS[1..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_received() {
        let streams = seeds();
        assert_eq!(corrected(&streams[1]), streams[1]);
        for stream in &streams {
            let device: Arc<dyn Device> = Arc::new(MemDevice::from_image(REPLICA.0.clone()));
            let bytes = corrected(stream);
            let mut input = &bytes[..];
            let mut reader = StreamReader::new(&mut input).unwrap();
            let received = receive(mount(&device), &mut reader, "received", &mut |_, _| {});
            received.expect("a whole stream");
            assert_ne!(names(&device), REPLICA.1);
        }
    }
}
