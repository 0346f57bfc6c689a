//! `BlockCache`: the clean and dirty blocks of all files, and their total size in bytes.

use super::clock::ClockMap;
use crate::digest::{DIGEST_BYTES, Digest};
use crate::store::{BlockKey, Buf};
use firnfs_format::{BlockPtr, Epoch};

/// Where the previous version of a block was: the version that became outdated when the block turned dirty, or the
/// one that is being moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Log for data, in the numbering of placements; `None` if the log is unknown, or if the version was in none of
    /// them.
    pub log: Option<u8>,
    /// Epoch in which that version was made.
    pub birth: Epoch,
}

/// The accounting of a dirty block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dirty {
    /// Live bytes charged for it until its stored length is known.
    pub charged_bytes: u32,
    /// Where it moves from, if it only moves: then it keeps its birth, and it has not died there.
    pub moves: Option<BlockPtr>,
    /// Where its last stored version was; `None` if it is new.
    pub origin: Option<Origin>,
}

/// New content of a block.
pub struct Fresh {
    /// One block long.
    pub buf: Buf,
    /// Its CRC-32C, if known.
    pub crc: Option<u32>,
}

/// A dirty block on its way to the log.
pub struct LaidOut {
    /// Its content.
    pub buf: Buf,
    /// CRC-32C of the whole block, if known.
    pub crc: Option<u32>,
    /// Its accounting.
    pub dirty: Dirty,
}

/// One block in memory. With its key it fits a cache line of the processor, but for the digest: the order of the fields counts.
#[repr(C)]
pub struct CachedBlock {
    /// Its content, one block long.
    pub buf: Buf,
    /// Set while the content is newer than the log's.
    newer: Option<Box<Newer>>,
    /// The digest of this content.
    digest: Option<Digest>,
}

struct Newer {
    dirty: Dirty,
    /// CRC-32C of the whole block, if known.
    crc: Option<u32>,
}

impl CachedBlock {
    /// The block's accounting, while its content is newer than the log's.
    pub fn dirty(&self) -> Option<Dirty> {
        self.newer.as_ref().map(|newer| newer.dirty)
    }

    fn owed_bytes(&self) -> u64 {
        self.newer.as_ref().map_or(0, |newer| u64::from(newer.dirty.charged_bytes))
    }

    fn bytes(&self) -> u64 {
        self.buf.len() as u64 + if self.digest.is_some() { DIGEST_BYTES as u64 } else { 0 }
    }

    fn dirty_bytes(&self) -> u64 {
        if self.newer.is_some() { self.buf.len() as u64 } else { 0 }
    }
}

/// [`BlockCache::spare`] has no more: the blocks of 32 MiB.
const SPARE_MAX: usize = 8192;

/// See the module's head.
#[derive(Default)]
pub struct BlockCache {
    map: ClockMap<BlockKey, CachedBlock>,
    bytes: u64,
    dirty_bytes: u64,
    /// Of those, bytes of indirect blocks.
    dirty_indirect_bytes: u64,
    /// The total charge of the dirty blocks.
    owed_bytes: u64,
    /// The accounting of blocks that were laid out, to be used again for the next ones that turn dirty; not counted in `bytes`. Another
    /// thread lays out than those that write: the allocator would take back each under the lock of another thread's memory.
    #[allow(clippy::vec_box)] // what is kept is the allocations
    spare: Vec<Box<Newer>>,
}

impl BlockCache {
    /// Bytes of all blocks.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the dirty blocks.
    pub fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Bytes of the dirty indirect blocks.
    pub fn dirty_indirect_bytes(&self) -> u64 {
        self.dirty_indirect_bytes
    }

    /// The total charge of the dirty blocks: the space that they take in the log. Trimmed blocks take less there
    /// than in memory.
    pub fn owed_bytes(&self) -> u64 {
        self.owed_bytes
    }

    /// Finds a block without warming it.
    pub fn peek(&self, key: &BlockKey) -> Option<&CachedBlock> {
        self.map.peek(key)
    }

    /// The accounting of a block, if it is dirty.
    pub fn dirty(&self, key: &BlockKey) -> Option<Dirty> {
        self.peek(key).and_then(CachedBlock::dirty)
    }

    /// Brings what [`Self::lay_out`] will need of these dirty blocks into the processor's caches ([`ClockMap::prefetch`]): mostly another
    /// processor has made them dirty.
    pub fn prefetch_dirty(&self, keys: impl Iterator<Item = BlockKey>) {
        self.map
            .prefetch(keys, |block| block.newer.as_ref().map_or(0, |newer| newer.dirty.charged_bytes.into()));
    }

    /// Finds a block and warms it.
    pub fn get(&mut self, key: &BlockKey) -> Option<&CachedBlock> {
        self.map.get(key).map(|b| &*b)
    }

    /// The digest of a block's content, if one was kept; warms the block.
    pub fn digest(&mut self, key: &BlockKey) -> Option<&Digest> {
        self.map.get(key)?.digest.as_ref()
    }

    /// Keeps the digest of a block's content with it.
    pub fn keep_digest(&mut self, key: &BlockKey, digest: Digest) {
        if let Some(block) = self.map.get(key) {
            self.bytes -= block.bytes();
            block.digest = Some(digest);
            self.bytes += block.bytes();
        }
    }

