//! `LogTail`: the bytes of the log's tail, for roll-forward, read ahead.
//!
//! Roll-forward learns from each partial segment where the next one lies. But every log goes on behind the place that it has
//! reached, to the end of its segment, and then in a segment that it has named; so those bytes are read before they are asked
//! for. The first reads are short, since most tails are; each further one is twice as long.
//!
//! Invariants: what is read ahead and cannot be read does not count, and a range that was asked for is then read alone, so a
//! bad sector beyond the log's end harms nobody. Memory: [`WINDOWS_BYTES`] and the longest partial segment.
//!
//! Caller: `recovery`.

use super::device_reader::{DeviceReader, Extent, PIECE_BYTES, UnderWay};
use crate::error::FsError;
use std::ops::ControlFlow;

/// Length of the first reads, in bytes.
const FIRST_BYTES: u32 = 64 << 10;
/// Bytes and stretches that are kept, beyond the range that was last asked for.
const WINDOWS_BYTES: usize = 8 << 20;
const WINDOWS: usize = 64;

/// Where a log may go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Its place on the device, in bytes.
    pub at_bytes: u64,
    /// The end of its segment, in bytes.
    pub end_bytes: u64,
    /// Start of the segment in which the log goes on, in bytes; `None` if that is not known or not wanted.
    pub then_bytes: Option<u64>,
}

/// See the module's head.
pub(super) struct LogTail<'a> {
    read: &'a mut dyn DeviceReader,
    /// The most recently used is last.
    windows: Vec<Window>,
    under_way: UnderWay,
    segment_bytes: u32,
    ahead_bytes: u32,
}

struct Window {
    at_bytes: u64,
    data: Vec<u8>,
}

impl Window {
    fn end_bytes(&self) -> u64 {
        self.at_bytes + self.data.len() as u64
    }

    fn range(&self, wanted: Extent) -> Option<&[u8]> {
        let from = usize::try_from(wanted.at_bytes.checked_sub(self.at_bytes)?).ok()?;
        self.data.get(from..from.checked_add(wanted.len_bytes as usize)?)
    }
}

impl<'a> LogTail<'a> {
    pub(super) fn new(read: &'a mut dyn DeviceReader, segment_bytes: u32) -> Self {
        let (windows, under_way) = (Vec::new(), UnderWay::default());
        Self { read, windows, under_way, segment_bytes, ahead_bytes: FIRST_BYTES }
    }

    /// Begins to read where a log may go on, `len_bytes` at most.
    pub(super) fn expect(&mut self, way: &Way, len_bytes: u32) {
        let len_bytes = u64::from(len_bytes).min(way.end_bytes.saturating_sub(way.at_bytes)) as u32;
        let extent = Extent::new(way.at_bytes, len_bytes);
        let is_known = self.under_way.extents().any(|known| known.at_bytes == way.at_bytes)
            || self.windows.iter().any(|w| w.at_bytes <= way.at_bytes && way.at_bytes < w.end_bytes());
        // A reader that does one read after the other gains nothing.
        let is_deep = u64::from(len_bytes) <= self.read.depth_bytes();
        if len_bytes > 0 && !is_known && is_deep && self.under_way.has_room(self.read, &extent) {
            let posted = self.read.post(extent);
            self.under_way.push(posted);
        }
    }

    /// The same with as much as is read ahead without being told.
    pub(super) fn expect_first(&mut self, way: &Way) {
        self.expect(way, FIRST_BYTES);
    }

