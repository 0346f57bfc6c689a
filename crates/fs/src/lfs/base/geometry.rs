//! Where things are: segments, sectors and bytes on the device. Pure arithmetic from the superblock and the segment map.

use super::segment_map::{DeviceNo, Place, SegmentMap};
use crate::bmap;
use crate::error::FsError;
use firnfs_format::superblock::Superblock;
use firnfs_format::{BlockPtr, PtrKind, SECTOR_BYTES, SectorAddr, SegmentId};

/// See the module's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Block size in bytes.
    pub block_bytes: u32,
    /// Segment size in bytes.
    pub segment_bytes: u32,
    /// Sectors in a segment.
    pub segment_sectors: u32,
    /// Segments of the volume.
    pub segments: u64,
    /// Partial segments start and end on multiples of this many sectors.
    pub unit_sectors: u32,
    /// Where each segment lies.
    pub segment_map: SegmentMap,
    /// Block map arithmetic.
    pub map: bmap::Geometry,
}

impl Geometry {
    /// From a checked superblock and the volume's current size.
    #[must_use]
    pub fn new(sb: &Superblock, size_bytes: u64) -> Self {
        // The last block of the volume holds a replica of the superblock.
        let log_bytes = size_bytes.saturating_sub(sb.log_start_bytes + u64::from(sb.write_unit_bytes));
        let segments = log_bytes / u64::from(sb.segment_bytes);
        let start = Place { device: DeviceNo::FIRST, at_bytes: sb.log_start_bytes };
        let segment_map = SegmentMap::new(sb.segment_bytes).with_stretch(segments, start);
        Self::with(sb.block_bytes, sb.segment_bytes, sb.write_unit_bytes, segment_map)
    }

    /// From sizes in bytes (of a block, of a segment, and of the smallest write) and the places of the segments.
    #[must_use]
    pub fn with(
        block_bytes: u32,
        segment_bytes: u32,
        write_unit_bytes: u32,
        segment_map: SegmentMap,
    ) -> Self {
        Self {
            block_bytes,
            segment_bytes,
            segment_sectors: segment_bytes / SECTOR_BYTES,
            segments: segment_map.segments(),
            unit_sectors: write_unit_bytes / SECTOR_BYTES,
            segment_map,
            map: bmap::Geometry::new(block_bytes, firnfs_format::pointer::POINTER_BYTES as u32),
        }
    }

    /// Address of a sector of a segment.
    #[must_use]
    pub fn addr(&self, segment: SegmentId, sector: u32) -> SectorAddr {
        SectorAddr(segment.0 * u64::from(self.segment_sectors) + u64::from(sector))
    }

    /// Segment of an address.
    #[must_use]
    pub fn segment_of(&self, addr: SectorAddr) -> SegmentId {
        SegmentId(addr.0 / u64::from(self.segment_sectors))
    }

    /// Sector of an address within its segment.
    #[must_use]
    pub fn sector_of(&self, addr: SectorAddr) -> u32 {
        (addr.0 % u64::from(self.segment_sectors)) as u32
    }

    /// Place of an address on the device, in bytes.
    #[must_use]
    pub fn device_bytes(&self, addr: SectorAddr) -> u64 {
        let start = self.segment_map.place(self.segment_of(addr));
        debug_assert_eq!(start.device, DeviceNo::FIRST, "requests to the driver name no device");
        start.at_bytes.saturating_add(u64::from(self.sector_of(addr)) * u64::from(SECTOR_BYTES))
    }

    /// "segment 12 sector 40", for messages.
    #[must_use]
    pub fn place(&self, addr: SectorAddr) -> String {
        format!("segment {} sector {}", self.segment_of(addr), self.sector_of(addr))
    }

    /// True if the place in a pointer lies within one segment of the volume and is not empty.
    #[must_use]
    pub fn is_inside(&self, ptr: &BlockPtr) -> bool {
        let end = self.sector_of(ptr.addr) + u32::from(ptr.len_sectors);
        self.segment_of(ptr.addr).0 < self.segments && end <= self.segment_sectors && ptr.len_sectors > 0
    }

    /// Checks that a stored pointer read from the device lies within one segment of the volume and is not longer than
    /// `max_bytes`.
    ///
    /// # Errors
    /// `Corrupt`, naming `what`.
    pub fn check(
        &self,
        ptr: &BlockPtr,
        max_bytes: u32,
        what: impl FnOnce() -> String,
    ) -> Result<(), FsError> {
        if ptr.kind == PtrKind::Plain && self.is_inside(ptr) && ptr.stored_bytes() <= max_bytes {
            return Ok(());
        }
        Err(FsError::Corrupt {
            what: format!("pointer to {}", what()),
            at: self.place(ptr.addr),
            expected: format!(
                "a plain block of at most {max_bytes} bytes inside one of {} segments",
                self.segments
            ),
            found: format!("{:?}, {} sectors", ptr.kind, ptr.len_sectors),
        })
    }
}
