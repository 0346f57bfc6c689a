//! The open logs: where the next partial segment goes.
//!
//! Serials are global; every partial segment names the segment that its log goes on in, so that recovery can follow.
//! Segments come from a pool of clean ones that was filled beforehand: laying out a batch cannot stop.

use crate::clean::MAX_OPEN_LOGS;
use crate::lfs::base::geometry::Geometry;
use crate::lfs::tables::usage::Usage;
use firnfs_format::checkpoint::{MAX_LOGS, Tail};
use firnfs_format::summary::{ENTRIES_MAX, summary_sectors};
use firnfs_format::{Incarnation, SegmentId, Serial};
use std::collections::VecDeque;
use std::ops::Range;

/// Log of metadata, which dies soon: indirect blocks, records of files in blocks, directories, the tables.
pub const META_LOG: u8 = 2;
/// Logs for data that every volume has.
pub const DATA_LOGS_MIN: u8 = 2;
/// Most logs for data that a volume has: with that of metadata as many as a placement may use.
pub const DATA_LOGS_MAX: u8 = MAX_OPEN_LOGS as u8 - 1;

/// The log for a placement's number: all but [`META_LOG`], in order.
pub fn data_log(number: u8) -> u8 {
    if number < META_LOG { number } else { number + 1 }
}

/// A placement's number of a log; `None` for the log of metadata, and for impossible numbers from a device.
pub fn data_log_of(log: u8) -> Option<u8> {
    match log {
        META_LOG => None,
        log if log < META_LOG => Some(log),
        log => Some(log - 1).filter(|number| *number < DATA_LOGS_MAX),
    }
}

/// Where a log ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogEnd {
    /// Its last serial.
    pub serial: Serial,
    /// CRC of that serial's summary, which covers those of all before.
    pub crc: u32,
}

/// See the module's head.
pub struct Log {
    tails: Vec<Option<Tail>>,
    /// What was laid out last.
    end: LogEnd,
    /// Of this mount.
    incarnation: Incarnation,
    /// Clean segments at hand, in the order in which they will be used.
    pool: VecDeque<SegmentId>,
}

/// A partial segment that has its place but no content yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Segment that holds it.
    pub segment: SegmentId,
    /// First sector.
    pub start_sector: u32,
    /// Sectors of header and entries.
    pub summary_sectors: u32,
    /// Sectors in all, padding included.
    pub len_sectors: u32,
    /// Segment that the log goes on in.
    pub next_segment: SegmentId,
    /// Which items it holds.
    pub items: Range<usize>,
}

impl Log {
    /// From a checkpoint's tails (or none, for a new volume).
    pub fn new(mut tails: Vec<Option<Tail>>, end: LogEnd, incarnation: Incarnation) -> Self {
        tails.resize(MAX_LOGS, None);
        Self { tails, end, incarnation, pool: VecDeque::new() }
    }

    /// Where it ends.
    pub fn end(&self) -> LogEnd {
        self.end
    }

    /// A partial segment was laid out, and is the last now.
    pub fn note_laid_out(&mut self, end: LogEnd) {
        self.end = end;
    }

    /// The incarnation that writes it.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// What is laid out from now on has that incarnation.
    pub fn begin_incarnation(&mut self, incarnation: Incarnation) {
        self.incarnation = incarnation;
    }

    /// The tails as a checkpoint stores them.
    pub fn tails(&self) -> Vec<Option<Tail>> {
        let open = self.tails.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.tails[..open].to_vec()
    }

    /// Where short-lived metadata goes: to a log of its own, unless the volume was made without one.
    pub fn meta_log(&self) -> u8 {
        if self.tails[usize::from(META_LOG)].is_some() { META_LOG } else { 0 }
    }

    /// Open logs.
    pub fn open_logs(&self) -> u64 {
        self.tails.iter().flatten().count() as u64
    }

    /// Logs for data: as many as the volume was made with. A volume has two at least.
    pub fn data_logs(&self) -> u8 {
        let is_open = |number: &u8| self.tails[usize::from(data_log(*number))].is_some();
        (0..DATA_LOGS_MAX).take_while(is_open).count() as u8
    }

    /// True for segments in which a log is or will continue: they do not count as clean, even if their usage entry says so.
    pub fn is_open(&self, segment: SegmentId) -> bool {
        self.tails.iter().flatten().any(|t| t.segment == segment || t.next_segment == segment)
    }

    /// The part of a segment that a log has yet to write, in sectors; 0 for a segment in which no log is open. A log leaves
    /// less than a block and its summary at the end of a segment that it closes.
    pub fn unwritten_sectors(&self, segment: SegmentId, geo: &Geometry) -> u32 {
        let open = self.tails.iter().flatten().find(|tail| tail.segment == segment);
        open.map_or(0, |tail| geo.segment_sectors.saturating_sub(tail.sector))
    }

