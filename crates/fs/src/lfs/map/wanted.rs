//! Requests of the log to the driver, and how fetched bytes are checked: the meaning of its [`Token`]s.

use super::admit;
use super::shelf::describe;
use crate::clean::reading::Run;
use crate::engine::Verify;
use crate::error::FsError;
use crate::fetch::Token;
use crate::lfs::base::geometry::Geometry;
use crate::mutation::{Mutation, is_on};
use crate::store::{BlockKey, Fork};
use firnfs_format::{BlockIndex, BlockPtr, InodeNo, SegmentId};
use std::sync::atomic::{AtomicU64, Ordering};

/// What fetched bytes have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A block of a fork or of a table, to be checked against the CRC in its pointer.
    Block(BlockKey, BlockPtr),
    /// An inode record, to be checked against the CRC in its pointer.
    Inode(InodeNo, BlockPtr),
    /// A block or record that a retained point leads to, to be checked against the CRC in its pointer.
    Past(BlockPtr),
    /// Sectors of a segment for the cleaner, which checks the parts that it uses.
    Part(SegmentId, Run),
}

const BLOCK: u64 = 0;
const INODE: u64 = 1;
const PART: u64 = 2;
const PAST: u64 = 3;

impl Wanted {
    /// The token that the driver carries.
    #[must_use]
    pub fn token(&self) -> Token {
        match *self {
            Self::Block(key, ptr) => {
                let head = BLOCK | (key.fork as u64) << 8 | u64::from(key.level) << 16;
                let [low, high] = words_of(&ptr);
                Token::of([head, key.ino.0, key.index.0, low, high])
            }
            Self::Inode(ino, ptr) => {
                let [low, high] = words_of(&ptr);
                Token::of([INODE, ino.0, 0, low, high])
            }
            Self::Past(ptr) => {
                let [low, high] = words_of(&ptr);
                Token::of([PAST, 0, 0, low, high])
            }
            Self::Part(segment, run) => {
                Token::of([PART, segment.0, u64::from(run.from), u64::from(run.len), 0])
            }
        }
    }

    /// Decodes a token of this store.
    #[must_use]
    pub fn of(token: &Token) -> Self {
        let [head, first, second, low, high] = token.words();
        let ptr = BlockPtr::decode(&bytes_of(low, high));
        match head & 0xff {
            BLOCK => {
                let fork = match (head >> 8) & 0xff {
                    0 => Fork::Data,
                    1 => Fork::Index,
                    _ => Fork::Xattr,
                };
                let level = ((head >> 16) & 0xff) as u8;
                let key = BlockKey { ino: InodeNo(first), fork, level, index: BlockIndex(second) };
                Self::Block(key, ptr)
            }
            INODE => Self::Inode(InodeNo(first), ptr),
            PAST => Self::Past(ptr),
            _ => Self::Part(SegmentId(first), Run { from: second as u32, len: low as u32 }),
        }
    }

    /// Checks bytes against the checksum in the pointer, and that their values are possible.
    ///
    /// # Errors
    /// `Corrupt`, with place, expected and found.
    pub fn verify(&self, geo: &Geometry, bytes: &[u8]) -> Result<(), FsError> {
        match self {
            Self::Block(key, ptr) => {
                verify_stored(ptr, geo, bytes, || describe(key))?;
                admit::block(geo, key, ptr, bytes)
            }
            // The values in the record are checked when it is decoded.
            Self::Inode(ino, ptr) => verify_stored(ptr, geo, bytes, || format!("inode {ino}")),
            // Its values are checked where they are used.
            Self::Past(ptr) => verify_stored(ptr, geo, bytes, || "block of a retained point".to_owned()),
            Self::Part(..) => Ok(()),
        }
    }
}

fn words_of(ptr: &BlockPtr) -> [u64; 2] {
    let bytes = ptr.encode();
    let (low, high) = bytes.split_at(8);
    [low, high].map(|half| u64::from_le_bytes(half.try_into().expect("half of 16 bytes")))
}

