//! `Cache`: the blocks of files in memory, and blocks of the inode table.
//!
//! A block is found by its name *and* its place: a block that the file used to have, under the same name at another place,
//! counts as absent. Invariants: blocks that are newer than on disk, or being written, stay; the sums are those of the blocks.

use super::base::WriteId;
use crate::cache::ClockMap;
use crate::digest::{DIGEST_BYTES, Digest};
use crate::store::{BlockKey, Buf};
use std::collections::BTreeMap;

/// Blocks of the inode table that stay in memory.
const INODE_BLOCKS_MAX: usize = 256;

struct Block {
    buf: Buf,
    addr: u32,
    is_dirty: bool,
    writing: Option<WriteId>,
    digest: Option<Digest>,
}

impl Block {
    fn bytes(&self) -> u64 {
        self.buf.len() as u64 + if self.digest.is_some() { DIGEST_BYTES as u64 } else { 0 }
    }

    fn is_idle(&self) -> bool {
        !self.is_dirty && self.writing.is_none()
    }
}

/// See the module's head.
#[derive(Default)]
pub struct Cache {
    map: ClockMap<BlockKey, Block>,
    bytes: u64,
    dirty_bytes: u64,
    /// Bytes of blocks that may not be evicted.
    busy_bytes: u64,
}

impl Cache {
    /// Bytes of the blocks that are newer than on disk and not queued.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Finds a block at its place, and warms it.
    pub fn get(&mut self, key: &BlockKey, addr: u32) -> Option<&Buf> {
        self.map.get(key).filter(|block| block.addr == addr).map(|block| &block.buf)
    }

    /// True if the block is there.
    pub fn has(&self, key: &BlockKey, addr: u32) -> bool {
        self.map.peek(key).is_some_and(|block| block.addr == addr)
    }

    /// The place of a block in memory. That of a dirty block is the one that its pointer has.
    pub fn place_of(&self, key: &BlockKey) -> Option<u32> {
        self.map.peek(key).map(|block| block.addr)
    }

    /// The digest kept with a block.
    pub fn digest(&mut self, key: &BlockKey) -> Option<(u32, &Digest)> {
        let block = self.map.get(key)?;
        block.digest.as_ref().map(|digest| (block.addr, digest))
    }

    /// Keeps a digest with a block.
    pub fn keep_digest(&mut self, key: &BlockKey, addr: u32, digest: Digest) {
        self.change(key, |block| {
            if block.addr == addr {
                block.digest = Some(digest);
            }
        });
    }

    /// Changes a block, and updates the sums.
    fn change<T>(&mut self, key: &BlockKey, act: impl FnOnce(&mut Block) -> T) -> Option<T> {
        let block = self.map.get(key)?;
        let before = (block.bytes(), block.is_dirty, block.is_idle());
        let done = act(block);
        let after = (block.bytes(), block.is_dirty, block.is_idle());
        self.uncount(before);
        self.count(after);
        Some(done)
    }

    fn count(&mut self, (bytes, is_dirty, is_idle): (u64, bool, bool)) {
        self.bytes += bytes;
        self.dirty_bytes += if is_dirty { bytes } else { 0 };
        self.busy_bytes += if is_idle { 0 } else { bytes };
    }

    fn uncount(&mut self, (bytes, is_dirty, is_idle): (u64, bool, bool)) {
        self.bytes -= bytes;
        self.dirty_bytes -= if is_dirty { bytes } else { 0 };
        self.busy_bytes -= if is_idle { 0 } else { bytes };
    }

    /// Puts a block in, replacing the one of that name.
    pub fn insert(&mut self, key: BlockKey, addr: u32, buf: Buf, is_dirty: bool) {
        let block = Block { buf, addr, is_dirty, writing: None, digest: None };
        self.count((block.bytes(), block.is_dirty, block.is_idle()));
        // Metadata should outlive streams of data: a file's own blocks start cold.
        let is_data = key.level == 0 && key.fork == crate::store::Fork::Data;
        if let Some(old) = self.map.insert(key, block, if is_data { 0 } else { 2 }) {
            self.uncount((old.bytes(), old.is_dirty, old.is_idle()));
        }
    }

