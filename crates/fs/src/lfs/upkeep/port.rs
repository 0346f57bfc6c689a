//! The cleaner's port: requests of cleaners outside the daemon (BSD-LFS, section 3.5, table 3).
//!
//! A cleaner sees the segments and the inode map (the *ifile*), reads a segment's summaries, asks where the blocks named there
//! are now ([`Lfs::bmapv`]), requests that some of them be moved ([`Lfs::markv`]), and says which segments it believes to be
//! empty ([`Lfs::segclean`]). It decides what is cleaned; the store never relies on its statements.
//!
//! Invariants:
//! - a cleaner's statements are checked: a block moves only if the summaries on the device name it and the pointer that leads
//!   to it is exactly that one, at that moment, under the same hold of the lock that moves it;
//! - moving uses the code of the inside cleaner (`clean.rs`): the same checks, the same log, and the same clean segments,
//!   including the reserve if moving the segment gains space; a move that gains none leaves the reserve alone;
//! - a segment becomes clean only when a checkpoint finds it empty;
//! - no request needs another one to finish its work: a cleaner may die at any point.
//!
//! Callers: the driver, for the daemon's control socket. One [`Lfs::markv`] at a time.

use crate::clean::Candidate;
use crate::error::{FsError, Outcome, Stop, gather_needs};
use crate::fetch::Fetch;
use crate::lfs::Lfs;
use crate::lfs::base::damage::Thing;
use crate::lfs::base::scan::{partials, stored_bytes};
use crate::lfs::upkeep::choose::victims_at_once;
use crate::lfs::upkeep::clean::checked;
use crate::lfs::upkeep::taken::WhyTaken;
use crate::lfs::write::checkpoint::CHECKPOINT_SEGMENTS;
use crate::lfs::write::commit::Cause;
use crate::store::Scope;
use firnfs_format::summary::{Entry, EntryKind};
use firnfs_format::table::UsageEntry;
use firnfs_format::{BlockPtr, InodeNo, SectorAddr, SegmentId, TimeNs};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// One past the largest block index that a summary can name.
const INDICES: u64 = 1 << 48;
/// Levels that a summary can name.
const LEVELS: u8 = 8;

/// A block or an inode record as a cleaner names it (BSD-LFS's `BLOCK_INFO`, figure 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockInfo {
    /// Whose.
    pub ino: InodeNo,
    /// Version of the inode that the cleaner knows.
    pub version: u32,
    /// Which block, or the record.
    pub kind: EntryKind,
    /// Where the cleaner believes it to be.
    pub addr: SectorAddr,
}

impl From<&Entry> for BlockInfo {
    fn from(entry: &Entry) -> Self {
        Self { ino: entry.ino, version: entry.version, kind: entry.kind, addr: entry.ptr.addr }
    }
}

impl BlockInfo {
    /// True if that entry is what is meant.
    fn is_named_by(&self, entry: &Entry) -> bool {
        let both_records =
            matches!((self.kind, entry.kind), (EntryKind::Inode { .. }, EntryKind::Inode { .. }));
        let Entry { ino, version, kind, ptr } = *entry;
        (ino, version, ptr.addr) == (self.ino, self.version, self.addr) && (both_records || kind == self.kind)
    }

    /// True if a summary could name it.
    fn is_possible(&self) -> bool {
        let EntryKind::Block { fork, level, index } = self.kind else { return true };
        fork <= 2 && level < LEVELS && index < INDICES
    }
}

/// The fate of a block that was to be moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It goes to the log that the placement chose.
    Moved,
    /// It is not there any more, or was named twice.
    Dead,
    /// No summary of the segment names it there.
    Unknown,
    /// Its segment is being written, is clean, or does not exist.
    Busy,
    /// It cannot be moved because of damage in it or in metadata that leads to it; its segment is not cleaned.
    Damaged,
    /// Clean segments are too short for it now.
    NoRoom,
}

/// The result of a request to move.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Marked {
    /// For each block that was named, in that order.
    pub fates: Vec<Fate>,
    /// Stored bytes of those that moved.
    pub moved_bytes: u64,
}

/// The state of a segment, for cleaners.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentInfo {
    /// Which.
    pub segment: SegmentId,
    /// Its entry in the usage table, with what changed since the last checkpoint.
    pub usage: UsageEntry,
    /// It is being written, or known to be damaged: nothing is moved out of it now.
    pub is_busy: bool,
}

