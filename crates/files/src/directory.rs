//! Directories as iterators: `ReadDir` over one, `Walk` over a tree.
//!
//! Both read a batch of entries at a time, so memory does not grow with the directory. Entries made or removed meanwhile may or may
//! not be seen; every other entry is seen exactly once, in the order in which the entries were made.

use crate::error::io_error;
use crate::fs::Fs;
use crate::metadata::Metadata;
use crate::resolve::{Links, Resolver};
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::lfs::Lfs;
use firnfs_format::InodeNo;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Entries read at a time.
const BATCH: usize = 128;
/// Longest path that a walk goes into, in bytes: bounds its depth.
const WALKED_PATH_MAX_BYTES: usize = 4095;

/// A directory that stays in place, also without a name, as long as this exists.
struct Held<S: Engine> {
    fs: Fs<S>,
    ino: InodeNo,
    path: Vec<u8>,
}

impl<S: Engine> Drop for Held<S> {
    fn drop(&mut self) {
        // If it cannot be freed now, the next mount frees it.
        let _unreported = self.fs.volume().run(|vfs, now| vfs.forget(now, self.ino, 1));
    }
}

/// The entries of a directory without `.` and `..`; from [`Fs::read_dir`].
pub struct ReadDir<S: Engine = Lfs> {
    held: Arc<Held<S>>,
    batch: VecDeque<(Vec<u8>, Kind)>,
    cookie: u64,
    is_at_end: bool,
}

/// One entry of a directory.
///
/// ```
/// # let fs = firnfs_files::Fs::format(
/// #     std::sync::Arc::new(firnfs_device::MemDevice::new(16 << 20)),
/// #     &firnfs_files::NewVolume::default(),
/// #     firnfs_files::FsOptions::default(),
/// # )?;
/// fs.create_dir("letters")?;
/// fs.write("letters/first", "dear Ann")?;
/// for entry in fs.read_dir("letters")? {
///     let entry = entry?;
///     assert_eq!((entry.name(), &*entry.path()), (&b"first"[..], &b"letters/first"[..]));
///     assert_eq!(entry.metadata()?.len(), 8);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct DirEntry<S: Engine = Lfs> {
    within: Arc<Held<S>>,
    name: Vec<u8>,
    kind: Kind,
}

impl<S: Engine> fmt::Debug for ReadDir<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadDir").field(&String::from_utf8_lossy(&self.held.path)).finish()
    }
}

impl<S: Engine> fmt::Debug for DirEntry<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DirEntry").field(&String::from_utf8_lossy(&self.path())).finish()
    }
}

impl<S: Engine> DirEntry<S> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The path given to [`Fs::read_dir`] or [`Fs::walk`], and what leads from there to the entry.
    #[must_use]
    pub fn path(&self) -> Vec<u8> {
        let mut path = self.within.path.clone();
        if !path.is_empty() && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(&self.name);
        path
    }

    /// File type.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Metadata of the file, or of the symbolic link itself.
    ///
    /// # Errors
    /// `NotFound` if the name has gone; `InvalidData` if the inode is damaged.
    pub fn metadata(&self) -> io::Result<Metadata> {
        let (fs, dir) = (&self.within.fs, self.within.ino);
        fs.run(|vfs, now| vfs.lookup(now, dir, &self.name, false)).map(Metadata).map_err(io_error)
    }

    /// Inode number of the directory that it is in.
    pub(crate) fn dir(&self) -> InodeNo {
        self.within.ino
    }

    /// The directory that this entry names.
    pub(crate) fn read(&self) -> io::Result<ReadDir<S>> {
        let (fs, dir) = (&self.within.fs, self.within.ino);
        let held = fs.run(|vfs, now| match vfs.lookup(now, dir, &self.name, true)? {
            attr if attr.kind == Kind::Directory => Ok(Ok(attr.ino)),
            attr => Ok(Err(attr.ino)),
        });
        let of = |ino| Arc::new(Held { fs: fs.clone(), ino, path: self.path() });
        match held.map_err(io_error)? {
            Ok(ino) => Ok(ReadDir::new(of(ino))),
            Err(ino) => {
                // Another file has the name by now.
                drop(of(ino));
                Err(io_error(FsError::NotDirectory))
            }
        }
    }
}

