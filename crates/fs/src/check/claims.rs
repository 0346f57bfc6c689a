//! Which sectors belong to a block, and how much of each segment is live by the pointers into it.
//!
//! One bit per sector, for segments that hold anything: 1/4096 of the live bytes. Two claims on one sector are a
//! contradiction. A sector that was claimed already is not followed again, so no image can make the check loop or collect
//! more than the device holds.

use crate::lfs::{Geometry, KindBytes, LogKind};
use firnfs_format::{BlockPtr, SegmentId};
use rustc_hash::FxHashMap;

/// See the module's head.
pub struct Claims {
    geo: Geometry,
    segments: FxHashMap<SegmentId, Claimed>,
    /// Live bytes of the volume: stored bytes, and one block for each reserved pointer.
    pub live_bytes: u64,
    /// Stored bytes by kind.
    pub live_kinds: KindBytes,
}

struct Claimed {
    live_bytes: u64,
    sectors: Box<[u64]>,
}

impl Claims {
    /// No claims yet.
    pub fn new(geo: Geometry) -> Self {
        Self { geo, segments: FxHashMap::default(), live_bytes: 0, live_kinds: KindBytes::default() }
    }

    /// Claims and counts the target of a stored pointer, which lies within one segment of the volume. Returns false if a
    /// part of it was claimed before; it is counted nevertheless, because the accounting counts pointers.
    pub fn claim(&mut self, kind: LogKind, ptr: &BlockPtr) -> bool {
        self.live_kinds.add(kind, ptr.stored_bytes());
        let bytes = u64::from(ptr.stored_bytes());
        self.live_bytes += bytes;
        let words = self.geo.segment_sectors.div_ceil(64) as usize;
        let segment = self
            .segments
            .entry(self.geo.segment_of(ptr.addr))
            .or_insert_with(|| Claimed { live_bytes: 0, sectors: vec![0; words].into_boxed_slice() });
        segment.live_bytes += bytes;
        let first = self.geo.sector_of(ptr.addr);
        let mut is_first = true;
        for sector in first..first + u32::from(ptr.len_sectors) {
            let (word, bit) = ((sector / 64) as usize, 1 << (sector % 64));
            is_first &= segment.sectors[word] & bit == 0;
            segment.sectors[word] |= bit;
        }
        is_first
    }

    /// True if the first sector of the target of a stored pointer is claimed.
    pub fn has(&self, ptr: &BlockPtr) -> bool {
        let sector = self.geo.sector_of(ptr.addr);
        let segment = self.segments.get(&self.geo.segment_of(ptr.addr));
        segment.is_some_and(|claimed| claimed.sectors[(sector / 64) as usize] & 1 << (sector % 64) != 0)
    }

    /// Counts a reserved pointer.
    pub fn reserve(&mut self) {
        self.live_bytes += u64::from(self.geo.block_bytes);
    }

    /// Live bytes of a segment.
    pub fn live_in(&self, segment: SegmentId) -> u64 {
        self.segments.get(&segment).map_or(0, |claimed| claimed.live_bytes)
    }

    /// True if any sector of a segment, from that one on, is claimed.
    pub fn any_from(&self, segment: SegmentId, sector: u32) -> bool {
        self.segments.get(&segment).is_some_and(|claimed| {
            (sector..self.geo.segment_sectors)
                .any(|at| claimed.sectors[(at / 64) as usize] & 1 << (at % 64) != 0)
        })
    }

    /// Segments with live bytes, in order.
    pub fn segments(&self) -> Vec<SegmentId> {
        let mut segments: Vec<SegmentId> = self.segments.keys().copied().collect();
        segments.sort_unstable();
        segments
    }
}
