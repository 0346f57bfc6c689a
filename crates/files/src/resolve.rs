//! Paths to inodes, within one operation of the core: the caller holds the lock, so no name changes on the way.
//!
//! Bounds: a path has at most [`PATH_MAX_BYTES`], and resolving it follows at most [`LINKS_MAX`] symbolic links, whose targets the
//! core bounds likewise. Callers: `names`, `open_options`, `directory`.

use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::vfs::{Attr, Vfs};
use firnfs::{FsError, Outcome};
use firnfs_format::{InodeNo, TimeNs};

/// PATH_MAX less its NUL.
const PATH_MAX_BYTES: usize = 4095;
/// As many as the kernel follows.
const LINKS_MAX: u32 = 40;

/// Whether a symbolic link at the end of a path stands for its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Links {
    Follow,
    Keep,
}

/// The end of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Last<'p> {
    /// The directory of the last component.
    pub(crate) dir: InodeNo,
    /// The last component; `None` if the path names the root.
    pub(crate) name: Option<&'p [u8]>,
    /// A `/` follows it: it must be a directory.
    pub(crate) has_slash: bool,
}

impl<'p> Last<'p> {
    /// Directory and name, for operations that change names.
    pub(crate) fn named(&self, at_root: FsError) -> Outcome<(InodeNo, &'p [u8])> {
        Ok((self.dir, self.name.ok_or(at_root)?))
    }
}

/// One resolution.
pub(crate) struct Resolver<'a, S: Engine> {
    pub(crate) vfs: &'a mut Vfs<S>,
    now: TimeNs,
    links_left: u32,
}

impl<'a, S: Engine> Resolver<'a, S> {
    pub(crate) fn new(vfs: &'a mut Vfs<S>, now: TimeNs) -> Self {
        Self { vfs, now, links_left: LINKS_MAX }
    }

    /// The inode that a path names, seen from `dir`.
    pub(crate) fn resolve(&mut self, dir: InodeNo, path: &[u8], links: Links) -> Outcome<Attr> {
        let last = self.last(dir, path)?;
        let Some(name) = last.name else { return self.vfs.getattr(last.dir) };
        let mut attr = self.vfs.lookup(self.now, last.dir, name, false)?;
        if attr.kind == Kind::Symlink && (links == Links::Follow || last.has_slash) {
            attr = self.target_of(last.dir, attr.ino)?;
        }
        if last.has_slash && attr.kind != Kind::Directory {
            return Err(FsError::NotDirectory.into());
        }
        Ok(attr)
    }

    /// The directory and the last component of a path, which need not exist.
    pub(crate) fn last<'p>(&mut self, dir: InodeNo, path: &'p [u8]) -> Outcome<Last<'p>> {
        if path.is_empty() {
            return Err(FsError::NotFound.into());
        }
        if path.len() > PATH_MAX_BYTES {
            return Err(FsError::NameTooLong.into());
        }
        let mut dir = if path.starts_with(b"/") { InodeNo::ROOT } else { dir };
        let mut components = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let mut name = components.next();
        for next in components {
            if let Some(above) = name.replace(next) {
                dir = self.enter(dir, above)?;
            }
        }
        Ok(Last { dir, name, has_slash: path.ends_with(b"/") })
    }

    fn enter(&mut self, dir: InodeNo, name: &[u8]) -> Outcome<InodeNo> {
        let attr = self.vfs.lookup(self.now, dir, name, false)?;
        let attr = match attr.kind {
            Kind::Symlink => self.target_of(dir, attr.ino)?,
            _ => attr,
        };
        match attr.kind {
            Kind::Directory => Ok(attr.ino),
            _ => Err(FsError::NotDirectory.into()),
        }
    }

    fn target_of(&mut self, dir: InodeNo, link: InodeNo) -> Outcome<Attr> {
        let target = self.follow(link)?;
        self.resolve(dir, &target, Links::Follow)
    }

    /// The target of a symbolic link that is to be followed.
    pub(crate) fn follow(&mut self, link: InodeNo) -> Outcome<Vec<u8>> {
        let too_many = FsError::Invalid("too many levels of symbolic links");
        self.links_left = self.links_left.checked_sub(1).ok_or(too_many)?;
        self.vfs.readlink(self.now, link)
    }
}
