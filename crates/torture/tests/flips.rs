//! Any live byte may be flipped, any live sector lost: it is found when it is read, reported with its place, and harms what
//! owned it alone. Systematic: every live sector of a small volume that holds an object of every kind, once with a flipped
//! bit, once zeroed; and images cut short.

use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::view::TableKind;
use firnfs::lfs::{Lfs, MkfsOptions, NotFirnfs, Options};
use firnfs::store::{BlockKey, Fork, Scope};
use firnfs::vfs::{Allocate, AtimeMode, Caller, NewNode, XattrMode};
use firnfs_device::{AlignedBuf, Device, MemDevice, SparseImage};
use firnfs_format::checkpoint::Checkpoint;
use firnfs_format::superblock::{CHECKPOINT_SLOT_BYTES, CHECKPOINT_SLOTS_AT, SUPERBLOCK_BYTES, Superblock};
use firnfs_format::table::TableEntry;
use firnfs_format::{BlockPtr, InodeNo, TimeNs};
use firnfs_sim::VirtualClock;
use firnfs_torture::survey::{Answers, Aspect, Bounds, look_at, survey};
use firnfs_volume::{OpenError, Volume, format, open};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

const VOLUME_BYTES: u64 = 12 << 20;
const SECTOR_BYTES: u64 = 512;
/// Entries of a leaf of the inode map.
const LEAF_ENTRIES: u64 = 4096 / 32;
const UUID: [u8; 16] = *b"flipped somewhat";
/// Lookups of some names of the large directory are enough: of each leaf of its index.
const BOUNDS: Bounds = Bounds { inodes_max: 1000, entries_max: 1000, lookup_every: 11, blocks_max: 1000 };
/// Every how many-th damage is also written around, which takes longer than looking.
const WRITE_EVERY: usize = 5;

fn try_mount(image: &SparseImage, read_only: bool) -> Result<(Volume<Lfs>, Arc<MemDevice>), OpenError> {
    let device = Arc::new(MemDevice::from_image(image.clone()));
    let shared: Arc<dyn Device> = device.clone();
    let options = Options { read_only, ..Options::default() };
    let clock = Arc::new(VirtualClock::at(3_000_000_000));
    open(shared, options, AtimeMode::Noatime, clock).map(|volume| (volume, device))
}

fn make(
    volume: &Volume<Lfs>,
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

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (seed.wrapping_mul(31).wrapping_add(i.wrapping_mul(i | 1) >> 3)) as u8 | 1)
        .collect()
}

fn put(volume: &Volume<Lfs>, parent: InodeNo, name: &str, len: usize) -> InodeNo {
    let ino = make(volume, parent, name, Kind::Regular, b"").unwrap();
    volume.write(ino, 0, &pattern(ino.0, len), false).unwrap();
    ino
}

/// A file of which blocks are behind one, two and three levels of indirect blocks, and mostly holes.
fn put_sparse(volume: &Volume<Lfs>) {
    let ino = make(volume, InodeNo::ROOT, "sparse", Kind::Regular, b"").unwrap();
    for block in [0u64, 12, 13, 268, 269, 600, 66_000, 66_100] {
        volume.write(ino, block * 4096, &pattern(block, 4096), false).unwrap();
    }
    let reserve = |vfs: &mut firnfs::vfs::Vfs<Lfs>, now| {
        vfs.fallocate(now, ino, Allocate::KeepSize, 20 * 4096, 8 * 4096)
    };
    volume.run(reserve).unwrap();
}

fn put_xattrs(volume: &Volume<Lfs>, ino: InodeNo, len: usize) {
    for name in ["user.one", "user.two", "trusted.three"] {
        let value = pattern(name.len() as u64, len);
        volume.run(|vfs, now| vfs.setxattr(now, ino, name.as_bytes(), &value, XattrMode::Any)).unwrap();
    }
}

