//! `AlignedBuf`: bytes that start on a page, as O_DIRECT demands: it over-allocates and shifts, and long buffers that are read into lie in
//! [`HugePages`]. A buffer may show the bytes of another one, and becomes a copy when it is written to.

use crate::huge_pages::{HUGE_PAGE_BYTES, HugePages};
use parking_lot::Mutex;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Alignment of every buffer, in bytes.
pub const ALIGN_BYTES: usize = 4096;

/// A fixed-length byte buffer whose first byte is page-aligned.
#[derive(Default)]
pub struct AlignedBuf {
    raw: Memory,
    start: usize,
    len: usize,
    /// The class of the pool that it goes back to.
    class: Option<usize>,
    /// It came from the pool: it still has the content of its previous owner.
    is_used: bool,
    /// The buffer whose bytes it shows instead of its own, until it is written to.
    shared: Option<Arc<AlignedBuf>>,
}

/// What a buffer lies in.
enum Memory {
    Heap(Vec<u8>),
    Huge(HugePages),
}

impl Default for Memory {
    fn default() -> Self {
        Self::Heap(Vec::new())
    }
}

impl Deref for Memory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Huge(pages) => pages,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Huge(pages) => pages,
        }
    }
}

impl Memory {
    /// New memory for a buffer of `len` bytes, all zeros; of its class, if it has one.
    fn new(len: usize, class: Option<usize>) -> Self {
        match class {
            Some(class) if class >= CLASSES => Self::huge(POOLED_BYTES_MIN << (class - CLASSES)),
            Some(class) => Self::Heap(vec![0; raw_bytes(class)]),
            None => Self::Heap(vec![0; len + ALIGN_BYTES]),
        }
    }

    fn huge(len: usize) -> Self {
        HugePages::map(len).map_or_else(|| Self::Heap(vec![0; len + ALIGN_BYTES]), Self::Huge)
    }
}

/// Buffers that were dropped, kept for reuse: fresh memory costs a page fault for each page, more than filling it does. The
/// size classes are powers of two. A pool that is full drops from the class that was not asked for longest, so buffers of a
/// size that nobody needs any more make room for those that are needed now.
struct Pool {
    /// Those on the heap, then those in huge pages.
    classes: [Class; 2 * CLASSES],
    bytes: usize,
    /// Counts the buffers that were taken.
    now: u64,
}

/// The free buffers of one size.
struct Class {
    free: Vec<Memory>,
    /// When one was last asked for.
    asked_at: u64,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    classes: [const { Class { free: Vec::new(), asked_at: 0 } }; 2 * CLASSES],
    bytes: 0,
    now: 0,
});

/// Smallest buffer that is pooled, in bytes.
const POOLED_BYTES_MIN: usize = 4 << 10;
/// Largest total size that the pool keeps, in bytes.
const POOL_BYTES_MAX: usize = 16 << 20;
/// Number of size classes; the largest holds buffers of [`POOL_BYTES_MAX`].
const CLASSES: usize = (POOL_BYTES_MAX / POOLED_BYTES_MIN).ilog2() as usize + 1;

/// The class of buffers of `len` bytes; `None` if they are not pooled.
fn class_of(len: usize) -> Option<usize> {
    let is_pooled = (POOLED_BYTES_MIN..=POOL_BYTES_MAX).contains(&len);
    is_pooled.then(|| (len.next_power_of_two() / POOLED_BYTES_MIN).ilog2() as usize)
}

/// Memory of a buffer of that class on the heap, the room to align it included.
fn raw_bytes(class: usize) -> usize {
    (POOLED_BYTES_MIN << class) + ALIGN_BYTES
}

/// The class of buffers of `len` bytes in huge pages, of which they fill a quarter of the first at least; `None` for others.
fn huge_class_of(len: usize) -> Option<usize> {
    class_of(len).filter(|_| 4 * len > HUGE_PAGE_BYTES).map(|class| CLASSES + class)
}

