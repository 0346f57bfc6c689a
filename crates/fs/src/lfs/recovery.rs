//! Roll-forward: from the newest checkpoint through the summaries of what was written after it (Sprite LFS, section 4.2;
//! BSD-LFS, sections 2.2 and 4.3).
//!
//! The partial segments of all logs are merged by serial; each must carry the incarnation that the checkpoint expects, the
//! CRC of its predecessor's summary, and blocks with right CRCs. The first that does not ends the log. Only whole batches
//! count. A batch's inode records say everything: old and new block trees are compared to bring the usage up to date, and
//! no operation has to be replayed.

use super::Lfs;
use super::open::{DeviceReader, Strictness};
use super::scan::{Partial, partial_at};
use super::shelf::verify_stored;
use crate::error::FsError;
use crate::mutation::{Mutation, is_on};
use firnfs_format::checkpoint::{Checkpoint, Tail};
use firnfs_format::inode::{DIRECT_POINTERS, FORKS, INDIRECT_POINTERS, Record, Roots, decode_record};
use firnfs_format::summary::{EntryKind, FLAG_CHECKPOINT, FLAG_END, Summary};
use firnfs_format::table::{ImapEntry, TableEntry};
use firnfs_format::{BlockPtr, InodeNo, SECTOR_BYTES, SegmentId, Serial, TimeNs};
use std::collections::{BTreeMap, BTreeSet};

/// What roll-forward found when the volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RollForward {
    /// The last unmount was clean: there was nothing to do.
    pub was_clean: bool,
    /// Partial segments accepted.
    pub partials: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Inodes that came out different from the checkpoint.
    pub inodes: u64,
    /// Partial segments of a batch that never was completed, and so did not count.
    pub incomplete: u64,
}

/// An inode as the log's tail leaves it.
struct Latest {
    entry: ImapEntry,
    /// Root pointers, if it has any.
    roots: Option<Box<[Roots; FORKS]>>,
    mtime: TimeNs,
}

/// How far the log is read, at the end of a whole batch.
#[derive(Clone)]
struct Position {
    tails: Vec<Option<Tail>>,
    serial: Serial,
    crc: u32,
}

/// Changes of the batch being read.
#[derive(Default)]
struct Batch {
    inodes: Vec<(InodeNo, Latest)>,
    entered: Vec<(SegmentId, u8)>,
    written: Vec<(SegmentId, TimeNs)>,
    partials: u64,
    bytes: u64,
}

impl Lfs {
    /// See the module's head.
    pub(super) fn roll_forward(
        &mut self,
        read: &mut DeviceReader<'_>,
        base: &Checkpoint,
        strictness: &mut Strictness,
    ) -> Result<(), FsError> {
        base.tails.iter().flatten().for_each(|tail| self.usage.look_again(tail.segment));
        let mut latest = BTreeMap::new();
        let mut entered = BTreeSet::new();
        let mut accepted = Position { tails: base.tails.clone(), serial: base.serial, crc: base.serial_crc };
        let mut at = accepted.clone();
        let mut batch = Batch::default();
        let mut found = RollForward::default();
        while let Some((partial, bytes)) = self.next_partial(read, base, &mut at)? {
            self.note(&partial, &bytes, &mut batch)?;
            if partial.summary.flags & FLAG_END == 0 && !is_on(Mutation::AnyBatch) {
                continue;
            }
            let done = std::mem::take(&mut batch);
            found.partials += done.partials;
            found.bytes += done.bytes;
            for (segment, log) in done.entered {
                if entered.insert(segment) {
                    self.usage.activate(segment, log);
                }
            }
            for (segment, time) in done.written {
                self.usage.add(segment, 0, TimeNs(0), time);
            }
            latest.extend(done.inodes);
            accepted = at.clone();
        }
        found.incomplete = batch.partials;
        found.inodes = latest.len() as u64;
        found.was_clean = base.clean && found.partials == 0;
        self.log = super::log::Log::new(accepted.tails, accepted.serial, accepted.crc, base.incarnation);
        self.jobs = super::jobs::Jobs::new(accepted.serial);
        for (ino, new) in latest {
            let entry = new.entry;
            match (self.apply_latest(read, ino, new), &mut *strictness) {
                (Err(damage @ FsError::Corrupt { .. }), Strictness::Note(noted)) => {
                    self.imap.set(ino, entry);
                    noted.push((ino, damage));
                }
                (result, _) => result?,
            }
        }
        self.changed_since_checkpoint = found.partials > 0;
        self.recovered = found;
        Ok(())
    }