/// A volume with an object of every kind, closed.
fn patient() -> SparseImage {
    let device = Arc::new(MemDevice::new(VOLUME_BYTES));
    let options = MkfsOptions {
        size_bytes: VOLUME_BYTES,
        block_bytes: 4096,
        segment_bytes: 256 << 10,
        physical_block_bytes: 4096,
        inline_max_bytes: 1024,
        label: "patient".to_owned(),
        uuid: UUID,
        hash_key: [1, 2],
        now: TimeNs(1_000_000_000),
        root_owner: (0, 0),
    };
    format(&*device, &options).unwrap();
    let (volume, device) = try_mount(&device.image(), false).unwrap();
    put(&volume, InodeNo::ROOT, "inline", 700);
    put(&volume, InodeNo::ROOT, "fragment", 5000);
    let file = put(&volume, InodeNo::ROOT, "indirect", 30 * 4096 + 10);
    put_sparse(&volume);
    put_xattrs(&volume, file, 20);
    let rich = put(&volume, InodeNo::ROOT, "rich", 100);
    put_xattrs(&volume, rich, 7000);
    make(&volume, InodeNo::ROOT, "short link", Kind::Symlink, b"inline").unwrap();
    make(&volume, InodeNo::ROOT, "long link", Kind::Symlink, &[b'x'; 4000]).unwrap();
    make(&volume, InodeNo::ROOT, "fifo", Kind::Fifo, b"").unwrap();
    make(&volume, InodeNo::ROOT, "device", Kind::CharDevice, b"").unwrap();
    make(&volume, InodeNo::ROOT, "socket", Kind::Socket, b"").unwrap();
    let small = make(&volume, InodeNo::ROOT, "small", Kind::Directory, b"").unwrap();
    put(&volume, small, "below", 3000);
    let large = make(&volume, InodeNo::ROOT, "large", Kind::Directory, b"").unwrap();
    // More names than one leaf of the index holds.
    for n in 0..700 {
        let name = format!("name number {n}");
        volume.run(|vfs, now| vfs.link(now, file, large, name.as_bytes(), false)).unwrap();
    }
    // More inodes than one leaf of the inode map holds, few of which stay.
    let name = |n: u64| format!("f{n}");
    for n in 0..LEAF_ENTRIES + 40 {
        put(&volume, small, &name(n), n as usize);
    }
    for n in (0..LEAF_ENTRIES + 40).filter(|n| n % 16 != 0) {
        volume.run(|vfs, now| vfs.unlink(now, small, name(n).as_bytes())).unwrap();
    }
    volume.close().unwrap();
    drop(volume);
    device.image()
}

/// What a stretch of live bytes belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// Kept more than once.
    Replicated,
    /// Needed for writing only.
    Usage,
    /// Inodes from this number to before that.
    Map(u64, u64),
    /// An inode record.
    Record(InodeNo),
    /// A block of an inode.
    Block(BlockKey),
}

/// All live bytes of a closed volume, by place on the device.
fn live(image: &SparseImage) -> Vec<(Range<u64>, Owner)> {
    let (volume, _) = try_mount(image, true).unwrap();
    let geo = volume.run(|vfs, _| Ok(vfs.store().geometry())).unwrap();
    let mut found = Vec::new();
    for at in Superblock::places(VOLUME_BYTES) {
        found.push((at..at + SUPERBLOCK_BYTES as u64, Owner::Replicated));
    }
    for at in CHECKPOINT_SLOTS_AT {
        let mut slot = vec![0; CHECKPOINT_SLOT_BYTES as usize];
        image.read(at, &mut slot);
        Checkpoint::decode(&slot, &UUID).unwrap();
        let used = slot.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
        found.push((at..at + used.next_multiple_of(SECTOR_BYTES), Owner::Replicated));
    }
    let mut add = |ptr: &BlockPtr, owner| {
        if ptr.is_stored() {
            let at = geo.device_bytes(ptr.addr);
            found.push((at..at + u64::from(ptr.stored_bytes()), owner));
        }
    };
    for placed in volume.run(|vfs, _| vfs.store_mut().table_blocks(TableKind::SegmentUsage)).unwrap() {
        add(&placed.ptr, Owner::Usage);
    }
    for placed in volume.run(|vfs, _| vfs.store_mut().table_blocks(TableKind::InodeMap)).unwrap() {
        let (level, index) = (placed.key.level, placed.key.index.0);
        let first = index * LEAF_ENTRIES;
        let owner =
            if level == 0 { Owner::Map(first, first + LEAF_ENTRIES) } else { Owner::Map(0, u64::MAX) };
        add(&placed.ptr, owner);
    }
    let next = volume.run(|vfs, _| Ok(vfs.store().next_ino())).unwrap();
    for ino in (1..next.0).map(InodeNo) {
        let entry = volume.run(|vfs, _| vfs.store_mut().imap_entry(ino)).unwrap();
        if entry.is_used() {
            add(&entry.ptr, Owner::Record(ino));
            for placed in volume.run(|vfs, _| vfs.store_mut().inode_blocks(ino)).unwrap() {
                add(&placed.ptr, Owner::Block(placed.key));
            }
        }
    }
    found
}