    /// The bytes at the beginning of a way.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn bytes(&mut self, way: &Way, len_bytes: u32) -> Result<&[u8], FsError> {
        let wanted = Extent::new(way.at_bytes, len_bytes);
        let at = match self.windows.iter().rposition(|w| w.range(wanted).is_some()) {
            Some(at) => at,
            None => {
                let window = self.extended(wanted, way)?;
                let goes_on = window.end_bytes();
                self.windows.push(window);
                self.look_ahead(goes_on, way);
                self.windows.len() - 1
            }
        };
        let window = self.windows.remove(at);
        self.forget_oldest();
        self.windows.push(window);
        Ok(self.at_hand(wanted))
    }

    /// Bytes that [`Self::bytes`] has just returned.
    pub(super) fn at_hand(&self, wanted: Extent) -> &[u8] {
        self.windows.iter().rev().find_map(|window| window.range(wanted)).unwrap_or(&[])
    }

    /// Finishes what is under way.
    pub(super) fn end(mut self) {
        self.under_way.end(self.read);
    }

    /// A window that begins with a range: what is at hand of it, and what follows.
    fn extended(&mut self, wanted: Extent, way: &Way) -> Result<Window, FsError> {
        let covers = |w: &Window| w.at_bytes <= wanted.at_bytes && wanted.at_bytes < w.end_bytes();
        let mut data = match self.windows.iter().rposition(covers) {
            Some(at) => {
                let Window { at_bytes, mut data } = self.windows.remove(at);
                data.drain(..(wanted.at_bytes - at_bytes) as usize);
                data
            }
            None => Vec::new(),
        };
        if !data.is_empty() || self.windows.iter().any(|w| w.end_bytes() == wanted.at_bytes) {
            // The tail is a long one.
            self.ahead_bytes = (2 * self.ahead_bytes).min(PIECE_BYTES);
        }
        while data.len() < wanted.len_bytes as usize {
            let next = wanted.at_bytes + data.len() as u64;
            let missing = wanted.len_bytes - data.len() as u32;
            let posted = self.under_way.take(|extent| extent.at_bytes == next);
            let more = match posted {
                Some(posted) => self.read.finish(posted).map(|bytes| data.extend_from_slice(&bytes)),
                None => self.read_on(next, missing, way, &mut data),
            };
            if more.is_err() {
                let bytes = self.read.read(wanted)?;
                return Ok(Window { at_bytes: wanted.at_bytes, data: bytes.to_vec() });
            }
        }
        Ok(Window { at_bytes: wanted.at_bytes, data })
    }

    /// Reads on, with what is likely to be asked for next.
    fn read_on(&mut self, next: u64, missing: u32, way: &Way, data: &mut Vec<u8>) -> Result<(), FsError> {
        let is_deep = self.read.depth_bytes() > 0;
        let ahead_bytes = if is_deep { u64::from(self.ahead_bytes) } else { 0 };
        let to_end = way.end_bytes.saturating_sub(next).max(u64::from(missing));
        let len_bytes = u64::from(missing).max(ahead_bytes).min(to_end) as u32;
        let pieces: Vec<Extent> = Extent::new(next, len_bytes).pieces().collect();
        let mut result = Ok(());
        self.read.read_in_order(pieces.into_iter().map(|piece| (piece, ())), |_, (), bytes| match bytes {
            Ok(bytes) => {
                data.extend_from_slice(&bytes);
                ControlFlow::Continue(())
            }
            Err(why) => {
                result = Err(why);
                ControlFlow::Break(())
            }
        });
        result
    }

    /// Begins to read what follows a window.
    fn look_ahead(&mut self, goes_on: u64, way: &Way) {
        if self.ahead_bytes == FIRST_BYTES {
            return;
        }
        if goes_on < way.end_bytes {
            self.expect(&Way { at_bytes: goes_on, ..*way }, self.ahead_bytes);
        } else if let Some(then_bytes) = way.then_bytes {
            let end_bytes = then_bytes.saturating_add(u64::from(self.segment_bytes));
            // The head of that segment was looked at before.
            let head = self.windows.iter().find(|w| w.at_bytes == then_bytes).map(Window::end_bytes);
            let at_bytes = head.unwrap_or(then_bytes);
            self.expect(&Way { at_bytes, end_bytes, then_bytes: None }, self.ahead_bytes);
        }
    }

    /// Drops windows that were not used for longest, until the rest is within its bound.
    fn forget_oldest(&mut self) {
        let mut bytes: usize = self.windows.iter().map(|window| window.data.len()).sum();
        while bytes > WINDOWS_BYTES || self.windows.len() > WINDOWS {
            bytes -= self.windows.remove(0).data.len();
        }
    }
}
