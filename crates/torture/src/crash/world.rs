//! `World`: the required state of a file system after some operations; the simplest model that can tell.
//!
//! Files are numbered in the order of their creation and keep their number through renames. A clone shares everything that
//! later operations do not change, so the world after each operation of a long history can be kept.
//!
//! `acl` has the effects of operations on POSIX ACLs, `past` those of operations that use retained points.

mod acl;
mod past;

pub use acl::{AclSpec, acl_name};

use super::op::{CLONES, Op, clone_in, pattern};
use super::quota::Quotas;
use super::tree::{Content, Entry, NodeKind, Tree, names_signature};
use firnfs_format::checkpoint::Retention;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Number of a file within a history of worlds.
pub type FileId = u64;

/// A file of any kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Node {
    pub kind: NodeKind,
    pub mode: u16,
    /// User and group.
    pub owner: (u32, u32),
    /// Content of a file, target of a symbolic link, number of a device (little endian).
    pub content: Content,
    /// As in [`Entry::xattrs`].
    pub xattrs: BTreeMap<String, Vec<u8>>,
    /// Names in a directory.
    pub children: BTreeMap<String, FileId>,
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct World {
    nodes: BTreeMap<FileId, Arc<Node>>,
    next: FileId,
    /// Files that never had a name and may still get one, the oldest first.
    unnamed: Vec<FileId>,
    quotas: Quotas,
    /// Retained points that nobody has begun to drop: what they show.
    points: BTreeMap<String, Arc<Tree>>,
    /// Clones: the points that they began as, and their root directories.
    clones: BTreeMap<String, (String, FileId)>,
    /// Which automatic points are made and kept. The points themselves are the record's: nobody asks for them.
    retention: Retention,
}

/// The root directory.
pub(super) const ROOT: FileId = 0;

/// Permission bits of files, links and FIFOs as the explorer makes them.
pub const FILE_MODE: u16 = 0o644;
/// Permission bits of directories as the explorer makes them.
pub const DIRECTORY_MODE: u16 = 0o755;

type Invalid = &'static str;

impl World {
    /// An empty volume.
    #[must_use]
    pub fn new() -> Self {
        let root = Node::new(NodeKind::Directory, Vec::new());
        Self {
            nodes: BTreeMap::from([(ROOT, Arc::new(root))]),
            next: ROOT + 1,
            unnamed: Vec::new(),
            quotas: Quotas::off(),
            points: BTreeMap::new(),
            clones: BTreeMap::new(),
            retention: Retention::default(),
        }
    }

    /// The world that a walk found: the start of the next round of a history.
    #[must_use]
    pub fn of_tree(tree: &Tree) -> Self {
        let (quotas, points) = (tree.quotas().clone(), tree.points().clone());
        let mut world = Self {
            nodes: BTreeMap::new(),
            next: ROOT,
            unnamed: Vec::new(),
            quotas,
            points,
            clones: BTreeMap::new(),
            retention: tree.retention().clone(),
        };
        world.plant(tree, "");
        world
    }

    /// Adds all that a tree has, each path behind `above`, which is nothing or the root of a clone.
    fn plant(&mut self, tree: &Tree, above: &str) {
        let mut by_ino: BTreeMap<u64, FileId> = BTreeMap::new();
        for entry in tree.entries() {
            let id = *by_ino.entry(entry.ino).or_insert_with(|| {
                let node = Node {
                    mode: entry.mode,
                    owner: entry.owner,
                    xattrs: entry.xattrs.clone(),
                    content: entry.content.clone(),
                    ..Node::new(entry.kind, Vec::new())
                };
                self.add(node)
            });
            let path = match (above, entry.path.as_str()) {
                ("", path) => path.to_owned(),
                (above, "") => above.to_owned(),
                (above, path) => format!("{above}/{path}"),
            };
            if let Some(name) = path.strip_prefix(CLONES).filter(|name| !name.contains('/')) {
                let origin = tree.clones().get(name).cloned().unwrap_or_default();
                self.clones.insert(name.to_owned(), (origin, id));
            } else if let Some((parent, name)) = self.parent_of(&path) {
                self.node_mut(parent).children.insert(name.to_owned(), id);
            }
        }
    }

