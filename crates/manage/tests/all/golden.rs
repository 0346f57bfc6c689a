//! The golden images of format version 1, of the log and of the Fast File System (`golden/ffs.rs`): other programs, and later versions of firnfs, must be able to read it.
//!
//! `golden/v1.sectors` holds the nonzero sectors of a small volume, `golden/v1.txt` lists its content. The image is in the
//! state after a crash that followed a sync, so that it holds a checkpoint and a log after it. Setting
//! `FIRNFS_REGENERATE=1` rewrites the files: do that only for an intended change of the format (see FORMAT.md, versions).
//! Three images of the same volume are never rewritten: `golden/v1-none-wait.sectors` is from before pairs could wait in
//! directory indexes, `golden/v1-reserved-bits.sectors` has bits 1 and 2 set in summaries, as older programs set them, and
//! `golden/v1-records-among-blocks.sectors` is from before records with inline content came behind the blocks of all files (decision 0122).

use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{Allocate, AtimeMode, Caller, NewNode, RenameMode, Seek, SetAttr, SetTime, XattrMode};
use firnfs_device::{Device, MemDevice, SparseImage};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::LogVolume;
use firnfs_manage::{format, open};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod ffs;

const REGENERATE: &str = "FIRNFS_REGENERATE";
const HOW: &str = "If the change of the format is meant, run: FIRNFS_REGENERATE=1 cargo test -p firnfs-manage --test all golden::";
const SIZE_BYTES: u64 = 12 << 20;
const SECTOR: usize = 512;
/// First line of the image file; the volume's size and runs of sectors follow, all little endian:
/// `size u64, (first sector u64, sectors u64, bytes)*`.
const MAGIC: &[u8; 16] = b"firnfs sectors\n\0";

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn pack(image: &SparseImage) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&image.size_bytes().to_le_bytes());
    let mut bytes = vec![0; image.size_bytes() as usize];
    image.read(0, &mut bytes);
    let is_used = |sector: usize| bytes[sector * SECTOR..][..SECTOR].iter().any(|&b| b != 0);
    let sectors = bytes.len() / SECTOR;
    let mut at = 0;
    while at < sectors {
        let end = (at..sectors).find(|&s| !is_used(s)).unwrap_or(sectors);
        if end > at {
            out.extend_from_slice(&(at as u64).to_le_bytes());
            out.extend_from_slice(&((end - at) as u64).to_le_bytes());
            out.extend_from_slice(&bytes[at * SECTOR..end * SECTOR]);
        }
        at = end.max(at + 1);
    }
    out
}

fn unpack(packed: &[u8]) -> SparseImage {
    let (magic, mut rest) = packed.split_at(MAGIC.len());
    assert_eq!(magic, MAGIC, "an image file");
    let word = |rest: &mut &[u8]| {
        let (word, after) = rest.split_first_chunk::<8>().expect("8 more bytes");
        *rest = after;
        u64::from_le_bytes(*word)
    };
    let mut image = SparseImage::new(word(&mut rest));
    while !rest.is_empty() {
        let (first, count) = (word(&mut rest), word(&mut rest));
        let (bytes, after) = rest.split_at(count as usize * SECTOR);
        image.write(first * SECTOR as u64, bytes);
        rest = after;
    }
    image
}

fn mount(device: &Arc<dyn Device>, clock: &Arc<VirtualClock>) -> Volume<Lfs> {
    open(device.clone(), Options::default(), AtimeMode::Noatime, clock.clone()).unwrap()
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (seed.wrapping_mul(31).wrapping_add(i * 7) >> 2) as u8).collect()
}

/// Operations on one volume, a millisecond apart.
struct Session<'a, S: Engine = Lfs> {
    volume: &'a Volume<S>,
    clock: &'a VirtualClock,
}

