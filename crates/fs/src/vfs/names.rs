//! Names: lookup, make, link, unlink, rmdir, and the parts that `rename` shares with them.

use super::history::{refuse_crossing, refuse_past};
use super::lifetime::Nameless;
use super::{Attr, Caller, NewNode, Vfs};
use crate::dirent;
use crate::error::{FsError, Outcome};
use crate::inode::Kind;
use crate::states::is_made_up;
use crate::store::{Intent, Op, OpKind, Store};
use crate::ufs::dir::{self, DirView, Found, Lookup};
use crate::ufs::make;
use firnfs_format::{InodeNo, TimeNs};

/// Most names that a file other than a directory can have.
pub const LINK_MAX: u32 = i32::MAX as u32;

/// Checks a name to look up.
fn check_name(name: &[u8]) -> Result<(), FsError> {
    if name.is_empty() {
        return Err(FsError::NotFound);
    }
    if name.len() > dirent::NAME_MAX_BYTES {
        return Err(FsError::NameTooLong);
    }
    if name.iter().any(|&byte| byte == b'/' || byte == 0) {
        return Err(FsError::Invalid("name with / or NUL"));
    }
    Ok(())
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// Checks a name to make: `.` and `..` always exist.
fn check_new_name(name: &[u8]) -> Result<(), FsError> {
    if is_dots(name) { Err(FsError::Exists) } else { check_name(name) }
}

/// Checks a name to remove or to move.
pub(super) fn check_plain_name(name: &[u8]) -> Result<(), FsError> {
    if is_dots(name) { Err(FsError::Invalid(". or ..")) } else { check_name(name) }
}

/// The facts of an inode that an entry names, as far as names are concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) ino: InodeNo,
    pub(super) kind: Kind,
    nlink: u32,
    pub(super) entries: u64,
}

impl Target {
    pub(super) fn is_dir(&self) -> bool {
        self.kind == Kind::Directory
    }
}

/// The effect of a lost name on an inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    target: Target,
    is_last_name: bool,
    /// It has no holder: the same operation frees it.
    frees: bool,
}

impl Loss {
    pub(super) fn declare(&self, intents: &mut Vec<Intent>) {
        let ino = self.target.ino;
        intents.push(if self.frees { Intent::Free { ino } } else { Intent::Change { ino, grow_bytes: 0 } });
    }
}

