//! `Content`: bytes on their way into a file.
//!
//! Copying a block and summing it up take longer than everything else that a write does to it. Neither needs the core,
//! so a driver can have both done beforehand, outside its lock ([`Content::prepared`]); a store that meets a block
//! prepared takes it as it is. Who does not care passes bytes ([`Content::from`]).

use crate::store::Buf;

/// A whole block, copied and summed up.
#[derive(Clone, Debug)]
pub struct ReadyBlock {
    /// Its bytes.
    pub buf: Buf,
    /// Their CRC-32C.
    pub crc: u32,
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

    /// A block of the file, if it was prepared. Whether the content covers all of it is for the caller to know: a
    /// [`Content::cut`] leaves the blocks.
    #[must_use]
    pub fn ready(&self, index: u64) -> Option<&'a ReadyBlock> {
        self.blocks.get(usize::try_from(index.checked_sub(self.first_block)?).ok()?)
    }
}

/// The whole blocks that bytes at `at_bytes` of a file cover, copied and summed up.
#[must_use]
pub fn ready_blocks(at_bytes: u64, bytes: &[u8], block_bytes: u32) -> Vec<ReadyBlock> {
    let block = block_bytes as usize;
    let skip = (at_bytes.next_multiple_of(u64::from(block_bytes)) - at_bytes) as usize;
    let whole = bytes.get(skip..).unwrap_or(&[]).chunks_exact(block);
    whole.map(|b| ReadyBlock { buf: Buf::from(b), crc: firnfs_format::crc32c(b) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_blocks_are_ready_and_each_is_found_by_its_number_in_the_file() {
        let bytes: Vec<u8> = (0..40).collect();
        let blocks = ready_blocks(13, &bytes, 8);
        let content = Content::prepared(13, &bytes, &blocks, 8);
        // Bytes 13..53 of the file: block 1 in part, 2 to 5 whole, 6 in part.
        let ready: Vec<_> = (0..9).map(|index| content.ready(index).map(|b| b.buf[0])).collect();
        assert_eq!(ready, [None, None, Some(3), Some(11), Some(19), Some(27), None, None, None]);
        assert_eq!(content.ready(2).unwrap().crc, firnfs_format::crc32c(&bytes[3..11]));
        assert!(ready_blocks(1, &bytes[..10], 16).is_empty(), "no whole block");
        assert_eq!(Content::from(&bytes[..]).cut(7).len_bytes(), 7);
    }
}
