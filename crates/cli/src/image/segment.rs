//! Lists the partial segments of a segment, by their summaries.

use super::Image;
use crate::failure::{Done, Failure};
use firnfs_format::summary::{Entry, Summary};
use firnfs_format::{SECTOR_BYTES, SegmentId};

/// A partial segment as found.
#[derive(Debug)]
pub struct Partial {
    /// The summary's header.
    pub summary: Summary,
    /// Its entries, in stored order.
    pub entries: Vec<Entry>,
    /// Stored blocks that do not match the checksum in their pointer, as positions in `entries`.
    pub bad_blocks: Vec<usize>,
}

/// The content of a segment.
#[derive(Debug)]
pub struct Segment {
    /// Its partial segments, in the order of their places.
    pub partials: Vec<Partial>,
    /// First sector after the last of them.
    pub end_sector: u32,
}

impl Image {
    /// Reads a segment and lists the chain of partial segments that begins at its start. It does not list
    /// partial segments of the segment's earlier uses, after the end of the chain: serials only grow within one
    /// use.
    ///
    /// # Errors
    /// There is no such segment, or reading it fails.
    pub fn segment(&self, id: SegmentId) -> Done<Segment> {
        let segments = self.checkpoint()?.segments;
        if id.0 >= segments {
            return Err(Failure::usage(format!(
                "there is no segment {id}: {} has segments 0 to {}",
                self.path().display(),
                segments.saturating_sub(1)
            )));
        }
        let segment_bytes = self.superblock.segment_bytes;
        let at_bytes = self.geometry().segment_map.place(id).at_bytes;
        let bytes = self.read_at(at_bytes, segment_bytes as usize)?;
        let unit_sectors = (self.superblock.write_unit_bytes / SECTOR_BYTES).max(1);
        let mut found = Segment { partials: Vec::new(), end_sector: 0 };
        while let Some(partial) = self.partial_at(&bytes, id, found.end_sector) {
            let grows = found.partials.last().is_none_or(|last| last.summary.serial < partial.summary.serial);
            if !grows {
                break;
            }
            let end = found.end_sector.saturating_add(partial.summary.len_sectors.max(1));
            found.end_sector = end.next_multiple_of(unit_sectors);
            found.partials.push(partial);
        }
        Ok(found)
    }

    fn partial_at(&self, segment: &[u8], id: SegmentId, sector: u32) -> Option<Partial> {
        let at = sector as usize * SECTOR_BYTES as usize;
        let (summary, entries) = Summary::decode(segment.get(at..)?).ok()?;
        let is_ours =
            summary.uuid == self.superblock.uuid && summary.segment == id && summary.start_sector == sector;
        if !is_ours {
            return None;
        }
        let sectors = u64::from(self.superblock.segment_bytes / SECTOR_BYTES);
        let is_good = |entry: &Entry| {
            let start = entry.ptr.addr.0.checked_sub(id.0 * sectors)? as usize * SECTOR_BYTES as usize;
            let stored = segment.get(start..start.checked_add(entry.ptr.stored_bytes() as usize)?)?;
            Some(firnfs_format::crc32c(stored) == entry.ptr.crc)
        };
        let bad_blocks = entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.ptr.is_stored() && is_good(entry) != Some(true))
            .map(|(position, _)| position)
            .collect();
        Some(Partial { summary, entries, bad_blocks })
    }
}
