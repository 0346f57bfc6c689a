//! `Tree`: everything visible on a mounted volume.

use super::quota::Quotas;
use firnfs_format::checkpoint::Retention;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Type of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NodeKind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// FIFO.
    Fifo,
    /// Socket.
    Socket,
    /// Character device.
    CharDevice,
    /// Block device.
    BlockDevice,
}

/// The bytes of a file. Shared by the trees and the worlds in which they were found to be the same, and never changed then.
pub type Content = Arc<Vec<u8>>;

/// The file under one name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Path from the root; the root itself is "".
    pub path: String,
    /// Type.
    pub kind: NodeKind,
    /// Inode number: equal for names of the same file.
    pub ino: u64,
    /// Link count that the file system reports.
    pub nlink: u32,
    /// Permission bits.
    pub mode: u16,
    /// User and group.
    pub owner: (u32, u32),
    /// Content of a file, target of a symbolic link, number of a device (little endian), else empty.
    pub content: Content,
    /// Extended attributes by name, those of `user` without "user.", and ACLs.
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

impl Entry {
    fn is_same_but_for_number(&self, other: &Self, are_same: &dyn Fn(&Content, &Content) -> bool) -> bool {
        let Self { path, kind, ino: _, nlink, mode, owner, content, xattrs } = self;
        (path, kind, nlink, mode) == (&other.path, &other.kind, &other.nlink, &other.mode)
            && (owner, xattrs) == (&other.owner, &other.xattrs)
            && are_same(content, &other.content)
    }
}

/// All names of a volume, the root included, sorted by path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree {
    entries: Vec<Entry>,
    quotas: Quotas,
    /// What retained points show, by their names.
    points: BTreeMap<String, Arc<Tree>>,
    /// The points that clones began as, by their names.
    clones: BTreeMap<String, String>,
    /// What automatic points show, by their epochs: after a clock was set back, two may have the same time.
    automatic: BTreeMap<u32, Arc<Tree>>,
    /// Which automatic points the volume makes and keeps.
    retention: Retention,
}

impl Tree {
    /// Sorts the entries that a walk found.
    #[must_use]
    pub fn new(mut entries: Vec<Entry>) -> Self {
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Self { entries, ..Self::default() }
    }

    /// With quotas as the volume says.
    #[must_use]
    pub fn with_quotas(self, quotas: Quotas) -> Self {
        Self { quotas, ..self }
    }

    /// With retained points.
    #[must_use]
    pub fn with_points(self, points: BTreeMap<String, Arc<Self>>) -> Self {
        Self { points, ..self }
    }

    /// With clones, whose trees are among the entries.
    #[must_use]
    pub fn with_clones(self, clones: BTreeMap<String, String>) -> Self {
        Self { clones, ..self }
    }

    /// With automatic points, by their epochs, and the rule by which they are made.
    #[must_use]
    pub fn with_automatic(self, automatic: BTreeMap<u32, Arc<Self>>, retention: Retention) -> Self {
        Self { automatic, retention, ..self }
    }

    /// What automatic points show, by their epochs.
    #[must_use]
    pub fn automatic(&self) -> &BTreeMap<u32, Arc<Self>> {
        &self.automatic
    }

    /// Which automatic points the volume makes and keeps.
    #[must_use]
    pub fn retention(&self) -> &Retention {
        &self.retention
    }

    /// The points that clones began as, by their names.
    #[must_use]
    pub fn clones(&self) -> &BTreeMap<String, String> {
        &self.clones
    }

    /// What retained points show, by their names.
    #[must_use]
    pub fn points(&self) -> &BTreeMap<String, Arc<Self>> {
        &self.points
    }

    /// Limits, and whether quotas are on.
    #[must_use]
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Compares with another tree: the same names with the same types, permissions, link counts, content and attributes. Inode
    /// numbers are not compared, but names of one file here must be names of one file there. The same points, which show the same, and
    /// the same rule for automatic ones.
    ///
    /// # Errors
    /// The first difference, as text.
    pub fn same_but_for_numbers(&self, other: &Self) -> Result<(), String> {
        self.same_files(other)?;
        same_points(&self.points, &other.points)?;
        same_points(&self.automatic, &other.automatic)?;
        if self.retention != other.retention {
            return Err(format!("the retention is {:?} instead of {:?}", other.retention, self.retention));
        }
        Ok(())
    }

