//! The cleaner's second half, on volumes with retained points: it copies the dead blocks of the segments that it emptied, if a
//! point sees them, once for all points.
//!
//! The first point at or after the birth of a dead block sees it, or no point does (decision 0207): one look-up in that point's
//! trees. Live blocks have moved before. A live block of the inode map stays until the next checkpoint; if a point sees it, it is
//! copied, too. The copies lie in the log for the coldest data, in partial segments that roll-forward ignores: if no checkpoint
//! follows, the old places still count.
//!
//! Invariant: a queued block stays at its old place until its copy is laid out, because it keeps its segment from being reused.
//! Callers: `clean` queues, `step` calls.

use crate::error::{FsError, Outcome, Stop, gather_needs};
use crate::lfs::Lfs;
use crate::lfs::base::damage::{Thing, is_damage};
use crate::lfs::base::kinds::LogKind;
use crate::lfs::base::places::block_key;
use crate::lfs::base::places::{place_in_map, place_of_record};
use crate::lfs::map::admit::RECORD_MAX_BYTES;
use crate::lfs::past::StateRoot;
use crate::lfs::upkeep::clean::is_table;
use crate::lfs::upkeep::victim::Victim;
use crate::lfs::write::log::data_log;
use crate::lfs::write::partial::PartialWriter;
use crate::store::Buf;
use firnfs_format::checkpoint::PointCursor;
use firnfs_format::summary::{Entry, EntryKind, FLAG_CLEANER, FLAG_PAST};
use firnfs_format::{BlockPtr, InodeNo, SegmentId, TimeNs};
use std::collections::VecDeque;

/// Entries that one step looks up at most.
const STEP_ENTRIES: usize = 256;

/// An emptied segment, and its entries that may have to be copied.
struct Emptied {
    segment: SegmentId,
    youngest: TimeNs,
    entries: VecDeque<Entry>,
    /// Live bytes of tables in it: they leave it with the next checkpoint.
    table_bytes: u64,
}

/// See the module's head.
#[derive(Default)]
pub(in crate::lfs) struct Keeping {
    queue: VecDeque<Emptied>,
}

impl Keeping {
    /// True if nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl Lfs {
    /// Queues the entries of a segment that may have to be copied; its live blocks are moving.
    pub(in crate::lfs) fn keep_later(&mut self, victim: &Victim) {
        let Some(newest) = self.tables.points.newest().map(|point| point.epoch) else { return };
        // Also looks at blocks of tables that are younger than all points: live ones stay in the segment for now.
        let matters =
            |entry: &&Entry| entry.ptr.is_stored() && (entry.ptr.birth <= newest || is_table(entry.ino));
        let entries: VecDeque<Entry> = victim.entries().filter(matters).copied().collect();
        let segment = victim.segment();
        let queue = &mut self.upkeep.keeping.queue;
        queue.retain(|emptied| emptied.segment != segment);
        queue.push_back(Emptied { segment, youngest: victim.candidate.youngest, entries, table_bytes: 0 });
    }

