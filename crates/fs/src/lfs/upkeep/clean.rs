//! The cleaner: moves live blocks out of segments that have few of them, so that these segments can be
//! written again (Sprite LFS, sections 3.3 to 3.6; BSD-LFS, section 4.4).
//!
//! A pass takes a batch of victims, reads them (`victim`: whole, or the summaries and then the live blocks), finds their live
//! blocks through the summaries, and commits those to the logs that the placement chooses, with times unchanged. It commits
//! users' changes first, so they are never in its batch. The victims are empty then; the next checkpoint finds that out, and
//! after the one that follows they may be written again.
//!
//! All of it is done in short steps, and operations go on in between. Between two steps the volume is in an ordinary state: blocks
//! are checked and copied before any of them turns dirty, and what turned dirty is a frozen batch.

use crate::cache::Fresh;
use crate::clean::Candidate;
use crate::clean::reading::Run;
use crate::error::{FsError, Outcome, Stop, gather_needs};
use crate::fetch::{Ahead, Fetch, Fetched};
use crate::lfs::Lfs;
use crate::lfs::base::damage::Thing;
use crate::lfs::base::places::block_key;
use crate::lfs::map::blockmap::Turn;
use crate::lfs::map::inode::BlockPlace;
use crate::lfs::map::wanted::Wanted;
use crate::lfs::room::segments::Room;
use crate::lfs::room::throttle::Cleaned;
use crate::lfs::upkeep::dirtied::Growth;
use crate::lfs::upkeep::taken::{TakenVictims, WhyTaken};
use crate::lfs::upkeep::victim::Victim;
use crate::lfs::write::checkpoint::CHECKPOINT_SEGMENTS;
use crate::lfs::write::commit::Cause;
use crate::lfs::write::log::Log;
use crate::store::{Buf, Scope, padded};
use firnfs_format::summary::{Entry, EntryKind};
use firnfs_format::{BlockPtr, InodeNo, SECTOR_BYTES, SegmentId, TimeNs};
use std::collections::BTreeSet;

/// What a pass is for. Those that are not for room in general belong to [`Lfs::shrink_step`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::lfs) enum Aim {
    /// Clean segments, wherever they are.
    #[default]
    Room,
    /// Clean segments before the end that the volume will have.
    Before,
    /// Empty segments beyond it.
    Leaving,
}

/// The state of a pass while blocks are being fetched.
#[derive(Default)]
pub(in crate::lfs) struct Cleaning {
    victims: Vec<Victim>,
    /// What the last pass made dirty.
    growth: Growth,
    /// Bytes that were read and not counted yet: they count at the end of the pass. Otherwise a pass on demand could use up its
    /// share of the device before it has moved anything.
    read_bytes: u64,
    /// The victims are the emptiest segments, not those that the policy chose.
    takes_emptiest: bool,
    /// Segments that the last pass emptied wait for checkpoints.
    pub(in crate::lfs) wants_checkpoint: bool,
    /// The last search met segments that a checkpoint will find empty.
    pub(in crate::lfs) finds_empty: bool,
    /// Segments emptied since the last checkpoint; the next one will find them empty.
    emptied: BTreeSet<SegmentId>,
    /// Users are active: segments cleaned now count as cleaned on demand.
    pub(in crate::lfs) is_on_demand: bool,
    /// The pass runs in idle time: it is smaller, more selective, and ends when users come back.
    pub(in crate::lfs) is_idle_pass: bool,
    /// What the pass is for.
    pub(in crate::lfs) aim: Aim,
    /// The segments that passes emptied, for those who watch.
    pub(in crate::lfs) taken: TakenVictims,
}

impl Cleaning {
    /// True if the pass under way makes clean segments.
    pub(in crate::lfs) fn gains_room(&self) -> bool {
        self.aim != Aim::Leaving
    }

    /// Begins a pass with these victims; with none there is nothing to do.
    pub(super) fn begin(&mut self, victims: Vec<Candidate>, takes_emptiest: bool) {
        self.victims = victims.into_iter().map(Victim::new).collect();
        self.takes_emptiest = takes_emptiest;
    }

    /// Live bytes that fit into that much room with what turns dirty when they move, as the last pass shows.
    pub(super) fn fits_bytes(&self, room_bytes: u64) -> u64 {
        self.growth.fits_bytes(room_bytes)
    }

