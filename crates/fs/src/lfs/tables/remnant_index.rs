//! The remnants of some segments, by the pointer that they lead away from. A reader of the past asks for each pointer, and most have
//! none; to search the pages of its segment each time took a quarter of the time of walks over moved blocks.
//!
//! Invariant: what is here for a segment is what its pages in the file have. Whoever changes them forgets it.
//!
//! Caller: `past::moved`.

use super::remnants::{Remnant, Which};
use firnfs_format::{BlockPtr, Epoch, SegmentId};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::ops::RangeInclusive;

/// Remnants and segments that are kept, some 9 MB; beyond it, all are forgotten. The segment that was put last may have more.
const KEPT_MAX: usize = 1 << 16;

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(in crate::lfs) struct RemnantIndex {
    segments: FxHashMap<SegmentId, OfSegment>,
    /// Remnants and segments.
    kept: usize,
}

/// The remnants of one segment.
#[derive(Clone, Debug, Default)]
struct OfSegment {
    /// By the pointer that they lead away from, then by epoch.
    sorted: Vec<(u128, Remnant)>,
    /// Where the remnants of each pointer begin.
    begins: FxHashMap<u128, u32>,
}

impl RemnantIndex {
    /// The first move of a block from that pointer within those epochs. `None` if the segment's remnants are not here.
    pub fn first(
        &self,
        segment: SegmentId,
        which: Which,
        from: &BlockPtr,
        epochs: &RangeInclusive<Epoch>,
    ) -> Option<Option<&Remnant>> {
        let OfSegment { sorted, begins } = self.segments.get(&segment)?;
        let key = from.to_number();
        let Some(begin) = begins.get(&key) else { return Some(None) };
        let is_wanted = |remnant: &&Remnant| {
            epochs.contains(&remnant.moved) && (remnant.which == which || remnant.which == Which::ANY)
        };
        let same = sorted[*begin as usize..].iter().take_while(|(other, _)| *other == key);
        Some(same.map(|(_, remnant)| remnant).find(is_wanted))
    }

    /// Takes all remnants of a segment.
    pub fn put(&mut self, segment: SegmentId, remnants: Vec<Remnant>) {
        if self.kept + remnants.len() >= KEPT_MAX {
            self.forget_all();
        }
        self.forget(segment);
        self.kept += remnants.len() + 1;
        let mut sorted: Vec<_> =
            remnants.into_iter().map(|remnant| (remnant.from.to_number(), remnant)).collect();
        // Of one epoch the one that comes first in the file counts.
        sorted.sort_by_key(|(key, remnant)| (*key, remnant.moved));
        let mut begins = FxHashMap::with_capacity_and_hasher(sorted.len(), FxBuildHasher);
        for (at, (key, _)) in (0..).zip(&sorted) {
            begins.entry(*key).or_insert(at);
        }
        self.segments.insert(segment, OfSegment { sorted, begins });
    }

    /// The segment's pages have changed.
    pub fn forget(&mut self, segment: SegmentId) {
        self.kept -= self.segments.remove(&segment).map_or(0, |known| known.sorted.len() + 1);
    }

    /// The file has been replaced.
    pub fn forget_all(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firnfs_format::checkpoint::PointCursor;
    use firnfs_format::{PtrKind, SectorAddr};

    fn ptr(addr: u64, crc: u32) -> BlockPtr {
        BlockPtr { addr: SectorAddr(addr), len_sectors: 8, kind: PtrKind::Plain, crc, birth: Epoch(3) }
    }

    fn remnant(which: Which, from: BlockPtr, to: u64, moved: u32) -> Remnant {
        Remnant { which, from, to: ptr(to, from.crc), moved: Epoch(moved) }
    }

    #[test]
    fn the_first_move_of_that_block_from_that_pointer_in_those_epochs_is_found() {
        let [one, other] = [17, 18].map(|ino| Which::at(&PointCursor { ino, ..PointCursor::default() }));
        let mut index = RemnantIndex::default();
        let (segment, here) = (SegmentId(4), ptr(8, 1));
        let first = |index: &RemnantIndex, which, from: &BlockPtr, epochs: RangeInclusive<u32>| {
            let epochs = Epoch(*epochs.start())..=Epoch(*epochs.end());
            index.first(segment, which, from, &epochs).map(|found| found.map(|remnant| remnant.to.addr.0))
        };
        assert_eq!(first(&index, one, &here, 0..=99), None, "the segment is not known");
        let all = vec![
            remnant(one, here, 80, 9),
            remnant(other, here, 160, 5),
            remnant(one, here, 240, 7),
            remnant(one, ptr(8, 2), 320, 4),
            remnant(Which::ANY, ptr(16, 1), 400, 6),
        ];
        index.put(segment, all);
        assert_eq!(first(&index, one, &here, 0..=99), Some(Some(240)));
        assert_eq!(first(&index, one, &here, 8..=99), Some(Some(80)));
        assert_eq!(first(&index, one, &here, 0..=6), Some(None));
        assert_eq!(first(&index, other, &here, 0..=99), Some(Some(160)), "a twin");
        assert_eq!(first(&index, one, &ptr(8, 2), 0..=99), Some(Some(320)), "another block");
        assert_eq!(first(&index, one, &ptr(16, 1), 0..=99), Some(Some(400)), "of an older version");
        assert_eq!(first(&index, one, &ptr(24, 1), 0..=99), Some(None));
        index.forget(segment);
        assert_eq!(first(&index, one, &here, 0..=99), None);
    }

    #[test]
    fn it_keeps_no_more_than_it_says() {
        let mut index = RemnantIndex::default();
        for n in 0..200 {
            let some = (0..1000).map(|at| remnant(Which::ANY, ptr(8 * at, 1), 8, 1)).collect();
            index.put(SegmentId(n % 90), some);
            let kept = index.segments.values().map(|known| known.sorted.len() + 1).sum();
            assert!(index.kept == kept && kept <= KEPT_MAX, "{kept} of {}", index.kept);
        }
        // Most segments have none.
        for n in 0..3 * KEPT_MAX as u64 {
            index.put(SegmentId(n), Vec::new());
            assert!(index.segments.len() <= KEPT_MAX);
        }
    }
}
