//! `Parcel`: a partial segment on its way to the device.
//!
//! It holds the blocks themselves, not a copy: the driver assembles the bytes only when it makes the request, outside
//! the core's lock ([`Parcel::assemble`]). Until the partial segment is written, reads of it are served from here.
//!
//! Invariants: parts lie in the order of their places and do not overlap; between and after them are zeros; nothing
//! changes once it is complete.

use crate::store::Buf;
use firnfs_device::AlignedBuf;
use std::ops::Range;

enum Source {
    /// A range of [`Parcel::own`].
    Own(Range<usize>),
    /// The beginning of a block that the cache or its writer may share.
    Block(Buf),
}

struct Part {
    at_bytes: usize,
    len_bytes: usize,
    source: Source,
}

/// See the module's head.
pub struct Parcel {
    len_bytes: usize,
    /// Summary, records, metadata: parts that are small, or that may change after the layout. The memory is reused,
    /// because faulting in fresh pages for a commit of megabytes takes longer than filling them.
    own: AlignedBuf,
    /// How much of it is filled.
    own_len_bytes: usize,
    parts: Vec<Part>,
}

impl Parcel {
    /// A parcel of `len_bytes` zeros; [`Parcel::summary_mut`] gives access to the first `summary_bytes`. `own_bytes` is the
    /// most that [`Parcel::add_zeros`] and [`Parcel::add_copy`] will add, `parts` the number of parts in all.
    pub fn new(len_bytes: usize, summary_bytes: usize, own_bytes: usize, parts: usize) -> Self {
        let own = AlignedBuf::scratch(summary_bytes + own_bytes);
        let parts = Vec::with_capacity(parts + 1);
        let mut parcel = Self { len_bytes, own, own_len_bytes: 0, parts };
        parcel.add_zeros(0, summary_bytes);
        parcel
    }

    /// The place of the summary.
    pub fn summary_mut(&mut self) -> &mut [u8] {
        let len_bytes = self.parts[0].len_bytes;
        &mut self.own[..len_bytes]
    }

    /// Adds `len_bytes` zeros at a place after all others, for the caller to fill in.
    pub fn add_zeros(&mut self, at_bytes: usize, len_bytes: usize) -> &mut [u8] {
        let out = self.add_own(at_bytes, len_bytes);
        out.fill(0);
        out
    }

    /// Adds a copy of `bytes` at a place after all others.
    pub fn add_copy(&mut self, at_bytes: usize, bytes: &[u8]) {
        self.add_own(at_bytes, bytes.len()).copy_from_slice(bytes);
    }

    /// Adds bytes with unspecified content.
    fn add_own(&mut self, at_bytes: usize, len_bytes: usize) -> &mut [u8] {
        let from = self.own_len_bytes;
        self.own_len_bytes += len_bytes;
        let range = from..self.own_len_bytes;
        self.parts.push(Part { at_bytes, len_bytes, source: Source::Own(range.clone()) });
        &mut self.own[range]
    }

    /// Adds the first `len_bytes` of a block at a place after all others.
    pub fn add_block(&mut self, at_bytes: usize, len_bytes: usize, block: Buf) {
        self.parts.push(Part { at_bytes, len_bytes, source: Source::Block(block) });
    }

    /// Length of the partial segment in bytes.
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    fn content<'a>(&'a self, part: &'a Part) -> &'a [u8] {
        match &part.source {
            Source::Own(range) => &self.own[range.clone()],
            Source::Block(block) => &block[..part.len_bytes],
        }
    }

    /// The bytes that begin at a place; `None` unless a single part has all of them.
    pub fn bytes(&self, at_bytes: usize, len_bytes: usize) -> Option<&[u8]> {
        let after = self.parts.partition_point(|part| part.at_bytes <= at_bytes);
        let part = &self.parts[after.checked_sub(1)?];
        let skip = at_bytes - part.at_bytes;
        self.content(part).get(skip..skip + len_bytes)
    }

    /// All bytes, for the device.
    pub fn assemble(&self) -> AlignedBuf {
        let mut out = AlignedBuf::scratch(self.len_bytes);
        let mut end = 0;
        for part in &self.parts {
            out[end..part.at_bytes].fill(0);
            end = part.at_bytes + part.len_bytes;
            out[part.at_bytes..end].copy_from_slice(self.content(part));
        }
        out[end..].fill(0);
        out
    }
}

impl std::fmt::Debug for Parcel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Parcel({} bytes in {} parts)", self.len_bytes, self.parts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_read_back_from_its_place_and_the_rest_is_zero() {
        // The previous content of this memory must not show through.
        drop(AlignedBuf::copy_of(&[0xee; 1 << 17]));
        let mut parcel = Parcel::new(1 << 17, 512, 100, 3);
        parcel.summary_mut().fill(1);
        parcel.add_zeros(512, 50);
        parcel.add_copy(562, &[2; 50]);
        parcel.add_block(4096, 512, Buf::from([3; 4096]));
        let bytes = parcel.assemble();
        let expected = |at: usize| match at {
            0..512 => 1,
            562..612 => 2,
            4096..4608 => 3,
            _ => 0,
        };
        assert!((0..bytes.len()).all(|at| bytes[at] == expected(at)));
        assert_eq!(parcel.bytes(512, 50), Some(&[0; 50][..]));
        assert_eq!(parcel.bytes(562, 50), Some(&[2; 50][..]));
        assert_eq!(parcel.bytes(4100, 508), Some(&[3; 508][..]));
        assert_eq!(parcel.bytes(4100, 509), None);
        assert_eq!(parcel.bytes(700, 1), None);
    }
}
