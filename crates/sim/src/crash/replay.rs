//! `Replay`: walks a history from cut to cut. For any fates of the volatile items there, it gives the image of the medium and,
//! without building it, its hash.
//!
//! Invariants: `durable` is the base with every item applied that is durable at `position`, in the order of submission. `hash`
//! is the [`super::image_hash`] of `durable`, so equal images have equal hashes in whatever history they occur, and hashing a
//! state costs only its differences. An image shares its pages with `durable`, and the whole pages of a write that lands with every
//! other image in which it lands.
//!
//! Volatile items that cannot touch a common sector, whatever their fates, change the hash independently of each other. So the
//! items are divided into clusters, and what the fates of a cluster do to the hash is found once for each cut, although they occur
//! in many states.

use super::SECTOR_BYTES;
use super::history::{Event, History, Item, ItemKind, sector_hash};
use super::state::{Content, CrashState, DiscardMode, Fate, draw};
use firnfs_device::{PAGE_BYTES, SparseImage};

use rustc_hash::FxHashMap;
use std::ops::Range;

/// Largest unit in which a write is torn, in bytes: no fate reaches farther than to the ends of the units that a write touches.
const UNIT_BYTES_MAX: u64 = 4096;

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
    clusters: Vec<Cluster>,
    /// For writes that landed in some image, one that holds nothing else.
    landed: FxHashMap<u32, SparseImage>,
}

/// Volatile items that may touch sectors of each other, and no sector of any other item.
struct Cluster {
    /// Indexes into `volatile`, in the order of submission.
    items: Vec<usize>,
    /// How fates of these items change the hash, as far as it was needed.
    changes: FxHashMap<Vec<Fate>, u128>,
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
            clusters: Vec::new(),
            landed: FxHashMap::default(),
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
        self.clusters = self.find_clusters();
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
        let mut clusters = std::mem::take(&mut self.clusters);
        let hash = clusters.iter_mut().fold(self.hash, |hash, Cluster { items, changes }| {
            let own = items.iter().map(|index| fates.get(*index).copied().unwrap_or(Fate::Missing));
            let own: Vec<Fate> = own.collect();
            if own.iter().all(|fate| *fate == Fate::Missing) {
                return hash;
            }
            let known = changes.get(&own).copied();
            hash ^ known.unwrap_or_else(|| {
                let change = self.change_of(items, &own);
                changes.insert(own, change);
                change
            })
        });
        self.clusters = clusters;
        hash
    }

    /// The medium after a cut here with these fates, one for each volatile item (items without a fate are missing).
    #[must_use]
    pub fn image_of(&mut self, fates: &[Fate]) -> SparseImage {
        let mut image = self.durable.clone();
        let history = self.history;
        for (position, fate) in fates.iter().enumerate().take(self.volatile.len()) {
            let index = self.volatile[position];
            let item = &history.items()[index as usize];
            match (&item.kind, fate) {
                (ItemKind::Write(data), Fate::Lands) => self.land(index, data, &mut image),
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
                ItemKind::Write(data) => {
                    let mut durable = std::mem::replace(&mut self.durable, SparseImage::new(0));
                    self.land(index, data, &mut durable);
                    self.durable = durable;
                    self.landed.remove(&index);
                }
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

    /// Writes the data of an item to an image.
    fn land(&mut self, index: u32, data: &[u8], image: &mut SparseImage) {
        let item = &self.history.items()[index as usize];
        let own = self.landed.entry(index).or_insert_with(|| {
            let mut own = SparseImage::new(image.size_bytes());
            own.write(item.at_bytes, data);
            own
        });
        let (page_bytes, end) = (PAGE_BYTES as u64, item.end_bytes());
        let whole_end = end / page_bytes * page_bytes;
        let whole_start = item.at_bytes.next_multiple_of(page_bytes).min(whole_end);
        if whole_start < item.at_bytes || whole_start == whole_end {
            return image.write(item.at_bytes, data);
        }
        let (head, tail) = ((whole_start - item.at_bytes) as usize, (whole_end - item.at_bytes) as usize);
        image.write(item.at_bytes, &data[..head]);
        image.share_pages(own, whole_start, whole_end - whole_start);
        image.write(whole_end, &data[tail..]);
    }

    /// How the hash changes if these items, in the order of submission, have these fates, and the others are missing.
    fn change_of(&mut self, items: &[usize], fates: &[Fate]) -> u128 {
        let mut overlay: FxHashMap<u64, u128> = FxHashMap::default();
        for (&index, fate) in items.iter().zip(fates) {
            let item = &self.history.items()[self.volatile[index] as usize];
            overlay.reserve(item.sectors().count());
            self.for_each_sector(item, *fate, |sector, content| {
                overlay.insert(sector, content.hash(sector));
            });
        }
        // XOR does not depend on the order of the table.
        overlay.into_iter().fold(0, |hash, (sector, new)| hash ^ new ^ self.durable_hash(sector))
    }

    fn durable_hash(&mut self, sector: u64) -> u128 {
        let durable = &self.durable;
        *self.sector_hashes.entry(sector).or_insert_with(|| {
            let mut bytes = [0; SECTOR_BYTES as usize];
            durable.read(sector * SECTOR_BYTES, &mut bytes);
            sector_hash(sector, &bytes)
        })
    }

    fn find_clusters(&self) -> Vec<Cluster> {
        let unit = UNIT_BYTES_MAX.max(u64::from(self.history.geometry().physical_block_bytes));
        let reach = |index: usize| self.widened(&self.history.items()[self.volatile[index] as usize], unit);
        let mut order: Vec<usize> = (0..self.volatile.len()).collect();
        order.sort_by_key(|index| reach(*index).start);
        let (mut clusters, mut end): (Vec<Cluster>, u64) = (Vec::new(), 0);
        for index in order {
            let Range { start, end: to } = reach(index);
            match clusters.last_mut().filter(|_| start < end) {
                Some(cluster) => cluster.items.push(index),
                None => clusters.push(Cluster { items: vec![index], changes: FxHashMap::default() }),
            }
            end = end.max(to);
        }
        clusters.iter_mut().for_each(|cluster| cluster.items.sort_unstable());
        clusters
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
