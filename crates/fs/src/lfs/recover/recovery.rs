//! Roll-forward: from the newest checkpoint through the summaries of what was written after it (Sprite LFS, section 4.2;
//! BSD-LFS, sections 2.2 and 4.3).
//!
//! The partial segments of all logs are merged by serial; each must carry the incarnation that the checkpoint expects, the
//! CRC of its predecessor's summary, and blocks with correct CRCs. The log ends at the first that does not. Only whole
//! batches count. The inode records of a batch are sufficient: old and new block trees are compared to update the usage
//! table ([`compare`](super::compare)), and no operation has to be replayed.
//!
//! Partial segments that were held back (`write::held`) end the log: their checkpoint was not written.
//!
//! The blocks of a checkpoint count only if something follows them: at the end of the log, where the slot was not written, they
//! have no use, and the next mount overwrites them. So mounts that are killed, again and again, during the checkpoint with
//! which they begin leave the log as they found it.

use crate::device_reader::{DeviceReader, Extent};
use crate::error::FsError;
use crate::inode::Kind;
use crate::lfs::base::places::is_internal;
use crate::lfs::base::scan::{Partial, partial_at};
use crate::lfs::map::admit::{self, INODE_NUMBERS};
use crate::lfs::recover::evidence::{LostLog, incarnation_of};
use crate::lfs::recover::log_tail::{LogTail, Way};
use crate::lfs::recover::tally::Tally;
use crate::lfs::write::jobs::Jobs;
use crate::lfs::write::log::Log;
use crate::lfs::{Lfs, LogEnd};
use crate::mutation::{Mutation, is_on};
use crate::states::branch_of;
use firnfs_format::checkpoint::{Checkpoint, Tail};
use firnfs_format::inode::{FORKS, Record, Roots};
use firnfs_format::summary::{EntryKind, FLAG_CHECKPOINT, FLAG_END, FLAG_HELD, FLAG_PAST, Summary};
use firnfs_format::table::ImapEntry;
use firnfs_format::{BlockPtr, InodeNo, SECTOR_BYTES, SectorAddr, SegmentId, Serial, TimeNs};
use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What roll-forward found when the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RollForward {
    /// The last unmount was clean: there was nothing to do.
    pub was_clean: bool,
    /// Partial segments accepted.
    pub partials: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Inodes that differ from the checkpoint.
    pub inodes: u64,
    /// Partial segments of an incomplete batch or checkpoint, which did not count.
    pub incomplete: u64,
    /// Where the log ends, including those.
    pub read_to: LogEnd,
    /// A part of the log that was durable and is damaged: its content, and everything after it, is missing.
    pub lost: Option<LostLog>,
}

/// An inode as the log's tail leaves it.
pub(super) struct Latest {
    pub entry: ImapEntry,
    pub is_directory: bool,
    /// Root pointers, if it has any.
    pub roots: Option<Box<[Roots; FORKS]>>,
    pub charged_bytes: u64,
    pub mtime: TimeNs,
}

impl Latest {
    /// An inode that was freed.
    fn gone(entry: ImapEntry) -> Self {
        Self { entry, is_directory: false, roots: None, charged_bytes: 0, mtime: TimeNs(0) }
    }
}

pub(super) fn is_directory(record: &Record<'_>) -> bool {
    record.raw.kind == Kind::Directory as u8
}

/// Partial segments accepted: first address, and the address after the last sector.
pub(super) type Accepted = BTreeMap<SectorAddr, SectorAddr>;

/// The summaries at the places where a log may continue: each place is read once, no matter how many serials are looked for
/// there.
type Heads = BTreeMap<SectorAddr, Option<Summary>>;

/// How many segments after the one that a log has entered are read ahead.
const SEGMENTS_AHEAD: u32 = 2;

/// How far the log has been read, at the end of a whole batch.
#[derive(Clone)]
pub(in crate::lfs) struct Position {
    pub tails: Vec<Option<Tail>>,
    pub serial: Serial,
    pub crc: u32,
}

/// Changes of the batch being read, or of several that count together.
#[derive(Default)]
struct Batch {
    inodes: Vec<(InodeNo, Latest)>,
    entered: Vec<(SegmentId, u8)>,
    written: Vec<(Range<SectorAddr>, TimeNs)>,
    partials: u64,
    bytes: u64,
    tally: Tally,
}

