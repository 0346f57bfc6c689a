//! Converts errors of the file system to the numbers that system calls return.
//!
//! The table of names is `FsError::errno_name`, shared by all adapters; this file turns each name into a
//! number.

use firnfs::FsError;
use rustix::io::Errno;

/// The number for an error. The code that meets damage or a device error logs it: EIO alone says nothing.
#[must_use]
pub fn errno_of(error: &FsError) -> Errno {
    match error.errno_name() {
        "ENOENT" => Errno::NOENT,
        "EEXIST" => Errno::EXIST,
        "ENOTDIR" => Errno::NOTDIR,
        "EISDIR" => Errno::ISDIR,
        "ENOTEMPTY" => Errno::NOTEMPTY,
        "ENAMETOOLONG" => Errno::NAMETOOLONG,
        "EINVAL" => Errno::INVAL,
        "EOPNOTSUPP" => Errno::OPNOTSUPP,
        "EPERM" => Errno::PERM,
        "EACCES" => Errno::ACCESS,
        "EFBIG" => Errno::FBIG,
        "EMLINK" => Errno::MLINK,
        "ENOSPC" => Errno::NOSPC,
        "EDQUOT" => Errno::DQUOT,
        "EINTR" => Errno::INTR,
        "EAGAIN" => Errno::AGAIN,
        "ENODATA" => Errno::NODATA,
        "ERANGE" => Errno::RANGE,
        "E2BIG" => Errno::TOOBIG,
        "ENXIO" => Errno::NXIO,
        "EXDEV" => Errno::XDEV,
        "ESTALE" => Errno::STALE,
        "EROFS" => Errno::ROFS,
        _ => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_but_that_of_io_errors_has_its_own_number() {
        let errors = [
            FsError::NotFound,
            FsError::Exists,
            FsError::NotDirectory,
            FsError::IsDirectory,
            FsError::NotEmpty,
            FsError::NameTooLong,
            FsError::Invalid(""),
            FsError::Unsupported(""),
            FsError::NotPermitted(""),
            FsError::Access,
            FsError::TooLarge,
            FsError::TooManyLinks,
            FsError::CrossDevice,
            FsError::NoSpace,
            FsError::OverQuota,
            FsError::WouldWait,
            FsError::Interrupted,
            FsError::NoAttribute,
            FsError::Range,
            FsError::TooBig,
            FsError::NoData,
            FsError::Stale,
            FsError::ReadOnly(String::new()),
        ];
        let mut seen = Vec::new();
        for error in errors {
            let errno = errno_of(&error);
            assert_ne!(errno, Errno::IO, "{error:?}");
            assert!(!seen.contains(&errno), "{error:?}");
            seen.push(errno);
        }
        assert_eq!(errno_of(&FsError::Io(String::new())), Errno::IO);
    }
}
