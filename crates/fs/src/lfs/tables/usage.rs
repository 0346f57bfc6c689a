//! Segment usage: how much of every segment is live (Sprite LFS, section 3.6), and which segments are clean.
//!
//! Changes since the last checkpoint are kept as differences beside the tree and merged by the next one. A segment that
//! a checkpoint finds empty becomes clean with that checkpoint's number. It may be written again once the following
//! checkpoint is durable: then neither slot, nor roll-forward from either, reaches it.

use crate::error::Outcome;
use crate::lfs::base::geometry::Geometry;
use crate::lfs::base::kinds::{KindBytes, LogKind};
use crate::lfs::map::shelf::Shelf;
use crate::lfs::tables::holds::{HoldId, HoldKind, Holds};
use crate::lfs::tables::table::Table;
use crate::mutation::{Mutation, is_on};
use firnfs_format::checkpoint::TableRoot;
use firnfs_format::table::{Node, UsageEntry};
use firnfs_format::{Epoch, InodeNo, SegmentId, TimeNs};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// What changed in a segment since the last checkpoint.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    live_bytes: i64,
    /// Taken for writing since: the entry in the tree is out of date.
    activated: bool,
    youngest: TimeNs,
    written: TimeNs,
    log: u8,
}

/// The segments at the end of a volume that is to become smaller. The log leaves them: no search finds them, and they count as
/// neither clean nor ready.
#[derive(Clone)]
struct Leaving {
    first: u64,
    /// As [`Usage::clean`], of these segments.
    clean: u64,
    /// As `Usage::emptied`, of these segments.
    emptied: Vec<(Epoch, u64)>,
}

/// See the module's head.
#[derive(Clone)]
pub struct Usage {
    /// The tree as of the last checkpoint.
    pub table: Table,
    changes: FxHashMap<u64, Change>,
    segments: u64,
    /// Where the search for clean segments goes on.
    cursor: u64,
    /// Segments neither in use nor being written.
    clean: u64,
    /// How many of those were found empty too recently to be written again, by the checkpoint that found them.
    emptied: Vec<(Epoch, u64)>,
    /// Leaves to rewrite although nothing in them changed.
    moving: BTreeSet<u64>,
    /// Leaves that the changes belong to.
    changed_leaves: BTreeSet<u64>,
    /// The entries of a repair, which replace the tree; the tree is empty then.
    restated: FxHashMap<u64, UsageEntry>,
    segment_bytes: u32,
    /// Live bytes of all segments by kind; `None` on a volume of a version that did not keep them.
    live: Option<KindBytes>,
    /// A segment whose live bytes came out negative, or larger than the segment.
    wrong: Option<(SegmentId, u64)>,
    /// Older states that are still read.
    holds: Holds,
    /// Set while the log leaves the end of the volume.
    leaving: Option<Leaving>,
}

impl Usage {
    /// From the checkpoint: its root, its number, and how many segments it found empty.
    pub fn new(root: TableRoot, geo: &Geometry, epoch: Epoch, emptied: u32) -> Self {
        let segments = geo.segments;
        Self {
            table: Table::new(InodeNo::SEGMENT_USAGE, root, geo.block_bytes),
            changes: FxHashMap::default(),
            segments,
            cursor: 0,
            clean: segments.saturating_sub(root.used),
            emptied: vec![(epoch, u64::from(emptied))],
            moving: BTreeSet::new(),
            changed_leaves: BTreeSet::new(),
            restated: FxHashMap::default(),
            segment_bytes: geo.segment_bytes,
            live: None,
            wrong: None,
            holds: Holds::default(),
            leaving: None,
        }
    }

    /// The table with the live bytes by kind, if they are known.
    pub fn with_live(self, live: Option<KindBytes>) -> Self {
        Self { live, ..self }
    }

    /// Live bytes of all segments by kind, if they are known.
    pub fn live(&self) -> Option<KindBytes> {
        self.live
    }