impl Lfs {
    /// See the module's head.
    pub(in crate::lfs) fn roll_forward(
        &mut self,
        read: &mut dyn DeviceReader,
        base: &Checkpoint,
    ) -> Result<(), FsError> {
        base.tails.iter().flatten().for_each(|tail| self.tables.usage.look_again(tail.segment));
        let mut latest = BTreeMap::new();
        let mut entered = BTreeSet::new();
        let mut accepted = Position { tails: base.tails.clone(), serial: base.serial, crc: base.serial_crc };
        let mut at = accepted.clone();
        let mut batch = Batch::default();
        let mut found = RollForward::default();
        let (mut tail, mut heads) = (Accepted::new(), Heads::new());
        let mut log = LogTail::new(read);
        let mut is_held = false;
        self.expect_logs(&mut log, base);
        while let Some(partial) = self.next_partial(&mut log, base, &mut at, &mut heads)? {
            if partial.summary.flags & FLAG_HELD != 0 {
                // What was held back had no checkpoint: the log that counts ends here, and nothing of it is lost.
                is_held = true;
                batch.partials += 1;
                break;
            }
            self.note(&partial, log.at_hand(self.extent_of(&partial.summary)), &mut batch)?;
            let is_whole = partial.summary.flags & FLAG_END != 0 || is_on(Mutation::AnyBatch);
            if !is_whole || partial.summary.flags & FLAG_CHECKPOINT != 0 {
                continue;
            }
            let done = std::mem::take(&mut batch);
            found.partials += done.partials;
            found.bytes += done.bytes;
            for (segment, log) in done.entered {
                if entered.insert(segment) {
                    self.tables.usage.activate(segment, log);
                }
            }
            for (addrs, time) in done.written {
                self.tables.usage.note_write(self.geo.segment_of(addrs.start), time);
                tail.insert(addrs.start, addrs.end);
            }
            let directories: BTreeSet<InodeNo> =
                done.inodes.iter().filter(|(_, new)| new.is_directory).map(|(ino, _)| *ino).collect();
            done.tally.add_to(&mut self.accounts.counters, |ino| directories.contains(&ino));
            latest.extend(done.inodes);
            accepted = at.clone();
        }
        log.end();
        found.incomplete = batch.partials;
        found.read_to = LogEnd { serial: at.serial, crc: at.crc };
        found.lost = if is_held { None } else { self.find_lost_log(read, base, &at) };
        found.inodes = latest.len() as u64;
        found.was_clean = base.clean && found.partials == 0;
        let end = LogEnd { serial: accepted.serial, crc: accepted.crc };
        self.writer.log = Log::new(accepted.tails, end, base.incarnation);
        self.writer.jobs = Jobs::new(end.serial);
        self.apply_all(read, &tail, latest)?;
        if found.partials > 0 {
            self.due.note_change();
        }
        self.recovered = found;
        self.accounts.begin_mount();
        if let Some(lost) = found.lost {
            self.give_up(&lost.as_error(&self.geo));
        }
        Ok(())
    }

    /// The partial segment with the next serial, from whichever log has it.
    fn next_partial(
        &self,
        bytes: &mut LogTail<'_>,
        base: &Checkpoint,
        at: &mut Position,
        heads: &mut Heads,
    ) -> Result<Option<Partial>, FsError> {
        // Before the next mount wrote to the log, its incarnation replaced this checkpoint in both slots.
        if base.clean {
            return Ok(None);
        }
        let expected = at.serial.next();
        for log in 0..at.tails.len() {
            let Some(tail) = at.tails[log] else { continue };
            for (segment, sector) in self.places(&tail) {
                let wanted = Wanted { expected, prev_crc: at.crc, log: log as u8, base };
                let way = self.way(segment, sector);
                let Some(partial) = self.try_partial(bytes, (segment, sector), &way, &wanted, heads)? else {
                    continue;
                };
                at.serial = expected;
                at.crc = partial.summary.crc;
                at.tails[log] = Some(Tail {
                    segment,
                    sector: sector + partial.summary.len_sectors,
                    next_segment: partial.summary.next_segment,
                });
                if sector == 0 {
                    self.run_ahead(bytes, heads, &partial.summary);
                }
                return Ok(Some(partial));
            }
        }
        Ok(None)
    }

    /// The places in the volume where a log may continue.
    fn places(&self, tail: &Tail) -> impl Iterator<Item = (SegmentId, u32)> + use<> {
        let geo = self.geo.clone();
        [(tail.segment, tail.sector), (tail.next_segment, 0)]
            .into_iter()
            .filter(move |(segment, sector)| *sector < geo.segment_sectors && segment.0 < geo.segments)
    }

