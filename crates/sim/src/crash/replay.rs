//! `Replay`: walks a history from cut to cut. For any fates of the volatile items there, it gives the image of the medium and,
//! without building it, its hash.
//!
//! Invariants: `durable` is the base with every item applied that is durable at `position`, in the order of submission. `hash`
//! is the [`super::image_hash`] of `durable`, so equal images have equal hashes in whatever history they occur, and hashing a
//! state costs only its differences. An image shares its pages with `durable`.

use super::SECTOR_BYTES;
use super::history::{Event, History, Item, ItemKind, sector_hash};
use super::state::{Content, CrashState, DiscardMode, Fate, draw};
use firnfs_device::SparseImage;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// See the module's head.
pub struct Replay<'h> {
    history: &'h History,
    discards: DiscardMode,
    position: usize,
    durable: SparseImage,
    hash: u128,
    /// Hashes of those sectors of `durable` that were needed so far.
    sector_hashes: FxHashMap<u64, u128>,
    volatile: Vec<u32>,
    /// For each volatile item, how it changes the hash if it lands whole and alone; filled on demand.
    landing: Vec<Option<u128>>,
    /// Whether volatile items overlap each other, so that `landing` does not add up.
    overlapping: bool,
}

impl History {
    /// The image of a state; `None` if the history is shorter than its cut.
    #[must_use]
    pub fn image(&self, state: &CrashState) -> Option<SparseImage> {
        let mut replay = Replay::new(self, state.discards);
        (state.cut <= self.events().len()).then(|| {
            replay.seek(state.cut);
            replay.image_of(&state.fates)
        })
    }
}

impl<'h> Replay<'h> {
    /// A replay before the first event, in which discards behave in this mode.
    #[must_use]
    pub fn new(history: &'h History, discards: DiscardMode) -> Self {
        Self {
            history,
            discards,
            position: 0,
            durable: history.base().clone(),
            hash: history.base_hash(),
            sector_hashes: FxHashMap::default(),
            volatile: Vec::new(),
            landing: Vec::new(),
            overlapping: false,
        }
    }

    /// Moves forward to a cut.
    ///
    /// # Panics
    /// If the cut is before the position, or beyond the end of the history.
    pub fn seek(&mut self, cut: usize) {
        assert!(self.position <= cut && cut <= self.history.events().len(), "a cut ahead");
        if cut == self.position {
            return;
        }
        for index in self.position..cut {
            match self.history.events()[index] {
                Event::Submitted(item) => self.volatile.push(item),
                Event::FlushDone(_) => self.settle(index + 1),
                Event::Done(_) | Event::Flush(_) | Event::Mark(_) => {}
            }
        }
        self.position = cut;
        self.landing = vec![None; self.volatile.len()];
        self.overlapping = self.find_overlap();
    }

    /// The cut.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Items that are volatile at the cut, in the order of submission: indexes into [`History::items`].
    #[must_use]
    pub fn volatile(&self) -> &[u32] {
        &self.volatile
    }

    /// The [`super::image_hash`] of the image that [`Replay::image_of`] would build.
    pub fn hash_of(&mut self, fates: &[Fate]) -> u128 {
        let whole = |fate: &Fate| matches!(fate, Fate::Lands | Fate::Missing);
        if self.overlapping || !fates.iter().all(whole) {
            return self.hash_by_sector(fates);
        }
        let mut hash = self.hash;
        for (index, fate) in fates.iter().enumerate().take(self.volatile.len()) {
            if *fate == Fate::Lands {
                hash ^= self.landing_of(index);
            }
        }
        hash
    }

    /// The medium after a cut here with these fates, one for each volatile item (items without a fate are missing).
    #[must_use]
    pub fn image_of(&self, fates: &[Fate]) -> SparseImage {
        let mut image = self.durable.clone();
        for (&index, fate) in self.volatile.iter().zip(fates) {
            let item = &self.history.items()[index as usize];
            match (&item.kind, fate) {
                (ItemKind::Write(data), Fate::Lands) => image.write(item.at_bytes, data),
                _ => self.for_each_sector(item, *fate, |sector, content| content.write(&mut image, sector)),
            }
        }
        image
    }

    /// Applies the items that became durable with the event that ended at `now`.
    fn settle(&mut self, now: usize) {
        let history = self.history;
        let durable = |index: &u32| history.items()[*index as usize].durable_at == Some(now);
        for index in self.volatile.extract_if(.., |index| durable(index)).collect::<Vec<_>>() {
            let item = &history.items()[index as usize];
            let mut changes = Vec::with_capacity(item.sectors().count());
            self.for_each_sector(item, Fate::Lands, |sector, content| {
                changes.push((sector, content.hash(sector)));
            });
            for (sector, new) in changes {
                self.hash ^= self.durable_hash(sector) ^ new;
                self.sector_hashes.insert(sector, new);
            }
            match &item.kind {
                ItemKind::Write(data) => self.durable.write(item.at_bytes, data),
                ItemKind::Discard => {
                    for sector in item.sectors() {
                        if let Some(content) = self.discards.content(sector) {
                            content.write(&mut self.durable, sector);
                        }
                    }
                }
            }
        }
    }

