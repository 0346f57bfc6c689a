//! `Fs`: a volume as a program holds it, and on whose behalf.
//!
//! Invariant: a volume that this crate opened is closed when the last `Fs`, `File` and iterator over it is gone. Callers: `names`,
//! `file` and `directory` run their operations through [`Fs::run`].

use crate::error::io_error;
use firnfs::engine::Engine;
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::{Scope, Space};
use firnfs::vfs::{AtimeMode, Caller, Vfs};
use firnfs::{FsError, Outcome};
use firnfs_device::{Clock, Device, SystemClock};
use firnfs_format::TimeNs;
use firnfs_format::superblock::LOG_START_BYTES;
use firnfs_manage::OpenError;
use firnfs_volume::Volume;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Segments of small volumes, so that they have enough of them, and of others; in bytes.
const SEGMENT_BYTES: (u32, u32) = (256 << 10, 1 << 20);
/// The size from which a volume has the larger segments, in bytes.
const LARGE_FROM_BYTES: u64 = 64 << 20;

/// Fewest segments that a log can have, and the least unit in which a volume is written, in bytes.
const LEAST: (u64, u32) = (28, 4096);

/// How to open a volume.
#[derive(Clone)]
pub struct FsOptions {
    /// How the log is run: memory, intervals, read-only.
    pub log: Options,
    /// How access times are kept.
    pub atime: AtimeMode,
    /// Where times come from.
    pub clock: Arc<dyn Clock>,
    /// On whose behalf operations are done: the owner of new files.
    pub caller: Caller,
}

impl Default for FsOptions {
    /// The usual log, relatime, the machine's clock, and the superuser with umask 022.
    fn default() -> Self {
        Self {
            log: Options::default(),
            atime: AtimeMode::Relatime,
            clock: Arc::new(SystemClock),
            caller: Caller { uid: 0, gid: 0, umask: 0o022 },
        }
    }
}

/// What distinguishes a new volume from others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NewVolume {
    /// At most 64 bytes.
    pub label: String,
    /// Random, where volumes may meet.
    pub uuid: [u8; 16],
    /// Key of the directory hash: random, where names may come from strangers.
    pub hash_key: [u64; 2],
}

/// The volume that handles share.
pub(crate) struct Shared<S: Engine> {
    pub(crate) volume: Arc<Volume<S>>,
    at_end: AtEnd,
}

/// What happens to the volume when its last handle goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtEnd {
    Close,
    Leave,
}

impl<S: Engine> Drop for Shared<S> {
    fn drop(&mut self) {
        // After a panic the program may be in the midst of anything: like a crash, that leaves what is durable.
        if self.at_end == AtEnd::Close && !std::thread::panicking() {
            // `Fs::close` is the way to learn of a failure.
            let _unreported = self.volume.close();
        }
    }
}

/// An open volume. Clones are cheap and share it; the last one to go closes a volume that [`Fs::open`] or [`Fs::format`] opened.
///
/// ```
/// # use firnfs_files::{Caller, Fs, FsOptions, NewVolume};
/// # let device = std::sync::Arc::new(firnfs_device::MemDevice::new(16 << 20));
/// let fs = Fs::format(device, &NewVolume::default(), FsOptions::default())?;
/// fs.write("greeting", "hello")?;
/// fs.rename("greeting", "parting")?;
/// let ann = fs.with_caller(Caller { uid: 1000, gid: 1000, umask: 0o077 });
/// ann.write("letter", "dear Bob")?;
/// assert_eq!(fs.metadata("letter")?.owner(), (1000, 1000));
/// fs.sync()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Fs<S: Engine = Lfs> {
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) caller: Caller,
}

impl<S: Engine> Clone for Fs<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), caller: self.caller }
    }
}

impl<S: Engine> fmt::Debug for Fs<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fs").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl Fs<Lfs> {
    /// Opens the log-structured volume on a device, and recovers it if it was not closed.
    ///
    /// # Errors
    /// `InvalidData` if the device holds no volume or a damaged one.
    pub fn open(device: Arc<dyn Device>, options: FsOptions) -> io::Result<Self> {
        let volume = firnfs_manage::open(device, options.log, options.atime, options.clock);
        let volume = volume.map_err(|why| match why {
            OpenError::Fs(error) => io_error(error),
            OpenError::NotFirnfs(_) => io::Error::new(io::ErrorKind::InvalidData, why),
        })?;
        Ok(Self::new(Arc::new(volume), options.caller, AtEnd::Close))
    }

    /// Makes an empty log-structured volume over all of a device, whose content is lost, and opens it. The caller of the options
    /// owns its root. For other sizes of blocks and segments call [`firnfs_manage::format()`] and [`Fs::open`].
    ///
    /// # Errors
    /// `InvalidInput` for a device that is too small, with the least size; what the device reports.
    pub fn format(device: Arc<dyn Device>, new: &NewVolume, options: FsOptions) -> io::Result<Self> {
        let geometry = device.geometry();
        let least_bytes = least_bytes(geometry.physical_block_bytes);
        if geometry.size_bytes < least_bytes {
            let why = format!("the device has {} bytes: a volume needs {least_bytes}", geometry.size_bytes);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let is_large = geometry.size_bytes >= LARGE_FROM_BYTES;
        let mkfs = MkfsOptions {
            size_bytes: geometry.size_bytes,
            block_bytes: 4096,
            segment_bytes: if is_large { SEGMENT_BYTES.1 } else { SEGMENT_BYTES.0 },
            physical_block_bytes: geometry.physical_block_bytes,
            inline_max_bytes: 2048,
            label: new.label.clone(),
            uuid: new.uuid,
            hash_key: new.hash_key,
            now: TimeNs(options.clock.now_ns()),
            root_owner: (options.caller.uid, options.caller.gid),
        };
        firnfs_manage::format(&*device, &mkfs).map_err(io_error)?;
        Self::open(device, options)
    }
}