    fn way(&self, segment: SegmentId, sector: u32) -> Way {
        let at = |sector| self.geo.device_bytes(self.geo.addr(segment, sector));
        Way { at_bytes: at(sector), end_bytes: at(0).saturating_add(u64::from(self.geo.segment_bytes)) }
    }

    /// Called when a log has entered a segment: begins to read the next ones, as far as the log has named them. These bytes
    /// may turn out useless; only [`Self::next_partial`] judges that.
    fn run_ahead(&self, bytes: &mut LogTail<'_>, heads: &mut Heads, entered: &Summary) {
        let mut next = entered.next_segment;
        for _ in 0..SEGMENTS_AHEAD {
            let way = self.way(next, 0);
            bytes.expect(&way, self.sb.write_unit_bytes);
            if !bytes.is_long() {
                return;
            }
            let Ok(Some(head)) = self.head(bytes, heads, self.geo.addr(next, 0), &way) else { return };
            let goes_on = head.uuid == self.sb.uuid
                && head.segment == next
                && head.log == entered.log
                && head.serial > entered.serial
                && head.next_segment.0 < self.geo.segments;
            if !goes_on {
                return;
            }
            next = head.next_segment;
            bytes.expect_more(&way);
        }
        bytes.expect(&self.way(next, 0), self.sb.write_unit_bytes);
    }

