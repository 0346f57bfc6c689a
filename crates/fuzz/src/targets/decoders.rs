//! Decoders of the format, and of structures inside files that the file system reads: directories,
//! attributes.
//!
//! Bytes with a checksum are tried both as they are and with the correct checksum.

use firnfs::dirent;
use firnfs::inode::Kind;
use firnfs::lfs::scan::{partial_at, partials, stored_bytes};
use firnfs::lfs::{DeviceNo, Geometry, Options, Place, SegmentMap, Wanted};
use firnfs::store::{BlockKey, Fork};
use firnfs::ufs::acl::Acl;
use firnfs::ufs::xattr;
use firnfs_device::SparseImage;
use firnfs_format::checkpoint::Checkpoint;
use firnfs_format::inode::decode_record;
use firnfs_format::summary::Summary;
use firnfs_format::superblock::Superblock;
use firnfs_format::{BlockIndex, BlockPtr, Epoch, InodeNo, PtrKind, SectorAddr, SegmentId, Serial, crc32c};
use firnfs_torture::anatomy::{Anatomy, Owner, Part, own_checksum};
use firnfs_torture::specimen::{Left, UUID, mount, specimen};

/// Most seeds of one kind.
const SEEDS_MAX: usize = 10;
const BLOCK_BYTES: usize = 4096;

/// Structures of the specimen, closed and crashed, that `wanted` accepts: a few, spread over all.
pub(super) fn structures(wanted: impl Fn(&Part) -> bool) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for left in [Left::Closed, Left::Crashed, Left::Past] {
        let image: SparseImage = specimen(left).expect("the specimen can be made");
        let options = Options { read_only: true, ..Options::default() };
        let (volume, _) = mount(&image, options).expect("the specimen mounts");
        let anatomy = Anatomy::of(&image, &volume).expect("the specimen is intact");
        for part in anatomy.parts.iter().filter(|part| wanted(part)) {
            let mut bytes = vec![0; (part.range.end - part.range.start) as usize];
            image.read(part.range.start, &mut bytes);
            found.push(bytes);
        }
    }
    let every = found.len().div_ceil(SEEDS_MAX).max(1);
    found.into_iter().step_by(every).collect()
}

/// The bytes as they are, and with the correct checksum of a structure of that kind.
fn each_way(bytes: &[u8], owner: Owner, decode: impl Fn(&[u8])) {
    decode(bytes);
    let mut sealed = bytes.to_vec();
    if own_checksum(owner, &mut sealed).is_some() {
        decode(&sealed);
    }
}

fn geometry() -> Geometry {
    Geometry::with(
        BLOCK_BYTES as u32,
        256 << 10,
        4096,
        SegmentMap::new(256 << 10).with_stretch(40, Place { device: DeviceNo::FIRST, at_bytes: 2 << 20 }),
    )
}

/// A decoded superblock can be used, and encodes to the same bytes.
pub fn superblock(bytes: &[u8]) {
    each_way(bytes, Owner::Superblock, |bytes| {
        let Ok(sb) = Superblock::decode(bytes) else { return };
        // A label that is not UTF-8 is read with replacement characters.
        let again =
            Superblock::decode(&sb.encode()).map(|again| Superblock { label: sb.label.clone(), ..again });
        assert_eq!(again.as_ref(), Ok(&sb));
        let geo = Geometry::new(&sb, sb.size_bytes);
        let last = geo.addr(SegmentId(geo.segments.saturating_sub(1)), 0);
        assert!(geo.segments == 0 || geo.device_bytes(last) < sb.size_bytes);
    });
}

pub fn superblock_seeds() -> Vec<Vec<u8>> {
    structures(|part| part.owner == Owner::Superblock)
}

/// A decoded checkpoint encodes to the same bytes.
pub fn checkpoint(bytes: &[u8]) {
    each_way(bytes, Owner::Checkpoint, |bytes| {
        let uuid = bytes.get(16..32).and_then(|uuid| uuid.try_into().ok()).unwrap_or(UUID);
        let Ok(checkpoint) = Checkpoint::decode(bytes, &uuid) else { return };
        let again = Checkpoint::decode(&checkpoint.encode(4096), &uuid);
        assert_eq!(again.as_ref(), Ok(&checkpoint));
    });
}

