//! A volume with one object of each kind, and the judgement of the tree that a repair leaves.

use firnfs::check::{From, Report, Severity};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::Scope;
use firnfs::vfs::{AtimeMode, Caller, NewNode, XattrMode};
use firnfs_device::{Clock, Device, MemDevice};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{Outcome, Repaired, check, format, open, repair};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0o022 };
pub const SIZE_BYTES: u64 = 64 << 20;
pub const BLOCK: usize = 4096;

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

pub struct Fixture {
    pub device: Arc<dyn Device>,
    pub tree: Tree,
}

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(VirtualClock::at(3_000_000_000))
}

pub fn mount(device: &Arc<dyn Device>) -> Volume<Lfs> {
    open(device.clone(), Options::default(), AtimeMode::Noatime, clock()).unwrap()
}

pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (seed.wrapping_mul(31).wrapping_add(i * 7 + (i >> 9)) >> 1) as u8 | 1).collect()
}

pub fn make(volume: &Volume<Lfs>, parent: InodeNo, name: &str, kind: Kind) -> InodeNo {
    let node =
        NewNode { kind, mode: 0o755, rdev: 0, target: if kind == Kind::Symlink { b"../f" } else { b"" } };
    volume.run(|vfs, now| vfs.make(now, CALLER, parent, name.as_bytes(), node, false)).unwrap().ino
}

pub fn file(volume: &Volume<Lfs>, parent: InodeNo, name: &str, content: &[u8]) -> InodeNo {
    let ino = make(volume, parent, name, Kind::Regular);
    volume.write(ino, 0, content, false).unwrap();
    ino
}

fn fill(volume: &Volume<Lfs>) {
    let root = InodeNo::ROOT;
    let dir = make(volume, root, "dir", Kind::Directory);
    let sub = make(volume, dir, "sub", Kind::Directory);
    let deep = make(volume, sub, "deep", Kind::Directory);
    file(volume, root, "small", b"a few bytes");
    file(volume, dir, "blocks", &pattern(1, 8 * BLOCK));
    file(volume, sub, "large", &pattern(2, 400 * BLOCK + 77));
    file(volume, deep, "deep file", &pattern(3, 3 * BLOCK + 5));
    make(volume, deep, "link", Kind::Symlink);
    make(volume, dir, "pipe", Kind::Fifo);
    let shared = file(volume, dir, "shared", &pattern(4, 2 * BLOCK));
    let link = |ino, parent, name: &str| {
        volume.run(|vfs, now| vfs.link(now, ino, parent, name.as_bytes(), false)).unwrap();
    };
    link(shared, sub, "shared too");
    // A directory in blocks, and one with an index of several nodes: many names of few files.
    let medium = make(volume, root, "medium", Kind::Directory);
    let many = file(volume, root, "many names", b"one file");
    (0..150).for_each(|n| link(many, medium, &format!("medium name {n}")));
    let wide = make(volume, root, "wide", Kind::Directory);
    (0..3000).for_each(|n| link(many, wide, &format!("a name in the wide directory {n}")));
    let set = |ino, name: &str, value: &[u8]| {
        let name = name.as_bytes();
        volume.run(|vfs, now| vfs.setxattr(now, ino, name, value, XattrMode::Any)).unwrap();
    };
    set(shared, "user.small", b"value");
    let attributed = file(volume, root, "attributed", b"with attributes in blocks");
    set(attributed, "user.a", &pattern(5, 3000));
    set(attributed, "user.b", &pattern(6, 9000));
    volume.sync(Scope::All).unwrap();
}

impl Fixture {
    /// Cleanly unmounted.
    pub fn new() -> Self {
        let device: Arc<dyn Device> = Arc::new(MemDevice::new(SIZE_BYTES));
        let options = MkfsOptions {
            size_bytes: SIZE_BYTES,
            block_bytes: BLOCK as u32,
            segment_bytes: 1 << 20,
            physical_block_bytes: 4096,
            inline_max_bytes: 2048,
            label: "fsck".to_owned(),
            uuid: [9; 16],
            hash_key: [1, 2],
            now: TimeNs(1_000_000_000),
            root_owner: (0, 0),
        };
        format(&*device, &options).unwrap();
        let volume = mount(&device);
        fill(&volume);
        let tree = walk(&volume);
        volume.close().unwrap();
        let fixture = Self { device, tree };
        assert_eq!(fixture.codes(), BTreeSet::new(), "sound at first");
        fixture
    }

