//! `Speed`: how fast a simulated disk is. A solid-state disk is one whose seek takes no time.
//!
//! All seeks take the same time: experiments measure their number. Each request takes a fixed time, wherever it is, plus the
//! time of its bytes. Callers: [`crate::TimedDisk`], and tests that state a bound in transfers.

/// The times of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Speed {
    /// Time of a seek, including the wait for the sector, in nanoseconds; 0 if there is no head to move.
    pub seek_ns: i64,
    /// Fixed time of each read, write and discard, wherever it is and whatever its length, in nanoseconds.
    pub request_ns: i64,
    /// Time of each byte read, written or passed over, in picoseconds.
    pub byte_ps: i64,
    /// Time of each flush, in nanoseconds.
    pub flush_ns: i64,
}

impl Speed {
    /// A hard disk of 7200 rotations per minute: 10 ms for a seek including half a rotation, 100 MB/s, one rotation for a
    /// flush.
    pub const HARD_DISK: Self =
        Self { seek_ns: 10_000_000, request_ns: 0, byte_ps: 10_000, flush_ns: 8_000_000 };
    /// A solid-state disk on SATA: 80 µs per request, 500 MB/s.
    pub const SOLID_STATE: Self =
        Self { seek_ns: 0, request_ns: 80_000, byte_ps: 2_000, flush_ns: 1_000_000 };

    /// The time of one request of that many bytes somewhere else, in nanoseconds: seek, request and bytes.
    #[must_use]
    pub fn transfer_ns(&self, bytes: u64) -> i64 {
        self.seek_ns.saturating_add(self.request_ns).saturating_add(self.pass_ns(bytes))
    }

    /// The time to pass that many bytes, in nanoseconds.
    pub(crate) fn pass_ns(&self, bytes: u64) -> i64 {
        i64::try_from(bytes).unwrap_or(i64::MAX).saturating_mul(self.byte_ps) / 1000
    }
}