    fn landing_of(&mut self, index: usize) -> u128 {
        if let Some(delta) = self.landing[index] {
            return delta;
        }
        let item = &self.history.items()[self.volatile[index] as usize];
        let mut new = Vec::with_capacity(item.sectors().count());
        self.for_each_sector(item, Fate::Lands, |sector, content| new.push((sector, content.hash(sector))));
        let delta = new.into_iter().fold(0, |delta, (sector, hash)| delta ^ hash ^ self.durable_hash(sector));
        self.landing[index] = Some(delta);
        delta
    }

    fn hash_by_sector(&mut self, fates: &[Fate]) -> u128 {
        let mut overlay: FxHashMap<u64, u128> = FxHashMap::default();
        for (&index, fate) in self.volatile.iter().zip(fates) {
            let item = &self.history.items()[index as usize];
            self.for_each_sector(item, *fate, |sector, content| {
                overlay.insert(sector, content.hash(sector));
            });
        }
        // XOR does not depend on the order of the table.
        overlay.into_iter().fold(self.hash, |hash, (sector, new)| hash ^ new ^ self.durable_hash(sector))
    }

    fn durable_hash(&mut self, sector: u64) -> u128 {
        let durable = &self.durable;
        *self.sector_hashes.entry(sector).or_insert_with(|| {
            let mut bytes = [0; SECTOR_BYTES as usize];
            durable.read(sector * SECTOR_BYTES, &mut bytes);
            sector_hash(sector, &bytes)
        })
    }

    fn find_overlap(&self) -> bool {
        let mut ranges: Vec<Range<u64>> =
            self.volatile.iter().map(|&index| self.history.items()[index as usize].sectors()).collect();
        ranges.sort_by_key(|range| range.start);
        ranges.windows(2).any(|pair| pair[0].end > pair[1].start)
    }

    /// Visits the sectors that an item changes if it has that fate.
    fn for_each_sector<'a>(&self, item: &'a Item, fate: Fate, mut visit: impl FnMut(u64, Content<'a>)) {
        let data = match &item.kind {
            ItemKind::Write(data) => data,
            ItemKind::Discard if fate == Fate::Missing => return,
            ItemKind::Discard => {
                item.sectors().for_each(|s| self.discards.content(s).into_iter().for_each(|c| visit(s, c)));
                return;
            }
        };
        let content = |sector: u64| {
            let index = (sector - item.sectors().start) as usize;
            let start = index * SECTOR_BYTES as usize;
            Content::Data(&data[start..start + SECTOR_BYTES as usize], item.sector_hashes[index])
        };
        match fate {
            Fate::Missing => {}
            Fate::Lands => item.sectors().for_each(|s| visit(s, content(s))),
            Fate::Garbage(seed) => {
                let unit = u64::from(self.history.geometry().physical_block_bytes);
                self.widened(item, unit).for_each(|s| visit(s, Content::Garbage(seed)));
            }
            Fate::Prefix { units, unit_bytes } => {
                let tear = tear(item, units, unit_bytes);
                item.sectors().filter(|s| *s < tear).for_each(|s| visit(s, content(s)));
            }
            Fate::Suffix { units, unit_bytes } => {
                let tear = tear(item, units, unit_bytes);
                item.sectors().filter(|s| *s >= tear).for_each(|s| visit(s, content(s)));
            }
            Fate::Hole { unit, unit_bytes } => {
                let hole = tear(item, unit, unit_bytes)..tear(item, unit.saturating_add(1), unit_bytes);
                item.sectors().filter(|s| !hole.contains(s)).for_each(|s| visit(s, content(s)));
            }
            Fate::Mixed { seed, unit_bytes } => {
                let unit_sectors = u64::from(unit_bytes) / SECTOR_BYTES;
                for sector in self.widened(item, u64::from(unit_bytes)) {
                    match draw(seed, sector / unit_sectors) % 4 {
                        0 | 1 if item.sectors().contains(&sector) => visit(sector, content(sector)),
                        2 => visit(sector, Content::Garbage(seed)),
                        _ => {}
                    }
                }
            }
        }
    }

    /// The item's sectors, widened to whole units, within the disk.
    fn widened(&self, item: &Item, unit_bytes: u64) -> Range<u64> {
        let end = item.end_bytes().next_multiple_of(unit_bytes).min(self.history.geometry().size_bytes);
        item.at_bytes / unit_bytes * unit_bytes / SECTOR_BYTES..end / SECTOR_BYTES
    }
}

/// First sector after that many units, counted from the start of the unit on the grid in which the item begins.
fn tear(item: &Item, units: u32, unit_bytes: u32) -> u64 {
    let unit_sectors = u64::from(unit_bytes) / SECTOR_BYTES;
    (item.sectors().start / unit_sectors).saturating_add(u64::from(units)) * unit_sectors
}