impl Pool {
    fn take(&mut self, class: usize) -> Option<Memory> {
        self.now += 1;
        self.classes[class].asked_at = self.now;
        let raw = self.classes[class].free.pop()?;
        self.bytes -= raw.len();
        Some(raw)
    }

    fn give(&mut self, class: usize, raw: Memory) {
        self.bytes += raw.len();
        self.classes[class].free.push(raw);
        while self.bytes > POOL_BYTES_MAX {
            let used = self.classes.iter_mut().filter(|class| !class.free.is_empty());
            let Some(oldest) = used.min_by_key(|class| class.asked_at) else { return };
            self.bytes -= oldest.free.pop().map_or(0, |raw| raw.len());
        }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if let Some(class) = self.class {
            POOL.lock().give(class, std::mem::take(&mut self.raw));
        }
    }
}

impl AlignedBuf {
    /// A buffer of `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let mut buf = Self::scratch(len);
        if buf.is_used {
            buf.fill(0);
        }
        buf
    }

    /// A buffer of `len` bytes of arbitrary content, for callers that overwrite all of them.
    #[must_use]
    pub fn scratch(len: usize) -> Self {
        Self::of_class(len, class_of(len))
    }

    /// As [`AlignedBuf::scratch`], for a device that reads into it: more than half a MiB lies in huge pages.
    #[must_use]
    pub fn to_read_into(len: usize) -> Self {
        Self::of_class(len, huge_class_of(len).or_else(|| class_of(len)))
    }

    fn of_class(len: usize, class: Option<usize>) -> Self {
        let used = class.and_then(|class| POOL.lock().take(class));
        let is_used = used.is_some();
        Self::over(used.unwrap_or_else(|| Memory::new(len, class)), len, class, is_used)
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let (len, class) = (bytes.len(), class_of(bytes.len()));
        if let Some(raw) = class.and_then(|class| POOL.lock().take(class)) {
            let mut buf = Self::over(raw, len, class, true);
            buf.copy_from_slice(bytes);
            return buf;
        }
        // Memory that is overwritten at once need not be cleared first.
        let raw_len = class.map_or(len + ALIGN_BYTES, raw_bytes);
        let mut raw: Vec<u8> = Vec::with_capacity(raw_len);
        raw.resize(raw.as_ptr().align_offset(ALIGN_BYTES), 0);
        raw.extend_from_slice(bytes);
        raw.resize(raw_len, 0);
        Self::over(Memory::Heap(raw), len, class, true)
    }

    fn over(raw: Memory, len: usize, class: Option<usize>, is_used: bool) -> Self {
        let start = raw.as_ptr().align_offset(ALIGN_BYTES);
        Self { raw, start, len, class, is_used, shared: None }
    }

    /// A buffer of `len` zero bytes in huge pages, if the kernel has some. Its memory is new, no other buffer gets it afterwards, and it takes a
    /// whole page once its first byte is used.
    #[must_use]
    pub fn in_huge_pages(len: usize) -> Self {
        Self::over(Memory::huge(len), len, None, false)
    }

    /// A buffer that shows the bytes of another one, without a copy.
    #[must_use]
    pub fn sharing(shared: Arc<Self>) -> Self {
        let len = shared.len;
        Self { raw: Memory::default(), start: 0, len, class: None, is_used: false, shared: Some(shared) }
    }

    /// Shortens the buffer to `len` bytes; has no effect if it is shorter already.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.shared {
            Some(shared) => &shared[..self.len],
            None => &self.raw[self.start..self.start + self.len],
        }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        if self.shared.is_some() {
            *self = Self::copy_of(self);
        }
        &mut self.raw[self.start..self.start + self.len]
    }
}