impl<S: Store> Vfs<S> {
    /// Finds a name, `.` and `..` included. With `hold`, counts one lookup of the inode (released with [`Vfs::forget`]).
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NameTooLong`, `Invalid` (a name with `/` or NUL); `Stale` (in a state that the store has dropped);
    /// `Need`, `Corrupt`.
    pub fn lookup(&mut self, _now: TimeNs, parent: InodeNo, name: &[u8], hold: bool) -> Outcome<Attr> {
        let attr = if is_made_up(parent) {
            self.lookup_made_up(parent, name)?
        } else {
            self.lookup_stored(parent, name)?
        };
        if hold {
            self.add_hold(attr.ino);
        }
        Ok(attr)
    }

    fn lookup_stored(&mut self, parent: InodeNo, name: &[u8]) -> Outcome<Attr> {
        let dir = dir::view(&mut self.store, parent)?;
        check_name(name)?;
        match name {
            b"." => self.attr_of(parent),
            b".." if dir.nlink == 0 => Err(FsError::NotFound.into()),
            b".." => self.attr_of(Self::parent_of(&dir)),
            _ => {
                let found = match dir::lookup(&mut self.store, &dir, name)?.found {
                    Some(found) => found,
                    None if self.is_hidden_dir(parent, name)? => return self.hidden_dir(),
                    None => return Err(FsError::NotFound.into()),
                };
                self.target(&dir, &found)?;
                let attr = self.attr_of(found.ino)?;
                self.store.note_access(parent, found.ino);
                Ok(attr)
            }
        }
    }

    /// Makes a file of any kind. Mode, group and ACLs follow the directory's (see [`crate::ufs::make`]).
    ///
    /// # Errors
    /// `Exists`, `NotFound` (the directory was removed; an empty target), `NotDirectory`, `NameTooLong` (name or target),
    /// `TooManyLinks` (subdirectories), `NoSpace`, `Invalid`, `ReadOnly`; `Need`, `Room`, `Corrupt`.
    pub fn make(
        &mut self,
        now: TimeNs,
        caller: Caller,
        parent: InodeNo,
        name: &[u8],
        node: NewNode<'_>,
        hold: bool,
    ) -> Outcome<Attr> {
        refuse_past(&[parent])?;
        let dir = self.living_dir(parent)?;
        check_new_name(name)?;
        self.absent(&dir, name)?;
        let is_dir = node.kind == Kind::Directory;
        if is_dir && dir.nlink == u32::MAX {
            return Err(FsError::TooManyLinks.into());
        }
        let made = make::plan_make(&mut self.store, now, caller, parent, &node)?;
        let insert = dir::plan_insert(&mut self.store, &self.hints, dir, name, None)?;
        let mut op = self.begin(now, OpKind::Names, |intents| {
            intents.push(made.intent(parent));
            insert.declare(name.len(), intents);
        })?;
        let ino = made.apply(&mut self.store, &mut op);
        insert.apply(&mut self.store, &mut op, &mut self.hints, name, (ino, node.kind));
        self.touch_dir(&mut op, parent, u32::from(is_dir), 0);
        let attr = self.attr_within(&mut op, ino);
        self.end(op);
        if hold {
            self.add_hold(ino);
        }
        Ok(attr)
    }

    /// Makes a regular file without a name, held once. It is freed with its last hold unless [`Vfs::link`] names it first
    /// (`O_TMPFILE`). Mode, group and ACLs follow the directory's.
    ///
    /// # Errors
    /// `NotFound` (the directory was removed), `NotDirectory`, `NoSpace`, `ReadOnly`; `Need`, `Room`, `Corrupt`.
    pub fn make_unnamed(&mut self, now: TimeNs, caller: Caller, parent: InodeNo, mode: u16) -> Outcome<Attr> {
        refuse_past(&[parent])?;
        self.living_dir(parent)?;
        let node = NewNode { kind: Kind::Regular, mode, rdev: 0, target: &[] };
        let made = make::plan_make(&mut self.store, now, caller, parent, &node)?.without_name();
        let mut op = self.begin(now, OpKind::Names, |intents| intents.push(made.intent(parent)))?;
        let ino = made.apply(&mut self.store, &mut op);
        let attr = self.attr_within(&mut op, ino);
        self.end(op);
        self.add_hold(ino);
        self.nameless.insert(ino, Nameless::NotYetNamed);
        Ok(attr)
    }

    /// Gives a file another name, or a file that was made without a name its first.
    ///
    /// # Errors
    /// `Exists`, `NotPermitted` (a directory), `NotFound` (no such inode, or one that lost all its names), `TooManyLinks`, and
    /// those of [`Vfs::make`].
    pub fn link(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        parent: InodeNo,
        name: &[u8],
        hold: bool,
    ) -> Outcome<Attr> {
        refuse_past(&[ino, parent])?;
        refuse_crossing(ino, parent)?;
        let dir = self.living_dir(parent)?;
        check_new_name(name)?;
        self.absent(&dir, name)?;
        let inode = self.store.inode(ino)?;
        let (kind, nlink) = (inode.kind, inode.nlink);
        if kind == Kind::Directory {
            return Err(FsError::NotPermitted("hard link to a directory").into());
        }
        if nlink == 0 && self.nameless.get(&ino) != Some(&Nameless::NotYetNamed) {
            return Err(FsError::NotFound.into());
        }
        if nlink >= LINK_MAX {
            return Err(FsError::TooManyLinks.into());
        }
        let insert = dir::plan_insert(&mut self.store, &self.hints, dir, name, None)?;
        let mut op = self.begin(now, OpKind::Names, |intents| {
            intents.push(Intent::Change { ino, grow_bytes: 0 });
            insert.declare(name.len(), intents);
        })?;
        insert.apply(&mut self.store, &mut op, &mut self.hints, name, (ino, kind));
        self.touch_dir(&mut op, parent, 0, 0);
        let inode = self.store.inode_mut(&mut op, ino);
        inode.nlink += 1;
        inode.ctime = now;
        let attr = self.attr_within(&mut op, ino);
        self.end(op);
        self.nameless.remove(&ino);
        if hold {
            self.add_hold(ino);
        }
        Ok(attr)
    }

    /// Removes a name of any file but a directory. A file without names and holders is freed.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `NotDirectory` (the parent), `NameTooLong`, `Invalid`, `ReadOnly`; `Need`, `Room`,
    /// `Corrupt`. Never `NoSpace`.
    pub fn unlink(&mut self, now: TimeNs, parent: InodeNo, name: &[u8]) -> Outcome<()> {
        refuse_past(&[parent])?;
        let (dir, lookup, target) = self.present(parent, name)?;
        if target.is_dir() {
            return Err(FsError::IsDirectory.into());
        }
        self.remove(now, dir, &lookup, target, name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotEmpty` (also for `..`), `NotDirectory`, `Invalid` (for `.`), and those of [`Vfs::unlink`].
    pub fn rmdir(&mut self, now: TimeNs, parent: InodeNo, name: &[u8]) -> Outcome<()> {
        if name == b".." {
            refuse_past(&[parent])?;
            self.living_dir(parent)?;
            return Err(FsError::NotEmpty.into());
        }
        refuse_past(&[parent])?;
        let (dir, lookup, target) = self.present(parent, name)?;
        if !target.is_dir() {
            return Err(FsError::NotDirectory.into());
        }
        if target.entries > 0 {
            return Err(FsError::NotEmpty.into());
        }
        self.remove(now, dir, &lookup, target, name)
    }

