//! A store's requests for bytes of the device, in a form that every store can use.
//!
//! A [`Token`] says what the bytes will be. Only the store that made it can read it: the driver carries it to the
//! [`Verify`](crate::engine::Verify) of the same store, outside the lock, and back to
//! [`Engine::supply`](crate::engine::Engine::supply). The store decides how far to read around a range ([`Ahead`]), because it
//! knows what lies there ([`lookahead`](crate::lookahead)). What was read comes back as [`Fetched`], in the buffer into which it was read.

use firnfs_device::AlignedBuf;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Words of a token: enough for a block's name and a pointer of 16 bytes.
const TOKEN_WORDS: usize = 5;

/// See the module's head. Equal tokens stand for the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Token([u64; TOKEN_WORDS]);

impl Token {
    /// For stores: makes a token with these words.
    #[must_use]
    pub fn of(words: [u64; TOKEN_WORDS]) -> Self {
        Self(words)
    }

    /// For stores: the words given to [`Token::of`].
    #[must_use]
    pub fn words(&self) -> [u64; TOKEN_WORDS] {
        self.0
    }
}

/// How many bytes beside a range are worth reading with it, because they are likely to be needed next.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Ahead {
    /// Bytes in front of the range.
    pub before_bytes: u32,
    /// Bytes after the range.
    pub behind_bytes: u32,
}

impl Ahead {
    /// Nothing but the range itself.
    pub const NONE: Self = Self { before_bytes: 0, behind_bytes: 0 };
}

/// A range that later reads are likely to need. The driver may start reading it now; nobody waits for it before something in it
/// is needed. It may come late, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Soon {
    /// Where, in bytes on the device.
    pub at_bytes: u64,
    /// How much, in bytes.
    pub len_bytes: u32,
    /// What it is, if the store wants it as it wants a fetch: once an operation needs the first bytes of a fetch that lies in it, the
    /// driver supplies the whole range, and the store drops what is stale by then. Without a token the driver keeps the bytes,
    /// and serves reads whose tokens reveal stale bytes ([`Verify::notices_stale`](crate::engine::Verify::notices_stale)).
    pub token: Option<Token>,
}

/// A range that a store needs from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// What it is, for the store that asked.
    pub token: Token,
    /// Where, in bytes on the device.
    pub at_bytes: u64,
    /// How much, in bytes.
    pub len_bytes: u32,
    /// What to read with it.
    pub ahead: Ahead,
}

/// Bytes that were read: a buffer, or a part of one that other fetches share. Whoever keeps them copies nothing.
#[derive(Clone, Debug)]
pub struct Fetched {
    buf: Arc<AlignedBuf>,
    range: Range<usize>,
}

impl Fetched {
    /// A part of a buffer; `None` if it does not lie inside.
    #[must_use]
    pub fn part(buf: &Arc<AlignedBuf>, range: Range<usize>) -> Option<Self> {
        buf.get(range.clone()).is_some().then(|| Self { buf: buf.clone(), range })
    }

    /// A part of these bytes; `None` if it does not lie inside.
    #[must_use]
    pub fn within(&self, range: Range<usize>) -> Option<Self> {
        let end = self.range.start.checked_add(range.end)?;
        let is_inside = range.start <= range.end && end <= self.range.end;
        is_inside.then(|| Self { buf: self.buf.clone(), range: self.range.start + range.start..end })
    }

    /// These bytes and `next` in one, if it follows them in the same buffer.
    #[must_use]
    pub fn joined(&self, next: &Self) -> Option<Self> {
        let follows = Arc::ptr_eq(&self.buf, &next.buf) && self.range.end == next.range.start;
        follows.then(|| Self { buf: self.buf.clone(), range: self.range.start..next.range.end })
    }

    /// True if nothing else is in the buffer: whoever keeps the bytes keeps no more memory than they need.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.range == (0..self.buf.len())
    }
}

impl From<AlignedBuf> for Fetched {
    fn from(buf: AlignedBuf) -> Self {
        Self { range: 0..buf.len(), buf: Arc::new(buf) }
    }
}

impl From<&[u8]> for Fetched {
    /// A copy.
    fn from(bytes: &[u8]) -> Self {
        AlignedBuf::copy_of(bytes).into()
    }
}

impl From<Vec<u8>> for Fetched {
    /// A copy: memory from elsewhere need not begin on a page.
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(&*bytes)
    }
}

impl Deref for Fetched {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buf[self.range.clone()]
    }
}
