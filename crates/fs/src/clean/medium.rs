//! How long a device takes to read, as precisely as decisions need it.
//!
//! The model has two numbers: the time of a request and the time of a byte. Requests that are submitted together overlap on a
//! device without a head; its time of a request is its share then, not the latency of a lone request. A device with a head
//! seeks for each request.
//!
//! Callers: `reading` and `scatter`; the opener of a volume chooses ([`crate::lfs::Options`]).

/// See the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Medium {
    /// Time of a request among others, in nanoseconds, without its bytes.
    pub request_ns: u64,
    /// Time of a byte, in picoseconds.
    pub byte_ps: u64,
}

impl Medium {
    /// A device with a head: a seek of 10.5 ms, 100 MB/s. In the time of a seek it transfers 1 MiB.
    pub const HEAD: Self = Self { request_ns: 10_485_760, byte_ps: 10_000 };
    /// A device without a head: 25 µs and 1 GB/s, measured 16 to 64 requests deep on an image file on a virtio disk
    /// (docs/decisions/0113). In the time of a request it transfers 25 KB.
    pub const HEADLESS: Self = Self { request_ns: 25_000, byte_ps: 1_000 };

    /// The medium of a device with or without a head.
    #[must_use]
    pub fn of(is_rotational: bool) -> Self {
        if is_rotational { Self::HEAD } else { Self::HEADLESS }
    }

    /// Bytes that are transferred in the time of a request.
    #[must_use]
    pub fn request_bytes(&self) -> u64 {
        self.request_ns.saturating_mul(1000) / self.byte_ps.max(1)
    }

    /// The cost of requests and their bytes, in bytes that are transferred in that time.
    #[must_use]
    pub fn cost_bytes(&self, requests: u64, bytes: u64) -> u64 {
        requests.saturating_mul(self.request_bytes()).saturating_add(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_worth_the_bytes_of_its_time() {
        assert_eq!(Medium::of(true).request_bytes(), 1 << 20);
        assert_eq!(Medium::of(false).request_bytes(), 25_000);
        assert_eq!(Medium::HEADLESS.cost_bytes(4, 1000), 101_000);
        assert_eq!(Medium { request_ns: 5, byte_ps: 0 }.request_bytes(), 5000);
    }
}