    /// Applies one operation.
    ///
    /// # Errors
    /// Why it is invalid; nothing has changed then.
    pub fn apply(&mut self, op: &Op) -> Result<(), Invalid> {
        match op {
            Op::Create(path) => self.make(path, Node::new(NodeKind::File, Vec::new())),
            Op::Mkdir(path) => self.make(path, Node::new(NodeKind::Directory, Vec::new())),
            Op::Mkfifo(path) => self.make(path, Node::new(NodeKind::Fifo, Vec::new())),
            Op::Mknod { path, kind, rdev } => self.make(path, Node::new(*kind, rdev_bytes(*rdev))),
            Op::Symlink { target, path } => {
                self.make(path, Node::new(NodeKind::Symlink, target.clone().into_bytes()))
            }
            Op::Link { from, to } => self.link(from, to),
            Op::Unlink(path) => self.remove(path, false),
            Op::UnlinkOpen(path) => {
                self.file_mut(path)?;
                self.remove(path, false)
            }
            Op::Rmdir(path) => self.remove(path, true),
            Op::Rename { from, to } => self.rename(from, to),
            Op::Exchange { from, to } => self.exchange(from, to),
            Op::Write { .. }
            | Op::Truncate { .. }
            | Op::Punch { .. }
            | Op::Allocate { .. }
            | Op::ZeroRange { .. } => self.change_content(op),
            Op::Chmod { path, mode } => {
                let id = self.find(path).ok_or("no such file")?;
                if self.nodes[&id].kind == NodeKind::Symlink {
                    return Err("a symbolic link has no mode of its own");
                }
                self.node_mut(id).chmod(*mode);
                Ok(())
            }
            Op::SetXattr { path, name, len_bytes, tag } => {
                let value = pattern(*tag, 0, *len_bytes);
                self.attributes_mut(path)?.insert(name.clone(), value);
                Ok(())
            }
            Op::RemoveXattr { path, name } => {
                let attributes = self.attributes_mut(path)?;
                attributes.remove(name).map(drop).ok_or("no such attribute")
            }
            Op::SetAcl { path, default, acl } => self.set_acl(path, *default, acl),
            Op::RemoveAcl { path, default } => self.remove_acl(path, *default),
            Op::CreateFor { path, uid, gid } => {
                let node = Node { owner: (*uid, *gid), ..Node::new(NodeKind::File, Vec::new()) };
                self.make(path, node)
            }
            Op::Chown { path, uid, gid } => {
                let id = self.find(path).ok_or("no such file")?;
                self.node_mut(id).owner = (*uid, *gid);
                Ok(())
            }
            Op::TurnQuotas(are_on) => {
                self.quotas.are_on = Some(*are_on);
                Ok(())
            }
            Op::SetLimits { class, id, bounds } => {
                self.quotas.set(*class, *id, *bounds);
                Ok(())
            }
            Op::MakePoint(name) => match self.points.contains_key(name) {
                true => Err("exists"),
                false => {
                    // No point has what clones have.
                    let alone = Self { clones: BTreeMap::new(), ..self.clone() };
                    self.points.insert(name.clone(), Arc::new(alone.tree()));
                    Ok(())
                }
            },
            Op::HeldBack { changes, name } => {
                let mut after = self.clone();
                changes.iter().try_for_each(|op| after.apply(op))?;
                after.apply(&Op::MakePoint(name.clone()))?;
                *self = after;
                Ok(())
            }
            Op::DropPoint(name) if self.clones().any(|(_, point)| point == name) => Err("has a clone"),
            Op::DropPoint(name) => self.points.remove(name).map(drop).ok_or("no such point"),
            Op::CopyBack { point, from, path, part } => self.copy_back(point, from, path, part),
            Op::MakeClone { point, name } => self.make_clone(point, name),
            Op::DropClone(name) => self.drop_clone(name),
            Op::Retain(retention) => {
                self.retention.clone_from(retention);
                Ok(())
            }
            Op::BeginRead(path) => self.file_mut(path).map(drop),
            Op::Fsync(path) | Op::PartOfFsync(path) => self.find(path).map(drop).ok_or("no such file"),
            Op::MakeUnnamed { len_bytes, tag } => {
                let mut node = Node::new(NodeKind::File, pattern(*tag, 0, *len_bytes));
                node.inherit(&self.nodes[&ROOT]);
                let id = self.add(node);
                self.unnamed.push(id);
                Ok(())
            }
            Op::LinkUnnamed { to } => self.link_unnamed(to),
            Op::CloseOpen | Op::Remount => {
                self.unnamed.drain(..).for_each(|id| drop(self.nodes.remove(&id)));
                Ok(())
            }
            Op::FsyncUnnamed => self.unnamed.first().map(drop).ok_or("no file without a name"),
            // Files that lost their names while open are not visible; the subject checks their content.
            Op::UseOpen { .. }
            | Op::FinishRead
            | Op::Sync
            | Op::Idle { .. }
            | Op::Step { .. }
            | Op::CleanStep => Ok(()),
        }
    }