pub fn checkpoint_seeds() -> Vec<Vec<u8>> {
    structures(|part| part.owner == Owner::Checkpoint)
}

/// Everything found is within the bytes and the volume.
pub fn summary(bytes: &[u8]) {
    let geo = geometry();
    each_way(bytes, Owner::Summary(Serial(0)), |bytes| {
        let _header = Summary::decode_header(bytes);
        if let Some(partial) = partial_at(bytes, &UUID, &geo, 0) {
            assert!(partial.summary.segment.0 < geo.segments);
            assert_eq!(partial.entries.len(), partial.summary.entries as usize);
        }
        for segment in [0, 7].map(SegmentId) {
            for partial in partials(bytes, &UUID, &geo, segment) {
                for entry in &partial.entries {
                    let stored = stored_bytes(bytes, &geo, entry);
                    assert!(stored.is_none_or(|stored| stored.len() == entry.ptr.stored_bytes() as usize));
                }
            }
        }
    });
}

pub fn summary_seeds() -> Vec<Vec<u8>> {
    structures(|part| matches!(part.owner, Owner::Summary(_)))
}

/// Everything inline is within the record, and is read as the structure that it would be.
pub fn record(bytes: &[u8]) {
    let Ok(record) = decode_record(bytes) else { return };
    assert!(record.data.len() + record.xattrs.len() <= bytes.len());
    dirent(record.data);
    xattr(record.xattrs);
}

pub fn record_seeds() -> Vec<Vec<u8>> {
    structures(|part| matches!(part.owner, Owner::Record(_)))
}

/// A block with its correct checksum, read as each kind of block that holds pointers or entries.
pub fn table(bytes: &[u8]) {
    let geo = geometry();
    let stored = &bytes[..bytes.len().min(BLOCK_BYTES)];
    let ptr = BlockPtr {
        addr: SectorAddr(8),
        len_sectors: stored.len().div_ceil(512) as u8,
        kind: PtrKind::Plain,
        crc: crc32c(stored),
        birth: Epoch(1),
    };
    for ino in [InodeNo::INODE_MAP, InodeNo::SEGMENT_USAGE, InodeNo(17)] {
        for level in 0..6 {
            let key = BlockKey { ino, fork: Fork::Data, level, index: BlockIndex(0) };
            let _verdict = Wanted::Block(key, ptr).verify(&geo, stored);
        }
    }
}

pub fn table_seeds() -> Vec<Vec<u8>> {
    structures(|part| match part.owner {
        Owner::Map(..) | Owner::Usage => true,
        Owner::Block(key) => key.level > 0,
        _ => false,
    })
}

/// A block of a directory: read in every way, and changed wherever possible; a change never makes it worse.
pub fn dirent(bytes: &[u8]) {
    let starts: Vec<usize> = dirent::records(bytes).map_while(Result::ok).map(|record| record.at).collect();
    let is_sound = dirent::records(bytes).all(|record| record.is_ok());
    for record in dirent::records(bytes).flatten() {
        let _kind = record.kind();
        assert!(record.end() <= bytes.len() && record.used_bytes() <= record.len_bytes);
        if is_sound && !record.is_free() && record.check_name().is_ok() {
            assert!(dirent::find(bytes, record.name).is_ok_and(|found| found.is_some()));
        }
    }
    let (_found, _empty) = (dirent::find(bytes, b"name"), dirent::is_empty(bytes));
    if !bytes.len().is_multiple_of(dirent::UNIT_BYTES) {
        // Only whole blocks are changed in place.
        return;
    }
    let mut block = bytes.to_vec();
    if let Ok(Some(host)) = dirent::room(&block, 9) {
        let inserted =
            dirent::insert(&mut block, host, (InodeNo(9), Kind::Regular), b"some name", BLOCK_BYTES);
        assert!(!is_sound || inserted.is_ok(), "an entry fits into the room that was found");
    }
    let some = starts.len().div_ceil(16).max(1);
    for at in starts.into_iter().step_by(some).chain([0, 8, 12, 4000]) {
        let (mut block, mut content) = (block.clone(), bytes.to_vec());
        let _before = dirent::before(&block, at);
        if dirent::remove(&mut block, at, BLOCK_BYTES).is_ok() && is_sound {
            let is_still = dirent::records(&block).all(|record| record.is_ok());
            assert!(
                is_still,
                "no block of records after removing what is at {at}: {bytes:02x?}, {block:02x?}"
            );
        }
        let _removed = dirent::remove_inline(&mut content, at);
    }
    let mut whole = vec![0; BLOCK_BYTES];
    let _filled = dirent::fill_block(&mut whole, &bytes[..bytes.len().min(BLOCK_BYTES)]);
}

