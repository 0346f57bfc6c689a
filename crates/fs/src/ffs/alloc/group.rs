//! `Group`: the bitmaps of one group, and the rules by which blocks, fragments and inodes are taken from it.
//!
//! Numbers here are offsets in the group: fragments, or inodes. A *block* starts at a multiple of the fragments of a block.
//!
//! Invariants: the bitmap of blocks and all counts follow from the bitmaps of fragments and inodes; a fragment is taken only if it was
//! free and freed only if it was taken. Bytes from a device may violate them: then a free place is not found, or giving one
//! back is refused, and nothing worse happens.
//!
//! Rules: `ffs_alloccg`, `ffs_alloccgblk`, `ffs_mapsearch`, `ffs_fragextend`, `ffs_nodealloccg`, `ffs_clusteralloc` of 4.4BSD's `ffs_alloc.c`.
//! Callers: [`super::groups`], and the check, which recomputes counts with [`Group::recount`].

use super::bits;
use super::rotation::Rotation;
use firnfs_format::ffs::{Descriptor, Summary, VolumeLayout};

/// See the module's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    pub(super) map: Descriptor,
    frags: u32,
    inodes: u32,
    /// Fragments of a block.
    block: u32,
}

impl Group {
    /// From a descriptor.
    #[must_use]
    pub fn new(layout: &VolumeLayout, map: Descriptor) -> Self {
        let (frags, inodes) = (layout.frags_in(map.group), layout.group_inodes);
        Self { frags, inodes, block: layout.frags_per_block(), map }
    }

    /// One in which everything from `data_at` on is free, and no inode is used.
    #[must_use]
    pub fn empty(layout: &VolumeLayout, group: u32) -> Self {
        let block = layout.frags_per_block();
        let map = Descriptor {
            group,
            summary: Summary::default(),
            runs: [0; 8],
            block_rotor: layout.data_at(group),
            frag_rotor: layout.data_at(group),
            inode_rotor: 0,
            used_inodes: vec![0; layout.group_inodes.div_ceil(8) as usize],
            free_frags: vec![0; layout.group_frags.div_ceil(8) as usize],
            free_blocks: vec![0; (layout.group_frags / block).div_ceil(8) as usize],
        };
        let mut new = Self::new(layout, map);
        for frag in layout.data_at(group)..new.frags {
            bits::put(&mut new.map.free_frags, frag, true);
        }
        new.recount(0);
        new
    }