    /// The partial segment with the next serial, from whichever log has it.
    fn next_partial(
        &self,
        read: &mut DeviceReader<'_>,
        base: &Checkpoint,
        at: &mut Position,
    ) -> Result<Option<(Partial, Vec<u8>)>, FsError> {
        let expected = at.serial.next();
        for log in 0..at.tails.len() {
            let Some(tail) = at.tails[log] else { continue };
            for (segment, sector) in [(tail.segment, tail.sector), (tail.next_segment, 0)] {
                if sector >= self.geo.segment_sectors || segment.0 >= self.geo.segments {
                    continue;
                }
                let wanted = Wanted { expected, prev_crc: at.crc, log: log as u8, base };
                let Some((partial, bytes)) = self.try_partial(read, segment, sector, &wanted)? else {
                    continue;
                };
                at.serial = expected;
                at.crc = partial.summary.crc;
                at.tails[log] = Some(Tail {
                    segment,
                    sector: sector + partial.summary.len_sectors,
                    next_segment: partial.summary.next_segment,
                });
                return Ok(Some((partial, bytes)));
            }
        }
        Ok(None)
    }

    fn try_partial(
        &self,
        read: &mut DeviceReader<'_>,
        segment: SegmentId,
        sector: u32,
        wanted: &Wanted<'_>,
    ) -> Result<Option<(Partial, Vec<u8>)>, FsError> {
        let place = self.geo.device_bytes(self.geo.addr(segment, sector));
        let head = read(place, self.sb.write_unit_bytes)?;
        let Ok(header) = Summary::decode_header(&head) else { return Ok(None) };
        let fits = header.len_sectors <= self.geo.segment_sectors - sector;
        if !fits || header.segment != segment || !wanted.matches(&header) {
            return Ok(None);
        }
        let bytes = read(place, header.len_sectors * SECTOR_BYTES)?;
        let Some(partial) = partial_at(&bytes, &self.sb.uuid, &self.geo, sector) else { return Ok(None) };
        // A flush covered everything up to `durable_through`; what lies above may be torn.
        let whole = partial.entries.iter().all(|e| {
            self.stored_in(&bytes, segment, sector, &e.ptr)
                .is_some_and(|stored| e.ptr.is_hole() || firnfs_format::crc32c(stored) == e.ptr.crc)
        });
        Ok((whole || is_on(Mutation::UncheckedBlocks)).then_some((partial, bytes)))
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
        batch.bytes += u64::from(summary.len_sectors * SECTOR_BYTES);
        if summary.start_sector == 0 {
            batch.entered.push((summary.segment, summary.log));
        }
        batch.written.push((summary.segment, summary.time));
        if summary.flags & FLAG_CHECKPOINT != 0 {
            return Ok(());
        }
        for entry in &partial.entries {
            let orphan = match entry.kind {
                EntryKind::Block { .. } => continue,
                EntryKind::Freed => {
                    let gone = ImapEntry { version: entry.version, ..ImapEntry::default() };
                    batch.inodes.push((entry.ino, Latest { entry: gone, roots: None, mtime: TimeNs(0) }));
                    continue;
                }
                EntryKind::Inode { orphan } => orphan,
            };
            let stored =
                self.stored_in(bytes, summary.segment, summary.start_sector, &entry.ptr).unwrap_or(&[]);
            let record = self.record(entry.ino, &entry.ptr, stored)?;
            let atime = TimeNs(record.raw.atime_ns.get());
            let mtime = TimeNs(record.raw.mtime_ns.get());
            let has_roots = record.roots.iter().any(|r| r.used() != (0, 0));
            let roots = has_roots.then(|| Box::new(record.roots));
            let entry_now = ImapEntry { ptr: entry.ptr, version: entry.version, orphan, atime };
            batch.inodes.push((entry.ino, Latest { entry: entry_now, roots, mtime }));
        }
        Ok(())
    }

