//! Numbers and places that all parts of the store use.

use crate::bmap::{self, DIRECT};
use crate::error::FsError;
use crate::store::{BlockKey, Fork};
use firnfs_format::ffs::inode::{DINODE_BYTES, LEVELS};
use firnfs_format::ffs::{UNWRITTEN, VolumeLayout};
use firnfs_format::{BlockIndex, InodeNo};

/// Pointers of a fork in an inode: direct ones, then one for each level.
pub const SLOTS: usize = DIRECT as usize + 3;

/// Names a write, in the order in which writes were queued.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct WriteId(pub u64);

/// The order in which the blocks of an inode are written: lower levels first.
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
    /// The place of a block in its inode.
    pub fn of(key: &BlockKey) -> Self {
        Self { level: key.level, fork: key.fork, index: key.index }
    }

    /// Names the block of that inode.
    pub fn key(self, ino: InodeNo) -> BlockKey {
        BlockKey { ino, fork: self.fork, level: self.level, index: self.index }
    }
}

/// The address in a pointer, without its flag.
pub fn addr_of(ptr: u32) -> u32 {
    ptr & !UNWRITTEN
}

/// True if a pointer leads to bytes: neither a hole nor a block that was never written.
pub fn is_written(ptr: u32) -> bool {
    ptr != 0 && ptr & UNWRITTEN == 0
}

/// Arithmetic of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Geo {
    /// Places on the device.
    pub layout: VolumeLayout,
    /// The block map.
    pub map: bmap::Geometry,
}

impl Geo {
    /// For a volume.
    pub fn new(layout: VolumeLayout) -> Self {
        Self { layout, map: bmap::Geometry::new(layout.block_bytes, 4) }
    }

    /// Block size in bytes.
    pub fn block_bytes(&self) -> u64 {
        self.layout.block_bytes.into()
    }

    /// Fragments of a block.
    pub fn block_frags(&self) -> u32 {
        self.layout.frags_per_block()
    }

    /// Bytes of that many fragments.
    pub fn bytes_of(&self, frags: u32) -> usize {
        frags as usize * self.layout.frag_bytes as usize
    }

    /// Place of a fragment on the device, in bytes.
    pub fn device_bytes(&self, addr: u32) -> u64 {
        u64::from(addr) * u64::from(self.layout.frag_bytes)
    }

    /// Number of the block of the inode table that holds an inode, over all groups; and the inode's offset in it.
    pub fn inode_block(&self, ino: InodeNo) -> (u32, usize) {
        let per_block = self.layout.inodes_per_block();
        let ino = ino.0 as u32;
        (ino / per_block, (ino % per_block) as usize * DINODE_BYTES)
    }

    /// Address of a block of the inode table.
    pub fn inode_block_addr(&self, number: u32) -> u32 {
        let (group, block) = (number / self.layout.inode_blocks(), number % self.layout.inode_blocks());
        group * self.layout.group_frags + self.layout.inodes_at() + block * self.block_frags()
    }

    /// Address of a group's descriptor.
    pub fn descriptor_addr(&self, group: u32) -> u32 {
        group * self.layout.group_frags + self.layout.descriptor_at()
    }

    /// True if a file may have that number.
    pub fn has_inode(&self, ino: InodeNo) -> bool {
        ino.0 < u64::from(self.layout.groups) * u64::from(self.layout.group_inodes)
    }

    /// Levels of indirect blocks of a fork.
    pub fn levels(fork: Fork) -> u8 {
        LEVELS[fork as usize] as u8
    }

    /// Data blocks that a fork can have.
    pub fn blocks_max(&self, fork: Fork) -> u64 {
        (1..=Self::levels(fork)).fold(DIRECT, |sum, level| sum + self.map.span(level))
    }

    /// Pointers of an indirect block.
    pub fn pointers(&self) -> usize {
        self.map.pointers_per_block() as usize
    }

    /// Fragments of block `index` of content that is `size_bytes` long.
    pub fn frags_at(&self, index: u64, size_bytes: u64, whole_tail: bool) -> u32 {
        let (last, rest) = (size_bytes / self.block_bytes(), size_bytes % self.block_bytes());
        if index != last || rest == 0 || index >= DIRECT || whole_tail {
            return self.block_frags();
        }
        rest.div_ceil(self.layout.frag_bytes.into()) as u32
    }

    /// Checks a pointer from the device before it is followed.
    ///
    /// # Errors
    /// `Corrupt` if no block of a file can be there.
    pub fn check(&self, addr: u32, frags: u32, what: impl FnOnce() -> String) -> Result<(), FsError> {
        let group = addr / self.layout.group_frags;
        let at = addr % self.layout.group_frags;
        let block = self.block_frags();
        let in_block = frags == block && at.is_multiple_of(block) || at % block + frags <= block;
        if group < self.layout.groups
            && at >= self.layout.data_at(group)
            && at + frags <= self.layout.frags_in(group)
            && in_block
            && frags > 0
        {
            return Ok(());
        }
        Err(FsError::Corrupt {
            what: what(),
            at: format!("fragment {addr}"),
            expected: "a block among the data of a group".to_owned(),
            found: format!("{frags} fragments"),
        })
    }
}

/// "inode 17 block 3", "inode 17 directory index block 0", "inode 17 level 1 block 0" for messages.
pub fn describe(key: &BlockKey) -> String {
    let fork = match key.fork {
        Fork::Data => "",
        Fork::Index => "directory index ",
        Fork::Xattr => "attribute ",
    };
    match key.level {
        0 => format!("inode {} {fork}block {}", key.ino, key.index),
        level => format!("inode {} {fork}level {level} block {}", key.ino, key.index),
    }
}
