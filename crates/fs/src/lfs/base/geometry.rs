//! Where things are: segments, sectors and bytes on the device. Pure arithmetic from the superblock.

use crate::bmap;
use crate::error::FsError;
use firnfs_format::superblock::Superblock;
use firnfs_format::{BlockPtr, PtrKind, SECTOR_BYTES, SectorAddr, SegmentId};

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// Start of segment 0 on the device, in bytes.
    pub log_start_bytes: u64,
    /// Block map arithmetic.
    pub map: bmap::Geometry,
}

impl Geometry {
    /// From a checked superblock and the volume's current size.
    #[must_use]
    pub fn new(sb: &Superblock, size_bytes: u64) -> Self {
        // The last block of the volume holds a replica of the superblock.
        let log_bytes = size_bytes.saturating_sub(sb.log_start_bytes + u64::from(sb.write_unit_bytes));
        Self {
            block_bytes: sb.block_bytes,
            segment_bytes: sb.segment_bytes,
            segment_sectors: sb.segment_bytes / SECTOR_BYTES,
            segments: log_bytes / u64::from(sb.segment_bytes),
            unit_sectors: sb.write_unit_bytes / SECTOR_BYTES,
            log_start_bytes: sb.log_start_bytes,
            map: bmap::Geometry::new(sb.block_bytes, firnfs_format::pointer::POINTER_BYTES as u32),
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
        self.log_start_bytes + addr.0 * u64::from(SECTOR_BYTES)
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