    fn record<'a>(&self, ino: InodeNo, ptr: &BlockPtr, stored: &'a [u8]) -> Result<Record<'a>, FsError> {
        decode_record(stored).map_err(|e| FsError::Corrupt {
            what: format!("inode {ino}"),
            at: self.geo.place(ptr.addr),
            expected: e.expected.clone(),
            found: e.to_string(),
        })
    }

    /// Replaces an inode's entry by its latest one, and accounts for all blocks that came and went.
    fn apply_latest(
        &mut self,
        read: &mut DeviceReader<'_>,
        ino: InodeNo,
        new: Latest,
    ) -> Result<(), FsError> {
        let old = self.drive(read, |lfs| lfs.imap.get(&mut lfs.shelf, ino))?;
        let empty = [Roots::default(); FORKS];
        let old_roots = if old.is_used() {
            let stored = self.read_stored(read, &old.ptr, || format!("inode {ino}"))?;
            self.record(ino, &old.ptr, &stored)?.roots
        } else {
            empty
        };
        let new_roots = new.roots.as_deref().unwrap_or(&empty);
        let mut diff = Diff { ino, mtime: new.mtime, read };
        self.diff_ptr(&mut diff, 0, &old.ptr, &new.entry.ptr)?;
        for (before, after) in old_roots.iter().zip(new_roots) {
            for slot in 0..DIRECT_POINTERS {
                self.diff_ptr(&mut diff, 0, &before.direct[slot], &after.direct[slot])?;
            }
            for slot in 0..INDIRECT_POINTERS {
                self.diff_ptr(&mut diff, slot as u8 + 1, &before.indirect[slot], &after.indirect[slot])?;
            }
        }
        self.imap.used = self.imap.used + u64::from(new.entry.is_used()) - u64::from(old.is_used());
        self.imap.set(ino, new.entry);
        Ok(())
    }

    fn diff_ptr(
        &mut self,
        diff: &mut Diff<'_, '_>,
        level: u8,
        old: &BlockPtr,
        new: &BlockPtr,
    ) -> Result<(), FsError> {
        if old == new {
            return Ok(());
        }
        if level > 0 {
            let before = self.pointers(diff, old)?;
            let after = self.pointers(diff, new)?;
            for slot in 0..before.len().max(after.len()) {
                let hole = BlockPtr::HOLE;
                let (b, a) = (before.get(slot).unwrap_or(&hole), after.get(slot).unwrap_or(&hole));
                self.diff_ptr(diff, level - 1, b, a)?;
            }
        }
        self.live_bytes = self.live_bytes + u64::from(self.charge_of(new)) - u64::from(self.charge_of(old));
        if old.is_stored() {
            self.usage.sub(self.geo.segment_of(old.addr), old.stored_bytes());
        }
        if new.is_stored() {
            self.usage.add(self.geo.segment_of(new.addr), new.stored_bytes(), diff.mtime, TimeNs(0));
        }
        Ok(())
    }

    fn pointers(&self, diff: &mut Diff<'_, '_>, ptr: &BlockPtr) -> Result<Vec<BlockPtr>, FsError> {
        if !ptr.is_stored() {
            return Ok(Vec::new());
        }
        let ino = diff.ino;
        let stored = self.read_stored(diff.read, ptr, || format!("indirect block of inode {ino}"))?;
        Ok(stored.as_chunks().0.iter().map(BlockPtr::decode).collect())
    }

    fn read_stored(
        &self,
        read: &mut DeviceReader<'_>,
        ptr: &BlockPtr,
        name: impl Fn() -> String,
    ) -> Result<Vec<u8>, FsError> {
        self.geo.check(ptr, self.geo.block_bytes.max(255 * SECTOR_BYTES), &name)?;
        let bytes = read(self.geo.device_bytes(ptr.addr), ptr.stored_bytes())?;
        verify_stored(ptr, &self.geo, &bytes, name)?;
        Ok(bytes)
    }
}

struct Diff<'a, 'r> {
    ino: InodeNo,
    mtime: TimeNs,
    read: &'a mut DeviceReader<'r>,
}

struct Wanted<'a> {
    expected: Serial,
    prev_crc: u32,
    log: u8,
    base: &'a Checkpoint,
}

impl Wanted<'_> {
    fn matches(&self, header: &Summary) -> bool {
        let span = self.base.spans.iter().rev().find(|s| s.from <= self.expected);
        let origin = header.prev_crc == self.prev_crc
            && span.is_some_and(|s| s.incarnation == header.incarnation)
            || is_on(Mutation::AnyOrigin);
        header.serial == self.expected && header.log == self.log && origin
    }
}
