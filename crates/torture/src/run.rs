//! Carries operations out on a file system, and reads its whole content back.
//!
//! A [`Target`] is a store with its driver: the memory store needs only a retry loop; a volume on a device reads the
//! blocks that an operation needs. Callers: the model tests, the crash explorer.

use crate::model::Seen;
use crate::ops::{File, HANDLES, Op, Path, pattern};
use firnfs::inode::Kind;
use firnfs::store::{Piece, Store};
use firnfs::vfs::{Allocate, Seek};
use firnfs::vfs::{Attr, Caller, NewNode, Vfs};
use firnfs::{FsError, Outcome, Stop};
use firnfs_format::{InodeNo, TimeNs};
use std::collections::BTreeMap;

/// Attributes on which all stores agree. The size of directories is left out (0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // as in `firnfs::vfs::Attr`
pub struct Stat {
    pub kind: Kind,
    pub mode: u16,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u64,
    pub size_bytes: u64,
    pub atime: TimeNs,
    pub mtime: TimeNs,
    pub ctime: TimeNs,
    pub btime: TimeNs,
}

impl Stat {
    /// A new file with one name.
    #[must_use]
    pub fn new(kind: Kind, mode: u16, now: TimeNs) -> Self {
        let (atime, mtime, ctime, btime) = (now, now, now, now);
        Self { kind, mode, nlink: 1, uid: 0, gid: 0, rdev: 0, size_bytes: 0, atime, mtime, ctime, btime }
    }

    /// Clears the bits of the mode that a write by a caller without the right to set ids clears.
    pub fn kill_set_id(&mut self) {
        self.mode &= !0o4000;
        if self.mode & 0o010 != 0 {
            self.mode &= !0o2000;
        }
    }
}

impl From<Attr> for Stat {
    fn from(attr: Attr) -> Self {
        Self {
            kind: attr.kind,
            mode: attr.mode,
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev,
            size_bytes: if attr.kind == Kind::Directory { 0 } else { attr.size_bytes },
            atime: attr.atime,
            mtime: attr.mtime,
            ctime: attr.ctime,
            btime: attr.btime,
        }
    }
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Success without a value.
    Done,
    /// Attributes.
    Stat(Stat),
    /// Bytes read, a target, a value, names.
    Bytes(Vec<u8>),
    /// Entries of a directory.
    Names(BTreeMap<Vec<u8>, Kind>),
    /// Bytes done (ENOSPC may cut a write or allocation short), or an offset.
    Count(u64),
}

/// A directory entry with the cookie after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Cookie to continue with.
    pub next: u64,
    /// File type.
    pub kind: Kind,
    /// The name.
    pub name: Vec<u8>,
}

/// The answer, or the POSIX name of the error.
pub type Reply = Result<Value, &'static str>;

/// A file system under test.
pub trait Target {
    /// Its store.
    type Store: Store;

    /// Runs one operation to its end, doing the work that each stop asks for.
    ///
    /// # Errors
    /// The operation's own.
    fn run<T>(&mut self, op: impl FnMut(&mut Vfs<Self::Store>) -> Outcome<T>) -> Result<T, FsError>;

    /// Reads the whole range of a read plan into memory.
    ///
    /// # Errors
    /// `Corrupt`, `Io`, and those of [`Vfs::read`].
    fn read(&mut self, now: TimeNs, ino: InodeNo, at_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, FsError>;
}

/// The simplest target: a store that never needs a device. Stopped operations are retried at once.
pub struct InMemory<S: Store>(pub Vfs<S>);

impl<S: Store> Target for InMemory<S> {
    type Store = S;

    fn run<T>(&mut self, mut op: impl FnMut(&mut Vfs<S>) -> Outcome<T>) -> Result<T, FsError> {
        loop {
            match op(&mut self.0) {
                Ok(value) => return Ok(value),
                Err(Stop::Fail(error)) => return Err(error),
                Err(Stop::Need(_) | Stop::Room) => {}
            }
        }
    }

