//! `FsError` as `std::io::Error`: the kind that `std::fs` would give, with the typed error inside.

use firnfs::FsError;
use std::io::{Error, ErrorKind};

/// The file system's own error inside an error of this crate; `None` if the error is not from the file system.
///
/// ```
/// # let fs = firnfs_files::Fs::format(
/// #     std::sync::Arc::new(firnfs_device::MemDevice::new(16 << 20)),
/// #     &firnfs_files::NewVolume::default(),
/// #     firnfs_files::FsOptions::default(),
/// # )?;
/// let error = fs.metadata("nowhere").unwrap_err();
/// assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
/// assert_eq!(firnfs_files::fs_error(&error), Some(&firnfs::FsError::NotFound));
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn fs_error(error: &Error) -> Option<&FsError> {
    error.get_ref()?.downcast_ref()
}

pub(crate) fn io_error(error: FsError) -> Error {
    Error::new(kind_of(&error), error)
}

fn kind_of(error: &FsError) -> ErrorKind {
    match error {
        FsError::NotFound => ErrorKind::NotFound,
        FsError::Exists => ErrorKind::AlreadyExists,
        FsError::NotDirectory => ErrorKind::NotADirectory,
        FsError::IsDirectory => ErrorKind::IsADirectory,
        FsError::NotEmpty => ErrorKind::DirectoryNotEmpty,
        FsError::NameTooLong => ErrorKind::InvalidFilename,
        FsError::Invalid(_) | FsError::Range | FsError::NoData => ErrorKind::InvalidInput,
        FsError::Unsupported(_) => ErrorKind::Unsupported,
        FsError::NotPermitted(_) | FsError::Access => ErrorKind::PermissionDenied,
        FsError::TooLarge => ErrorKind::FileTooLarge,
        FsError::TooManyLinks => ErrorKind::TooManyLinks,
        FsError::CrossDevice => ErrorKind::CrossesDevices,
        FsError::NoSpace => ErrorKind::StorageFull,
        FsError::OverQuota => ErrorKind::QuotaExceeded,
        FsError::NoAttribute => ErrorKind::NotFound,
        FsError::TooBig => ErrorKind::ArgumentListTooLong,
        FsError::Stale => ErrorKind::StaleNetworkFileHandle,
        FsError::ReadOnly(_) => ErrorKind::ReadOnlyFilesystem,
        FsError::Corrupt { .. } => ErrorKind::InvalidData,
        FsError::Interrupted => ErrorKind::Interrupted,
        FsError::WouldWait => ErrorKind::WouldBlock,
        FsError::Io(_) => ErrorKind::Other,
    }
}