impl Owner {
    /// Whether an error of that aspect of an inode may come from damage to what this owns. `names`: what lookups lead to.
    fn explains(self, ino: InodeNo, aspect: &Aspect, names: &Names) -> bool {
        let of_inode = |damaged: InodeNo| {
            let leads_there = |name: &Vec<u8>| names.get(&(ino, name.clone())) == Some(&damaged);
            ino == damaged || matches!(aspect, Aspect::Lookup(name) if leads_there(name))
        };
        match self {
            Self::Replicated | Self::Usage => false,
            Self::Map(from, to) => (from..to).any_of(ino, aspect, names),
            Self::Record(damaged) => of_inode(damaged),
            Self::Block(BlockKey { ino: owner, .. }) if owner != ino => false,
            Self::Block(BlockKey { fork: Fork::Xattr, .. }) => {
                matches!(aspect, Aspect::XattrNames | Aspect::Xattr(_))
            }
            Self::Block(BlockKey { fork: Fork::Index, .. }) => matches!(aspect, Aspect::Lookup(_)),
            Self::Block(BlockKey { fork: Fork::Data, level: 0, index, .. }) => match aspect {
                Aspect::Block(block) => *block == index.0,
                Aspect::Listing | Aspect::Lookup(_) | Aspect::Target => true,
                _ => false,
            },
            Self::Block(_) => {
                matches!(aspect, Aspect::Block(_) | Aspect::Extents(_) | Aspect::Listing | Aspect::Lookup(_))
            }
        }
    }
}

/// What each name of a directory leads to.
type Names = BTreeMap<(InodeNo, Vec<u8>), InodeNo>;

trait AnyOf {
    fn any_of(&self, ino: InodeNo, aspect: &Aspect, names: &Names) -> bool;
}

impl AnyOf for Range<u64> {
    /// The inode itself, or what a name of it leads to, is in the range.
    fn any_of(&self, ino: InodeNo, aspect: &Aspect, names: &Names) -> bool {
        let leads =
            |name: &Vec<u8>| names.get(&(ino, name.clone())).is_some_and(|child| self.contains(&child.0));
        self.contains(&ino.0) || matches!(aspect, Aspect::Lookup(name) if leads(name))
    }
}

struct Clinic {
    image: SparseImage,
    whole: BTreeMap<InodeNo, Answers>,
    names: Names,
}

impl Clinic {
    fn new() -> Self {
        let image = patient();
        let (volume, _) = try_mount(&image, true).unwrap();
        let found = survey(&volume, BOUNDS);
        assert_eq!(found.errors().count(), 0);
        let mut names = Names::new();
        for (ino, answers) in &found.inodes {
            for (aspect, answer) in answers {
                if let (Aspect::Lookup(name), Ok(child)) = (aspect, answer) {
                    let child = InodeNo(u64::from_le_bytes(child.as_slice().try_into().unwrap()));
                    names.insert((*ino, name.clone()), child);
                }
            }
        }
        Self { image, whole: found.inodes, names }
    }

    /// Looks at all inodes, and judges each answer. Returns how many errors there were.
    fn judge(&self, volume: &Volume<Lfs>, owner: Owner, place: &str) -> usize {
        let mut errors = 0;
        for (ino, right) in &self.whole {
            for (aspect, answer) in look_at(volume, *ino, BOUNDS) {
                let context = || format!("{place}, {owner:?}: {aspect:?} of inode {ino}");
                match (answer, right.get(&aspect)) {
                    (Ok(bytes), Some(right)) => assert!(Ok(&bytes) == right.as_ref(), "{}: wrong", context()),
                    // A hole, read because where data is could not be told.
                    (Ok(bytes), None) => assert!(bytes.iter().all(|byte| *byte == 0), "{}", context()),
                    (Err(error), _) => {
                        assert!(owner.explains(*ino, &aspect, &self.names), "{}: {error}", context());
                        assert_says_where(&error, &context());
                        errors += 1;
                    }
                }
            }
        }
        errors
    }

