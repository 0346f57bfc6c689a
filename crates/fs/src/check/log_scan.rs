//! The log's own record of inodes: the scan reads every summary of every segment, and the newest entry of each inode
//! counts.
//!
//! So the inode map can be rebuilt from the segment summaries (BSD-LFS, section 4.2, rebuilds the ifile in this way). Old
//! inode map blocks, which are in the log too, also tell which inodes had been freed by then. Summaries alone cannot tell
//! that once the summary of the deletion has been overwritten.
//!
//! The order is by incarnation, then by serial: partial segments that a crashed mount left and the next mount did not
//! accept are older than all that the next mount wrote.

use super::state::Progress;
use crate::device_reader::{DeviceReader, Extent};
use crate::lfs::Geometry;
use crate::lfs::scan::{Partial, partial_at, stored_bytes};
use firnfs_format::inode::decode_record;
use firnfs_format::summary::{Entry, EntryKind, FLAG_END};
use firnfs_format::table::{ImapEntry, TABLE_ENTRY_BYTES, TableEntry};
use firnfs_format::{Epoch, Incarnation, InodeNo, SECTOR_BYTES, SegmentId, Serial, TimeNs};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// When something was written to the log.
pub type Moment = (Incarnation, Serial);

/// A log entry about an inode, and its moment.
#[derive(Clone, Copy, Debug)]
struct Word {
    when: Moment,
    entry: ImapEntry,
}

/// A leaf of the inode map, as a checkpoint wrote it.
struct Leaf {
    when: Moment,
    bytes: Vec<u8>,
}

/// See the module's head.
#[derive(Default)]
pub struct LogScan {
    /// The two newest entries of each inode: the last may belong to an incomplete batch.
    words: BTreeMap<u64, [Option<Word>; 2]>,
    leaves: BTreeMap<u64, Leaf>,
    /// End of the last complete batch.
    last_end: Option<Moment>,
    /// First serial seen of each incarnation.
    first_serial: BTreeMap<Incarnation, Serial>,
    /// The newest partial segment.
    pub last: Option<Moment>,
    /// The highest checkpoint number that a summary announces.
    pub epoch: Epoch,
    /// Partial segments read.
    pub partials: u64,
}

impl LogScan {
    /// Reads the whole log of a volume. `through`: the last serial that counts, if known.
    pub fn run(
        read: &mut dyn DeviceReader,
        uuid: &[u8; 16],
        geo: &Geometry,
        through: Option<Serial>,
        watch: &mut dyn FnMut(Progress),
    ) -> Self {
        let mut scan = Self::default();
        let whole = |segment| Extent::new(geo.device_bytes(geo.addr(segment, 0)), geo.segment_bytes);
        let pieces = (0..geo.segments)
            .map(SegmentId)
            .flat_map(|segment| whole(segment).pieces().map(move |piece| (piece, (segment, piece))));
        let segment_bytes = geo.segment_bytes as usize;
        let mut bytes = Vec::new();
        read.read_in_order(pieces, |read, (segment, piece), answer| {
            match answer {
                // A segment that is not longer than a piece.
                Ok(piece) if piece.len() == segment_bytes => {
                    scan.segment(&piece, uuid, geo, segment, through)
                }
                Ok(piece) => bytes.extend_from_slice(&piece),
                Err(_) => piecewise(read, piece, geo, &mut bytes),
            }
            if bytes.len() == segment_bytes {
                scan.segment(&bytes, uuid, geo, segment, through);
                bytes.clear();
            }
            if bytes.is_empty() {
                let done_bytes = (segment.0 + 1) * u64::from(geo.segment_bytes);
                let total_bytes = geo.segments * u64::from(geo.segment_bytes);
                watch(Progress { phase: 0, done_bytes, total_bytes, points: None });
            }
            ControlFlow::<()>::Continue(())
        });
        scan
    }

    fn segment(
        &mut self,
        bytes: &[u8],
        uuid: &[u8; 16],
        geo: &Geometry,
        segment: SegmentId,
        through: Option<Serial>,
    ) {
        let (mut sector, mut last) = (0, Serial(0));
        while sector < geo.segment_sectors {
            let at = (sector * SECTOR_BYTES) as usize;
            let found = partial_at(&bytes[at..], uuid, geo, sector);
            // Remains of the segment's earlier life have lower serials.
            match found.filter(|p| p.summary.segment == segment && p.summary.serial > last) {
                Some(partial) => {
                    last = partial.summary.serial;
                    sector += partial.summary.len_sectors;
                    if through.is_none_or(|through| last <= through) {
                        self.partial(&partial, bytes, geo);
                    }
                }
                None => sector += geo.unit_sectors,
            }
        }
    }

