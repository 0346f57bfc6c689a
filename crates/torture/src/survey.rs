//! `survey`: everything readable on a volume, with errors for the rest.
//!
//! To judge a damaged volume, compare two surveys: results that both have must be equal, and an error in one must belong
//! to the damage. The work is bounded, whatever the volume contains: a hostile one may have directories that contain
//! themselves and files of petabytes. Callers: the tests of damage and of faults, the fuzzer of images.

use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::vfs::{Attr, Seek};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_volume::Volume;
use std::collections::BTreeMap;

/// Unit in which content is read, in bytes.
pub const BLOCK_BYTES: u64 = 4096;

/// How much to examine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Inodes.
    pub inodes_max: usize,
    /// Entries of one directory.
    pub entries_max: usize,
    /// Every n-th entry is also looked up by its name; at least 1.
    pub lookup_every: usize,
    /// Blocks of one file, errors included.
    pub blocks_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { inodes_max: 10_000, entries_max: 10_000, lookup_every: 1, blocks_max: 10_000 }
    }
}

/// One question about an inode.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Aspect {
    /// getattr, without the access time.
    Attributes,
    /// readdir to the end.
    Listing,
    /// lookup of a name that the listing has.
    Lookup(Vec<u8>),
    /// The extents of the data, up to the error that ended them.
    Extents(u64),
    /// A block of content, by number.
    Block(u64),
    /// readlink.
    Target,
    /// listxattr.
    XattrNames,
    /// getxattr of a name that listxattr has.
    Xattr(Vec<u8>),
}

/// The answer: bytes that are equal if the answers are.
pub type Answer = Result<Vec<u8>, FsError>;

/// All answers of one inode.
pub type Answers = BTreeMap<Aspect, Answer>;

/// Everything found from the root down, by inode.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Survey {
    /// Answers by inode.
    pub inodes: BTreeMap<InodeNo, Answers>,
    /// Paths by which inodes were found; the root's is empty, and parts are joined with '/'.
    pub paths: BTreeMap<Vec<u8>, InodeNo>,
}

impl Survey {
    /// Everything that could not be read.
    pub fn errors(&self) -> impl Iterator<Item = (InodeNo, &Aspect, &FsError)> {
        self.inodes.iter().flat_map(|(ino, answers)| {
            answers.iter().filter_map(|(aspect, answer)| Some((*ino, aspect, answer.as_ref().err()?)))
        })
    }
}

/// Asks every question about every inode that can be reached from the root.
pub fn survey<S: Engine>(volume: &Volume<S>, bounds: Bounds) -> Survey {
    survey_from(volume, InodeNo::ROOT, bounds)
}

/// The same from another directory down, such as that of a retained point.
pub fn survey_from<S: Engine>(volume: &Volume<S>, root: InodeNo, bounds: Bounds) -> Survey {
    let mut found = Survey::default();
    let mut pending = vec![(Vec::new(), root)];
    while let Some((path, ino)) = pending.pop() {
        if found.inodes.len() >= bounds.inodes_max || found.paths.len() >= bounds.inodes_max {
            break;
        }
        found.paths.insert(path.clone(), ino);
        if found.inodes.contains_key(&ino) {
            continue;
        }
        let mut asked = Asked { volume, ino, bounds, answers: Answers::new() };
        for (name, child) in asked.everything() {
            let mut below = path.clone();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend(name);
            pending.push((below, child));
        }
        found.inodes.insert(ino, asked.answers);
    }
    found
}

/// Asks every question about one inode.
pub fn look_at<S: Engine>(volume: &Volume<S>, ino: InodeNo, bounds: Bounds) -> Answers {
    let mut asked = Asked { volume, ino, bounds, answers: Answers::new() };
    asked.everything();
    asked.answers
}

struct Asked<'v, S: Engine> {
    volume: &'v Volume<S>,
    ino: InodeNo,
    bounds: Bounds,
    answers: Answers,
}

