//! `Content`: bytes on their way into a file.
//!
//! Copying a block and computing its checksum take longer than all other work of a write. Neither needs the core, so a driver
//! does both beforehand, outside its lock ([`Content::prepared`]); a store takes a prepared block as it is. Other callers pass
//! bytes ([`Content::from`]). Whoever has the bytes in a buffer that begins on a page can spare the copy, too ([`lent_blocks`]).

use crate::store::{Buf, StoreFacts};
use firnfs_device::AlignedBuf;
use std::ops::Range;
use std::sync::Arc;

/// Blocks of one write that lie in a buffer together. More would spare a little more, but one of them in the cache keeps all.
const TOGETHER: usize = 4;

/// A whole block, copied or lent.
#[derive(Clone, Debug)]
pub struct ReadyBlock {
    /// Its bytes.
    pub buf: Buf,
    /// Their CRC-32C, for a store with checksums.
    pub crc: Option<u32>,
}

impl ReadyBlock {
    fn of(buf: Buf, facts: &StoreFacts) -> Self {
        let crc = facts.has_checksums.then(|| firnfs_format::crc32c(&buf));
        Self { buf, crc }
    }
}

/// See the module's head.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    bytes: &'a [u8],
    /// Whole blocks of the file that `bytes` cover, from `first_block` on; empty if none were prepared.
    blocks: &'a [ReadyBlock],
    first_block: u64,
}

impl<'a> From<&'a [u8]> for Content<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, blocks: &[], first_block: 0 }
    }
}

impl<'a> Content<'a> {
    /// Bytes for `at_bytes` of a file, with the whole blocks among them as [`ready_blocks`] made them.
    #[must_use]
    pub fn prepared(at_bytes: u64, bytes: &'a [u8], blocks: &'a [ReadyBlock], block_bytes: u32) -> Self {
        Self { bytes, blocks, first_block: at_bytes.div_ceil(u64::from(block_bytes)) }
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Length in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Its first `len_bytes` bytes.
    #[must_use]
    pub fn cut(self, len_bytes: usize) -> Self {
        Self { bytes: &self.bytes[..len_bytes], ..self }
    }

    /// A block of the file, if it was prepared. The caller must know whether the content covers all of it: [`Content::cut`]
    /// leaves the blocks.
    #[must_use]
    pub fn ready(&self, index: u64) -> Option<&'a ReadyBlock> {
        self.blocks.get(usize::try_from(index.checked_sub(self.first_block)?).ok()?)
    }
}

/// The whole blocks that bytes at `at_bytes` of a file cover, copied, with their checksums if the store keeps any.
///
/// Two to four neighbours lie in a buffer together, from which a device can take them. A single block stands alone: it would keep
/// twice its size.
#[must_use]
pub fn ready_blocks(at_bytes: u64, bytes: &[u8], facts: &StoreFacts) -> Vec<ReadyBlock> {
    let block = facts.block_bytes as usize;
    let whole = &bytes[whole_blocks(at_bytes, bytes.len(), facts)];
    let mut ready = Vec::with_capacity(whole.len() / block);
    let mut add = |buf: Buf| ready.push(ReadyBlock::of(buf, facts));
    for together in whole.chunks(TOGETHER * block) {
        if together.len() == block {
            add(Buf::from(together));
            continue;
        }
        let shared = Arc::new(AlignedBuf::copy_of(together));
        (0..together.len()).step_by(block).for_each(|at| add(Buf::part(&shared, at..at + block)));
    }
    ready
}

/// As [`ready_blocks`], for a part of a buffer and without a copy: each block keeps all of the buffer, so this is not for a store that
/// [keeps content](StoreFacts::keeps_content).
///
/// # Panics
/// If the part does not lie in the buffer, or ends beyond 4 GiB: a caller's bug.
#[must_use]
pub fn lent_blocks(
    at_bytes: u64,
    buf: &Arc<AlignedBuf>,
    part: Range<usize>,
    facts: &StoreFacts,
) -> Vec<ReadyBlock> {
    let block = facts.block_bytes as usize;
    let whole = whole_blocks(at_bytes, part.len(), facts);
    let starts = (part.start + whole.start..part.start + whole.end).step_by(block);
    starts.map(|start| ReadyBlock::of(Buf::part(buf, start..start + block), facts)).collect()
}

/// Where the whole blocks of a file lie among `len_bytes` bytes for `at_bytes` of it.
fn whole_blocks(at_bytes: u64, len_bytes: usize, facts: &StoreFacts) -> Range<usize> {
    let block = facts.block_bytes as usize;
    // The offset may be any, also one within the last block of 2^64 bytes: it has not been checked yet.
    let within = (at_bytes % u64::from(facts.block_bytes)) as usize;
    let start = ((block - within) % block).min(len_bytes);
    start..start + (len_bytes - start) / block * block
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Atomicity;

    #[test]
    fn only_whole_blocks_are_ready_and_each_is_found_by_its_number_in_the_file() {
        let bytes: Vec<u8> = (0..40).collect();
        let mut facts = StoreFacts {
            block_bytes: 8,
            inline_max_bytes: 0,
            inline_xattr_max_bytes: 0,
            file_max_bytes: 1 << 40,
            op_max_bytes: 1 << 20,
            read_max_bytes: u64::MAX,
            dir_unit_bytes: 8,
            hash_key: [0; 2],
            atomicity: Atomicity::Whole,
            has_checksums: true,
            keeps_content: false,
        };
        let blocks = ready_blocks(13, &bytes, &facts);
        let content = Content::prepared(13, &bytes, &blocks, 8);
        // Bytes 13..53 of the file: block 1 in part, 2 to 5 whole, 6 in part.
        let ready: Vec<_> = (0..9).map(|index| content.ready(index).map(|b| b.buf[0])).collect();
        assert_eq!(ready, [None, None, Some(3), Some(11), Some(19), Some(27), None, None, None]);
        assert_eq!(content.ready(2).unwrap().crc, Some(firnfs_format::crc32c(&bytes[3..11])));
        // The same without a copy, from the middle of a buffer.
        let buf = Arc::new(AlignedBuf::copy_of(&[&[99; 5][..], &bytes, &[99]].concat()));
        let lent = lent_blocks(13, &buf, 5..45, &facts);
        assert_eq!(lent.len(), 4);
        for (lent, copied) in lent.iter().zip(&blocks) {
            assert_eq!((&lent.buf, lent.crc), (&copied.buf, copied.crc));
            assert!(lent.buf.lent().is_some_and(|(of, _)| Arc::ptr_eq(of, &buf)));
        }
        assert!(lent_blocks(13, &buf, 5..15, &facts).is_empty(), "no whole block");
        facts = StoreFacts { block_bytes: 16, has_checksums: false, ..facts };
        assert!(ready_blocks(1, &bytes[..10], &facts).is_empty(), "no whole block");
        assert_eq!(
            ready_blocks(u64::MAX, &bytes, &facts).len(),
            2,
            "an offset that no file reaches is refused later"
        );
        assert_eq!(ready_blocks(0, &bytes, &facts)[1].crc, None);
        assert_eq!(Content::from(&bytes[..]).cut(7).len_bytes(), 7);
    }
}
