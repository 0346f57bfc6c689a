//! Remnants: they say where a block is that moved after a retained point had seen it (decision 0207).
//!
//! The trees of a point name the places of its time. When a block moves, a remnant leads from its old pointer to its new one; a
//! reader of the past follows one remnant after the other. The key is the old pointer together with the block's identity in its
//! state ([`Which`]): another block that comes to the place later has another checksum or another birth, or is a twin. An
//! indirect block whose children moved counts as another block: it names other places, so its content differs. A block may visit
//! a place twice, so a reader takes the first move after the state that it reads, then the first after that.
//!
//! Remnants since the last checkpoint are here; a checkpoint writes them to an internal file (`InodeNo::REMNANTS`), in a list for
//! each segment (`past::moved`). A page is a block of such a list.
//!
//! Invariant: a pointer at which a block arrived has no remnant here, so no chain leads back to where it began.

use firnfs_format::checkpoint::PointCursor;
use firnfs_format::pointer::POINTER_BYTES;
use firnfs_format::{BlockPtr, Epoch, PtrKind, SectorAddr, crc32c};
use rustc_hash::{FxHashMap, FxHashSet};

/// Says which block of a state a remnant belongs to. Two blocks may be twins: the same content, written in the same epoch. Then
/// only the places in their pointers differ, and one twin may come to a place that the other has left.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(in crate::lfs) struct Which(u32);

/// Bytes of a place, in which its fields follow each other.
const PLACE_BYTES: usize = 28;

impl Which {
    /// The block or record at that place in the order of a walk.
    pub fn at(place: &PointCursor) -> Self {
        let PointCursor { ino, stage, fork, last, level } = place;
        let mut bytes = [0; PLACE_BYTES];
        bytes[..8].copy_from_slice(&ino.to_le_bytes());
        bytes[8..12].copy_from_slice(&stage.to_le_bytes());
        bytes[12..16].copy_from_slice(&fork.to_le_bytes());
        bytes[16..24].copy_from_slice(&last.to_le_bytes());
        bytes[24..].copy_from_slice(&level.to_le_bytes());
        Self(crc32c(&bytes).max(1))
    }

    /// Any block: an older version did not write which one it is.
    pub const ANY: Self = Self(0);
}

/// A key: a pointer as a number, and the block that it belongs to.
type Key = (u128, Which);

/// Pointers of one block that it remembers.
const FOLLOWED_STATES: usize = 8;
/// Places of blocks that [`Remnants`] remembers; beyond it, it forgets all.
const FOLLOWED_MAX: usize = 1 << 15;

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(in crate::lfs) struct Remnants {
    moves: FxHashMap<Key, BlockPtr>,
    arrived: FxHashSet<Key>,
    /// Blocks of the inode map that were copied for the past, and that the next checkpoint will rewrite: their levels and
    /// indexes.
    copied: FxHashMap<SectorAddr, (u32, u64)>,
    /// Where pointers of states led, by the block: the state's epoch, the pointer, and where that was in the end. It holds until the block
    /// moves again.
    followed: FxHashMap<Which, Vec<(Epoch, BlockPtr, BlockPtr)>>,
}

/// What this table knows of a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lfs) enum Known {
    /// The block moved on to there.
    Moved(BlockPtr),
    /// The block arrived since the last checkpoint, and has not moved on.
    Here,
    /// Nothing: the file may have a remnant.
    Nothing,
}

impl Remnants {
    /// Notes that the block or record at a place of the present, or of a state, moved.
    pub fn note(&mut self, place: &PointCursor, from: &BlockPtr, to: &BlockPtr) {
        let which = Which::at(place);
        self.followed.remove(&which);
        self.arrived.remove(&(from.to_number(), which));
        self.moves.insert((from.to_number(), which), *to);
        self.moves.remove(&(to.to_number(), which));
        self.arrived.insert((to.to_number(), which));
    }

    /// See [`Known`].
    pub fn known(&self, which: Which, ptr: &BlockPtr) -> Known {
        if self.is_empty() {
            return Known::Nothing;
        }
        let key = (ptr.to_number(), which);
        match self.moves.get(&key) {
            Some(to) => Known::Moved(*to),
            None if self.arrived.contains(&key) => Known::Here,
            None => Known::Nothing,
        }
    }

