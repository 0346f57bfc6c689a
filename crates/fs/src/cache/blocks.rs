//! `BlockCache`: clean and dirty blocks of all files, with their sum in bytes.

use super::clock::ClockMap;
use crate::store::{BlockKey, Buf};
use firnfs_format::{BlockPtr, Epoch};

/// What a dirty block owes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dirty {
    /// Live bytes charged for it until its stored length is known.
    pub charged_bytes: u32,
    /// Epoch in which its content was made; `None`: the current one (a block that the cleaner moves keeps its own).
    pub birth: Option<Epoch>,
}

/// New content of a block.
pub struct Fresh {
    /// One block long.
    pub buf: Buf,
    /// Its CRC-32C, if that is known.
    pub crc: Option<u32>,
}

/// A dirty block on its way to the log.
pub struct LaidOut {
    /// Its content.
    pub buf: Buf,
    /// CRC-32C of all of it, if that is known.
    pub crc: Option<u32>,
    /// What it owed.
    pub dirty: Dirty,
}

/// One block in memory.
pub struct CachedBlock {
    /// Its content, one block long.
    pub buf: Buf,
    /// CRC-32C of all of a dirty block, if that is known.
    crc: Option<u32>,
    /// Where the content is in the log; a hole for a dirty block.
    pub ptr: BlockPtr,
    /// Set while the content is newer than the log's.
    pub dirty: Option<Dirty>,
}

/// See the module's head.
#[derive(Default)]
pub struct BlockCache {
    map: ClockMap<BlockKey, CachedBlock>,
    bytes: u64,
    dirty_bytes: u64,
    /// What the dirty blocks owe.
    owed_bytes: u64,
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

    /// What the dirty blocks were charged: what they take in the log. Trimmed ones take less than memory.
    pub fn owed_bytes(&self) -> u64 {
        self.owed_bytes
    }

    /// Looks without warming.
    pub fn peek(&self, key: &BlockKey) -> Option<&CachedBlock> {
        self.map.peek(key)
    }

    /// Looks and warms.
    pub fn get(&mut self, key: &BlockKey) -> Option<&CachedBlock> {
        self.map.get(key).map(|b| &*b)
    }

    /// The content of a block, to change in place; copied first if somebody else still reads it.
    pub fn content_mut(&mut self, key: &BlockKey) -> Option<&mut Vec<u8>> {
        self.map.get(key).map(|b| {
            b.crc = None;
            std::sync::Arc::make_mut(&mut b.buf)
        })
    }

    /// Puts a clean block in.
    pub fn insert_clean(&mut self, key: BlockKey, buf: Buf, ptr: BlockPtr) {
        self.insert(key, CachedBlock { buf, crc: None, ptr, dirty: None });
    }

    /// Puts a dirty block in, in place of what was there.
    pub fn insert_dirty(&mut self, key: BlockKey, fresh: Fresh, dirty: Dirty) {
        let Fresh { buf, crc } = fresh;
        self.insert(key, CachedBlock { buf, crc, ptr: BlockPtr::HOLE, dirty: Some(dirty) });
    }

    fn insert(&mut self, key: BlockKey, block: CachedBlock) {
        let len = block.buf.len() as u64;
        self.bytes += len;
        self.dirty_bytes += if block.dirty.is_some() { len } else { 0 };
        self.owed_bytes += owed(block.dirty.as_ref());
        // Metadata outlives streams of data: a file's own blocks come in cold.
        let is_data = key.level == 0 && key.fork == crate::store::Fork::Data;
        let old = self.map.insert(key, block, if is_data { 0 } else { 2 });
        self.forget_bytes(old.as_ref());
    }

    fn forget_bytes(&mut self, block: Option<&CachedBlock>) {
        if let Some(block) = block {
            let len = block.buf.len() as u64;
            self.bytes -= len;
            self.dirty_bytes -= if block.dirty.is_some() { len } else { 0 };
            self.owed_bytes -= owed(block.dirty.as_ref());
        }
    }

    /// Turns a block dirty; it must be there and clean.
    pub fn set_dirty(&mut self, key: &BlockKey, dirty: Dirty) {
        let block = self.map.get(key).expect("a block is in memory before it turns dirty");
        assert!(block.dirty.is_none(), "{key:?} is dirty already");
        block.dirty = Some(dirty);
        block.ptr = BlockPtr::HOLE;
        self.dirty_bytes += block.buf.len() as u64;
        self.owed_bytes += owed(block.dirty.as_ref());
    }

    /// Changes what a dirty block owes.
    pub fn recharge(&mut self, key: &BlockKey, charged_bytes: u32) {
        if let Some(dirty) = self.map.get(key).and_then(|b| b.dirty.as_mut()) {
            self.owed_bytes = self.owed_bytes - u64::from(dirty.charged_bytes) + u64::from(charged_bytes);
            dirty.charged_bytes = charged_bytes;
        }
    }

    /// Turns a dirty block clean: it is being laid out. [`Self::placed`] says where, unless it is not to be kept.
    pub fn lay_out(&mut self, key: &BlockKey, keep: bool) -> LaidOut {
        if !keep {
            let block = self.remove(key).expect("dirty blocks stay in memory");
            let dirty = block.dirty.expect("only dirty blocks are written");
            return LaidOut { buf: block.buf, crc: block.crc, dirty };
        }
        let block = self.map.get(key).expect("dirty blocks stay in memory");
        let dirty = block.dirty.take().expect("only dirty blocks are written");
        self.dirty_bytes -= block.buf.len() as u64;
        self.owed_bytes -= owed(Some(&dirty));
        LaidOut { buf: block.buf.clone(), crc: block.crc.take(), dirty }
    }

    /// The place of a block that was laid out and kept.
    pub fn placed(&mut self, key: &BlockKey, ptr: BlockPtr) {
        if let Some(block) = self.map.get(key) {
            block.ptr = ptr;
        }
    }

    /// Drops a block, dirty or not.
    pub fn remove(&mut self, key: &BlockKey) -> Option<CachedBlock> {
        let block = self.map.remove(key);
        self.forget_bytes(block.as_ref());
        block
    }

    /// Drops cold clean blocks until at most `limit_bytes` are left, or only dirty ones.
    pub fn shrink(&mut self, limit_bytes: u64) {
        while self.bytes > limit_bytes && self.bytes > self.dirty_bytes {
            let Some((_, block)) = self.map.evict(|_, b| b.dirty.is_none()) else { return };
            self.forget_bytes(Some(&block));
        }
    }
}

fn owed(dirty: Option<&Dirty>) -> u64 {
    dirty.map_or(0, |dirty| u64::from(dirty.charged_bytes))
}
