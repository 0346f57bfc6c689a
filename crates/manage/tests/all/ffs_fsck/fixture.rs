//! A Fast File System with one object of each kind, ways to damage it, and the tree that is left.

use firnfs::check::ffs::FfsReport;
use firnfs::dirent;
use firnfs::ffs::{Ffs, MkfsOptions, Options};
use firnfs::inode::Kind;
use firnfs::vfs::{AtimeMode, Caller, NewNode, XattrMode};
use firnfs_device::{Clock, Device, MemDevice, SparseImage};
use firnfs_format::ffs::inode::DINODE_BYTES;
use firnfs_format::ffs::superblock::COPY_AT_BYTES;
use firnfs_format::ffs::{Descriptor, Dinode, Summary, Superblock, VolumeLayout};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{check_ffs, format_ffs, open_ffs};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::collections::BTreeMap;
use std::sync::Arc;

pub const BLOCK: usize = 4096;
const SIZE_BYTES: u64 = 12 << 20;
const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0o022 };

/// The file that a path leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    pub ino: InodeNo,
    pub kind: Kind,
    pub nlink: u32,
    pub content: Vec<u8>,
    pub xattrs: Vec<u8>,
}

pub type Tree = BTreeMap<String, Seen>;

/// An image that is damaged, and what was on it.
#[derive(Clone)]
pub struct Fixture {
    pub image: SparseImage,
    pub layout: VolumeLayout,
    pub tree: Tree,
}

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::at(3_000_000_000))
}

pub fn mount(device: &Arc<dyn Device>) -> Volume<Ffs> {
    open_ffs(device.clone(), Options::default(), AtimeMode::Noatime, clock()).unwrap()
}

pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (seed.wrapping_mul(31).wrapping_add(i * 7 + (i >> 9)) >> 1) as u8 | 1).collect()
}

pub fn make(volume: &Volume<Ffs>, parent: InodeNo, name: &str, kind: Kind) -> InodeNo {
    let target: &[u8] = if kind == Kind::Symlink { b"../f" } else { b"" };
    let node = NewNode { kind, mode: 0o755, rdev: 0, target };
    volume.run(|vfs, now| vfs.make(now, CALLER, parent, name.as_bytes(), node, false)).unwrap().ino
}

pub fn file(volume: &Volume<Ffs>, parent: InodeNo, name: &str, content: &[u8]) -> InodeNo {
    let ino = make(volume, parent, name, Kind::Regular);
    volume.write_all(ino, 0, content, false).unwrap();
    ino
}

fn fill(volume: &Volume<Ffs>) {
    let root = InodeNo::ROOT;
    let dir = make(volume, root, "dir", Kind::Directory);
    let sub = make(volume, dir, "sub", Kind::Directory);
    let deep = make(volume, sub, "deep", Kind::Directory);
    file(volume, root, "small", b"a few bytes");
    file(volume, dir, "blocks", &pattern(1, 8 * BLOCK));
    file(volume, sub, "large", &pattern(2, 60 * BLOCK + 77));
    file(volume, deep, "deep file", &pattern(3, 3 * BLOCK + 5));
    make(volume, deep, "link", Kind::Symlink);
    make(volume, dir, "pipe", Kind::Fifo);
    let shared = file(volume, dir, "shared", &pattern(4, 2 * BLOCK));
    let link = |ino, parent, name: &str| {
        volume.run(|vfs, now| vfs.link(now, ino, parent, name.as_bytes(), false)).unwrap();
    };
    link(shared, sub, "shared too");
    // A directory with an index: many names of one file.
    let wide = make(volume, root, "wide", Kind::Directory);
    let many = file(volume, root, "many names", b"one file");
    (0..500).for_each(|n| link(many, wide, &format!("a name in the wide directory {n}")));
    let attributed = file(volume, root, "attributed", b"with attributes");
    let value = pattern(5, 6000);
    volume.run(|vfs, now| vfs.setxattr(now, attributed, b"user.a", &value, XattrMode::Any)).unwrap();
}

