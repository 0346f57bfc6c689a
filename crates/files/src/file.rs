//! `File`: an open file. It stays readable and writable after its last name is removed, until it is closed.
//!
//! Invariant: an open file holds its inode once, and gives the hold back exactly once. Caller: embedding programs.

use crate::error::io_error;
use crate::fs::Fs;
use crate::metadata::{FileTimes, Metadata, stored_time};
use crate::open_options::{Access, OpenOptions};
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::lfs::Lfs;
use firnfs::store::Scope;
use firnfs::vfs::{Allocate, SetAttr, SetTime};
use firnfs_device::AlignedBuf;
use firnfs_format::InodeNo;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::Arc;

/// An open file with a position, as [`std::fs::File`]; opened by [`File::open`], [`File::create`] or [`OpenOptions`].
///
/// Dropping it closes it; [`File::close`] also reports failures. Neither makes it durable: [`File::sync_all`] does.
///
/// ```
/// # let fs = firnfs_files::Fs::format(
/// #     std::sync::Arc::new(firnfs_device::MemDevice::new(16 << 20)),
/// #     &firnfs_files::NewVolume::default(),
/// #     firnfs_files::FsOptions::default(),
/// # )?;
/// use firnfs_files::{File, OpenOptions};
/// use std::io::{Read, Seek, SeekFrom, Write};
/// let mut file = OpenOptions::read_write().create().open(&fs, "file")?;
/// file.write_all(b"one two")?;
/// file.seek(SeekFrom::Start(4))?;
/// let mut word = String::new();
/// file.read_to_string(&mut word)?;
/// assert_eq!(word, "two");
/// file.write_at(b"ONE", 0)?; // through &self: several threads may share the file
/// file.sync_all()?;
/// assert_eq!(fs.read("file")?, b"ONE two");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct File<S: Engine = Lfs> {
    fs: Fs<S>,
    ino: InodeNo,
    access: Access,
    at_bytes: u64,
    is_held: bool,
}

impl<S: Engine> fmt::Debug for File<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("File");
        shown.field("ino", &self.ino).field("access", &self.access).field("at_bytes", &self.at_bytes);
        shown.finish_non_exhaustive()
    }
}

impl<S: Engine> File<S> {
    /// Takes over one hold of the inode.
    pub(crate) fn new(fs: Fs<S>, ino: InodeNo, access: Access) -> Self {
        Self { fs, ino, access, at_bytes: 0, is_held: true }
    }

    /// Opens an existing file for reading.
    ///
    /// # Errors
    /// See [`OpenOptions::open`].
    pub fn open(fs: &Fs<S>, path: impl AsRef<[u8]>) -> io::Result<Self> {
        OpenOptions::read().open(fs, path)
    }

    /// Opens an empty file for writing: makes it, or empties it.
    ///
    /// # Errors
    /// See [`OpenOptions::open`].
    pub fn create(fs: &Fs<S>, path: impl AsRef<[u8]>) -> io::Result<Self> {
        OpenOptions::write().create().truncate().open(fs, path)
    }

    /// Reads at a place without moving the position; less than asked for only at the end.
    ///
    /// # Errors
    /// `InvalidInput` if it is not open for reading; `IsADirectory`; `InvalidData` if the content is damaged.
    pub fn read_at(&self, out: &mut [u8], at_bytes: u64) -> io::Result<usize> {
        if !self.access.reads() {
            return Err(io_error(FsError::Invalid("the file is not open for reading")));
        }
        self.fs.volume().read(self.ino, at_bytes, out).map_err(io_error)
    }

    /// Writes at a place without moving the position (at the end if it is open for appending); returns how much was written.
    ///
    /// # Errors
    /// `InvalidInput` if it is not open for writing; `StorageFull`, `QuotaExceeded`, `FileTooLarge`, `ReadOnlyFilesystem`.
    pub fn write_at(&self, bytes: &[u8], at_bytes: u64) -> io::Result<usize> {
        self.refuse_unless_writable()?;
        if self.access.appends() {
            return self.append(bytes).map(|(_, written)| written).map_err(io_error);
        }
        let volume = self.fs.volume();
        volume
            .write_for(self.fs.is_exempt(), self.ino, at_bytes, bytes, self.kills_set_id())
            .map_err(io_error)
    }