    /// True while a pass is under way.
    pub(in crate::lfs) fn has_victims(&self) -> bool {
        !self.victims.is_empty()
    }

    /// True if the pass under way has that victim.
    pub(in crate::lfs) fn has_victim(&self, segment: SegmentId) -> bool {
        self.victims.iter().any(|victim| victim.segment() == segment)
    }

    /// True if a pass emptied that segment since the last checkpoint.
    pub(in crate::lfs) fn has_emptied(&self, segment: SegmentId) -> bool {
        self.emptied.contains(&segment)
    }

    /// How many segments passes emptied since the last checkpoint.
    pub(in crate::lfs) fn emptied_segments(&self) -> u64 {
        self.emptied.len() as u64
    }

    /// Notes segments that a pass, or a cleaner outside, emptied.
    pub(in crate::lfs) fn note_emptied(&mut self, segments: impl IntoIterator<Item = SegmentId>) {
        self.emptied.extend(segments);
    }

    /// A checkpoint finds them empty.
    pub(in crate::lfs) fn take_emptied(&mut self) -> BTreeSet<SegmentId> {
        std::mem::take(&mut self.emptied)
    }

    /// The volume ends before that segment.
    pub(in crate::lfs) fn end_at(&mut self, end: SegmentId) {
        self.emptied.retain(|segment| *segment < end);
    }

    /// Why the pass under way took its victims.
    fn why(&self) -> WhyTaken {
        match (self.aim == Aim::Leaving, self.takes_emptiest, self.is_idle_pass) {
            (true, ..) => WhyTaken::Leaving,
            (_, true, _) => WhyTaken::Emptiest,
            (.., true) => WhyTaken::Idle,
            _ => WhyTaken::Policy,
        }
    }

    /// Drops a pass that has not moved anything.
    pub(in crate::lfs) fn forget_victims(&mut self) {
        self.victims.clear();
        self.is_idle_pass = false;
        self.aim = Aim::Room;
    }
}

impl Lfs {
    /// The next step of a pass, resumed after each `Need`.
    pub(in crate::lfs) fn clean_step(&mut self, now: TimeNs, room: &Room) -> Outcome<Cleaned> {
        let result = self.try_clean(now, room);
        if !self.upkeep.cleaning.has_victims() {
            self.upkeep.cleaning.aim = Aim::Room;
        }
        self.upkeep.gather(matches!(result, Err(Stop::Need(_)) | Ok(Cleaned::Part)));
        result
    }

    fn try_clean(&mut self, now: TimeNs, room: &Room) -> Outcome<Cleaned> {
        if self.upkeep.cleaning.victims.is_empty() {
            self.choose_victims(now, room)?;
            if self.upkeep.cleaning.victims.is_empty() {
                return Ok(Cleaned::Nothing);
            }
        }
        self.fetch_victims()?;
        if self.upkeep.cleaning.victims.is_empty() {
            return Ok(Cleaned::Pass);
        }
        self.ensure_pool(CHECKPOINT_SEGMENTS)?;
        if self.cut_victims()? || self.prepare_background(now)? {
            return Ok(Cleaned::Part);
        }
        // Users' changes first; then memory and log agree, and a pass can take its blocks from the segments.
        self.commit_scope(now, Scope::All, Cause::Due)?;
        let live = self.find_live()?;
        self.move_live(now, &live)?;
        Ok(Cleaned::Pass)
    }

    /// Calls a function for each victim. A victim that cannot be cleaned because it, or metadata that leads to it, is damaged,
    /// is quarantined; the others can still be cleaned. `None` means that the segment is not the chosen victim any more.
    ///
    /// # Errors
    /// `Need` for all of them together.
    fn for_victims(
        &mut self,
        mut work: impl FnMut(&mut Self, &mut Victim, &mut Vec<Fetch>) -> Outcome<Option<()>>,
    ) -> Outcome<()> {
        let mut needs = Vec::new();
        let mut stopped = None;
        let mut kept = Vec::new();
        for mut victim in std::mem::take(&mut self.upkeep.cleaning.victims) {
            let done = if stopped.is_none() { work(self, &mut victim, &mut needs) } else { Ok(Some(())) };
            match done {
                Ok(Some(())) => kept.push(victim),
                Ok(None) => {}
                Err(Stop::Fail(why)) => self.put_in_quarantine(Thing::Segment(victim.segment()), why),
                Err(stop) => {
                    stopped = Some(stop);
                    kept.push(victim);
                }
            }
        }
        self.upkeep.cleaning.victims = kept;
        needs.dedup();
        match stopped {
            Some(stop) => Err(stop),
            None if needs.is_empty() => Ok(()),
            None => Err(Stop::Need(needs)),
        }
    }