    /// Replaces the whole table by these entries, all that are not blank, by segment, and these live bytes by kind. The
    /// next checkpoint writes it whole.
    pub fn restate(&mut self, geo: &Geometry, entries: &[(u64, UsageEntry)], live: KindBytes) {
        *self = Self::new(Table::EMPTY, geo, Epoch(0), 0).with_live(Some(live));
        let mut emptied = BTreeMap::new();
        for (segment, entry) in entries {
            self.changed_leaves.insert(segment / self.table.fan());
            self.restated.insert(*segment, *entry);
            if entry.in_use {
                self.clean = self.clean.saturating_sub(1);
            } else {
                *emptied.entry(entry.epoch.0).or_insert(0) += 1;
            }
        }
        self.emptied = emptied.into_iter().map(|(epoch, count)| (Epoch(epoch), count)).collect();
    }

    /// The volume has more segments now; the new ones are clean. The search for clean segments goes on with them: a volume that
    /// grows is mostly full, and has few others.
    pub fn grow(&mut self, segments: u64) {
        self.clean += segments.saturating_sub(self.segments);
        self.cursor = self.segments;
        self.segments = self.segments.max(segments);
    }

    /// From now on the log leaves the segments from `first` on. `clean` are the entries of those that are clean.
    pub fn begin_leaving(&mut self, first: SegmentId, clean: &[UsageEntry]) {
        let mut leaving = Leaving { first: first.0, clean: clean.len() as u64, emptied: Vec::new() };
        self.clean = self.clean.saturating_sub(leaving.clean);
        for (epoch, count) in &mut self.emptied {
            let left = clean.iter().filter(|entry| entry.epoch == *epoch).count() as u64;
            *count = count.saturating_sub(left);
            leaving.emptied.push((*epoch, left));
        }
        self.leaving = Some(leaving);
    }

    /// The log may take all segments again.
    pub fn end_leaving(&mut self) {
        if let Some(leaving) = self.leaving.take() {
            self.clean += leaving.clean;
            self.emptied.extend(leaving.emptied);
        }
    }

    /// The volume ends where the segments begin that the log has left; all of those are clean.
    pub fn shrink(&mut self, segments: u64) {
        self.leaving = None;
        self.segments = segments;
        self.cursor %= segments.max(1);
    }

    /// True if the log leaves that segment.
    pub fn is_leaving(&self, segment: SegmentId) -> bool {
        self.leaving.as_ref().is_some_and(|leaving| segment.0 >= leaving.first)
    }

    /// Segments that the log may take.
    fn kept(&self) -> u64 {
        self.leaving.as_ref().map_or(self.segments, |leaving| leaving.first)
    }

    fn change(&mut self, segment: SegmentId) -> &mut Change {
        self.changes.entry(segment.0).or_insert_with(|| {
            self.changed_leaves.insert(segment.0 / self.table.fan());
            Change::default()
        })
    }

    /// Adds live bytes of a kind to a segment that is being written.
    pub fn add(&mut self, segment: SegmentId, kind: LogKind, bytes: u32, youngest: TimeNs, written: TimeNs) {
        if let Some(live) = &mut self.live {
            live.add(kind, bytes);
        }
        let change = self.change(segment);
        change.live_bytes += i64::from(bytes);
        change.youngest = change.youngest.max(youngest);
        change.written = change.written.max(written);
    }

    /// Notes when a segment was written.
    pub fn note_write(&mut self, segment: SegmentId, written: TimeNs) {
        let change = self.change(segment);
        change.written = change.written.max(written);
    }

    /// Live bytes of a kind died, but a retained point has seen them: they stay where they are.
    pub fn keep_dead(&mut self, kind: LogKind, bytes: u32) {
        if let Some(live) = &mut self.live {
            live.sub(kind, bytes);
            live.add(LogKind::Past, bytes);
        }
    }