impl<S: Engine> Session<'_, S> {
    fn tick(&self) {
        self.clock.advance_ms(1);
    }

    fn make(&self, parent: InodeNo, name: &str, node: NewNode<'_>) -> InodeNo {
        self.tick();
        let caller = Caller { uid: 1000, gid: 100, umask: 0o022 };
        self.volume.run(|vfs, now| vfs.make(now, caller, parent, name.as_bytes(), node, false)).unwrap().ino
    }

    fn node(&self, parent: InodeNo, name: &str, kind: Kind, mode: u16) -> InodeNo {
        self.make(parent, name, NewNode { kind, mode, rdev: 0, target: b"" })
    }

    fn file(&self, parent: InodeNo, name: &str, content: &[u8]) -> InodeNo {
        let ino = self.node(parent, name, Kind::Regular, 0o666);
        self.write(ino, 0, content);
        ino
    }

    fn write(&self, ino: InodeNo, at_bytes: u64, content: &[u8]) {
        self.tick();
        self.volume.write(ino, at_bytes, content, false).unwrap();
    }

    fn link(&self, ino: InodeNo, parent: InodeNo, name: &str) {
        self.volume.run(|vfs, now| vfs.link(now, ino, parent, name.as_bytes(), false)).unwrap();
    }

    fn unlink(&self, parent: InodeNo, name: &str) {
        self.volume.run(|vfs, now| vfs.unlink(now, parent, name.as_bytes())).unwrap();
    }

    fn setxattr(&self, ino: InodeNo, name: &str, value: &[u8]) {
        let name = name.as_bytes();
        self.volume.run(|vfs, now| vfs.setxattr(now, ino, name, value, XattrMode::Any)).unwrap();
    }

    fn setattr(&self, ino: InodeNo, set: SetAttr) {
        self.volume.run(|vfs, now| vfs.setattr(now, ino, set)).unwrap();
    }

    fn find(&self, parent: InodeNo, name: &str) -> InodeNo {
        self.volume.run(|vfs, now| vfs.lookup(now, parent, name.as_bytes(), false)).unwrap().ino
    }
}

const ROOT: InodeNo = InodeNo::ROOT;

/// Every file type, every way to store content and attributes, a block map with triple indirect blocks.
fn fill<S: Engine>(s: &Session<'_, S>) {
    let files = s.node(ROOT, "files", Kind::Directory, 0o777);
    for (n, size) in [0usize, 1, 1000, 2048, 2049, 4096, 5000, 53_000].into_iter().enumerate() {
        s.file(files, &format!("{size} bytes"), &pattern(n as u64, size));
    }
    let sparse = s.file(files, "sparse", b"first block");
    for block in [11u64, 12, 12 + 256, 12 + 256 + 65536 + 7] {
        s.write(sparse, block * 4096 + 100, format!("block {block}").as_bytes());
    }
    let reserved = s.file(files, "reserved", b"");
    let mut at = Some(0);
    while let Some(at_bytes) = at {
        at = s
            .volume
            .run(|vfs, now| vfs.fallocate(now, reserved, Allocate::Grow, at_bytes, 20_000 - at_bytes, false))
            .unwrap();
    }
    let special = s.node(ROOT, "special", Kind::Directory, 0o2775);
    s.node(special, "fifo", Kind::Fifo, 0o600);
    s.node(special, "socket", Kind::Socket, 0o600);
    let device = |kind, rdev| NewNode { kind, mode: 0o660, rdev, target: b"" };
    s.make(special, "char", device(Kind::CharDevice, 4 << 32 | 64));
    s.make(special, "block", device(Kind::BlockDevice, 259 << 32 | 7));
    let symlink = |target| NewNode { kind: Kind::Symlink, mode: 0o777, rdev: 0, target };
    s.make(special, "symlink", symlink(b"../files/1 bytes"));
    s.make(special, "long symlink", symlink(&[b'x'; 3000]));
    let named = s.file(ROOT, "names are bytes \u{e9}", b"not only letters");
    s.setxattr(named, "user.small", b"inline");
    s.setxattr(named, "user.large", &pattern(9, 5000));
    s.setxattr(named, "security.capability", &[1, 0, 0, 2, 0, 0, 0, 0]);
    let acl =
        [2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 6, 0, 232, 3, 0, 0, 4, 0, 5, 0, 255, 255, 255];
    let acl: Vec<u8> = acl
        .into_iter()
        .chain([255, 16, 0, 7, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255])
        .collect();
    s.setxattr(special, "system.posix_acl_default", &acl);
    s.node(special, "inherits", Kind::Regular, 0o666);
}