impl Fixture {
    /// Unmounted and sound.
    pub fn new() -> Self {
        let options = MkfsOptions {
            block_bytes: BLOCK as u32,
            frag_bytes: 512,
            group_bytes: Some(4 << 20),
            bytes_per_inode: 16 << 10,
            uuid: [9; 16],
            hash_key: [1, 2],
            now: TimeNs(1_000_000_000),
            ..MkfsOptions::with_size(SIZE_BYTES)
        };
        let memory = Arc::new(MemDevice::new(SIZE_BYTES));
        format_ffs(&*memory, &options).unwrap();
        let volume = mount(&(memory.clone() as Arc<dyn Device>));
        fill(&volume);
        let tree = walk(&volume);
        volume.close().unwrap();
        let image = memory.image();
        let mut sb = [0; 512];
        image.read(COPY_AT_BYTES, &mut sb);
        let layout = Superblock::decode(&sb).unwrap().layout;
        assert_eq!(check(&image).findings, [], "sound at first");
        Self { image, layout, tree }
    }

    pub fn ino(&self, path: &str) -> InodeNo {
        if path.is_empty() { InodeNo::ROOT } else { self.tree[path].ino }
    }

    /// A file's first byte on the device: of a fragment.
    pub fn at(&self, addr: u32) -> u64 {
        u64::from(addr) * u64::from(self.layout.frag_bytes)
    }

    pub fn group_at(&self, group: u32) -> u64 {
        self.at(group * self.layout.group_frags)
    }

    pub fn edit(&mut self, at_bytes: u64, len: usize, edit: impl FnOnce(&mut [u8])) {
        let mut bytes = vec![0; len];
        self.image.read(at_bytes, &mut bytes);
        edit(&mut bytes);
        self.image.write(at_bytes, &bytes);
    }

    /// Changes a copy of the superblock, its checksum included.
    pub fn edit_superblock(&mut self, group: u32, edit: impl FnOnce(&mut Superblock)) {
        self.edit(self.group_at(group) + COPY_AT_BYTES, 512, |bytes| {
            let mut sb = Superblock::decode(bytes).unwrap();
            edit(&mut sb);
            bytes.copy_from_slice(&sb.encode());
        });
    }

    pub fn inode_at(&self, ino: InodeNo) -> u64 {
        let (group, at) = (ino.0 as u32 / self.layout.group_inodes, ino.0 as u32 % self.layout.group_inodes);
        self.group_at(group) + self.at(self.layout.inodes_at()) + u64::from(at) * DINODE_BYTES as u64
    }

    pub fn edit_number(&mut self, ino: InodeNo, edit: impl FnOnce(&mut Dinode)) {
        self.edit(self.inode_at(ino), DINODE_BYTES, |bytes| {
            let mut inode = Dinode::decode(bytes).unwrap();
            edit(&mut inode);
            bytes.copy_from_slice(&inode.encode());
        });
    }

    pub fn edit_inode(&mut self, path: &str, edit: impl FnOnce(&mut Dinode)) {
        self.edit_number(self.ino(path), edit);
    }

    pub fn inode(&self, path: &str) -> Dinode {
        let mut bytes = [0; DINODE_BYTES];
        self.image.read(self.inode_at(self.ino(path)), &mut bytes);
        Dinode::decode(&bytes).unwrap()
    }

    pub fn edit_descriptor(&mut self, group: u32, edit: impl FnOnce(&mut Descriptor)) {
        let (at, layout) = (self.group_at(group) + self.at(self.layout.descriptor_at()), self.layout);
        self.edit(at, BLOCK, |bytes| {
            let mut descriptor = Descriptor::decode(&layout, group, bytes).unwrap();
            edit(&mut descriptor);
            bytes.copy_from_slice(&descriptor.encode(&layout, 0));
        });
    }

