//! Operations on paths: `Fs` in the manner of the functions of `std::fs`.

use crate::directory::{ReadDir, Walk};
use crate::error::io_error;
use crate::file::File;
use crate::fs::Fs;
use crate::metadata::{FileTimes, Metadata};
use crate::open_options::OpenOptions;
use crate::resolve::{Last, Links, Resolver};
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::vfs::{Attr, NewNode, RenameMode, SetAttr, Vfs};
use firnfs::{FsError, Outcome};
use firnfs_format::{InodeNo, TimeNs};
use std::io::{self, Read, Write};

/// Bytes that [`Fs::copy`] moves at a time.
const COPIED_AT_ONCE_BYTES: usize = 1 << 20;

impl<S: Engine> Fs<S> {
    fn find(&self, path: &[u8], links: Links) -> Result<Attr, FsError> {
        self.run(|vfs, now| Resolver::new(vfs, now).resolve(InodeNo::ROOT, path, links))
    }

    /// The whole content of a file.
    ///
    /// # Errors
    /// See [`OpenOptions::open`] and [`File::read_at`].
    pub fn read(&self, path: impl AsRef<[u8]>) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        File::open(self, path)?.read_to_end(&mut content)?;
        Ok(content)
    }

    /// Replaces the content of a file, or makes it. Not in one step: for that write another file, sync it and [`Fs::rename`] it.
    ///
    /// # Errors
    /// See [`OpenOptions::open`] and [`File::write_at`].
    pub fn write(&self, path: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> io::Result<()> {
        let mut file = File::create(self, path)?;
        file.write_all(content.as_ref())?;
        file.close()
    }

    /// Copies content and permission bits of a file; returns its length in bytes.
    ///
    /// ```
    /// # let fs = firnfs_files::Fs::format(
    /// #     std::sync::Arc::new(firnfs_device::MemDevice::new(16 << 20)),
    /// #     &firnfs_files::NewVolume::default(),
    /// #     firnfs_files::FsOptions::default(),
    /// # )?;
    /// fs.write("draft", "words")?;
    /// assert_eq!(fs.copy("draft", "copy")?, 5);
    /// assert!(fs.exists("copy")? && !fs.exists("nothing")?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`OpenOptions::open`], [`File::read_at`] and [`File::write_at`]; `InvalidInput` unless `from` is a regular file.
    pub fn copy(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> io::Result<u64> {
        let mut from = File::open(self, from)?;
        let metadata = from.metadata()?;
        if !metadata.is_file() {
            return Err(io_error(FsError::Invalid("only regular files can be copied")));
        }
        let mut to = OpenOptions::write().create().truncate().mode(metadata.mode()).open(self, to)?;
        let mut part = vec![0; COPIED_AT_ONCE_BYTES];
        let mut copied = 0;
        loop {
            match from.read(&mut part)? {
                0 => break,
                len_bytes => {
                    to.write_all(&part[..len_bytes])?;
                    copied += len_bytes as u64;
                }
            }
        }
        to.set_mode(metadata.mode())?;
        to.close()?;
        Ok(copied)
    }

    /// Metadata of what a path names; of the target, if that is a symbolic link.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`; `InvalidData` if a directory or inode is damaged.
    pub fn metadata(&self, path: impl AsRef<[u8]>) -> io::Result<Metadata> {
        self.find(path.as_ref(), Links::Follow).map(Metadata).map_err(io_error)
    }

    /// As [`Fs::metadata`], of a symbolic link itself.
    ///
    /// # Errors
    /// As [`Fs::metadata`].
    pub fn symlink_metadata(&self, path: impl AsRef<[u8]>) -> io::Result<Metadata> {
        self.find(path.as_ref(), Links::Keep).map(Metadata).map_err(io_error)
    }

    /// Whether a path names something; symbolic links are followed.
    ///
    /// # Errors
    /// Anything but `NotFound`.
    pub fn exists(&self, path: impl AsRef<[u8]>) -> io::Result<bool> {
        match self.find(path.as_ref(), Links::Follow) {
            Ok(_) => Ok(true),
            Err(FsError::NotFound) => Ok(false),
            Err(error) => Err(io_error(error)),
        }
    }

    /// Sets the permission bits; symbolic links are followed.
    ///
    /// # Errors
    /// As [`Fs::metadata`]; `StorageFull`, `ReadOnlyFilesystem`.
    pub fn set_mode(&self, path: impl AsRef<[u8]>, mode: u16) -> io::Result<()> {
        self.set(path.as_ref(), SetAttr { mode: Some(mode), ..SetAttr::default() })
    }

    /// Sets user and group; symbolic links are followed.
    ///
    /// ```
    /// # let fs = firnfs_files::Fs::format(
    /// #     std::sync::Arc::new(firnfs_device::MemDevice::new(16 << 20)),
    /// #     &firnfs_files::NewVolume::default(),
    /// #     firnfs_files::FsOptions::default(),
    /// # )?;
    /// use firnfs_files::FileTimes;
    /// use std::time::{Duration, UNIX_EPOCH};
    /// fs.write("file", "")?;
    /// fs.set_mode("file", 0o600)?;
    /// fs.set_owner("file", 1000, 100)?;
    /// let modified = Some(UNIX_EPOCH + Duration::from_secs(1_000_000));
    /// fs.set_times("file", FileTimes { modified, ..FileTimes::default() })?;
    /// let metadata = fs.metadata("file")?;
    /// assert_eq!((metadata.mode(), metadata.owner()), (0o600, (1000, 100)));
    /// assert_eq!(Some(metadata.modified()), modified);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Fs::metadata`]; `StorageFull`, `QuotaExceeded`, `ReadOnlyFilesystem`.
    pub fn set_owner(&self, path: impl AsRef<[u8]>, uid: u32, gid: u32) -> io::Result<()> {
        self.set(path.as_ref(), SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() })
    }

    /// Sets access and modification time; symbolic links are followed.
    ///
    /// # Errors
    /// As [`Fs::metadata`]; `StorageFull`, `ReadOnlyFilesystem`.
    pub fn set_times(&self, path: impl AsRef<[u8]>, times: FileTimes) -> io::Result<()> {
        self.set(path.as_ref(), times.into())
    }

    fn set(&self, path: &[u8], set: SetAttr) -> io::Result<()> {
        let set = SetAttr { kill_set_id: self.caller.uid != 0, ..set };
        let done = self.run(|vfs, now| {
            let ino = Resolver::new(vfs, now).resolve(InodeNo::ROOT, path, Links::Follow)?.ino;
            vfs.setattr(now, ino, set)
        });
        done.map(drop).map_err(io_error)
    }

    /// Makes a directory, with mode 0777 less the caller's umask.
    ///
    /// # Errors
    /// `AlreadyExists`, `NotFound` (the directory above), `NotADirectory`, `StorageFull`, `ReadOnlyFilesystem`.
    pub fn create_dir(&self, path: impl AsRef<[u8]>) -> io::Result<()> {
        let node = NewNode { kind: Kind::Directory, mode: 0o777, rdev: 0, target: b"" };
        self.make(path.as_ref(), node).map_err(io_error)
    }

    /// Makes a directory and all that are missing above it.
    ///
    /// # Errors
    /// As [`Fs::create_dir`]; `AlreadyExists` if a part of the path is not a directory.
    pub fn create_dir_all(&self, path: impl AsRef<[u8]>) -> io::Result<()> {
        let path = path.as_ref();
        let mut missing = vec![path];
        while let Some(next) = missing.last().copied() {
            match self.create_dir(next) {
                // The one above first; an empty path has none.
                Err(e) if e.kind() == io::ErrorKind::NotFound && missing.len() < path.len() => {
                    missing.push(above(next).ok_or(e)?);
                    continue;
                }
                Err(e) if !self.metadata(next).is_ok_and(|found| found.is_dir()) => return Err(e),
                _ => drop(missing.pop()),
            }
        }
        Ok(())
    }

    /// Makes a symbolic link with any target.
    ///
    /// ```
    /// # let fs = firnfs_files::Fs::format(
    /// #     std::sync::Arc::new(firnfs_device::MemDevice::new(16 << 20)),
    /// #     &firnfs_files::NewVolume::default(),
    /// #     firnfs_files::FsOptions::default(),
    /// # )?;
    /// fs.write("file", "content")?;
    /// fs.symlink("file", "link")?;
    /// assert!(fs.symlink_metadata("link")?.is_symlink());
    /// assert_eq!((fs.read_link("link")?, fs.read("link")?), (b"file".to_vec(), b"content".to_vec()));
    /// fs.hard_link("file", "second name")?;
    /// assert_eq!(fs.metadata("file")?.links(), 2);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Fs::create_dir`]; `NotFound` for an empty target, `InvalidFilename` for one of more than 4095 bytes.
    pub fn symlink(&self, target: impl AsRef<[u8]>, link: impl AsRef<[u8]>) -> io::Result<()> {
        let target = target.as_ref();
        if target.is_empty() {
            // Before the path is looked at, as the kernel does.
            return Err(io_error(FsError::NotFound));
        }
        let node = NewNode { kind: Kind::Symlink, mode: 0o777, rdev: 0, target };
        self.make(link.as_ref(), node).map_err(io_error)
    }

    fn make(&self, path: &[u8], node: NewNode<'_>) -> Result<(), FsError> {
        self.run(|vfs, now| {
            let last = Resolver::new(vfs, now).last(InodeNo::ROOT, path)?;
            let (dir, name) = last.named(FsError::Exists)?;
            if last.has_slash && node.kind != Kind::Directory {
                return refuse_slash(vfs, now, dir, name);
            }
            vfs.make(now, self.caller, dir, name, node, false).map(drop)
        })
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// As [`Fs::metadata`]; `InvalidInput` if it is none.
    pub fn read_link(&self, path: impl AsRef<[u8]>) -> io::Result<Vec<u8>> {
        let target = self.run(|vfs, now| {
            let ino = Resolver::new(vfs, now).resolve(InodeNo::ROOT, path.as_ref(), Links::Keep)?.ino;
            vfs.readlink(now, ino)
        });
        target.map_err(io_error)
    }

    /// Gives a file another name. A symbolic link is not followed.
    ///
    /// # Errors
    /// As [`Fs::create_dir`]; `PermissionDenied` for a directory, `TooManyLinks`.
    pub fn hard_link(&self, original: impl AsRef<[u8]>, link: impl AsRef<[u8]>) -> io::Result<()> {
        let done = self.run(|vfs, now| {
            let mut resolver = Resolver::new(vfs, now);
            let ino = resolver.resolve(InodeNo::ROOT, original.as_ref(), Links::Keep)?.ino;
            let last = resolver.last(InodeNo::ROOT, link.as_ref())?;
            let (dir, name) = last.named(FsError::Exists)?;
            if last.has_slash {
                return refuse_slash(vfs, now, dir, name);
            }
            vfs.link(now, ino, dir, name, false).map(drop)
        });
        done.map_err(io_error)
    }

    /// Renames a file or directory, in one step, also across a crash. An existing file, or an empty directory, is replaced.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`, `IsADirectory`, `DirectoryNotEmpty`; `InvalidInput` for a directory into itself; `StorageFull`,
    /// `ReadOnlyFilesystem`.
    pub fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> io::Result<()> {
        self.rename_with(from, to, RenameMode::Replace)
    }

    /// As [`Fs::rename`], but does not replace, or exchanges both.
    ///
    /// ```
    /// # let fs = firnfs_files::Fs::format(
    /// #     std::sync::Arc::new(firnfs_device::MemDevice::new(16 << 20)),
    /// #     &firnfs_files::NewVolume::default(),
    /// #     firnfs_files::FsOptions::default(),
    /// # )?;
    /// use firnfs_files::RenameMode;
    /// fs.write("a", "1")?;
    /// fs.write("b", "2")?;
    /// fs.rename_with("a", "b", RenameMode::NoReplace).unwrap_err();
    /// fs.rename_with("a", "b", RenameMode::Exchange)?;
    /// assert_eq!((fs.read("a")?, fs.read("b")?), (b"2".to_vec(), b"1".to_vec()));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Fs::rename`]; `AlreadyExists` with [`RenameMode::NoReplace`], `NotFound` for either with [`RenameMode::Exchange`].
    pub fn rename_with(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        mode: RenameMode,
    ) -> io::Result<()> {
        let done = self.run(|vfs, now| {
            let mut resolver = Resolver::new(vfs, now);
            let source = resolver.last(InodeNo::ROOT, from.as_ref())?;
            let target = resolver.last(InodeNo::ROOT, to.as_ref())?;
            let root = FsError::Invalid("the root has no name");
            let (from, to) = (source.named(root.clone())?, target.named(root)?);
            if (source.has_slash || target.has_slash)
                && vfs.lookup(now, from.0, from.1, false)?.kind != Kind::Directory
            {
                return Err(FsError::NotDirectory.into());
            }
            vfs.rename(now, from, to, mode)
        });
        done.map_err(io_error)
    }

    /// Removes a name of anything but a directory. The file is freed with its last name, once no [`File`] is open.
    ///
    /// # Errors
    /// `NotFound`, `IsADirectory`, `NotADirectory`, `ReadOnlyFilesystem`; never `StorageFull`.
    pub fn remove_file(&self, path: impl AsRef<[u8]>) -> io::Result<()> {
        let done = self.removing(path.as_ref(), |vfs, now, last, (dir, name)| {
            if last.has_slash && vfs.lookup(now, dir, name, false)?.kind != Kind::Directory {
                return Err(FsError::NotDirectory.into());
            }
            vfs.unlink(now, dir, name)
        });
        done.map_err(io_error)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As [`Fs::remove_file`]; `DirectoryNotEmpty`.
    pub fn remove_dir(&self, path: impl AsRef<[u8]>) -> io::Result<()> {
        self.removing(path.as_ref(), |vfs, now, _, (dir, name)| vfs.rmdir(now, dir, name)).map_err(io_error)
    }

    fn removing<'p>(
        &self,
        path: &'p [u8],
        mut remove: impl FnMut(&mut Vfs<S>, TimeNs, Last<'p>, (InodeNo, &'p [u8])) -> Outcome<()>,
    ) -> Result<(), FsError> {
        self.run(|vfs, now| {
            let last = Resolver::new(vfs, now).last(InodeNo::ROOT, path)?;
            let named = last.named(FsError::Invalid("the root cannot be removed"))?;
            remove(vfs, now, last, named)
        })
    }

    /// Removes a directory with everything in it. Symbolic links are removed, not followed.
    ///
    /// ```
    /// # let fs = firnfs_files::Fs::format(
    /// #     std::sync::Arc::new(firnfs_device::MemDevice::new(16 << 20)),
    /// #     &firnfs_files::NewVolume::default(),
    /// #     firnfs_files::FsOptions::default(),
    /// # )?;
    /// fs.create_dir_all("a/b")?;
    /// fs.write("a/b/file", "")?;
    /// fs.remove_dir("a").unwrap_err(); // it is not empty
    /// fs.remove_file("a/b/file")?;
    /// fs.remove_dir("a/b")?;
    /// fs.remove_dir_all("a")?;
    /// assert_eq!(fs.read_dir("/")?.count(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Fs::remove_dir`]; entries removed before the error stay removed. `DirectoryNotEmpty` if others make entries meanwhile.
    pub fn remove_dir_all(&self, path: impl AsRef<[u8]>) -> io::Result<()> {
        let path = path.as_ref();
        let mut open = vec![(ReadDir::open(self, path, Links::Keep)?, None)];
        while let Some((top, _)) = open.last_mut() {
            match top.next().transpose()? {
                Some(entry) if entry.kind() == Kind::Directory => {
                    let below = entry.read()?;
                    open.push((below, Some(entry)));
                }
                Some(entry) => {
                    let done = self.run(|vfs, now| vfs.unlink(now, entry.dir(), entry.name()));
                    unless_gone(done)?;
                }
                None => {
                    let named_by = open.pop().and_then(|(_, entry)| entry);
                    match named_by {
                        Some(entry) => {
                            let done = self.run(|vfs, now| vfs.rmdir(now, entry.dir(), entry.name()));
                            unless_gone(done)?;
                        }
                        None => self.remove_dir(path)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// The entries of a directory, in the order in which they were made.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`; the iterator reports damage where it meets it.
    pub fn read_dir(&self, path: impl AsRef<[u8]>) -> io::Result<ReadDir<S>> {
        ReadDir::open(self, path.as_ref(), Links::Follow)
    }

    /// Everything below a directory, each directory before its entries; symbolic links are not followed. After a directory that
    /// cannot be read comes the error, and the walk goes on.
    ///
    /// ```
    /// # let fs = firnfs_files::Fs::format(
    /// #     std::sync::Arc::new(firnfs_device::MemDevice::new(16 << 20)),
    /// #     &firnfs_files::NewVolume::default(),
    /// #     firnfs_files::FsOptions::default(),
    /// # )?;
    /// fs.create_dir_all("a/b")?;
    /// fs.write("a/b/c", "")?;
    /// let paths: Result<Vec<_>, _> = fs.walk("a")?.map(|found| found.map(|at| at.entry.path())).collect();
    /// assert_eq!(paths?, [&b"a/b"[..], b"a/b/c"]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Fs::read_dir`].
    pub fn walk(&self, path: impl AsRef<[u8]>) -> io::Result<Walk<S>> {
        self.read_dir(path).map(Walk::new)
    }
}

/// The path of the directory that a path's last component is in; `None` if that is the root.
fn above(path: &[u8]) -> Option<&[u8]> {
    let is_slash = |byte: &u8| *byte == b'/';
    let end = path.iter().rposition(|byte| !is_slash(byte))?;
    let slash = path[..end].iter().rposition(is_slash)?;
    let above = &path[..slash];
    above.iter().any(|byte| !is_slash(byte)).then_some(above)
}

/// Refuses a new name with a `/` after it, which only a directory can have.
fn refuse_slash<S: Engine>(vfs: &mut Vfs<S>, now: TimeNs, dir: InodeNo, name: &[u8]) -> Outcome<()> {
    vfs.lookup(now, dir, name, false)?;
    Err(FsError::Exists.into())
}

/// Somebody else may have removed it first.
fn unless_gone(done: Result<(), FsError>) -> io::Result<()> {
    match done {
        Err(FsError::NotFound) => Ok(()),
        other => other.map_err(io_error),
    }
}