    /// Damages a place; what it owned is an error, all else is right.
    fn damage(&self, at_bytes: u64, bytes: &[u8], owner: Owner, writes: bool, place: &str) {
        let mut image = self.image.clone();
        image.write(at_bytes, bytes);
        let (volume, _) = try_mount(&image, true).unwrap_or_else(|e| panic!("{place}, {owner:?}: {e}"));
        let errors = self.judge(&volume, owner, place);
        let is_found = matches!(owner, Owner::Replicated | Owner::Usage) || errors > 0;
        assert!(is_found, "{place}, {owner:?}: nobody noticed");
        if writes {
            self.write_around(&image, owner, place);
        }
    }

    /// The volume is used for writing and closed, or says why it cannot be; the damage has not spread.
    fn write_around(&self, image: &SparseImage, owner: Owner, place: &str) {
        let (volume, device) = try_mount(image, false).unwrap_or_else(|e| panic!("{place}, {owner:?}: {e}"));
        let made = make(&volume, InodeNo::ROOT, "new", Kind::Regular, b"");
        let written = made.and_then(|ino| volume.write(ino, 0, &pattern(1, 30_000), false));
        let synced = volume.sync(Scope::All);
        let _sleep_ms = volume.background().unwrap();
        if let Err(error) = volume.close() {
            assert!(volume.broken().is_some(), "{place}, {owner:?}: {error}");
            assert!(matches!(owner, Owner::Usage | Owner::Map(..)), "{place}, {owner:?}: {error}");
        }
        drop(volume);
        let (volume, _) =
            try_mount(&device.image(), true).unwrap_or_else(|e| panic!("{place}, {owner:?}: {e}"));
        // Damaged bytes that were of use for writing alone may have been replaced by now.
        for (ino, right) in self.whole.iter().filter(|(ino, _)| **ino != InodeNo::ROOT) {
            for (aspect, answer) in look_at(&volume, *ino, BOUNDS) {
                let context = || format!("{place}, {owner:?}, written around: {aspect:?} of inode {ino}");
                match (answer, right.get(&aspect)) {
                    (Ok(bytes), Some(right)) => assert!(Ok(&bytes) == right.as_ref(), "{}: wrong", context()),
                    (Ok(bytes), None) => assert!(bytes.iter().all(|byte| *byte == 0), "{}", context()),
                    (Err(error), _) => {
                        assert!(owner.explains(*ino, &aspect, &self.names), "{}: {error}", context());
                    }
                }
            }
        }
        if written.is_ok() && synced.is_ok() {
            let ino = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, b"new", false));
            let ino = ino.unwrap_or_else(|e| panic!("{place}, {owner:?}: {e}")).ino;
            let mut out = vec![0; 30_000];
            assert_eq!(volume.read(ino, 0, &mut out), Ok(30_000));
            assert!(out == pattern(1, 30_000), "{place}, {owner:?}");
        }
    }
}

/// One line of what, where, expected and found.
fn assert_says_where(error: &FsError, context: &str) {
    let FsError::Corrupt { what, at, expected, found } = error else { panic!("{context}: {error:?}") };
    assert!(
        at.contains("segment") && [what, expected, found].iter().all(|s| !s.is_empty()),
        "{context}: {error}"
    );
    assert!(!error.to_string().contains('\n'), "{context}: {error}");
}

/// Bytes of a sector with a bit of one of them flipped, drawn by its place.
fn flipped(sector: &[u8], at_bytes: u64) -> Vec<u8> {
    let draw = (at_bytes / SECTOR_BYTES).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let mut bytes = sector.to_vec();
    bytes[(draw % SECTOR_BYTES) as usize] ^= 1 << (draw >> 9 & 7);
    bytes
}

