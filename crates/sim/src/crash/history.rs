//! `History`: the requests to a crash disk, in order, with the point at which each write became durable.

use super::SECTOR_BYTES;
use firnfs_device::{AlignedBuf, Geometry, SparseImage};
use siphasher::sip128::SipHasher13;
use std::sync::{Arc, OnceLock};

/// One point in the order of events. A cut falls between two of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A write or discard was submitted (index into [`History::items`]).
    Submitted(u32),
    /// It was waited for: a flush submitted later covers it.
    Done(u32),
    /// A flush was submitted.
    Flush(u32),
    /// It was waited for: the writes that it covers are durable.
    FlushDone(u32),
    /// See [`super::CrashDisk::mark`].
    Mark(u64),
}

/// A change of the medium.
#[derive(Clone, Debug)]
pub enum ItemKind {
    /// A write of these bytes.
    Write(Arc<AlignedBuf>),
    /// A discard.
    Discard,
}

/// A write or a discard.
#[derive(Clone, Debug)]
pub struct Item {
    /// Offset in bytes.
    pub at_bytes: u64,
    /// Length in bytes.
    pub len_bytes: u64,
    /// Write or discard.
    pub kind: ItemKind,
    /// Number of events before its submission.
    pub submitted_at: usize,
    /// Number of events up to and including the completion of the first flush that covers it; `None` while it is volatile.
    pub durable_at: Option<usize>,
    /// For writes: a hash of each sector (place and content), for [`super::Replay::hash_of`].
    pub(super) sector_hashes: Arc<[u128]>,
    done: bool,
}

/// See the module's head.
#[derive(Clone)]
pub struct History {
    geometry: Geometry,
    base: SparseImage,
    base_hash: OnceLock<u128>,
    events: Vec<Event>,
    items: Vec<Item>,
    /// For each flush, the items it covers.
    flushes: Vec<Vec<u32>>,
    /// Items done and not yet covered by a flush.
    uncovered: Vec<u32>,
    hazards: Vec<String>,
}

impl Item {
    pub(super) fn new(at_bytes: u64, len_bytes: u64, kind: ItemKind) -> Self {
        let sector_hashes = match &kind {
            ItemKind::Write(data) => data
                .chunks_exact(SECTOR_BYTES as usize)
                .zip(at_bytes / SECTOR_BYTES..)
                .map(|(bytes, sector)| sector_hash(sector, bytes))
                .collect(),
            ItemKind::Discard => Arc::default(),
        };
        Self { at_bytes, len_bytes, kind, submitted_at: 0, durable_at: None, sector_hashes, done: false }
    }

    /// First byte after it.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.at_bytes + self.len_bytes
    }

    /// Whether both cover a common byte.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.at_bytes < other.end_bytes() && other.at_bytes < self.end_bytes()
    }

    /// Sectors that it covers.
    #[must_use]
    pub fn sectors(&self) -> std::ops::Range<u64> {
        self.at_bytes / SECTOR_BYTES..self.end_bytes() / SECTOR_BYTES
    }
}

impl History {
    pub(super) fn new(geometry: Geometry, base: SparseImage) -> Self {
        Self {
            geometry,
            base,
            base_hash: OnceLock::new(),
            events: Vec::new(),
            items: Vec::new(),
            flushes: Vec::new(),
            uncovered: Vec::new(),
            hazards: Vec::new(),
        }
    }

    /// Sizes of the disk.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The initial content of the disk.
    #[must_use]
    pub fn base(&self) -> &SparseImage {
        &self.base
    }

    /// The [`image_hash`] of the initial content.
    #[must_use]
    pub fn base_hash(&self) -> u128 {
        *self.base_hash.get_or_init(|| image_hash(&self.base))
    }

    /// All events.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Writes and discards in the order of submission.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Errors of the driver, as text: concurrent writes to the same place, whose order no disk guarantees. Empty for a
    /// correct driver; states of such a history keep the order of submission.
    #[must_use]
    pub fn hazards(&self) -> &[String] {
        &self.hazards
    }

    /// Cuts whose states may differ from those of the cut before: the beginning, and after each submission and each
    /// completed flush. A cut is a number of events.
    pub fn cuts(&self) -> impl Iterator<Item = usize> + '_ {
        let happenings = self.events.iter().enumerate().filter_map(|(index, event)| match event {
            Event::Submitted(_) | Event::FlushDone(_) => Some(index + 1),
            _ => None,
        });
        std::iter::once(0).chain(happenings)
    }

    /// Marks before a cut, in order.
    pub fn marks_before(&self, cut: usize) -> impl Iterator<Item = u64> + '_ {
        self.events[..cut].iter().filter_map(|event| match event {
            Event::Mark(mark) => Some(*mark),
            _ => None,
        })
    }

    pub(super) fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    pub(super) fn push_item(&mut self, mut item: Item) -> u32 {
        let index = self.items.len() as u32;
        item.submitted_at = self.events.len();
        self.items.push(item);
        self.events.push(Event::Submitted(index));
        index
    }

    pub(super) fn note_if_overlapping(&mut self, under_way: u32, item: &Item) {
        let other = &self.items[under_way as usize];
        if other.overlaps(item) {
            self.hazards.push(format!(
                "{} bytes at byte {} submitted while {} bytes at byte {} are under way",
                item.len_bytes, item.at_bytes, other.len_bytes, other.at_bytes
            ));
        }
    }

    pub(super) fn item_done(&mut self, index: u32) {
        self.items[index as usize].done = true;
        self.uncovered.push(index);
        self.events.push(Event::Done(index));
    }

    pub(super) fn push_flush(&mut self) -> u32 {
        let index = self.flushes.len() as u32;
        // They stay in `uncovered`: until this flush completes, another one may cover them first.
        self.flushes.push(self.uncovered.clone());
        self.events.push(Event::Flush(index));
        index
    }

    pub(super) fn flush_done(&mut self, index: u32) {
        self.events.push(Event::FlushDone(index));
        let now = self.events.len();
        for &item in &self.flushes[index as usize] {
            self.items[item as usize].durable_at.get_or_insert(now);
        }
        let items = &self.items;
        self.uncovered.retain(|&item| items[item as usize].durable_at.is_none());
    }
}

/// Hash of a disk's content: the XOR over its sectors of a hash of place and content, so that a change costs only the hash
/// of the changed sectors. Sectors of zeros contribute nothing, and neither do pages that an image does not hold. 128 bits:
/// among 2^22 images, the probability that two different ones have equal hashes is below 2^-84.
#[must_use]
pub fn image_hash(image: &SparseImage) -> u128 {
    let mut hash = 0;
    image.for_each_page(|at_bytes, page| hash ^= range_hash(at_bytes, page));
    hash
}

/// The contribution of a range of whole sectors to [`image_hash`].
#[must_use]
pub fn range_hash(at_bytes: u64, bytes: &[u8]) -> u128 {
    let sectors = bytes.chunks_exact(SECTOR_BYTES as usize).zip(at_bytes / SECTOR_BYTES..);
    sectors.fold(0, |hash, (bytes, sector)| hash ^ sector_hash(sector, bytes))
}

/// Hash of a sector's place and content.
pub(super) fn sector_hash(sector: u64, bytes: &[u8]) -> u128 {
    let words = bytes.as_chunks::<8>().0.iter();
    if words.fold(0, |any, word| any | u64::from_ne_bytes(*word)) == 0 {
        return 0;
    }
    SipHasher13::new_with_keys(sector, 0x6669_726e).hash(bytes).as_u128()
}
