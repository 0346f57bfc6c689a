//! `CoreInode`: an inode in memory with its root pointers; encoding and decoding of its record.

use crate::bmap::DIRECT;
use crate::error::FsError;
use crate::inode::{Body, Inode, Kind, Xattrs};
use crate::lfs::base::geometry::Geometry;
use crate::lfs::map::admit;
use crate::lfs::map::dirty_set::DirtySet;
use crate::store::{BlockKey, Fork};
use firnfs_format::inode::{
    BODY_INLINE, BODY_REAPING, BODY_XATTR_FORK, FORKS, INODE_MAGIC, InodeRaw, Record, Roots, encode_record,
    record_bytes,
};
use firnfs_format::table::ImapEntry;
use firnfs_format::{BlockIndex, BlockPtr, InodeNo, TimeNs};

/// Order in which the blocks of one inode are written: lower levels first, then by fork and block number
/// (USENIX'95 section 2), so that every block's address is known before its parent is laid out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BlockPlace {
    /// 0 for data.
    pub level: u8,
    /// Which fork.
    pub fork: Fork,
    /// Index at that level.
    pub index: BlockIndex,
}

impl BlockPlace {
    /// Names the block of that inode.
    pub fn key(self, ino: InodeNo) -> BlockKey {
        BlockKey { ino, fork: self.fork, level: self.level, index: self.index }
    }
}

/// Why and since when an inode is dirty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirtyInode {
    /// Place in the order in which inodes turned dirty.
    pub order: u64,
    /// A name operation touched it: every commit must write it.
    pub names: bool,
}

/// See the module's head.
pub struct CoreInode {
    /// What UFS sees.
    pub inode: Inode,
    /// As in the inode map.
    pub version: u32,
    /// Root pointers by fork.
    pub roots: [Roots; FORKS],
    /// Where the record is in the log; a hole if it was never written.
    pub record: BlockPtr,
    /// Live bytes charged for the record: as stored, or as it will be.
    pub record_charge_bytes: u32,
    /// Live bytes charged for blocks of all forks, indirect blocks included.
    pub charged_bytes: u64,
    /// Memory counted for it so far.
    pub counted_bytes: u64,
    /// Set while memory is newer than the log.
    pub dirty: Option<DirtyInode>,
    /// While it is dirty: its record only moves, or what it leads to does.
    pub only_moves: bool,
    /// Its dirty blocks, in writing order.
    pub dirty_blocks: DirtySet,
    /// Its content was last laid out up to here: the next chunk begins here.
    pub laid_out_to: BlockIndex,
    /// Data blocks from here on are still to be freed in the background.
    pub reap_from: Option<BlockIndex>,
    /// Freed: only the background still uses it.
    pub freed: bool,
    /// It is one of a clone, and the inode map has no entry for it yet: its record is the origin's.
    pub is_origins: bool,
}

impl CoreInode {
    /// An inode that is not on disk yet.
    #[must_use]
    pub fn fresh(inode: Inode, version: u32) -> Self {
        Self {
            inode,
            version,
            roots: Default::default(),
            record: BlockPtr::HOLE,
            record_charge_bytes: 0,
            charged_bytes: 0,
            counted_bytes: 0,
            dirty: None,
            only_moves: false,
            dirty_blocks: DirtySet::default(),
            laid_out_to: BlockIndex(0),
            reap_from: None,
            freed: false,
            is_origins: false,
        }
    }

    /// Inode slot of a fork: see `bmap::Parent::Inode`.
    #[must_use]
    pub fn root(&self, fork: Fork, slot: usize) -> BlockPtr {
        let roots = &self.roots[fork as usize];
        match slot.checked_sub(DIRECT as usize) {
            None => roots.direct[slot],
            Some(level) => roots.indirect[level],
        }
    }

    /// Sets an inode slot of a fork.
    pub fn set_root(&mut self, fork: Fork, slot: usize, ptr: BlockPtr) {
        let roots = &mut self.roots[fork as usize];
        match slot.checked_sub(DIRECT as usize) {
            None => roots.direct[slot] = ptr,
            Some(level) => roots.indirect[level] = ptr,
        }
    }

    /// Length of the record as it would be written now, in bytes.
    #[must_use]
    pub fn record_bytes(&self) -> u32 {
        record_bytes(&self.roots.each_ref(), self.inode.inline_bytes()) as u32
    }

    /// True for an orphan: after a crash the background has to free something of it.
    #[must_use]
    pub fn is_orphan(&self) -> bool {
        self.inode.nlink == 0 || self.reap_from.is_some() || self.freed
    }

