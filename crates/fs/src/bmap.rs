//! The block map's arithmetic: which indirect blocks lead to a file block. Pure functions, no I/O.
//!
//! A fork has 12 direct pointers and 5 roots in the inode; the root of level L (1 to 5) is an indirect block of
//! P = block size / pointer size pointers that leads, L pointers further, to P^L data blocks:
//!
//! ```text
//!  data block   0..12          12..12+P       12+P..12+P+P^2      ...
//!  found by     inode slot     single (L=1)   double (L=2)        ... quintuple (L=5)
//! ```
//! Blocks of one level are numbered through, over all trees, in the order of the data they lead to: level 0 numbers are
//! the file's block numbers; block 0 of level L is the root of tree L, blocks 1..=P are the children of block 0 of
//! level L+1, and so on. So parent and child are one division or multiplication apart:
//!
//! ```text
//!  parent of data block i      i < 12: inode slot i       else level 1, block (i - 12) / P, slot (i - 12) % P
//!  parent of (L >= 1, i)       i = 0: inode slot 11 + L   else level L+1, block (i - 1) / P, slot (i - 1) % P
//! ```
//!
//! Invariant: `(level, index)` names one block, and `child(parent(b)) == b` for each block below a root.
//! Callers: the storage managers with on-disk maps (LFS, FFS), and all output for people: people see
//! BSD-LFS's negative numbers ([`Geometry::lbn`]).

use firnfs_format::BlockIndex;

/// Direct pointers in an inode.
pub const DIRECT: u64 = 12;
/// Deepest indirect level.
pub const LEVELS: u8 = 5;
/// Pointers in an inode: the direct ones, then one root a level.
pub const SLOTS: usize = DIRECT as usize + LEVELS as usize;

/// Where the pointer to a block is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parent {
    /// In the inode, at that slot (0 to [`SLOTS`] - 1).
    Inode(usize),
    /// In an indirect block.
    Indirect {
        /// Its level, 1 to [`LEVELS`].
        level: u8,
        /// Its index within the level.
        index: BlockIndex,
        /// Which of its pointers, 0 to P - 1.
        slot: usize,
    },
}

/// How many pointers an indirect block has; everything else follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    pointers_per_block: u64,
    /// Blocks that each level can have: every operation asks for several.
    blocks_at: [u64; LEVELS as usize + 1],
}

impl Geometry {
    /// For blocks of `block_bytes` (a power of two, at least 512) and pointers of `pointer_bytes`.
    ///
    /// # Panics
    /// If fewer than 8 pointers fit a block: the caller has checked both sizes.
    #[must_use]
    pub fn new(block_bytes: u32, pointer_bytes: u32) -> Self {
        let pointers_per_block = u64::from(block_bytes / pointer_bytes);
        assert!(pointers_per_block >= 8, "{pointers_per_block} pointers in a block");
        let mut geometry = Self { pointers_per_block, blocks_at: [0; LEVELS as usize + 1] };
        geometry.blocks_at = std::array::from_fn(|level| geometry.count_blocks_at(level as u8));
        geometry
    }

    fn count_blocks_at(self, level: u8) -> u64 {
        (1..=LEVELS - level).fold(Self::roots(level), |sum, below| sum.saturating_add(self.span(below)))
    }

    /// Pointers in an indirect block (P).
    #[must_use]
    pub fn pointers_per_block(self) -> u64 {
        self.pointers_per_block
    }

    /// Data blocks below one block of a level (P^level; 1 for level 0). Saturates.
    #[must_use]
    pub fn span(self, level: u8) -> u64 {
        self.pointers_per_block.saturating_pow(u32::from(level))
    }

    /// Data blocks that the map can reach. Saturates.
    #[must_use]
    pub fn max_blocks(self) -> u64 {
        (1..=LEVELS).fold(DIRECT, |sum, level| sum.saturating_add(self.span(level)))
    }

    /// Largest file that the map can hold, in bytes, at most `i64::MAX` (the largest offset of POSIX).
    #[must_use]
    pub fn max_bytes(self, block_bytes: u32) -> u64 {
        self.max_blocks().saturating_mul(u64::from(block_bytes)).min(i64::MAX as u64)
    }

