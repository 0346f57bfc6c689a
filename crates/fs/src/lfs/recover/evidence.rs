//! Evidence: whether a log that ends was cut off by a crash or is damaged.
//!
//! Each summary says up to which serial all was durable when it was written. So a summary behind the end of the log that names
//! the serial missing there, or a later one, tells of damage: what a flush had covered is gone, and ending the log here would
//! lose without a word what fsync promised. After a crash no such summary can be: none is laid out before the flush returned.
//!
//! The search is bounded: from where each log ended to the end of its segment, its next segment, and the segments that later
//! summaries name; at most [`SEARCH_BYTES`] of each and [`PLACES_MORE`] beyond those. It is made only where a mount was not ended
//! cleanly. Caller: [`crate::lfs::recover::recovery`].

use crate::error::FsError;
use crate::lfs::Lfs;
use crate::lfs::base::geometry::Geometry;
use crate::lfs::recover::open::DeviceReader;
use crate::lfs::recover::recovery::Position;
use firnfs_format::checkpoint::{Checkpoint, Tail};
use firnfs_format::summary::Summary;
use firnfs_format::{Incarnation, SECTOR_BYTES, SegmentId, Serial};
use std::collections::{BTreeSet, VecDeque};

/// Bytes searched from one place.
const SEARCH_BYTES: u32 = 8 << 20;
/// Places searched from, beside those where each log may go on.
const PLACES_MORE: usize = 10;
/// Bytes read at once.
const CHUNK_BYTES: u32 = 256 << 10;

/// A part of the log that was durable and cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostLog {
    /// Where the log stops.
    pub segment: SegmentId,
    /// First sector of it.
    pub sector: u32,
    /// The serial that should be there.
    pub serial: Serial,
    /// Serials that were durable at least, up to this one.
    pub durable_through: Serial,
}

impl LostLog {
    /// For the user who mounts the volume.
    #[must_use]
    pub fn as_error(&self, geo: &Geometry) -> FsError {
        FsError::Corrupt {
            what: "log".to_owned(),
            at: geo.place(geo.addr(self.segment, self.sector)),
            expected: format!(
                "partial segment {}: the log was durable up to {}",
                self.serial, self.durable_through
            ),
            found: "none that can be read; what was written from there on is missing".to_owned(),
        }
    }
}

/// Where to look: a segment, a sector in it, and the log that led there.
type Place = (SegmentId, u32, usize);

/// The incarnation that partial segments of that serial have.
pub(in crate::lfs) fn incarnation_of(base: &Checkpoint, serial: Serial) -> Option<Incarnation> {
    base.spans.iter().rev().find(|span| span.from <= serial).map(|span| span.incarnation)
}

impl Lfs {
    /// Looks for a summary that knows the serial after `end` to be durable.
    pub(in crate::lfs) fn find_lost_log(
        &self,
        read: &mut DeviceReader<'_>,
        base: &Checkpoint,
        end: &Position,
    ) -> Option<LostLog> {
        if base.clean {
            return None;
        }
        let missing = end.serial.next();
        let open = end.tails.iter().enumerate().filter_map(|(log, tail)| tail.map(|t| (log, t)));
        let mut places: VecDeque<Place> = open
            .flat_map(|(log, t)| [(t.segment, t.sector, log), (t.next_segment, 0, log)])
            .filter(|(_, sector, _)| *sector < self.geo.segment_sectors)
            .collect();
        let mut known: BTreeSet<SegmentId> = places.iter().map(|place| place.0).collect();
        for _ in 0..places.len() + PLACES_MORE {
            let (segment, sector, log) = places.pop_front()?;
            let mut next = None;
            let found = self.search(read, segment, sector, &mut |summary| {
                let is_later = summary.serial > end.serial
                    && incarnation_of(base, summary.serial) == Some(summary.incarnation);
                if is_later {
                    next = Some(summary.next_segment);
                }
                is_later && summary.durable_through >= missing
            });
            if let Some(summary) = found {
                let Tail { segment, sector, next_segment } = end.tails.get(log).copied().flatten()?;
                let is_at_end = sector >= self.geo.segment_sectors;
                return Some(LostLog {
                    segment: if is_at_end { next_segment } else { segment },
                    sector: if is_at_end { 0 } else { sector },
                    serial: missing,
                    durable_through: summary.durable_through,
                });
            }
            places.extend(next.filter(|s| s.0 < self.geo.segments && known.insert(*s)).map(|s| (s, 0, log)));
        }
        None
    }

    /// The first summary from a sector on that `is_it` accepts. Every write unit may start one.
    fn search(
        &self,
        read: &mut DeviceReader<'_>,
        segment: SegmentId,
        from: u32,
        is_it: &mut dyn FnMut(&Summary) -> bool,
    ) -> Option<Summary> {
        let end = self.geo.segment_sectors.min(from + SEARCH_BYTES / SECTOR_BYTES);
        let mut sector = from;
        while sector < end {
            let len = (end - sector).min(CHUNK_BYTES / SECTOR_BYTES);
            // What cannot be read proves nothing.
            let bytes =
                read(self.geo.device_bytes(self.geo.addr(segment, sector)), len * SECTOR_BYTES).ok()?;
            for (n, unit) in bytes.chunks(self.sb.write_unit_bytes as usize).enumerate() {
                let here = sector + n as u32 * self.geo.unit_sectors;
                let Some(summary) = self.summary_at(read, unit, segment, here) else { continue };
                if is_it(&summary) {
                    return Some(summary);
                }
            }
            sector += len;
        }
        None
    }

    /// The summary that starts with `head` at a place, if it is one of this volume, of this place, and whole.
    fn summary_at(
        &self,
        read: &mut DeviceReader<'_>,
        head: &[u8],
        segment: SegmentId,
        sector: u32,
    ) -> Option<Summary> {
        let header = Summary::decode_header(head).ok()?;
        let is_here =
            header.uuid == self.sb.uuid && header.segment == segment && header.start_sector == sector;
        if !is_here || header.len_sectors > self.geo.segment_sectors - sector {
            return None;
        }
        let len_bytes = header.summary_sectors() * SECTOR_BYTES;
        if len_bytes as usize <= head.len() {
            return Summary::decode(head).ok().map(|(summary, _)| summary);
        }
        let bytes = read(self.geo.device_bytes(self.geo.addr(segment, sector)), len_bytes).ok()?;
        Summary::decode(&bytes).ok().map(|(summary, _)| summary)
    }
}