    /// Brings the parts of the victims that the pass needs into memory. The next reads of all victims are requested together.
    fn fetch_victims(&mut self) -> Outcome<()> {
        self.for_victims(Self::bring_victim)
    }

    fn bring_victim(&mut self, victim: &mut Victim, needs: &mut Vec<Fetch>) -> Outcome<Option<()>> {
        let medium = self.options.medium;
        victim.go_on(&medium, &self.sb.uuid, &self.geo);
        if victim.wants_choice() {
            let needs_before = needs.len();
            let Some(live) = self.live_in(victim, needs)? else { return Ok(None) };
            if needs.len() > needs_before {
                return Ok(Some(()));
            }
            victim.choose(&medium, &self.geo, live.iter());
        }
        for run in victim.asked() {
            let what = Wanted::Part(victim.segment(), *run);
            if let Some(why) = self.shelf.take_failure(&what) {
                return Err(why.into());
            }
            let at_bytes = self.geo.device_bytes(self.geo.addr(victim.segment(), run.from));
            let len_bytes = run.bytes() as u32;
            needs.push(Fetch { token: what.token(), at_bytes, len_bytes, ahead: Ahead::NONE });
        }
        Ok(Some(()))
    }

    /// Checks and copies the next live blocks. False if all are there.
    fn cut_victims(&mut self) -> Outcome<bool> {
        let most = self.options.commit_step_items;
        let mut left = most;
        self.for_victims(|lfs, victim, needs| {
            if victim.is_cut() || left == 0 {
                return Ok(Some(()));
            }
            let needs_before = needs.len();
            let Some(live) = lfs.live_in(victim, needs)? else { return Ok(None) };
            if needs.len() == needs_before {
                let block_bytes = lfs.geo.block_bytes;
                left -=
                    victim.cut(&lfs.geo, &live, left, |entry, stored| checked(entry, stored, block_bytes));
            }
            Ok(Some(()))
        })?;
        Ok(left < most)
    }

    /// Supplies sectors of a victim.
    pub(in crate::lfs) fn supply_victim(
        &mut self,
        segment: SegmentId,
        run: Run,
        bytes: &Fetched,
    ) -> Result<(), FsError> {
        self.upkeep.cleaning.read_bytes += bytes.len() as u64;
        match self.upkeep.cleaning.victims.iter_mut().find(|victim| victim.segment() == segment) {
            Some(victim) => victim.supply(run, bytes),
            None => Ok(()),
        }
    }

    /// Entries of the victims that are still current, in the order of the log.
    fn find_live(&mut self) -> Outcome<Vec<(SegmentId, Entry)>> {
        let mut live = Vec::new();
        self.for_victims(|lfs, victim, needs| {
            let Some(found) = lfs.live_in(victim, needs)? else { return Ok(None) };
            live.extend(found.into_iter().map(|entry| (victim.segment(), entry)));
            Ok(Some(()))
        })?;
        Ok(live)
    }

    /// Current entries of one victim; `None` if the segment has been emptied and written again since it was chosen. If they are
    /// fewer bytes than the usage table says, the victim's summaries are damaged. It would be chosen for ever, so it is
    /// quarantined once the blocks found in it have moved.
    fn live_in(&mut self, victim: &Victim, needs: &mut Vec<Fetch>) -> Outcome<Option<Vec<Entry>>> {
        let segment = victim.segment();
        let needs_before = needs.len();
        let stated = gather_needs(self.tables.usage.get(&mut self.shelf, segment), needs)?;
        if stated.is_some_and(|stated| !stated.in_use || stated.written != victim.candidate.written) {
            return Ok(None);
        }
        let mut live = Vec::new();
        let mut live_bytes = 0;
        for entry in victim.entries().filter(|e| e.ptr.is_stored()) {
            if gather_needs(self.is_live(entry), needs)? == Some(true) {
                live_bytes += u64::from(entry.ptr.stored_bytes());
                live.push(*entry);
            }
        }
        let stated_bytes = stated.map_or(0, |s| u64::from(s.live_bytes));
        // With retained points the rest may be theirs: `keep` finds out.
        let has_points = !self.tables.points.is_empty();
        if needs.len() == needs_before && stated_bytes > live_bytes && !has_points {
            self.put_in_quarantine(Thing::Segment(segment), damaged(segment, stated_bytes, live_bytes));
        }
        Ok(Some(live))
    }

