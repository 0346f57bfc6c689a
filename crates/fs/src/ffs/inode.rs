//! `CoreInode`: an inode in memory with its pointers; encoding and decoding of its record in the table.
//!
//! It has two maps: the present one, and the *stable* one, which is what the last queued write of the inode says. As long as blocks are
//! *fresh* - nothing queued refers to them yet - the inode can be written with its present attributes and the stable map.
//!
//! Invariants: a block is fresh from the moment in which it gets its place until the write of its parent is queued; runs that
//! the present map dropped, and the stable one still refers to, are in `held`.

use super::base::{BlockPlace, Geo, WriteId};
use super::release::Freed;
use crate::error::FsError;
use crate::inode::{Body, Inode, Kind, Xattrs};
use crate::store::{BlockKey, Fork};
use firnfs_format::ffs::Dinode;
use firnfs_format::ffs::inode::{ENTRY_UNIT_BYTES, Roots};
use firnfs_format::{InodeNo, TimeNs};
use std::collections::{BTreeMap, BTreeSet};

/// The values that determine how many fragments the last blocks have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shape {
    /// Size of the content in bytes.
    pub size_bytes: u64,
    /// The last block of content is whole.
    pub whole_tail: bool,
    /// Length of the attribute set in bytes.
    pub xattr_bytes: u32,
}

/// The pointers of an inode, and what belongs to them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Map {
    /// By fork.
    pub roots: [Roots; 3],
    /// See [`Shape`].
    pub shape: Shape,
    /// Fragments held.
    pub frags: u32,
    /// Blocks of the hash index.
    pub index_blocks: u32,
    /// Permission bits: they belong to the ACL, which is among the attributes.
    pub mode: u16,
}

/// A block that nothing on disk, and nothing queued, refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fresh {
    /// Its first write, once that is queued.
    pub write: Option<WriteId>,
    /// Its place, or a part of it, was the file's before: it held fewer fragments, or was never written.
    pub was_held: bool,
}

/// A run of whole blocks that were written one after the other, and are to be written as a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sequence {
    /// First block.
    pub start: u64,
    /// Number of blocks.
    pub len: u64,
}

/// See the module's head.
pub struct CoreInode {
    /// What UFS sees.
    pub inode: Inode,
    /// The present pointers; its shape is brought up to date when an operation ends.
    pub map: Map,
    /// The map in the last queued write.
    pub stable: Map,
    /// Set while memory is newer than the last queued write.
    pub is_dirty: bool,
    /// A close wrote its attributes, which have not changed since.
    pub is_closed: bool,
    /// Blocks that are newer in memory than on disk.
    pub dirty_blocks: BTreeSet<BlockPlace>,
    /// See [`Fresh`].
    pub fresh: BTreeMap<BlockPlace, Fresh>,
    /// Runs and inodes that are free once the named holder (`None`: the inode) is written: see `release`.
    pub held: BTreeMap<Option<BlockPlace>, Vec<Freed>>,
    /// Detached trees whose fragments are still counted.
    pub trees: u32,
    /// Freed: only requests under way still use it.
    pub is_freed: bool,
    /// The block that was read last, for read-ahead.
    pub last_read: Option<u64>,
    /// Up to where read-ahead has come: 4.4BSD's `v_maxra`.
    pub ahead_to: u64,
    /// Blocks that wait to be written as a cluster.
    pub sequence: Option<Sequence>,
}

impl CoreInode {
    /// An inode that is not on disk yet.
    pub fn fresh(inode: Inode) -> Self {
        Self {
            inode,
            map: Map::default(),
            stable: Map::default(),
            is_dirty: false,
            is_closed: false,
            dirty_blocks: BTreeSet::new(),
            fresh: BTreeMap::new(),
            held: BTreeMap::new(),
            trees: 0,
            is_freed: false,
            last_read: None,
            ahead_to: 0,
            sequence: None,
        }
    }

    /// True if it may be evicted.
    pub fn is_idle(&self) -> bool {
        !self.is_dirty && self.held.is_empty() && self.fresh.is_empty() && self.trees == 0 && !self.is_freed
    }