    pub fn ino(&self, path: &str) -> InodeNo {
        if path.is_empty() { InodeNo::ROOT } else { self.tree[path].ino }
    }

    pub fn check(&self) -> Report {
        check(&*self.device, From::Newest, &mut |_| {}).unwrap()
    }

    pub fn codes(&self) -> BTreeSet<&'static str> {
        self.check().findings.iter().map(|finding| finding.describe().code).collect()
    }

    /// Changes the mounted volume, and unmounts it.
    pub fn with_volume<T>(&self, work: impl FnOnce(&Volume<Lfs>) -> T) -> T {
        let volume = mount(&self.device);
        let result = work(&volume);
        volume.close().unwrap();
        result
    }

    pub fn repair(&self) -> Repaired {
        repair(&self.device, &clock(), &mut |_| true, &mut |_| {}).unwrap()
    }

    /// Asserts that the damaged volume shows exactly these kinds of findings; that a repair leaves none; and that every
    /// path except the `lost` ones, each with everything below it, leads to the same file as before. Returns the final
    /// tree.
    pub fn is_repaired(&self, codes: &[&'static str], lost: &[&str]) -> Tree {
        let report = self.check();
        let told: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert_eq!(self.codes(), codes.iter().copied().collect(), "{told:#?}");
        let repaired = self.repair();
        let undone: Vec<_> = repaired.actions.iter().filter(|a| a.outcome != Outcome::Repaired).collect();
        assert!(undone.is_empty(), "{undone:#?}");
        assert_eq!(repaired.before, report);
        let left: Vec<String> = repaired.after.findings.iter().map(ToString::to_string).collect();
        assert!(repaired.after.is_clean(), "{told:#?} left {left:#?}");
        let tree = self.with_volume(walk);
        let is_lost =
            |path: &str| lost.iter().any(|lost| path == *lost || path.starts_with(&format!("{lost}/")));
        for (path, seen) in self.tree.iter().filter(|(path, _)| !is_lost(path)) {
            let now = tree.get(path).unwrap_or_else(|| panic!("{path:?} is gone"));
            assert_eq!((now.ino, now.kind), (seen.ino, seen.kind), "{path:?}");
            assert!(now.content == seen.content && now.xattrs == seen.xattrs, "content of {path:?}");
        }
        self.still_works();
        tree
    }

    fn still_works(&self) {
        self.with_volume(|volume| {
            for n in 0..40 {
                file(volume, InodeNo::ROOT, &format!("new {n}"), &pattern(n, 20_000));
            }
            let wide = volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, b"wide", false));
            if let Ok(wide) = wide {
                file(volume, wide.ino, "new", b"in the wide directory");
            }
            for n in 0..40 {
                let name = format!("new {n}");
                volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, name.as_bytes())).unwrap();
            }
        });
        let report = self.check();
        let worst = report.findings.iter().map(|finding| finding.severity()).max();
        assert!(worst < Some(Severity::Copy), "{:#?}", report.findings);
    }
}

/// The whole tree of a volume, by path.
pub fn walk(volume: &Volume<Lfs>) -> Tree {
    let mut tree = Tree::new();
    let mut todo = vec![(String::new(), InodeNo::ROOT)];
    while let Some((path, dir)) = todo.pop() {
        let children = list(volume, dir);
        for (name, ino) in children {
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            let attr = volume
                .run(|vfs, now| vfs.lookup(now, dir, path.rsplit('/').next().unwrap().as_bytes(), false));
            assert_eq!(attr.unwrap().ino, ino, "{path:?} is found as it is listed");
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
fn list(volume: &Volume<Lfs>, dir: InodeNo) -> Vec<(String, InodeNo)> {
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

fn look(volume: &Volume<Lfs>, ino: InodeNo) -> Seen {
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
