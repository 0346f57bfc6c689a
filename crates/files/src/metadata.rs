//! `Metadata`: what is known about a file besides its content.

use firnfs::inode::Kind;
use firnfs::vfs::Attr;
use firnfs_format::{InodeNo, TimeNs};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Metadata of a file, as of one moment.
///
/// ```
/// # let fs = firnfs_files::Fs::format(
/// #     std::sync::Arc::new(firnfs_device::MemDevice::new(16 << 20)),
/// #     &firnfs_files::NewVolume::default(),
/// #     firnfs_files::FsOptions::default(),
/// # )?;
/// fs.write("file", "12345")?;
/// let metadata = fs.metadata("file")?;
/// assert!(metadata.is_file());
/// assert_eq!((metadata.len(), metadata.mode()), (5, 0o644));
/// assert!(metadata.allocated_bytes() < 4096); // it is stored in its inode
/// assert!(metadata.created() <= metadata.modified() && metadata.modified() <= metadata.changed());
/// assert!(metadata.accessed() >= metadata.created());
/// assert!(fs.metadata("/")?.is_dir() && fs.metadata("/")?.inode() != metadata.inode());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata(pub(crate) Attr);

#[allow(clippy::len_without_is_empty)] // a file is asked for its length, as in std::fs
impl Metadata {
    /// File type.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// True for a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.0.kind == Kind::Directory
    }

    /// True for a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.0.kind == Kind::Regular
    }

    /// True for a symbolic link.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.0.kind == Kind::Symlink
    }

    /// Size in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.size_bytes
    }

    /// Space charged to the file, in bytes.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.0.allocated_bytes
    }

    /// Permission, set-id and sticky bits.
    #[must_use]
    pub fn mode(&self) -> u16 {
        self.0.mode
    }

    /// User and group.
    #[must_use]
    pub fn owner(&self) -> (u32, u32) {
        (self.0.uid, self.0.gid)
    }

    /// Number of names.
    #[must_use]
    pub fn links(&self) -> u32 {
        self.0.nlink
    }

    /// Last change of content.
    #[must_use]
    pub fn modified(&self) -> SystemTime {
        system_time(self.0.mtime)
    }

    /// Last access.
    #[must_use]
    pub fn accessed(&self) -> SystemTime {
        system_time(self.0.atime)
    }

    /// Last change of content or metadata.
    #[must_use]
    pub fn changed(&self) -> SystemTime {
        system_time(self.0.ctime)
    }

    /// When the file was made.
    #[must_use]
    pub fn created(&self) -> SystemTime {
        system_time(self.0.btime)
    }

    /// The inode number, for [`Fs::volume`](crate::Fs::volume).
    #[must_use]
    pub fn inode(&self) -> InodeNo {
        self.0.ino
    }
}

/// Times to set; `None` leaves one alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileTimes {
    /// Last access.
    pub accessed: Option<SystemTime>,
    /// Last change of content.
    pub modified: Option<SystemTime>,
}

fn system_time(time: TimeNs) -> SystemTime {
    let distance = Duration::from_nanos(time.0.unsigned_abs());
    if time.0 < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

/// Clamped to the years that a volume can store.
pub(crate) fn stored_time(time: SystemTime) -> TimeNs {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => TimeNs(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)),
        Err(before) => TimeNs(i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_1970_survive() {
        for ns in [i64::MIN, -1_500_000_000, -1, 0, 1, 1_500_000_001, i64::MAX] {
            assert_eq!(stored_time(system_time(TimeNs(ns))), TimeNs(ns));
        }
    }
}
