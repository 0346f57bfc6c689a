//! Which segments a pass of the cleaner takes: its candidates, their order by the policy, and how many of them.
//!
//! A pass reads as many victims as it will have room to move (decision 0213), and takes none if moving them would gain nothing.
//!
//! Callers: `clean`; `watch` asks what the next choice would see, `port` how much one pass takes.

use crate::clean::{Candidate, Policy, Terms};
use crate::error::{Outcome, Stop};
use crate::lfs::Lfs;
use crate::lfs::base::damage::Thing;
use crate::lfs::base::geometry::Geometry;
use crate::lfs::room::segments::Room;
use crate::lfs::upkeep::clean::Aim;
use crate::lfs::write::log::Log;
use firnfs_format::table::UsageEntry;
use firnfs_format::{SECTOR_BYTES, SegmentId, TimeNs};

/// Victims of one pass at most.
const VICTIMS: usize = 16;
/// Segments written within a second of each other differ by their utilisation only.
const AGE_GRAIN_NS: u64 = 1_000_000_000;
/// Bytes of victims that one pass holds in memory at most.
const VICTIM_BYTES: u64 = 16 << 20;

impl Lfs {
    pub(super) fn choose_victims(&mut self, now: TimeNs, room: &Room) -> Outcome<()> {
        let mut candidates = Vec::new();
        self.upkeep.cleaning.finds_empty = false;
        for leaf in 0..self.tables.usage.leaves() {
            let entries = match self.tables.usage.leaf(&mut self.shelf, leaf) {
                Err(Stop::Fail(why)) => {
                    self.put_in_quarantine(Thing::SegmentUsage, why);
                    continue;
                }
                other => other?,
            };
            for (segment, entry) in entries {
                let may_clean = self.may_clean(segment);
                self.upkeep.cleaning.finds_empty |= entry.in_use && entry.live_bytes == 0 && may_clean;
                candidates.extend(self.candidate(segment, &entry).filter(|_| may_clean));
            }
        }
        let mut count = victims_at_once(&self.geo);
        if self.upkeep.cleaning.aim != Aim::Room {
            self.choose_for_shrinking(now, room, candidates, count);
            return Ok(());
        }
        candidates.retain(|c| !self.tables.usage.is_leaving(c.segment));
        if self.upkeep.cleaning.is_idle_pass {
            self.leave_fuller(&mut candidates);
            // A user who comes back during a pass waits until the pass is written.
            count = count.div_ceil(2);
        }
        let terms = self.terms(now);
        // Considering age pays in the long run. But while users' writes wait for the reserve, the cleaner takes the segments
        // that give the most room now.
        if !room.is_below_reserve() {
            let ranked = self.options.cleaning_policy.choose(candidates.iter().copied(), &terms, count);
            self.upkeep.cleaning.begin(self.worthwhile(room, ranked), false);
        }
        if !self.upkeep.cleaning.has_victims() {
            // By age, segments may come first that are too full to be worthwhile.
            let emptiest = Policy::Greedy.choose(candidates.iter().copied(), &terms, count);
            self.upkeep.cleaning.begin(self.worthwhile(room, emptiest), true);
        }
        Ok(())
    }

    /// The emptiest segments on one side of the end that the volume will have. Those beyond it give no clean segments, however much
    /// is dead in them.
    fn choose_for_shrinking(
        &mut self,
        now: TimeNs,
        room: &Room,
        mut candidates: Vec<Candidate>,
        count: usize,
    ) {
        let is_beyond = self.upkeep.cleaning.aim == Aim::Leaving;
        let first = self.first_leaving();
        candidates.retain(|c| (c.segment >= first) == is_beyond);
        let emptiest = Policy::Greedy.choose(candidates.iter().copied(), &self.terms(now), count);
        let victims = match is_beyond {
            true => that_fit(emptiest, self.pass_segments(room) * room.usable_bytes),
            false => self.worthwhile(room, emptiest),
        };
        self.upkeep.cleaning.begin(victims, !is_beyond);
    }

