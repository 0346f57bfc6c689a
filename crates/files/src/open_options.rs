//! `OpenOptions`: how a file is to be opened, in words instead of booleans.

use crate::error::io_error;
use crate::file::File;
use crate::fs::Fs;
use crate::resolve::Resolver;
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::vfs::{Attr, Caller, NewNode, SetAttr};
use firnfs::{FsError, Outcome, Stop};
use firnfs_format::{InodeNo, TimeNs};
use std::io;

/// What an open file may be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
    ReadWrite,
    Append,
    ReadAppend,
}

impl Access {
    pub(crate) fn reads(self) -> bool {
        !matches!(self, Self::Write | Self::Append)
    }

    pub(crate) fn writes(self) -> bool {
        self != Self::Read
    }

    pub(crate) fn appends(self) -> bool {
        matches!(self, Self::Append | Self::ReadAppend)
    }
}

/// What happens if there is no such file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Missing {
    Fail,
    Make,
    /// It must be missing.
    MakeOnly,
}

/// What happens to the content of an existing file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Content {
    Keep,
    Truncate,
}

/// How to open a file. The first call says what for, further ones how.
///
/// ```
/// # let fs = firnfs_files::Fs::format(
/// #     std::sync::Arc::new(firnfs_device::MemDevice::new(16 << 20)),
/// #     &firnfs_files::NewVolume::default(),
/// #     firnfs_files::FsOptions::default(),
/// # )?;
/// use firnfs_files::OpenOptions;
/// use std::io::Write;
/// for line in ["one\n", "two\n"] {
///     OpenOptions::append().create().mode(0o600).open(&fs, "log")?.write_all(line.as_bytes())?;
/// }
/// assert_eq!(fs.read("log")?, b"one\ntwo\n");
/// assert!(OpenOptions::write().create_new().open(&fs, "log").is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenOptions {
    access: Access,
    missing: Missing,
    content: Content,
    mode: u16,
}

impl OpenOptions {
    fn to(access: Access) -> Self {
        Self { access, missing: Missing::Fail, content: Content::Keep, mode: 0o666 }
    }

    /// Opens for reading; a directory too, for [`File::sync_all`] and its metadata.
    #[must_use]
    pub fn read() -> Self {
        Self::to(Access::Read)
    }

    /// Opens for writing.
    #[must_use]
    pub fn write() -> Self {
        Self::to(Access::Write)
    }

    /// Opens for both.
    #[must_use]
    pub fn read_write() -> Self {
        Self::to(Access::ReadWrite)
    }

    /// Opens for writing at the end: each write finds the end anew, so several writers do not overwrite each other.
    #[must_use]
    pub fn append() -> Self {
        Self::to(Access::Append)
    }