    /// Whether an entry is current; if it is, the blocks that turn dirty when it moves are in memory.
    pub(in crate::lfs) fn is_live(&mut self, entry: &Entry) -> Outcome<bool> {
        if !entry.ptr.is_stored() || self.current_ptr(entry.ino, entry.version, entry.kind)? != entry.ptr {
            return Ok(false);
        }
        match entry.kind {
            EntryKind::Inode { .. } => {
                self.load_inode(entry.ino)?;
            }
            EntryKind::Block { fork, level, index } if !is_table(entry.ino) => {
                self.load_parents(block_key(entry.ino, fork, level, index))?;
            }
            EntryKind::Block { .. } | EntryKind::Freed => {}
        }
        Ok(true)
    }

    /// Where a block or record is now; a hole if it is nowhere or its inode has another version, pending while it is dirty.
    pub(crate) fn current_ptr(&mut self, ino: InodeNo, version: u32, kind: EntryKind) -> Outcome<BlockPtr> {
        let EntryKind::Block { fork, level, index } = kind else {
            let is_record = matches!(kind, EntryKind::Inode { .. });
            return if is_record {
                Ok(self.tables.imap.get(&mut self.shelf, ino)?.ptr)
            } else {
                Ok(BlockPtr::HOLE)
            };
        };
        match ino {
            InodeNo::INODE_MAP => {
                return self.tables.imap.table.ptr(&mut self.shelf, u32::from(level), index);
            }
            InodeNo::SEGMENT_USAGE => {
                return self.tables.usage.table.ptr(&mut self.shelf, u32::from(level), index);
            }
            _ => {}
        }
        // Versions first: a file deleted or truncated to zero needs no inode read (Sprite LFS, section 3.3).
        let map = self.tables.imap.get(&mut self.shelf, ino)?;
        // A new file has no record yet, but content that was laid out ahead of its first one is live.
        let in_memory = self.files.peek(ino);
        let exists = !map.ptr.is_hole() || in_memory.is_some_and(|core| !core.freed);
        if !exists || in_memory.map_or(map.version, |core| core.version) != version {
            return Ok(BlockPtr::HOLE);
        }
        self.load_inode(ino)?;
        self.ptr(block_key(ino, fork, level, index))
    }

    /// Turns the live blocks dirty, victim after victim as long as there is room, and commits them, with nothing else.
    fn move_live(&mut self, now: TimeNs, live: &[(SegmentId, Entry)]) -> Outcome<()> {
        // As the commit will count, after that of users' changes: blocks that it cannot lay out would stay dirty and block every later
        // commit.
        let spare_segments = self.pass_segments(&self.room_now());
        let room_bytes = spare_segments * Log::certain_sectors(&self.geo) * u64::from(SECTOR_BYTES);
        let victims = std::mem::take(&mut self.upkeep.cleaning.victims);
        let before_bytes = self.taken_log_bytes();
        let (mut moved_bytes, mut cleaned, mut in_part) = (0, 0, 0);
        for victim in victims {
            // The sum so far is exact and includes all metadata.
            let taken_bytes = self.taken_log_bytes();
            let of_victim = live.iter().filter(|(segment, _)| *segment == victim.segment());
            let more_bytes = self.turns_dirty_bytes(of_victim.map(|(_, entry)| entry));
            // Metadata is at most as much again.
            let more_bytes = more_bytes.min(2 * u64::from(victim.candidate.live_bytes));
            if cleaned > 0 && taken_bytes + more_bytes > room_bytes {
                break;
            }
            self.learn(now, victim.candidate.log, victim.candidate.written);
            moved_bytes += self.move_segment(&victim, live);
            self.keep_later(&victim);
            self.upkeep.cleaning.note_emptied([victim.segment()]);
            let why = self.upkeep.cleaning.why();
            self.upkeep.cleaning.taken.add(victim.candidate, now, why);
            cleaned += 1;
            in_part += u64::from(!victim.is_whole(&self.geo));
        }
        let dirtied_bytes = self.taken_log_bytes().saturating_sub(before_bytes);
        self.upkeep.cleaning.growth = Growth { moved_bytes, dirtied_bytes };
        self.upkeep.cleaning.wants_checkpoint = true;
        // If clean segments are short after all, the blocks stay dirty and the next commit writes them.
        if !self.freeze(now, Scope::All, Cause::Cleaning)? {
            self.commit_scope(now, Scope::All, Cause::Cleaning)?;
        }
        self.accounts.counters.segments_cleaned += cleaned;
        self.accounts.counters.cleaner_passes += u64::from(cleaned > 0);
        self.accounts.counters.cleaner_passes_emptiest +=
            u64::from(cleaned > 0 && self.upkeep.cleaning.takes_emptiest);
        if self.upkeep.cleaning.is_on_demand {
            self.accounts.counters.segments_cleaned_on_demand += cleaned;
        }
        self.accounts.counters.cleaner_moved_bytes += moved_bytes;
        self.accounts.counters.cleaner_read_bytes += std::mem::take(&mut self.upkeep.cleaning.read_bytes);
        self.accounts.counters.segments_read_in_part += in_part;
        Ok(())
    }

