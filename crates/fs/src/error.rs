//! Errors and the outcome of an operation.
//!
//! errno exists only in adapters; [`FsError::errno_name`] is the one table they share.

use crate::fetch::Fetch;

/// Why an operation failed for good.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum FsError {
    /// No entry of that name, or no such inode.
    #[error("no such file or directory")]
    NotFound,
    /// The name is taken.
    #[error("file exists")]
    Exists,
    /// A directory was needed.
    #[error("not a directory")]
    NotDirectory,
    /// Anything but a directory was needed.
    #[error("is a directory")]
    IsDirectory,
    /// The directory has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// Longer than 255 bytes.
    #[error("name too long")]
    NameTooLong,
    /// An argument makes no sense; says which.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// The file system does not support this.
    #[error("operation not supported: {0}")]
    Unsupported(&'static str),
    /// Not allowed on this kind of object or by its state.
    #[error("operation not permitted: {0}")]
    NotPermitted(&'static str),
    /// Access denied.
    #[error("permission denied")]
    Access,
    /// Would exceed the largest file.
    #[error("file too large")]
    TooLarge,
    /// `nlink` would overflow.
    #[error("too many links")]
    TooManyLinks,
    /// The two names or files are in different parts of the volume: the volume itself, or a clone.
    #[error("not within one volume or clone")]
    CrossDevice,
    /// No live space is left for new data.
    #[error("no space left on the volume")]
    NoSpace,
    /// The user or group who would pay has all that a quota allows.
    #[error("disk quota exceeded")]
    OverQuota,
    /// The operation would have to wait, and its caller has forbidden that; nothing has changed.
    #[error("the operation would have to wait")]
    WouldWait,
    /// The caller has given up while the operation waited; nothing has changed.
    #[error("the caller was interrupted")]
    Interrupted,
    /// No such extended attribute.
    #[error("no such attribute")]
    NoAttribute,
    /// The caller's buffer is too small.
    #[error("result too large for the buffer")]
    Range,
    /// Attribute value or set too large.
    #[error("argument too big")]
    TooBig,
    /// Beyond the last data or hole (SEEK_DATA, SEEK_HOLE).
    #[error("no data there")]
    NoData,
    /// A generation does not match: the handle's file is gone.
    #[error("stale file handle")]
    Stale,
    /// The volume is read-only; says why.
    #[error("read-only volume: {0}")]
    ReadOnly(String),
    /// Bytes on the device are not what they have to be.
    #[error("corrupt {what} at {at}: expected {expected}, found {found}")]
    Corrupt {
        /// Structure, e.g. "inode 17 block 3".
        what: String,
        /// Place, e.g. "segment 12 sector 40".
        at: String,
        /// The expected value.
        expected: String,
        /// The actual value.
        found: String,
    },
    /// The device failed.
    #[error("{0}")]
    Io(String),
}

impl FsError {
    /// The POSIX name of the error, for adapters to turn into a number.
    #[must_use]
    pub fn errno_name(&self) -> &'static str {
        match self {
            Self::NotFound => "ENOENT",
            Self::Exists => "EEXIST",
            Self::NotDirectory => "ENOTDIR",
            Self::IsDirectory => "EISDIR",
            Self::NotEmpty => "ENOTEMPTY",
            Self::NameTooLong => "ENAMETOOLONG",
            Self::Invalid(_) => "EINVAL",
            Self::Unsupported(_) => "EOPNOTSUPP",
            Self::NotPermitted(_) => "EPERM",
            Self::Access => "EACCES",
            Self::TooLarge => "EFBIG",
            Self::TooManyLinks => "EMLINK",
            Self::CrossDevice => "EXDEV",
            Self::NoSpace => "ENOSPC",
            Self::OverQuota => "EDQUOT",
            Self::WouldWait => "EAGAIN",
            Self::Interrupted => "EINTR",
            Self::NoAttribute => "ENODATA",
            Self::Range => "ERANGE",
            Self::TooBig => "E2BIG",
            Self::NoData => "ENXIO",
            Self::Stale => "ESTALE",
            Self::ReadOnly(_) => "EROFS",
            Self::Corrupt { .. } | Self::Io(_) => "EIO",
        }
    }
}

/// Why an operation did not complete. Whatever the variant, the operation has changed nothing.
#[derive(Clone, Debug)]
pub enum Stop {
    /// Blocks must be read first: fetch them, supply them, try again.
    Need(Vec<Fetch>),
    /// Log room or memory is short for now: let background work advance, then try again. Never ENOSPC.
    Room,
    /// Failed for good.
    Fail(FsError),
}

impl From<FsError> for Stop {
    fn from(e: FsError) -> Self {
        Self::Fail(e)
    }
}

/// Result of an operation of the sans-I/O core.
pub type Outcome<T> = Result<T, Stop>;

/// For lookups that gather their needs: continues after `Need`, and stops for any other reason.
pub(crate) fn gather_needs<T>(result: Outcome<T>, needs: &mut Vec<Fetch>) -> Outcome<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Stop::Need(more)) => {
            needs.extend(more);
            Ok(None)
        }
        Err(stop) => Err(stop),
    }
}
