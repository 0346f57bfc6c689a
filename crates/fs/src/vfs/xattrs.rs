//! Extended attributes and POSIX ACLs.
//!
//! Namespaces: `user.` (regular files and directories), `trusted.`, `security.` and the two ACLs of `system.`. The adapter
//! decides which callers may see and set them. An access ACL and the mode always agree: setting the ACL sets the mode; an ACL
//! that the mode expresses completely is not stored; chmod changes both (`super::attr`).

use super::history::refuse_past;
use super::{Vfs, XattrMode};
use crate::error::{FsError, Outcome};
use crate::inode::Kind;
use crate::states::{is_made_up, is_past};
use crate::store::{Intent, OpKind, Store};
use crate::ufs::acl::{self, Acl};
use crate::ufs::make::SET_GID;
use crate::ufs::quota::table::HIDDEN;
use crate::ufs::xattr;
use firnfs_format::{InodeNo, TimeNs};

/// Checks a name and whether a file of that kind can have it.
fn check_name(name: &[u8], kind: Kind) -> Result<(), FsError> {
    if name.len() > xattr::NAME_MAX_BYTES {
        return Err(FsError::Range);
    }
    if is_acl(name) {
        let none = kind == Kind::Symlink;
        return if none { Err(FsError::Unsupported("ACL of a symbolic link")) } else { Ok(()) };
    }
    let prefixes: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    let Some(prefix) = prefixes.into_iter().find(|prefix| name.starts_with(prefix)) else {
        return Err(FsError::Unsupported("attribute namespace"));
    };
    if name.len() == prefix.len() {
        return Err(FsError::Invalid("attribute without a name"));
    }
    if prefix == b"user." && !matches!(kind, Kind::Regular | Kind::Directory) {
        return Err(FsError::NotPermitted("user attributes of a special file"));
    }
    Ok(())
}

fn is_acl(name: &[u8]) -> bool {
    name == acl::ACCESS || name == acl::DEFAULT
}

impl<S: Store> Vfs<S> {
    /// The value of an attribute.
    ///
    /// # Errors
    /// `NoAttribute`, `Unsupported` (namespace), `NotFound`, `Range` (name too long); `Need`, `Corrupt`.
    pub fn getxattr(&mut self, ino: InodeNo, name: &[u8]) -> Outcome<Vec<u8>> {
        if is_made_up(ino) || is_acl(name) && is_past(ino) && self.is_acl_withheld(ino)? {
            return Err(FsError::NoAttribute.into());
        }
        let kind = self.store.inode(ino)?.kind;
        match check_name(name, kind) {
            // No such attribute can exist; only setting it is an error.
            Err(FsError::NotPermitted(_) | FsError::Invalid(_)) => return Err(FsError::NoAttribute.into()),
            other => other?,
        }
        Ok(xattr::get(&mut self.store, ino, name)?.ok_or(FsError::NoAttribute)?)
    }

    /// NUL-terminated names, one after another, of all namespaces that callers can name.
    ///
    /// # Errors
    /// `NotFound`; `Need`, `Corrupt`.
    pub fn listxattr(&mut self, ino: InodeNo) -> Outcome<Vec<u8>> {
        if is_made_up(ino) {
            return Ok(Vec::new());
        }
        let set = xattr::load(&mut self.store, ino)?;
        let mut names = Vec::new();
        for entry in xattr::entries(&set) {
            let name = entry?.name;
            if !name.starts_with(HIDDEN) {
                names.extend_from_slice(name);
                names.push(0);
            }
        }
        Ok(names)
    }

