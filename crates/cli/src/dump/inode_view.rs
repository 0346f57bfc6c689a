//! The view of one inode, for `firn dump --inode`: its record and all its blocks.

use super::tables::Tables;
use super::views::{FORK_NAMES, PtrView};
use crate::failure::{Done, Failure};
use crate::image::Image;
use firnfs_format::inode::{BODY_INLINE, BODY_REAPING, decode_record};
use firnfs_lab::calendar::rfc3339;
use serde::Serialize;

/// One block of an inode.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BlockView {
    /// `data`, `index` or `xattr`.
    pub fork: &'static str,
    /// BSD-LFS's block number: indirect blocks are negative.
    pub block: i64,
    /// 0 for data, 1 for single indirect blocks, and so on.
    pub level: u8,
    /// Its place.
    pub ptr: PtrView,
}

/// One inode.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct InodeView {
    /// Number.
    pub inode: u64,
    /// Place of the record.
    pub record: PtrView,
    /// File type.
    pub kind: &'static str,
    /// Permission bits, octal.
    pub mode: String,
    /// Unique for each use of the number.
    pub generation: u64,
    /// Bumped when the inode is freed or truncated to zero.
    pub inode_version: u32,
    /// Without names, or with blocks still to be freed.
    pub orphan: bool,
    /// Blocks beyond the end of file are still to be freed.
    pub reaping: bool,
    /// Names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size.
    pub size_bytes: u64,
    /// Bytes charged, indirect blocks included.
    pub charged_bytes: u64,
    /// Bytes of content kept in the record, or null.
    pub inline_bytes: Option<usize>,
    /// Bytes of the attribute set.
    pub xattr_bytes: u32,
    /// Directories: the parent.
    pub parent: Option<u64>,
    /// Directories: entries.
    pub entries: Option<u64>,
    /// Last access.
    pub atime: String,
    /// Last change of content.
    pub mtime: String,
    /// Last change of the inode.
    pub ctime: String,
    /// Creation.
    pub btime: String,
    /// All stored and reserved blocks.
    pub block_map: Vec<BlockView>,
}

/// Name of a file type by its DT_* number.
#[must_use]
pub fn kind_name(code: u8) -> &'static str {
    match code {
        1 => "fifo",
        2 => "character device",
        4 => "directory",
        6 => "block device",
        8 => "regular file",
        10 => "symbolic link",
        12 => "socket",
        _ => "unknown",
    }
}

impl InodeView {
    /// Reads an inode through the inode map.
    ///
    /// # Errors
    /// The number is not in use, or a block on the path to the inode is damaged.
    pub fn new(image: &Image, tables: &Tables<'_>, ino: u64) -> Done<Self> {
        let entry = tables.inode(ino)?;
        if entry.ptr.is_hole() {
            return Err(Failure::failed(format!("{} has no inode {ino}", image.path().display()))
                .advise("`firn dump --ifile` lists those in use"));
        }
        let bytes = image.read(&entry.ptr, &format!("inode {ino}"))?;
        let record = decode_record(&bytes).map_err(|e| image.damaged(format_args!("inode {ino}: {e}")))?;
        let mut blocks = Vec::new();
        for (fork, roots) in FORK_NAMES.into_iter().zip(&record.roots) {
            image.walk_blocks(roots, &mut |block, level, ptr| {
                blocks.push(BlockView { fork, block, level, ptr: PtrView::new(image, ptr) });
            })?;
        }
        let raw = &record.raw;
        let directory = raw.kind == 4;
        Ok(Self {
            inode: ino,
            record: PtrView::new(image, &entry.ptr),
            kind: kind_name(raw.kind),
            mode: format!("{:04o}", raw.mode.get()),
            generation: raw.generation.get(),
            inode_version: entry.version,
            orphan: entry.orphan,
            reaping: raw.body & BODY_REAPING != 0,
            links: raw.nlink.get(),
            uid: raw.uid.get(),
            gid: raw.gid.get(),
            size_bytes: raw.size_bytes.get(),
            charged_bytes: raw.charged_bytes.get(),
            inline_bytes: (raw.body & BODY_INLINE != 0).then_some(record.data.len()),
            xattr_bytes: raw.xattr_bytes.get(),
            parent: directory.then(|| raw.parent.get()),
            entries: directory.then(|| raw.entries.get()),
            atime: rfc3339(entry.atime.0),
            mtime: rfc3339(raw.mtime_ns.get()),
            ctime: rfc3339(raw.ctime_ns.get()),
            btime: rfc3339(raw.btime_ns.get()),
            block_map: blocks,
        })
    }
}