    /// The same without points, and without the rule for automatic ones.
    ///
    /// # Errors
    /// The first difference, as text.
    pub fn same_files(&self, other: &Self) -> Result<(), String> {
        self.same_files_by(other, &|here, there| here == there)
    }

    /// As [`Self::same_files`], with contents compared by `are_same`.
    pub(super) fn same_files_by(
        &self,
        other: &Self,
        are_same: &dyn Fn(&Content, &Content) -> bool,
    ) -> Result<(), String> {
        let mut numbers = BTreeMap::new();
        let mut others = other.entries.iter();
        for here in &self.entries {
            let there = others.next().filter(|there| there.path == here.path);
            let there =
                there.ok_or_else(|| format!("{:?} is not there, or something besides it is", here.path))?;
            if !here.is_same_but_for_number(there, are_same) {
                return Err(format!("{:?} differs", here.path));
            }
            if *numbers.entry(here.ino).or_insert(there.ino) != there.ino {
                return Err(format!("{:?} is a name of another file", here.path));
            }
        }
        match others.next() {
            Some(more) => Err(format!("{:?} is there besides", more.path)),
            None => Ok(()),
        }
    }

    /// Compares with the tree of another mount of the same image: everything, including inode numbers. Of the automatic points the oldest
    /// may be gone there: if it is a mount that may write, retention lets them go at once.
    ///
    /// # Errors
    /// The first difference, as text.
    pub fn same(&self, other: &Self) -> Result<(), String> {
        if self.entries == other.entries {
            if self.points != other.points {
                return Err("a retained point differs".to_owned());
            }
            if !self.automatic.iter().rev().take(other.automatic.len()).eq(other.automatic.iter().rev()) {
                let epochs = |tree: &Self| format!("{:?}", tree.automatic.keys().collect::<Vec<_>>());
                return Err(format!("an automatic point differs: {} and {}", epochs(self), epochs(other)));
            }
            if self.retention != other.retention {
                return Err("the retention differs".to_owned());
            }
            return self.quotas.same(&other.quotas);
        }
        let pair = self.entries.iter().zip(&other.entries).find(|(here, there)| here != there);
        let path = pair.map_or("a name at the end", |(here, _)| here.path.as_str());
        Err(format!("{path:?} differs"))
    }

    /// Everything, sorted by path.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// See [`names_signature`].
    #[must_use]
    pub fn signature(&self) -> u64 {
        names_signature(self.entries.iter().map(|e| {
            let target = if e.kind == NodeKind::File { &[] } else { e.content.as_slice() };
            (e.path.as_str(), e.kind, e.ino, target)
        }))
    }

    /// A name on each line, with its properties: for messages.
    #[must_use]
    pub fn names(&self) -> String {
        let line = |e: &Entry| format!("{} ({:?}, inode {}, {} links)", e.path, e.kind, e.ino, e.nlink);
        self.entries.iter().map(line).collect::<Vec<_>>().join("; ")
    }
}

fn same_points<K: Ord + fmt::Debug>(
    here: &BTreeMap<K, Arc<Tree>>,
    there: &BTreeMap<K, Arc<Tree>>,
) -> Result<(), String> {
    if !here.keys().eq(there.keys()) {
        return Err(format!("points {:?} instead of {:?}", there.keys(), here.keys()));
    }
    let compare = |(name, tree): (&K, &Arc<Tree>)| {
        tree.same_files(&there[name]).map_err(|why| format!("point {name:?}: {why}"))
    };
    here.iter().try_for_each(compare)
}

/// Hash of a name space: paths in sorted order with their types, which of them are names of one file, the targets of symbolic
/// links, and the numbers of devices. Equal for a tree and for the world that it comes from, although their file numbers
/// differ.
pub(super) fn names_signature<'a>(names: impl Iterator<Item = (&'a str, NodeKind, u64, &'a [u8])>) -> u64 {
    let mut hasher = siphasher::sip::SipHasher13::new();
    let mut first_seen: BTreeMap<u64, usize> = BTreeMap::new();
    for (position, (path, kind, file, target)) in names.enumerate() {
        let group = *first_seen.entry(file).or_insert(position);
        (path, kind, group, target).hash(&mut hasher);
    }
    hasher.finish()
}