    /// Sets an attribute. An access ACL changes the mode as well.
    ///
    /// # Errors
    /// `Exists` (Create), `NoAttribute` (Replace), `TooBig` (value over 64 KiB), `NoSpace` (also if the set gets over
    /// 128 KiB), `Unsupported` (namespace), `NotPermitted`, `Invalid` (an ACL that is not valid), `Access` (a default ACL for
    /// anything but a directory), `Range`, `NotFound`, `ReadOnly`; `Need`, `Room`, `Corrupt`.
    pub fn setxattr(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Outcome<()> {
        self.set_attribute(now, ino, (name, value), mode, false)
    }

    /// As [`Vfs::setxattr`], for a caller who is not in the file's group and may not set ids: an access ACL clears the
    /// set-group-id bit (FUSE_SETXATTR_ACL_KILL_SGID).
    ///
    /// # Errors
    /// Those of [`Vfs::setxattr`].
    pub fn setxattr_kill_set_gid(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Outcome<()> {
        self.set_attribute(now, ino, (name, value), mode, true)
    }

    fn set_attribute(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        (name, value): (&[u8], &[u8]),
        mode: XattrMode,
        kill_set_gid: bool,
    ) -> Outcome<()> {
        refuse_past(&[ino])?;
        let inode = self.store.inode(ino)?;
        let (kind, old_mode) = (inode.kind, inode.mode);
        check_name(name, kind)?;
        if value.len() > xattr::VALUE_MAX_BYTES {
            return Err(FsError::TooBig.into());
        }
        let mut set = xattr::load(&mut self.store, ino)?;
        match (mode, xattr::find(&set, name)?) {
            (XattrMode::Create, Some(_)) => return Err(FsError::Exists.into()),
            (XattrMode::Replace, None) => return Err(FsError::NoAttribute.into()),
            _ => {}
        }
        let mut new_mode = None;
        if is_acl(name) {
            new_mode = put_acl(&mut set, name, value, kind, old_mode)?;
        } else {
            xattr::put(&mut set, name, value)?;
        }
        if kill_set_gid {
            new_mode = new_mode.map(|mode| mode & !SET_GID);
        }
        self.replace_set(now, ino, set, new_mode)
    }

    /// Removes an attribute. Removing an ACL that is not there succeeds.
    ///
    /// # Errors
    /// `NoAttribute`, and those of [`Vfs::setxattr`].
    pub fn removexattr(&mut self, now: TimeNs, ino: InodeNo, name: &[u8]) -> Outcome<()> {
        refuse_past(&[ino])?;
        let kind = self.store.inode(ino)?.kind;
        check_name(name, kind)?;
        let mut set = xattr::load(&mut self.store, ino)?;
        if xattr::remove(&mut set, name)? {
            self.replace_set(now, ino, set, None)
        } else if is_acl(name) {
            Ok(())
        } else {
            Err(FsError::NoAttribute.into())
        }
    }

    fn replace_set(&mut self, now: TimeNs, ino: InodeNo, set: Vec<u8>, mode: Option<u16>) -> Outcome<()> {
        let replace = xattr::plan_replace(&mut self.store, ino, set)?;
        let mut op = self.begin(now, OpKind::File, |intents| {
            intents.push(Intent::Change { ino, grow_bytes: 0 });
            replace.declare(intents);
        })?;
        replace.apply(&mut self.store, &mut op);
        let inode = self.store.inode_mut(&mut op, ino);
        inode.mode = mode.unwrap_or(inode.mode);
        inode.ctime = now;
        self.end(op);
        Ok(())
    }
}

/// Puts an ACL into a set; returns the mode that comes with an access ACL. An empty ACL removes the stored one.
fn put_acl(
    set: &mut Vec<u8>,
    name: &[u8],
    blob: &[u8],
    kind: Kind,
    old_mode: u16,
) -> Result<Option<u16>, FsError> {
    let acl = Acl::parse(blob)?;
    if name == acl::DEFAULT && kind != Kind::Directory {
        return if acl.is_some() { Err(FsError::Access) } else { Ok(None) };
    }
    let Some(acl) = acl else {
        xattr::remove(set, name)?;
        return Ok(None);
    };
    if name == acl::DEFAULT {
        xattr::put(set, name, &acl.encode())?;
        return Ok(None);
    }
    if acl.is_minimal() {
        xattr::remove(set, name)?;
    } else {
        xattr::put(set, name, &acl.encode())?;
    }
    Ok(Some(old_mode & !0o777 | acl.mode()))
}
