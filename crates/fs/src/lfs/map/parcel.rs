//! `Parcel`: a partial segment on its way to the device.
//!
//! It holds the blocks themselves, not a copy: the driver gathers the bytes only when it makes the request, outside
//! the core's lock ([`Parcel::gather`]). Until the partial segment is written, reads of it are served from here.
//!
//! Invariants: parts lie in the order of their places and do not overlap; between and after them are zeros; nothing
//! changes once it is complete.

use crate::store::Buf;
use firnfs_device::{AlignedBuf, Pieces, WriteData};
use firnfs_format::SECTOR_BYTES;
use std::ops::Range;
use std::sync::Arc;

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

impl Part {
    /// Where its bytes are, if a device can take them from there: whole sectors of a block that lies in a buffer.
    fn lent(&self) -> Option<(&Arc<AlignedBuf>, Range<usize>)> {
        let Source::Block(block) = &self.source else { return None };
        let is_on_sectors =
            [self.at_bytes, self.len_bytes].iter().all(|n| n.is_multiple_of(SECTOR_BYTES as usize));
        let (buf, start) = block.lent().filter(|_| is_on_sectors)?;
        Some((buf, start..start + self.len_bytes))
    }
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

    /// All bytes, for the device. Blocks that lie in buffers of their own are not copied ([`Buf::lent`]).
    pub fn gather(&self) -> WriteData {
        let lent_bytes: usize =
            self.parts.iter().filter(|part| part.lent().is_some()).map(|p| p.len_bytes).sum();
        let mut own = AlignedBuf::scratch(self.len_bytes - lent_bytes);
        let (mut filled, mut end) = (0, 0);
        let mut lent = Vec::new();
        for part in &self.parts {
            let gap = part.at_bytes - end;
            own[filled..filled + gap].fill(0);
            filled += gap;
            end = part.at_bytes + part.len_bytes;
            if let Some((buf, range)) = part.lent() {
                lent.push((filled, buf, range));
            } else {
                own[filled..filled + part.len_bytes].copy_from_slice(self.content(part));
                filled += part.len_bytes;
            }
        }
        own[filled..].fill(0);
        if lent.is_empty() {
            return own.into();
        }
        let (own, mut from) = (Arc::new(own), 0);
        let mut pieces = Pieces::default();
        for (until, buf, range) in lent {
            pieces.push(&own, from..until);
            pieces.push(buf, range);
            from = until;
        }
        pieces.push(&own, from..own.len());
        pieces.into()
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
        let bytes = parcel.gather().whole();
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

    #[test]
    fn the_device_takes_blocks_of_a_buffer_from_there_and_the_rest_in_order() {
        let buf = Arc::new(AlignedBuf::copy_of(&[[4; 4096], [5; 4096]].concat()));
        let mut parcel = Parcel::new(20480, 512, 1024, 6);
        parcel.summary_mut().fill(1);
        parcel.add_copy(512, &[2; 300]);
        parcel.add_block(1024, 4096, Buf::part(&buf, 0..4096));
        parcel.add_block(5120, 4096, Buf::part(&buf, 4096..8192));
        parcel.add_block(9216, 4096, Buf::from([6; 4096]));
        parcel.add_block(13824, 1000, Buf::part(&buf, 0..4096));
        parcel.add_block(14848, 512, Buf::part(&buf, 4096..8192));
        let data = parcel.gather();
        let WriteData::Pieces(pieces) = &data else { panic!("nothing was lent") };
        let lens: Vec<usize> = pieces.iter().map(<[u8]>::len).collect();
        assert_eq!(
            lens,
            [1024, 8192, 5632, 512, 5120],
            "neighbours in a buffer go together; part of a sector is copied"
        );
        assert_eq!(pieces.iter().nth(1).unwrap().as_ptr(), buf.as_ptr());
        let expected = |at: usize| match at {
            0..512 => 1,
            512..812 => 2,
            1024..5120 | 13824..14824 => 4,
            5120..9216 | 14848..15360 => 5,
            9216..13312 => 6,
            _ => 0,
        };
        let whole = data.whole();
        assert!(whole.len() == 20480 && (0..20480).all(|at| whole[at] == expected(at)));
    }
}
