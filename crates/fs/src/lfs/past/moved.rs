//! Stores remnants in their file, and follows them: see [`crate::lfs::tables::remnants`].
//!
//! The file has a list of pages for each segment; a page that is a hole ends the list. The file belongs to the present alone: no
//! point sees it. It exists while there are points.
//!
//! Invariant: between two checkpoints the file does not change; newer remnants are in memory. A crash loses those. Roll-forward
//! then makes the remnants again that the present needs, from the moves in the log's tail.

use crate::error::{FsError, Outcome, Stop, gather_needs};
use crate::fetch::Fetch;
use crate::lfs::Lfs;
use crate::lfs::tables::remnants::{Known, Move, Remnant, Which, decode_page, encode_page, page_len};
use crate::mutation::{Mutation, is_on};
use crate::store::{BlockKey, Buf, Fork};
use firnfs_format::checkpoint::PointCursor;
use firnfs_format::{BlockIndex, BlockPtr, Epoch, InodeNo, SegmentId, TimeNs};
use std::collections::BTreeMap;

/// Pages that a segment can have in the file.
const PAGES: u64 = 1024;
/// Moves of one block that a reader follows; more are damage.
const MOVES_MAX: u32 = 1 << 20;

/// The changes to the remnants of one segment.
#[derive(Default)]
struct News {
    moved: Vec<Remnant>,
    /// Pointers that have no remnant any more.
    arrived: Vec<(Which, BlockPtr)>,
}