    /// Bytes of memory it takes, roughly.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        size_of::<Self>() as u64 + 64 + self.inode.inline_bytes() as u64 + self.dirty_blocks.memory_bytes()
    }

    /// Writes the record into `out` (zeroed, [`Self::record_bytes`] long).
    pub fn encode(&self, ino: InodeNo, out: &mut [u8]) {
        let i = &self.inode;
        let data: &[u8] = if let Body::Inline(data) = &i.body { data } else { &[] };
        let (xattrs, xattr_bytes): (&[u8], u32) = match &i.xattrs {
            Xattrs::Inline(set) => (set, set.len() as u32),
            Xattrs::Blocks(len) => (&[], *len),
        };
        let mut body = if matches!(i.body, Body::Inline(_)) { BODY_INLINE } else { 0 };
        body |= if self.reap_from.is_some() { BODY_REAPING } else { 0 };
        body |= if matches!(i.xattrs, Xattrs::Blocks(_)) { BODY_XATTR_FORK } else { 0 };
        let raw = InodeRaw {
            magic: INODE_MAGIC.into(),
            kind: i.kind as u8,
            body,
            mode: i.mode.into(),
            reserved: 0.into(),
            ino: ino.0.into(),
            generation: i.generation.into(),
            version: self.version.into(),
            uid: i.uid.into(),
            gid: i.gid.into(),
            nlink: i.nlink.into(),
            flags: i.flags.into(),
            inline_bytes: (data.len() as u32).into(),
            xattr_bytes: xattr_bytes.into(),
            direct: [0; 3],
            indirect: [0; 3],
            reserved2: 0.into(),
            size_bytes: i.size_bytes.into(),
            rdev: i.rdev.into(),
            parent: i.parent.0.into(),
            mtime_ns: i.mtime.0.into(),
            ctime_ns: i.ctime.0.into(),
            btime_ns: i.btime.0.into(),
            atime_ns: i.atime.0.into(),
            entries: i.entries.into(),
            entry_bytes: i.entry_bytes.into(),
            index_blocks: i.index_blocks.into(),
            charged_bytes: self.charged_bytes.into(),
            reap_from: self.reap_from.map_or(0, |b| b.0).into(),
            reserved3: [0; 12],
        };
        encode_record(raw, &self.roots.each_ref(), xattrs, data, out);
    }

    /// Reads the record that the inode map gives for `ino`; its CRC has been checked.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn decode(ino: InodeNo, entry: &ImapEntry, bytes: &[u8], geo: &Geometry) -> Result<Self, FsError> {
        let corrupt = |expected: String, found: String| FsError::Corrupt {
            what: format!("inode {ino}"),
            at: geo.place(entry.ptr.addr),
            expected,
            found,
        };
        let Record { raw, roots, xattrs, data } = admit::record(geo, ino, &entry.ptr, bytes)?;
        let kind = Kind::from_code(raw.kind)
            .ok_or_else(|| corrupt("a file type".to_owned(), raw.kind.to_string()))?;
        let size_bytes = raw.size_bytes.get();
        let body = if raw.body & BODY_INLINE != 0 { Body::Inline(data.to_vec()) } else { Body::Blocks };
        if raw.body & BODY_INLINE != 0 && size_bytes != data.len() as u64 {
            return Err(corrupt(format!("{size_bytes} inline bytes"), data.len().to_string()));
        }
        if size_bytes > geo.map.max_bytes(geo.block_bytes) {
            return Err(corrupt("a size within the block map".to_owned(), size_bytes.to_string()));
        }
        let xattrs = if raw.body & BODY_XATTR_FORK == 0 {
            Xattrs::Inline(xattrs.to_vec())
        } else {
            Xattrs::Blocks(raw.xattr_bytes.get())
        };
        let inode = Inode {
            kind,
            mode: raw.mode.get() & 0o7777,
            uid: raw.uid.get(),
            gid: raw.gid.get(),
            nlink: raw.nlink.get(),
            size_bytes,
            rdev: raw.rdev.get(),
            flags: raw.flags.get(),
            generation: raw.generation.get(),
            parent: InodeNo(raw.parent.get()),
            entries: raw.entries.get(),
            entry_bytes: raw.entry_bytes.get(),
            index_blocks: raw.index_blocks.get(),
            atime: entry.atime,
            mtime: TimeNs(raw.mtime_ns.get()),
            ctime: TimeNs(raw.ctime_ns.get()),
            btime: TimeNs(raw.btime_ns.get()),
            body,
            xattrs,
        };
        Ok(Self {
            version: raw.version.get(),
            roots,
            record: entry.ptr,
            record_charge_bytes: entry.ptr.stored_bytes(),
            charged_bytes: raw.charged_bytes.get(),
            reap_from: (raw.body & BODY_REAPING != 0).then(|| BlockIndex(raw.reap_from.get())),
            ..Self::fresh(inode, raw.version.get())
        })
    }
}