/// A directory in blocks, with and without an index of more than one node; removals; changes after the checkpoint.
fn change<S: Engine>(s: &Session<'_, S>) {
    let files = s.find(ROOT, "files");
    let linked = s.find(files, "1000 bytes");
    let scanned = s.node(ROOT, "scanned", Kind::Directory, 0o777);
    let indexed = s.node(ROOT, "indexed", Kind::Directory, 0o777);
    for n in 0..30 {
        s.link(linked, scanned, &format!("{n:02} {}", "long name ".repeat(10)));
    }
    for n in 0..540 {
        s.link(linked, indexed, &format!("{n:04}"));
    }
    for n in (0..540).step_by(9) {
        s.unlink(indexed, &format!("{n:04}"));
    }
    s.unlink(files, "4096 bytes");
    let moved = (files, b"5000 bytes".as_slice());
    s.volume.run(|vfs, now| vfs.rename(now, moved, (ROOT, b"moved"), RenameMode::NoReplace)).unwrap();
    let truncated = s.find(files, "53000 bytes");
    s.setattr(truncated, SetAttr { size_bytes: Some(50_000), ..SetAttr::default() });
    s.write(truncated, 20_000, b"changed in the middle");
    let old = Some(SetTime::At(TimeNs(-1_000_000_001)));
    let owner = SetAttr { uid: Some(7), gid: Some(8), atime: old, mtime: old, ..SetAttr::default() };
    s.setattr(s.find(files, "2048 bytes"), owner);
}

/// Makes the volume: mkfs, a mount with a clean unmount, a mount that ends in a crash after a sync.
fn build() -> SparseImage {
    let memory = Arc::new(MemDevice::new(SIZE_BYTES));
    let device: Arc<dyn Device> = memory.clone();
    let options = MkfsOptions {
        size_bytes: SIZE_BYTES,
        block_bytes: 4096,
        segment_bytes: 256 << 10,
        physical_block_bytes: 4096,
        inline_max_bytes: 2048,
        label: "golden".to_owned(),
        uuid: *b"golden image v1\n",
        hash_key: [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210],
        now: TimeNs(1_000_000_000_000_000_000),
        root_owner: (0, 0),
    };
    format(&*device, &options).unwrap();
    let clock = Arc::new(VirtualClock::at(1_000_000_001_000_000_000));
    let volume = mount(&device, &clock);
    fill(&Session { volume: &volume, clock: &clock });
    volume.close().unwrap();
    drop(volume);
    clock.advance_ms(1000);
    let volume = mount(&device, &clock);
    change(&Session { volume: &volume, clock: &clock });
    volume.sync(Scope::All).unwrap();
    drop(volume);
    memory.image()
}

/// Everything that a user of the volume can see, one line per name; the attributes are with the first name of an inode.
fn listing(image: &SparseImage) -> String {
    let device: Arc<dyn Device> = Arc::new(MemDevice::from_image(image.clone()));
    let clock = Arc::new(VirtualClock::at(1_000_000_002_000_000_000));
    let volume = mount(&device, &clock);
    let mut out = String::new();
    let recovered = volume.run(|vfs, _| Ok(*vfs.store().recovered())).unwrap();
    writeln!(out, "rolled forward: {} partial segments, {} inodes", recovered.partials, recovered.inodes)
        .unwrap();
    list(&volume, ROOT, "/", &mut BTreeSet::new(), &mut out);
    out
}

