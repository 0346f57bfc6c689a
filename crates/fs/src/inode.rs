//! `Inode`: a file's metadata as UFS sees it, common to all storage managers.
//!
//! It holds no pointers and no policy: only the store knows where the bytes lie. (4.4BSD's interface decayed when its storage
//! managers shared structs.)

use firnfs_format::{InodeNo, TimeNs};

/// File type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Kind {
    /// FIFO
    Fifo = 1,
    /// Character device
    CharDevice = 2,
    /// Directory
    Directory = 4,
    /// Block device
    BlockDevice = 6,
    /// Regular file
    Regular = 8,
    /// Symbolic link
    Symlink = 10,
    /// Socket
    Socket = 12,
}

impl Kind {
    /// From the number stored in inodes and directory entries (the `DT_*` numbers).
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Fifo,
            2 => Self::CharDevice,
            4 => Self::Directory,
            6 => Self::BlockDevice,
            8 => Self::Regular,
            10 => Self::Symlink,
            12 => Self::Socket,
            _ => return None,
        })
    }
}

/// Where a file's bytes are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// In the inode itself; the length of the vector is the file size.
    Inline(Vec<u8>),
    /// In blocks of [`crate::store::Fork::Data`].
    Blocks,
}

impl Body {
    /// Where the content of a new, empty file goes, in a store that keeps that much in an inode.
    #[must_use]
    pub fn empty(inline_max_bytes: u32) -> Self {
        if inline_max_bytes > 0 { Self::Inline(Vec::new()) } else { Self::Blocks }
    }
}

/// Where the extended attributes are kept: one serialised set (see `ufs::xattr`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Xattrs {
    /// In the inode.
    Inline(Vec<u8>),
    /// In [`crate::store::Fork::Xattr`], that many bytes.
    Blocks(u32),
}

/// See the module's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode {
    /// File type; never changes.
    pub kind: Kind,
    /// Permission bits with set-id and sticky bits (07777).
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names (for directories: 2 + subdirectories).
    pub nlink: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Device number, `major << 32 | minor`, for device nodes.
    pub rdev: u64,
    /// Inode flags: none defined yet (0).
    pub flags: u32,
    /// Unique for each use of the inode number, also across crashes. Set by the store.
    pub generation: u64,
    /// Directories: the parent directory (`..`). Else `InodeNo(0)`.
    pub parent: InodeNo,
    /// Directories: number of entries, without `.` and `..`.
    pub entries: u64,
    /// Directories: bytes of live entries, so that a directory full of holes is recognised.
    pub entry_bytes: u64,
    /// Directories: blocks of the hash index in [`crate::store::Fork::Index`]; 0 means no index.
    pub index_blocks: u64,
    /// Last access. Kept separately (Sprite keeps it in the inode map): see `Store::set_atime`.
    pub atime: TimeNs,
    /// Last change of content.
    pub mtime: TimeNs,
    /// Last change of the inode.
    pub ctime: TimeNs,
    /// Creation.
    pub btime: TimeNs,
    /// The content, or where it is.
    pub body: Body,
    /// The extended attributes, or where they are.
    pub xattrs: Xattrs,
}

impl Inode {
    /// A fresh inode with no names, no content and no attributes, all times `now`.
    #[must_use]
    pub fn new(kind: Kind, now: TimeNs) -> Self {
        Self {
            kind,
            mode: 0,
            uid: 0,
            gid: 0,
            nlink: 0,
            size_bytes: 0,
            rdev: 0,
            flags: 0,
            generation: 0,
            parent: InodeNo(0),
            entries: 0,
            entry_bytes: 0,
            index_blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            body: Body::Blocks,
            xattrs: Xattrs::Inline(Vec::new()),
        }
    }

    /// The inode of a fresh root directory: owner and group 0, mode 0755. For stores, when they make a volume.
    #[must_use]
    pub fn root(inline_max_bytes: u32, now: TimeNs) -> Self {
        let mut root = Self::new(Kind::Directory, now);
        root.mode = 0o755;
        root.nlink = 2;
        root.parent = InodeNo::ROOT;
        root.body = Body::empty(inline_max_bytes);
        root
    }

    /// Bytes held in the inode beyond its fixed part.
    #[must_use]
    pub fn inline_bytes(&self) -> usize {
        let body = if let Body::Inline(b) = &self.body { b.len() } else { 0 };
        let xattrs = if let Xattrs::Inline(x) = &self.xattrs { x.len() } else { 0 };
        body + xattrs
    }
}