    fn remove(
        &mut self,
        now: TimeNs,
        dir: DirView,
        lookup: &Lookup,
        target: Target,
        name: &[u8],
    ) -> Outcome<()> {
        let loss = self.plan_loss(target);
        let remove = dir::plan_remove(&mut self.store, dir, lookup, name)?;
        let mut op = self.begin(now, OpKind::Names, |intents| {
            remove.declare(intents);
            loss.declare(intents);
        })?;
        remove.apply(&mut self.store, &mut op, &mut self.hints, false);
        self.touch_dir(&mut op, dir.ino, 0, u32::from(target.is_dir()));
        self.apply_loss(&mut op, loss);
        self.end(op);
        Ok(())
    }

    /// A directory that has not been removed.
    pub(super) fn living_dir(&mut self, ino: InodeNo) -> Outcome<DirView> {
        let dir = dir::view(&mut self.store, ino)?;
        if dir.nlink == 0 { Err(FsError::NotFound.into()) } else { Ok(dir) }
    }

    /// Makes sure that a name is free.
    fn absent(&mut self, dir: &DirView, name: &[u8]) -> Outcome<()> {
        let lookup = dir::lookup(&mut self.store, dir, name)?;
        let is_taken = lookup.found.is_some() || self.is_hidden_dir(dir.ino, name)?;
        if is_taken { Err(FsError::Exists.into()) } else { Ok(()) }
    }

    /// Finds a name and its inode.
    fn present(&mut self, parent: InodeNo, name: &[u8]) -> Outcome<(DirView, Lookup, Target)> {
        let dir = dir::view(&mut self.store, parent)?;
        check_plain_name(name)?;
        let lookup = dir::lookup(&mut self.store, &dir, name)?;
        let found = lookup.found.ok_or(FsError::NotFound)?;
        let target = self.target(&dir, &found)?;
        Ok((dir, lookup, target))
    }

    /// The inode of an entry. The volume must guarantee that it exists, and has the entry's type.
    pub(super) fn target(&mut self, dir: &DirView, found: &Found) -> Outcome<Target> {
        let corrupt = |actual: String| FsError::Corrupt {
            what: format!("directory {}", dir.ino),
            at: format!("entry at byte {}", found.at_bytes),
            expected: format!("inode {} of kind {:?} with names", found.ino, found.kind),
            found: actual,
        };
        let inode = match self.store.inode(found.ino) {
            Err(crate::Stop::Fail(FsError::NotFound)) => return Err(corrupt("no such inode".into()).into()),
            other => other?,
        };
        if inode.kind != found.kind || inode.nlink == 0 {
            return Err(corrupt(format!("{:?} with {} names", inode.kind, inode.nlink)).into());
        }
        Ok(Target { ino: found.ino, kind: inode.kind, nlink: inode.nlink, entries: inode.entries })
    }

    /// Plans what the loss of one name means for an inode (a directory has only one name).
    pub(super) fn plan_loss(&self, target: Target) -> Loss {
        let is_last_name = target.is_dir() || target.nlink == 1;
        Loss { target, is_last_name, frees: is_last_name && !self.holds.contains_key(&target.ino) }
    }

    pub(super) fn apply_loss(&mut self, op: &mut Op, loss: Loss) {
        let ino = loss.target.ino;
        let now = op.now;
        let inode = self.store.inode_mut(op, ino);
        inode.nlink = if loss.is_last_name { 0 } else { inode.nlink - 1 };
        inode.ctime = now;
        if loss.is_last_name && loss.target.is_dir() {
            self.hints.forget(ino);
        }
        if loss.frees {
            self.store.inode_free(op, ino);
        } else if loss.is_last_name {
            self.nameless.insert(ino, Nameless::Removed);
        }
    }

    /// Updates times and link count of a directory whose entries changed; subdirectories may have been added and removed.
    pub(super) fn touch_dir(&mut self, op: &mut Op, ino: InodeNo, came: u32, went: u32) {
        let now = op.now;
        let inode = self.store.inode_mut(op, ino);
        inode.mtime = now;
        inode.ctime = now;
        inode.nlink = inode.nlink.saturating_add(came).saturating_sub(went);
    }
}