    /// Turns the live blocks of one victim dirty; returns how many bytes they are.
    fn move_segment(&mut self, victim: &Victim, live: &[(SegmentId, Entry)]) -> u64 {
        let mut moved_bytes = 0;
        for (_, entry) in live.iter().filter(|(s, _)| *s == victim.segment()) {
            if self.move_entry(victim.segment(), victim.block(&self.geo, entry), entry) {
                moved_bytes += u64::from(entry.ptr.stored_bytes());
            }
        }
        moved_bytes
    }

    /// Turns one live block dirty, given what [`checked`] returned for it. If that is nothing, the block stays, its segment is
    /// quarantined, and the result is false.
    pub(in crate::lfs) fn move_entry(
        &mut self,
        segment: SegmentId,
        block: Option<Buf>,
        entry: &Entry,
    ) -> bool {
        let Some(block) = block else {
            let expected_bytes = u64::from(entry.ptr.stored_bytes());
            self.put_in_quarantine(Thing::Segment(segment), damaged(segment, expected_bytes, 0));
            return false;
        };
        let EntryKind::Block { fork, level, index } = entry.kind else {
            self.mark_turned(entry.ino, Turn::Moves);
            self.settle_record(entry.ino);
            return true;
        };
        match entry.ino {
            InodeNo::INODE_MAP => self.tables.imap.move_block(u32::from(level), index),
            InodeNo::SEGMENT_USAGE => self.tables.usage.move_block(u32::from(level), index),
            ino => {
                let key = block_key(ino, fork, level, index);
                let place = BlockPlace { level, fork: key.fork, index: key.index };
                // An indirect block above a moved one is dirty already.
                if !self.core(ino).dirty_blocks.contains(&place) {
                    let charge = entry.ptr.stored_bytes();
                    let crc = (charge == self.geo.block_bytes).then_some(entry.ptr.crc);
                    let fresh = Fresh { buf: block, crc };
                    self.make_dirty(key, Some(fresh), charge, Turn::Moves);
                    self.settle_record(ino);
                }
            }
        }
        true
    }
}

/// The reason not to clean a segment with damaged blocks or summaries.
fn damaged(segment: SegmentId, expected_bytes: u64, found_bytes: u64) -> FsError {
    FsError::Corrupt {
        what: "live blocks".to_owned(),
        at: format!("segment {segment}"),
        expected: format!("{expected_bytes} bytes"),
        found: format!("{found_bytes} that can be read and found"),
    }
}

/// A live block in the form in which the cache has it, if its stored bytes match its pointer; empty if it is a record or belongs
/// to a table: those are rebuilt from memory.
pub(in crate::lfs) fn checked(entry: &Entry, stored: &[u8], block_bytes: u32) -> Option<Buf> {
    if firnfs_format::crc32c(stored) != entry.ptr.crc {
        return None;
    }
    let is_copied = matches!(entry.kind, EntryKind::Block { .. }) && !is_table(entry.ino);
    Some(if is_copied { padded(stored, block_bytes) } else { Buf::from([]) })
}

pub(in crate::lfs) fn is_table(ino: InodeNo) -> bool {
    matches!(ino, InodeNo::INODE_MAP | InodeNo::SEGMENT_USAGE)
}