    fn read(&mut self, now: TimeNs, ino: InodeNo, at_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, FsError> {
        let plan = self.run(|vfs| vfs.read(now, ino, at_bytes, len_bytes))?;
        let mut out = Vec::new();
        for piece in &plan.pieces {
            match piece {
                Piece::Zeros { len_bytes } => out.resize(out.len() + len_bytes, 0),
                Piece::Memory { buf, start, len_bytes } => {
                    out.extend_from_slice(&buf[*start..start + len_bytes]);
                }
                Piece::Stored { .. } => panic!("this target has no device"),
            }
        }
        assert_eq!(plan.pin, 0, "a store without a device pins nothing");
        Ok(out)
    }
}

/// Carries out operations, and keeps the handles that they open.
pub struct Runner<T> {
    /// The file system.
    pub target: T,
    handles: [Option<InodeNo>; HANDLES],
}

const CALLER: Caller = Caller { uid: 1000, gid: 100, umask: 0 };

fn name_of(error: FsError) -> &'static str {
    match error {
        // An error that the file system finds in its own data is never a right answer.
        FsError::Corrupt { .. } | FsError::Io(_) => panic!("{error}"),
        other => other.errno_name(),
    }
}

impl<T: Target> Runner<T> {
    /// A runner without open handles.
    pub fn new(target: T) -> Self {
        Self { target, handles: [None; HANDLES] }
    }

    /// The files held open.
    pub fn held(&self) -> impl Iterator<Item = InodeNo> {
        self.handles.iter().flatten().copied()
    }

    /// Forgets the handles, as an unmount does.
    pub fn drop_handles(&mut self) {
        self.handles = [None; HANDLES];
    }

    /// Carries out one operation.
    pub fn apply(&mut self, now: TimeNs, op: &Op) -> Reply {
        match op {
            Op::Open { .. } | Op::Close { .. } => self.on_handle(now, op),
            Op::Make { .. } | Op::Link { .. } | Op::Unlink { .. } | Op::Rmdir { .. } | Op::Rename { .. } => {
                self.on_names(now, op)
            }
            Op::List { path } => self.list(now, path).map(Value::Names),
            Op::Readlink { path } => {
                let ino = self.walk(now, path)?;
                self.run(|vfs| vfs.readlink(now, ino)).map(Value::Bytes)
            }
            _ => self.on_file(now, op),
        }
    }

    fn run<V>(&mut self, op: impl FnMut(&mut Vfs<T::Store>) -> Outcome<V>) -> Result<V, &'static str> {
        self.target.run(op).map_err(name_of)
    }

