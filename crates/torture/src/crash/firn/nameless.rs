//! Files that stay open after they lost a name, and files made without one: they keep their content while they are held, and
//! a crash frees those without a name.

use super::{CALLER, FILE_MODE, OpenVolume};
use crate::crash::op::pattern;
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::store::Scope;
use firnfs_format::InodeNo;

impl<S: Engine> OpenVolume<S> {
    pub(super) fn unlink_open(&mut self, path: &str) -> Result<(), FsError> {
        let ino = self.find(path)?;
        if self.volume.run(|vfs, _| vfs.getattr(ino))?.kind != Kind::Regular {
            return Err(FsError::Invalid("not a regular file"));
        }
        let (parent, name) = self.parent(path)?;
        if self.nameless.iter().all(|(held, _)| *held != ino) {
            self.volume.run(|vfs, _| vfs.hold(ino))?;
            self.nameless.push((ino, None));
        }
        self.volume.run(|vfs, now| vfs.unlink(now, parent, name))
    }

    /// Appends to each open file without a name, and compares its whole content with the content at the first call. After a
    /// refused write, a part of it may be there.
    pub(super) fn use_open(&mut self, len_bytes: u64, tag: u64) -> Result<(), FsError> {
        let mut nameless = std::mem::take(&mut self.nameless);
        let done = nameless.iter_mut().try_for_each(|(ino, known)| {
            if self.volume.run(|vfs, _| vfs.getattr(*ino))?.nlink > 0 {
                return Ok(());
            }
            let mut content = known.take().map_or_else(|| self.content(*ino), Ok)?;
            let at_bytes = content.len() as u64;
            let bytes = pattern(tag, at_bytes, len_bytes);
            let written = self.volume.write_all(*ino, at_bytes, &bytes, false);
            content.extend(bytes);
            let found = self.content(*ino)?;
            let is_whole = written.is_err() || found.len() == content.len();
            if !is_whole || !content.starts_with(&found) {
                return Err(FsError::Io(format!("inode {ino}, open without a name, lost its content")));
            }
            *known = Some(found);
            written
        });
        self.nameless = nameless;
        done
    }

    pub(super) fn close_open(&mut self) -> Result<(), FsError> {
        while let Some((ino, _)) = self.nameless.pop() {
            self.volume.run(|vfs, now| vfs.forget(now, ino, 1))?;
        }
        while let Some(ino) = self.unnamed.pop_front() {
            self.volume.run(|vfs, now| vfs.forget(now, ino, 1))?;
        }
        Ok(())
    }

    /// If there is no room for a file, it is not there.
    pub(super) fn make_unnamed(&mut self, len_bytes: u64, tag: u64) -> Result<(), FsError> {
        let made = self.volume.run(|vfs, now| vfs.make_unnamed(now, CALLER, InodeNo::ROOT, FILE_MODE))?.ino;
        let written = self.volume.write_all(made, 0, &pattern(tag, 0, len_bytes), false);
        match written {
            Ok(()) => self.unnamed.push_back(made),
            Err(_) => self.volume.run(|vfs, now| vfs.forget(now, made, 1))?,
        }
        written
    }

    pub(super) fn fsync_unnamed(&self) -> Result<(), FsError> {
        if self.unnamed.is_empty() {
            return Err(FsError::NotFound);
        }
        self.unnamed.iter().try_for_each(|ino| self.volume.sync(Scope::File(*ino)))
    }

    pub(super) fn link_unnamed(&mut self, to: &str) -> Result<(), FsError> {
        let ino = *self.unnamed.front().ok_or(FsError::NotFound)?;
        let (parent, name) = self.parent(to)?;
        self.volume.run(|vfs, now| vfs.link(now, ino, parent, name, false))?;
        self.unnamed.pop_front();
        self.volume.run(|vfs, now| vfs.forget(now, ino, 1))
    }

    pub(super) fn content(&self, ino: InodeNo) -> Result<Vec<u8>, FsError> {
        let attr = self.volume.run(|vfs, _| vfs.getattr(ino))?;
        let mut content = vec![0; attr.size_bytes as usize];
        let len = self.volume.read(ino, 0, &mut content)?;
        content.truncate(len);
        Ok(content)
    }
}
