//! `Buf`: an immutable block in memory that several owners share.
//!
//! A block that stands alone has its bytes next to its reference count: outside the processor's caches it costs one access to
//! memory. The blocks of one large write lie side by side in a buffer that begins on a page, so that a device can take them from
//! there ([`Buf::lent`]). Each of them keeps all of the buffer, so buffers are small: see [`ready_blocks`](super::content::ready_blocks).

use firnfs_device::AlignedBuf;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// See the module's head.
#[derive(Clone)]
pub struct Buf(Bytes);

/// Small: see `cache::CachedBlock`.
#[derive(Clone)]
enum Bytes {
    Alone(Arc<[u8]>),
    Part { of: Arc<AlignedBuf>, start: u32, len: u32 },
}

impl Buf {
    /// A part of a buffer.
    ///
    /// # Panics
    /// If it does not lie inside, or ends beyond 4 GiB: a caller's bug.
    #[must_use]
    pub fn part(of: &Arc<AlignedBuf>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= of.len(), "a part lies inside");
        let small = |at: usize| u32::try_from(at).expect("buffers of blocks are small");
        Self(Bytes::Part { of: of.clone(), start: small(range.start), len: small(range.len()) })
    }

    /// The buffer that the block is a part of, and where it begins there; `None` if it stands alone.
    #[must_use]
    pub fn lent(&self) -> Option<(&Arc<AlignedBuf>, usize)> {
        match &self.0 {
            Bytes::Alone(_) => None,
            Bytes::Part { of, start, .. } => Some((of, *start as usize)),
        }
    }

    /// The bytes, to be changed in place; copied first unless they stand alone and nobody shares them.
    pub fn make_mut(&mut self) -> &mut [u8] {
        if let Bytes::Part { .. } = &self.0 {
            *self = Self::from(&**self);
        }
        match &mut self.0 {
            Bytes::Alone(bytes) => Arc::make_mut(bytes),
            Bytes::Part { .. } => unreachable!("it stands alone now"),
        }
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Alone(bytes) => bytes,
            Bytes::Part { of, start, len } => &of[*start as usize..][..*len as usize],
        }
    }
}

impl From<&[u8]> for Buf {
    /// A copy.
    fn from(bytes: &[u8]) -> Self {
        Self(Bytes::Alone(bytes.into()))
    }
}

impl From<Vec<u8>> for Buf {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Bytes::Alone(bytes.into()))
    }
}

impl<const N: usize> From<[u8; N]> for Buf {
    fn from(bytes: [u8; N]) -> Self {
        Self(Bytes::Alone(Arc::new(bytes)))
    }
}

impl PartialEq for Buf {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Buf {}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_shows_its_range_and_leaves_the_buffer_when_it_is_changed() {
        let whole = Arc::new(AlignedBuf::copy_of(&[[1; 512], [2; 512]].concat()));
        let first = Buf::part(&whole, 0..512);
        let mut second = Buf::part(&whole, 512..1024);
        assert_eq!((first[511], second[0], second.len()), (1, 2, 512));
        assert_eq!(second.lent().map(|(of, start)| (Arc::ptr_eq(of, &whole), start)), Some((true, 512)));
        let before = second.clone();
        second.make_mut()[0] = 9;
        assert!(second.lent().is_none() && second[0] == 9);
        assert_eq!((before[0], whole[512]), (2, 2), "others see what they saw");
        assert_eq!(before, Buf::from(&[2; 512][..]));
        drop((first, before));
        assert_eq!(Arc::strong_count(&whole), 1, "a changed block no longer keeps the buffer");
    }
}