    /// As it is stored.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.map
    }

    /// Its counts.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.map.summary
    }

    /// Computes the bitmap of blocks and all counts from the bitmaps of fragments and inodes; the caller passes the number of
    /// directories.
    pub fn recount(&mut self, dirs: u32) {
        self.map.free_blocks.fill(0);
        self.map.runs = [0; 8];
        let mut summary = Summary { dirs, ..Summary::default() };
        for start in (0..self.frags).step_by(self.block as usize) {
            let free = self.free_in(start);
            if free == self.whole() && start + self.block <= self.frags {
                bits::put(&mut self.map.free_blocks, start / self.block, true);
                summary.free_blocks += 1;
            } else {
                summary.free_frags += free.count_ones();
                self.count_runs(free, 1);
            }
        }
        summary.free_inodes =
            (0..self.inodes).filter(|&ino| !bits::get(&self.map.used_inodes, ino)).count() as u32;
        self.map.summary = summary;
    }

    fn whole(&self) -> u8 {
        ((1u16 << self.block) - 1) as u8
    }

    /// The free fragments of the block that starts at `start`, as bits.
    fn free_in(&self, start: u32) -> u8 {
        bits::field(&self.map.free_frags, start, self.block)
    }

    /// Adds or subtracts the free runs of a block that is not free as a whole.
    fn count_runs(&mut self, free: u8, by: i32) {
        for (_, len) in runs(free, self.block) {
            let count = &mut self.map.runs[len as usize % 8];
            *count = count.saturating_add_signed(by);
        }
    }

    /// Takes or gives fragments of one block, and brings all counts up to date.
    fn change(&mut self, at: u32, len: u32, to_free: bool) {
        let start = at / self.block * self.block;
        let before = self.free_in(start);
        for frag in at..at + len {
            bits::put(&mut self.map.free_frags, frag, to_free);
        }
        let after = self.free_in(start);
        for (free, by) in [(before, -1i32), (after, 1)] {
            let is_block = free == self.whole();
            let summary = &mut self.map.summary;
            if is_block {
                summary.free_blocks = summary.free_blocks.saturating_add_signed(by);
            } else {
                summary.free_frags = summary.free_frags.saturating_add_signed(by * free.count_ones() as i32);
                self.count_runs(free, by);
            }
        }
        let is_free = after == self.whole();
        bits::put(&mut self.map.free_blocks, start / self.block, is_free);
    }

    /// True if that fragment is free.
    #[must_use]
    pub fn is_free(&self, frag: u32) -> bool {
        frag < self.frags && bits::get(&self.map.free_frags, frag)
    }

    /// True if that block is free.
    #[must_use]
    pub fn is_free_block(&self, at: u32) -> bool {
        at.is_multiple_of(self.block)
            && at + self.block <= self.frags
            && bits::get(&self.map.free_blocks, at / self.block)
            && self.free_in(at) == self.whole()
    }

    /// Takes a block: the wanted one, else the rotationally closest of its cylinder, else the next one after it.
    /// Without a wish: the next one after the one taken last without a wish.
    pub fn take_block(&mut self, wanted: Option<u32>, rotation: Option<&Rotation>) -> Option<u32> {
        if self.map.summary.free_blocks == 0 {
            return None;
        }
        let found = match wanted.map(|at| at / self.block * self.block).filter(|at| *at < self.frags) {
            Some(at) if self.is_free_block(at) => Some(at),
            Some(at) => {
                let near =
                    rotation.and_then(|r| r.closest(self.map.group, at, |block| self.is_free_block(block)));
                near.or_else(|| self.next_block(at))
            }
            None => {
                let found = self.next_block(self.map.block_rotor);
                self.map.block_rotor = found.map_or(self.map.block_rotor, |at| at + self.block);
                found
            }
        }?;
        self.change(found, self.block, false);
        Some(found)
    }

    /// The first free block at or after a place; from the start if there is none.
    fn next_block(&self, from: u32) -> Option<u32> {
        let (from, blocks) = ((from / self.block).min(self.frags / self.block), self.frags / self.block);
        let search = |range| bits::first_set(&self.map.free_blocks, range).map(|block| block * self.block);
        search(from..blocks).or_else(|| search(0..from)).filter(|&at| self.is_free_block(at))
    }

    /// Takes `len` fragments, fewer than a block: from the smallest free run that is large enough, else from a block.
    pub fn take_frags(&mut self, len: u32, wanted: Option<u32>, rotation: Option<&Rotation>) -> Option<u32> {
        debug_assert!(len > 0 && len < self.block, "a part of a block");
        let fitting = (len..self.block).find(|&run| self.map.runs[run as usize] > 0);
        if let Some(run) = fitting
            && let Some(at) = self.find_run(run, wanted.unwrap_or(self.map.frag_rotor))
        {
            self.map.frag_rotor = at;
            self.change(at, len, false);
            return Some(at);
        }
        let at = self.take_block(wanted, rotation)?;
        self.change(at + len, self.block - len, true);
        Some(at)
    }

    /// A free run of exactly that length, at or after a place, in a block that is not free; from the start if there is none.
    fn find_run(&self, len: u32, from: u32) -> Option<u32> {
        let (blocks, first) = (self.frags.div_ceil(self.block), from / self.block);
        let first = first.min(blocks);
        (first..blocks).chain(0..first).find_map(|block| {
            let start = block * self.block;
            let free = self.free_in(start);
            if free == 0 || free == self.whole() {
                return None;
            }
            runs(free, self.block).find(|run| run.1 == len).map(|run| start + run.0)
        })
    }

    /// Extends `old` fragments at a place to `new` of them, if those after are free and in the same block.
    pub fn extend(&mut self, at: u32, old: u32, new: u32) -> bool {
        let fits = at % self.block + new <= self.block && at + new <= self.frags;
        if !fits || !(at + old..at + new).all(|frag| self.is_free(frag)) {
            return false;
        }
        self.change(at + old, new - old, false);
        true
    }

    /// Takes exactly these fragments of one block, if all are free.
    pub fn take_exactly(&mut self, at: u32, len: u32) -> bool {
        let fits = len > 0 && at % self.block + len <= self.block;
        if !fits || !(at..at + len).all(|frag| self.is_free(frag)) {
            return false;
        }
        self.change(at, len, false);
        true
    }

    /// Takes `blocks` blocks in a row: at the wanted place if they are free there, else the first such run after it, else from the start.
    pub fn take_cluster(&mut self, blocks: u32, wanted: Option<u32>) -> Option<u32> {
        let total = self.frags / self.block;
        let from = wanted.map_or(0, |at| at / self.block).min(total);
        let at = self.find_cluster(blocks, from..total).or_else(|| self.find_cluster(blocks, 0..total))?;
        for block in at..at + blocks {
            self.change(block * self.block, self.block, false);
        }
        Some(at * self.block)
    }

    fn find_cluster(&self, blocks: u32, range: std::ops::Range<u32>) -> Option<u32> {
        let mut from = range.start;
        while let Some(start) = bits::first_set(&self.map.free_blocks, from..range.end) {
            let end = bits::first_clear(&self.map.free_blocks, start..range.end).unwrap_or(range.end);
            if end - start >= blocks
                && (start..start + blocks).all(|block| self.is_free_block(block * self.block))
            {
                return Some(start);
            }
            from = end;
        }
        None
    }

    /// Gives fragments of one block back. False, and nothing changes, if one of them is free already or outside.
    pub fn give(&mut self, at: u32, len: u32) -> bool {
        let fits = len > 0 && at % self.block + len <= self.block && at + len <= self.frags;
        if !fits || (at..at + len).any(|frag| self.is_free(frag)) {
            return false;
        }
        self.change(at, len, true);
        true
    }

    /// Takes an inode: the wanted one, else the next one after it.
    pub fn take_inode(&mut self, wanted: Option<u32>, is_dir: bool) -> Option<u32> {
        if self.map.summary.free_inodes == 0 {
            return None;
        }
        let from = wanted.unwrap_or(self.map.inode_rotor).min(self.inodes);
        let clear = |range| bits::first_clear(&self.map.used_inodes, range);
        let found = clear(from..self.inodes).or_else(|| clear(0..from))?;
        self.map.inode_rotor = found;
        bits::put(&mut self.map.used_inodes, found, true);
        self.map.summary.free_inodes -= 1;
        self.map.summary.dirs += u32::from(is_dir);
        Some(found)
    }

    /// True if that inode is used.
    #[must_use]
    pub fn is_used_inode(&self, ino: u32) -> bool {
        bits::get(&self.map.used_inodes, ino)
    }

    /// Gives an inode back. False, and nothing changes, if it is free already.
    pub fn give_inode(&mut self, ino: u32, is_dir: bool) -> bool {
        if ino >= self.inodes || !self.is_used_inode(ino) {
            return false;
        }
        bits::put(&mut self.map.used_inodes, ino, false);
        self.map.summary.free_inodes += 1;
        self.map.summary.dirs = self.map.summary.dirs.saturating_sub(u32::from(is_dir));
        true
    }
}

/// The runs of set bits: where each starts, and its length.
fn runs(free: u8, bits: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bits && free >> at & 1 == 0 {
            at += 1;
        }
        let start = at;
        while at < bits && free >> at & 1 != 0 {
            at += 1;
        }
        (at > start).then_some((start, at - start))
    })
}
