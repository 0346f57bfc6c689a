//! Reading the log: the consumer of the partial segments that `commit` and `checkpoint` produce. Used by recovery, the
//! cleaner and `dump`.

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
/// checksum is right. `bytes` start at that sector; its summary is enough.
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

/// The partial segments of one life of a segment, one after the other from its start: serials grow, the incarnation never falls.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    segment: SegmentId,
    sector: u32,
    last: (Incarnation, Serial),
}

impl Chain {
    /// At the start of a segment.
    #[must_use]
    pub fn new(segment: SegmentId) -> Self {
        Self { segment, sector: 0, last: (Incarnation(0), Serial(0)) }
    }

    /// Where the next one begins, if there is one: the end of the last one.
    #[must_use]
    pub fn sector(&self) -> u32 {
        self.sector
    }

    /// The next one, whose summary is at the start of `bytes`; `None` after the last.
    pub fn next(&mut self, bytes: &[u8], uuid: &[u8; 16], geo: &Geometry) -> Option<Partial> {
        let partial = partial_at(bytes, uuid, geo, self.sector)?;
        let (incarnation, serial) = (partial.summary.incarnation, partial.summary.serial);
        if partial.summary.segment != self.segment || serial <= self.last.1 || incarnation < self.last.0 {
            return None;
        }
        self.last = (incarnation, serial);
        self.sector += partial.summary.len_sectors;
        Some(partial)
    }
}

/// All partial segments of one life of segment `id`, whose bytes are given.
#[must_use]
pub fn partials(segment: &[u8], uuid: &[u8; 16], geo: &Geometry, id: SegmentId) -> Vec<Partial> {
    let mut found = Vec::new();
    let mut chain = Chain::new(id);
    while chain.sector() < geo.segment_sectors
        && let Some(bytes) = segment.get((chain.sector() * SECTOR_BYTES) as usize..)
        && let Some(partial) = chain.next(bytes, uuid, geo)
    {
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
