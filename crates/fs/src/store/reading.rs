//! Reads of content: where its bytes are, in memory or on the device ([`ReadPlan`]), and which ranges are holes ([`Extent`]).

use crate::fetch::{Soon, Token};
use crate::store::Buf;

/// The kind of a byte range of a fork.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Length in bytes from the offset asked for; at least 1.
    pub len_bytes: u64,
    /// False for holes and for reserved space that was never written.
    pub is_data: bool,
    /// False only for holes: their blocks are not charged to the file yet.
    pub is_charged: bool,
}

/// One stretch of a read. Stretches follow each other in file order without gaps.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Zeros.
    Zeros {
        /// Length in bytes.
        len_bytes: usize,
    },
    /// Bytes in memory.
    Memory {
        /// The block.
        buf: Buf,
        /// First byte in it.
        start: usize,
        /// Number of bytes.
        len_bytes: usize,
    },
    /// Bytes on the device, to be read and verified outside the lock. Bytes beyond the stored length are zero.
    Stored {
        /// Identifies the expected bytes, for [`Verify`](crate::engine::Verify).
        token: Token,
        /// Where they start on the device, in bytes.
        at_bytes: u64,
        /// Their number.
        stored_bytes: u32,
        /// First byte in the block.
        start: usize,
        /// Number of bytes.
        len_bytes: usize,
    },
}

impl Piece {
    /// Length of the stretch in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        match self {
            Self::Zeros { len_bytes } | Self::Memory { len_bytes, .. } | Self::Stored { len_bytes, .. } => {
                *len_bytes
            }
        }
    }
}

/// How to carry out a read. The bytes that it refers to stay in place until `pin` is released.
#[derive(Debug, Default)]
pub struct ReadPlan {
    /// Stretches in file order.
    pub pieces: Vec<Piece>,
    /// What later reads are likely to need: to be started with this read, and not waited for.
    pub soon: Vec<Soon>,
    /// To be released with [`Engine::unpin`](crate::engine::Engine::unpin); 0 if nothing is pinned.
    pub pin: u64,
}

impl ReadPlan {
    /// Length of the whole read in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.pieces.iter().map(Piece::len_bytes).sum()
    }
}