impl Lfs {
    /// Where the block or record at a place of a state is now; `ptr` is that state's pointer to it.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(crate) fn follow(&mut self, place: &PointCursor, state: Epoch, ptr: BlockPtr) -> Outcome<BlockPtr> {
        self.follow_through(Which::at(place), state, ptr, None)
    }

    /// As [`Self::follow`], for a block that leads to others: its place is remembered.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(in crate::lfs) fn follow_above(
        &mut self,
        place: &PointCursor,
        state: Epoch,
        ptr: BlockPtr,
    ) -> Outcome<BlockPtr> {
        let which = Which::at(place);
        if let Some(end) = self.tables.remnants.followed(which, state, &ptr) {
            return Ok(end);
        }
        let end = self.follow_through(which, state, ptr, None)?;
        self.tables.remnants.note_followed(which, state, &ptr, &end);
        Ok(end)
    }

    /// Where that block was at the newest durable checkpoint, and can still be read. No power cut undoes that place, so a clone
    /// may write it down.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(in crate::lfs) fn follow_durably(
        &mut self,
        place: &PointCursor,
        state: Epoch,
        ptr: BlockPtr,
    ) -> Outcome<BlockPtr> {
        let last = Some(self.tables.slots.durable()).filter(|_| !is_on(Mutation::ClonesFollowAll));
        self.follow_through(Which::at(place), state, ptr, last)
    }

    /// True if the pointers that two states have to one place lead to the same block or record, wherever it is now, or both are
    /// holes. A `second` without an epoch is a pointer of the present.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(in crate::lfs) fn is_same_then(
        &mut self,
        place: &PointCursor,
        (first_state, first): (Epoch, BlockPtr),
        (second_state, second): (Option<Epoch>, BlockPtr),
    ) -> Outcome<bool> {
        if first == second {
            return Ok(true);
        }
        // A block that moves keeps its birth.
        if !first.is_stored() || !second.is_stored() || first.birth != second.birth {
            return Ok(false);
        }
        let first = self.follow(place, first_state, first)?;
        let second = match second_state {
            Some(state) if !is_on(Mutation::NewerAsItWas) => self.follow(place, state, second)?,
            _ => second,
        };
        Ok(first == second)
    }

    /// Follows moves, all of them or those up to an epoch.
    fn follow_through(
        &mut self,
        which: Which,
        state: Epoch,
        ptr: BlockPtr,
        last: Option<Epoch>,
    ) -> Outcome<BlockPtr> {
        let (mut at, mut since) = (ptr, Epoch(state.0.saturating_add(1)));
        // A damaged file may lead in a circle of any length: then one of these places comes again.
        let mut been = (at, since);
        for step in 1..MOVES_MAX {
            match self.moved_to(which, &at, since, last)? {
                Some((next, moved)) if next.len_sectors == at.len_sectors => (at, since) = (next, moved),
                Some((next, _)) => return Err(self.misled(&at, &next).into()),
                None => return Ok(at),
            }
            if (at, since) == been {
                break;
            }
            if step.is_power_of_two() {
                been = (at, since);
            }
        }
        Err(self.misled(&ptr, &at).into())
    }

    fn misled(&self, from: &BlockPtr, to: &BlockPtr) -> FsError {
        FsError::Corrupt {
            what: "remnant of a moved block".to_owned(),
            at: self.geo.place(from.addr),
            expected: "a place where it ends, of the same length".to_owned(),
            found: self.geo.place(to.addr),
        }
    }

    /// The first move of a block away from a place in epoch `since` or later (up to `last`), and its epoch. An earlier move from
    /// there belongs to an earlier visit. (Moves of one epoch form no circle: if a block comes back, its remnant of that epoch at
    /// the place is removed.)
    ///
    /// Moves in the file of earlier epochs come before those in memory.
    fn moved_to(
        &mut self,
        which: Which,
        ptr: &BlockPtr,
        since: Epoch,
        last: Option<Epoch>,
    ) -> Outcome<Option<(BlockPtr, Epoch)>> {
        let segment = self.geo.segment_of(ptr.addr);
        let since = if is_on(Mutation::RemnantsOfAnyTime) { Epoch(0) } else { since };
        let epochs = since..=last.unwrap_or(Epoch(u32::MAX));
        let move_of = |remnant: &Remnant| (remnant.to, remnant.moved);
        let known = self.tables.remnant_index.first(segment, which, ptr, &epochs);
        let stored = match known.map(|first| first.map(move_of)) {
            Some(first) => first,
            None => {
                let (all, _) = self.pages(segment)?;
                self.tables.remnant_index.put(segment, all);
                self.tables.remnant_index.first(segment, which, ptr, &epochs).flatten().map(move_of)
            }
        };
        let epoch = self.tables.slots.epoch();
        if last.is_some() || stored.is_some_and(|(_, moved)| moved < epoch) {
            return Ok(stored);
        }
        Ok(match self.tables.remnants.known(which, ptr) {
            Known::Moved(to) => Some((to, epoch)),
            Known::Here => None,
            Known::Nothing => stored,
        })
    }

    fn page_key(segment: SegmentId, page: u64) -> BlockKey {
        let index = BlockIndex(segment.0 * PAGES + page);
        BlockKey { ino: InodeNo::REMNANTS, fork: Fork::Data, level: 0, index }
    }

    /// True if the file can have remnants of all segments.
    pub(in crate::lfs) fn can_have_remnants(&self) -> bool {
        self.geo.segments.saturating_mul(PAGES) < self.geo.map.max_blocks()
    }

    /// A page; `None` after the last one.
    fn page(&mut self, segment: SegmentId, page: u64) -> Outcome<Option<Buf>> {
        if !self.has_internal(InodeNo::REMNANTS)? {
            return Ok(None);
        }
        self.load(Self::page_key(segment, page))
    }

    /// All remnants of a segment in the file, and how many pages they take.
    fn pages(&mut self, segment: SegmentId) -> Outcome<(Vec<Remnant>, u64)> {
        let mut all = Vec::new();
        for page in 0..PAGES {
            match self.page(segment, page)? {
                Some(block) => all.append(&mut decode_page(&block)),
                None => return Ok((all, page)),
            }
        }
        Ok((all, PAGES))
    }

    /// Writes the remnants since the last checkpoint to the file. The caller commits what turns dirty with the next checkpoint.
    ///
    /// # Errors
    /// `Need`, `Corrupt`: nothing is changed then.
    pub(in crate::lfs) fn put_remnants(&mut self, now: TimeNs) -> Outcome<()> {
        if self.tables.remnants.is_empty() {
            return Ok(());
        }
        if self.tables.points.is_empty() {
            self.tables.remnants.forget();
            return Ok(());
        }
        self.open_internal(now, InodeNo::REMNANTS)?;
        let mut needs = Vec::new();
        let mut changes = Vec::new();
        for (segment, news) in self.news() {
            if let Some(mut pages) = gather_needs(self.changed_pages(segment, news), &mut needs)? {
                changes.append(&mut pages);
            }
        }
        for (key, _) in &changes {
            gather_needs(self.load_parents(*key), &mut needs)?;
        }
        needs.dedup_by(|a: &mut Fetch, b: &mut Fetch| a == b);
        if !needs.is_empty() {
            return Err(Stop::Need(needs));
        }
        for (key, remnants) in changes {
            self.tables.remnant_index.forget(SegmentId(key.index.0 / PAGES));
            self.put_internal(key, encode_page(&remnants, self.geo.block_bytes));
        }
        self.settle_record(InodeNo::REMNANTS);
        self.tables.remnants.forget();
        Ok(())
    }

    fn news(&self) -> BTreeMap<SegmentId, News> {
        let (moves, arrived) = self.tables.remnants.list();
        let moved = self.tables.slots.epoch();
        let mut news: BTreeMap<SegmentId, News> = BTreeMap::new();
        for Move { which, from, to } in moves {
            let remnant = Remnant { which, from, to, moved };
            news.entry(self.geo.segment_of(from.addr)).or_default().moved.push(remnant);
        }
        for (which, ptr) in arrived {
            news.entry(self.geo.segment_of(ptr.addr)).or_default().arrived.push((which, ptr));
        }
        news
    }

    /// The pages of a segment that change with the news. Omits remnants that no point needs any more.
    fn changed_pages(&mut self, segment: SegmentId, news: News) -> Outcome<Vec<(BlockKey, Vec<Remnant>)>> {
        let (old, old_pages) = self.pages(segment)?;
        // An abandoned checkpoint has written moves of this epoch.
        let epoch = self.tables.slots.epoch();
        let is_outdated = |remnant: &Remnant| {
            let key = (remnant.which, remnant.from);
            let is_new = || news.moved.iter().any(|new| (new.which, new.from) == key);
            remnant.moved == epoch && (news.arrived.contains(&key) || is_new())
        };
        if news.moved.is_empty() && !old.iter().any(is_outdated) {
            return Ok(Vec::new());
        }
        let points = &self.tables.points;
        let is_needed = |remnant: &&Remnant| points.is_any_in(remnant.from.birth, remnant.moved);
        let kept = old.iter().filter(|remnant| !is_outdated(remnant)).filter(is_needed);
        let all: Vec<Remnant> = kept.chain(&news.moved).copied().collect();
        let len = page_len(self.geo.block_bytes);
        let pages = (all.len().div_ceil(len) as u64).max(old_pages);
        if pages > PAGES {
            return Err(FsError::TooLarge.into());
        }
        let part = |page: u64| all.iter().skip(page as usize * len).take(len).copied().collect();
        Ok((0..pages).map(|page| (Self::page_key(segment, page), part(page))).collect())
    }

    /// Drops the file if there are no points.
    ///
    /// # Errors
    /// `Need`, `Corrupt`.
    pub(in crate::lfs) fn close_remnants(&mut self) -> Outcome<()> {
        if !self.tables.points.is_empty() {
            return Ok(());
        }
        self.tables.remnant_index.forget_all();
        self.close_internal(InodeNo::REMNANTS)
    }
}
