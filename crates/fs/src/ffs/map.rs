//! Lookups of inodes, pointers and blocks, and the fetches that they need.

use super::Ffs;
use super::alloc::{Group, Miss};
use super::base::{addr_of, describe, is_written};
use super::inode::CoreInode;
use super::wanted::Wanted;
use crate::bmap::{DIRECT, Parent};
use crate::error::{FsError, Outcome, Stop};
use crate::fetch::{Ahead, Fetch};
use crate::store::{BlockKey, Buf, Fork, padded};
use firnfs_format::ffs::Descriptor;
use firnfs_format::ffs::inode::DINODE_BYTES;
use firnfs_format::{BlockIndex, InodeNo};

/// A data block's name.
pub fn data_key(ino: InodeNo, fork: Fork, index: u64) -> BlockKey {
    BlockKey { ino, fork, level: 0, index: BlockIndex(index) }
}

/// A pointer of an indirect block.
pub(crate) fn pointer_at(block: &[u8], slot: usize) -> u32 {
    let bytes = block.get(slot * 4..slot * 4 + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}

/// Sets a pointer of an indirect block.
pub(crate) fn put_pointer(block: &mut [u8], slot: usize, ptr: u32) {
    block[slot * 4..slot * 4 + 4].copy_from_slice(&ptr.to_le_bytes());
}

impl Ffs {
    /// Stops with a fetch.
    pub(super) fn ask(&self, wanted: Wanted, addr: u32, len_bytes: u32) -> Stop {
        Stop::Need(vec![self.fetch(wanted, addr, len_bytes)])
    }

    /// A fetch of bytes as they are from now on.
    pub(super) fn fetch(&self, wanted: Wanted, addr: u32, len_bytes: u32) -> Fetch {
        let at_bytes = self.geo.device_bytes(addr);
        Fetch { token: wanted.token(self.writes.stamp()), at_bytes, len_bytes, ahead: Ahead::NONE }
    }

    /// A block of the inode table.
    pub(super) fn load_inode_block(&mut self, number: u32) -> Outcome<&Buf> {
        if self.inode_blocks.get(number).is_none() {
            let addr = self.geo.inode_block_addr(number);
            return Err(self.ask(Wanted::InodeBlock(number), addr, self.geo.layout.block_bytes));
        }
        let block = self.inode_blocks.get(number).and_then(|block| block.buf.as_ref());
        Ok(block.expect("blocks in memory have their bytes"))
    }

    /// Requests the bitmaps that a search missed, or reports that there is no space.
    pub(super) fn overcome_miss(&self, miss: Miss) -> Stop {
        match miss {
            Miss::Load(group) => {
                let addr = self.geo.descriptor_addr(group);
                self.ask(Wanted::Group(group), addr, self.geo.layout.block_bytes)
            }
            // If space is about to be freed, the operation waits for that.
            Miss::Full if self.releases.are_outstanding() => Stop::Room,
            Miss::Full => FsError::NoSpace.into(),
        }
    }

    /// Takes in a group's descriptor.
    pub(super) fn supply_group(&mut self, number: u32, bytes: &[u8]) -> Result<(), FsError> {
        let map = Descriptor::decode(&self.geo.layout, number, bytes).map_err(|why| FsError::Corrupt {
            what: format!("descriptor of group {number}"),
            at: format!("fragment {}", self.geo.descriptor_addr(number)),
            expected: why.expected,
            found: why.found,
        })?;
        let group = Group::new(&self.geo.layout, map);
        if group.summary() != self.groups.summaries()[number as usize] {
            return Err(FsError::Corrupt {
                what: format!("descriptor of group {number}"),
                at: format!("fragment {}", self.geo.descriptor_addr(number)),
                expected: format!("{:?}", self.groups.summaries()[number as usize]),
                found: format!("{:?}", group.summary()),
            });
        }
        self.groups.insert(number, group);
        Ok(())
    }

    /// An inode, whether freed or not.
    pub(super) fn load_inode(&mut self, ino: InodeNo) -> Outcome<&CoreInode> {
        if self.files.get(ino).is_none() {
            if !self.geo.has_inode(ino) || ino < InodeNo::ROOT {
                return Err(FsError::NotFound.into());
            }
            let (geo, (number, at)) = (self.geo, self.geo.inode_block(ino));
            let block = self.load_inode_block(number)?;
            let core = CoreInode::decode(&geo, ino, &block[at..at + DINODE_BYTES])?;
            self.files.insert(ino, core);
        }
        Ok(self.files.core(ino))
    }

    /// An inode that was not freed.
    pub(super) fn living_inode(&mut self, ino: InodeNo) -> Outcome<&CoreInode> {
        let core = self.load_inode(ino)?;
        if core.is_freed { Err(FsError::NotFound.into()) } else { Ok(core) }
    }

    /// Pointer to a block of an inode in memory; 0 also beyond the reach of the fork.
    pub(super) fn ptr(&mut self, key: &BlockKey) -> Outcome<u32> {
        match self.geo.map.parent(key.level, key.index) {
            None => Ok(0),
            Some(Parent::Inode(slot)) => {
                let reach = DIRECT as usize + usize::from(super::Geo::levels(key.fork));
                let roots = &self.files.core(key.ino).map.roots[key.fork as usize];
                Ok(if slot < reach { roots[slot] } else { 0 })
            }
            Some(Parent::Indirect { level, index, slot }) => {
                let parent = BlockKey { level, index, ..*key };
                let ptr = self.ptr(&parent)?;
                if ptr == 0 {
                    return Ok(0);
                }
                self.load_at(&parent, ptr).map(|block| pointer_at(&block, slot))
            }
        }
    }

    /// A block at its place.
    pub(super) fn load_at(&mut self, key: &BlockKey, ptr: u32) -> Outcome<Buf> {
        let addr = addr_of(ptr);
        if let Some(buf) = self.cache.get(key, addr) {
            return Ok(buf.clone());
        }
        let frags = self.files.core(key.ino).frags_of(&self.geo, key);
        self.geo.check(addr, frags, || describe(key))?;
        if key.level > 0 && !is_written(ptr) {
            let (what, at) = (describe(key), format!("fragment {addr}"));
            let (expected, found) = ("a block that was written".to_owned(), "one that was not".to_owned());
            return Err(FsError::Corrupt { what, at, expected, found }.into());
        }
        Err(self.ask(Wanted::Blocks { key: *key, addr }, addr, self.geo.bytes_of(frags) as u32))
    }

    /// A block of an inode in memory; `None` if it reads as zeros.
    pub(super) fn load(&mut self, key: &BlockKey) -> Outcome<Option<Buf>> {
        let ptr = self.ptr(key)?;
        if is_written(ptr) { self.load_at(key, ptr).map(Some) } else { Ok(None) }
    }

    /// A pointer that is certain to be known: the operation has looked at it.
    pub(super) fn known_ptr(&mut self, key: &BlockKey) -> u32 {
        self.ptr(key)
            .unwrap_or_else(|_| unreachable!("begin brought the way to {} into memory", describe(key)))
    }

    /// Takes in blocks of a file in a row, as far as they are still wanted.
    pub(super) fn supply_blocks(&mut self, first: &BlockKey, addr: u32, bytes: &[u8]) {
        if self.files.peek(first.ino).is_none() {
            return;
        }
        let block_bytes = self.geo.layout.block_bytes;
        for (nth, part) in (0..).zip(bytes.chunks(block_bytes as usize)) {
            let key = BlockKey { index: BlockIndex(first.index.0 + nth), ..*first };
            let place = addr + nth as u32 * self.geo.block_frags();
            let frags = self.files.core(key.ino).frags_of(&self.geo, &key);
            // The length must match too: a tail may have grown since.
            let is_whole = part.len() == self.geo.bytes_of(frags);
            if matches!(self.ptr(&key), Ok(ptr) if ptr == place) && is_whole && !self.cache.has(&key, place) {
                self.cache.insert(key, place, padded(part, block_bytes), false);
            }
        }
    }
}