    /// The facts of a segment that has something to gain by cleaning it; `None` for any other.
    fn candidate(&self, segment: SegmentId, entry: &UsageEntry) -> Option<Candidate> {
        let UsageEntry { live_bytes, written, youngest, log, .. } = *entry;
        let gains = entry.in_use && live_bytes > 0 && live_bytes < self.geo.segment_bytes;
        gains.then_some(Candidate { segment, live_bytes, written, youngest, log })
    }

    /// True unless a log writes to the segment, it is damaged, or the last pass emptied it. Blocks of tables that a pass marked
    /// stay where they are until the next checkpoint.
    fn may_clean(&self, segment: SegmentId) -> bool {
        self.is_idle(segment) && !self.upkeep.cleaning.has_emptied(segment)
    }

    /// The facts that are the same for all candidates of the next choice.
    pub(in crate::lfs) fn terms(&self, now: TimeNs) -> Terms {
        let turn = self.accounts.counters.segments_cleaned;
        Terms::new(self.geo.segment_bytes, now, AGE_GRAIN_NS).with_turn(turn)
    }

    /// What a policy would see of a segment in the next choice; `None` if the cleaner would not consider it.
    pub(in crate::lfs) fn candidate_now(&self, segment: SegmentId, entry: &UsageEntry) -> Option<Candidate> {
        self.candidate(segment, entry).filter(|_| self.may_clean(segment))
    }

    /// True for segments that no log writes to, whose bytes are all on the device, and that are not known to be damaged.
    pub(in crate::lfs) fn is_idle(&self, segment: SegmentId) -> bool {
        !self.writer.log.is_open(segment)
            && !self.shelf.is_in_flight(segment)
            && self.why_quarantined(Thing::Segment(segment)).is_none()
    }

    /// As many of the ranked victims as the clean segments at hand can take, if something is gained; else none.
    ///
    /// Moving a block rewrites the metadata that leads to it. That goes to a log of its own, and the next pass rewrites most
    /// of it again, so segments of that log become empty by themselves: the metadata takes room (see [`Self::move_live`]) but
    /// is no loss. The summaries are.
    fn worthwhile(&self, room: &Room, ranked: Vec<Candidate>) -> Vec<Candidate> {
        let mut victims = that_fit(ranked.clone(), self.expected_bytes(room));
        if victims.is_empty() {
            victims = that_fit(ranked, self.pass_segments(room) * room.usable_bytes);
        }
        let live = victims.iter().map(|victim| u64::from(victim.live_bytes)).sum();
        let dead = victims.len() as u64 * u64::from(self.geo.segment_bytes) - live;
        if self.is_gain(live, dead) { victims } else { Vec::new() }
    }

    /// Live bytes for which a pass can expect room once its victims are here. While it reads, users go on writing, on demand as much
    /// as it reads and down to the reserve; what it has read and has no room for then would be read in vain.
    fn expected_bytes(&self, room: &Room) -> u64 {
        if self.upkeep.cleaning.is_idle_pass {
            return self.pass_segments(room) * room.usable_bytes;
        }
        let segments = room.for_moves_after(victims_at_once(&self.geo) as u64);
        let room_bytes = segments * Log::certain_sectors(&self.geo) * u64::from(SECTOR_BYTES);
        self.upkeep.cleaning.fits_bytes(room_bytes)
    }

    /// Whether emptying segments with that many live and dead bytes gains more than the summaries of the moved blocks
    /// cost.
    pub(in crate::lfs) fn is_gain(&self, live_bytes: u64, dead_bytes: u64) -> bool {
        dead_bytes > live_bytes / 64 + 2 * u64::from(self.geo.unit_sectors * SECTOR_BYTES)
    }
}

/// The first of these victims, as many as have their live bytes in that room.
fn that_fit(mut ranked: Vec<Candidate>, room_bytes: u64) -> Vec<Candidate> {
    let mut live_bytes = 0;
    let fit = ranked.iter().take_while(|victim| {
        live_bytes += u64::from(victim.live_bytes);
        live_bytes <= room_bytes
    });
    let fit = fit.count();
    ranked.truncate(fit);
    ranked
}

/// The most segments that one pass reads; it may read them whole.
pub(in crate::lfs) fn victims_at_once(geo: &Geometry) -> usize {
    VICTIMS.min((VICTIM_BYTES / u64::from(geo.segment_bytes)).max(2) as usize)
}