    fn partial(&mut self, partial: &Partial, bytes: &[u8], geo: &Geometry) {
        let summary = &partial.summary;
        let when = (summary.incarnation, summary.serial);
        self.partials += 1;
        self.last = self.last.max(Some(when));
        self.epoch = self.epoch.max(summary.epoch);
        let first = self.first_serial.entry(summary.incarnation).or_insert(summary.serial);
        *first = (*first).min(summary.serial);
        if summary.flags & FLAG_END != 0 {
            self.last_end = self.last_end.max(Some(when));
        }
        for entry in &partial.entries {
            match entry.kind {
                EntryKind::Freed => {
                    let entry_now = ImapEntry { version: entry.version, ..ImapEntry::default() };
                    self.hear(entry.ino, Word { when, entry: entry_now });
                }
                EntryKind::Inode { orphan } => self.record(entry, orphan, when, bytes, geo),
                EntryKind::Block { fork: 0, level: 0, index } if entry.ino == InodeNo::INODE_MAP => {
                    self.leaf(entry, index, when, bytes, geo);
                }
                EntryKind::Block { .. } => {}
            }
        }
    }

    fn record(&mut self, entry: &Entry, orphan: bool, when: Moment, bytes: &[u8], geo: &Geometry) {
        let stored = stored_bytes(bytes, geo, entry).filter(|b| firnfs_format::crc32c(b) == entry.ptr.crc);
        let Some(record) = stored.and_then(|stored| decode_record(stored).ok()) else { return };
        if record.raw.ino.get() == entry.ino.0 {
            let atime = TimeNs(record.raw.atime_ns.get());
            let entry_now = ImapEntry { ptr: entry.ptr, version: entry.version, orphan, atime };
            self.hear(entry.ino, Word { when, entry: entry_now });
        }
    }

    fn leaf(&mut self, entry: &Entry, index: u64, when: Moment, bytes: &[u8], geo: &Geometry) {
        let stored = stored_bytes(bytes, geo, entry).filter(|b| firnfs_format::crc32c(b) == entry.ptr.crc);
        let is_newer = self.leaves.get(&index).is_none_or(|leaf| leaf.when < when);
        if let Some(stored) = stored.filter(|_| is_newer) {
            self.leaves.insert(index, Leaf { when, bytes: stored.to_vec() });
        }
    }

    fn hear(&mut self, ino: InodeNo, word: Word) {
        let [newest, second] = self.words.entry(ino.0).or_default();
        if newest.is_none_or(|old| old.when < word.when) {
            *second = newest.replace(word);
        } else if second.is_none_or(|old| old.when < word.when) {
            *second = Some(word);
        }
    }

    /// Whether an entry of that moment counts: not if its batch is incomplete, nor if the next mount continued from an
    /// earlier point.
    fn counts(&self, when: Moment) -> bool {
        let mut later = self.first_serial.range(Incarnation(when.0.0.saturating_add(1))..);
        Some(when) <= self.last_end && later.all(|(_, first)| when.1 < *first)
    }

    /// The inode map according to the log: all entries in use that are wanted, by number.
    #[must_use]
    pub fn inode_map(&self, geo: &Geometry, is_wanted: impl Fn(InodeNo) -> bool) -> Vec<(u64, ImapEntry)> {
        let fan = u64::from(geo.block_bytes) / TABLE_ENTRY_BYTES as u64;
        let mut map: BTreeMap<u64, Word> = BTreeMap::new();
        for (index, leaf) in self.leaves.iter().filter(|(_, leaf)| self.counts(leaf.when)) {
            for (slot, bytes) in leaf.bytes.as_chunks::<TABLE_ENTRY_BYTES>().0.iter().enumerate() {
                let number = index.saturating_mul(fan).saturating_add(slot as u64);
                map.insert(number, Word { when: leaf.when, entry: ImapEntry::decode(bytes) });
            }
        }
        for (number, words) in &self.words {
            let Some(word) = words.iter().flatten().find(|word| self.counts(word.when)) else { continue };
            // A leaf of the map tells the inode's state at that time.
            if map.get(number).is_none_or(|known| known.when < word.when) {
                map.insert(*number, *word);
            }
        }
        let entries = map.into_iter().filter(|(number, _)| is_wanted(InodeNo(*number)));
        entries
            .map(|(number, word)| (number, word.entry))
            .filter(|(_, e)| *e != ImapEntry::default())
            .collect()
    }
}

/// Reads a part of a segment of which something is unreadable; that becomes zeros.
fn piecewise(read: &mut dyn DeviceReader, piece: Extent, geo: &Geometry, bytes: &mut Vec<u8>) {
    let unit_bytes = geo.unit_sectors * SECTOR_BYTES;
    for from in (0..piece.len_bytes).step_by(unit_bytes as usize) {
        match read.read(Extent::new(piece.at_bytes + u64::from(from), unit_bytes)) {
            Ok(unit) => bytes.extend_from_slice(&unit),
            Err(_) => bytes.resize(bytes.len() + unit_bytes as usize, 0),
        }
    }
}