    fn walk(&mut self, now: TimeNs, path: &[Vec<u8>]) -> Result<InodeNo, &'static str> {
        path.iter().try_fold(InodeNo::ROOT, |at, name| {
            self.run(|vfs| vfs.lookup(now, at, name, false)).map(|attr| attr.ino)
        })
    }

    fn find(&mut self, now: TimeNs, file: &File) -> Result<InodeNo, &'static str> {
        match file {
            File::Path(path) => self.walk(now, path),
            File::Handle(slot) => self.handles[*slot].ok_or("EBADF"),
        }
    }

    fn entry<'a>(&mut self, now: TimeNs, path: &'a Path) -> Result<(InodeNo, &'a [u8]), &'static str> {
        let (name, above) = path.split_last().ok_or("EBUSY")?;
        let dir = self.walk(now, above)?;
        // As the kernel does: the last name is looked up first, whatever the operation.
        match self.run(|vfs| vfs.lookup(now, dir, name, false)) {
            Ok(_) | Err("ENOENT") => Ok((dir, name)),
            Err(error) => Err(error),
        }
    }

    fn on_handle(&mut self, now: TimeNs, op: &Op) -> Reply {
        let (Op::Open { slot, .. } | Op::Close { slot }) = op else { unreachable!("called for handles") };
        if let Some(ino) = self.handles[*slot].take() {
            self.run(|vfs| vfs.forget(now, ino, 1))?;
        }
        if let Op::Open { path, .. } = op {
            let ino = self.walk(now, path)?;
            self.run(|vfs| vfs.hold(ino))?;
            self.handles[*slot] = Some(ino);
        }
        Ok(Value::Done)
    }

    fn on_names(&mut self, now: TimeNs, op: &Op) -> Reply {
        match op {
            Op::Make { path, kind, mode, umask, rdev, target } => {
                let (dir, name) = self.entry(now, path)?;
                let node = NewNode { kind: *kind, mode: *mode, rdev: *rdev, target };
                let caller = Caller { umask: *umask, ..CALLER };
                let attr = self.run(|vfs| vfs.make(now, caller, dir, name, node, false))?;
                Ok(Value::Stat(attr.into()))
            }
            Op::Link { from, to } => {
                let ino = self.find(now, from)?;
                let (dir, name) = self.entry(now, to)?;
                self.run(|vfs| vfs.link(now, ino, dir, name, false)).map(|_| Value::Done)
            }
            Op::Unlink { path } => {
                let (dir, name) = self.entry(now, path)?;
                self.run(|vfs| vfs.unlink(now, dir, name)).map(|()| Value::Done)
            }
            Op::Rmdir { path } => {
                let (dir, name) = self.entry(now, path)?;
                self.run(|vfs| vfs.rmdir(now, dir, name)).map(|()| Value::Done)
            }
            Op::Rename { from, to, mode } => {
                let from = self.entry(now, from)?;
                let to = self.entry(now, to)?;
                self.run(|vfs| vfs.rename(now, from, to, *mode)).map(|()| Value::Done)
            }
            _ => unreachable!("called for names"),
        }
    }

    fn on_file(&mut self, now: TimeNs, op: &Op) -> Reply {
        match op {
            Op::Write { file, at_bytes, len_bytes, fill, kill_set_id } => {
                let ino = self.find(now, file)?;
                let bytes: Vec<u8> =
                    (0..*len_bytes).map(|at| pattern(*fill, at_bytes.wrapping_add(at))).collect();
                self.write(now, ino, *at_bytes, &bytes, *kill_set_id)
            }
            Op::Read { file, at_bytes, len_bytes } => {
                let ino = self.find(now, file)?;
                let read = self.target.read(now, ino, *at_bytes, *len_bytes);
                read.map(Value::Bytes).map_err(name_of)
            }
            Op::SetAttr { file, set } => {
                let ino = self.find(now, file)?;
                self.run(|vfs| vfs.setattr(now, ino, *set)).map(|attr| Value::Stat(attr.into()))
            }
            Op::Allocate { file, mode, at_bytes, len_bytes } => {
                let ino = self.find(now, file)?;
                self.allocate(now, ino, *mode, *at_bytes, *len_bytes)
            }
            Op::Seek { file, at_bytes, whence } => {
                let ino = self.find(now, file)?;
                self.run(|vfs| vfs.seek(ino, *at_bytes, *whence)).map(Value::Count)
            }
            Op::Stat { file } => {
                let ino = self.find(now, file)?;
                self.run(|vfs| vfs.getattr(ino)).map(|attr| Value::Stat(attr.into()))
            }
            _ => self.on_xattr(now, op),
        }
    }

    fn on_xattr(&mut self, now: TimeNs, op: &Op) -> Reply {
        match op {
            Op::SetXattr { file, name, len_bytes, fill, mode } => {
                let ino = self.find(now, file)?;
                let value: Vec<u8> = (0..*len_bytes).map(|at| pattern(*fill, at)).collect();
                self.run(|vfs| vfs.setxattr(now, ino, name, &value, *mode)).map(|()| Value::Done)
            }
            Op::GetXattr { file, name } => {
                let ino = self.find(now, file)?;
                self.run(|vfs| vfs.getxattr(ino, name)).map(Value::Bytes)
            }
            Op::ListXattr { file } => {
                let ino = self.find(now, file)?;
                self.run(|vfs| vfs.listxattr(ino)).map(Value::Bytes)
            }
            Op::RemoveXattr { file, name } => {
                let ino = self.find(now, file)?;
                self.run(|vfs| vfs.removexattr(now, ino, name)).map(|()| Value::Done)
            }
            _ => unreachable!("called for attributes"),
        }
    }

    fn write(&mut self, now: TimeNs, ino: InodeNo, at: u64, bytes: &[u8], kill: bool) -> Reply {
        let mut done = 0;
        loop {
            let at = at.saturating_add(done as u64);
            match self.run(|vfs| vfs.write(now, ino, at, &bytes[done..], kill)) {
                Ok(count) => done += count,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
            if done == bytes.len() {
                break;
            }
        }
        Ok(Value::Count(done as u64))
    }

    fn allocate(&mut self, now: TimeNs, ino: InodeNo, mode: Allocate, at: u64, len: u64) -> Reply {
        let mut from = at;
        loop {
            match self.run(|vfs| vfs.fallocate(now, ino, mode, from, len - (from - at), false)) {
                Ok(None) => return Ok(Value::Count(len)),
                Ok(Some(rest)) => from = rest,
                Err(_) if from > at => return Ok(Value::Count(from - at)),
                Err(error) => return Err(error),
            }
        }
    }

    fn list(&mut self, now: TimeNs, path: &Path) -> Result<BTreeMap<Vec<u8>, Kind>, &'static str> {
        let ino = self.walk(now, path)?;
        let all = self.list_raw(now, ino)?;
        let count = all.len();
        let names: BTreeMap<_, _> = all.into_iter().map(|entry| (entry.name, entry.kind)).collect();
        assert_eq!(names.len(), count, "an entry was listed twice");
        Ok(names)
    }

    /// Entries in the order of the directory, without `.` and `..`. Reads a few at a time, so that cookies matter.
    ///
    /// # Errors
    /// The POSIX name of the error.
    pub fn list_raw(&mut self, now: TimeNs, ino: InodeNo) -> Result<Vec<Listed>, &'static str> {
        let mut all = Vec::new();
        let mut cookie = 0;
        loop {
            let mut some = Vec::new();
            self.run(|vfs| {
                assert!(some.is_empty(), "a listing stopped after it had visited entries");
                vfs.readdir(now, ino, cookie, &mut |entry| {
                    some.push(Listed { next: entry.next, kind: entry.kind, name: entry.name.to_vec() });
                    some.len() < 7
                })
            })?;
            let Some(last) = some.last() else { break };
            cookie = last.next;
            all.append(&mut some);
        }
        all.retain(|entry| entry.name != b"." && entry.name != b"..");
        Ok(all)
    }

    /// Reads back the whole tree, by path. Attributes are taken before a file is read. Reading renews access times, so
    /// call this last or count it as an operation.
    ///
    /// # Errors
    /// The POSIX name of the error.
    pub fn seen(&mut self, now: TimeNs) -> Result<BTreeMap<Path, Seen>, &'static str> {
        self.seen_below(now, &Path::new())
    }

    /// The same of the tree below a path, by the paths from there.
    ///
    /// # Errors
    /// The POSIX name of the error.
    pub fn seen_below(
        &mut self,
        now: TimeNs,
        root: &[Vec<u8>],
    ) -> Result<BTreeMap<Path, Seen>, &'static str> {
        let mut all = BTreeMap::new();
        let mut todo = vec![(Path::new(), self.walk(now, root)?)];
        let mut stats = BTreeMap::new();
        while let Some((path, ino)) = todo.pop() {
            let attr = *stats.entry(ino).or_insert(self.run(|vfs| vfs.getattr(ino))?);
            let seen = Seen {
                stat: attr.into(),
                pages: if attr.kind == Kind::Regular { self.pages(now, &attr)? } else { BTreeMap::new() },
                target: match attr.kind {
                    Kind::Symlink => self.run(|vfs| vfs.readlink(now, ino))?,
                    _ => Vec::new(),
                },
                xattrs: self.xattrs(ino)?,
                identity: ino.0,
            };
            if attr.kind == Kind::Directory {
                for Listed { name, .. } in self.list_raw(now, ino)? {
                    let child = self.run(|vfs| vfs.lookup(now, ino, &name, false))?.ino;
                    let mut below = path.clone();
                    below.push(name);
                    todo.push((below, child));
                }
            }
            all.insert(path, seen);
        }
        Ok(all)
    }

    fn xattrs(&mut self, ino: InodeNo) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, &'static str> {
        let names = self.run(|vfs| vfs.listxattr(ino))?;
        let mut all = BTreeMap::new();
        for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let value = self.run(|vfs| vfs.getxattr(ino, name))?;
            all.insert(name.to_vec(), value);
        }
        Ok(all)
    }

    fn pages(&mut self, now: TimeNs, attr: &Attr) -> Result<BTreeMap<u64, Vec<u8>>, &'static str> {
        const PAGE_BYTES: u64 = 512;
        let ino = attr.ino;
        let mut pages = BTreeMap::new();
        let mut at = 0;
        while let Ok(data) = self.run(|vfs| vfs.seek(ino, at, Seek::Data)) {
            let end = self.run(|vfs| vfs.seek(ino, data, Seek::Hole))?;
            let start = data - data % PAGE_BYTES;
            let bytes = self.target.read(now, ino, start, end - start).map_err(name_of)?;
            for (page, chunk) in (start / PAGE_BYTES..).zip(bytes.chunks(PAGE_BYTES as usize)) {
                if chunk.iter().any(|&byte| byte != 0) {
                    let mut chunk = chunk.to_vec();
                    chunk.resize(PAGE_BYTES as usize, 0);
                    pages.insert(page, chunk);
                }
            }
            at = end;
        }
        Ok(pages)
    }
}