    /// Looks up the next entries, and copies those that a point sees. False if there is nothing to do now.
    ///
    /// # Errors
    /// `Need`; `Room` if clean segments are short.
    pub(in crate::lfs) fn keep_step(&mut self, now: TimeNs) -> Outcome<bool> {
        if self.upkeep.keeping.is_empty() {
            return Ok(false);
        }
        self.load_rows()?;
        let Some(emptied) = self.upkeep.keeping.queue.front() else { return Ok(false) };
        let (segment, youngest) = (emptied.segment, emptied.youngest);
        let entries: Vec<Entry> = emptied.entries.iter().take(STEP_ENTRIES).copied().collect();
        match self.keep(now, youngest, &entries) {
            Ok(Kept::Later) => return Ok(false),
            Ok(Kept::All { table_bytes }) => {
                let Some(emptied) = self.upkeep.keeping.queue.front_mut() else { return Ok(true) };
                emptied.entries.drain(..entries.len());
                emptied.table_bytes += table_bytes;
            }
            Err(Stop::Fail(why)) if is_damage(&why) => {
                self.put_in_quarantine(Thing::Segment(segment), why);
                self.upkeep.keeping.queue.pop_front();
                return Ok(true);
            }
            Err(stop) => return Err(stop),
        }
        let Some(emptied) = self.upkeep.keeping.queue.front().filter(|emptied| emptied.entries.is_empty())
        else {
            return Ok(true);
        };
        let table_bytes = emptied.table_bytes;
        let left_bytes = u64::from(self.tables.usage.get(&mut self.shelf, segment)?.live_bytes);
        if left_bytes > table_bytes {
            // The cleaner would choose it again and again.
            let why = FsError::Corrupt {
                what: "what a segment holds".to_owned(),
                at: format!("segment {segment}"),
                expected: format!("{left_bytes} bytes"),
                found: format!("{table_bytes} that are live or seen by a retained point"),
            };
            self.put_in_quarantine(Thing::Segment(segment), why);
        }
        self.upkeep.keeping.queue.pop_front();
        Ok(true)
    }

    fn keep(&mut self, now: TimeNs, youngest: TimeNs, entries: &[Entry]) -> Outcome<Kept> {
        let mut needs = Vec::new();
        let mut held: Vec<(Entry, bool)> = Vec::new();
        let mut table_bytes = 0;
        for entry in entries {
            match gather_needs(self.fate_of(entry), &mut needs)? {
                Some(Fate::Moving) => return Ok(Kept::Later),
                Some(Fate::Dead) | None => {}
                Some(Fate::Past) => held.push((*entry, false)),
                Some(Fate::Table { is_seen }) => {
                    table_bytes += u64::from(entry.ptr.stored_bytes());
                    if is_seen {
                        held.push((*entry, true));
                    }
                }
            }
        }
        let mut blocks = Vec::with_capacity(held.len());
        for (entry, _) in &held {
            let max_bytes = RECORD_MAX_BYTES.max(self.geo.block_bytes);
            blocks.extend(gather_needs(self.past_block_at(entry.ptr, max_bytes), &mut needs)?);
        }
        needs.dedup();
        if !needs.is_empty() {
            return Err(Stop::Need(needs));
        }
        self.copy_held(now, youngest, &held, &blocks)?;
        Ok(Kept::All { table_bytes })
    }

    /// What has become of an entry of an emptied segment.
    fn fate_of(&mut self, entry: &Entry) -> Outcome<Fate> {
        let is_table = is_table(entry.ino);
        let is_block = matches!(entry.kind, EntryKind::Block { .. });
        if is_block && !is_table || matches!(entry.kind, EntryKind::Inode { .. }) {
            if self.is_moving(entry) {
                return Ok(Fate::Moving);
            }
            // The present has it here again (users put it back), or still (it could not be moved).
            if self.current_ptr(entry.ino, entry.version, entry.kind)? == entry.ptr {
                return Ok(Fate::Dead);
            }
        }
        let is_live = is_table && self.current_ptr(entry.ino, entry.version, entry.kind)? == entry.ptr;
        let is_seen = !(is_live && self.tables.remnants.has_copied(&entry.ptr)) && self.is_seen(entry)?;
        Ok(match (is_live, is_seen) {
            (true, is_seen) => Fate::Table { is_seen },
            (false, true) => Fate::Past,
            (false, false) => Fate::Dead,
        })
    }

    /// True if the present has made it dirty only to move it, and has not laid it out.
    fn is_moving(&self, entry: &Entry) -> bool {
        match entry.kind {
            EntryKind::Block { fork, level, index } => {
                let key = block_key(entry.ino, fork, level, index);
                self.shelf.cache.dirty(&key).and_then(|dirty| dirty.moves) == Some(entry.ptr)
            }
            _ => {
                let core = self.files.peek(entry.ino);
                core.is_some_and(|core| core.dirty.is_some() && core.record == entry.ptr)
            }
        }
    }

