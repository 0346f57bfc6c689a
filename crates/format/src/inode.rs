//! The inode record: variable length, small files and attributes inline.
//!
//! ```text
//! record := header{168} pointer{16}* xattrs data (padding to a sector)
//! pointers, for each fork: its direct ones, then its indirect ones by level; only as many as are in use
//! ```
//! The inode map leads to a record; its pointer holds the record's CRC.

use crate::error::{DecodeError, ensure};
use crate::layout::layout;
use crate::pointer::{BlockPtr, POINTER_BYTES};
use crate::units::SECTOR_BYTES;
use zerocopy::byteorder::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// First bytes of an inode record ("in").
pub const INODE_MAGIC: u16 = u16::from_le_bytes(*b"in");
/// Size of the fixed part in bytes.
pub const INODE_HEADER_BYTES: usize = 168;
/// Direct pointers of a fork.
pub const DIRECT_POINTERS: usize = 12;
/// Indirect pointers of a fork: single to quintuple.
pub const INDIRECT_POINTERS: usize = 5;
/// Forks of an inode: data, directory index, extended attributes.
pub const FORKS: usize = 3;

layout! {
    /// Fixed part of an inode record.
    InodeRaw = 168 {
        /// `in`
        magic: U16,
        /// File type, the DT_* numbers: 1 FIFO, 2 character device, 4 directory, 6 block device, 8 regular, 10 symlink, 12 socket
        kind: u8,
        /// Bits: 1 = the data is inline; 2 = data blocks from `reap_from` on are still to be freed; 4 = the attributes are in their fork
        body: u8,
        /// Permission, set-id and sticky bits (07777)
        mode: U16,
        /// Zero
        reserved: U16,
        /// Inode number
        ino: U64,
        /// Generation: (incarnation of the mount << 32) + a count; unique for each use of the number, also after a crash
        generation: U64,
        /// Version, as in the inode map
        version: U32,
        /// Owner
        uid: U32,
        /// Group
        gid: U32,
        /// Names; 0 = an orphan. Directories: 2 and one for each subdirectory
        nlink: U32,
        /// Inode flags: none defined, 0
        flags: U32,
        /// Length of inline data in bytes
        inline_bytes: U32,
        /// Length of the attribute set in bytes, inline or in its fork
        xattr_bytes: U32,
        /// Count of direct pointers stored, a byte for each fork
        direct: [u8; 3],
        /// Count of indirect pointers stored, a byte for each fork
        indirect: [u8; 3],
        /// Zero
        reserved2: U16,
        /// Size in bytes
        size_bytes: U64,
        /// Device nodes: major << 32 | minor; else 0
        rdev: U64,
        /// Directories: inode of the parent, which is `..`; else 0
        parent: U64,
        /// Last change of content, ns since 1970
        mtime_ns: I64,
        /// Last change of the inode, ns since 1970
        ctime_ns: I64,
        /// Creation, ns since 1970
        btime_ns: I64,
        /// Last access when the record was written, ns since 1970 (the inode map has the newer one)
        atime_ns: I64,
        /// Directories: entries, `.` and `..` not among them
        entries: U64,
        /// Directories: bytes of live entries without slack
        entry_bytes: U64,
        /// Directories: blocks of the hash index; 0 = there is none
        index_blocks: U64,
        /// Bytes of blocks charged to the inode, all forks, indirect blocks included
        charged_bytes: U64,
        /// First data block still to be freed, where `body` says so; else 0
        reap_from: U64,
        /// Zero
        reserved3: [u8; 12],
    }
}

/// `body` bit: the data is inline.
pub const BODY_INLINE: u8 = 1;
/// `body` bit: blocks from `reap_from` on are still to be freed.
pub const BODY_REAPING: u8 = 2;
/// `body` bit: the attributes are in their fork.
pub const BODY_XATTR_FORK: u8 = 4;

/// Root pointers of one fork.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Roots {
    /// Blocks 0 to 11.
    pub direct: [BlockPtr; DIRECT_POINTERS],
    /// Single to quintuple indirect block.
    pub indirect: [BlockPtr; INDIRECT_POINTERS],
}

impl Default for Roots {
    fn default() -> Self {
        Self { direct: [BlockPtr::HOLE; DIRECT_POINTERS], indirect: [BlockPtr::HOLE; INDIRECT_POINTERS] }
    }
}