/// Whether a segment is clean or empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emptiness {
    /// It is clean.
    Clean,
    /// It has no live bytes; the next checkpoint finds that out.
    Empty,
    /// It has this many live bytes.
    Live(u32),
    /// It is being written, or does not exist.
    Busy,
}

/// How much room there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Bytes written to the log since mkfs.
    pub log_bytes: u64,
    /// Clean segments that may be written now.
    pub ready_segments: u64,
    /// Clean segments that wait for a checkpoint.
    pub waiting_segments: u64,
    /// Clean segments below which the inside cleaner starts.
    pub low_segments: u64,
    /// Of the clean ones, those kept for checkpoints and the cleaner.
    pub reserve_segments: u64,
    /// Segments of the volume.
    pub segments: u64,
}

impl Lfs {
    /// How much room there is.
    #[must_use]
    pub fn room(&self) -> Room {
        let room = self.room_now();
        Room {
            log_bytes: self.accounts.counters.log_bytes,
            ready_segments: room.ready,
            waiting_segments: room.waiting,
            low_segments: room.low(),
            reserve_segments: room.reserve,
            segments: room.segments,
        }
    }

    /// The leaf of the usage table that has a segment.
    #[must_use]
    pub fn usage_leaf_of(&self, segment: SegmentId) -> u64 {
        self.tables.usage.leaf_of(segment)
    }