    /// [`File::write_at`] of all of a buffer. If the volume keeps nothing that it has written in memory (`cache_file_data` off in [`FsOptions`](crate::FsOptions)),
    /// the whole blocks in the buffer are not copied: the volume holds the buffer until they are on the device.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_lent_at(&self, buf: &Arc<AlignedBuf>, at_bytes: u64) -> io::Result<usize> {
        if self.access.appends() {
            return self.write_at(buf, at_bytes);
        }
        self.refuse_unless_writable()?;
        let volume = self.fs.volume();
        volume.write_lent(self.fs.is_exempt(), self.ino, at_bytes, buf, self.kills_set_id()).map_err(io_error)
    }

    /// Finds the end and writes there, as one operation; returns the place and how much was written.
    fn append(&self, bytes: &[u8]) -> Result<(u64, usize), FsError> {
        self.fs.run(|vfs, now| {
            let end_bytes = vfs.getattr(self.ino)?.size_bytes;
            let written = vfs.write(now, self.ino, end_bytes, bytes, self.kills_set_id())?;
            Ok((end_bytes, written))
        })
    }

    /// Metadata of the open file, also without a name.
    ///
    /// # Errors
    /// `InvalidData` if its inode is damaged.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.fs.run(|vfs, _| vfs.getattr(self.ino)).map(Metadata).map_err(io_error)
    }

    /// Cuts the file, or extends it with zeros that take no space.
    ///
    /// ```
    /// # let fs = firnfs_files::Fs::format(
    /// #     std::sync::Arc::new(firnfs_device::MemDevice::new(16 << 20)),
    /// #     &firnfs_files::NewVolume::default(),
    /// #     firnfs_files::FsOptions::default(),
    /// # )?;
    /// use firnfs_files::OpenOptions;
    /// let file = OpenOptions::read_write().create().open(&fs, "file")?;
    /// file.allocate(0..1 << 20)?; // writes into that range cannot run out of space
    /// file.write_at(b"end", 4096)?;
    /// file.set_len(4098)?;
    /// let mut out = [0; 8];
    /// assert_eq!(file.read_at(&mut out, 4096)?, 2);
    /// assert_eq!((&out[..2], file.metadata()?.len()), (&b"en"[..], 4098));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` if it is not open for writing; `FileTooLarge`, `StorageFull`, `ReadOnlyFilesystem`.
    pub fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.refuse_unless_writable()?;
        self.set(SetAttr { size_bytes: Some(len_bytes), ..SetAttr::default() })
    }

    /// Sets the permission bits.
    ///
    /// # Errors
    /// `StorageFull`, `ReadOnlyFilesystem`.
    pub fn set_mode(&self, mode: u16) -> io::Result<()> {
        self.set(SetAttr { mode: Some(mode), ..SetAttr::default() })
    }

    /// Sets access and modification time.
    ///
    /// # Errors
    /// `StorageFull`, `ReadOnlyFilesystem`.
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        self.set(times.into())
    }

    /// Reserves the space of a range, so that writing there does not fail for lack of it; extends the file.
    ///
    /// # Errors
    /// `StorageFull`, `QuotaExceeded`; `InvalidInput` for an empty range, or if it is not open for writing.
    pub fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        self.refuse_unless_writable()?;
        let (volume, kills) = (self.fs.volume(), self.kills_set_id());
        volume.fallocate_for(self.fs.is_exempt(), self.ino, Allocate::Grow, range, kills).map_err(io_error)
    }

    /// Makes content, metadata and every earlier operation on names durable.
    ///
    /// # Errors
    /// If the device failed; from then on the volume is read-only.
    pub fn sync_all(&self) -> io::Result<()> {
        self.fs.volume().sync(Scope::File(self.ino)).map_err(io_error)
    }

    /// Closes the file, and reports a failure that dropping it would hide.
    ///
    /// # Errors
    /// If a file without a name cannot be freed; it is freed at the next mount.
    pub fn close(mut self) -> io::Result<()> {
        self.release().map_err(io_error)
    }

    fn release(&mut self) -> Result<(), FsError> {
        if !std::mem::take(&mut self.is_held) {
            return Ok(());
        }
        let volume = self.fs.volume();
        let closed = match self.access.writes() && volume.hears_of_closes() {
            true => volume.file_closed(self.ino),
            false => Ok(()),
        };
        let released = volume.run(|vfs, now| vfs.forget(now, self.ino, 1));
        closed.and(released)
    }

    fn set(&self, set: SetAttr) -> io::Result<()> {
        let set = SetAttr { kill_set_id: self.kills_set_id(), ..set };
        self.fs.run(|vfs, now| vfs.setattr(now, self.ino, set)).map(drop).map_err(io_error)
    }

    fn kills_set_id(&self) -> bool {
        self.fs.caller.uid != 0
    }

    fn refuse_unless_writable(&self) -> io::Result<()> {
        match self.access.writes() {
            true => Ok(()),
            false => Err(io_error(FsError::Invalid("the file is not open for writing"))),
        }
    }
}

impl From<FileTimes> for SetAttr {
    fn from(times: FileTimes) -> Self {
        let time = |time| SetTime::At(stored_time(time));
        Self { atime: times.accessed.map(time), mtime: times.modified.map(time), ..Self::default() }
    }
}

impl<S: Engine> Read for File<S> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len_bytes = self.read_at(out, self.at_bytes)?;
        self.at_bytes += len_bytes as u64;
        Ok(len_bytes)
    }
}

impl<S: Engine> Write for File<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self.access.appends() {
            true => {
                let (at_bytes, written) = self.append(bytes).map_err(io_error)?;
                self.at_bytes = at_bytes;
                written
            }
            false => self.write_at(bytes, self.at_bytes)?,
        };
        self.at_bytes += written as u64;
        Ok(written)
    }

    /// Nothing is buffered here. [`File::sync_all`] makes content durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: Engine> Seek for File<S> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at_bytes) => (at_bytes, 0),
            SeekFrom::End(by) => (self.metadata()?.len(), by),
            SeekFrom::Current(by) => (self.at_bytes, by),
        };
        let at_bytes = from.checked_add_signed(by).filter(|at| i64::try_from(*at).is_ok());
        self.at_bytes = at_bytes.ok_or_else(|| io_error(FsError::Invalid("seek outside of any file")))?;
        Ok(self.at_bytes)
    }
}

impl<S: Engine> Drop for File<S> {
    fn drop(&mut self) {
        // `File::close` is the way to learn of a failure.
        let _unreported = self.release();
    }
}