    /// True for segments that are taken: open or in the pool.
    pub fn is_taken(&self, segment: SegmentId) -> bool {
        self.is_open(segment) || self.pool.contains(&segment)
    }

    /// Clean segments at hand.
    pub fn pool_len(&self) -> usize {
        self.pool.len()
    }

    /// Puts clean segments in.
    pub fn fill_pool(&mut self, segments: impl IntoIterator<Item = SegmentId>) {
        self.pool.extend(segments);
    }

    /// Takes the segments from `first` on out.
    pub fn keep_in_pool(&mut self, first: SegmentId) {
        self.pool.retain(|segment| *segment < first);
    }

    /// A log that is in one of the segments from `first` on, or is about to enter one.
    pub fn open_from(&self, first: SegmentId) -> Option<u8> {
        let is_there = |tail: &Tail| tail.segment >= first || tail.next_segment >= first;
        self.tails.iter().position(|tail| tail.as_ref().is_some_and(is_there)).map(|log| log as u8)
    }

    /// Makes a log enter its next segment with what it writes next. Readers look for it there too.
    pub fn fill(&mut self, log: u8, geo: &Geometry) {
        if let Some(tail) = &mut self.tails[usize::from(log)] {
            tail.sector = geo.segment_sectors;
        }
    }

    /// Lets a log continue, after its next segment, in the clean segments that follow on the device.
    pub fn order_pool_for(&mut self, log: u8) {
        let next = self.tails[usize::from(log)].map_or(SegmentId(0), |tail| tail.next_segment);
        self.pool.make_contiguous().sort_unstable_by_key(|segment| (*segment < next, *segment));
    }

    /// Segments that the next `count` partial segments of a log could go to, for the checkpoint's closed set.
    pub fn upcoming(&self, log: u8, count: usize) -> Vec<SegmentId> {
        let open = self.tails[usize::from(log)].iter().flat_map(|t| [t.segment, t.next_segment]);
        open.chain(self.pool.iter().copied().take(count)).collect()
    }

    /// Segments that a plan for these items can use up at most, beyond the one being written.
    pub fn segments_needed(geo: &Geometry, items: usize, sectors: u64) -> usize {
        let summaries = u64::from(summary_sectors(items)) + u64::from(geo.unit_sectors);
        ((sectors + summaries) / Self::certain_sectors(geo)) as usize + 2
    }

    /// Sectors of a segment that are used in any case: a block does not cross a segment's end, and up to 128 sectors may stay
    /// unused.
    pub fn certain_sectors(geo: &Geometry) -> u64 {
        u64::from(geo.segment_sectors) - 128 - u64::from(geo.unit_sectors)
    }

    /// Segments that a plan for items of those lengths enters.
    pub fn segments_entered(&self, log: u8, geo: &Geometry, lens: &[u8]) -> usize {
        let mut sector = self.tails[usize::from(log)].map_or(geo.segment_sectors, |tail| tail.sector);
        let (mut at, mut entered) = (0, 0);
        while at < lens.len() {
            if !has_room(geo, sector, lens[at]) {
                sector = 0;
                entered += 1;
            }
            let part = Part::that_fits(geo, sector, &lens[at..]);
            sector += part.len_sectors(geo);
            at += part.items;
        }
        entered
    }

    /// Lays items of those lengths out in partial segments of one log. The caller has made sure that the pool holds
    /// [`Self::segments_entered`]. Marks the segments it enters as in use.
    pub fn plan(&mut self, log: u8, geo: &Geometry, usage: &mut Usage, lens: &[u8]) -> Vec<Planned> {
        let mut planned = Vec::new();
        let mut at = 0;
        while at < lens.len() {
            let tail = self.tail_with_room(log, geo, usage, lens[at]);
            let part = Part::that_fits(geo, tail.sector, &lens[at..]);
            let len_sectors = part.len_sectors(geo);
            planned.push(Planned {
                segment: tail.segment,
                start_sector: tail.sector,
                summary_sectors: summary_sectors(part.items),
                len_sectors,
                next_segment: tail.next_segment,
                items: at..at + part.items,
            });
            let slot = self.tails[usize::from(log)].as_mut().expect("tail_with_room opened it");
            slot.sector += len_sectors;
            at += part.items;
        }
        planned
    }

    /// The tail of a log, moved on to its next segment if an item of that length does not fit any more.
    fn tail_with_room(&mut self, log: u8, geo: &Geometry, usage: &mut Usage, item_sectors: u8) -> Tail {
        let open = self.tails[usize::from(log)];
        if let Some(tail) = open
            && has_room(geo, tail.sector, item_sectors)
        {
            return tail;
        }
        let left = open.expect("a volume without its logs is not opened");
        let segment = left.next_segment;
        usage.look_again(left.segment);
        usage.activate(segment, log);
        let tail = Tail { segment, sector: 0, next_segment: self.pop() };
        self.tails[usize::from(log)] = Some(tail);
        tail
    }

