//! `DeviceReader`: how code that may block reads a device: opening, checking and salvaging.
//!
//! A mounted volume names the blocks that it needs, and its driver reads them. Before there is a mounted volume, the library
//! reads through this trait, which the driver implements over its device. A caller with several reads posts all of them and
//! then finishes each: the reader has them under way together. Three shapes of that are here, for all callers:
//! - `read_all`: a few reads at a time, all of them wanted;
//! - `read_in_order`: many reads, used one after the other, the next ones under way meanwhile;
//! - `read_scattered`: many small places; neighbours become one read.
//!
//! Invariants: every read that was posted is finished, exactly once. Reads under way have at most
//! [`DeviceReader::depth_bytes`] together, or are a single one, or a few that the caller counted; so their memory is bounded,
//! even if the device holds false lengths.
//!
//! Callers: opening and recovery of the log; opening of the Fast File System; the checks of both; the drivers' scrub and salvage.

use crate::error::FsError;
use firnfs_device::{AlignedBuf, Tag};
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Bytes under way that suffice to keep a disk busy; see `docs/decisions/0113-reads-at-depth.md`.
pub const DEPTH_BYTES: u64 = 4 << 20;
/// Reads under way at most: as many as a ring of the file device holds.
const DEPTH_READS: usize = 64;
/// Longest piece when a long stretch is read in pieces, in bytes.
pub const PIECE_BYTES: u32 = 1 << 20;
/// Largest unused gap between two places that are read together, in bytes: about what a disk transfers in the time of a read.
const GAP_BYTES: u64 = 32 << 10;

/// A range of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Start on the device, in bytes.
    pub at_bytes: u64,
    /// Length in bytes.
    pub len_bytes: u32,
}

impl Extent {
    /// A range.
    #[must_use]
    pub fn new(at_bytes: u64, len_bytes: u32) -> Self {
        Self { at_bytes, len_bytes }
    }

    /// The first byte after it. Saturates, because a device may name any range.
    #[must_use]
    pub fn end_bytes(&self) -> u64 {
        self.at_bytes.saturating_add(u64::from(self.len_bytes))
    }

    /// True if the other range lies within this one.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.at_bytes <= other.at_bytes && other.end_bytes() <= self.end_bytes()
    }

    /// The same range in pieces of [`PIECE_BYTES`] at most.
    pub fn pieces(self) -> impl Iterator<Item = Self> {
        (0..self.len_bytes).step_by(PIECE_BYTES as usize).map(move |from| {
            Self::new(self.at_bytes + u64::from(from), PIECE_BYTES.min(self.len_bytes - from))
        })
    }
}

/// A read that was posted and is not finished.
#[derive(Debug)]
#[must_use = "a read that is posted has to be finished"]
pub struct Posted {
    /// What is read.
    pub extent: Extent,
    /// The reader's name for it; `None` if the reader carries it out in `finish`, or refuses it there.
    pub tag: Option<Tag>,
}

/// See the module's head. A closure that reads one range, and blocks, is one: it reads one after the other.
pub trait DeviceReader {
    /// Hands over a read. It may start at once, or in the next [`DeviceReader::finish`].
    fn post(&mut self, extent: Extent) -> Posted;

    /// Waits for a read; returns exactly the bytes of its extent.
    ///
    /// # Errors
    /// `Io`.
    fn finish(&mut self, posted: Posted) -> Result<AlignedBuf, FsError>;

    /// Bytes that are worth having under way together; 0 if reads are carried out one by one.
    fn depth_bytes(&self) -> u64;

    /// True once the caller wants no more: all reads fail, and whoever reads ends as soon as possible. No such failure says
    /// anything about the device.
    fn is_stopped(&self) -> bool {
        false
    }

    /// After a stop: reads succeed again, for the few that tell what was found until then. [`Self::is_stopped`] stays true.
    fn allow_last_reads(&mut self) {}
}

impl<F: FnMut(u64, u32) -> Result<Vec<u8>, FsError>> DeviceReader for F {
    fn post(&mut self, extent: Extent) -> Posted {
        Posted { extent, tag: None }
    }
    fn finish(&mut self, posted: Posted) -> Result<AlignedBuf, FsError> {
        let Extent { at_bytes, len_bytes } = posted.extent;
        self(at_bytes, len_bytes).map(|bytes| AlignedBuf::copy_of(&bytes))
    }
    fn depth_bytes(&self) -> u64 {
        0
    }
}