impl<S: Engine> ReadDir<S> {
    fn new(held: Arc<Held<S>>) -> Self {
        Self { held, batch: VecDeque::new(), cookie: 0, is_at_end: false }
    }

    pub(crate) fn open(fs: &Fs<S>, path: &[u8], links: Links) -> io::Result<Self> {
        let ino = fs.run(|vfs, now| {
            let attr = Resolver::new(vfs, now).resolve(InodeNo::ROOT, path, links)?;
            if attr.kind != Kind::Directory {
                return Err(FsError::NotDirectory.into());
            }
            vfs.hold(attr.ino)?;
            Ok(attr.ino)
        });
        let ino = ino.map_err(io_error)?;
        Ok(Self::new(Arc::new(Held { fs: fs.clone(), ino, path: path.to_vec() })))
    }

    fn fill(&mut self) -> Result<(), FsError> {
        let (ino, cookie) = (self.held.ino, self.cookie);
        let (batch, next) = self.held.fs.run(|vfs, now| {
            let (mut batch, mut next) = (VecDeque::new(), cookie);
            vfs.readdir(now, ino, cookie, &mut |entry| {
                next = entry.next;
                if !matches!(entry.name, b"." | b"..") {
                    batch.push_back((entry.name.to_vec(), entry.kind));
                }
                batch.len() < BATCH
            })?;
            Ok((batch, next))
        })?;
        self.is_at_end = next == cookie;
        (self.batch, self.cookie) = (batch, next);
        Ok(())
    }
}

impl<S: Engine> Iterator for ReadDir<S> {
    type Item = io::Result<DirEntry<S>>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.batch.is_empty() {
            if self.is_at_end {
                return None;
            }
            if let Err(error) = self.fill() {
                self.is_at_end = true;
                return Some(Err(io_error(error)));
            }
        }
        let (name, kind) = self.batch.pop_front()?;
        Some(Ok(DirEntry { within: Arc::clone(&self.held), name, kind }))
    }
}

/// A tree, each directory before its entries; from [`Fs::walk`].
pub struct Walk<S: Engine = Lfs> {
    /// From the top down.
    open: Vec<ReadDir<S>>,
    /// Why the directory that was returned last cannot be entered.
    unreadable: Option<io::Error>,
}

/// One entry of a tree.
pub struct WalkEntry<S: Engine = Lfs> {
    /// The entry.
    pub entry: DirEntry<S>,
    /// 1 for entries of the directory where the walk began.
    pub depth: usize,
}

impl<S: Engine> fmt::Debug for Walk<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("open", &self.open).finish_non_exhaustive()
    }
}

impl<S: Engine> fmt::Debug for WalkEntry<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WalkEntry").field("entry", &self.entry).field("depth", &self.depth).finish()
    }
}

impl<S: Engine> Walk<S> {
    pub(crate) fn new(top: ReadDir<S>) -> Self {
        Self { open: vec![top], unreadable: None }
    }

    fn enter(&mut self, entry: &DirEntry<S>) {
        let opened = match entry.path().len() > WALKED_PATH_MAX_BYTES {
            true => Err(io_error(FsError::NameTooLong)),
            false => entry.read(),
        };
        match opened {
            Ok(below) => self.open.push(below),
            Err(error) => self.unreadable = Some(error),
        }
    }
}

impl<S: Engine> Iterator for Walk<S> {
    type Item = io::Result<WalkEntry<S>>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.unreadable.take() {
            return Some(Err(error));
        }
        loop {
            let depth = self.open.len();
            match self.open.last_mut()?.next() {
                None => drop(self.open.pop()),
                Some(Err(error)) => {
                    self.open.pop();
                    return Some(Err(error));
                }
                Some(Ok(entry)) => {
                    if entry.kind() == Kind::Directory {
                        self.enter(&entry);
                    }
                    return Some(Ok(WalkEntry { entry, depth }));
                }
            }
        }
    }
}
