//! Frames: blocks compressed, numbered and checksummed; and the end of a file.
//!
//! A [`Packer`] counts records of one file and turns blocks into bytes; it performs no I/O, so a recorder can drop what a disk
//! refuses and go on.

use crate::block::Block;
use crate::layout::{
    BLOCK_MAX_BYTES, FORM_CONTINUED, FORM_LAST, FORM_PLAIN, FORM_ZSTD, FRAME_MAGIC, FrameRaw, KIND_BLOCK,
    KIND_END, crc32c_of,
};
use std::io;
use zerocopy::{FromZeros, IntoBytes};

/// Level of compression: recorders share processors with what they record.
const ZSTD_LEVEL: i32 = 1;

/// What follows the end of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Nothing: the recording ended.
    Last,
    /// The recording goes on in the file with the next part number.
    Continued,
}

/// See the module's head.
pub struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
    compressed: Vec<u8>,
    frame: Vec<u8>,
}

/// Where a file stands: how many records it has, and how many were lost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Position {
    /// Records in the file.
    pub records: u64,
    /// Records lost since the beginning of the recording.
    pub lost: u64,
    /// The latest end of an operation, in ns since the start.
    pub end_ns: u64,
}

impl Packer {
    /// A packer.
    ///
    /// # Errors
    /// No memory for the compressor.
    pub fn new() -> io::Result<Self> {
        let bound = zstd::zstd_safe::compress_bound(BLOCK_MAX_BYTES);
        Ok(Self {
            compressor: zstd::bulk::Compressor::new(ZSTD_LEVEL)?,
            compressed: vec![0; bound],
            frame: Vec::with_capacity(size_of::<FrameRaw>() + BLOCK_MAX_BYTES),
        })
    }

    /// The frame of a block that follows `at`.
    pub fn block(&mut self, block: &Block, at: Position) -> &[u8] {
        let plain = block.bytes();
        let (form, stored) = match self.compressor.compress_to_buffer(plain, &mut self.compressed[..]) {
            Ok(len) if len < plain.len() => (FORM_ZSTD, &self.compressed[..len]),
            // It is no smaller, or cannot be compressed: as it is, it can be read as well.
            _ => (FORM_PLAIN, plain),
        };
        let raw = FrameRaw {
            magic: FRAME_MAGIC,
            kind: KIND_BLOCK.into(),
            form: form.into(),
            count: block.count().into(),
            before: at.records.into(),
            time_ns: block.first_ns().into(),
            lost: at.lost.into(),
            plain_bytes: (plain.len() as u32).into(),
            stored_bytes: (stored.len() as u32).into(),
            ..FrameRaw::new_zeroed()
        };
        seal(&mut self.frame, raw, stored);
        &self.frame
    }

    /// The frame that ends a file.
    pub fn end(&mut self, at: Position, end: End) -> &[u8] {
        let form = match end {
            End::Last => FORM_LAST,
            End::Continued => FORM_CONTINUED,
        };
        let raw = FrameRaw {
            magic: FRAME_MAGIC,
            kind: KIND_END.into(),
            form: form.into(),
            before: at.records.into(),
            time_ns: at.end_ns.into(),
            lost: at.lost.into(),
            ..FrameRaw::new_zeroed()
        };
        seal(&mut self.frame, raw, &[]);
        &self.frame
    }
}

fn seal(frame: &mut Vec<u8>, mut raw: FrameRaw, stored: &[u8]) {
    raw.crc = crc_of(raw, stored).into();
    frame.clear();
    frame.extend_from_slice(raw.as_bytes());
    frame.extend_from_slice(stored);
}

/// The checksum that belongs into a frame.
pub(crate) fn crc_of(mut raw: FrameRaw, stored: &[u8]) -> u32 {
    raw.crc = 0.into();
    crc32c_of(raw.as_bytes(), stored)
}
