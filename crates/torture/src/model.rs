//! A model of a POSIX file system: nodes in a map, contents as sparse pages, no blocks, no log, no limits.
//!
//! It follows the standards and manual pages, not the code under test, and is as simple as possible. It judges: given an
//! operation and the answer of a file system, [`Model::judge`] says whether the answer is right, and applies it. It does
//! not model what stores may do differently: directory sizes, allocated blocks, the places of reported holes (but a hole
//! must read as zeros).
//!
//! `content` models the content of files, `attributes` extended attributes.

mod attributes;
mod content;

use crate::ops::{File, HANDLES, Op, Path, pattern};
use crate::run::{Reply, Stat, Value};
use content::Pages;
use firnfs::inode::Kind;
use firnfs::vfs::{RenameMode, SetAttr, SetTime};
use firnfs_format::TimeNs;
use std::collections::BTreeMap;

const ROOT: u64 = 0;
const DAY_NS: i64 = 86_400_000_000_000;

type Answer<T> = Result<T, &'static str>;

#[derive(Clone, Debug)]
struct Node {
    stat: Stat,
    pages: Pages,
    target: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    children: BTreeMap<Vec<u8>, u64>,
    parent: u64,
}

/// A file of the whole tree, by path, for comparison with the tree that was read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Attributes.
    pub stat: Stat,
    /// Pages of 512 bytes that are not all zero.
    pub pages: BTreeMap<u64, Vec<u8>>,
    /// Target of a symbolic link.
    pub target: Vec<u8>,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The identity of the file: equal only for hard links of one file.
    pub identity: u64,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Model {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    handles: [Option<u64>; HANDLES],
    /// Operations that need space may fail with ENOSPC, having done nothing (or a part of a write).
    pub may_be_full: bool,
    /// Largest file.
    pub file_max_bytes: u64,
    /// Access times may be wrong: crashes lose them.
    pub may_lose_atime: bool,
    /// Largest attribute set, in bytes of names, values and 5 for each.
    pub xattrs_max_bytes: usize,
}

impl Model {
    /// An empty root directory made at `now`.
    #[must_use]
    pub fn new(now: TimeNs) -> Self {
        let mut model = Self {
            nodes: BTreeMap::new(),
            next: 0,
            handles: [None; HANDLES],
            may_be_full: false,
            may_lose_atime: false,
            file_max_bytes: i64::MAX as u64,
            xattrs_max_bytes: 128 << 10,
        };
        let mut stat = Stat::new(Kind::Directory, 0o755, now);
        stat.nlink = 2;
        model.add(stat, ROOT);
        model
    }

    fn add(&mut self, stat: Stat, parent: u64) -> u64 {
        let id = self.next;
        self.next += 1;
        let node = Node {
            stat,
            pages: Pages::default(),
            target: Vec::new(),
            xattrs: BTreeMap::new(),
            children: BTreeMap::new(),
            parent,
        };
        self.nodes.insert(id, node);
        id
    }

    /// A clean unmount and mount: handles are gone.
    pub fn remount(&mut self) {
        for slot in 0..HANDLES {
            self.close(slot);
        }
    }

    /// Names in a directory; empty if the path does not lead to a directory.
    #[must_use]
    pub fn child_names(&self, path: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.walk(path).map_or_else(|_| Vec::new(), |id| self.nodes[&id].children.keys().cloned().collect())
    }

    /// True if the path leads to something other than a directory.
    #[must_use]
    pub fn is_file(&self, path: &[Vec<u8>]) -> bool {
        self.walk(path).is_ok_and(|id| self.nodes[&id].stat.kind != Kind::Directory)
    }

    /// The whole tree, by path.
    #[must_use]
    pub fn seen(&self) -> BTreeMap<Path, Seen> {
        let mut all = BTreeMap::new();
        let mut todo = vec![(Path::new(), ROOT)];
        while let Some((path, id)) = todo.pop() {
            let node = &self.nodes[&id];
            for (name, &child) in &node.children {
                let mut below = path.clone();
                below.push(name.clone());
                todo.push((below, child));
            }
            let seen = Seen {
                stat: node.stat,
                pages: node.pages.clone().into_map(),
                target: node.target.clone(),
                xattrs: node.xattrs.clone(),
                identity: id,
            };
            all.insert(path, seen);
        }
        all
    }

