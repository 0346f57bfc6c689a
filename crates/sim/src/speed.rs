//! `Speed`: how fast a simulated disk is. A solid-state disk is one whose seek takes no time.
//!
//! All seeks take equally long: what is measured is how many there are. A request takes its own time wherever it is, its bytes
//! theirs. Callers: [`crate::TimedDisk`], and tests that state a bound in transfers.

use firnfs_device::Request;

/// How long things take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Speed {
    /// Of a seek with the wait for the sector, in nanoseconds; 0 where no head has to move.
    pub seek_ns: i64,
    /// Of each read, write and discard, wherever it is and whatever its length, in nanoseconds.
    pub request_ns: i64,
    /// Of each byte read, written or passed over, in picoseconds.
    pub byte_ps: i64,
    /// Of each flush, in nanoseconds.
    pub flush_ns: i64,
}

impl Speed {
    /// A hard disk of 7200 rotations a minute: 10 ms to get there, half a rotation of them, 100 MB/s, a rotation to flush.
    pub const HARD_DISK: Self =
        Self { seek_ns: 10_000_000, request_ns: 0, byte_ps: 10_000, flush_ns: 8_000_000 };
    /// A solid-state disk behind SATA: 80 µs to begin, 500 MB/s.
    pub const SOLID_STATE: Self =
        Self { seek_ns: 0, request_ns: 80_000, byte_ps: 2_000, flush_ns: 1_000_000 };

    /// How long so many bytes take in one request somewhere else, in nanoseconds: seek, request and bytes.
    #[must_use]
    pub fn transfer_ns(&self, bytes: u64) -> i64 {
        self.seek_ns.saturating_add(self.request_ns).saturating_add(self.pass_ns(bytes))
    }

    /// How long a request takes once the head is there, in nanoseconds.
    pub(crate) fn service_ns(&self, request: &Request) -> i64 {
        match request {
            Request::Read { .. } | Request::Write { .. } => {
                self.request_ns.saturating_add(self.pass_ns(request.len_bytes()))
            }
            Request::Flush => self.flush_ns,
            Request::Discard { .. } => self.request_ns,
        }
    }

    /// How long it takes so many bytes to pass, in nanoseconds.
    pub(crate) fn pass_ns(&self, bytes: u64) -> i64 {
        i64::try_from(bytes).unwrap_or(i64::MAX).saturating_mul(self.byte_ps) / 1000
    }
}
