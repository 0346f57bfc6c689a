//! Roll-forward: from the newest checkpoint through the summaries of what was written after it (Sprite LFS, section 4.2;
//! BSD-LFS, sections 2.2 and 4.3).
//!
//! The partial segments of all logs are merged by serial; each must carry the incarnation that the checkpoint expects, the
//! CRC of its predecessor's summary, and blocks with right CRCs. The first that does not ends the log. Only whole batches
//! count. A batch's inode records say everything: old and new block trees are compared to bring the usage up to date, and
//! no operation has to be replayed.
//!
//! The blocks of a checkpoint count only if something follows them: at the end of the log, where its slot was not written, they are
//! of no use, and the next mount writes over them. So mounts that are killed in the checkpoint that they begin with, again and
//! again, leave the log as they found it.

use crate::bmap::{self, SLOTS};
use crate::error::FsError;
use crate::inode::Kind;
use crate::lfs::Lfs;
use crate::lfs::base::damage::{Thing, is_damage};
use crate::lfs::base::kinds::LogKind;
use crate::lfs::base::scan::{Partial, partial_at};
use crate::lfs::map::admit::{self, INODE_NUMBERS, RECORD_MAX_BYTES};
use crate::lfs::map::shelf::describe;
use crate::lfs::map::wanted::verify_stored;
use crate::lfs::recover::evidence::{LostLog, incarnation_of};
use crate::lfs::recover::open::DeviceReader;
use crate::lfs::recover::tally::Tally;
use crate::mutation::{Mutation, is_on};
use crate::store::{BlockKey, Fork};
use firnfs_format::checkpoint::{Checkpoint, Tail};
use firnfs_format::inode::{FORKS, Record, Roots};
use firnfs_format::summary::{EntryKind, FLAG_CHECKPOINT, FLAG_END, Summary};
use firnfs_format::table::{ImapEntry, TableEntry};
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
    /// Inodes that came out different from the checkpoint.
    pub inodes: u64,
    /// Partial segments of a batch or of a checkpoint that never was completed, and so did not count.
    pub incomplete: u64,
    /// A part of the log that was durable and is damaged: what it held, and all after it, is missing.
    pub lost: Option<LostLog>,
}

/// An inode as the log's tail leaves it.
struct Latest {
    entry: ImapEntry,
    is_directory: bool,
    /// Root pointers, if it has any.
    roots: Option<Box<[Roots; FORKS]>>,
    charged_bytes: u64,
    mtime: TimeNs,
}

impl Latest {
    /// An inode that was freed.
    fn gone(entry: ImapEntry) -> Self {
        Self { entry, is_directory: false, roots: None, charged_bytes: 0, mtime: TimeNs(0) }
    }
}

fn is_directory(record: &Record<'_>) -> bool {
    record.raw.kind == Kind::Directory as u8
}

/// The block tree of an inode at one time.
#[derive(Default)]
struct Tree {
    is_directory: bool,
    roots: [Roots; FORKS],
    /// What its record says that its blocks take.
    charged_bytes: u64,
}

/// Partial segments accepted: first address to the one behind.
type Accepted = BTreeMap<SectorAddr, SectorAddr>;

/// What lies where a log may go on: each place is read once, however many serials are looked for there.
type Heads = BTreeMap<SectorAddr, Option<Summary>>;