    /// The content of a block, to change in place; copied first if a reader still shares it.
    pub fn content_mut(&mut self, key: &BlockKey) -> Option<&mut [u8]> {
        let bytes = &mut self.bytes;
        self.map.get(key).map(|b| {
            *bytes -= b.bytes();
            b.digest = None;
            *bytes += b.bytes();
            if let Some(newer) = &mut b.newer {
                newer.crc = None;
            }
            b.buf.make_mut()
        })
    }

    /// Puts a clean block in.
    pub fn insert_clean(&mut self, key: BlockKey, buf: Buf) {
        self.insert(key, CachedBlock { buf, newer: None, digest: None });
    }

    /// Inserts a dirty block, replacing the block of that key.
    pub fn insert_dirty(&mut self, key: BlockKey, fresh: Fresh, dirty: Dirty) {
        let Fresh { buf, crc } = fresh;
        let newer = Some(self.boxed(Newer { dirty, crc }));
        self.insert(key, CachedBlock { buf, newer, digest: None });
    }

    fn boxed(&mut self, newer: Newer) -> Box<Newer> {
        match self.spare.pop() {
            Some(mut spare) => {
                *spare = newer;
                spare
            }
            None => Box::new(newer),
        }
    }

    fn insert(&mut self, key: BlockKey, block: CachedBlock) {
        self.bytes += block.bytes();
        self.dirty_bytes += block.dirty_bytes();
        self.dirty_indirect_bytes += indirect(&key, block.dirty_bytes());
        self.owed_bytes += block.owed_bytes();
        // Metadata should outlive streams of data: a file's own blocks start cold.
        let is_data = key.level == 0 && key.fork == crate::store::Fork::Data;
        let old = self.map.insert(key, block, if is_data { 0 } else { 2 });
        self.forget_bytes(&key, old.as_ref());
    }

    fn forget_bytes(&mut self, key: &BlockKey, block: Option<&CachedBlock>) {
        if let Some(block) = block {
            self.bytes -= block.bytes();
            self.dirty_bytes -= block.dirty_bytes();
            self.dirty_indirect_bytes -= indirect(key, block.dirty_bytes());
            self.owed_bytes -= block.owed_bytes();
        }
    }

    /// Turns a block dirty; it must be there and clean.
    pub fn set_dirty(&mut self, key: &BlockKey, dirty: Dirty) {
        let newer = self.boxed(Newer { dirty, crc: None });
        let block = self.map.get(key).expect("a block is in memory before it turns dirty");
        assert!(block.newer.is_none(), "{key:?} is dirty already");
        block.newer = Some(newer);
        self.dirty_bytes += block.dirty_bytes();
        self.dirty_indirect_bytes += indirect(key, block.dirty_bytes());
        self.owed_bytes += block.owed_bytes();
    }

    /// A dirty block that only moved has new content.
    pub fn note_change(&mut self, key: &BlockKey) {
        if let Some(newer) = self.map.get(key).and_then(|b| b.newer.as_mut()) {
            newer.dirty.moves = None;
        }
    }

    /// Changes the charge of a dirty block.
    pub fn recharge(&mut self, key: &BlockKey, charged_bytes: u32) {
        if let Some(newer) = self.map.get(key).and_then(|b| b.newer.as_mut()) {
            let old = std::mem::replace(&mut newer.dirty.charged_bytes, charged_bytes);
            self.owed_bytes = self.owed_bytes - u64::from(old) + u64::from(charged_bytes);
        }
    }

    /// Lays a dirty block out: turns it clean if `keep`, otherwise drops it.
    pub fn lay_out(&mut self, key: &BlockKey, keep: bool) -> LaidOut {
        let (buf, newer) = if keep {
            let block = self.map.get(key).expect("dirty blocks stay in memory");
            self.dirty_bytes -= block.dirty_bytes();
            self.dirty_indirect_bytes -= indirect(key, block.dirty_bytes());
            self.owed_bytes -= block.owed_bytes();
            (block.buf.clone(), block.newer.take())
        } else {
            let block = self.remove(key).expect("dirty blocks stay in memory");
            (block.buf, block.newer)
        };
        let newer = newer.expect("only dirty blocks are written");
        let Newer { dirty, crc } = *newer;
        if self.spare.len() < SPARE_MAX {
            self.spare.push(newer);
        }
        LaidOut { buf, crc, dirty }
    }

    /// Drops a block, dirty or not.
    pub fn remove(&mut self, key: &BlockKey) -> Option<CachedBlock> {
        let block = self.map.remove(key);
        self.forget_bytes(key, block.as_ref());
        block
    }

    /// Drops cold clean blocks until at most `limit_bytes` remain, or only dirty blocks.
    pub fn shrink(&mut self, limit_bytes: u64) {
        while self.bytes > limit_bytes && self.bytes > self.dirty_bytes {
            let Some((key, block)) = self.map.evict(|_, b| b.newer.is_none()) else { return };
            self.forget_bytes(&key, Some(&block));
        }
    }
}

/// The bytes, if they are an indirect block's.
fn indirect(key: &BlockKey, bytes: u64) -> u64 {
    if key.level > 0 { bytes } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn what_most_lookups_read_of_a_block_and_its_key_fits_a_cache_line() {
        let (key_bytes, heat_bytes) = (size_of::<BlockKey>(), size_of::<u64>());
        assert!(key_bytes + heat_bytes + offset_of!(CachedBlock, digest) <= 64);
    }
}