    fn pop(&mut self) -> SegmentId {
        self.pool.pop_front().expect("the pool was filled before the layout")
    }
}

/// True if an item of that length fits after a sector of a segment.
fn has_room(geo: &Geometry, sector: u32, item_sectors: u8) -> bool {
    sector + summary_sectors(1) + u32::from(item_sectors) <= geo.segment_sectors
}

/// The items that one partial segment takes.
struct Part {
    items: usize,
    /// Of the items.
    sectors: u32,
}

impl Part {
    /// As many of the first items as fit after a sector of a segment; the first one does.
    fn that_fits(geo: &Geometry, sector: u32, lens: &[u8]) -> Self {
        let room = geo.segment_sectors - sector;
        let mut part = Self { items: 0, sectors: 0 };
        for &len in &lens[..lens.len().min(ENTRIES_MAX)] {
            let with = part.sectors + u32::from(len);
            if summary_sectors(part.items + 1) + with > room {
                break;
            }
            part = Self { items: part.items + 1, sectors: with };
        }
        part
    }

    /// Length of the partial segment, padding included.
    fn len_sectors(&self, geo: &Geometry) -> u32 {
        (summary_sectors(self.items) + self.sectors).next_multiple_of(geo.unit_sectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lfs::base::segment_map::{DeviceNo, Place, SegmentMap};
    use firnfs_format::Epoch;

    fn geometry(segment_bytes: u32) -> Geometry {
        Geometry::with(
            4096,
            segment_bytes,
            4096,
            SegmentMap::new(segment_bytes)
                .with_stretch(100, Place { device: DeviceNo::FIRST, at_bytes: 2 << 20 }),
        )
    }

    /// Deleting a million files makes entries and no blocks: in a large segment they would fill a summary beyond what its
    /// length field can say, and the whole batch would be lost to recovery.
    #[test]
    fn a_batch_of_deletions_alone_is_cut_where_a_summary_ends() {
        let geo = geometry(64 << 20);
        let mut usage = Usage::new(crate::lfs::tables::table::Table::EMPTY, &geo, Epoch(1), 0);
        let tail = Tail { segment: SegmentId(0), sector: 0, next_segment: SegmentId(1) };
        let mut log = Log::new(vec![Some(tail), Some(tail)], LogEnd::default(), Incarnation(1));
        log.fill_pool((2..9).map(SegmentId));
        let lens = vec![0; 1_000_000];
        let plans = log.plan(0, &geo, &mut usage, &lens);
        assert_eq!(plans.iter().map(|p| p.items.len()).sum::<usize>(), lens.len());
        for plan in plans {
            assert!(plan.summary_sectors <= u32::from(u16::MAX), "{} sectors", plan.summary_sectors);
        }
    }
    #[test]
    fn a_plan_enters_as_many_segments_as_computed_before() {
        let geo = geometry(256 << 10);
        let mut usage = Usage::new(crate::lfs::tables::table::Table::EMPTY, &geo, Epoch(1), 0);
        let tail = Tail { segment: SegmentId(0), sector: geo.segment_sectors, next_segment: SegmentId(0) };
        let mut log = Log::new(vec![Some(tail), Some(tail)], LogEnd::default(), Incarnation(1));
        let mut segments = (1..).map(SegmentId);
        let mut state = 1u64;
        for _ in 0..300 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let lens: Vec<u8> = (0..state >> 55).map(|n| (state >> (n % 50)) as u8 % 129).collect();
            let foretold = log.segments_entered(0, &geo, &lens);
            log.fill_pool(segments.by_ref().take(foretold));
            assert_eq!(log.pool_len(), foretold);
            log.plan(0, &geo, &mut usage, &lens);
            assert_eq!(log.pool_len(), 0);
        }
    }

    #[test]
    fn a_log_may_go_on_where_it_is() {
        let tail = Tail { segment: SegmentId(4), sector: 0, next_segment: SegmentId(5) };
        let mut log = Log::new(vec![Some(tail)], LogEnd::default(), Incarnation(1));
        log.fill_pool([0, 9, 1, 7].map(SegmentId));
        log.order_pool_for(0);
        assert_eq!(log.upcoming(0, 4)[2..], [7, 9, 0, 1].map(SegmentId));
    }

    #[test]
    fn logs_for_data_are_all_but_that_of_metadata() {
        let logs: Vec<u8> = (0..DATA_LOGS_MAX).map(data_log).collect();
        assert_eq!(logs, [0, 1, 3, 4, 5]);
        assert!((0..DATA_LOGS_MAX).all(|number| data_log_of(data_log(number)) == Some(number)));
        assert!([META_LOG, 6, 7, u8::MAX].iter().all(|log| data_log_of(*log).is_none()));
    }
}
