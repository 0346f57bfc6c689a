//! The inode of a new file: its mode, and the group and ACLs that its directory passes on.
//!
//! - A directory with the set-group-id bit gives its group to everything made in it, and the bit to new directories.
//! - A directory with a default ACL gives it as access ACL (reduced to the requested mode), and to new directories
//!   also as their default ACL; the umask counts only without a default ACL. Symbolic links have mode 0777 and no
//!   ACL.
//!
//! Caller: [`crate::vfs`].

use super::acl::{self, Acl};
use super::{empty_body, xattr};
use crate::error::{FsError, Outcome};
use crate::inode::{Body, Inode, Kind, Xattrs};
use crate::states::local;
use crate::store::{Fork, Intent, Op, Owner, Store};
use firnfs_format::{InodeNo, TimeNs};

/// Longest target of a symbolic link, in bytes (PATH_MAX less its NUL).
pub const TARGET_MAX_BYTES: usize = 4095;

/// Set-group-id.
pub(crate) const SET_GID: u16 = 0o2000;
/// Set-user-id.
pub(crate) const SET_UID: u16 = 0o4000;

/// The caller, who owns the new file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Owner of new files.
    pub uid: u32,
    /// Group of new files, unless the directory has the set-group-id bit.
    pub gid: u32,
    /// Bits to clear in the mode of new files (ignored if the directory has a default ACL).
    pub umask: u16,
}

/// The file to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewNode<'a> {
    /// File type; any.
    pub kind: Kind,
    /// Permission bits before the umask.
    pub mode: u16,
    /// Device number (`major << 32 | minor`), for device nodes.
    pub rdev: u64,
    /// Target, for symbolic links; else empty.
    pub target: &'a [u8],
}

/// A planned new file, with the content and attributes that did not fit its inode.
#[derive(Clone, Debug)]
pub struct Made {
    inode: Inode,
    content: Vec<u8>,
    xattrs: Vec<u8>,
}

/// Plans the inode of a file to be made in `parent`.
///
/// # Errors
/// `Need`, `Corrupt`; `NotFound` for an empty target, `NameTooLong` for one that is too long.
pub fn plan_make<S: Store>(
    store: &mut S,
    now: TimeNs,
    caller: Caller,
    parent: InodeNo,
    node: &NewNode<'_>,
) -> Outcome<Made> {
    let facts = store.facts();
    let directory = store.inode(parent)?;
    let (parent_gid, passes_group) = (directory.gid, directory.mode & SET_GID != 0);
    let mut inode = Inode::new(node.kind, now);
    inode.uid = caller.uid;
    inode.gid = if passes_group { parent_gid } else { caller.gid };
    inode.nlink = 1;
    inode.body = empty_body(&facts);
    if matches!(node.kind, Kind::CharDevice | Kind::BlockDevice) {
        inode.rdev = node.rdev;
    }
    let mut made = Made { inode, content: Vec::new(), xattrs: Vec::new() };
    if node.kind == Kind::Symlink {
        made.inode.mode = 0o777;
        made.set_target(node.target, facts.inline_max_bytes as usize)?;
        return Ok(made);
    }
    let set = made.inherit(store, parent, node.mode & 0o7777, caller.umask)?;
    if xattr::fits_inline(&facts, &set) {
        made.inode.xattrs = Xattrs::Inline(set);
    } else {
        made.inode.xattrs = Xattrs::Blocks(set.len() as u32);
        made.xattrs = set;
    }
    if node.kind == Kind::Directory {
        made.inode.nlink = 2;
        made.inode.parent = local(parent);
        made.inode.mode |= if passes_group { SET_GID } else { 0 };
    }
    Ok(made)
}

impl Made {
    fn set_target(&mut self, target: &[u8], inline_max: usize) -> Result<(), FsError> {
        if target.is_empty() {
            return Err(FsError::NotFound);
        }
        if target.len() > TARGET_MAX_BYTES {
            return Err(FsError::NameTooLong);
        }
        self.inode.size_bytes = target.len() as u64;
        if target.len() <= inline_max {
            self.inode.body = Body::Inline(target.to_vec());
        } else {
            self.inode.body = Body::Blocks;
            self.content = target.to_vec();
        }
        Ok(())
    }

    /// Sets the mode, and returns the attributes that the directory passes on.
    fn inherit<S: Store>(
        &mut self,
        store: &mut S,
        parent: InodeNo,
        mode: u16,
        umask: u16,
    ) -> Outcome<Vec<u8>> {
        self.inode.mode = mode & !umask;
        let mut set = Vec::new();
        if xattr::is_empty(store, parent)? {
            return Ok(set);
        }
        let Some(blob) = xattr::get(store, parent, acl::DEFAULT)? else { return Ok(set) };
        let Some(default) = stored(parent, &blob)? else { return Ok(set) };
        let (access, mode) = default.inherit(mode);
        self.inode.mode = mode;
        if !access.is_minimal() {
            xattr::put(&mut set, acl::ACCESS, &access.encode())?;
        }
        if self.inode.kind == Kind::Directory {
            xattr::put(&mut set, acl::DEFAULT, &blob)?;
        }
        Ok(set)
    }

    /// The same file, still without a name.
    #[must_use]
    pub fn without_name(mut self) -> Self {
        self.inode.nlink = 0;
        self
    }

    /// Declares the new inode, in a directory.
    #[must_use]
    pub fn intent(&self, parent: InodeNo) -> Intent {
        let Inode { kind, uid, gid, .. } = self.inode;
        let bytes = (self.inode.inline_bytes() + self.content.len() + self.xattrs.len()) as u64;
        Intent::Create { parent, kind, owner: Owner { uid, gid }, bytes }
    }

    /// Makes the inode.
    pub fn apply<S: Store>(self, store: &mut S, op: &mut Op) -> InodeNo {
        let ino = store.inode_alloc(op, self.inode);
        op.made = Some(ino);
        if !self.content.is_empty() {
            store.write(op, ino, Fork::Data, 0, self.content[..].into());
        }
        if !self.xattrs.is_empty() {
            store.write(op, ino, Fork::Xattr, 0, self.xattrs[..].into());
        }
        ino
    }
}

/// Reads an ACL that the file system itself accepted earlier.
pub(crate) fn stored(ino: InodeNo, blob: &[u8]) -> Result<Option<Acl>, FsError> {
    Acl::parse(blob).map_err(|error| FsError::Corrupt {
        what: format!("ACL of inode {ino}"),
        at: "extended attributes".to_owned(),
        expected: "a valid ACL".to_owned(),
        found: error.to_string(),
    })
}