impl Roots {
    /// The number of direct and indirect pointers that must be stored.
    #[must_use]
    pub fn used(&self) -> (usize, usize) {
        let count = |ptrs: &[BlockPtr]| ptrs.iter().rposition(|p| !p.is_hole()).map_or(0, |last| last + 1);
        (count(&self.direct), count(&self.indirect))
    }
}

/// Length of a record in bytes, padding to a sector included.
#[must_use]
pub fn record_bytes(roots: &[&Roots], inline_bytes: usize) -> usize {
    let pointers: usize = roots.iter().map(|r| r.used()).map(|(d, i)| d + i).sum();
    (INODE_HEADER_BYTES + pointers * POINTER_BYTES + inline_bytes).next_multiple_of(SECTOR_BYTES as usize)
}

/// Writes a record to the start of `out` (zeroed, [`record_bytes`] long). Sets the pointer counts in `raw`.
pub fn encode_record(mut raw: InodeRaw, roots: &[&Roots; FORKS], xattrs: &[u8], data: &[u8], out: &mut [u8]) {
    let mut at = INODE_HEADER_BYTES;
    for (fork, tree) in roots.iter().enumerate() {
        let (direct, indirect) = tree.used();
        raw.direct[fork] = direct as u8;
        raw.indirect[fork] = indirect as u8;
        for ptr in tree.direct[..direct].iter().chain(&tree.indirect[..indirect]) {
            out[at..at + POINTER_BYTES].copy_from_slice(&ptr.encode());
            at += POINTER_BYTES;
        }
    }
    out[..INODE_HEADER_BYTES].copy_from_slice(raw.as_bytes());
    out[at..at + xattrs.len()].copy_from_slice(xattrs);
    at += xattrs.len();
    out[at..at + data.len()].copy_from_slice(data);
}

/// A decoded record.
#[derive(Debug)]
pub struct Record<'a> {
    /// The fixed part.
    pub raw: InodeRaw,
    /// Root pointers of the forks.
    pub roots: [Roots; FORKS],
    /// Inline attributes (empty if they are in their fork).
    pub xattrs: &'a [u8],
    /// Inline data (empty if the data is in blocks).
    pub data: &'a [u8],
}

/// Reads a record.
///
/// # Errors
/// [`DecodeError`] if it is not one, or its parts do not fit in `bytes`.
pub fn decode_record(bytes: &[u8]) -> Result<Record<'_>, DecodeError> {
    let (raw, _) = InodeRaw::read_from_prefix(bytes)
        .map_err(|_| DecodeError::new("inode record", INODE_HEADER_BYTES, bytes.len()))?;
    ensure(raw.magic.get() == INODE_MAGIC, "inode magic", INODE_MAGIC, raw.magic.get())?;
    let mut roots = [Roots::default(); FORKS];
    let mut at = INODE_HEADER_BYTES;
    for (fork, tree) in roots.iter_mut().enumerate() {
        let (direct, indirect) = (usize::from(raw.direct[fork]), usize::from(raw.indirect[fork]));
        ensure(direct <= DIRECT_POINTERS, "direct pointers", DIRECT_POINTERS, direct)?;
        ensure(indirect <= INDIRECT_POINTERS, "indirect pointers", INDIRECT_POINTERS, indirect)?;
        for slot in tree.direct[..direct].iter_mut().chain(&mut tree.indirect[..indirect]) {
            let ptr = bytes.get(at..at + POINTER_BYTES).and_then(|b| b.try_into().ok());
            let ptr: &[u8; POINTER_BYTES] =
                ptr.ok_or_else(|| DecodeError::new("inode pointers", "inside the record", at))?;
            *slot = BlockPtr::decode(ptr);
            at += POINTER_BYTES;
        }
    }
    let inline_xattrs = if raw.body & BODY_XATTR_FORK == 0 { raw.xattr_bytes.get() as usize } else { 0 };
    let inline_data = if raw.body & BODY_INLINE == 0 { 0 } else { raw.inline_bytes.get() as usize };
    let mut take = |len: usize, what: &'static str| {
        let part = bytes.get(at..at.saturating_add(len));
        at = at.saturating_add(len);
        part.ok_or_else(|| DecodeError::new(what, "inside the record", len))
    };
    let xattrs = take(inline_xattrs, "inline attributes")?;
    let data = take(inline_data, "inline data")?;
    Ok(Record { raw, roots, xattrs, data })
}
