//! Gives a copy the attributes of its original: extended attributes first, since an ACL changes the mode; then the owner, since
//! chown clears set-id bits; then the mode; the times last.

use super::identity::Facts;
use crate::sources::xattrs_of;
use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, fchmod, fchown, fgetxattr,
    fremovexattr, fsetxattr, fstat, futimens, lremovexattr, lsetxattr, utimensat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

const ACCESS_ACL: &str = "system.posix_acl_access";
const ACLS: [&str; 2] = [ACCESS_ACL, "system.posix_acl_default"];
const SET_ID: u32 = 0o6000;

/// User and group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// Of an open file.
    ///
    /// # Errors
    /// As the system reports.
    pub fn of_file(file: &impl AsFd) -> Result<Self, Errno> {
        let stat = fstat(file)?;
        Ok(Self { uid: stat.st_uid, gid: stat.st_gid })
    }

    /// The owner of the files that this process makes.
    pub fn of_caller() -> Self {
        Self { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }
}

/// Removes from a new file or directory what it inherited, so that its entries do not inherit that.
///
/// # Errors
/// As the system reports.
pub fn forget_inherited(made: &impl AsFd, mode: u32) -> Result<(), Errno> {
    for name in ACLS {
        match fremovexattr(made, name) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::ACCESS) => {}
            Err(errno) => return Err(errno),
        }
    }
    fchmod(made, Mode::from_raw_mode(mode))
}

/// The same for a new regular file, which has rarely inherited anything.
///
/// # Errors
/// As the system reports.
pub fn forget_inherited_by_file(made: &impl AsFd, mode: u32) -> Result<(), Errno> {
    match fgetxattr(made, ACCESS_ACL, &mut [0_u8; 0][..]) {
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        _ => forget_inherited(made, mode),
    }
}

/// How a copy was made, before it got its attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Made {
    /// Its permissions.
    pub mode: u32,
    /// Its owner; `None` if its directory may have given it another group.
    pub owner: Option<Owner>,
}

/// The attributes of an original.
pub struct Attributes {
    facts: Facts,
    xattrs: std::io::Result<Vec<(OsString, Vec<u8>)>>,
}

impl Attributes {
    /// The attributes of a file whose `facts` are known already.
    pub fn of(path: &Path, facts: Facts) -> Self {
        Self { facts, xattrs: xattrs_of(path) }
    }

    /// Gives them to an open file or directory. Returns the attributes that the caller may not give.
    ///
    /// # Errors
    /// As the system reports.
    pub fn apply_to_file(&self, file: &impl AsFd, made: Made) -> Result<Vec<String>, Errno> {
        let mut lost = self.set_xattrs(|name, value| fsetxattr(file, name, value, XattrFlags::empty()))?;
        let owner = self.wanted_owner(made.owner);
        let is_as_made = owner.is_none() && self.xattrs.as_ref().is_ok_and(Vec::is_empty);
        let mut mode = self.facts.mode & 0o7777;
        if let Some((uid, gid)) = owner
            && !allowed(fchown(file, Some(uid), Some(gid)), "owner", &mut lost)?
        {
            // The caller may perhaps set the group alone. Set-id bits would then act for another owner.
            let is_group = fchown(file, None, Some(gid)).is_ok();
            mode &= if is_group { !0o4000 } else { !SET_ID };
        }
        if !is_as_made || mode != made.mode {
            fchmod(file, Mode::from_raw_mode(mode))?;
        }
        futimens(file, &self.times())?;
        Ok(lost)
    }

    /// Gives them to a link or special file.
    ///
    /// # Errors
    /// As the system reports.
    pub fn apply_to_name(
        &self,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        made: Made,
    ) -> Result<Vec<String>, Errno> {
        // There is no call that sets an attribute of a link in an open directory.
        let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
        let mut lost = self.set_xattrs(|name, value| lsetxattr(&path, name, value, XattrFlags::empty()))?;
        if let Some((uid, gid)) = self.wanted_owner(made.owner) {
            let done = chownat(directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW);
            allowed(done, "owner", &mut lost)?;
        }
        if !self.facts.is_symlink() {
            chmodat(directory, name, Mode::from_raw_mode(self.facts.mode & 0o7777), AtFlags::empty())?;
        }
        utimensat(directory, name, &self.times(), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(lost)
    }

    /// Removes extended attributes that the original does not have, as far as the caller may. Keeps ACLs: the past does not show
    /// an ACL that was changed since.
    ///
    /// # Errors
    /// As the system reports.
    pub fn remove_others(&self, path: &Path) -> Result<(), Errno> {
        let (Ok(wanted), Ok(found)) = (&self.xattrs, xattrs_of(path)) else { return Ok(()) };
        let is_other = |name: &&OsString| {
            !wanted.iter().any(|(other, _)| other == *name) && !ACLS.iter().any(|acl| *name == acl)
        };
        for name in found.iter().map(|(name, _)| name).filter(is_other) {
            match lremovexattr(path, name) {
                Ok(()) | Err(Errno::NODATA | Errno::PERM | Errno::OPNOTSUPP) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// The owner to set; `None` if the copy has it already.
    fn wanted_owner(&self, made: Option<Owner>) -> Option<(Uid, Gid)> {
        let (uid, gid) = self.facts.owner;
        (made != Some(Owner { uid, gid })).then(|| (Uid::from_raw(uid), Gid::from_raw(gid)))
    }

    fn set_xattrs(&self, set: impl Fn(&OsStr, &[u8]) -> Result<(), Errno>) -> Result<Vec<String>, Errno> {
        let mut lost = Vec::new();
        match &self.xattrs {
            Ok(xattrs) => {
                for (name, value) in xattrs {
                    allowed(set(name, value), &name.to_string_lossy(), &mut lost)?;
                }
            }
            Err(_) => lost.push("extended attributes".to_owned()),
        }
        Ok(lost)
    }

    fn times(&self) -> Timestamps {
        let time = |(seconds, nanos): (i64, u32)| Timespec { tv_sec: seconds, tv_nsec: i64::from(nanos) };
        Timestamps { last_access: time(self.facts.atime), last_modification: time(self.facts.mtime) }
    }
}

/// True if it was done; false, with a note, if the caller may not do it.
fn allowed(done: Result<(), Errno>, what: &str, lost: &mut Vec<String>) -> Result<bool, Errno> {
    match done {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::INVAL) => {
            lost.push(what.to_owned());
            Ok(false)
        }
        Err(errno) => Err(errno),
    }
}
