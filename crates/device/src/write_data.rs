//! `WriteData`: the bytes of a write, in one buffer or in pieces of several.
//!
//! A file system that has the blocks of a segment in memory already hands them over as they are, instead of a copy of all of them. A
//! device that can gather takes the pieces from where they are ([`WriteData::write_to`]); any other one asks for a copy ([`WriteData::whole`]).

use crate::buffer::AlignedBuf;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// See the module's head. Immutable, and cheap to clone.
#[derive(Clone)]
pub enum WriteData {
    /// One buffer.
    Whole(Arc<AlignedBuf>),
    /// Pieces of buffers, one behind the other on the device.
    Pieces(Arc<Pieces>),
}

/// See [`WriteData::Pieces`].
#[derive(Default)]
pub struct Pieces {
    parts: Vec<(Arc<AlignedBuf>, Range<usize>)>,
    len_bytes: usize,
}

impl Pieces {
    /// Adds a part of a buffer at the end; it makes one piece with the last one if it follows that in the same buffer. An empty part
    /// adds nothing.
    ///
    /// # Panics
    /// If it does not lie in the buffer: a caller's bug.
    pub fn push(&mut self, buf: &Arc<AlignedBuf>, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= buf.len(), "a part lies inside");
        self.len_bytes += range.len();
        match self.parts.last_mut() {
            _ if range.is_empty() => {}
            Some((last, before)) if Arc::ptr_eq(last, buf) && before.end == range.start => {
                before.end = range.end
            }
            _ => self.parts.push((buf.clone(), range)),
        }
    }

    /// The pieces, in order; none is empty.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(|(buf, range)| &buf[range.clone()])
    }

    /// True if each piece begins in memory, and ends, on a multiple of `unit_bytes` (a power of two).
    pub(crate) fn are_aligned(&self, unit_bytes: usize) -> bool {
        // Buffers begin on pages, which are multiples of all units up to a page.
        let begins =
            |buf: &AlignedBuf, at: usize| buf.as_ptr().wrapping_add(at).align_offset(unit_bytes) == 0;
        self.parts
            .iter()
            .all(|(buf, range)| begins(buf, range.start) && range.len().is_multiple_of(unit_bytes))
    }
}

impl WriteData {
    /// Length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        match self {
            Self::Whole(buf) => buf.len(),
            Self::Pieces(pieces) => pieces.len_bytes,
        }
    }

    /// Hands over each stretch of bytes with its place on the device, if the first is at `at_bytes`.
    pub fn write_to(&self, at_bytes: u64, mut write: impl FnMut(u64, &[u8])) {
        match self {
            Self::Whole(buf) => write(at_bytes, buf),
            Self::Pieces(pieces) => {
                pieces.iter().fold(at_bytes, |at_bytes, piece| {
                    write(at_bytes, piece);
                    at_bytes + piece.len() as u64
                });
            }
        }
    }

    /// All bytes in one buffer: a copy, if they are in pieces.
    #[must_use]
    pub fn whole(&self) -> Arc<AlignedBuf> {
        match self {
            Self::Whole(buf) => buf.clone(),
            Self::Pieces(pieces) => {
                let mut out = AlignedBuf::scratch(pieces.len_bytes);
                self.write_to(0, |at, bytes| out[at as usize..][..bytes.len()].copy_from_slice(bytes));
                Arc::new(out)
            }
        }
    }
}

impl From<Arc<AlignedBuf>> for WriteData {
    fn from(buf: Arc<AlignedBuf>) -> Self {
        Self::Whole(buf)
    }
}

impl From<AlignedBuf> for WriteData {
    fn from(buf: AlignedBuf) -> Self {
        Self::Whole(Arc::new(buf))
    }
}

impl From<Pieces> for WriteData {
    fn from(pieces: Pieces) -> Self {
        Self::Pieces(Arc::new(pieces))
    }
}

impl fmt::Debug for WriteData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteData({} bytes)", self.len_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_joined_where_they_follow_each_other_and_make_up_the_whole() {
        let buf = |byte| Arc::new(AlignedBuf::copy_of(&[byte; 2048]));
        let (one, two) = (buf(1), buf(2));
        let mut pieces = Pieces::default();
        pieces.push(&one, 0..512);
        pieces.push(&one, 512..1024);
        pieces.push(&two, 100..100);
        pieces.push(&two, 512..1536);
        pieces.push(&one, 1024..2048);
        let lens: Vec<usize> = pieces.iter().map(<[u8]>::len).collect();
        assert_eq!(lens, [1024, 1024, 1024]);
        assert!(pieces.are_aligned(512) && !pieces.are_aligned(4096));
        let data = WriteData::from(pieces);
        assert_eq!(data.len_bytes(), 3072);
        assert_eq!(data.whole()[..], [[1; 1024], [2; 1024], [1; 1024]].concat());
        let whole = WriteData::from(one.clone());
        assert!(Arc::ptr_eq(&whole.whole(), &one), "no copy of what is in one buffer");
        let mut odd = Pieces::default();
        odd.push(&one, 0..700);
        assert!(!odd.are_aligned(512));
    }
}