#[test]
fn every_live_sector_may_be_damaged_and_only_what_owned_it_suffers() {
    let clinic = Clinic::new();
    let live = live(&clinic.image);
    let has = |wanted: fn(&Owner) -> bool| live.iter().any(|(_, owner)| wanted(owner));
    let indirect = |levels: u8| live.iter().any(|(_, o)| matches!(o, Owner::Block(k) if k.level == levels));
    assert!((0..=3).all(indirect), "blocks of all levels");
    assert!(has(|o| matches!(o, Owner::Block(k) if k.fork == Fork::Index)));
    assert!(has(|o| matches!(o, Owner::Block(k) if k.fork == Fork::Xattr)));
    assert!(has(|o| matches!(o, Owner::Map(0, u64::MAX))), "an inode map of two levels");
    let mut count = 0;
    for (range, owner) in &live {
        for at_bytes in range.clone().step_by(SECTOR_BYTES as usize) {
            let mut sector = vec![0; SECTOR_BYTES as usize];
            clinic.image.read(at_bytes, &mut sector);
            count += 1;
            let place = format!("byte {at_bytes}");
            let writes = count % WRITE_EVERY == 0;
            clinic.damage(
                at_bytes,
                &flipped(&sector, at_bytes),
                *owner,
                writes,
                &format!("bit flipped at {place}"),
            );
            if sector.iter().any(|byte| *byte != 0) {
                let zeros = vec![0; SECTOR_BYTES as usize];
                clinic.damage(at_bytes, &zeros, *owner, false, &format!("sector zeroed at {place}"));
            }
        }
    }
    println!("{count} live sectors");
    assert!(count > 500, "{count} live sectors");
}

#[test]
fn an_image_cut_short_anywhere_is_refused_with_both_sizes() {
    let image = patient();
    for device_bytes in (0..VOLUME_BYTES).step_by(61 * 512) {
        let mut bytes = vec![0; device_bytes as usize];
        image.read(0, &mut bytes);
        let mut cut = SparseImage::new(device_bytes);
        cut.write(0, &bytes);
        let error = try_mount(&cut, true).map(drop).unwrap_err();
        let expected = NotFirnfs::Truncated { volume_bytes: VOLUME_BYTES, device_bytes };
        let has_superblock = device_bytes >= 8192;
        match &error {
            OpenError::NotFirnfs(found) if has_superblock => assert_eq!(*found, expected),
            OpenError::NotFirnfs(NotFirnfs::NoSuperblock(_)) => {}
            other => panic!("{device_bytes} bytes: {other}"),
        }
    }
}

#[test]
fn whatever_was_lost_from_a_place_on_is_an_error_and_what_lies_before_it_is_there() {
    let clinic = Clinic::new();
    let slots_end = CHECKPOINT_SLOTS_AT[1] + u64::from(CHECKPOINT_SLOT_BYTES);
    let mut readable = 0;
    for at_bytes in (0..VOLUME_BYTES).step_by(29 * 4096) {
        let mut image = clinic.image.clone();
        image.zero(at_bytes, VOLUME_BYTES - at_bytes);
        let volume = match try_mount(&image, true) {
            Ok((volume, _)) => volume,
            Err(OpenError::Fs(FsError::Corrupt { .. }) | OpenError::NotFirnfs(_)) => continue,
            Err(error) => panic!("{error}"),
        };
        if at_bytes < slots_end {
            // Of two checkpoints the older may be the one that is left: all that is asked is that nothing panics.
            let _errors = survey(&volume, BOUNDS).errors().count();
            continue;
        }
        for (ino, right) in &clinic.whole {
            for (aspect, answer) in look_at(&volume, *ino, BOUNDS) {
                if let Ok(bytes) = answer {
                    let right = right.get(&aspect).map(|right| right.as_ref().unwrap());
                    let is_right = right.map_or(bytes.iter().all(|byte| *byte == 0), |right| *right == bytes);
                    assert!(is_right, "zeros from byte {at_bytes}: {aspect:?} of inode {ino}");
                    readable += 1;
                }
            }
        }
    }
    assert!(readable > 0);
}

/// The canary: with a checksum brought up to date after the damage, the judge must see what is wrong.
#[test]
#[should_panic(expected = "wrong")]
fn damage_under_a_right_checksum_does_not_escape_the_judge() {
    let clinic = Clinic::new();
    // Inline content lies in the record, whose pointer is in a leaf of the inode map: both are made to fit.
    let (volume, device) = try_mount(&clinic.image, false).unwrap();
    let ino = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, b"inline", false)).unwrap().ino;
    volume.write(ino, 5, b"?", false).unwrap();
    volume.close().unwrap();
    let mut bytes = AlignedBuf::zeroed(VOLUME_BYTES as usize);
    device.image().read(0, &mut bytes);
    let (volume, _) = try_mount(&device.image(), true).unwrap();
    clinic.judge(&volume, Owner::Record(ino), "canary");
}