impl<S: Engine> Asked<'_, S> {
    /// Returns the entries, if it is a directory.
    fn everything(&mut self) -> Vec<(Vec<u8>, InodeNo)> {
        let ino = self.ino;
        let attr = self.volume.run(|vfs, _| vfs.getattr(ino));
        let stated = attr.clone().map(|attr| format!("{:?}", Attr { atime: TimeNs(0), ..attr }).into_bytes());
        self.answers.insert(Aspect::Attributes, stated);
        let Ok(attr) = attr else { return Vec::new() };
        self.xattrs();
        match attr.kind {
            Kind::Directory => return self.entries(),
            Kind::Regular => self.content(attr.size_bytes),
            Kind::Symlink => {
                let target = self.volume.run(|vfs, now| vfs.readlink(now, ino));
                self.answers.insert(Aspect::Target, target);
            }
            _ => {}
        }
        Vec::new()
    }

    fn entries(&mut self) -> Vec<(Vec<u8>, InodeNo)> {
        let (ino, most) = (self.ino, self.bounds.entries_max);
        let mut entries: Vec<(Vec<u8>, InodeNo)> = Vec::new();
        let mut cookie = 0;
        let outcome = loop {
            let before = entries.len();
            let mut next = cookie;
            let some = self.volume.run(|vfs, now| {
                entries.truncate(before);
                vfs.readdir(now, ino, cookie, &mut |entry| {
                    next = entry.next;
                    if entry.name != b"." && entry.name != b".." {
                        entries.push((entry.name.to_vec(), entry.ino));
                    }
                    entries.len() < before + 64
                })
            });
            match some {
                Err(error) => break Err(error),
                Ok(_) if next == cookie || entries.len() >= most => break Ok(()),
                Ok(_) => cookie = next,
            }
        };
        for (name, _) in entries.iter().step_by(self.bounds.lookup_every.max(1)) {
            let child = self.volume.run(|vfs, now| vfs.lookup(now, ino, name, false));
            let child = child.map(|attr| attr.ino.0.to_le_bytes().to_vec());
            self.answers.insert(Aspect::Lookup(name.clone()), child);
        }
        let listed = outcome.map(|()| {
            entries
                .iter()
                .flat_map(|(name, ino)| [name.as_slice(), &[0], &ino.0.to_le_bytes()].concat())
                .collect()
        });
        self.answers.insert(Aspect::Listing, listed);
        entries
    }

    fn content(&mut self, size_bytes: u64) {
        let ino = self.ino;
        let mut at_bytes = 0;
        for _ in 0..self.bounds.blocks_max {
            if at_bytes >= size_bytes {
                return;
            }
            let block = match self.volume.run(|vfs, _| vfs.seek(ino, at_bytes, Seek::Data)) {
                Ok(data) => data / BLOCK_BYTES,
                Err(FsError::NoData) => return,
                Err(error) => {
                    let block = at_bytes / BLOCK_BYTES;
                    self.answers.insert(Aspect::Extents(block), Err(error));
                    block
                }
            };
            let mut bytes = vec![0; BLOCK_BYTES as usize];
            let read = self.volume.read(ino, block * BLOCK_BYTES, &mut bytes);
            self.answers.insert(Aspect::Block(block), read.map(|len| bytes[..len].to_vec()));
            at_bytes = (block + 1).saturating_mul(BLOCK_BYTES);
        }
    }

    fn xattrs(&mut self) {
        let ino = self.ino;
        let names = self.volume.run(|vfs, _| vfs.listxattr(ino));
        for name in names.iter().flat_map(|names| names.split(|&byte| byte == 0)).filter(|n| !n.is_empty()) {
            let value = self.volume.run(|vfs, _| vfs.getxattr(ino, name));
            self.answers.insert(Aspect::Xattr(name.to_vec()), value);
        }
        self.answers.insert(Aspect::XattrNames, names);
    }
}
