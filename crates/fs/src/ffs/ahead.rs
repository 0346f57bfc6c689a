//! Read-ahead by clusters (4.4BSD's `cluster_read`; USENIX'95, section 2).
//!
//! A block that continues a sequential run is read with the contiguous blocks after it, at most a cluster: `maxcontig` blocks. A read that
//! continues the one before it also starts the reading of the cluster after that, which nobody waits for, so that the disk works
//! while the program does; with clusters of one block this is `breadn`. One cluster is started at a time.
//!
//! Nothing behind an indirect block that is not in memory is read ahead, and no fragment. If a cluster cannot be read, its first block
//! is read alone.
//!
//! Caller: `store`, for reads of content.

use super::Ffs;
use super::base::{addr_of, describe, is_written};
use super::map::data_key;
use super::wanted::Wanted;
use crate::error::Outcome;
use crate::fetch::{Fetch, Soon};
use crate::store::{BlockKey, Fork};
use firnfs_format::{BlockIndex, InodeNo};

/// Longest cluster, in bytes, whatever `maxcontig` says.
const CLUSTER_MAX_BYTES: u64 = 1 << 20;
/// Blocks that could not be fetched and are remembered.
const UNREAD_MAX: usize = 32;

impl Ffs {
    /// Blocks of a cluster.
    fn cluster_blocks(&self) -> u32 {
        let most = (CLUSTER_MAX_BYTES / self.geo.block_bytes()) as u32;
        self.sb.tuning.maxcontig.min(most)
    }

    /// What to read for a block of content that is not in memory: it alone, or, in a sequential run, with the contiguous ones after
    /// it, at most a cluster. Indirect blocks and fragments are read alone.
    pub(super) fn fetch_run(&mut self, key: &BlockKey, ptr: u32, is_sequential: bool) -> Outcome<Fetch> {
        let (addr, block_frags) = (addr_of(ptr), self.geo.block_frags());
        let frags = self.files.core(key.ino).frags_of(&self.geo, key);
        self.geo.check(addr, frags, || describe(key))?;
        let mut blocks = 1;
        if is_sequential && frags == block_frags && !self.unread.contains(key) {
            let end = self.whole_blocks(key.ino);
            while blocks < self.cluster_blocks() {
                let next = BlockKey { index: BlockIndex(key.index.0 + u64::from(blocks)), ..*key };
                let place = addr + blocks * block_frags;
                let is_next = next.index.0 < end && matches!(self.ptr(&next), Ok(ptr) if ptr == place);
                if !is_next
                    || self.cache.has(&next, place)
                    || self.geo.check(place, block_frags, String::new).is_err()
                {
                    break;
                }
                blocks += 1;
            }
        }
        let len_bytes = self.geo.bytes_of(frags + (blocks - 1) * block_frags) as u32;
        Ok(self.fetch(Wanted::Blocks { key: *key, addr }, addr, len_bytes))
    }

    /// What to start reading after a read of the blocks `first` to `last`, if it continues the read before it, which ended with block
    /// `before`.
    pub(super) fn read_ahead(
        &mut self,
        ino: InodeNo,
        before: Option<u64>,
        first: u64,
        last: u64,
    ) -> Option<Soon> {
        // A program that reads less than a block at a time reads the same block again.
        let is_sequential = before.is_some_and(|before| before == first || before + 1 == first);
        if !is_sequential {
            self.files.core_mut(ino).ahead_to = 0;
            return None;
        }
        let (after, end) = (last + 1 + u64::from(self.cluster_blocks()), self.whole_blocks(ino));
        let mut from = self.files.core(ino).ahead_to.max(last + 1);
        let mut soon = None;
        while soon.is_none() && from < after.min(end) {
            let key = data_key(ino, Fork::Data, from);
            let Ok(ptr) = self.ptr(&key) else { break };
            if !is_written(ptr) {
                break;
            }
            from += 1;
            if !self.cache.has(&key, addr_of(ptr)) {
                let Ok(fetch) = self.fetch_run(&key, ptr, true) else { break };
                from = key.index.0 + u64::from(fetch.len_bytes) / self.geo.block_bytes();
                let Fetch { token, at_bytes, len_bytes, .. } = fetch;
                soon = Some(Soon { at_bytes, len_bytes, token: Some(token) });
            }
        }
        self.files.core_mut(ino).ahead_to = from;
        soon
    }

    /// Notes that a block could not be fetched. True if it may have been fetched with others; from now on it is not.
    pub(super) fn is_first_failure(&mut self, key: &BlockKey) -> bool {
        if key.level > 0 || key.fork != Fork::Data || self.unread.contains(key) {
            return false;
        }
        if self.unread.len() >= UNREAD_MAX {
            self.unread.pop_front();
        }
        self.unread.push_back(*key);
        true
    }

    /// Blocks of content before the tail, which may be a fragment.
    fn whole_blocks(&self, ino: InodeNo) -> u64 {
        self.files.core(ino).map.shape.size_bytes / self.geo.block_bytes()
    }
}
