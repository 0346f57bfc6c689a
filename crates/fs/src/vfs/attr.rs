//! Attributes: getattr, setattr; and the changes that clear set-id bits.

use super::history::refuse_past;
use super::{Attr, SetAttr, SetTime, Vfs};
use crate::error::Outcome;
use crate::inode::Kind;
use crate::store::{Intent, Op, OpKind, Store};
use crate::ufs::acl;
use crate::ufs::file::{self, Truncate};
use crate::ufs::make::{SET_GID, SET_UID, stored};
use crate::ufs::xattr::{self, Replace};
use firnfs_format::{InodeNo, TimeNs};

/// Group execution: without it the set-group-id bit means mandatory locking and stays.
const GROUP_EXEC: u16 = 0o010;

/// The mode of a file after its content or owner was changed by a caller without the right to set ids.
fn without_set_id(mode: u16) -> u16 {
    let mode = mode & !SET_UID;
    if mode & GROUP_EXEC != 0 { mode & !SET_GID } else { mode }
}

/// Set-id bits and capabilities to be cleared.
pub(super) struct Kill {
    ino: InodeNo,
    mode: u16,
    xattrs: Option<Replace>,
}

impl Kill {
    pub(super) fn declare(&self, intents: &mut Vec<Intent>) {
        match &self.xattrs {
            Some(xattrs) => xattrs.declare(intents),
            None => intents.push(Intent::Change { ino: self.ino, grow_bytes: 0 }),
        }
    }

    pub(super) fn apply<S: Store>(self, store: &mut S, op: &mut Op) {
        if let Some(xattrs) = self.xattrs {
            xattrs.apply(store, op);
        }
        store.inode_mut(op, self.ino).mode = self.mode;
    }
}

/// A planned setattr.
struct Change {
    ino: InodeNo,
    set: SetAttr,
    size: Option<Truncate>,
    mode: Option<u16>,
    acl: Option<Replace>,
    kill: Option<Kill>,
}

impl<S: Store> Vfs<S> {
    /// The attributes of an inode.
    ///
    /// # Errors
    /// `NotFound`; `Need`, `Corrupt`.
    pub fn getattr(&mut self, ino: InodeNo) -> Outcome<Attr> {
        self.attr_of(ino)
    }

    /// Changes attributes; a change of mode also changes the access ACL. Without anything to change it is a getattr.
    ///
    /// # Errors
    /// For a size: `IsDirectory`, `Invalid` (not a regular file), `TooLarge`, `NoSpace`. `NotFound`, `ReadOnly`; `Need`,
    /// `Room`, `Corrupt`.
    pub fn setattr(&mut self, now: TimeNs, ino: InodeNo, set: SetAttr) -> Outcome<Attr> {
        if (SetAttr { kill_set_id: false, ..set }) == SetAttr::default() {
            return self.attr_of(ino);
        }
        refuse_past(&[ino])?;
        let change = self.plan_change(ino, set)?;
        self.note_transfer(ino, &set)?;
        let mut op = self.begin(now, OpKind::File, |intents| change.declare(intents))?;
        let atime = change.apply(&mut self.store, &mut op);
        let attr = self.attr_within(&mut op, ino);
        self.end(op);
        if let Some(atime) = atime {
            self.store.set_atime(ino, atime);
        }
        Ok(attr)
    }

    fn plan_change(&mut self, ino: InodeNo, set: SetAttr) -> Outcome<Change> {
        let kind = self.store.inode(ino)?.kind;
        let mode = set.mode.map(|mode| mode & 0o7777);
        let mut change = Change { ino, set, size: None, mode, acl: None, kill: None };
        if let Some(size_bytes) = set.size_bytes {
            let file = file::view(&mut self.store, ino)?;
            change.size = Some(file::plan_truncate(&self.store.facts(), file, size_bytes)?);
        }
        let kills = set.kill_set_id && (set.uid.is_some() || set.gid.is_some() || set.size_bytes.is_some());
        match mode {
            Some(mode) => change.acl = self.plan_chmod(ino, mode)?,
            None if kills && kind != Kind::Directory => change.kill = self.plan_kill(ino)?,
            None => {}
        }
        Ok(change)
    }

    /// The access ACL after a chmod, if there is one.
    fn plan_chmod(&mut self, ino: InodeNo, mode: u16) -> Outcome<Option<Replace>> {
        if xattr::is_empty(&mut self.store, ino)? {
            return Ok(None);
        }
        let mut set = xattr::load(&mut self.store, ino)?;
        let Some(blob) = xattr::find(&set, acl::ACCESS)? else { return Ok(None) };
        let Some(mut acl) = stored(ino, blob)? else { return Ok(None) };
        acl.chmod(mode);
        xattr::put(&mut set, acl::ACCESS, &acl.encode())?;
        xattr::plan_replace(&mut self.store, ino, set).map(Some)
    }

    /// Set-id bits and capabilities that a write, truncate or chown removes; `None` if there are none.
    pub(super) fn plan_kill(&mut self, ino: InodeNo) -> Outcome<Option<Kill>> {
        let old = self.store.inode(ino)?.mode;
        let mode = without_set_id(old);
        let mut xattrs = None;
        if !xattr::is_empty(&mut self.store, ino)? {
            let mut set = xattr::load(&mut self.store, ino)?;
            if xattr::remove(&mut set, xattr::CAPABILITY)? {
                xattrs = Some(xattr::plan_replace(&mut self.store, ino, set)?);
            }
        }
        let nothing = mode == old && xattrs.is_none();
        Ok((!nothing).then_some(Kill { ino, mode, xattrs }))
    }
}

impl Change {
    fn declare(&self, intents: &mut Vec<Intent>) {
        intents.push(Intent::Change { ino: self.ino, grow_bytes: 0 });
        if let Some(size) = &self.size {
            size.declare(intents);
        }
        if let Some(acl) = &self.acl {
            acl.declare(intents);
        }
        if let Some(kill) = &self.kill {
            kill.declare(intents);
        }
    }

    /// Changes the inode; returns the access time to set.
    fn apply<S: Store>(self, store: &mut S, op: &mut Op) -> Option<TimeNs> {
        let now = op.now;
        let time = |set: SetTime| match set {
            SetTime::Now => now,
            SetTime::At(time) => time,
        };
        if let Some(size) = &self.size {
            size.apply(store, op);
        }
        if let Some(acl) = self.acl {
            acl.apply(store, op);
        }
        if let Some(kill) = self.kill {
            kill.apply(store, op);
        }
        let inode = store.inode_mut(op, self.ino);
        inode.mode = self.mode.unwrap_or(inode.mode);
        inode.uid = self.set.uid.unwrap_or(inode.uid);
        inode.gid = self.set.gid.unwrap_or(inode.gid);
        if self.size.is_some() {
            inode.mtime = now;
        }
        inode.mtime = self.set.mtime.map_or(inode.mtime, time);
        inode.atime = self.set.atime.map_or(inode.atime, time);
        inode.ctime = now;
        self.set.atime.map(time)
    }
}