    /// Turns a block in memory dirty, at a place that may be new.
    pub fn set_dirty(&mut self, key: &BlockKey, addr: u32) {
        self.change(key, |block| {
            block.addr = addr;
            block.is_dirty = true;
            block.digest = None;
        });
    }

    /// The content of a dirty block, to change; copied first if it is shared.
    pub fn content_mut(&mut self, key: &BlockKey) -> Option<&mut [u8]> {
        self.change(key, |block| block.digest = None);
        self.map.get(key).map(|block| block.buf.make_mut())
    }

    /// The content of a block that is queued as `write`: it is clean from now on.
    pub fn queue(&mut self, key: &BlockKey, write: WriteId) {
        self.change(key, |block| (block.is_dirty, block.writing) = (false, Some(write)));
    }

    /// A write has landed.
    pub fn landed(&mut self, key: &BlockKey, write: WriteId) {
        self.change(key, |block| {
            if block.writing == Some(write) {
                block.writing = None;
            }
        });
    }

    /// Drops a block, whatever its state.
    pub fn remove(&mut self, key: &BlockKey) {
        if let Some(old) = self.map.remove(key) {
            self.uncount((old.bytes(), old.is_dirty, old.is_idle()));
        }
    }

    /// Drops cold idle blocks until at most `limit_bytes` remain, not counting busy ones.
    pub fn shrink(&mut self, limit_bytes: u64) {
        while self.bytes - self.busy_bytes > limit_bytes {
            let Some((_, block)) = self.map.evict(|_, block| block.is_idle()) else { return };
            self.uncount((block.bytes(), block.is_dirty, block.is_idle()));
        }
    }
}

/// A block of the inode table, with the writes that its next write has to wait for, and the runs that this write frees.
#[derive(Default)]
pub struct InodeBlock {
    /// Its content.
    pub buf: Option<Buf>,
    /// It is newer than its last queued write.
    pub is_dirty: bool,
    /// Writes that must be durable before it.
    pub after: Vec<WriteId>,
    /// Fragments and inodes that are free once it is durable.
    pub frees: Vec<super::release::Freed>,
    writing: Option<WriteId>,
    used_at: u64,
}

/// The blocks of the inode table in memory.
#[derive(Default)]
pub struct InodeBlocks {
    blocks: BTreeMap<u32, InodeBlock>,
    uses: u64,
}

impl InodeBlocks {
    /// A block in memory.
    pub fn get(&mut self, number: u32) -> Option<&mut InodeBlock> {
        self.uses += 1;
        let block = self.blocks.get_mut(&number)?;
        block.used_at = self.uses;
        Some(block)
    }

    /// Puts a block in, unless it is there.
    pub fn insert(&mut self, number: u32, buf: Buf) {
        self.uses += 1;
        let used_at = self.uses;
        self.blocks.entry(number).or_insert(InodeBlock { buf: Some(buf), used_at, ..InodeBlock::default() });
    }

    /// A block is queued as `write`.
    pub fn queue(&mut self, number: u32, write: WriteId) {
        if let Some(block) = self.blocks.get_mut(&number) {
            (block.is_dirty, block.writing) = (false, Some(write));
        }
    }

    /// A write has landed.
    pub fn landed(&mut self, number: u32, write: WriteId) {
        if let Some(block) = self.blocks.get_mut(&number)
            && block.writing == Some(write)
        {
            block.writing = None;
        }
    }

    /// Drops idle blocks that were not used for long.
    pub fn shrink(&mut self) {
        if self.blocks.len() <= 2 * INODE_BLOCKS_MAX {
            return;
        }
        let idle = self.blocks.iter().filter(|(_, block)| !block.is_dirty && block.writing.is_none());
        let mut idle: Vec<_> = idle.map(|(&number, block)| (block.used_at, number)).collect();
        idle.sort_unstable();
        let excess = self.blocks.len() - INODE_BLOCKS_MAX;
        idle.into_iter().take(excess).for_each(|(_, number)| drop(self.blocks.remove(&number)));
    }
}