pub fn dirent_seeds() -> Vec<Vec<u8>> {
    let mut inline = Vec::new();
    for (ino, name) in [(16, "src"), (17, "README.md"), (300, "a name of more than one unit")] {
        dirent::append_inline(&mut inline, InodeNo(ino), Kind::Regular, name.as_bytes());
    }
    let mut seeds = structures(|part| match part.owner {
        // The root and the two directories below it are the specimen's first inodes.
        Owner::Block(key) => key.level == 0 && key.fork == Fork::Data && key.ino.0 >= 25,
        _ => false,
    });
    seeds.retain(|bytes| dirent::records(bytes).next().is_some_and(|first| first.is_ok()));
    seeds.push(inline);
    seeds
}

/// A set: read, searched and changed; an attribute that was put in is found.
pub fn xattr(bytes: &[u8]) {
    let is_sound = xattr::entries(bytes).all(|entry| entry.is_ok());
    for entry in xattr::entries(bytes).flatten() {
        assert!(entry.name.len() + entry.value.len() < bytes.len());
    }
    let mut set = bytes.to_vec();
    if xattr::put(&mut set, b"user.new", b"value").is_ok() && is_sound {
        assert_eq!(xattr::find(&set, b"user.new").ok().flatten(), Some(b"value".as_slice()));
        assert_eq!(xattr::remove(&mut set, b"user.new"), Ok(true));
    }
    let (_found, _removed) = (xattr::find(bytes, b"user.one"), xattr::remove(&mut set, b"user.one"));
}

pub fn xattr_seeds() -> Vec<Vec<u8>> {
    let mut sets = vec![Vec::new(); 4];
    for (count, set) in sets.iter_mut().enumerate() {
        for (name, len) in [("user.a", 1), ("user.one", 40), ("security.capability", 20)].iter().take(count) {
            let _fits = xattr::put(set, name.as_bytes(), &vec![7; *len]);
        }
    }
    sets.extend(structures(|part| matches!(part.owner, Owner::Block(key) if key.fork == Fork::Xattr)));
    sets
}

/// A valid ACL encodes to the same bytes, and can be changed and inherited.
pub fn acl(bytes: &[u8]) {
    let Ok(Some(mut acl)) = Acl::parse(bytes) else { return };
    assert_eq!(acl.encode(), bytes);
    let _minimal = acl.is_minimal();
    let (inherited, mode) = acl.inherit(0o664);
    assert_eq!(inherited.mode() & 0o777, mode & 0o777);
    acl.chmod(0o640);
    assert_eq!(acl.mode() & 0o777, 0o640);
    assert!(matches!(Acl::parse(&acl.encode()), Ok(Some(again)) if again == acl));
}

pub fn acl_seeds() -> Vec<Vec<u8>> {
    let acl = |entries: &[(u16, u16, u32)]| {
        let mut bytes = 2u32.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(perm.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    };
    let nobody = u32::MAX;
    vec![
        acl(&[]),
        acl(&[(1, 7, nobody), (4, 5, nobody), (32, 4, nobody)]),
        acl(&[(1, 7, nobody), (2, 6, 1000), (4, 5, nobody), (8, 4, 50), (16, 7, nobody), (32, 4, nobody)]),
        acl(&[(1, 6, nobody), (2, 6, 1), (2, 4, 2), (4, 4, nobody), (16, 4, nobody), (32, 0, nobody)]),
    ]
}