fn list<S: Engine>(
    volume: &Volume<S>,
    ino: InodeNo,
    path: &str,
    seen: &mut BTreeSet<InodeNo>,
    out: &mut String,
) {
    if !seen.insert(ino) {
        writeln!(out, "{path} ino={ino}").unwrap();
        return;
    }
    let attr = volume.run(|vfs, _| vfs.getattr(ino)).unwrap();
    write!(
        out,
        "{path} ino={ino} {:?} {:o} nlink={} owner={}:{} rdev={:x} size={} allocated={} generation={:x} mtime={} \
         ctime={} btime={} atime={}",
        attr.kind,
        attr.mode,
        attr.nlink,
        attr.uid,
        attr.gid,
        attr.rdev,
        attr.size_bytes,
        attr.allocated_bytes,
        attr.generation,
        attr.mtime,
        attr.ctime,
        attr.btime,
        attr.atime
    )
    .unwrap();
    let names = volume.run(|vfs, _| vfs.listxattr(ino)).unwrap();
    for name in names.split(|&b| b == 0).filter(|name| !name.is_empty()) {
        let value = volume.run(|vfs, _| vfs.getxattr(ino, name)).unwrap();
        let name = String::from_utf8_lossy(name);
        write!(out, " {name}={}:{:08x}", value.len(), firnfs_format::crc32c(&value)).unwrap();
    }
    match attr.kind {
        Kind::Regular => writeln!(out, " {}", data(volume, ino, attr.size_bytes)).unwrap(),
        Kind::Symlink => {
            let target = volume.run(|vfs, now| vfs.readlink(now, ino)).unwrap();
            writeln!(out, " -> {}", target.escape_ascii()).unwrap();
        }
        Kind::Directory => {
            out.push('\n');
            for (name, child) in entries(volume, ino) {
                let name = name.escape_ascii();
                list(volume, child, &format!("{}/{name}", path.trim_end_matches('/')), seen, out);
            }
        }
        _ => out.push('\n'),
    }
}

fn entries<S: Engine>(volume: &Volume<S>, dir: InodeNo) -> Vec<(Vec<u8>, InodeNo)> {
    let mut found = Vec::new();
    let mut cookie = 2;
    loop {
        let before = found.len();
        volume
            .run(|vfs, now| {
                vfs.readdir(now, dir, cookie, &mut |entry| {
                    found.push((entry.name.to_vec(), entry.ino));
                    cookie = entry.next;
                    true
                })
            })
            .unwrap();
        if found.len() == before {
            return found;
        }
    }
}

/// The data extents of a file, with their checksums.
fn data<S: Engine>(volume: &Volume<S>, ino: InodeNo, size_bytes: u64) -> String {
    let seek = |at, whence| volume.run(|vfs, _| vfs.seek(ino, at, whence));
    let mut out = String::new();
    let mut at = 0;
    while at < size_bytes
        && let Ok(start) = seek(at, Seek::Data)
    {
        let end = seek(start, Seek::Hole).unwrap();
        let mut bytes = vec![0; (end - start) as usize];
        let mut done = 0;
        while done < bytes.len() {
            done += volume.read(ino, start + done as u64, &mut bytes[done..]).unwrap();
        }
        write!(out, "[{start}..{end} {:08x}]", firnfs_format::crc32c(&bytes)).unwrap();
        at = end;
    }
    out
}

fn golden() -> SparseImage {
    image("v1.sectors")
}

fn golden_listing() -> String {
    std::fs::read_to_string(file("v1.txt")).unwrap()
}

fn image(name: &str) -> SparseImage {
    unpack(&std::fs::read(file(name)).unwrap())
}

/// Whether the files are rewritten instead of being compared.
fn regenerates() -> bool {
    std::env::var_os(REGENERATE).is_some()
}

#[test]
fn the_same_operations_write_the_golden_image_byte_for_byte() {
    let built = build();
    if regenerates() {
        std::fs::write(file("v1.sectors"), pack(&built)).unwrap();
        std::fs::write(file("v1.txt"), listing(&built)).unwrap();
        return;
    }
    assert_same(&golden(), &built);
}

