//! The fixed structures of a workload file. docs/internals/workload.md draws them; a test compares its example with these.
//!
//! All numbers are little-endian. A checksum is the CRC-32C of the structure with its own field zero, and of what follows it.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first bytes of a workload file.
pub const MAGIC: [u8; 8] = *b"firnwork";
/// The version that this crate reads and writes.
pub const VERSION: u16 = 1;
/// The first bytes of each frame.
pub const FRAME_MAGIC: [u8; 4] = *b"WFRM";
/// Most bytes of records in a block, before compression.
pub const BLOCK_MAX_BYTES: usize = 64 << 10;
/// Longest name, and longest path, in bytes: PATH_MAX.
pub const NAME_MAX_BYTES: usize = 4096;
/// Most bytes of text after the header.
pub const TEXT_MAX_BYTES: usize = 16 << 10;

/// `FrameRaw::kind`: records follow.
pub const KIND_BLOCK: u16 = 1;
/// `FrameRaw::kind`: the end of the file.
pub const KIND_END: u16 = 2;
/// `FrameRaw::form` of a block: as it is.
pub const FORM_PLAIN: u16 = 0;
/// `FrameRaw::form` of a block: one zstd frame.
pub const FORM_ZSTD: u16 = 1;
/// `FrameRaw::form` of an end: the recording ended.
pub const FORM_LAST: u16 = 0;
/// `FrameRaw::form` of an end: the recording goes on in the file with the next part number.
pub const FORM_CONTINUED: u16 = 1;

/// The beginning of a file; `text_bytes` bytes of text follow.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct HeaderRaw {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: U16,
    /// See [`crate::header::Origin`].
    pub origin: U16,
    /// 0: names as given; 1: keyed hashes.
    pub naming: U16,
    /// Zero.
    pub zero: U16,
    /// Nanoseconds since 1970 at which the records' time is zero; 0: unknown.
    pub start_ns: U64,
    /// Random; the same in all parts of one recording.
    pub recording: [u8; 16],
    /// Number of this file among the parts of the recording, from 0.
    pub part: U32,
    /// Bytes of text after this structure.
    pub text_bytes: U32,
    /// Zero.
    pub reserved: [u8; 12],
    /// Of this structure and the text.
    pub crc: U32,
}
const _: () = assert!(size_of::<HeaderRaw>() == 64);

/// The beginning of a block of records, which follow; or the end of the file.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
pub struct FrameRaw {
    /// [`FRAME_MAGIC`].
    pub magic: [u8; 4],
    /// Of this structure and the stored bytes.
    pub crc: U32,
    /// [`KIND_BLOCK`] or [`KIND_END`].
    pub kind: U16,
    /// How the block is stored, or what the end means.
    pub form: U16,
    /// Records in this block; 0 in an end.
    pub count: U32,
    /// Records before this frame in the file: in an end, all.
    pub before: U64,
    /// Block: time of the first record, in ns since the start. End: the latest end of an operation.
    pub time_ns: U64,
    /// Records lost before this frame since the beginning of the recording.
    pub lost: U64,
    /// Bytes of the records before compression; 0 in an end.
    pub plain_bytes: U32,
    /// Bytes that follow this structure; 0 in an end.
    pub stored_bytes: U32,
}
const _: () = assert!(size_of::<FrameRaw>() == 48);

/// CRC-32C (Castagnoli) of a header and of what follows it.
pub(crate) fn crc32c_of(header: &[u8], rest: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(header);
    digest.update(rest);
    digest.finalize() as u32
}
