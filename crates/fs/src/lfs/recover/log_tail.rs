//! `LogTail`: the bytes of the log's tail, for roll-forward, read ahead.
//!
//! Roll-forward learns from each partial segment where the next one lies. But every log continues after the place that it has
//! reached, to the end of its segment, and then in segments that it has named; so those bytes are read ahead. The first reads
//! are short, since most tails are; once a log continues beyond the bytes read, each further read is twice as long.
//!
//! Invariants: an error of a look-ahead read does not count; a range that is needed is then read alone, so a bad sector beyond
//! the log's end does no harm. Memory: [`WINDOWS_BYTES`], twice the longest partial segment, and the reads under way.
//!
//! Caller: `recovery`.

use crate::device_reader::{DeviceReader, Extent, PIECE_BYTES, UnderWay};
use crate::error::FsError;
use firnfs_device::AlignedBuf;

/// Length of the first reads, in bytes.
const FIRST_BYTES: u32 = 64 << 10;
/// Bytes and stretches that are kept, in addition to the range that was asked for last.
const WINDOWS_BYTES: usize = 8 << 20;
const WINDOWS: usize = 64;
/// Reads under way after the place that a log has reached, within its segment.
const READS_AHEAD: u32 = 2;

/// A place where a log may continue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Its place on the device, in bytes.
    pub at_bytes: u64,
    /// The end of its segment, in bytes.
    pub end_bytes: u64,
}

impl Way {
    /// Its first `len_bytes`, as far as the segment goes.
    fn first(&self, len_bytes: u32) -> Extent {
        let to_end = self.end_bytes.saturating_sub(self.at_bytes);
        Extent::new(self.at_bytes, u64::from(len_bytes).min(to_end) as u32)
    }
}

/// See the module's head.
pub(super) struct LogTail<'a> {
    read: &'a mut dyn DeviceReader,
    /// The most recently used is last.
    windows: Vec<Window>,
    under_way: UnderWay,
    ahead_bytes: u32,
}

struct Window {
    extent: Extent,
    data: AlignedBuf,
}

impl Window {
    fn from(&self, at_bytes: u64) -> Option<&[u8]> {
        let from = usize::try_from(at_bytes.checked_sub(self.extent.at_bytes)?).ok()?;
        self.data.get(from..).filter(|rest| !rest.is_empty())
    }
}

impl<'a> LogTail<'a> {
    pub(super) fn new(read: &'a mut dyn DeviceReader) -> Self {
        Self { read, windows: Vec::new(), under_way: UnderWay::default(), ahead_bytes: FIRST_BYTES }
    }

    /// True once a log continued beyond the first read.
    pub(super) fn is_long(&self) -> bool {
        self.ahead_bytes > FIRST_BYTES
    }

    /// Begins to read the first `len_bytes` of a place where a log may continue.
    pub(super) fn expect(&mut self, way: &Way, len_bytes: u32) {
        let extent = way.first(len_bytes);
        let is_known = self.under_way.extents().any(|known| known.contains(&extent))
            || self.windows.iter().any(|window| window.extent.contains(&extent));
        // In addition to the read that the caller waits for; so a reader that does one read after the other reads nothing
        // ahead.
        let bytes = self.under_way.bytes() + u64::from(extent.len_bytes) + u64::from(PIECE_BYTES);
        let has_room = bytes <= self.read.depth_bytes() && self.under_way.has_room(self.read, &extent);
        if extent.len_bytes > 0 && !is_known && has_room {
            let posted = self.read.post(extent);
            self.under_way.push(posted);
        }
    }

    /// The same with the present length of look-ahead.
    pub(super) fn expect_more(&mut self, way: &Way) {
        self.expect(way, self.ahead_bytes);
    }