    /// True if a retained point leads to that place.
    fn is_seen(&mut self, entry: &Entry) -> Outcome<bool> {
        let Some(at) = self.place_of_entry(entry) else { return Ok(false) };
        if !self.tables.points.hold(&at, entry.ptr.birth) {
            return Ok(false);
        }
        let first = self.tables.points.first_since(&at, entry.ptr.birth).map(StateRoot::from);
        let Some(state) = first else { return Ok(false) };
        let then = self.past_ptr(&state, entry.ino, entry.kind)?;
        Ok(then.is_stored() && self.follow(&at, state.epoch, then)? == entry.ptr)
    }

    /// Its place in the order in which points are dropped; `None` if no point can see it.
    fn place_of_entry(&self, entry: &Entry) -> Option<PointCursor> {
        match (entry.ino, entry.kind) {
            (InodeNo::SEGMENT_USAGE, _) | (_, EntryKind::Freed) => None,
            (InodeNo::INODE_MAP, EntryKind::Block { level, index, .. }) => {
                Some(place_in_map(self.tables.imap.table.fan(), u32::from(level), index))
            }
            (ino, EntryKind::Block { fork, level, index }) => {
                Some(self.place_of(&block_key(ino, fork, level, index)))
            }
            (ino, EntryKind::Inode { .. }) => Some(place_of_record(ino)),
        }
    }

    /// Writes the copies. The flag of an entry says whether the present still has it at its old place.
    fn copy_held(
        &mut self,
        now: TimeNs,
        youngest: TimeNs,
        held: &[(Entry, bool)],
        blocks: &[Buf],
    ) -> Outcome<()> {
        if held.is_empty() {
            return Ok(());
        }
        let log = data_log(self.log_for_coldest());
        let lens: Vec<u8> = held.iter().map(|(entry, _)| entry.ptr.len_sectors).collect();
        self.ensure_pool(self.writer.log.segments_entered(log, &self.geo, &lens))?;
        for plan in self.writer.log.plan(log, &self.geo, &mut self.tables.usage, &lens) {
            let mut writer = PartialWriter::new(&self.geo, &plan, plan.len_sectors - plan.summary_sectors);
            for at in plan.items.clone() {
                let (entry, is_present) = held[at];
                let from = entry.ptr;
                let to = BlockPtr { len_sectors: from.len_sectors, birth: from.birth, ..BlockPtr::HOLE };
                let to = writer.put_copy(to, &blocks[at]);
                writer.adds_live(LogKind::Past, &to, youngest);
                writer.entries.push(Entry { ptr: to, ..entry });
                self.tables.usage.add(plan.segment, LogKind::Past, to.stored_bytes(), youngest, now);
                if is_present {
                    if let EntryKind::Block { level, index, .. } = entry.kind {
                        self.tables.remnants.note_copied(&from, u32::from(level), index);
                    }
                    self.recount(0, u64::from(to.stored_bytes()));
                } else {
                    self.vacate(LogKind::Past, &from);
                }
                if let Some(place) = self.place_of_entry(&entry) {
                    self.tables.remnants.note(&place, &from, &to);
                }
            }
            self.finish_partial(now, &plan, writer, log, FLAG_CLEANER | FLAG_PAST);
        }
        self.due.note_change();
        Ok(())
    }
}

enum Kept {
    All {
        /// Live bytes of tables among them.
        table_bytes: u64,
    },
    /// A block has not finished moving.
    Later,
}

enum Fate {
    Moving,
    /// Nobody needs it here.
    Dead,
    /// A retained point leads here, and the present does not.
    Past,
    /// A block of a table that the next checkpoint rewrites; a point may see it, too.
    Table {
        is_seen: bool,
    },
}
