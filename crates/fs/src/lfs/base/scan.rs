//! Reading the log: the consumer of what `commit` and `checkpoint` produce. Used by recovery, the cleaner and `dump`.

use crate::lfs::base::geometry::Geometry;
use firnfs_format::summary::{Entry, EntryKind, Summary};
use firnfs_format::{Incarnation, SECTOR_BYTES, SegmentId, Serial};

/// A partial segment found in the bytes of its segment.
#[derive(Clone, Debug)]
pub struct Partial {
    /// Its header.
    pub summary: Summary,
    /// What it holds.
    pub entries: Vec<Entry>,
}

/// The partial segment that starts at a sector of a segment, if there is a whole one of this volume whose summary's
/// checksum is right. `bytes` start at that sector.
#[must_use]
pub fn partial_at(bytes: &[u8], uuid: &[u8; 16], geo: &Geometry, sector: u32) -> Option<Partial> {
    let header = Summary::decode_header(bytes).ok()?;
    let fits = header.len_sectors <= geo.segment_sectors.saturating_sub(sector)
        && header.len_sectors % geo.unit_sectors == 0;
    if header.uuid != *uuid || header.start_sector != sector || !fits {
        return None;
    }
    let (summary, entries) = Summary::decode(bytes).ok()?;
    let inside = |e: &Entry| {
        let first = geo.addr(summary.segment, sector).0;
        let stored = e.ptr.addr.0 >= first
            && e.ptr.addr.0 + u64::from(e.ptr.len_sectors) <= first + u64::from(summary.len_sectors);
        matches!(e.kind, EntryKind::Freed) || stored
    };
    (summary.segment.0 < geo.segments && entries.iter().all(inside)).then_some(Partial { summary, entries })
}

/// All partial segments of one life of segment `id`, from its start: serials grow, the incarnation never falls.
#[must_use]
pub fn partials(segment: &[u8], uuid: &[u8; 16], geo: &Geometry, id: SegmentId) -> Vec<Partial> {
    let mut found = Vec::new();
    let (mut sector, mut last) = (0, (Incarnation(0), Serial(0)));
    while sector < geo.segment_sectors {
        let Some(bytes) = segment.get((sector * SECTOR_BYTES) as usize..) else { break };
        let Some(partial) = partial_at(bytes, uuid, geo, sector) else { break };
        let (incarnation, serial) = (partial.summary.incarnation, partial.summary.serial);
        if partial.summary.segment != id || serial <= last.1 || incarnation < last.0 {
            break;
        }
        last = (incarnation, serial);
        sector += partial.summary.len_sectors;
        found.push(partial);
    }
    found
}

/// The stored bytes of an entry, given the bytes of its segment.
#[must_use]
pub fn stored_bytes<'a>(segment: &'a [u8], geo: &Geometry, entry: &Entry) -> Option<&'a [u8]> {
    let from = (geo.sector_of(entry.ptr.addr) * SECTOR_BYTES) as usize;
    segment.get(from..from + entry.ptr.stored_bytes() as usize)
}