    /// Judges the answer to an operation, and applies to the model what the answer says was done.
    ///
    /// # Errors
    /// The right answer, if the given one is wrong.
    pub fn judge(&mut self, now: TimeNs, op: &Op, reply: &Reply) -> Result<(), String> {
        if let Op::Seek { file, at_bytes, whence } = op {
            return self.judge_seek(file, *at_bytes, *whence, reply);
        }
        let needs_space = !matches!(op, Op::Unlink { .. } | Op::Rmdir { .. } | Op::RemoveXattr { .. });
        if self.may_be_full && needs_space && *reply == Err("ENOSPC") {
            return Ok(());
        }
        let done_bytes = match reply {
            Ok(Value::Count(count)) if self.may_be_full => *count,
            _ => u64::MAX,
        };
        let right = self.apply(now, op, done_bytes);
        let mut reply = reply.clone();
        if let (true, Ok(Value::Stat(said)), Ok(Value::Stat(known))) =
            (self.may_lose_atime, &mut reply, &right)
        {
            said.atime = known.atime;
        }
        if reply == right { Ok(()) } else { Err(format!("{right:?}")) }
    }

    fn apply(&mut self, now: TimeNs, op: &Op, done_bytes: u64) -> Reply {
        let done = |()| Value::Done;
        match op {
            Op::Make { .. } => self.make(now, op),
            Op::Link { from, to } => self.link(now, from, to).map(done),
            Op::Unlink { path } => self.remove(now, path, false).map(done),
            Op::Rmdir { path } => self.remove(now, path, true).map(done),
            Op::Rename { from, to, mode } => self.rename(now, from, to, *mode).map(done),
            Op::Open { path, slot } => self.open(path, *slot).map(done),
            Op::Close { slot } => {
                self.close(*slot);
                Ok(Value::Done)
            }
            Op::Write { file, at_bytes, len_bytes, fill, kill_set_id } => {
                let len_bytes = (*len_bytes).min(done_bytes);
                self.write(now, file, *at_bytes, len_bytes, *fill, *kill_set_id).map(Value::Count)
            }
            Op::Read { file, at_bytes, len_bytes } => self.read(now, file, *at_bytes, *len_bytes),
            Op::SetAttr { file, set } => self.set_attr(now, file, *set),
            Op::Allocate { file, mode, at_bytes, len_bytes } => {
                self.allocate(now, file, *mode, *at_bytes, *len_bytes, done_bytes).map(Value::Count)
            }
            Op::Seek { .. } => unreachable!("judged apart"),
            Op::Stat { file } => self.find(file).map(|id| Value::Stat(self.nodes[&id].stat)),
            Op::List { path } => self.list(now, path),
            Op::Readlink { path } => self.readlink(now, path),
            Op::SetXattr { file, name, len_bytes, fill, mode } => {
                let value = (0..*len_bytes).map(|at| pattern(*fill, at)).collect();
                self.set_xattr(now, file, name, value, *mode).map(done)
            }
            Op::GetXattr { file, name } => self.get_xattr(file, name).map(Value::Bytes),
            Op::ListXattr { file } => {
                let id = self.find(file)?;
                let names = self.nodes[&id].xattrs.keys();
                Ok(Value::Bytes(names.flat_map(|name| name.iter().copied().chain([0])).collect()))
            }
            Op::RemoveXattr { file, name } => self.remove_xattr(now, file, name).map(done),
        }
    }

    // --- finding

    fn walk(&self, path: &[Vec<u8>]) -> Answer<u64> {
        path.iter().try_fold(ROOT, |at, name| self.child(at, name)?.ok_or("ENOENT"))
    }

    fn child(&self, dir: u64, name: &[u8]) -> Answer<Option<u64>> {
        let node = &self.nodes[&dir];
        if node.stat.kind != Kind::Directory {
            return Err("ENOTDIR");
        }
        if name.len() > 255 {
            return Err("ENAMETOOLONG");
        }
        Ok(node.children.get(name).copied())
    }

    fn find(&self, file: &File) -> Answer<u64> {
        match file {
            File::Path(path) => self.walk(path),
            File::Handle(slot) => self.handles[*slot].ok_or("EBADF"),
        }
    }

