//! POSIX operations on inode numbers, over any [`Store`].
//!
//! Each operation either completes without I/O or stops without having changed anything (see [`Stop`]); the
//! driver then does the necessary work and calls it again. The adapter checks access permissions (the kernel does, with
//! `default_permissions`). This module handles the rules that depend on the file system: set-id clearing, ACL inheritance,
//! umask; but not sticky bits. Names are bytes, 1 to 255 of them, without `/` and NUL.
//!
//! There is one file per topic: `names` (lookup, make, link, unlink, rmdir), `rename`, `listing` (readdir, readlink),
//! `attr`, `xattrs`, `data`, `lifetime`, `quotas`, `history` (older states). All operations have the same form: look, declare, `begin`, change (see
//! [`crate::store`]). Nothing changes before `begin` has succeeded, not even in-core hints and counts.
//!
//! Across a crash a caller can assume that an operation on names is there as a whole or not at all, and in order with the
//! others; and that each block of a write is there or not. [`Vfs::release_orphans`] at the next mount frees an inode whose
//! last name was removed while it was held.

mod attr;
mod data;
pub mod history;
mod lifetime;
mod listing;
mod names;
mod quotas;
mod rename;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod xattr_tests;
mod xattrs;

pub use crate::ufs::file::{Allocate, Seek};
pub use crate::ufs::make::{Caller, NewNode};
pub use listing::{Listing, Wanted};
pub use names::LINK_MAX;
pub use quotas::{LimitChange, QuotaLine, QuotaReport};

use crate::error::{Outcome, Stop};
use crate::inode::{Inode, Kind};
use crate::states::{branch_of, is_made_up, is_past};
use crate::store::{
    self, Intent, Op, OpKind, Preparation, Prepared, Scope, Space, Store, StoreFacts, Ticket,
};
use crate::ufs::dir::Hints;
use crate::ufs::quota::Quotas;
use firnfs_format::{InodeNo, TimeNs};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// stat(2)'s view of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attr {
    /// Inode number.
    pub ino: InodeNo,
    /// See [`crate::inode::Inode::generation`].
    pub generation: u64,
    /// File type.
    pub kind: Kind,
    /// Permission, set-id and sticky bits.
    pub mode: u16,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// `major << 32 | minor` of a device node.
    pub rdev: u64,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Space charged to the file, in bytes.
    pub allocated_bytes: u64,
    /// Last access.
    pub atime: TimeNs,
    /// Last change of content.
    pub mtime: TimeNs,
    /// Last change of the inode.
    pub ctime: TimeNs,
    /// Creation.
    pub btime: TimeNs,
}

/// A time to set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// The time of the operation.
    Now,
    /// This time.
    At(TimeNs),
}

/// The changes of a setattr; `None` leaves a value alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttr {
    /// New permission bits (07777).
    pub mode: Option<u16>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size, in bytes.
    pub size_bytes: Option<u64>,
    /// New access time.
    pub atime: Option<SetTime>,
    /// New modification time.
    pub mtime: Option<SetTime>,
    /// The caller lacks CAP_FSETID: a change of owner, group or size clears set-id bits (and `security.capability`).
    pub kill_set_id: bool,
}

/// renameat2's flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameMode {
    /// Replaces an existing target.
    Replace,
    /// RENAME_NOREPLACE
    NoReplace,
    /// RENAME_EXCHANGE
    Exchange,
}

/// setxattr's flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XattrMode {
    /// Create or replace.
    Any,
    /// XATTR_CREATE
    Create,
    /// XATTR_REPLACE
    Replace,
}

/// One directory entry, as readdir hands it to its visitor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirEntry<'a> {
    /// Inode it names.
    pub ino: InodeNo,
    /// File type.
    pub kind: Kind,
    /// Cookie to continue after this entry. Never 0.
    pub next: u64,
    /// The name (`.` and `..` included).
    pub name: &'a [u8],
}

/// How access times are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AtimeMode {
    /// When older than mtime or ctime, or than a day.
    #[default]
    Relatime,
    /// Never.
    Noatime,
    /// On every read.
    Strictatime,
}

/// Whether changes are held back, so that a copy of the device can be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Frozen {
    /// They are not.
    #[default]
    No,
    /// New changes wait; those before become durable.
    Changes,
    /// As well, and the driver writes nothing.
    Device,
}

/// The file system: a store, and the holders of its inodes.
pub struct Vfs<S> {
    store: S,
    atime_mode: AtimeMode,
    /// Number of lookups and opens of each held inode.
    holds: FxHashMap<InodeNo, u64>,
    /// Held inodes without names: freed when their last hold is released.
    nameless: FxHashMap<InodeNo, lifetime::Nameless>,
    /// Orphans still to be freed, after [`Vfs::release_orphans`] stopped halfway.
    releasing: Option<VecDeque<InodeNo>>,
    hints: Hints,
    /// Reused for each operation to save its allocation; empty in between.
    intents: Vec<Intent>,
    /// Usage and limits; `None` while quotas are off.
    quotas: Option<Box<Quotas>>,
    /// The present operation is made by a caller whom limits do not bind.
    is_exempt: bool,
    /// The present operation changes a clone: no quota counts it.
    is_in_clone: bool,
    /// The latest ticket of ended operations, until the driver takes it.
    awaited: Option<Ticket>,
    frozen: Frozen,
    /// The last operation stopped only because changes are held back.
    was_held: bool,
}

