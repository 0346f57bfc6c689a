//! `DirtySet`: the dirty blocks of one inode, in writing order.
//!
//! A large file that is written at random has thousands, and a commit takes them out on another processor than the one whose writes
//! put them in. So they are kept as bits, [`GROUP`] neighbours to a word: the set of 16 MiB of dirty blocks is a few kilobytes, which
//! stay in the caches of both.
//!
//! Invariants: no word is zero; `len` is the number of set bits, and `content_len` of those that stand for content. Caller:
//! [`CoreInode`](super::inode::CoreInode) has one.

use super::inode::BlockPlace;
use crate::store::Fork;
use firnfs_format::BlockIndex;
use std::collections::BTreeMap;

/// Blocks in a word.
const GROUP: u64 = u64::BITS as u64;
/// Bits of a key for the number of a group at its level: all that a block number has without those within the group.
const NUMBER_BITS: u32 = u64::BITS - GROUP.ilog2();
const FORK_BITS: u32 = 2;
/// About what an entry of the map takes, with its share of nodes that are not full.
const ENTRY_BYTES: u64 = 32;
const FORKS: [Fork; 3] = [Fork::Data, Fork::Index, Fork::Xattr];

/// See the module's head.
#[derive(Clone, Default, Debug)]
pub struct DirtySet {
    /// By level, fork and number of the group, in this order: the bits of its blocks.
    groups: BTreeMap<u64, u64>,
    len: usize,
    /// Blocks of content, and groups that have any.
    content_len: usize,
    content_groups: usize,
}

/// The group of a block, and its bit there.
fn split(place: &BlockPlace) -> (u64, u64) {
    let number = place.index.0 / GROUP;
    debug_assert!(place.level < 1 << (u64::BITS - NUMBER_BITS - FORK_BITS), "higher than any file's tree");
    let tree = u64::from(place.level) << FORK_BITS | place.fork as u64;
    (tree << NUMBER_BITS | number, 1 << (place.index.0 % GROUP))
}

/// Whether the group is of content: data at the lowest level.
fn is_content(key: u64) -> bool {
    key >> NUMBER_BITS == Fork::Data as u64
}

/// The block of that bit of a group.
fn place(key: u64, bit: u32) -> BlockPlace {
    let (tree, number) = (key >> NUMBER_BITS, key & ((1 << NUMBER_BITS) - 1));
    BlockPlace {
        level: (tree >> FORK_BITS) as u8,
        fork: FORKS[(tree & ((1 << FORK_BITS) - 1)) as usize],
        index: BlockIndex(number * GROUP + u64::from(bit)),
    }
}

/// The numbers of the bits that are set, from the lowest.
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lowest = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(lowest)
    })
}

impl DirtySet {
    /// Adds a block.
    pub fn insert(&mut self, place: &BlockPlace) {
        let (key, bit) = split(place);
        let word = self.groups.entry(key).or_default();
        if *word & bit != 0 {
            return;
        }
        self.len += 1;
        if is_content(key) {
            self.content_len += 1;
            self.content_groups += usize::from(*word == 0);
        }
        *word |= bit;
    }

    /// Takes a block out, if it is there.
    pub fn remove(&mut self, place: &BlockPlace) {
        let (key, bit) = split(place);
        let Some(word) = self.groups.get_mut(&key).filter(|word| **word & bit != 0) else { return };
        *word &= !bit;
        self.len -= 1;
        let is_last = *word == 0;
        if is_content(key) {
            self.content_len -= 1;
            self.content_groups -= usize::from(is_last);
        }
        if is_last {
            self.groups.remove(&key);
        }
    }

    /// True if the block is there.
    pub fn contains(&self, place: &BlockPlace) -> bool {
        let (key, bit) = split(place);
        self.groups.get(&key).is_some_and(|word| word & bit != 0)
    }

