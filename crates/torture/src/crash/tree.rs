//! `Tree`: everything visible on a mounted volume.

use super::quota::Quotas;
use std::collections::BTreeMap;
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
    /// Content of a file, target of a symbolic link, number of a device (little endian), else empty. Shared by the trees in
    /// which it was found to be the same.
    pub content: Arc<Vec<u8>>,
    /// Extended attributes by name, those of `user` without "user.", and ACLs.
    pub xattrs: BTreeMap<String, Vec<u8>>,
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
    /// numbers are not compared, but names of one file here must be names of one file there. The same points, which show the same.
    ///
    /// # Errors
    /// The first difference, as text.
    pub fn same_but_for_numbers(&self, other: &Self) -> Result<(), String> {
        let mut numbers = BTreeMap::new();
        let mut others = other.entries.iter();
        for here in &self.entries {
            let there = others.next().filter(|there| there.path == here.path);
            let there =
                there.ok_or_else(|| format!("{:?} is not there, or something besides it is", here.path))?;
            let renumbered = Entry { ino: here.ino, ..there.clone() };
            if renumbered != *here {
                return Err(format!("{:?} differs", here.path));
            }
            if *numbers.entry(here.ino).or_insert(there.ino) != there.ino {
                return Err(format!("{:?} is a name of another file", here.path));
            }
        }
        if let Some(more) = others.next() {
            return Err(format!("{:?} is there besides", more.path));
        }
        if !self.points.keys().eq(other.points.keys()) {
            let names = |tree: &Self| format!("{:?}", tree.points.keys().collect::<Vec<_>>());
            return Err(format!("points {} instead of {}", names(other), names(self)));
        }
        for (name, here) in &self.points {
            here.same_but_for_numbers(&other.points[name]).map_err(|why| format!("point {name:?}: {why}"))?;
        }
        Ok(())
    }

    /// Compares with the tree of another mount of the same image: everything, including inode numbers.
    ///
    /// # Errors
    /// The first difference, as text.
    pub fn same(&self, other: &Self) -> Result<(), String> {
        if self.entries == other.entries {
            if self.points != other.points {
                return Err("a retained point differs".to_owned());
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