impl<S: Store> Vfs<S> {
    /// A file system over an opened store.
    pub fn new(store: S, atime_mode: AtimeMode) -> Self {
        Self {
            store,
            atime_mode,
            holds: FxHashMap::default(),
            nameless: FxHashMap::default(),
            releasing: None,
            hints: Hints::default(),
            intents: Vec::new(),
            quotas: None,
            is_exempt: false,
            is_in_clone: false,
            awaited: None,
            frozen: Frozen::No,
            was_held: false,
        }
    }

    /// The store, to look at.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The store, for its driver.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Returns the store; holds are forgotten (see [`Vfs::release_orphans`]).
    pub fn into_store(self) -> S {
        self.store
    }

    /// Space, as statfs(2) shows it.
    pub fn statfs(&self) -> Space {
        self.store.space()
    }

    /// Sizes, limits and promises of the store.
    pub fn facts(&self) -> StoreFacts {
        self.store.facts()
    }

    /// Why the volume is read-only; `None` if it is writable.
    pub fn read_only(&self) -> Option<&str> {
        self.store.read_only()
    }

    /// A short part of a commit ahead of it; see [`Store::prepare_commit`].
    ///
    /// # Errors
    /// `Need`, `Room`, `ReadOnly`, `Io`.
    pub fn prepare_commit(
        &mut self,
        now: TimeNs,
        scope: Scope,
        preparation: &mut Preparation,
    ) -> Outcome<Prepared> {
        self.store.prepare_commit(now, scope, preparation)
    }

    /// Starts to make a scope durable; see [`Store::commit`].
    ///
    /// # Errors
    /// `Need`, `Room`, `ReadOnly`, `Io`.
    pub fn commit(&mut self, now: TimeNs, scope: Scope) -> Outcome<Ticket> {
        self.store.commit(now, scope)
    }

    /// close(2): see [`Store::file_closed`].
    ///
    /// # Errors
    /// `Need`, `Io`.
    pub fn file_closed(&mut self, ino: InodeNo) -> Outcome<Option<Ticket>> {
        self.store.file_closed(ino)
    }

    /// Whether changes are held back.
    pub fn frozen(&self) -> Frozen {
        self.frozen
    }

    /// Holds changes back, or allows them again. Operations that would change something return [`Stop::Room`] meanwhile, and
    /// [`Vfs::take_held`] tells their driver that only this can help them. What the store does by itself is the driver's to stop.
    pub fn set_frozen(&mut self, frozen: Frozen) {
        self.frozen = frozen;
    }

    /// True if an operation has stopped since the last call because changes are held back.
    pub fn take_held(&mut self) -> bool {
        std::mem::take(&mut self.was_held)
    }

    /// Begins an operation with the intents that `declare` lists.
    fn begin(&mut self, now: TimeNs, kind: OpKind, declare: impl FnOnce(&mut Vec<Intent>)) -> Outcome<Op> {
        store::refuse_read_only(&self.store)?;
        if self.frozen != Frozen::No {
            self.was_held = true;
            return Err(Stop::Room);
        }
        self.intents.clear();
        declare(&mut self.intents);
        debug_assert!(!self.intents.iter().filter_map(Intent::ino).any(is_past), "refused before");
        self.is_in_clone = self.intents.iter().any(is_in_clone);
        match &self.quotas {
            Some(_) if !self.is_in_clone => self.begin_within_quotas(now, kind),
            _ => self.store.begin(now, kind, &self.intents),
        }
    }

    /// Ends an operation.
    fn end(&mut self, op: Op) {
        if self.quotas.is_some() && !self.is_in_clone {
            self.count_operation(&op);
        }
        self.awaited = self.awaited.max(self.store.end(op));
    }

    /// The ticket that the caller must wait for before it reports the operations so far as done, if there is one. Returned
    /// once.
    pub fn take_awaited(&mut self) -> Option<Ticket> {
        self.awaited.take()
    }

    /// The attributes of an inode that the open operation has declared or made.
    fn attr_within(&mut self, op: &mut Op, ino: InodeNo) -> Attr {
        let attr = Attr::of(ino, self.store.inode_mut(op, ino));
        Attr { allocated_bytes: self.store.allocated_bytes(ino), ..attr }
    }

    /// Looks up the attributes of an inode.
    fn attr_of(&mut self, ino: InodeNo) -> Outcome<Attr> {
        if is_made_up(ino) {
            return self.made_up_attr(ino);
        }
        let attr = self.stored_attr(ino)?;
        if is_past(ino) { self.past_attr(attr) } else { Ok(attr) }
    }

    /// The attributes of an inode, as the store has them.
    fn stored_attr(&mut self, ino: InodeNo) -> Outcome<Attr> {
        let attr = Attr::of(ino, self.store.inode(ino)?);
        Ok(Attr { allocated_bytes: self.store.allocated_bytes(ino), ..attr })
    }
}

fn is_in_clone(intent: &Intent) -> bool {
    let ino = match intent {
        Intent::Create { parent, .. } => Some(*parent),
        other => other.ino(),
    };
    ino.is_some_and(|ino| branch_of(ino) != 0)
}

impl Attr {
    /// All attributes but the space charged, which the store knows.
    fn of(ino: InodeNo, inode: &Inode) -> Self {
        Self {
            ino,
            generation: inode.generation,
            kind: inode.kind,
            mode: inode.mode,
            nlink: inode.nlink,
            uid: inode.uid,
            gid: inode.gid,
            rdev: inode.rdev,
            size_bytes: inode.size_bytes,
            allocated_bytes: 0,
            atime: inode.atime,
            mtime: inode.mtime,
            ctime: inode.ctime,
            btime: inode.btime,
        }
    }
}