/// How far the log is read, at the end of a whole batch.
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
        read: &mut DeviceReader<'_>,
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
        while let Some((partial, bytes)) = self.next_partial(read, base, &mut at, &mut heads)? {
            self.note(&partial, &bytes, &mut batch)?;
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
        found.incomplete = batch.partials;
        found.lost = self.find_lost_log(read, base, &at);
        found.inodes = latest.len() as u64;
        found.was_clean = base.clean && found.partials == 0;
        self.writer.log =
            crate::lfs::write::log::Log::new(accepted.tails, accepted.serial, accepted.crc, base.incarnation);
        self.writer.jobs = crate::lfs::write::jobs::Jobs::new(accepted.serial);
        for (ino, new) in latest {
            self.apply_latest(read, &tail, ino, new)?;
        }
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
        read: &mut DeviceReader<'_>,
        base: &Checkpoint,
        at: &mut Position,
        heads: &mut Heads,
    ) -> Result<Option<(Partial, Vec<u8>)>, FsError> {
        // Before the next mount wrote to the log, its incarnation replaced this checkpoint in both slots.
        if base.clean {
            return Ok(None);
        }
        let expected = at.serial.next();
        for log in 0..at.tails.len() {
            let Some(tail) = at.tails[log] else { continue };
            for (segment, sector) in [(tail.segment, tail.sector), (tail.next_segment, 0)] {
                if sector >= self.geo.segment_sectors || segment.0 >= self.geo.segments {
                    continue;
                }
                let wanted = Wanted { expected, prev_crc: at.crc, log: log as u8, base };
                let Some((partial, bytes)) = self.try_partial(read, segment, sector, &wanted, heads)? else {
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
        heads: &mut Heads,
    ) -> Result<Option<(Partial, Vec<u8>)>, FsError> {
        let addr = self.geo.addr(segment, sector);
        let place = self.geo.device_bytes(addr);
        let head = match heads.entry(addr) {
            Slot::Occupied(known) => known.into_mut(),
            Slot::Vacant(new) => {
                new.insert(Summary::decode_header(&read(place, self.sb.write_unit_bytes)?).ok())
            }
        };
        let Some(header) = head else { return Ok(None) };
        let fits = header.len_sectors <= self.geo.segment_sectors - sector;
        if !fits || header.segment != segment || !wanted.matches(header) {
            return Ok(None);
        }
        let bytes = read(place, header.len_sectors * SECTOR_BYTES)?;
        let Some(partial) = partial_at(&bytes, &self.sb.uuid, &self.geo, sector) else { return Ok(None) };
        self.check_way_on(&partial.summary)?;
        // A flush covered everything up to `durable_through`; what lies above may be torn.
        let whole = partial.entries.iter().all(|e| {
            self.stored_in(&bytes, segment, sector, &e.ptr)
                .is_some_and(|stored| e.ptr.is_hole() || firnfs_format::crc32c(stored) == e.ptr.crc)
        });
        Ok((whole || is_on(Mutation::UncheckedBlocks)).then_some((partial, bytes)))
    }

    /// A summary whose checksum is right leads on to a segment that there is.
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
        if summary.flags & FLAG_CHECKPOINT != 0 {
            return Ok(());
        }
        for entry in &partial.entries {
            self.check_number(entry.ino, summary)?;
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

    /// An inode number in a summary: one that the inode map can have.
    fn check_number(&self, ino: InodeNo, summary: &Summary) -> Result<(), FsError> {
        if (InodeNo::ROOT.0..INODE_NUMBERS).contains(&ino.0) {
            return Ok(());
        }
        Err(FsError::Corrupt {
            what: "inode number in a summary".to_owned(),
            at: self.geo.place(self.geo.addr(summary.segment, summary.start_sector)),
            expected: format!("1 to {}", INODE_NUMBERS - 1),
            found: ino.to_string(),
        })
    }

    /// Replaces an inode's entry by its latest one, and accounts for all blocks that came and went. What the inode was before
    /// may be damaged: then its old blocks stay on the accounts (a checker gives them back), and the new ones come on.
    fn apply_latest(
        &mut self,
        read: &mut DeviceReader<'_>,
        tail: &Accepted,
        ino: InodeNo,
        new: Latest,
    ) -> Result<(), FsError> {
        let before = self.before(read, ino);
        let old_entry = before.as_ref().map_or(None, |(entry, _)| Some(*entry));
        let after = Tree {
            is_directory: new.is_directory,
            roots: new.roots.map_or_else(Default::default, |r| *r),
            charged_bytes: new.charged_bytes,
        };
        let mut diff = Diff {
            ino,
            mtime: new.mtime,
            tail,
            read,
            is_directory: (false, new.is_directory),
            old_left: 0,
            new_left: after.charged_bytes,
        };
        let records = (LogKind::Inode, LogKind::Inode);
        match before {
            Ok((entry, old)) => {
                self.account(records, &entry.ptr, &new.entry.ptr, diff.mtime);
                diff.old_left = old.charged_bytes;
                diff.is_directory.0 = old.is_directory;
                self.diff_trees(&mut diff, Some(&old), &after)?;
            }
            Err(why) if is_damage(&why) => {
                self.put_in_quarantine(Thing::OldBlocks(ino), why);
                self.account(records, &BlockPtr::HOLE, &new.entry.ptr, diff.mtime);
                self.diff_trees(&mut diff, None, &after)?;
            }
            Err(why) => return Err(why),
        }
        let was_used = old_entry.is_none_or(|e| e.is_used());
        self.tables.imap.used =
            (self.tables.imap.used + u64::from(new.entry.is_used())).saturating_sub(u64::from(was_used));
        self.tables.imap.set(ino, new.entry);
        Ok(())
    }

    /// An inode as the checkpoint has it.
    fn before(&mut self, read: &mut DeviceReader<'_>, ino: InodeNo) -> Result<(ImapEntry, Tree), FsError> {
        let entry = self.drive(read, |lfs| lfs.tables.imap.get(&mut lfs.shelf, ino))?;
        if !entry.is_used() {
            return Ok((entry, Tree::default()));
        }
        let stored = self.read_stored(read, &entry.ptr, RECORD_MAX_BYTES, || format!("inode {ino}"))?;
        let record = admit::record(&self.geo, ino, &entry.ptr, &stored)?;
        let is_directory = is_directory(&record);
        let charged_bytes = record.raw.charged_bytes.get();
        Ok((entry, Tree { is_directory, roots: record.roots, charged_bytes }))
    }

    fn diff_trees(&mut self, diff: &mut Diff<'_, '_>, old: Option<&Tree>, new: &Tree) -> Result<(), FsError> {
        for fork in [Fork::Data, Fork::Index, Fork::Xattr] {
            let (before, after) = (old.map(|tree| &tree.roots[fork as usize]), &new.roots[fork as usize]);
            for slot in 0..SLOTS {
                let (level, index) = bmap::Geometry::root(slot);
                let key = BlockKey { ino: diff.ino, fork, level, index };
                let ptr_in = |roots: &Roots| match level {
                    0 => roots.direct[slot],
                    level => roots.indirect[usize::from(level) - 1],
                };
                self.diff_ptr(diff, key, before.map(ptr_in), ptr_in(after))?;
            }
        }
        Ok(())
    }

    /// Accounts for what differs below one pointer. `old` is `None` where what was there before cannot be known: then only what
    /// the log's tail wrote is new.
    fn diff_ptr(
        &mut self,
        diff: &mut Diff<'_, '_>,
        key: BlockKey,
        old: Option<BlockPtr>,
        new: BlockPtr,
    ) -> Result<(), FsError> {
        if old == Some(new) || old.is_none() && !diff.is_in_tail(&new) {
            return Ok(());
        }
        let hole = BlockPtr::HOLE;
        diff.old_left = self.spend(diff, &key, diff.old_left, &old.unwrap_or(hole))?;
        diff.new_left = self.spend(diff, &key, diff.new_left, &new)?;
        if key.level > 0 {
            let before = match old.map(|old| self.pointers(diff, &key, &old)).transpose() {
                Err(why) if is_damage(&why) => {
                    self.put_in_quarantine(Thing::OldBlocks(diff.ino), why);
                    None
                }
                other => other?,
            };
            let after = self.pointers(diff, &key, &new)?;
            for slot in 0..before.as_ref().map_or(0, Vec::len).max(after.len()) {
                let index = self.geo.map.child(key.level, key.index, slot);
                let child = BlockKey { level: key.level - 1, index, ..key };
                let was = before.as_ref().map(|b| b.get(slot).copied().unwrap_or(hole));
                self.diff_ptr(diff, child, was, after.get(slot).copied().unwrap_or(hole))?;
            }
        }
        let kind = |is_directory| LogKind::of_block(key.fork, key.level, is_directory);
        let kinds = (kind(diff.is_directory.0), kind(diff.is_directory.1));
        self.account(kinds, &old.unwrap_or(hole), &new, diff.mtime);
        Ok(())
    }

    /// Takes a block from what the tree's record says that all its blocks take: a tree that leads into itself, or has more
    /// blocks than it was charged for, is not walked to its end.
    fn spend(&self, diff: &Diff<'_, '_>, key: &BlockKey, left: u64, ptr: &BlockPtr) -> Result<u64, FsError> {
        let bytes = u64::from(self.charge_of(ptr));
        left.checked_sub(bytes).ok_or_else(|| FsError::Corrupt {
            what: format!("block tree of inode {}", diff.ino),
            at: describe(key),
            expected: "no more blocks than the record says are charged".to_owned(),
            found: format!("another {bytes} bytes"),
        })
    }

    /// One block died and another came, of those kinds.
    fn account(&mut self, kinds: (LogKind, LogKind), old: &BlockPtr, new: &BlockPtr, mtime: TimeNs) {
        self.recount(u64::from(self.charge_of(old)), u64::from(self.charge_of(new)));
        self.tables.release(&self.geo, kinds.0, old);
        if new.is_stored() {
            let segment = self.geo.segment_of(new.addr);
            self.tables.usage.add(segment, kinds.1, new.stored_bytes(), mtime, TimeNs(0));
        }
    }

    fn pointers(
        &self,
        diff: &mut Diff<'_, '_>,
        key: &BlockKey,
        ptr: &BlockPtr,
    ) -> Result<Vec<BlockPtr>, FsError> {
        if !ptr.is_stored() {
            return Ok(Vec::new());
        }
        let stored = self.read_stored(diff.read, ptr, self.geo.block_bytes, || describe(key))?;
        admit::block(&self.geo, key, ptr, &stored)?;
        Ok(stored.as_chunks().0.iter().map(BlockPtr::decode).collect())
    }

    fn read_stored(
        &self,
        read: &mut DeviceReader<'_>,
        ptr: &BlockPtr,
        max_bytes: u32,
        name: impl Fn() -> String,
    ) -> Result<Vec<u8>, FsError> {
        self.geo.check(ptr, max_bytes, &name)?;
        let bytes = read(self.geo.device_bytes(ptr.addr), ptr.stored_bytes())?;
        verify_stored(ptr, &self.geo, &bytes, name)?;
        Ok(bytes)
    }
}

/// The comparison of two block trees of one inode.
struct Diff<'a, 'r> {
    ino: InodeNo,
    mtime: TimeNs,
    tail: &'a Accepted,
    read: &'a mut DeviceReader<'r>,
    /// Whether the inode was a directory, and is one: its number may have come to be used again.
    is_directory: (bool, bool),
    /// Bytes that blocks of the old and the new tree can still take.
    old_left: u64,
    new_left: u64,
}

impl Diff<'_, '_> {
    /// True for what was written after the checkpoint. All else the usage table knows already.
    fn is_in_tail(&self, ptr: &BlockPtr) -> bool {
        ptr.is_stored() && self.tail.range(..=ptr.addr).next_back().is_some_and(|(_, end)| ptr.addr < *end)
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
