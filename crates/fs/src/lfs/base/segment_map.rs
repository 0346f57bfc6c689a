//! `SegmentMap`: on which device each segment lies, and where on it.
//!
//! A pointer holds a logical address: a segment and a sector in it. This table alone turns the segment into a place. So segments
//! may lie on several devices or as objects, and may move, without one pointer being rewritten.
//!
//! The table holds stretches: segments that lie one behind the other on one device. A volume has one stretch so far, which
//! follows from its superblock and its size; requests to the driver name no device, for there is one.
//!
//! Invariant: the stretches are in the order of their segments and leave none out. Caller: [`Geometry`](super::geometry::Geometry).

use firnfs_format::SegmentId;
use std::sync::Arc;

/// Names a device of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceNo(pub u32);

impl DeviceNo {
    /// The device that holds the superblock.
    pub const FIRST: Self = Self(0);
}

/// Where a segment begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The device.
    pub device: DeviceNo,
    /// Offset on it, in bytes.
    pub at_bytes: u64,
}

/// Segments that lie one behind the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stretch {
    first: SegmentId,
    segments: u64,
    start: Place,
}

/// See the module's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentMap {
    segment_bytes: u64,
    stretches: Arc<[Stretch]>,
}

impl SegmentMap {
    /// An empty table of segments of that size.
    #[must_use]
    pub fn new(segment_bytes: u32) -> Self {
        Self { segment_bytes: u64::from(segment_bytes), stretches: Arc::new([]) }
    }

    /// Adds segments behind the last one.
    #[must_use]
    pub fn with_stretch(&self, segments: u64, start: Place) -> Self {
        let stretch = Stretch { first: SegmentId(self.segments()), segments, start };
        Self { stretches: self.stretches.iter().copied().chain([stretch]).collect(), ..*self }
    }

    /// Segments in the table.
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.stretches.last().map_or(0, |last| last.first.0.saturating_add(last.segments))
    }

    /// Where a segment begins. One that the table does not have begins behind the last stretch, where no device has anything.
    #[must_use]
    pub fn place(&self, segment: SegmentId) -> Place {
        let behind = self.stretches.partition_point(|stretch| stretch.first <= segment);
        let Some(stretch) = behind.checked_sub(1).and_then(|at| self.stretches.get(at)) else {
            return Place { device: DeviceNo::FIRST, at_bytes: u64::MAX };
        };
        let into_bytes = (segment.0 - stretch.first.0).saturating_mul(self.segment_bytes);
        Place { at_bytes: stretch.start.at_bytes.saturating_add(into_bytes), ..stretch.start }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(device: u32, at_bytes: u64) -> Place {
        Place { device: DeviceNo(device), at_bytes }
    }

    #[test]
    fn each_segment_has_the_place_of_its_stretch() {
        let map = SegmentMap::new(1000)
            .with_stretch(3, place(0, 500))
            .with_stretch(0, place(7, 0))
            .with_stretch(2, place(1, 40_000))
            .with_stretch(1, place(0, 9000));
        assert_eq!(map.segments(), 6);
        let expected = [(0, 500), (0, 1500), (0, 2500), (1, 40_000), (1, 41_000), (0, 9000)];
        for (segment, (device, at_bytes)) in (0..).zip(expected) {
            assert_eq!(map.place(SegmentId(segment)), place(device, at_bytes), "segment {segment}");
        }
    }

    #[test]
    fn a_segment_that_is_not_there_has_no_place_on_a_device() {
        assert_eq!(SegmentMap::new(1000).place(SegmentId(0)).at_bytes, u64::MAX);
        let map = SegmentMap::new(1 << 20).with_stretch(4, place(0, 1 << 20));
        assert_eq!(map.place(SegmentId(4)).at_bytes, 5 << 20);
        assert_eq!(map.place(SegmentId(u64::MAX)).at_bytes, u64::MAX);
    }
}