    /// Where a pointer of a state was found to lead, if [`Self::note_followed`] was told and the block has not moved since.
    pub fn followed(&self, which: Which, state: Epoch, ptr: &BlockPtr) -> Option<BlockPtr> {
        let known = self.followed.get(&which)?;
        known.iter().find(|(epoch, from, _)| *epoch == state && from == ptr).map(|(_, _, end)| *end)
    }

    /// Remembers where a pointer of a retained point leads. Worthwhile for what leads to other blocks: it is asked for again and again.
    pub fn note_followed(&mut self, which: Which, state: Epoch, ptr: &BlockPtr, end: &BlockPtr) {
        if self.followed.len() >= FOLLOWED_MAX {
            self.followed.clear();
        }
        let known = self.followed.entry(which).or_default();
        // States are dropped; nobody asks for what they had.
        if known.len() >= FOLLOWED_STATES {
            known.clear();
        }
        known.push((state, *ptr, *end));
    }

    /// Notes that a block of the inode map was copied for the past; the next checkpoint frees its place.
    pub fn note_copied(&mut self, ptr: &BlockPtr, level: u32, index: u64) {
        self.copied.insert(ptr.addr, (level, index));
    }

    /// True if a block below that one was noted by [`Self::note_copied`]. Each block leads to `fan` blocks.
    pub fn has_copied_below(&self, fan: u64, level: u32, index: u64) -> bool {
        let is_below = |(low, at): &(u32, u64)| *low < level && at / fan.saturating_pow(level - low) == index;
        self.copied.values().any(is_below)
    }

    /// True if [`Self::note_copied`] has noted it.
    pub fn has_copied(&self, ptr: &BlockPtr) -> bool {
        self.copied.contains_key(&ptr.addr)
    }

    /// Forgets the copied blocks: the inode map was rewritten.
    pub fn forget_copied(&mut self) {
        self.copied.clear();
    }

    /// True if there is nothing to write to the file.
    pub fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.arrived.is_empty()
    }

    /// All moves in the order of their old places, and the pointers of what arrived in the order of theirs.
    pub fn list(&self) -> (Vec<Move>, Vec<(Which, BlockPtr)>) {
        let moves = self.moves.iter().map(|((from, which), to)| Move {
            which: *which,
            from: BlockPtr::decode(&from.to_le_bytes()),
            to: *to,
        });
        let mut moves: Vec<Move> = moves.collect();
        let arrived = self.arrived.iter().map(|(ptr, which)| (*which, BlockPtr::decode(&ptr.to_le_bytes())));
        let mut arrived: Vec<_> = arrived.collect();
        // By all fields, so that the order does not depend on the hash table.
        moves.sort_unstable_by_key(|a_move| (a_move.from.addr, a_move.from.encode(), a_move.which));
        arrived.sort_unstable_by_key(|(which, ptr)| (ptr.addr, ptr.encode(), *which));
        (moves, arrived)
    }

    /// Forgets all of it: the file has it now.
    pub fn forget(&mut self) {
        self.moves.clear();
        self.arrived.clear();
    }
}

/// A move since the last checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lfs) struct Move {
    pub which: Which,
    pub from: BlockPtr,
    pub to: BlockPtr,
}

/// One remnant in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::lfs) struct Remnant {
    pub which: Which,
    pub from: BlockPtr,
    pub to: BlockPtr,
    /// The epoch in which it moved: later states name the new place.
    pub moved: Epoch,
}

/// Bytes of a remnant in the file: both pointers, the epoch, which block it is.
const REMNANT_BYTES: usize = 2 * POINTER_BYTES + 8;

/// Remnants that fit into a block of that many bytes.
pub(in crate::lfs) fn page_len(block_bytes: u32) -> usize {
    block_bytes as usize / REMNANT_BYTES
}

/// The remnants in a block. Omits those with a pointer that leads to no block.
pub(in crate::lfs) fn decode_page(block: &[u8]) -> Vec<Remnant> {
    block.as_chunks::<REMNANT_BYTES>().0.iter().filter_map(decode).collect()
}

/// Where a remnant has the epoch of its move, and the block that it belongs to.
const MOVED_AT: usize = 2 * POINTER_BYTES;
const WHICH_AT: usize = MOVED_AT + 4;

fn word_at(entry: &[u8; REMNANT_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]])
}