    /// The opposite of [`Self::sub`], before a checkpoint.
    pub fn take_back(&mut self, segment: SegmentId, kind: LogKind, bytes: u32) {
        if let Some(live) = &mut self.live {
            live.add(kind, bytes);
        }
        self.change(segment).live_bytes += i64::from(bytes);
    }

    /// Subtracts live bytes of a kind; see [`Lfs::bury`](crate::lfs::Lfs::bury).
    pub fn sub(&mut self, segment: SegmentId, kind: LogKind, bytes: u32) {
        if let Some(live) = &mut self.live {
            live.sub(kind, bytes);
        }
        self.change(segment).live_bytes -= i64::from(bytes);
    }

    /// Notes that a log has left a segment, so that the next checkpoint examines it: it may be empty.
    pub fn look_again(&mut self, segment: SegmentId) {
        self.change(segment);
    }

    /// Takes a clean segment for writing.
    pub fn activate(&mut self, segment: SegmentId, log: u8) {
        let change = self.change(segment);
        change.activated = true;
        change.log = log;
        let clean = match &mut self.leaving {
            Some(leaving) if segment.0 >= leaving.first => &mut leaving.clean,
            _ => &mut self.clean,
        };
        *clean = clean.saturating_sub(1);
    }

    /// Segments changed since the last checkpoint.
    pub fn changed(&self) -> impl Iterator<Item = SegmentId> {
        let restated = self.restated.keys().filter(|segment| !self.changes.contains_key(segment));
        self.changes.keys().chain(restated).copied().map(SegmentId)
    }

    /// Leaves with segments that changed since the last checkpoint.
    pub fn changed_blocks(&self) -> u64 {
        self.changed_leaves.len() as u64
    }

    /// How many segments changed since the last checkpoint.
    pub fn changed_len(&self) -> usize {
        self.changes.len() + self.restated.len()
    }