    /// Number of the first block of a level that is not a root (12 for data: the direct ones).
    fn roots(level: u8) -> u64 {
        if level == 0 { DIRECT } else { 1 }
    }

    /// Where the pointer to a block is kept; `None` if the map does not reach that far.
    #[must_use]
    pub fn parent(self, level: u8, index: BlockIndex) -> Option<Parent> {
        let roots = Self::roots(level);
        if level > LEVELS {
            return None;
        }
        if index.0 < roots {
            let slot = if level == 0 { index.0 } else { DIRECT + u64::from(level) - 1 };
            return Some(Parent::Inode(slot as usize));
        }
        if level == LEVELS {
            return None;
        }
        let below_roots = index.0 - roots;
        let parent = Parent::Indirect {
            level: level + 1,
            index: BlockIndex(below_roots / self.pointers_per_block),
            slot: (below_roots % self.pointers_per_block) as usize,
        };
        (index.0 < self.blocks_at(level)).then_some(parent)
    }

    /// Blocks that a level can have. Saturates.
    #[must_use]
    pub fn blocks_at(self, level: u8) -> u64 {
        self.blocks_at.get(usize::from(level)).copied().unwrap_or(0)
    }

    /// The block that a pointer of an indirect block (level 1 to 5, `slot` below P) leads to, one level down.
    #[must_use]
    pub fn child(self, level: u8, index: BlockIndex, slot: usize) -> BlockIndex {
        BlockIndex(index.0 * self.pointers_per_block + slot as u64 + Self::roots(level - 1))
    }

    /// The block that an inode slot leads to: its level and its index there.
    #[must_use]
    pub fn root(slot: usize) -> (u8, BlockIndex) {
        match slot.checked_sub(DIRECT as usize) {
            None => (0, BlockIndex(slot as u64)),
            Some(indirect) => (indirect as u8 + 1, BlockIndex(0)),
        }
    }

    /// The first data block below a block.
    #[must_use]
    pub fn first_data(self, level: u8, index: BlockIndex) -> BlockIndex {
        (1..=level).rev().fold(index, |at, l| self.child(l, at, 0))
    }

    /// The block of a level that a data block lies below; `None` if its path has none there (its tree is shallower) or
    /// the map does not reach it.
    #[must_use]
    pub fn ancestor(self, data: BlockIndex, level: u8) -> Option<BlockIndex> {
        self.path(data).find(|&(l, _)| l == level).map(|(_, index)| index)
    }

    /// The way from a data block up to its root, itself included: `(level, index)`, level 0 first. Empty if the map
    /// does not reach it.
    pub fn path(self, data: BlockIndex) -> impl Iterator<Item = (u8, BlockIndex)> {
        let start = self.parent(0, data).map(|_| (0, data));
        std::iter::successors(start, move |&(level, index)| match self.parent(level, index) {
            Some(Parent::Indirect { level, index, .. }) => Some((level, index)),
            _ => None,
        })
    }

    /// BSD-LFS's block number, for people: data blocks count from 0; an indirect block of level L whose first data
    /// block is `b` is `-(b + L - 1)` (4.4BSD's `ufs_bmap.c`).
    #[must_use]
    pub fn lbn(self, level: u8, index: BlockIndex) -> i64 {
        let first = self.first_data(level, index).0 as i64;
        if level == 0 { first } else { -(first + i64::from(level) - 1) }
    }