    /// Opens for reading anywhere and writing at the end.
    ///
    /// ```
    /// # use firnfs_files::{Fs, FsOptions, MemDevice, NewVolume, OpenOptions};
    /// # use std::io::{Read, Write};
    /// # let device = std::sync::Arc::new(MemDevice::new(16 << 20));
    /// # let fs = Fs::format(device, &NewVolume::default(), FsOptions::default())?;
    /// fs.write("log", "one ")?;
    /// let mut log = OpenOptions::read_append().open(&fs, "log")?;
    /// let mut out = [0; 3];
    /// log.read_exact(&mut out)?;
    /// log.write_all(b"two")?;
    /// assert_eq!((&out, fs.read("log")?), (b"one", b"one two".to_vec()));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn read_append() -> Self {
        Self::to(Access::ReadAppend)
    }

    /// Makes the file if there is none.
    #[must_use]
    pub fn create(self) -> Self {
        Self { missing: Missing::Make, ..self }
    }

    /// Makes the file, and fails if there is one, or a symbolic link.
    #[must_use]
    pub fn create_new(self) -> Self {
        Self { missing: Missing::MakeOnly, ..self }
    }

    /// Empties an existing file.
    ///
    /// ```
    /// # use firnfs_files::{Fs, FsOptions, MemDevice, NewVolume, OpenOptions};
    /// # let device = std::sync::Arc::new(MemDevice::new(16 << 20));
    /// # let fs = Fs::format(device, &NewVolume::default(), FsOptions::default())?;
    /// fs.write("file", "old")?;
    /// let file = OpenOptions::read_write().truncate().open(&fs, "file")?;
    /// assert_eq!(file.metadata()?.len(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn truncate(self) -> Self {
        Self { content: Content::Truncate, ..self }
    }

    /// Permission bits of a new file, before the caller's umask (0666 if not given).
    #[must_use]
    pub fn mode(self, mode: u16) -> Self {
        Self { mode, ..self }
    }

    /// Opens a regular file, or a directory for reading.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists`, `IsADirectory`, `NotADirectory`, `StorageFull`, `ReadOnlyFilesystem`; `InvalidInput` for options
    /// that contradict each other; `Unsupported` for FIFOs, sockets and device nodes.
    pub fn open<S: Engine>(&self, fs: &Fs<S>, path: impl AsRef<[u8]>) -> io::Result<File<S>> {
        let path = path.as_ref();
        self.check().map_err(io_error)?;
        let attr = fs.run(|vfs, now| {
            let mut resolver = Resolver::new(vfs, now);
            self.open_at(&mut resolver, (fs.caller, now), InodeNo::ROOT, path)
        });
        Ok(File::new(fs.clone(), attr.map_err(io_error)?.ino, self.access))
    }

    fn check(&self) -> Result<(), FsError> {
        match self.access {
            Access::Read if self.missing != Missing::Fail => Err(FsError::Invalid("create without write")),
            Access::Read if self.content == Content::Truncate => {
                Err(FsError::Invalid("truncate without write"))
            }
            access
                if access.appends()
                    && self.content == Content::Truncate
                    && self.missing != Missing::MakeOnly =>
            {
                Err(FsError::Invalid("truncate and append"))
            }
            _ => Ok(()),
        }
    }

    /// Finds or makes the file, and holds it.
    fn open_at<S: Engine>(
        &self,
        resolver: &mut Resolver<'_, S>,
        by: (Caller, TimeNs),
        dir: InodeNo,
        path: &[u8],
    ) -> Outcome<Attr> {
        let (caller, now) = by;
        let last = resolver.last(dir, path)?;
        let Some(name) = last.name else {
            let attr = resolver.vfs.getattr(last.dir)?;
            return self.open_found(resolver, by, attr);
        };
        if last.has_slash && self.missing != Missing::Fail {
            return Err(FsError::IsDirectory.into());
        }
        match resolver.vfs.lookup(now, last.dir, name, false) {
            Ok(_) if self.missing == Missing::MakeOnly => Err(FsError::Exists.into()),
            Ok(attr) if attr.kind == Kind::Symlink => {
                let mut target = resolver.follow(attr.ino)?;
                if last.has_slash {
                    target.push(b'/');
                }
                self.open_at(resolver, by, last.dir, &target)
            }
            Ok(attr) if last.has_slash && attr.kind != Kind::Directory => Err(FsError::NotDirectory.into()),
            Ok(attr) => self.open_found(resolver, by, attr),
            Err(Stop::Fail(FsError::NotFound)) if self.missing != Missing::Fail => {
                let node = NewNode { kind: Kind::Regular, mode: self.mode & 0o7777, rdev: 0, target: b"" };
                resolver.vfs.make(now, caller, last.dir, name, node, true)
            }
            Err(stop) => Err(stop),
        }
    }

    fn open_found<S: Engine>(
        &self,
        resolver: &mut Resolver<'_, S>,
        (caller, now): (Caller, TimeNs),
        attr: Attr,
    ) -> Outcome<Attr> {
        let vfs = &mut *resolver.vfs;
        match attr.kind {
            _ if self.missing == Missing::MakeOnly => return Err(FsError::Exists.into()),
            Kind::Directory if self.access.writes() => return Err(FsError::IsDirectory.into()),
            Kind::Directory | Kind::Regular => {}
            _ => return Err(FsError::Unsupported("opening a FIFO, socket or device node").into()),
        }
        if self.access.writes()
            && let Some(why) = vfs.read_only()
        {
            return Err(FsError::ReadOnly(why.to_owned()).into());
        }
        if self.content == Content::Truncate {
            let kill_set_id = caller.uid != 0;
            vfs.setattr(now, attr.ino, SetAttr { size_bytes: Some(0), kill_set_id, ..SetAttr::default() })?;
        }
        vfs.hold(attr.ino)?;
        Ok(attr)
    }
}