impl Clone for AlignedBuf {
    fn clone(&self) -> Self {
        Self::copy_of(self)
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Pool {
        Pool { classes: [const { Class { free: Vec::new(), asked_at: 0 } }; 2 * CLASSES], bytes: 0, now: 0 }
    }

    #[test]
    fn every_pooled_length_fits_the_buffers_of_its_class() {
        assert_eq!(class_of(POOLED_BYTES_MIN - 1), None);
        assert_eq!(class_of(POOL_BYTES_MAX + 1), None);
        for len in [POOLED_BYTES_MIN, POOLED_BYTES_MIN + 1, 64 << 10, (1 << 20) - 512, POOL_BYTES_MAX] {
            let class = class_of(len).unwrap();
            assert!(len + ALIGN_BYTES <= raw_bytes(class) && class < CLASSES, "{len}");
            assert!(len == POOLED_BYTES_MIN || 2 * len > raw_bytes(class) - ALIGN_BYTES, "{len}");
        }
    }

    #[test]
    fn a_full_pool_gives_up_the_sizes_that_nobody_asked_for_longest() {
        let mut pool = pool();
        let (large, small) = (class_of(1 << 20).unwrap(), class_of(64 << 10).unwrap());
        for _ in 0..POOL_BYTES_MAX >> 20 {
            pool.give(large, Memory::new(0, Some(large)));
        }
        assert!(pool.take(small).is_none());
        (0..32).for_each(|_| pool.give(small, Memory::new(0, Some(small))));
        assert!((0..32).all(|_| pool.take(small).is_some()), "they replaced large ones");
        assert!(pool.take(large).is_some(), "but no more than they need");
        assert!(pool.bytes <= POOL_BYTES_MAX);
        assert_eq!(pool.bytes, pool.classes[large].free.iter().map(|raw| raw.len()).sum());
    }

    #[test]
    fn a_buffer_that_shares_bytes_becomes_a_copy_when_it_is_written_to() {
        let original = Arc::new(AlignedBuf::copy_of(&[1; 8192]));
        let mut buf = AlignedBuf::sharing(original.clone());
        assert_eq!(buf.as_ptr(), original.as_ptr());
        buf.truncate(4096);
        buf[0] = 2;
        assert!(buf.len() == 4096 && buf[0] == 2 && buf[1..].iter().all(|byte| *byte == 1));
        assert!(original.len() == 8192 && original.iter().all(|byte| *byte == 1));
    }

    #[test]
    fn a_buffer_that_is_used_again_has_the_length_and_zeros_that_were_asked_for() {
        for _ in 0..3 {
            let mut buf = AlignedBuf::zeroed(70_000);
            assert!(buf.len() == 70_000 && buf.iter().all(|byte| *byte == 0));
            assert_eq!(buf.as_ptr().align_offset(ALIGN_BYTES), 0);
            buf.fill(7);
        }
    }

    #[test]
    fn long_buffers_that_are_read_into_lie_in_huge_pages() {
        let starts_one = |buf: &AlignedBuf| buf.as_ptr().align_offset(HUGE_PAGE_BYTES) == 0;
        let is_huge = |buf: &AlignedBuf| matches!(buf.raw, Memory::Huge(_)) && starts_one(buf);
        for len in [(512 << 10) + 1, 1 << 20, 5 << 20] {
            // New, and used again.
            assert!(
                (0..2)
                    .all(|_| is_huge(&AlignedBuf::to_read_into(len)) && !is_huge(&AlignedBuf::scratch(len)))
            );
        }
        assert!(!is_huge(&AlignedBuf::to_read_into(512 << 10)));
        let buf = AlignedBuf::in_huge_pages(4096);
        assert!(is_huge(&buf) && buf[..] == [0; 4096]);
    }

    #[test]
    fn a_copy_begins_on_a_page_and_has_what_was_copied_whether_its_memory_is_new_or_not() {
        for len in [0, 1, 512, 4095, 4096, 70_000, 700_000, 3 << 20, POOL_BYTES_MAX + 1] {
            for turn in 0..3_u8 {
                let bytes = vec![turn + 1; len];
                let mut buf = AlignedBuf::copy_of(&bytes);
                assert!(buf[..] == bytes[..] && buf.as_ptr().align_offset(ALIGN_BYTES) == 0, "{len}");
                buf.fill(9);
            }
        }
    }
}