    /// Level and index from BSD-LFS's number; `None` if no block has that number.
    #[must_use]
    pub fn from_lbn(self, lbn: i64) -> Option<(u8, BlockIndex)> {
        if let Ok(data) = u64::try_from(lbn) {
            return self.parent(0, BlockIndex(data)).map(|_| (0, BlockIndex(data)));
        }
        // P >= 8 > 5 levels and first data blocks of indirect blocks lie on 12 + n * P, so the level is the remainder.
        let below_direct = lbn.unsigned_abs().checked_sub(DIRECT)?;
        let level = u8::try_from(below_direct % self.pointers_per_block + 1).ok()?;
        let first = BlockIndex(lbn.unsigned_abs() + 1 - u64::from(level));
        let index = self.ancestor(first, level)?;
        (self.first_data(level, index) == first).then_some((level, index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Geometry {
        Geometry::new(512, 64)
    }

    /// All blocks of a small map, by walking down from the inode's slots: the independent description.
    fn walk(level: u8, index: BlockIndex, seen: &mut Vec<(u8, BlockIndex)>) {
        seen.push((level, index));
        if level > 0 {
            for slot in 0..small().pointers_per_block as usize {
                let child = small().child(level, index, slot);
                let parent = small().parent(level - 1, child);
                assert_eq!(parent, Some(Parent::Indirect { level, index, slot }));
                walk(level - 1, child, seen);
            }
        }
    }

    #[test]
    fn walking_down_meets_each_block_once_and_data_in_file_order() {
        let mut seen = Vec::new();
        for slot in 0..SLOTS {
            let (level, index) = Geometry::root(slot);
            assert_eq!(small().parent(level, index), Some(Parent::Inode(slot)));
            walk(level, index, &mut seen);
        }
        let data: Vec<u64> = seen.iter().filter(|b| b.0 == 0).map(|b| b.1.0).collect();
        assert_eq!(data, (0..small().max_blocks()).collect::<Vec<_>>());
        for level in 0..=LEVELS {
            let mut at_level: Vec<u64> = seen.iter().filter(|b| b.0 == level).map(|b| b.1.0).collect();
            at_level.sort_unstable();
            assert_eq!(at_level, (0..small().blocks_at(level)).collect::<Vec<_>>(), "level {level}");
            assert_eq!(
                small().parent(level, BlockIndex(small().blocks_at(level))),
                None,
                "past level {level}"
            );
        }
    }

    #[test]
    fn bsd_numbers_are_unique_and_come_back() {
        let mut seen = Vec::new();
        (0..SLOTS).for_each(|slot| {
            let (level, index) = Geometry::root(slot);
            walk(level, index, &mut seen);
        });
        let mut numbers = std::collections::BTreeSet::new();
        for (level, index) in seen {
            let lbn = small().lbn(level, index);
            assert!(numbers.insert(lbn), "{lbn} names two blocks");
            assert_eq!(small().from_lbn(lbn), Some((level, index)));
        }
        let lowest = *numbers.first().unwrap();
        for lbn in lowest - 20..0 {
            assert_eq!(small().from_lbn(lbn).is_some(), numbers.contains(&lbn), "{lbn}");
        }
        assert_eq!(small().from_lbn(i64::MIN), None);
    }

    #[test]
    fn bsd_numbers_of_the_first_indirect_blocks_are_those_of_4_4bsd() {
        let map = Geometry::new(4096, 16);
        assert_eq!(map.lbn(1, BlockIndex(0)), -12);
        assert_eq!(map.lbn(2, BlockIndex(0)), -(12 + 256 + 1));
        assert_eq!(map.lbn(1, BlockIndex(1)), -(12 + 256));
        assert_eq!(map.lbn(1, BlockIndex(2)), -(12 + 256 + 256));
        assert_eq!(map.lbn(3, BlockIndex(0)), -(12 + 256 + 65536 + 2));
    }

    #[test]
    fn a_path_leads_from_the_data_to_its_root() {
        let map = Geometry::new(4096, 16);
        assert_eq!(map.path(BlockIndex(11)).count(), 1);
        let path: Vec<_> = map.path(BlockIndex(12 + 256 + 256 * 7 + 3)).collect();
        assert_eq!(path, [(0, BlockIndex(12 + 256 + 256 * 7 + 3)), (1, BlockIndex(8)), (2, BlockIndex(0)),]);
        assert_eq!(map.ancestor(BlockIndex(12), 1), Some(BlockIndex(0)));
        assert_eq!(map.ancestor(BlockIndex(12), 2), None);
        assert_eq!(map.path(BlockIndex(map.max_blocks())).count(), 0);
    }

    #[test]
    fn a_file_can_pass_16_tib_and_sizes_saturate() {
        assert!(Geometry::new(4096, 16).max_bytes(4096) > 16 << 40);
        assert_eq!(Geometry::new(65536, 16).max_bytes(65536), i64::MAX as u64);
        assert_eq!(Geometry::new(65536, 16).parent(0, BlockIndex(u64::MAX)), None);
    }
}