    /// Segments of one leaf of the usage table; empty past the last leaf.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn segment_infos(&mut self, leaf: u64) -> Outcome<Vec<SegmentInfo>> {
        let entries = self.usage_leaf(leaf)?;
        let info = |(segment, usage)| SegmentInfo { segment, usage, is_busy: !self.is_idle(segment) };
        Ok(entries.into_iter().map(info).collect())
    }

    /// Where those blocks are now; a hole if a block is nowhere. A dirty block has no address yet: pending.
    ///
    /// # Errors
    /// `Need`, `Corrupt`; `Invalid` for blocks that no summary could name.
    pub fn bmapv(&mut self, blocks: &[BlockInfo]) -> Outcome<Vec<BlockPtr>> {
        let result = self.try_bmapv(blocks);
        self.upkeep.port_gathering = matches!(result, Err(Stop::Need(_)));
        result
    }

    fn try_bmapv(&mut self, blocks: &[BlockInfo]) -> Outcome<Vec<BlockPtr>> {
        let mut needs = Vec::new();
        let mut found = Vec::with_capacity(blocks.len());
        for block in blocks {
            if !block.is_possible() {
                return Err(FsError::Invalid("no file has such a block").into());
            }
            found.extend(gather_needs(self.current_ptr(block.ino, block.version, block.kind), &mut needs)?);
        }
        needs.dedup();
        if needs.is_empty() { Ok(found) } else { Err(Stop::Need(needs)) }
    }

    /// Moves blocks to the logs that the placement chooses, times unchanged. `segments` are the bytes of their segments, as
    /// read from the device; blocks in other segments are `Busy`.
    ///
    /// # Errors
    /// `Need`; `Room` while writes are under way; `ReadOnly`; `Invalid` for more segments than one pass takes.
    pub fn markv(
        &mut self,
        now: TimeNs,
        blocks: &[BlockInfo],
        segments: &BTreeMap<SegmentId, Vec<u8>>,
    ) -> Outcome<Marked> {
        let result = self.try_markv(now, blocks, segments);
        self.upkeep.port_gathering = matches!(result, Err(Stop::Need(_)));
        result
    }

    fn try_markv(
        &mut self,
        now: TimeNs,
        blocks: &[BlockInfo],
        segments: &BTreeMap<SegmentId, Vec<u8>>,
    ) -> Outcome<Marked> {
        self.standing.refuse()?;
        if segments.len() > victims_at_once(&self.geo) {
            return Err(FsError::Invalid("more segments than one request moves").into());
        }
        if self.writer.jobs.in_flight_bytes() >= 2 * self.options.write_threshold_bytes {
            return Err(Stop::Room);
        }
        if self.room_now().for_moves() == 0 {
            return Ok(Marked { fates: vec![Fate::NoRoom; blocks.len()], moved_bytes: 0 });
        }
        self.ensure_pool(CHECKPOINT_SEGMENTS)?;
        // Users' changes first; then memory and log agree, and only cleaned blocks are written (BSD-LFS, section 3.5).
        self.commit_scope(now, Scope::All, Cause::Due)?;
        let judged = self.judge(blocks, segments)?;
        Ok(self.move_judged(now, &judged, segments))
    }

    /// For each block its entry on the device if it is live, otherwise its fate.
    fn judge(
        &mut self,
        blocks: &[BlockInfo],
        segments: &BTreeMap<SegmentId, Vec<u8>>,
    ) -> Outcome<Vec<Result<Entry, Fate>>> {
        let mut needs = Vec::new();
        let mut on_device = FxHashMap::default();
        for (&segment, bytes) in segments {
            let usage = if segment.0 < self.geo.segments && self.is_idle(segment) {
                gather_needs(self.tables.usage.get(&mut self.shelf, segment), &mut needs)?
            } else {
                None
            };
            if usage.is_some_and(|usage| usage.in_use) {
                let found = partials(bytes, &self.sb.uuid, &self.geo, segment);
                let entries = found.iter().flat_map(|p| &p.entries).filter(|e| e.ptr.is_stored());
                on_device.insert(segment, entries.map(|e| (e.ptr.addr, *e)).collect::<FxHashMap<_, _>>());
            }
        }
        let mut judged = Vec::with_capacity(blocks.len());
        for block in blocks {
            let verdict = match on_device.get_mut(&self.geo.segment_of(block.addr)) {
                None => {
                    let segment = Thing::Segment(self.geo.segment_of(block.addr));
                    Err(if self.why_quarantined(segment).is_some() { Fate::Damaged } else { Fate::Busy })
                }
                Some(entries) if entries.get(&block.addr).is_none_or(|e| !block.is_named_by(e)) => {
                    Err(Fate::Unknown)
                }
                // Removed: a block named twice would be counted twice.
                Some(entries) => entries.remove(&block.addr).ok_or(Fate::Unknown),
            };
            judged.push(match verdict {
                Ok(entry) => self.judge_entry(entry, &mut needs)?,
                Err(fate) => Err(fate),
            });
        }
        needs.dedup();
        if needs.is_empty() { Ok(judged) } else { Err(Stop::Need(needs)) }
    }

    fn judge_entry(&mut self, entry: Entry, needs: &mut Vec<Fetch>) -> Outcome<Result<Entry, Fate>> {
        match gather_needs(self.is_live(&entry), needs) {
            Ok(Some(true)) => Ok(Ok(entry)),
            Ok(Some(false) | None) => Ok(Err(Fate::Dead)),
            Err(Stop::Fail(why)) => {
                // As the inside cleaner does with such a victim; otherwise two damaged blocks of one request would be read in
                // turn for ever.
                self.put_in_quarantine(Thing::Segment(self.geo.segment_of(entry.ptr.addr)), why);
                Ok(Err(Fate::Damaged))
            }
            Err(stop) => Err(stop),
        }
    }

    /// Moves live blocks, segment after segment as long as there is room. All of it is in memory.
    fn move_judged(
        &mut self,
        now: TimeNs,
        judged: &[Result<Entry, Fate>],
        segments: &BTreeMap<SegmentId, Vec<u8>>,
    ) -> Marked {
        // After the commit of users' changes.
        let room = self.room_now();
        let mut live_bytes = BTreeMap::new();
        for entry in judged.iter().flatten() {
            *live_bytes.entry(self.geo.segment_of(entry.ptr.addr)).or_insert(0) +=
                u64::from(entry.ptr.stored_bytes());
        }
        let mut marked = Marked {
            fates: judged.iter().map(|j| j.as_ref().map_or_else(|fate| *fate, |_| Fate::NoRoom)).collect(),
            moved_bytes: 0,
        };
        let mut moved = Vec::new();
        let mut emptied = Vec::new();
        // Before anything moves: a block that moves takes the indirect blocks and the record above it along, out of any segment.
        let emptying = |(&segment, &bytes): (&SegmentId, &u64)| {
            let facts = self.facts_of(segment).filter(|facts| u64::from(facts.live_bytes) == bytes);
            facts.map(|facts| (segment, facts))
        };
        let victims: BTreeMap<SegmentId, Candidate> = live_bytes.iter().filter_map(emptying).collect();
        for (segment, bytes) in live_bytes {
            let victim = victims.get(&segment).copied();
            // The sum so far is exact and includes all metadata. The next segment may make as much metadata dirty as it has
            // data.
            let taken_bytes = self.taken_log_bytes();
            let drags_bytes = if moved.is_empty() { bytes } else { taken_bytes + 2 * bytes };
            let dead_bytes = u64::from(self.geo.segment_bytes).saturating_sub(bytes);
            let gives_room = victim.is_some() && self.is_gain(bytes, dead_bytes);
            let spare_segments = room.for_asked_moves(gives_room);
            if drags_bytes > spare_segments * room.usable_bytes {
                continue;
            }
            self.learn_of(now, segment);
            let mut empties = victim.is_some();
            for (fate, entry) in marked.fates.iter_mut().zip(judged) {
                let Some(entry) = entry.as_ref().ok().filter(|e| self.geo.segment_of(e.ptr.addr) == segment)
                else {
                    continue;
                };
                let stored = stored_bytes(&segments[&segment], &self.geo, entry);
                let block = stored.and_then(|stored| checked(entry, stored, self.geo.block_bytes));
                let is_moved = self.move_entry(segment, block, entry);
                *fate = if is_moved { Fate::Moved } else { Fate::Damaged };
                empties &= is_moved;
                marked.moved_bytes += if is_moved { u64::from(entry.ptr.stored_bytes()) } else { 0 };
            }
            moved.push(segment);
            emptied.extend(victim.filter(|_| empties));
        }
        self.accounts.counters.cleaner_moved_bytes += marked.moved_bytes;
        self.accounts.counters.cleaner_read_bytes +=
            segments.len() as u64 * u64::from(self.geo.segment_bytes);
        // Counted once, here: the checkpoint that finds them empty must not count them as died by themselves.
        self.accounts.counters.segments_cleaned += emptied.len() as u64;
        self.upkeep.cleaning.note_emptied(emptied.iter().map(|victim| victim.segment));
        emptied.iter().for_each(|victim| self.upkeep.cleaning.taken.add(*victim, now, WhyTaken::Asked));
        if !moved.is_empty() {
            self.commit_moved(now);
        }
        marked
    }

    /// What the usage table says of a segment; `None` if its entry is not in memory.
    fn facts_of(&mut self, segment: SegmentId) -> Option<Candidate> {
        let usage = self.tables.usage.get(&mut self.shelf, segment).ok()?;
        let UsageEntry { live_bytes, written, youngest, log, .. } = usage;
        Some(Candidate { segment, live_bytes, written, youngest, log })
    }

    fn commit_moved(&mut self, now: TimeNs) {
        self.upkeep.cleaning.wants_checkpoint = true;
        // If this is not possible now, the blocks stay dirty and the next commit writes them; if the volume failed, the next
        // commit reports it.
        let _later = self.commit_scope(now, Scope::All, Cause::Cleaning);
    }

    /// Whether those segments are empty. If one is, or clean ones wait for a checkpoint, it writes one: this finds the empty
    /// ones, and after the next one they may be written.
    ///
    /// # Errors
    /// `Need`; `Room` while a checkpoint is under way; `ReadOnly`, `Corrupt`.
    pub fn segclean(&mut self, now: TimeNs, segments: &[SegmentId]) -> Outcome<Vec<Emptiness>> {
        self.standing.refuse()?;
        let mut needs = Vec::new();
        let mut found = Vec::with_capacity(segments.len());
        for segment in segments {
            found.extend(gather_needs(self.emptiness(*segment), &mut needs)?);
        }
        needs.dedup();
        if !needs.is_empty() {
            return Err(Stop::Need(needs));
        }
        if found.contains(&Emptiness::Empty) || self.room_now().has_waiting() {
            self.checkpoint_now(now)?;
            for (segment, state) in segments.iter().zip(&mut found) {
                // A segment that cannot be judged without reading keeps its first verdict.
                *state = self.emptiness(*segment).unwrap_or(*state);
            }
        }
        Ok(found)
    }

    fn emptiness(&mut self, segment: SegmentId) -> Outcome<Emptiness> {
        if segment.0 >= self.geo.segments {
            return Ok(Emptiness::Busy);
        }
        let usage = self.tables.usage.get(&mut self.shelf, segment)?;
        Ok(match usage.live_bytes {
            _ if !usage.in_use => Emptiness::Clean,
            _ if self.writer.log.is_open(segment) || self.shelf.is_in_flight(segment) => Emptiness::Busy,
            0 => Emptiness::Empty,
            bytes => Emptiness::Live(bytes),
        })
    }
}
