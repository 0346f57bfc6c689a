//! The inode: 256 bytes at a fixed place, two of them in a sector.

use crate::error::{DecodeError, ensure};
use crate::layout::layout;
use zerocopy::byteorder::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of an inode.
pub const DINODE_BYTES: usize = 256;
/// Direct pointers of a fork.
pub const DIRECT: usize = 12;
/// Levels of indirect blocks of the forks: data, directory index, attributes.
pub const LEVELS: [usize; 3] = [3, 2, 1];
/// `body` bit: the last block of content is a whole block, whatever the size.
pub const BODY_WHOLE_TAIL: u8 = 1;
/// Unit of `entry_units`, in bytes.
pub const ENTRY_UNIT_BYTES: u64 = 8;

layout! {
    /// An inode. All zero but for the generation: free.
    DinodeRaw = 256 {
        /// File type, the DT_* numbers: 1 FIFO, 2 character device, 4 directory, 6 block device, 8 regular, 10 symlink, 12 socket; 0 = free
        kind: u8,
        /// Bits: 1 = the last block of content is whole
        body: u8,
        /// Permission, set-id and sticky bits (07777)
        mode: U16,
        /// Names; directories: 2 and one for each subdirectory
        nlink: U32,
        /// Owner
        uid: U32,
        /// Group
        gid: U32,
        /// Size in bytes
        size_bytes: U64,
        /// Grows with each use of the inode; stays when it is free
        generation: U32,
        /// Length of the attribute set in bytes
        xattr_bytes: U32,
        /// Device nodes: major << 32 | minor. Directories: the parent, which is `..`
        node: U64,
        /// Last access, ns since 1970
        atime_ns: I64,
        /// Last change of content, ns since 1970
        mtime_ns: I64,
        /// Last change of the inode, ns since 1970
        ctime_ns: I64,
        /// Creation, ns since 1970
        btime_ns: I64,
        /// Directories: entries, `.` and `..` not among them
        entries: U32,
        /// Directories: length of live entries without slack, in units of 8 bytes
        entry_units: U32,
        /// Directories: blocks of the hash index; 0 = there is none
        index_blocks: U32,
        /// Fragments held, by all forks, indirect blocks included
        frags: U32,
        /// Data: 12 direct pointers; single, double and triple indirect
        data: [U32; 15],
        /// Directory index: 12 direct pointers; single and double indirect
        index: [U32; 14],
        /// Attribute set: 12 direct pointers; single indirect
        xattr: [U32; 13],
    }
}

/// Pointers of one fork: direct ones, then one for each level. Those beyond the fork's levels are 0.
pub type Roots = [u32; DIRECT + 3];

/// An inode as stored. Its values are not judged, except that it is an inode at all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // as in `DinodeRaw`
pub struct Dinode {
    /// 0 = free.
    pub kind: u8,
    /// The last block of content is a whole block.
    pub whole_tail: bool,
    pub mode: u16,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub size_bytes: u64,
    pub generation: u32,
    pub xattr_bytes: u32,
    pub node: u64,
    pub atime_ns: i64,
    pub mtime_ns: i64,
    pub ctime_ns: i64,
    pub btime_ns: i64,
    pub entries: u32,
    pub entry_units: u32,
    pub index_blocks: u32,
    pub frags: u32,
    /// Pointers by fork: data, directory index, attributes.
    pub roots: [Roots; 3],
}

fn stored<const N: usize>(roots: &Roots) -> [U32; N] {
    std::array::from_fn(|slot| roots[slot].into())
}

fn read<const N: usize>(stored: &[U32; N]) -> Roots {
    std::array::from_fn(|slot| stored.get(slot).map_or(0, |ptr| ptr.get()))
}

impl Dinode {
    /// A free inode that remembers its generation.
    #[must_use]
    pub fn free(generation: u32) -> Self {
        Self { generation, ..Self::default() }
    }

    /// The 256 bytes on disk.
    #[must_use]
    pub fn encode(&self) -> [u8; DINODE_BYTES] {
        let raw = DinodeRaw {
            kind: self.kind,
            body: if self.whole_tail { BODY_WHOLE_TAIL } else { 0 },
            mode: self.mode.into(),
            nlink: self.nlink.into(),
            uid: self.uid.into(),
            gid: self.gid.into(),
            size_bytes: self.size_bytes.into(),
            generation: self.generation.into(),
            xattr_bytes: self.xattr_bytes.into(),
            node: self.node.into(),
            atime_ns: self.atime_ns.into(),
            mtime_ns: self.mtime_ns.into(),
            ctime_ns: self.ctime_ns.into(),
            btime_ns: self.btime_ns.into(),
            entries: self.entries.into(),
            entry_units: self.entry_units.into(),
            index_blocks: self.index_blocks.into(),
            frags: self.frags.into(),
            data: stored(&self.roots[0]),
            index: stored(&self.roots[1]),
            xattr: stored(&self.roots[2]),
        };
        raw.as_bytes().try_into().expect("the layout has this size")
    }

    /// Reads an inode from the start of `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] if there are fewer than 256 bytes, or no file type has that number.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (raw, _) = DinodeRaw::read_from_prefix(bytes)
            .map_err(|_| DecodeError::new("inode", DINODE_BYTES, bytes.len()))?;
        let kind_ok = matches!(raw.kind, 0 | 1 | 2 | 4 | 6 | 8 | 10 | 12);
        ensure(kind_ok, "file type", "a DT_* number, or 0", raw.kind)?;
        Ok(Self {
            kind: raw.kind,
            whole_tail: raw.body & BODY_WHOLE_TAIL != 0,
            mode: raw.mode.get(),
            nlink: raw.nlink.get(),
            uid: raw.uid.get(),
            gid: raw.gid.get(),
            size_bytes: raw.size_bytes.get(),
            generation: raw.generation.get(),
            xattr_bytes: raw.xattr_bytes.get(),
            node: raw.node.get(),
            atime_ns: raw.atime_ns.get(),
            mtime_ns: raw.mtime_ns.get(),
            ctime_ns: raw.ctime_ns.get(),
            btime_ns: raw.btime_ns.get(),
            entries: raw.entries.get(),
            entry_units: raw.entry_units.get(),
            index_blocks: raw.index_blocks.get(),
            frags: raw.frags.get(),
            roots: [read(&raw.data), read(&raw.index), read(&raw.xattr)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_reads_back_as_it_was_written() {
        let mut inode = Dinode { kind: 8, mode: 0o644, nlink: 3, whole_tail: true, ..Dinode::free(7) };
        (inode.size_bytes, inode.node, inode.atime_ns, inode.frags) = (1 << 40, 5, -1, 99);
        (inode.roots[0][14], inode.roots[1][13], inode.roots[2][12]) = (1, 2, 1 << 31 | 3);
        assert_eq!(Dinode::decode(&inode.encode()), Ok(inode));
    }

    #[test]
    fn what_is_no_inode_is_refused() {
        assert!(Dinode::decode(&[0; DINODE_BYTES - 1]).is_err());
        assert!(Dinode::decode(&[3; DINODE_BYTES]).is_err());
        assert_eq!(Dinode::decode(&[0; DINODE_BYTES]), Ok(Dinode::default()));
    }
}