impl dyn DeviceReader + '_ {
    /// Reads one range.
    ///
    /// # Errors
    /// `Io`.
    pub fn read(&mut self, extent: Extent) -> Result<AlignedBuf, FsError> {
        let posted = self.post(extent);
        self.finish(posted)
    }

    /// Reads several ranges together; one answer for each, in their order. All answers are in memory together: the caller
    /// bounds their number.
    pub fn read_all(&mut self, extents: &[Extent]) -> Vec<Result<AlignedBuf, FsError>> {
        let posted: Vec<Posted> = extents.iter().map(|extent| self.post(*extent)).collect();
        posted.into_iter().map(|posted| self.finish(posted)).collect()
    }

    /// Reads ranges and hands each to `visit`, in their order; the next ones are under way meanwhile. `visit` stops the
    /// loop with `Break`; it gets the reader for reads of its own.
    pub fn read_in_order<T, B>(
        &mut self,
        extents: impl IntoIterator<Item = (Extent, T)>,
        mut visit: impl FnMut(&mut Self, T, Result<AlignedBuf, FsError>) -> ControlFlow<B>,
    ) -> Option<B> {
        let mut source = extents.into_iter().peekable();
        let mut under_way = UnderWay::default();
        let mut names = VecDeque::new();
        loop {
            while let Some((extent, name)) = source.next_if(|(extent, _)| under_way.has_room(self, extent)) {
                under_way.push(self.post(extent));
                names.push_back(name);
            }
            let (posted, name) = under_way.pop().zip(names.pop_front())?;
            let answer = self.finish(posted);
            if let ControlFlow::Break(value) = visit(self, name, answer) {
                under_way.end(self);
                return Some(value);
            }
        }
    }

    /// Reads many small places; one answer for each, in their order. Places close to each other become one read; if that
    /// fails, each of them is read alone. All answers are in memory together: the caller bounds their number.
    pub fn read_scattered(&mut self, places: &[Extent]) -> Vec<Result<Vec<u8>, FsError>> {
        if let [place] = places {
            return vec![self.read(*place).map(|bytes| bytes.to_vec())];
        }
        let mut answers: Vec<Option<Result<Vec<u8>, FsError>>> = places.iter().map(|_| None).collect();
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|&at| places[at].at_bytes);
        let stretches = merge(places, &order);
        let mut next = order.iter().copied().peekable();
        self.read_in_order(stretches.into_iter().map(|s| (s, s)), |read, stretch, bytes| {
            while let Some(at) = next.next_if(|&at| stretch.contains(&places[at])) {
                let place = places[at];
                answers[at] = Some(match &bytes {
                    Ok(bytes) => {
                        let from = (place.at_bytes - stretch.at_bytes) as usize;
                        Ok(bytes[from..from + place.len_bytes as usize].to_vec())
                    }
                    Err(why) if stretch == place => Err(why.clone()),
                    Err(_) => read.read(place).map(|bytes| bytes.to_vec()),
                });
            }
            ControlFlow::<()>::Continue(())
        });
        let never = || Err(FsError::Io("a read was not answered".to_owned()));
        answers.into_iter().map(|answer| answer.unwrap_or_else(never)).collect()
    }
}

/// Stretches that contain all of these places, given their order on the device.
fn merge(places: &[Extent], order: &[usize]) -> Vec<Extent> {
    let mut stretches: Vec<Extent> = Vec::new();
    for &at in order {
        let place = places[at];
        if let Some(last) = stretches.last_mut() {
            let end_bytes = last.end_bytes().max(place.end_bytes());
            let is_near = place.at_bytes <= last.end_bytes().saturating_add(GAP_BYTES);
            let len_bytes = end_bytes - last.at_bytes;
            if is_near && (len_bytes <= u64::from(PIECE_BYTES) || last.contains(&place)) {
                last.len_bytes = len_bytes as u32;
                continue;
            }
        }
        stretches.push(place);
    }
    stretches
}

/// Reads under way, in the order in which they will be used, within the reader's bound.
#[derive(Default)]
pub struct UnderWay {
    posted: VecDeque<Posted>,
    bytes: u64,
}

impl UnderWay {
    /// True if another read may be posted: always if none is under way.
    pub fn has_room(&self, read: &dyn DeviceReader, extent: &Extent) -> bool {
        let bytes = self.bytes + u64::from(extent.len_bytes);
        self.posted.is_empty() || self.posted.len() < DEPTH_READS && bytes <= read.depth_bytes()
    }

    /// Adds a read that was posted.
    pub fn push(&mut self, posted: Posted) {
        self.bytes += u64::from(posted.extent.len_bytes);
        self.posted.push_back(posted);
    }

    /// The next read, which the caller finishes.
    pub fn pop(&mut self) -> Option<Posted> {
        let posted = self.posted.pop_front()?;
        self.bytes -= u64::from(posted.extent.len_bytes);
        Some(posted)
    }

    /// The first read for which `is_it` is true, which the caller finishes.
    pub fn take(&mut self, is_it: impl Fn(&Extent) -> bool) -> Option<Posted> {
        let at = self.posted.iter().position(|posted| is_it(&posted.extent))?;
        let posted = self.posted.remove(at)?;
        self.bytes -= u64::from(posted.extent.len_bytes);
        Some(posted)
    }

    /// Bytes under way.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The extents under way, in order.
    pub fn extents(&self) -> impl DoubleEndedIterator<Item = &Extent> {
        self.posted.iter().map(|posted| &posted.extent)
    }

    /// Finishes all reads and drops their bytes.
    pub fn end(&mut self, read: &mut dyn DeviceReader) {
        while let Some(posted) = self.pop() {
            let _unwanted = read.finish(posted);
        }
    }
}
