//! Evidence: whether a crash cut the log off or the log is damaged.
//!
//! Each summary says up to which serial everything was durable when it was laid out. So a summary after the end of the log
//! that names the missing serial, or a later one, proves damage: a flush had covered the missing part, and ending the log here
//! would silently lose data that fsync had promised. A crash leaves no such summary, because it is laid out only after the
//! flush has returned.
//!
//! The search is bounded: from the end of each log to the end of its segment, its next segment, and the segments that later
//! summaries name; at most [`SEARCH_BYTES`] of each, and [`PLACES_MORE`] additional places. It runs only if the last mount did
//! not end cleanly. Caller: [`crate::lfs::recover::recovery`].

use crate::device_reader::{DeviceReader, Extent};
use crate::error::FsError;
use crate::lfs::Lfs;
use crate::lfs::base::geometry::Geometry;
use crate::lfs::recover::recovery::Position;
use firnfs_format::checkpoint::{Checkpoint, Tail};
use firnfs_format::summary::Summary;
use firnfs_format::{Incarnation, SECTOR_BYTES, SegmentId, Serial};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Bytes searched from one place.
const SEARCH_BYTES: u32 = 8 << 20;
/// Places searched from, in addition to those where each log may continue.
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

/// A place to search: a segment, a sector in it, and the log that led there.
type Place = (SegmentId, u32, usize);

/// The incarnation that partial segments of that serial have.
pub(in crate::lfs) fn incarnation_of(base: &Checkpoint, serial: Serial) -> Option<Incarnation> {
    base.spans.iter().rev().find(|span| span.from <= serial).map(|span| span.incarnation)
}

impl Lfs {
    /// Searches for a summary that says that the serial after `end` was durable.
    pub(in crate::lfs) fn find_lost_log(
        &self,
        read: &mut dyn DeviceReader,
        base: &Checkpoint,
        end: &Position,
    ) -> Option<LostLog> {
        if base.clean {
            return None;
        }
        let open = end.tails.iter().enumerate().filter_map(|(log, tail)| tail.map(|t| (log, t)));
        let mut places: Vec<Place> = open
            .flat_map(|(log, t)| [(t.segment, t.sector, log), (t.next_segment, 0, log)])
            .filter(|(_, sector, _)| *sector < self.geo.segment_sectors)
            .collect();
        let mut known: BTreeSet<SegmentId> = places.iter().map(|place| place.0).collect();
        let mut left = places.len() + PLACES_MORE;
        while !places.is_empty() {
            let (found, next) = self.search(read, base, end, &places);
            if let Some((log, durable_through)) = found {
                let Tail { segment, sector, next_segment } = end.tails.get(log).copied().flatten()?;
                let is_at_end = sector >= self.geo.segment_sectors;
                return Some(LostLog {
                    segment: if is_at_end { next_segment } else { segment },
                    sector: if is_at_end { 0 } else { sector },
                    serial: end.serial.next(),
                    durable_through,
                });
            }
            left -= places.len();
            let new = |place: &Place| place.0.0 < self.geo.segments && known.insert(place.0);
            places = next.into_iter().filter(new).take(left).collect();
        }
        None
    }

    /// Searches several places, in order, for a summary after the end that says that the missing serial was durable.
    /// Returns the log of its place, the last durable serial, and the places to search next. Every write unit may start a
    /// summary.
    fn search(
        &self,
        read: &mut dyn DeviceReader,
        base: &Checkpoint,
        end: &Position,
        places: &[Place],
    ) -> (Option<(usize, Serial)>, Vec<Place>) {
        let mut next: Vec<Option<SegmentId>> = vec![None; places.len()];
        let mut is_readable = vec![true; places.len()];
        let chunks = places
            .iter()
            .enumerate()
            .flat_map(|(at, place)| self.chunks(place).map(move |(extent, sector)| (extent, (at, sector))));
        let found = read.read_in_order(chunks, |read, (at, first), bytes| {
            // An unreadable part proves nothing.
            is_readable[at] &= bytes.is_ok();
            let Some(bytes) = bytes.ok().filter(|_| is_readable[at]) else {
                return ControlFlow::Continue(());
            };
            let (segment, _, log) = places[at];
            for from in (0..bytes.len()).step_by(self.sb.write_unit_bytes as usize) {
                let sector = first + from as u32 / SECTOR_BYTES;
                let Some(summary) = self.summary_at(read, &bytes[from..], segment, sector) else { continue };
                if summary.serial <= end.serial
                    || incarnation_of(base, summary.serial) != Some(summary.incarnation)
                {
                    continue;
                }
                next[at] = Some(summary.next_segment);
                if summary.durable_through > end.serial {
                    return ControlFlow::Break((log, summary.durable_through));
                }
            }
            ControlFlow::Continue(())
        });
        let next = places.iter().zip(next).filter_map(|(place, next)| Some((next?, 0, place.2)));
        (found, next.collect())
    }

    /// The parts to be searched from a place on, with the first sector of each.
    fn chunks(&self, &(segment, from, _): &Place) -> impl Iterator<Item = (Extent, u32)> + use<> {
        let geo = self.geo.clone();
        let end = geo.segment_sectors.min(from + SEARCH_BYTES / SECTOR_BYTES);
        (from..end).step_by((CHUNK_BYTES / SECTOR_BYTES) as usize).map(move |sector| {
            let len_sectors = (end - sector).min(CHUNK_BYTES / SECTOR_BYTES);
            (Extent::new(geo.device_bytes(geo.addr(segment, sector)), len_sectors * SECTOR_BYTES), sector)
        })
    }

    /// The summary that starts with `head` at a place, if it belongs to this volume and this place, and is whole.
    fn summary_at(
        &self,
        read: &mut dyn DeviceReader,
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
        let place = self.geo.device_bytes(self.geo.addr(segment, sector));
        let bytes = read.read(Extent::new(place, len_bytes)).ok()?;
        Summary::decode(&bytes).ok().map(|(summary, _)| summary)
    }
}
