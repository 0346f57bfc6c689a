//! `Pages`: the cache of file data above the log, least recently used first out. It stands for the server's buffer cache, or for a
//! kernel's page cache; it knows which blocks are in memory, not what is in them.

use rustc_hash::FxHashMap;

/// Size of a block in bytes.
pub(super) const BLOCK_BYTES: u64 = 4096;
const NONE: u32 = u32::MAX;

/// A block of a file; files are numbered by the replay, and no number is used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Page {
    pub file: u32,
    pub block: u64,
}

struct Slot {
    page: Page,
    older: u32,
    newer: u32,
}

/// See the module's head.
pub(super) struct Pages {
    most: usize,
    found: FxHashMap<Page, u32>,
    slots: Vec<Slot>,
    oldest: u32,
    newest: u32,
}

impl Pages {
    /// An empty cache of that many bytes, at least a block.
    pub fn new(bytes: u64) -> Self {
        let most = (bytes / BLOCK_BYTES).max(1) as usize;
        Self { most, found: FxHashMap::default(), slots: Vec::new(), oldest: NONE, newest: NONE }
    }

    /// Uses a block; true if it was in memory. Afterwards it is.
    pub fn touch(&mut self, page: Page) -> bool {
        if let Some(&at) = self.found.get(&page) {
            self.unlink(at);
            self.link_newest(at);
            return true;
        }
        let at = if self.slots.len() < self.most {
            self.slots.push(Slot { page, older: NONE, newer: NONE });
            (self.slots.len() - 1) as u32
        } else {
            let at = self.oldest;
            self.unlink(at);
            self.found.remove(&self.slots[at as usize].page);
            self.slots[at as usize].page = page;
            at
        };
        self.found.insert(page, at);
        self.link_newest(at);
        false
    }

    fn unlink(&mut self, at: u32) {
        let Slot { older, newer, .. } = self.slots[at as usize];
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let older = std::mem::replace(&mut self.newest, at);
        (self.slots[at as usize].older, self.slots[at as usize].newer) = (older, NONE);
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = at,
            None => self.oldest = at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_that_was_not_used_for_longest_goes_first() {
        let mut pages = Pages::new(3 * BLOCK_BYTES);
        let mut touch = |block| pages.touch(Page { file: 1, block });
        assert!([1, 2, 3].into_iter().all(|block| !touch(block)));
        assert!(touch(1));
        assert!(!touch(4), "2 makes room");
        assert!(touch(1) && touch(3) && touch(4));
        assert!(!touch(2) && !touch(1), "1 was used before 3 and 4");
        assert!(!pages.touch(Page { file: 2, block: 2 }), "another file");
    }
}