    /// The head of a partial segment at a place, if there is one.
    fn head<'h>(
        &self,
        bytes: &mut LogTail<'_>,
        heads: &'h mut Heads,
        addr: SectorAddr,
        way: &Way,
    ) -> Result<Option<&'h Summary>, FsError> {
        Ok(match heads.entry(addr) {
            Slot::Occupied(known) => known.into_mut().as_ref(),
            Slot::Vacant(new) => {
                let head = bytes.bytes(way, self.sb.write_unit_bytes)?;
                new.insert(Summary::decode_header(head).ok()).as_ref()
            }
        })
    }

    fn extent_of(&self, summary: &Summary) -> Extent {
        let addr = self.geo.addr(summary.segment, summary.start_sector);
        Extent::new(self.geo.device_bytes(addr), summary.len_sectors * SECTOR_BYTES)
    }

    /// Begins to read all logs from where the checkpoint left them.
    fn expect_logs(&self, bytes: &mut LogTail<'_>, base: &Checkpoint) {
        for tail in base.tails.iter().flatten().filter(|_| !base.clean) {
            for (segment, sector) in self.places(tail) {
                let way = self.way(segment, sector);
                if sector == 0 {
                    bytes.expect(&way, self.sb.write_unit_bytes)
                } else {
                    bytes.expect_more(&way)
                }
            }
        }
    }

    fn try_partial(
        &self,
        bytes: &mut LogTail<'_>,
        (segment, sector): (SegmentId, u32),
        way: &Way,
        wanted: &Wanted<'_>,
        heads: &mut Heads,
    ) -> Result<Option<Partial>, FsError> {
        let addr = self.geo.addr(segment, sector);
        let Some(header) = self.head(bytes, heads, addr, way)? else { return Ok(None) };
        let fits = header.len_sectors <= self.geo.segment_sectors - sector;
        if !fits || header.segment != segment || !wanted.matches(header) {
            return Ok(None);
        }
        let bytes = bytes.bytes(way, header.len_sectors * SECTOR_BYTES)?;
        let Some(partial) = partial_at(bytes, &self.sb.uuid, &self.geo, sector) else { return Ok(None) };
        self.check_way_on(&partial.summary)?;
        // A flush covered everything up to `durable_through`; later serials may be torn.
        let whole = partial.entries.iter().all(|e| {
            self.stored_in(bytes, segment, sector, &e.ptr)
                .is_some_and(|stored| e.ptr.is_hole() || firnfs_format::crc32c(stored) == e.ptr.crc)
        });
        Ok((whole || is_on(Mutation::UncheckedBlocks)).then_some(partial))
    }

    /// Checks that a summary with a correct checksum names an existing segment as the next one.
    fn check_way_on(&self, summary: &Summary) -> Result<(), FsError> {
        if summary.next_segment.0 < self.geo.segments {
            return Ok(());
        }
        Err(FsError::Corrupt {
            what: "next segment in a summary".to_owned(),
            at: self.geo.place(self.geo.addr(summary.segment, summary.start_sector)),
            expected: format!("one of {} segments", self.geo.segments),
            found: summary.next_segment.to_string(),
        })
    }

    /// Stored bytes of a pointer within the bytes of its partial segment.
    fn stored_in<'a>(
        &self,
        bytes: &'a [u8],
        segment: SegmentId,
        sector: u32,
        ptr: &BlockPtr,
    ) -> Option<&'a [u8]> {
        if ptr.is_hole() {
            return Some(&[]);
        }
        let from = ptr.addr.0.checked_sub(self.geo.addr(segment, sector).0)? as usize * SECTOR_BYTES as usize;
        bytes.get(from..from + ptr.stored_bytes() as usize)
    }

    fn note(&self, partial: &Partial, bytes: &[u8], batch: &mut Batch) -> Result<(), FsError> {
        let summary = &partial.summary;
        batch.partials += 1;
        batch.tally.note(partial);
        batch.bytes += u64::from(summary.len_sectors * SECTOR_BYTES);
        if summary.start_sector == 0 {
            batch.entered.push((summary.segment, summary.log));
        }
        let start = self.geo.addr(summary.segment, summary.start_sector);
        let end = SectorAddr(start.0 + u64::from(summary.len_sectors));
        batch.written.push((start..end, summary.time));
        let past = if is_on(Mutation::PastRolledForward) { 0 } else { FLAG_PAST };
        if summary.flags & (FLAG_CHECKPOINT | past) != 0 {
            return Ok(());
        }
        for entry in &partial.entries {
            self.check_number(entry.ino, summary)?;
            if is_internal(entry.ino) && !is_on(Mutation::RemnantsRolledForward) {
                // It states what the checkpoint that was under way would have had: also moves that count from there on only.
                continue;
            }
            let orphan = match entry.kind {
                EntryKind::Block { .. } => continue,
                EntryKind::Freed => {
                    let gone = ImapEntry { version: entry.version, ..ImapEntry::default() };
                    batch.inodes.push((entry.ino, Latest::gone(gone)));
                    continue;
                }
                EntryKind::Inode { orphan } => orphan,
            };
            let stored =
                self.stored_in(bytes, summary.segment, summary.start_sector, &entry.ptr).unwrap_or(&[]);
            let record = admit::record(&self.geo, entry.ino, &entry.ptr, stored)?;
            let atime = TimeNs(record.raw.atime_ns.get());
            let mtime = TimeNs(record.raw.mtime_ns.get());
            let charged_bytes = record.raw.charged_bytes.get();
            let is_directory = is_directory(&record);
            let has_roots = record.roots.iter().any(|r| r.used() != (0, 0));
            let roots = has_roots.then(|| Box::new(record.roots));
            let entry_now = ImapEntry { ptr: entry.ptr, version: entry.version, orphan, atime };
            let latest = Latest { entry: entry_now, is_directory, roots, charged_bytes, mtime };
            batch.inodes.push((entry.ino, latest));
        }
        Ok(())
    }

    /// Checks that the inode map can have an inode number found in a summary.
    fn check_number(&self, ino: InodeNo, summary: &Summary) -> Result<(), FsError> {
        let is_known = branch_of(ino) == 0 || self.tables.branches.origin_of(ino).is_some();
        if (InodeNo::ROOT.0..INODE_NUMBERS).contains(&ino.0) && is_known {
            return Ok(());
        }
        Err(FsError::Corrupt {
            what: "inode number in a summary".to_owned(),
            at: self.geo.place(self.geo.addr(summary.segment, summary.start_sector)),
            expected: format!("1 to {}, of the volume or a clone", INODE_NUMBERS - 1),
            found: ino.to_string(),
        })
    }
}

struct Wanted<'a> {
    expected: Serial,
    prev_crc: u32,
    log: u8,
    base: &'a Checkpoint,
}

impl Wanted<'_> {
    fn matches(&self, header: &Summary) -> bool {
        let follows =
            header.prev_crc == self.prev_crc || is_on(Mutation::AnyPredecessor) || is_on(Mutation::AnyOrigin);
        let is_of_its_time = incarnation_of(self.base, self.expected) == Some(header.incarnation)
            || is_on(Mutation::AnyIncarnation)
            || is_on(Mutation::AnyOrigin);
        header.serial == self.expected && header.log == self.log && follows && is_of_its_time
    }
}