    /// The directory and the last name of a path, and the inode that it names.
    fn entry<'a>(&self, path: &'a Path) -> Answer<(u64, &'a [u8], Option<u64>)> {
        let (name, above) = path.split_last().ok_or("EBUSY")?;
        let dir = self.walk(above)?;
        Ok((dir, name, self.child(dir, name)?))
    }

    fn node(&mut self, id: u64) -> &mut Node {
        self.nodes.get_mut(&id).expect("ids found are there")
    }

    fn is_dir(&self, id: u64) -> bool {
        self.nodes[&id].stat.kind == Kind::Directory
    }

    fn changed(&mut self, now: TimeNs, dir: u64) {
        let stat = &mut self.node(dir).stat;
        (stat.mtime, stat.ctime) = (now, now);
    }

    // --- names

    fn make(&mut self, now: TimeNs, op: &Op) -> Reply {
        let Op::Make { path, kind, mode, umask, rdev, target } = op else { unreachable!("called for Make") };
        let (dir, name, there) = self.entry(path)?;
        if there.is_some() {
            return Err("EEXIST");
        }
        let (dir_mode, dir_gid) = (self.nodes[&dir].stat.mode, self.nodes[&dir].stat.gid);
        let mut stat = Stat::new(*kind, mode & !umask, now);
        (stat.uid, stat.gid, stat.rdev) = (1000, 100, *rdev);
        if dir_mode & 0o2000 != 0 {
            stat.gid = dir_gid;
        }
        if *kind == Kind::Directory {
            stat.nlink = 2;
            stat.mode |= dir_mode & 0o2000;
        }
        if *kind == Kind::Symlink {
            if target.is_empty() {
                return Err("ENOENT");
            }
            if target.len() > 4095 {
                return Err("ENAMETOOLONG");
            }
            (stat.mode, stat.size_bytes) = (0o777, target.len() as u64);
        }
        let id = self.add(stat, dir);
        self.node(id).target.clone_from(target);
        self.node(dir).children.insert(name.to_vec(), id);
        self.node(dir).stat.nlink += u32::from(*kind == Kind::Directory);
        self.changed(now, dir);
        Ok(Value::Stat(stat))
    }

    fn link(&mut self, now: TimeNs, from: &File, to: &Path) -> Answer<()> {
        let id = self.find(from)?;
        let (dir, name, there) = self.entry(to)?;
        if there.is_some() {
            return Err("EEXIST");
        }
        if self.is_dir(id) {
            return Err("EPERM");
        }
        if self.nodes[&id].stat.nlink == 0 {
            return Err("ENOENT");
        }
        self.node(id).stat.nlink += 1;
        self.node(id).stat.ctime = now;
        self.node(dir).children.insert(name.to_vec(), id);
        self.changed(now, dir);
        Ok(())
    }

    fn remove(&mut self, now: TimeNs, path: &Path, wants_dir: bool) -> Answer<()> {
        let (dir, name, there) = self.entry(path)?;
        let id = there.ok_or("ENOENT")?;
        match (wants_dir, self.is_dir(id)) {
            (false, true) => return Err("EISDIR"),
            (true, false) => return Err("ENOTDIR"),
            (true, true) if !self.nodes[&id].children.is_empty() => return Err("ENOTEMPTY"),
            _ => {}
        }
        self.node(dir).children.remove(name);
        self.node(dir).stat.nlink -= u32::from(wants_dir);
        self.changed(now, dir);
        self.lose_name(now, id);
        Ok(())
    }

    fn lose_name(&mut self, now: TimeNs, id: u64) {
        let is_dir = self.is_dir(id);
        let stat = &mut self.node(id).stat;
        stat.nlink = if is_dir { 0 } else { stat.nlink - 1 };
        stat.ctime = now;
        self.collect(id);
    }

    fn collect(&mut self, id: u64) {
        if self.nodes[&id].stat.nlink == 0 && !self.handles.contains(&Some(id)) {
            self.nodes.remove(&id);
        }
    }

    fn is_below(&self, mut id: u64, above: u64) -> bool {
        loop {
            if id == above {
                return true;
            }
            if id == ROOT {
                return false;
            }
            id = self.nodes[&id].parent;
        }
    }

    fn rename(&mut self, now: TimeNs, from: &Path, to: &Path, mode: RenameMode) -> Answer<()> {
        let (old_dir, old_name, old) = self.entry(from)?;
        let (new_dir, new_name, new) = self.entry(to)?;
        let id = old.ok_or("ENOENT")?;
        match (mode, new) {
            (RenameMode::NoReplace, Some(_)) => return Err("EEXIST"),
            (RenameMode::Exchange, None) => return Err("ENOENT"),
            (_, Some(other)) if other == id => return Ok(()),
            _ => {}
        }
        if self.is_dir(id) && self.is_below(new_dir, id) {
            return Err("EINVAL");
        }
        if let Some(other) = new {
            if mode == RenameMode::Exchange {
                if self.is_dir(other) && self.is_below(old_dir, other) {
                    return Err("EINVAL");
                }
                self.place(now, other, new_dir, old_dir, old_name);
                self.place(now, id, old_dir, new_dir, new_name);
                return Ok(());
            }
            match (self.is_dir(id), self.is_dir(other)) {
                (true, false) => return Err("ENOTDIR"),
                (false, true) => return Err("EISDIR"),
                (true, true) if !self.nodes[&other].children.is_empty() => return Err("ENOTEMPTY"),
                _ => {}
            }
            self.node(new_dir).stat.nlink -= u32::from(self.is_dir(other));
            self.node(new_dir).children.remove(new_name);
            self.lose_name(now, other);
        }
        self.node(old_dir).children.remove(old_name);
        self.place(now, id, old_dir, new_dir, new_name);
        Ok(())
    }

    /// Gives a node that was in one directory its name in another.
    fn place(&mut self, now: TimeNs, id: u64, was_in: u64, dir: u64, name: &[u8]) {
        self.node(dir).children.insert(name.to_vec(), id);
        self.node(id).stat.ctime = now;
        if self.is_dir(id) {
            self.node(was_in).stat.nlink -= 1;
            self.node(dir).stat.nlink += 1;
            self.node(id).parent = dir;
        }
        self.changed(now, was_in);
        self.changed(now, dir);
    }

    fn open(&mut self, path: &Path, slot: usize) -> Answer<()> {
        self.close(slot);
        self.handles[slot] = Some(self.walk(path)?);
        Ok(())
    }

    fn close(&mut self, slot: usize) {
        if let Some(id) = self.handles[slot].take() {
            self.collect(id);
        }
    }

    fn list(&mut self, now: TimeNs, path: &Path) -> Reply {
        let id = self.walk(path)?;
        if !self.is_dir(id) {
            return Err("ENOTDIR");
        }
        self.accessed(now, id);
        let kinds =
            self.nodes[&id].children.iter().map(|(name, id)| (name.clone(), self.nodes[id].stat.kind));
        Ok(Value::Names(kinds.collect()))
    }

    fn readlink(&mut self, now: TimeNs, path: &Path) -> Reply {
        let id = self.walk(path)?;
        if self.nodes[&id].stat.kind != Kind::Symlink {
            return Err("EINVAL");
        }
        self.accessed(now, id);
        Ok(Value::Bytes(self.nodes[&id].target.clone()))
    }

    // --- content

    /// relatime
    fn accessed(&mut self, now: TimeNs, id: u64) {
        let stat = &mut self.node(id).stat;
        if stat.atime <= stat.mtime || stat.atime <= stat.ctime || now.0 - stat.atime.0 >= DAY_NS {
            stat.atime = now;
        }
    }

    fn set_attr(&mut self, now: TimeNs, file: &File, set: SetAttr) -> Reply {
        let id = self.find(file)?;
        if let Some(size) = set.size_bytes {
            self.regular(file)?;
            if size > self.file_max_bytes {
                return Err("EFBIG");
            }
        }
        let changes = SetAttr { kill_set_id: false, ..set } != SetAttr::default();
        let time = |set: SetTime| if let SetTime::At(time) = set { time } else { now };
        let node = self.node(id);
        let stat = &mut node.stat;
        if let Some(size) = set.size_bytes {
            node.pages.zero(size, u64::MAX);
            stat.size_bytes = size;
            stat.mtime = now;
        }
        let owner = set.uid.is_some() || set.gid.is_some() || set.size_bytes.is_some();
        if let Some(mode) = set.mode {
            stat.mode = mode;
        } else if set.kill_set_id && owner && stat.kind != Kind::Directory {
            stat.kill_set_id();
        }
        stat.uid = set.uid.unwrap_or(stat.uid);
        stat.gid = set.gid.unwrap_or(stat.gid);
        stat.atime = set.atime.map_or(stat.atime, time);
        stat.mtime = set.mtime.map_or(stat.mtime, time);
        if changes {
            stat.ctime = now;
        }
        Ok(Value::Stat(*stat))
    }
}