fn decode(entry: &[u8; REMNANT_BYTES]) -> Option<Remnant> {
    let pointers = entry.as_chunks::<POINTER_BYTES>().0;
    let remnant = Remnant {
        from: BlockPtr::decode(&pointers[0]),
        to: BlockPtr::decode(&pointers[1]),
        moved: Epoch(word_at(entry, MOVED_AT)),
        which: Which(word_at(entry, WHICH_AT)),
    };
    [remnant.from, remnant.to].iter().all(|ptr| ptr.kind == PtrKind::Plain).then_some(remnant)
}

/// A block with those remnants.
pub(in crate::lfs) fn encode_page(remnants: &[Remnant], block_bytes: u32) -> Vec<u8> {
    let mut block = Vec::with_capacity(block_bytes as usize);
    for remnant in remnants {
        block.extend_from_slice(&remnant.from.encode());
        block.extend_from_slice(&remnant.to.encode());
        block.extend_from_slice(&remnant.moved.0.to_le_bytes());
        block.extend_from_slice(&remnant.which.0.to_le_bytes());
    }
    block.resize(block_bytes as usize, 0);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ptr(addr: u64, crc: u32) -> BlockPtr {
        BlockPtr { addr: SectorAddr(addr), len_sectors: 8, kind: PtrKind::Plain, crc, birth: Epoch(3) }
    }

    #[test]
    fn a_block_that_comes_back_to_its_place_has_no_remnant_there() {
        let mut remnants = Remnants::default();
        let place = |ino| PointCursor { ino, ..PointCursor::default() };
        let [one, other] = [17, 18].map(|ino| Which::at(&place(ino)));
        remnants.note(&place(17), &ptr(8, 1), &ptr(80, 1));
        assert_eq!(remnants.known(one, &ptr(8, 1)), Known::Moved(ptr(80, 1)));
        assert_eq!(remnants.known(one, &ptr(8, 2)), Known::Nothing, "another block at the same place");
        assert_eq!(remnants.known(other, &ptr(8, 1)), Known::Nothing, "a twin at the same place");
        remnants.note(&place(17), &ptr(80, 1), &ptr(8, 1));
        assert_eq!(remnants.known(one, &ptr(8, 1)), Known::Here);
        assert_eq!(remnants.known(one, &ptr(80, 1)), Known::Moved(ptr(8, 1)));
        let (moves, arrived) = remnants.list();
        let expected = Move { which: one, from: ptr(80, 1), to: ptr(8, 1) };
        assert_eq!((moves, arrived), (vec![expected], vec![(one, ptr(8, 1))]));
    }

    #[test]
    fn where_a_pointer_led_is_known_until_the_block_moves_again() {
        let mut remnants = Remnants::default();
        let place = |ino| PointCursor { ino, ..PointCursor::default() };
        let [one, other] = [17, 18].map(|ino| Which::at(&place(ino)));
        for (which, state) in [(one, 5), (one, 6), (other, 5)] {
            remnants.note_followed(which, Epoch(state), &ptr(8, 1), &ptr(80, 1));
        }
        assert_eq!(remnants.followed(one, Epoch(5), &ptr(8, 1)), Some(ptr(80, 1)));
        assert_eq!(remnants.followed(one, Epoch(7), &ptr(8, 1)), None, "another state");
        assert_eq!(remnants.followed(one, Epoch(5), &ptr(8, 2)), None, "another block");
        remnants.note(&place(17), &ptr(80, 1), &ptr(88, 1));
        assert_eq!(remnants.followed(one, Epoch(5), &ptr(8, 1)), None);
        assert_eq!(remnants.followed(one, Epoch(6), &ptr(8, 1)), None);
        assert_eq!(remnants.followed(other, Epoch(5), &ptr(8, 1)), Some(ptr(80, 1)));
        (0..3 * FOLLOWED_MAX as u32)
            .for_each(|n| remnants.note_followed(Which(n), Epoch(n), &ptr(8, 1), &ptr(8, 1)));
        assert!(remnants.followed.len() <= FOLLOWED_MAX);
    }

    #[test]
    fn pages_hold_what_was_put_into_them() {
        let all: Vec<Remnant> = (1..=page_len(4096) as u64)
            .map(|n| Remnant {
                which: Which(n as u32),
                from: ptr(8 * n, 1),
                to: ptr(800 * n, 2),
                moved: Epoch(n as u32),
            })
            .collect();
        assert_eq!(decode_page(&encode_page(&all, 4096)), all);
        assert_eq!(decode_page(&encode_page(&all[..3], 4096)), all[..3]);
        assert_eq!(decode_page(&[0xff; 4096]), []);
    }
}
