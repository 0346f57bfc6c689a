//! POSIX operations on inode numbers, over any [`Store`].
//!
//! Each operation either completes without I/O or stops having changed nothing (see [`Stop`](crate::Stop)); the driver
//! then does what is needed and calls it again. Permission checks on access are the adapter's (the kernel's, with
//! `default_permissions`); what depends on the file system is done here: set-id clearing, ACL inheritance, umask,
//! sticky bits excepted. Names are bytes, 1 to 255 of them, without `/` and NUL.

use crate::error::Outcome;
use crate::inode::Kind;
use crate::store::{ReadPlan, Scope, Space, Store, Ticket};
use firnfs_format::{InodeNo, TimeNs};

/// Who asks, for the ownership of what is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Owner of new files.
    pub uid: u32,
    /// Group of new files, unless the directory has the set-group-id bit.
    pub gid: u32,
    /// Bits to clear in the mode of new files (ignored where the directory has a default ACL).
    pub umask: u16,
}

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
    /// Names.
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
    /// That time.
    At(TimeNs),
}

/// What setattr changes; `None` leaves alone.
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

/// What to make.
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

/// renameat2's flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameMode {
    /// Replaces what is there.
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

/// fallocate's modes that are supported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocate {
    /// Charge holes; grow the file.
    Grow,
    /// Charge holes; FALLOC_FL_KEEP_SIZE.
    KeepSize,
    /// FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
    PunchHole,
    /// FALLOC_FL_ZERO_RANGE; `true` keeps the size.
    ZeroRange(bool),
}

/// lseek's whence that needs the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek {
    /// SEEK_DATA
    Data,
    /// SEEK_HOLE
    Hole,
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

/// The file system: a store and who holds what open.
pub struct Vfs<S> {
    store: S,
    atime_mode: AtimeMode,
    // H2 fills: lookup counts, open counts, ...
}

#[allow(missing_docs, unused_variables)] // replaced by the implementation
impl<S: Store> Vfs<S> {
    /// Over an opened store.
    pub fn new(store: S, atime_mode: AtimeMode) -> Self {
        Self { store, atime_mode }
    }
    pub fn store(&self) -> &S {
        &self.store
    }
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }
    pub fn into_store(self) -> S {
        self.store
    }

    // --- names. Each that returns an Attr to a kernel counts one lookup if `hold` (given back with `forget`).
    pub fn lookup(&mut self, now: TimeNs, parent: InodeNo, name: &[u8], hold: bool) -> Outcome<Attr> {
        todo!()
    }
    pub fn make(
        &mut self,
        now: TimeNs,
        caller: Caller,
        parent: InodeNo,
        name: &[u8],
        node: NewNode<'_>,
        hold: bool,
    ) -> Outcome<Attr> {
        todo!()
    }
    pub fn link(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        parent: InodeNo,
        name: &[u8],
        hold: bool,
    ) -> Outcome<Attr> {
        todo!()
    }
    pub fn unlink(&mut self, now: TimeNs, parent: InodeNo, name: &[u8]) -> Outcome<()> {
        todo!()
    }
    pub fn rmdir(&mut self, now: TimeNs, parent: InodeNo, name: &[u8]) -> Outcome<()> {
        todo!()
    }
    pub fn rename(
        &mut self,
        now: TimeNs,
        from: (InodeNo, &[u8]),
        to: (InodeNo, &[u8]),
        mode: RenameMode,
    ) -> Outcome<()> {
        todo!()
    }
    /// Visits entries from `cookie` (0: from the start) until the visitor returns false.
    pub fn readdir(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        cookie: u64,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Outcome<()> {
        todo!()
    }
    pub fn readlink(&mut self, now: TimeNs, ino: InodeNo) -> Outcome<Vec<u8>> {
        todo!()
    }

    // --- lifetime of inodes: an unlinked inode lives while held (lookups, opens).
    /// Counts one more holder (an open handle of an embedding program).
    pub fn hold(&mut self, ino: InodeNo) -> Outcome<()> {
        todo!()
    }
    /// Takes back `count` holds; frees the inode if it has no names and no holders left (that may `Need` or `Room`).
    pub fn forget(&mut self, now: TimeNs, ino: InodeNo, count: u64) -> Outcome<()> {
        todo!()
    }
    /// At mount: frees what a crash left without names. At unmount: what is still held but has no names.
    pub fn release_orphans(&mut self, now: TimeNs) -> Outcome<()> {
        todo!()
    }

    // --- attributes
    pub fn getattr(&mut self, ino: InodeNo) -> Outcome<Attr> {
        todo!()
    }
    pub fn setattr(&mut self, now: TimeNs, ino: InodeNo, set: SetAttr) -> Outcome<Attr> {
        todo!()
    }
    pub fn getxattr(&mut self, ino: InodeNo, name: &[u8]) -> Outcome<Vec<u8>> {
        todo!()
    }
    /// NUL-terminated names, one after another.
    pub fn listxattr(&mut self, ino: InodeNo) -> Outcome<Vec<u8>> {
        todo!()
    }
    pub fn setxattr(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Outcome<()> {
        todo!()
    }
    pub fn removexattr(&mut self, now: TimeNs, ino: InodeNo, name: &[u8]) -> Outcome<()> {
        todo!()
    }

    // --- data
    /// Plans a read, cut at the end of file; touches atime as the mode says. The caller gives the pin back.
    pub fn read(&mut self, now: TimeNs, ino: InodeNo, at_bytes: u64, len_bytes: u64) -> Outcome<ReadPlan> {
        todo!()
    }
    /// Writes at most `StoreFacts::op_max_bytes`; returns how much was written (all of it, or the part that fits one
    /// operation: call again for the rest). `kill_set_id` as in [`SetAttr`].
    pub fn write(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        at_bytes: u64,
        bytes: &[u8],
        kill_set_id: bool,
    ) -> Outcome<usize> {
        todo!()
    }
    /// Does a part of the range and returns the offset where the rest starts, `None` when all is done.
    pub fn fallocate(
        &mut self,
        now: TimeNs,
        ino: InodeNo,
        mode: Allocate,
        at_bytes: u64,
        len_bytes: u64,
    ) -> Outcome<Option<u64>> {
        todo!()
    }
    pub fn seek(&mut self, ino: InodeNo, at_bytes: u64, whence: Seek) -> Outcome<u64> {
        todo!()
    }

    // --- the whole
    pub fn statfs(&self) -> Space {
        self.store.space()
    }
    pub fn commit(&mut self, now: TimeNs, scope: Scope) -> Outcome<Ticket> {
        self.store.commit(now, scope)
    }
}
