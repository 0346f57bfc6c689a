//! Names: a file that loses its name goes to a staging directory, new inodes are made there, too, and from there everything gets
//! its names. So no name is in the way of another, and no directory can become its own descendant.

use super::{Receiver, Wrong};
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::store::Scope;
use firnfs::vfs::{Attr, Caller, NewNode, RenameMode, SetAttr, SetTime};
use firnfs_format::{InodeNo, TimeNs};

const ROOT_CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

/// How often to wait for a number whose last file is still being freed.
const WAITS_MAX: u32 = 100;

/// The staging directory: it holds what has no name at the moment.
pub(super) struct Staging {
    pub dir: InodeNo,
    name: Vec<u8>,
    /// Directories in it that the newer state does not have.
    gone: Vec<InodeNo>,
    /// The attributes of the root directory before.
    root: Attr,
}

fn staged_name(ino: InodeNo) -> Vec<u8> {
    ino.0.to_string().into_bytes()
}

impl Receiver<'_> {
    pub(super) fn lose(
        &mut self,
        dir: InodeNo,
        ino: InodeNo,
        is_kept: bool,
        name: &[u8],
    ) -> Result<(), Wrong> {
        let dir = self.users(dir)?;
        let attr = self.volume.run(|vfs, now| vfs.lookup(now, dir, name, false))?;
        if attr.ino != ino || ino == InodeNo::ROOT {
            return Err(Wrong::Frame(format!("a name that leads to inode {}, not {ino}", attr.ino)));
        }
        let is_dir = attr.kind == Kind::Directory;
        let staging = self.staging_dir()?;
        let staged = staged_name(ino);
        if !is_dir && (!is_kept || self.is_staged(ino)?) {
            self.volume.run(|vfs, now| vfs.unlink(now, dir, name))?;
            return Ok(());
        }
        self.volume
            .run(|vfs, now| vfs.rename(now, (dir, name), (staging, &staged), RenameMode::NoReplace))?;
        if let Some(staging) = self.staging.as_mut().filter(|_| !is_kept) {
            staging.gone.push(ino);
        }
        Ok(())
    }

    /// Removes the directories that are gone; they have lost all their names by now.
    pub(super) fn remove_gone(&mut self) -> Result<(), Wrong> {
        let Some(staging) = &mut self.staging else { return Ok(()) };
        let (dir, gone) = (staging.dir, std::mem::take(&mut staging.gone));
        for ino in gone {
            self.volume.run(|vfs, now| vfs.rmdir(now, dir, &staged_name(ino)))?;
        }
        Ok(())
    }

    pub(super) fn make(
        &mut self,
        ino: InodeNo,
        kind: u8,
        (rdev, btime): (u64, TimeNs),
        target: &[u8],
    ) -> Result<(), Wrong> {
        let ino = self.users(ino)?;
        let kind = Kind::from_code(kind).ok_or_else(|| Wrong::Frame(format!("a file of kind {kind}")))?;
        let staging = self.staging_dir()?;
        let node = NewNode { kind, mode: 0o600, rdev, target };
        self.make_numbered(ino, btime, staging, &staged_name(ino), node)
    }

    fn make_numbered(
        &self,
        ino: InodeNo,
        btime: TimeNs,
        parent: InodeNo,
        name: &[u8],
        node: NewNode<'_>,
    ) -> Result<(), Wrong> {
        if ino == InodeNo::ROOT {
            return Err(Wrong::Frame("a second root directory".to_owned()));
        }
        for _ in 0..WAITS_MAX {
            let made = self.volume.run(|vfs, _| {
                vfs.store_mut().want_number(ino)?;
                vfs.make(btime, ROOT_CALLER, parent, name, node, false)
            });
            match made {
                // The file that had the number is gone when its deletion is in the log and all of its blocks are freed.
                Err(FsError::Exists) => {
                    self.volume.sync(Scope::All)?;
                    self.volume.background()?
                }
                made => {
                    made?;
                    return Ok(());
                }
            };
        }
        Err(Wrong::Frame(format!("inode {ino} is there already")))
    }

    pub(super) fn gain(&mut self, dir: InodeNo, ino: InodeNo, name: &[u8]) -> Result<(), Wrong> {
        let (dir, ino) = (self.users(dir)?, self.users(ino)?);
        let attr = self.volume.run(|vfs, _| vfs.getattr(ino))?;
        if attr.kind == Kind::Directory {
            if !self.is_staged(ino)? {
                return Err(Wrong::Frame(format!("a second name for directory {ino}")));
            }
            let staging = self.staging_dir()?;
            let from = staged_name(ino);
            self.volume
                .run(|vfs, now| vfs.rename(now, (staging, &from), (dir, name), RenameMode::NoReplace))?;
        } else {
            self.volume.run(|vfs, now| vfs.link(now, ino, dir, name, false).map(drop))?;
        }
        Ok(())
    }

    /// Everything has its names: removes the names that are left in the staging directory.
    pub(super) fn end_names(&mut self) -> Result<(), Wrong> {
        let Some(Staging { dir, name, root, .. }) = self.staging.take() else { return Ok(()) };
        loop {
            let mut left: Vec<(Vec<u8>, Kind, InodeNo)> = Vec::new();
            self.volume.run(|vfs, now| {
                left.clear();
                vfs.readdir(now, dir, 0, &mut |entry| {
                    if entry.name != b"." && entry.name != b".." {
                        left.push((entry.name.to_vec(), entry.kind, entry.ino));
                    }
                    left.len() < 1_024
                })
            })?;
            if left.is_empty() {
                break;
            }
            for (name, kind, ino) in left {
                let has_name =
                    kind != Kind::Directory && self.volume.run(|vfs, _| vfs.getattr(ino))?.nlink > 1;
                if !has_name {
                    return Err(Wrong::Frame(format!("inode {ino} has no name")));
                }
                self.volume.run(|vfs, now| vfs.unlink(now, dir, &name))?;
            }
        }
        self.volume.run(|vfs, now| vfs.rmdir(now, InodeNo::ROOT, &name))?;
        let times = SetAttr {
            atime: Some(SetTime::At(root.atime)),
            mtime: Some(SetTime::At(root.mtime)),
            ..SetAttr::default()
        };
        self.volume.run(|vfs, _| vfs.setattr(root.ctime, InodeNo::ROOT, times))?;
        Ok(())
    }

    fn is_staged(&self, ino: InodeNo) -> Result<bool, Wrong> {
        let Some(staging) = &self.staging else { return Ok(false) };
        let name = staged_name(ino);
        match self.volume.run(|vfs, now| vfs.lookup(now, staging.dir, &name, false)) {
            Ok(attr) => Ok(attr.ino == ino),
            Err(FsError::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The staging directory. Makes it when it is first needed, with a number that the sending volume had not used.
    fn staging_dir(&mut self) -> Result<InodeNo, Wrong> {
        if let Some(staging) = &self.staging {
            return Ok(staging.dir);
        }
        let root = self.volume.run(|vfs, _| vfs.getattr(InodeNo::ROOT))?;
        let dir = self.users(self.header.next_ino)?;
        let node = NewNode { kind: Kind::Directory, mode: 0o700, rdev: 0, target: &[] };
        let mut name = b".firn-receive".to_vec();
        while self.volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, &name, false)).is_ok() {
            name.push(b'-');
        }
        self.make_numbered(dir, root.ctime, InodeNo::ROOT, &name, node)?;
        self.staging = Some(Staging { dir, name, gone: Vec::new(), root });
        Ok(dir)
    }
}