/// The least size of a device for [`Fs::format`], in bytes: the log between what stands before it and a replica of the superblock.
fn least_bytes(physical_block_bytes: u32) -> u64 {
    LOG_START_BYTES + LEAST.0 * u64::from(SEGMENT_BYTES.0) + u64::from(physical_block_bytes.max(LEAST.1))
}

impl<S: Engine> Fs<S> {
    /// A volume of any kind that the program opened itself, and closes itself.
    ///
    /// ```
    /// # use firnfs::{mem::{MemOptions, MemStore}, vfs::{AtimeMode, Vfs}};
    /// # use firnfs_files::{Caller, Fs};
    /// # use std::sync::Arc;
    /// let store = MemStore::new(MemOptions::with_capacity(1 << 20), firnfs_format::TimeNs(0));
    /// let vfs = Vfs::new(store, AtimeMode::Noatime);
    /// let volume = firnfs_volume::Volume::new(vfs, None, Arc::new(firnfs_device::SystemClock));
    /// let fs = Fs::over(Arc::new(volume), Caller { uid: 0, gid: 0, umask: 0o022 });
    /// fs.write("a", "in memory")?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn over(volume: Arc<Volume<S>>, caller: Caller) -> Self {
        Self::new(volume, caller, AtEnd::Leave)
    }

    fn new(volume: Arc<Volume<S>>, caller: Caller, at_end: AtEnd) -> Self {
        Self { shared: Arc::new(Shared { volume, at_end }), caller }
    }

    /// The same volume on behalf of another caller.
    #[must_use]
    pub fn with_caller(&self, caller: Caller) -> Self {
        Self { caller, ..self.clone() }
    }

    /// The interface beneath: operations by inode number, other services.
    ///
    /// ```
    /// # use firnfs_files::{Fs, FsOptions, MemDevice, NewVolume};
    /// # let device = std::sync::Arc::new(MemDevice::new(16 << 20));
    /// # let fs = Fs::format(device, &NewVolume::default(), FsOptions::default())?;
    /// fs.write("file", "12345")?;
    /// let ino = fs.metadata("file")?.inode();
    /// let mut out = [0; 3];
    /// assert_eq!(fs.volume().read(ino, 2, &mut out), Ok(3));
    /// assert_eq!(&out, b"345");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn volume(&self) -> &Arc<Volume<S>> {
        &self.shared.volume
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// If the device failed; from then on the volume is read-only.
    pub fn sync(&self) -> io::Result<()> {
        self.volume().sync(Scope::All).map_err(io_error)
    }

    /// Space of the volume.
    ///
    /// ```
    /// # use firnfs_files::{Fs, FsOptions, MemDevice, NewVolume};
    /// # let device = std::sync::Arc::new(MemDevice::new(16 << 20));
    /// # let fs = Fs::format(device, &NewVolume::default(), FsOptions::default())?;
    /// let before = fs.space()?;
    /// fs.write("file", vec![7; 1 << 20])?;
    /// assert_eq!(fs.space()?.inodes_used, before.inodes_used + 1);
    /// assert!(fs.space()?.free_bytes < before.free_bytes);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// None at present.
    pub fn space(&self) -> io::Result<Space> {
        self.run(|vfs, _| Ok(vfs.statfs())).map_err(io_error)
    }

    /// Makes everything durable and marks the volume clean. Handles that are left can still read; changes fail.
    ///
    /// # Errors
    /// `ReadOnlyFilesystem` if the volume turned read-only while it was open: changes that were not durable by then are lost.
    /// What the device reports.
    pub fn close(self) -> io::Result<()> {
        self.volume().close().map_err(io_error)
    }

    /// Whether quotas do not bind the caller.
    pub(crate) fn is_exempt(&self) -> bool {
        self.caller.uid == 0
    }

    /// Runs one operation on behalf of the caller.
    pub(crate) fn run<T>(&self, op: impl FnMut(&mut Vfs<S>, TimeNs) -> Outcome<T>) -> Result<T, FsError> {
        self.volume().run_for(self.is_exempt(), op)
    }
}