    /// The present state of a segment, from the tree and what changed since.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn get(&self, shelf: &mut Shelf, segment: SegmentId) -> Outcome<UsageEntry> {
        let stored: UsageEntry = self.table.get(shelf, segment.0)?;
        Ok(self.apply(segment.0, stored))
    }

    /// [`Self::get`], if that is known without I/O.
    pub fn peek(&self, shelf: &Shelf, segment: SegmentId) -> Option<UsageEntry> {
        let stored = match self.changes.get(&segment.0) {
            Some(change) if change.activated => UsageEntry::default(),
            _ => self.restated.get(&segment.0).copied().or_else(|| self.table.peek(shelf, segment.0))?,
        };
        Some(self.apply(segment.0, stored))
    }

    /// The log that wrote a segment, if that is known without I/O.
    pub fn peek_log(&self, shelf: &Shelf, segment: SegmentId) -> Option<u8> {
        self.peek(shelf, segment).map(|entry| entry.log)
    }

    /// True if the present state of a segment is possible.
    fn is_sound(&self, segment: u64, stored: &UsageEntry) -> bool {
        let change = self.changes.get(&segment).copied().unwrap_or_default();
        let stored = self.restated.get(&segment).unwrap_or(stored);
        let base = if change.activated { 0 } else { i64::from(stored.live_bytes) };
        (0..=i64::from(self.segment_bytes)).contains(&(base + change.live_bytes))
    }

    /// A segment whose account turned out wrong in a merge, and the bytes that its table entry stated; returned once.
    pub fn take_wrong(&mut self) -> Option<(SegmentId, u64)> {
        self.wrong.take()
    }

    /// The present state of a segment whose entry in the tree is `stored`.
    pub fn apply(&self, segment: u64, stored: UsageEntry) -> UsageEntry {
        let stored = self.restated.get(&segment).copied().unwrap_or(stored);
        let Some(change) = self.changes.get(&segment) else { return stored };
        let base =
            if change.activated { UsageEntry { log: change.log, ..Default::default() } } else { stored };
        let live = i64::from(base.live_bytes) + change.live_bytes;
        UsageEntry {
            // A segment whose account is wrong counts as full: it is neither cleaned nor found empty.
            live_bytes: u32::try_from(live).unwrap_or(self.segment_bytes).min(self.segment_bytes),
            in_use: base.in_use || change.activated,
            youngest: base.youngest.max(change.youngest),
            written: base.written.max(change.written),
            ..base
        }
    }

    /// The present state of all segments of one leaf, with their numbers.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn leaf(&self, shelf: &mut Shelf, leaf: u64) -> Outcome<Vec<(SegmentId, UsageEntry)>> {
        let stored = self.table.leaf::<UsageEntry>(shelf, leaf)?;
        let first = leaf * self.table.fan();
        let last = (first + self.table.fan()).min(self.segments);
        Ok((first..last)
            .map(|n| {
                let entry = stored.get((n - first) as usize).copied().unwrap_or_default();
                (SegmentId(n), self.apply(n, entry))
            })
            .collect())
    }

    /// The leaf that has a segment.
    pub fn leaf_of(&self, segment: SegmentId) -> u64 {
        segment.0 / self.table.fan()
    }

    /// Leaves of the table.
    pub fn leaves(&self) -> u64 {
        self.segments.div_ceil(self.table.fan())
    }

    /// Clean segments, by whether they may be written while `durable` is the newest durable checkpoint, or have to wait for others.
    pub fn clean_segments(&self, durable: Epoch) -> (u64, u64) {
        let durable = self.reusable_before(durable);
        let recent: u64 = self.emptied.iter().filter(|(e, _)| !is_ready(*e, durable)).map(|(_, n)| n).sum();
        let ready = self.clean.saturating_sub(recent);
        (ready, self.clean - ready)
    }

    /// Holds the present state: no segment that is in use now is reused while the hold lasts.
    pub fn hold(&mut self, kind: HoldKind, durable: Epoch) -> HoldId {
        self.holds.add(kind, durable)
    }

    /// Ends a [`Self::hold`]; true if it lasted until now.
    pub fn end_hold(&mut self, id: HoldId) -> bool {
        self.holds.end(id)
    }

    /// Ends the holds that yield to users.
    pub fn yield_holds(&mut self) {
        self.holds.yield_all();
    }

    /// True during any [`Self::hold`].
    pub fn is_held(&self) -> bool {
        self.holds.is_any()
    }

    /// True if a yielding hold prevents the reuse of clean segments.
    pub fn yielding_holds_cost(&self, durable: Epoch) -> bool {
        let without = self.holds.oldest_firm().map_or(durable, |held| held.min(durable));
        let kept = |(epoch, count): &(Epoch, u64)| {
            *count > 0 && is_ready(*epoch, without) && !is_ready(*epoch, self.reusable_before(durable))
        };
        self.emptied.iter().any(kept)
    }

    /// Segments found empty before this checkpoint may be written once `durable` is the newest durable one.
    pub fn reusable_before(&self, durable: Epoch) -> Epoch {
        self.holds.oldest().map_or(durable, |held| held.min(durable))
    }

    /// Whether a clean segment may be written.
    pub fn is_ready(&self, entry: &UsageEntry, durable: Epoch) -> bool {
        self.is_ready_since(entry.epoch, durable)
    }

    /// Whether a segment may be written that this checkpoint found empty.
    pub fn is_ready_since(&self, found_by: Epoch, durable: Epoch) -> bool {
        is_ready(found_by, self.reusable_before(durable))
    }

    /// Finds clean segments that may be written, not in `taken`, at most `count`; fewer if one round finds no more.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub fn find_ready(
        &mut self,
        shelf: &mut Shelf,
        durable: Epoch,
        count: usize,
        taken: &dyn Fn(SegmentId) -> bool,
    ) -> Outcome<Vec<SegmentId>> {
        let durable = self.reusable_before(durable);
        let mut found = Vec::new();
        let (kept, fan) = (self.kept(), self.table.fan());
        let (start, leaves) = (self.cursor % kept.max(1), kept.div_ceil(fan));
        let has_clean = |node: &Node, capacity: u64| node.used < capacity;
        let mut at = start;
        let mut wrapped = false;
        while found.len() < count {
            let next = self.table.find_leaf(shelf, at / fan, leaves, &has_clean)?;
            let Some(leaf) = next.filter(|leaf| !wrapped || leaf * fan <= start) else {
                if wrapped {
                    break;
                }
                wrapped = true;
                at = 0;
                continue;
            };
            for (segment, entry) in self.leaf(shelf, leaf)? {
                let in_turn = segment.0 >= at && (!wrapped || segment.0 < start);
                let usable = !entry.in_use && is_ready(entry.epoch, durable) && !taken(segment);
                if in_turn && usable && segment.0 < kept && found.len() < count {
                    found.push(segment);
                }
            }
            at = (leaf + 1) * fan;
        }
        if let Some(last) = found.last() {
            self.cursor = (last.0 + 1) % kept.max(1);
        }
        Ok(found)
    }

    /// Leaves that hold those segments, and those that have to move.
    pub fn leaves_of(&self, segments: impl Iterator<Item = SegmentId>) -> BTreeSet<u64> {
        segments.map(|s| s.0 / self.table.fan()).chain(self.moving.iter().copied()).collect()
    }

    /// Makes the next checkpoint rewrite a block although nothing in it changed, because the cleaner needs its segment empty.
    pub fn move_block(&mut self, level: u32, index: u64) {
        self.moving.insert(index * self.table.fan().saturating_pow(level));
    }

    /// The final entries of all changed segments, for the checkpoint `epoch` that merges them; their leaves are in
    /// memory. Segments found empty turn clean, except those that are `open`. Returns how many.
    pub fn merge(
        &mut self,
        shelf: &mut Shelf,
        epoch: Epoch,
        open: &dyn Fn(SegmentId) -> bool,
    ) -> (Vec<(u64, UsageEntry)>, Vec<SegmentId>) {
        let mut numbers: Vec<u64> = self.changed().map(|segment| segment.0).collect();
        numbers.sort_unstable();
        let mut emptied = Vec::new();
        let mut wrong = None;
        let entries = numbers
            .into_iter()
            .map(|n| {
                let stored: UsageEntry =
                    self.table.get(shelf, n).expect("the checkpoint brought the leaf into memory");
                let mut entry = self.apply(n, stored);
                if !self.is_sound(n, &stored) {
                    wrong.get_or_insert((SegmentId(n), u64::from(stored.live_bytes)));
                }
                if entry.in_use && entry.live_bytes == 0 && !open(SegmentId(n)) {
                    entry = UsageEntry { epoch, ..Default::default() };
                    emptied.push(SegmentId(n));
                }
                (n, entry)
            })
            .collect();
        self.wrong = self.wrong.or(wrong);
        self.changes.clear();
        self.restated.clear();
        self.moving.clear();
        self.changed_leaves.clear();
        let left = emptied.iter().filter(|segment| self.is_leaving(**segment)).count() as u64;
        let kept = emptied.len() as u64 - left;
        self.clean += kept;
        // Older than the last two checkpoints: ready, unless they are held.
        let held = self.holds.oldest();
        let is_recent = |(e, _): &(Epoch, u64)| e.0 + 2 > epoch.0 || held.is_some_and(|held| *e >= held);
        self.emptied.retain(is_recent);
        self.emptied.push((epoch, kept));
        if let Some(leaving) = &mut self.leaving {
            leaving.clean += left;
            leaving.emptied.retain(is_recent);
            leaving.emptied.push((epoch, left));
        }
        (entries, emptied)
    }
}

fn is_ready(emptied: Epoch, durable: Epoch) -> bool {
    emptied.0 == 0 || emptied.0 < durable.0 || is_on(Mutation::ReuseAtOnce)
}