    fn change_content(&mut self, op: &Op) -> Result<(), Invalid> {
        if let Op::Allocate { path, .. } | Op::ZeroRange { path, .. } = op
            && clone_in(path).is_some()
        {
            return Err("no room can be reserved in a clone");
        }
        match op {
            Op::Write { path, at_bytes, len_bytes, tag } => {
                let content = self.content_mut(path)?;
                let end = (at_bytes + len_bytes) as usize;
                content.resize(content.len().max(end), 0);
                content[*at_bytes as usize..end].copy_from_slice(&pattern(*tag, *at_bytes, *len_bytes));
            }
            Op::Truncate { path, size_bytes } => {
                self.content_mut(path)?.resize(*size_bytes as usize, 0);
            }
            // Reserved space is not visible.
            Op::Allocate { path, keep_size: true, .. } => drop(self.file_mut(path)?),
            Op::Allocate { path, at_bytes, len_bytes, keep_size: false } => {
                let content = self.content_mut(path)?;
                content.resize(content.len().max((at_bytes + len_bytes) as usize), 0);
            }
            Op::ZeroRange { path, at_bytes, len_bytes, keep_size } => {
                let content = self.content_mut(path)?;
                let size = content.len().max(if *keep_size { 0 } else { (at_bytes + len_bytes) as usize });
                content.resize(size, 0);
                zero(content, *at_bytes, *len_bytes);
            }
            Op::Punch { path, at_bytes, len_bytes } => {
                zero(self.content_mut(path)?, *at_bytes, *len_bytes);
            }
            _ => return Err("does not change content"),
        }
        Ok(())
    }