    pub fn edit_summary(&mut self, group: u32, edit: impl FnOnce(&mut Summary)) {
        self.edit(self.at(self.layout.summaries_at()) + u64::from(group) * 16, 16, |bytes| {
            let mut summary = Summary::decode((&*bytes).try_into().unwrap());
            edit(&mut summary);
            bytes.copy_from_slice(&summary.encode());
        });
    }

    /// Changes a block that a pointer in an inode leads to.
    pub fn edit_block(&mut self, path: &str, fork: usize, slot: usize, edit: impl FnOnce(&mut [u8])) {
        let addr = self.inode(path).roots[fork][slot];
        assert_ne!(addr, 0, "{path} has such a block");
        self.edit(self.at(addr), BLOCK, edit);
    }

    /// Changes the record of a name in the first block of a directory.
    pub fn edit_entry(&mut self, dir: &str, name: &str, edit: impl FnOnce(&mut [u8])) {
        self.edit_block(dir, 0, 0, |block| {
            let at = block.chunks(512).enumerate().find_map(|(unit, bytes)| {
                let records = dirent::records(bytes).map(Result::unwrap);
                let found = records.into_iter().find(|record| record.name == name.as_bytes())?;
                Some(unit * 512 + found.at)
            });
            edit(&mut block[at.unwrap_or_else(|| panic!("no {name} in the first block of {dir}"))..]);
        });
    }
}

pub fn check(image: &SparseImage) -> FfsReport {
    check_ffs(&MemDevice::from_image(image.clone())).unwrap()
}

/// The whole tree of a volume, by path.
pub fn walk(volume: &Volume<Ffs>) -> Tree {
    let mut tree = Tree::new();
    let mut todo = vec![(String::new(), InodeNo::ROOT)];
    while let Some((path, dir)) = todo.pop() {
        for (name, ino) in list(volume, dir) {
            let attr = volume.run(|vfs, now| vfs.lookup(now, dir, name.as_bytes(), false));
            assert_eq!(attr.unwrap().ino, ino, "{name:?} is found as it is listed");
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            let seen = look(volume, ino);
            if seen.kind == Kind::Directory {
                todo.push((path.clone(), ino));
            }
            tree.insert(path, seen);
        }
    }
    tree
}

/// The entries of a directory. A listing ends early if a block has to be read first.
fn list(volume: &Volume<Ffs>, dir: InodeNo) -> Vec<(String, InodeNo)> {
    let (mut children, mut cookie) = (Vec::new(), 0);
    loop {
        let last = cookie;
        let mut visit = |entry: firnfs::vfs::DirEntry<'_>| {
            if entry.name != b"." && entry.name != b".." {
                children.push((String::from_utf8_lossy(entry.name).into_owned(), entry.ino));
            }
            cookie = entry.next;
            true
        };
        volume.run(|vfs, now| vfs.readdir(now, dir, last, &mut visit)).unwrap();
        if cookie == last {
            return children;
        }
    }
}

fn look(volume: &Volume<Ffs>, ino: InodeNo) -> Seen {
    let attr = volume.run(|vfs, _| vfs.getattr(ino)).unwrap();
    let content = match attr.kind {
        Kind::Regular => {
            let mut content = vec![0; attr.size_bytes as usize];
            volume.read(ino, 0, &mut content).unwrap();
            content
        }
        Kind::Symlink => volume.run(|vfs, now| vfs.readlink(now, ino)).unwrap(),
        _ => Vec::new(),
    };
    let names = volume.run(|vfs, _| vfs.listxattr(ino)).unwrap();
    let xattrs = names.split(|b| *b == 0).filter(|n| !n.is_empty()).flat_map(|name| {
        let value = volume.run(|vfs, _| vfs.getxattr(ino, name)).unwrap();
        [name, &value].concat()
    });
    Seen { ino, kind: attr.kind, nlink: attr.nlink, content, xattrs: xattrs.collect() }
}