    /// The bytes at the beginning of a way.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn bytes(&mut self, way: &Way, len_bytes: u32) -> Result<&[u8], FsError> {
        let wanted = Extent::new(way.at_bytes, len_bytes);
        let at = match self.windows.iter().rposition(|window| window.extent.contains(&wanted)) {
            Some(at) => at,
            None => {
                self.obtain(wanted, way)?;
                let is_it = |window: &Window| window.extent.contains(&wanted);
                self.windows.iter().rposition(is_it).ok_or(FsError::NoData)?
            }
        };
        let window = self.windows.remove(at);
        self.forget_oldest();
        self.windows.push(window);
        Ok(self.at_hand(wanted))
    }

    /// Bytes that [`Self::bytes`] has just returned.
    pub(super) fn at_hand(&self, wanted: Extent) -> &[u8] {
        let window = self.windows.iter().rev().find(|window| window.extent.contains(&wanted));
        let rest = window.and_then(|window| window.from(wanted.at_bytes));
        rest.and_then(|rest| rest.get(..wanted.len_bytes as usize)).unwrap_or(&[])
    }

    /// Finishes the reads under way.
    pub(super) fn end(mut self) {
        self.under_way.end(self.read);
    }

    /// Makes a window that contains a range.
    fn obtain(&mut self, wanted: Extent, way: &Way) -> Result<(), FsError> {
        if self.cover(wanted, way).is_err() {
            self.under_way.end(self.read);
            let data = self.read.read(wanted)?;
            self.windows.push(Window { extent: wanted, data });
            return Ok(());
        }
        if !self.windows.iter().any(|window| window.extent.contains(&wanted)) {
            let data = self.join(wanted);
            self.windows.push(Window { extent: wanted, data });
        }
        Ok(())
    }

    /// Reads the part of a range that no window has, and bytes that are likely to be needed next.
    fn cover(&mut self, wanted: Extent, way: &Way) -> Result<(), FsError> {
        let mut next = wanted.at_bytes;
        while next < wanted.end_bytes() {
            if let Some(rest) = self.windows.iter().rev().find_map(|window| window.from(next)) {
                next += rest.len() as u64;
                continue;
            }
            if self.windows.iter().any(|window| window.extent.end_bytes() == next) {
                self.ahead_bytes = (2 * self.ahead_bytes).min(PIECE_BYTES);
            }
            let missing = (wanted.end_bytes() - next) as u32;
            let is_here = |extent: &Extent| extent.at_bytes <= next && next < extent.end_bytes();
            let posted = match self.under_way.take(is_here) {
                Some(posted) => posted,
                None if self.read.depth_bytes() == 0 => self.read.post(Extent::new(next, missing)),
                None => {
                    let len_bytes = missing.max(self.ahead_bytes).min(PIECE_BYTES);
                    let on = Way { at_bytes: next, end_bytes: way.end_bytes.max(wanted.end_bytes()) };
                    self.read.post(on.first(len_bytes))
                }
            };
            let extent = posted.extent;
            self.look_ahead(extent.end_bytes(), missing, way);
            let data = self.read.finish(posted)?;
            self.windows.push(Window { extent, data });
        }
        Ok(())
    }

    /// Begins to read ahead in the segment, if the tail or the wanted range is long.
    fn look_ahead(&mut self, from: u64, missing: u32, way: &Way) {
        if !self.is_long() && missing <= FIRST_BYTES {
            return;
        }
        let mut on = Way { at_bytes: from, end_bytes: way.end_bytes };
        for _ in 0..READS_AHEAD {
            self.expect_more(&on);
            on.at_bytes += u64::from(self.ahead_bytes);
        }
    }

    /// The bytes of a range that several windows have together.
    fn join(&self, wanted: Extent) -> AlignedBuf {
        let mut joined = AlignedBuf::scratch(wanted.len_bytes as usize);
        let mut done = 0;
        while done < joined.len() {
            let next = wanted.at_bytes + done as u64;
            let Some(rest) = self.windows.iter().rev().find_map(|window| window.from(next)) else { break };
            let len = rest.len().min(joined.len() - done);
            joined[done..done + len].copy_from_slice(&rest[..len]);
            done += len;
        }
        joined
    }

    /// Drops windows that were not used for longest, until the rest is within its bound.
    fn forget_oldest(&mut self) {
        let mut bytes: usize = self.windows.iter().map(|window| window.data.len()).sum();
        while bytes > WINDOWS_BYTES || self.windows.len() > WINDOWS {
            bytes -= self.windows.remove(0).data.len();
        }
    }
}