fn bytes_of(low: u64, high: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&low.to_le_bytes());
    bytes[8..].copy_from_slice(&high.to_le_bytes());
    bytes
}

/// Checks stored bytes against the checksum in their pointer.
///
/// # Errors
/// `Corrupt`, with place, expected and found checksum.
pub fn verify_stored(
    ptr: &BlockPtr,
    geo: &Geometry,
    bytes: &[u8],
    name: impl FnOnce() -> String,
) -> Result<(), FsError> {
    let crc = firnfs_format::crc32c(bytes);
    if crc == ptr.crc || is_on(Mutation::UncheckedReads) {
        return Ok(());
    }
    Err(FsError::Corrupt {
        what: name(),
        at: geo.place(ptr.addr),
        expected: format!("checksum {:08x}", ptr.crc),
        found: format!("{crc:08x}"),
    })
}

/// The log's [`Verify`]: every block has its checksum in the pointer to it.
pub(in crate::lfs) struct Verifier {
    geo: Geometry,
    /// Segments of the volume now: threads that read see it change.
    segments: AtomicU64,
}

impl Verifier {
    pub fn new(geo: Geometry) -> Self {
        Self { segments: geo.segments.into(), geo }
    }

    /// The volume has another number of segments now.
    pub fn resize(&self, segments: u64) {
        self.segments.store(segments, Ordering::Release);
    }
}

impl Verify for Verifier {
    fn verify(&self, token: &Token, bytes: &[u8]) -> Result<(), FsError> {
        let segments = self.segments.load(Ordering::Acquire);
        if segments == self.geo.segments {
            return Wanted::of(token).verify(&self.geo, bytes);
        }
        Wanted::of(token).verify(&Geometry { segments, ..self.geo.clone() }, bytes)
    }

    /// The cleaner judges its parts of a segment block by block; a block that does not match counts as dead.
    fn notices_stale(&self, token: &Token) -> bool {
        !matches!(Wanted::of(token), Wanted::Part(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lfs::base::segment_map::{DeviceNo, Place, SegmentMap};
    use firnfs_format::{Epoch, PtrKind, SectorAddr};

    #[test]
    fn what_the_cleaner_reads_never_comes_from_what_was_read_before() {
        let geo = Geometry::with(
            4096,
            1 << 20,
            4096,
            SegmentMap::new(1 << 20).with_stretch(100, Place { device: DeviceNo::FIRST, at_bytes: 2 << 20 }),
        );
        let verifier = Verifier::new(geo);
        assert!(verifier.notices_stale(&Wanted::Inode(InodeNo(7), BlockPtr::HOLE).token()));
        assert!(!verifier.notices_stale(&Wanted::Part(SegmentId(3), Run { from: 0, len: 8 }).token()));
    }

    #[test]
    fn a_token_says_what_was_put_into_it() {
        let ptr = BlockPtr {
            addr: SectorAddr(0x12_3456_789a),
            len_sectors: 8,
            kind: PtrKind::Plain,
            crc: 0xdead_beef,
            birth: Epoch(77),
        };
        let key = |fork, level, index| BlockKey { ino: InodeNo(9), fork, level, index: BlockIndex(index) };
        for wanted in [
            Wanted::Block(key(Fork::Data, 0, 0), ptr),
            Wanted::Block(key(Fork::Index, 0, 7), ptr),
            Wanted::Block(key(Fork::Xattr, 3, u64::MAX >> 8), ptr),
            Wanted::Inode(InodeNo(u64::MAX >> 1), ptr),
            Wanted::Past(ptr),
            Wanted::Part(SegmentId(1 << 40), Run { from: 7, len: u32::MAX }),
        ] {
            assert_eq!(Wanted::of(&wanted.token()), wanted);
        }
    }
}