    /// All blocks: lower levels first, then by fork and number.
    pub fn iter(&self) -> impl Iterator<Item = BlockPlace> {
        self.groups.iter().flat_map(|(&key, &word)| bits(word).map(move |bit| place(key, bit)))
    }

    /// The same from a block on, whether it is there or not.
    pub fn iter_from(&self, from: BlockPlace) -> impl Iterator<Item = BlockPlace> {
        let (first, lowest) = split(&from);
        let rest = self.groups.range(first..).map(move |(&key, &word)| match key == first {
            true => (key, word & !(lowest - 1)),
            false => (key, word),
        });
        rest.flat_map(|(key, word)| bits(word).map(move |bit| place(key, bit)))
    }

    /// Whether it has as many blocks of content as a chunk, if most of them are neighbours; otherwise twice as many.
    pub fn has_chunk(&self, chunk: usize) -> bool {
        let are_neighbours = self.content_len >= self.content_groups * GROUP as usize / 2;
        self.content_len >= if are_neighbours { chunk } else { 2 * chunk }
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Bytes of memory it takes beside itself, roughly.
    pub fn memory_bytes(&self) -> u64 {
        self.groups.len() as u64 * ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn some_place() -> impl Strategy<Value = BlockPlace> {
        let index = prop_oneof![0..200_u64, (1 << 40)..(1_u64 << 40) + 70, u64::MAX - 70..=u64::MAX];
        let tree = (prop_oneof![0..3_u8, Just(15)], prop::sample::select(&FORKS[..]));
        (tree, index).prop_map(|((level, fork), index)| BlockPlace { level, fork, index: BlockIndex(index) })
    }

    proptest! {
        #[test]
        fn it_is_a_set_in_the_order_of_places(
            steps in prop::collection::vec((some_place(), 0..3_u8), 0..300),
            from in some_place(),
        ) {
            let (mut set, mut model) = (DirtySet::default(), BTreeSet::new());
            for (place, what) in steps {
                if what == 0 {
                    set.remove(&place);
                    model.remove(&place);
                } else {
                    set.insert(&place);
                    model.insert(place);
                }
                prop_assert_eq!(set.contains(&place), what > 0);
                prop_assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
            }
            prop_assert!(set.iter_from(from).eq(model.range(from..).copied()));
            let content: Vec<u64> =
                model.iter().filter(|p| p.level == 0 && p.fork == Fork::Data).map(|p| p.index.0).collect();
            let groups: BTreeSet<u64> = content.iter().map(|index| index / GROUP).collect();
            prop_assert_eq!((set.content_len, set.content_groups), (content.len(), groups.len()));
            prop_assert!(set.iter().eq(model.into_iter()));
            for place in set.clone().iter() {
                set.remove(&place);
            }
            prop_assert!(set.groups.is_empty() && set.is_empty());
            prop_assert_eq!((set.content_len, set.content_groups), (0, 0));
        }
    }

    #[test]
    fn scattered_blocks_are_a_chunk_when_they_are_twice_as_many() {
        let content = |index| BlockPlace { level: 0, fork: Fork::Data, index: BlockIndex(index) };
        let set = |places: &mut dyn Iterator<Item = BlockPlace>| {
            let mut set = DirtySet::default();
            places.for_each(|place| set.insert(&place));
            set
        };
        let neighbours = |len: u64| set(&mut (1000..1000 + len).map(content));
        assert!(!neighbours(511).has_chunk(512) && neighbours(512).has_chunk(512));
        let scattered = |len: u64| set(&mut (0..len).map(|n| content(n * 20)));
        assert!(!scattered(1023).has_chunk(512) && scattered(1024).has_chunk(512));
        // A large file has about as many indirect blocks as scattered blocks of content: they stay when a chunk is written.
        let indirect = (0..4000).map(|n| BlockPlace { level: 1, ..content(n) });
        assert!(!set(&mut indirect.chain((0..1023).map(|n| content(n * 20)))).has_chunk(512));
    }
}