    /// Fragments of one of its blocks, as the present map has it.
    pub fn frags_of(&self, geo: &Geo, key: &BlockKey) -> u32 {
        let shape = &self.map.shape;
        match key.fork {
            _ if key.level > 0 => geo.block_frags(),
            Fork::Data => geo.frags_at(key.index.0, shape.size_bytes, shape.whole_tail),
            Fork::Index => geo.block_frags(),
            Fork::Xattr => geo.frags_at(key.index.0, shape.xattr_bytes.into(), false),
        }
    }

    /// The length of the attribute set, if it is in blocks.
    pub fn xattr_bytes(&self) -> u32 {
        if let Xattrs::Blocks(len_bytes) = self.inode.xattrs { len_bytes } else { 0 }
    }

    /// The bytes for the table, with the present attributes and the given map.
    pub fn encode(&self, map: &Map) -> Dinode {
        let i = &self.inode;
        let node = if i.kind == Kind::Directory { i.parent.0 } else { i.rdev };
        Dinode {
            kind: i.kind as u8,
            whole_tail: map.shape.whole_tail,
            mode: map.mode,
            nlink: i.nlink,
            uid: i.uid,
            gid: i.gid,
            size_bytes: map.shape.size_bytes,
            generation: i.generation as u32,
            xattr_bytes: map.shape.xattr_bytes,
            node,
            atime_ns: i.atime.0,
            mtime_ns: i.mtime.0,
            ctime_ns: i.ctime.0,
            btime_ns: i.btime.0,
            entries: u32::try_from(i.entries).unwrap_or(u32::MAX),
            entry_units: u32::try_from(i.entry_bytes / ENTRY_UNIT_BYTES).unwrap_or(u32::MAX),
            index_blocks: map.index_blocks,
            frags: map.frags,
            roots: map.roots,
        }
    }

    /// Decodes an inode of the table.
    ///
    /// # Errors
    /// `NotFound` if it is free, `Corrupt`.
    pub fn decode(geo: &Geo, ino: InodeNo, bytes: &[u8]) -> Result<Self, FsError> {
        let corrupt = |expected: &str, found: String| FsError::Corrupt {
            what: format!("inode {ino}"),
            at: format!("fragment {}", geo.inode_block_addr(geo.inode_block(ino).0)),
            expected: expected.to_owned(),
            found,
        };
        let stored = Dinode::decode(bytes).map_err(|why| corrupt(&why.expected, why.found))?;
        if stored.kind == 0 {
            return Err(FsError::NotFound);
        }
        let kind =
            Kind::from_code(stored.kind).ok_or_else(|| corrupt("a file type", stored.kind.to_string()))?;
        let size_bytes = stored.size_bytes;
        if size_bytes > file_max_bytes(geo) {
            return Err(corrupt("a size within the block map", size_bytes.to_string()));
        }
        let is_dir = kind == Kind::Directory;
        let mut inode = Inode::new(kind, TimeNs(stored.btime_ns));
        (inode.mode, inode.nlink) = (stored.mode & 0o7777, stored.nlink);
        (inode.uid, inode.gid, inode.size_bytes) = (stored.uid, stored.gid, size_bytes);
        (inode.rdev, inode.parent) =
            if is_dir { (0, InodeNo(stored.node)) } else { (stored.node, InodeNo(0)) };
        inode.generation = stored.generation.into();
        inode.entries = stored.entries.into();
        inode.entry_bytes = u64::from(stored.entry_units) * ENTRY_UNIT_BYTES;
        inode.index_blocks = stored.index_blocks.into();
        (inode.atime, inode.mtime) = (TimeNs(stored.atime_ns), TimeNs(stored.mtime_ns));
        inode.ctime = TimeNs(stored.ctime_ns);
        inode.body = Body::Blocks;
        if stored.xattr_bytes > 0 {
            inode.xattrs = Xattrs::Blocks(stored.xattr_bytes);
        }
        let shape = Shape { size_bytes, whole_tail: stored.whole_tail, xattr_bytes: stored.xattr_bytes };
        let map = Map {
            roots: stored.roots,
            shape,
            frags: stored.frags,
            index_blocks: stored.index_blocks,
            mode: inode.mode,
        };
        Ok(Self { map: map.clone(), stable: map, ..Self::fresh(inode) })
    }
}

/// Largest file, in bytes.
pub fn file_max_bytes(geo: &Geo) -> u64 {
    geo.blocks_max(Fork::Data).saturating_mul(geo.block_bytes()).min(i64::MAX as u64)
}
