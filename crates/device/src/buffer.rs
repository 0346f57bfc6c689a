//! `AlignedBuf`: bytes that start on a page, as O_DIRECT demands. Safe code: it over-allocates and shifts.

use parking_lot::Mutex;

/// Alignment of every buffer, in bytes.
pub const ALIGN_BYTES: usize = 4096;

/// A fixed-length byte buffer whose first byte is page-aligned.
pub struct AlignedBuf {
    raw: Vec<u8>,
    start: usize,
    len: usize,
    /// It came from the pool: it still has the content of its previous owner.
    is_used: bool,
}

/// Large buffers that were dropped, kept for reuse: fresh memory costs a page fault for each page, more than filling
/// it does.
struct Pool {
    free: Vec<Vec<u8>>,
    bytes: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { free: Vec::new(), bytes: 0 });

/// Smallest buffer that is pooled, in bytes.
const POOLED_BYTES_MIN: usize = 64 << 10;
/// Largest total size that the pool keeps, in bytes.
const POOL_BYTES_MAX: usize = 16 << 20;

impl Pool {
    /// A buffer of at least `len` and at most twice that.
    fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        let at = self.free.iter().rposition(|raw| (len..=2 * len).contains(&raw.len()))?;
        let raw = self.free.swap_remove(at);
        self.bytes -= raw.len();
        Some(raw)
    }

    fn give(&mut self, raw: Vec<u8>) {
        if self.bytes + raw.len() <= POOL_BYTES_MAX {
            self.bytes += raw.len();
            self.free.push(raw);
        }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.raw.len() >= POOLED_BYTES_MIN {
            POOL.lock().give(std::mem::take(&mut self.raw));
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
        let used = if len >= POOLED_BYTES_MIN { POOL.lock().take(len + ALIGN_BYTES) } else { None };
        let is_used = used.is_some();
        let raw = used.unwrap_or_else(|| vec![0; len + ALIGN_BYTES]);
        let start = raw.as_ptr().align_offset(ALIGN_BYTES);
        Self { raw, start, len, is_used }
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buf = Self::scratch(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    /// Shortens the buffer to `len` bytes; has no effect if it is shorter already.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl std::ops::Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.raw[self.start..self.start + self.len]
    }
}

impl std::ops::DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
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