fn assert_same(golden: &SparseImage, built: &SparseImage) {
    let mut sectors = [[0; SECTOR], [0; SECTOR]];
    for sector in 0..SIZE_BYTES / SECTOR as u64 {
        golden.read(sector * SECTOR as u64, &mut sectors[0]);
        built.read(sector * SECTOR as u64, &mut sectors[1]);
        let differs = sectors[0].iter().zip(&sectors[1]).position(|(a, b)| a != b);
        assert_eq!(differs, None, "byte in sector {sector} where this code writes something else. {HOW}");
    }
}

fn assert_lists(found: &str, expected: &str) {
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected, "{HOW}");
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{HOW}");
}

#[test]
fn the_golden_image_opens_and_reads_back() {
    if regenerates() {
        return;
    }
    assert_lists(&listing(&golden()), &golden_listing());
}

#[test]
fn content_of_the_golden_image_is_what_was_written() {
    if !regenerates() {
        assert_holds_what_was_written(golden());
    }
}

fn assert_holds_what_was_written(image: SparseImage) {
    let device: Arc<dyn Device> = Arc::new(MemDevice::from_image(image));
    let clock = Arc::new(VirtualClock::at(1_000_000_002_000_000_000));
    let volume = mount(&device, &clock);
    assert_content(&Session { volume: &volume, clock: &clock });
}

fn assert_content<S: Engine>(s: &Session<'_, S>) {
    let volume = s.volume;
    let files = s.find(ROOT, "files");
    let mut expected = pattern(7, 50_000);
    expected[20_000..20_021].copy_from_slice(b"changed in the middle");
    for (dir, name, expected) in [
        (files, "1000 bytes", pattern(2, 1000)),
        (files, "2049 bytes", pattern(4, 2049)),
        (ROOT, "moved", pattern(6, 5000)),
        (files, "53000 bytes", expected),
        (files, "reserved", vec![0; 20_000]),
    ] {
        let mut found = vec![1; expected.len()];
        assert_eq!(volume.read(s.find(dir, name), 0, &mut found).unwrap(), expected.len(), "{name}");
        assert!(found == expected, "{name}");
    }
    let indexed = entries(volume, s.find(ROOT, "indexed"));
    let kept = (0..540).filter(|n| n % 9 != 0).map(|n| format!("{n:04}").into_bytes());
    assert!(indexed.into_iter().map(|e| e.0).eq(kept), "entries stay in the order of their creation");
}

fn an_older_image_reads_back_and_is_sound(name: &str) {
    let image = image(name);
    assert!(golden_listing() == listing(&image), "it has the same content as the golden image");
    assert_holds_what_was_written(image.clone());
    let device: Arc<dyn Device> = Arc::new(MemDevice::from_image(image));
    let clock = Arc::new(VirtualClock::at(1_000_000_002_000_000_000));
    let report = mount(&device, &clock).check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

#[test]
fn an_image_with_the_reserved_bits_of_summaries_set_reads_back_and_is_sound() {
    an_older_image_reads_back_and_is_sound("v1-reserved-bits.sectors");
}

#[test]
fn an_image_with_records_among_the_blocks_of_other_files_reads_back_and_is_sound() {
    an_older_image_reads_back_and_is_sound("v1-records-among-blocks.sectors");
}

#[test]
fn an_image_without_waiting_pairs_in_its_indexes_opens_reads_back_and_grows() {
    let image = image("v1-none-wait.sectors");
    assert_holds_what_was_written(image.clone());
    let device: Arc<dyn Device> = Arc::new(MemDevice::from_image(image));
    let clock = Arc::new(VirtualClock::at(1_000_000_002_000_000_000));
    let volume = mount(&device, &clock);
    let s = Session { volume: &volume, clock: &clock };
    let indexed = s.find(ROOT, "indexed");
    let before = entries(&volume, indexed);
    for n in 0..2_000 {
        s.node(indexed, &format!("younger {n}"), Kind::Regular, 0o666);
    }
    assert_eq!(entries(&volume, indexed).len(), before.len() + 2_000);
    for (name, ino) in &before {
        assert_eq!(s.find(indexed, std::str::from_utf8(name).unwrap()), *ino);
    }
    let report = volume.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}