    /// The tree that a walk of a volume with this content finds.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let names = self.names();
        let entry = |(path, id): &(String, FileId)| {
            let node = &self.nodes[id];
            let is_directory = |child: &&FileId| self.nodes[*child].kind == NodeKind::Directory;
            let nlink = match node.kind {
                NodeKind::Directory => 2 + node.children.values().filter(is_directory).count(),
                _ => names.iter().filter(|(_, other)| other == id).count(),
            };
            Entry {
                path: path.clone(),
                kind: node.kind,
                ino: id + 1,
                nlink: nlink as u32,
                mode: node.mode,
                owner: node.owner,
                content: node.content.clone(),
                xattrs: node.xattrs.clone(),
            }
        };
        let clones = self.clones().map(|(name, point)| (name.to_owned(), point.to_owned())).collect();
        Tree::new(names.iter().map(entry).collect()).with_quotas(self.quotas.clone()).with_clones(clones)
    }

    /// Limits, and whether quotas are on.
    #[must_use]
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Which automatic points are made and kept.
    #[must_use]
    pub fn retention(&self) -> &Retention {
        &self.retention
    }

    /// Retained points that nobody has begun to drop, and what they show.
    #[must_use]
    pub fn points(&self) -> &BTreeMap<String, Arc<Tree>> {
        &self.points
    }

    /// Adopts the content of one file that a walk found: after a write that was refused half way.
    pub fn adopt_content(&mut self, path: &str, tree: &Tree) {
        let found = tree.entries().iter().find(|entry| entry.path == path);
        if let (Some(id), Some(entry)) = (self.find(path), found) {
            self.node_mut(id).content = entry.content.clone();
        }
    }

    /// The file under a path.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<FileId> {
        let (root, below) = match path.strip_prefix(CLONES) {
            None => (ROOT, path),
            Some(path) => {
                let (name, below) = path.split_once('/').unwrap_or((path, ""));
                (self.clones.get(name)?.1, below)
            }
        };
        let parts = below.split('/').filter(|part| !part.is_empty());
        parts.into_iter().try_fold(root, |id, part| self.nodes[&id].children.get(part).copied())
    }

    /// All paths with their types and sizes in bytes, sorted, the root included.
    #[must_use]
    pub fn list(&self) -> Vec<(String, NodeKind, u64)> {
        let describe = |(path, id): (String, FileId)| {
            let node = &self.nodes[&id];
            (path, node.kind, node.content.len() as u64)
        };
        self.names().into_iter().map(describe).collect()
    }

    /// All paths with the files they name, sorted, the root included.
    pub(super) fn names(&self) -> Vec<(String, FileId)> {
        let mut names = Vec::new();
        let mut pending = vec![(String::new(), ROOT)];
        pending.extend(self.clones.iter().map(|(name, (_, root))| (format!("{CLONES}{name}"), *root)));
        while let Some((path, id)) = pending.pop() {
            for (name, child) in &self.nodes[&id].children {
                let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                pending.push((path, *child));
            }
            names.push((path, id));
        }
        names.sort();
        names
    }

    /// Files that never had a name, the oldest first.
    pub(super) fn unnamed(&self) -> &[FileId] {
        &self.unnamed
    }

    pub(super) fn node(&self, id: FileId) -> Option<&Node> {
        self.nodes.get(&id).map(|node| &**node)
    }

    /// See [`names_signature`].
    pub(super) fn signature(&self) -> u64 {
        self.signature_of(&self.names())
    }

    /// The same, of the names of this world.
    pub(super) fn signature_of(&self, names: &[(String, FileId)]) -> u64 {
        names_signature(names.iter().map(|(path, id)| {
            let node = &self.nodes[id];
            let target = if node.kind == NodeKind::File { &[] } else { node.content.as_slice() };
            (path.as_str(), node.kind, *id, target)
        }))
    }

    fn add(&mut self, node: Node) -> FileId {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, Arc::new(node));
        id
    }

    fn node_mut(&mut self, id: FileId) -> &mut Node {
        Arc::make_mut(self.nodes.get_mut(&id).expect("a file of this world"))
    }

    fn file_mut(&mut self, path: &str) -> Result<&mut Node, Invalid> {
        let id = self.find(path).ok_or("no such file")?;
        match self.nodes[&id].kind {
            NodeKind::File => Ok(self.node_mut(id)),
            _ => Err("not a regular file"),
        }
    }

    /// The content of a file, its own if others had the same.
    fn content_mut(&mut self, path: &str) -> Result<&mut Vec<u8>, Invalid> {
        Ok(Arc::make_mut(&mut self.file_mut(path)?.content))
    }

    /// User attributes of a file that can have some.
    fn attributes_mut(&mut self, path: &str) -> Result<&mut BTreeMap<String, Vec<u8>>, Invalid> {
        let id = self.find(path).ok_or("no such file")?;
        match self.nodes[&id].kind {
            NodeKind::File | NodeKind::Directory => Ok(&mut self.node_mut(id).xattrs),
            _ => Err("no user attributes on this type"),
        }
    }

    /// The directory that contains a path, and its last part; `None` for the root and if there is no such directory.
    fn parent_of<'p>(&self, path: &'p str) -> Option<(FileId, &'p str)> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.find(parent).filter(|id| self.nodes[id].kind == NodeKind::Directory)?;
        (!name.is_empty()).then_some((parent, name))
    }

    fn make(&mut self, path: &str, mut node: Node) -> Result<(), Invalid> {
        let (parent, name) = self.parent_of(path).ok_or("no such directory")?;
        if self.find(path).is_some() {
            return Err("exists");
        }
        node.inherit(&self.nodes[&parent]);
        let id = self.add(node);
        self.node_mut(parent).children.insert(name.to_owned(), id);
        Ok(())
    }

    fn link(&mut self, from: &str, to: &str) -> Result<(), Invalid> {
        if clone_in(from) != clone_in(to) {
            return Err("into another tree");
        }
        let id = self.find(from).ok_or("no such file")?;
        let (parent, name) = self.parent_of(to).ok_or("no such directory")?;
        if self.nodes[&id].kind == NodeKind::Directory {
            return Err("is a directory");
        }
        if self.find(to).is_some() {
            return Err("exists");
        }
        self.node_mut(parent).children.insert(name.to_owned(), id);
        Ok(())
    }

    fn link_unnamed(&mut self, to: &str) -> Result<(), Invalid> {
        let id = *self.unnamed.first().ok_or("no file without a name")?;
        let (parent, name) = self.parent_of(to).ok_or("no such directory")?;
        if self.find(to).is_some() {
            return Err("exists");
        }
        self.node_mut(parent).children.insert(name.to_owned(), id);
        self.unnamed.remove(0);
        Ok(())
    }

    fn remove(&mut self, path: &str, directory: bool) -> Result<(), Invalid> {
        let id = self.find(path).ok_or("no such file")?;
        let (parent, name) = self.parent_of(path).ok_or("the root")?;
        if (self.nodes[&id].kind == NodeKind::Directory) != directory {
            return Err("wrong type");
        }
        if !self.nodes[&id].children.is_empty() {
            return Err("not empty");
        }
        self.node_mut(parent).children.remove(name);
        self.drop_if_nameless(id);
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), Invalid> {
        if clone_in(from) != clone_in(to) {
            return Err("into another tree");
        }
        let id = self.find(from).ok_or("no such file")?;
        let (from_parent, from_name) = self.parent_of(from).ok_or("the root")?;
        let (to_parent, to_name) = self.parent_of(to).ok_or("no such directory")?;
        if to.starts_with(&format!("{from}/")) {
            return Err("into itself");
        }
        let replaced = self.find(to);
        if replaced == Some(id) {
            return Ok(());
        }
        if let Some(old) = replaced {
            let (new, old) = (&self.nodes[&id], &self.nodes[&old]);
            if (new.kind == NodeKind::Directory) != (old.kind == NodeKind::Directory) {
                return Err("wrong type");
            }
            if !old.children.is_empty() {
                return Err("not empty");
            }
        }
        self.node_mut(from_parent).children.remove(from_name);
        self.node_mut(to_parent).children.insert(to_name.to_owned(), id);
        if let Some(old) = replaced {
            self.drop_if_nameless(old);
        }
        Ok(())
    }

    fn exchange(&mut self, from: &str, to: &str) -> Result<(), Invalid> {
        if clone_in(from) != clone_in(to) {
            return Err("into another tree");
        }
        let (a, b) = (self.find(from).ok_or("no such file")?, self.find(to).ok_or("no such file")?);
        let (a_parent, a_name) = self.parent_of(from).ok_or("the root")?;
        let (b_parent, b_name) = self.parent_of(to).ok_or("the root")?;
        if to.starts_with(&format!("{from}/")) || from.starts_with(&format!("{to}/")) {
            return Err("into itself");
        }
        self.node_mut(a_parent).children.insert(a_name.to_owned(), b);
        self.node_mut(b_parent).children.insert(b_name.to_owned(), a);
        Ok(())
    }

    fn drop_if_nameless(&mut self, id: FileId) {
        let named = self.nodes.values().any(|node| node.children.values().any(|child| *child == id));
        if !named {
            self.nodes.remove(&id);
        }
    }
}

/// A device's number as an entry has it.
#[must_use]
pub fn rdev_bytes(rdev: u64) -> Vec<u8> {
    if rdev == 0 { Vec::new() } else { rdev.to_le_bytes().to_vec() }
}

fn zero(content: &mut [u8], at_bytes: u64, len_bytes: u64) {
    let end = ((at_bytes + len_bytes) as usize).min(content.len());
    content[(at_bytes as usize).min(end)..end].fill(0);
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl Node {
    fn new(kind: NodeKind, content: Vec<u8>) -> Self {
        let mode = match kind {
            NodeKind::Directory => DIRECTORY_MODE,
            NodeKind::Symlink => 0o777,
            _ => FILE_MODE,
        };
        Self {
            kind,
            mode,
            owner: (0, 0),
            content: Arc::new(content),
            xattrs: BTreeMap::new(),
            children: BTreeMap::new(),
        }
    }
}
