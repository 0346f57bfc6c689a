//! Decides whether two names, perhaps of different states, lead to the same file.
//!
//! An inode number below `.firn` has the view in its upper bits. A number is used again after its file is gone, so the identity
//! includes the time of birth.

use crate::failure::{Done, Failure};
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::os::fd::AsFd;
use std::path::Path;

/// Bits of an inode number below the view.
const NUMBER_BITS: u32 = 48;

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// The inode number in the present.
    pub ino: u64,
    /// When the file was made, in nanoseconds since 1970.
    pub birth_ns: i128,
}

/// The facts of a file that comparisons and copies need, from lstat(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// Which file it is.
    pub identity: Identity,
    /// Type and permissions.
    pub mode: u32,
    /// Names.
    pub links: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Length.
    pub size_bytes: u64,
    /// Allocated bytes.
    pub allocated_bytes: u64,
    /// Last access, seconds and nanoseconds.
    pub atime: (i64, u32),
    /// Last change of the content.
    pub mtime: (i64, u32),
    /// Last change of anything.
    pub ctime: (i64, u32),
    /// Device number of a device node.
    pub rdev: (u32, u32),
}

const TYPE_MASK: u32 = 0o170_000;

impl Facts {
    /// It is a directory.
    pub fn is_dir(&self) -> bool {
        self.mode & TYPE_MASK == 0o040_000
    }

    /// It is a regular file.
    pub fn is_file(&self) -> bool {
        self.mode & TYPE_MASK == 0o100_000
    }

    /// It is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.mode & TYPE_MASK == 0o120_000
    }

    /// Types are the same.
    pub fn is_of_type(&self, other: &Self) -> bool {
        (self.mode ^ other.mode) & TYPE_MASK == 0
    }

    /// Size and modification time are the same.
    pub fn has_content_of(&self, other: &Self) -> bool {
        (self.size_bytes, self.mtime) == (other.size_bytes, other.mtime)
    }

    /// `file`, `directory`, `symlink` or `other`.
    pub fn kind(&self) -> &'static str {
        match self.mode & TYPE_MASK {
            0o100_000 => "file",
            0o040_000 => "directory",
            0o120_000 => "symlink",
            _ => "other",
        }
    }

    /// The modification time in nanoseconds.
    pub fn mtime_ns(&self) -> i64 {
        self.mtime.0.saturating_mul(1_000_000_000).saturating_add(i64::from(self.mtime.1))
    }
}

/// An inode number without its view.
pub fn number_of(ino: u64) -> u64 {
    ino & ((1 << NUMBER_BITS) - 1)
}

/// The facts of a name in an open directory; `None` if it does not exist. Links are not followed.
///
/// # Errors
/// As the system reports.
pub fn facts_at(directory: impl AsFd, name: impl rustix::path::Arg) -> Result<Option<Facts>, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    match statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, wanted) {
        Ok(stat) => Ok(Some(facts(&stat))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The facts of a path; `None` if it does not exist. A link in its last name is not followed.
///
/// # Errors
/// It cannot be examined.
pub fn facts_of(path: &Path) -> Done<Option<Facts>> {
    facts_at(CWD, path).map_err(|errno| Failure::io("cannot examine", path, &errno.into()))
}

fn facts(stat: &Statx) -> Facts {
    let birth = (i128::from(stat.stx_btime.tv_sec), i128::from(stat.stx_btime.tv_nsec));
    Facts {
        identity: Identity { ino: number_of(stat.stx_ino), birth_ns: birth.0 * 1_000_000_000 + birth.1 },
        mode: u32::from(stat.stx_mode),
        links: stat.stx_nlink,
        owner: (stat.stx_uid, stat.stx_gid),
        size_bytes: stat.stx_size,
        allocated_bytes: stat.stx_blocks * 512,
        atime: (stat.stx_atime.tv_sec, stat.stx_atime.tv_nsec),
        mtime: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
        ctime: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        rdev: (stat.stx_rdev_major, stat.stx_rdev_minor),
    }
}
