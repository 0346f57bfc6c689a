//! `TraceDevice`: records the sequence of requests to a device, with digests of the data. The determinism test
//! compares two traces; a person can read them.

use crate::device::Device;
use crate::error::DeviceError;
use crate::request::{Completion, Geometry, Request, Tag};
use parking_lot::Mutex;
use siphasher::sip::SipHasher13;
use std::fmt;
use std::hash::Hasher as _;
use std::sync::Arc;

/// One request as it was submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceEntry {
    /// A read.
    Read {
        /// Offset in bytes.
        at_bytes: u64,
        /// Length in bytes.
        len_bytes: u64,
    },
    /// A write.
    Write {
        /// Offset in bytes.
        at_bytes: u64,
        /// Length in bytes.
        len_bytes: u64,
        /// SipHash-1-3 of the data with a zero key.
        digest: u64,
    },
    /// A flush.
    Flush,
    /// A discard.
    Discard {
        /// Offset in bytes.
        at_bytes: u64,
        /// Length in bytes.
        len_bytes: u64,
    },
}

impl TraceEntry {
    fn of(request: &Request) -> Self {
        let (at_bytes, len_bytes) = (request.at_bytes(), request.len_bytes());
        match request {
            Request::Read { .. } => Self::Read { at_bytes, len_bytes },
            Request::Write { data, .. } => {
                Self::Write { at_bytes, len_bytes, digest: SipHasher13::new().hash(&data.whole()) }
            }
            Request::Flush => Self::Flush,
            Request::Discard { .. } => Self::Discard { at_bytes, len_bytes },
        }
    }
}

impl fmt::Display for TraceEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { at_bytes, len_bytes } => write!(f, "read {at_bytes}+{len_bytes}"),
            Self::Write { at_bytes, len_bytes, digest } => {
                write!(f, "write {at_bytes}+{len_bytes} {digest:016x}")
            }
            Self::Flush => f.write_str("flush"),
            Self::Discard { at_bytes, len_bytes } => write!(f, "discard {at_bytes}+{len_bytes}"),
        }
    }
}

/// One number for a trace: equal for equal traces in every build on every machine, so that a test can record it.
#[must_use]
pub fn digest_of(trace: &[TraceEntry]) -> u64 {
    let mut hasher = SipHasher13::new();
    trace.iter().for_each(|entry| hasher.write(format!("{entry}\n").as_bytes()));
    hasher.finish()
}

/// Records the requests that pass through to `inner`. The trace grows without bound: for tests.
pub struct TraceDevice<D> {
    inner: D,
    entries: Mutex<Vec<TraceEntry>>,
}

impl<D: Device> TraceDevice<D> {
    /// Starts with an empty trace.
    pub fn new(inner: D) -> Self {
        Self { inner, entries: Mutex::new(Vec::new()) }
    }

    /// Returns everything submitted so far, in order, and clears the trace.
    pub fn take(&self) -> Vec<TraceEntry> {
        std::mem::take(&mut self.entries.lock())
    }

    /// The device underneath.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

impl<D: Device> Device for TraceDevice<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        let entry = TraceEntry::of(&request);
        // Under one lock, so that the trace has the order in which the inner device saw the requests.
        let mut entries = self.entries.lock();
        entries.push(entry);
        self.inner.submit(request)
    }
    fn start_reads(&self) {
        self.inner.start_reads();
    }
    fn wait(&self, tag: Tag) -> Completion {
        self.inner.wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
    fn fence(&self) -> Result<(), DeviceError> {
        self.inner.fence()
    }
    fn grow(&self, size_bytes: u64) -> Result<(), DeviceError> {
        self.inner.grow(size_bytes)
    }
    fn cut(&self, size_bytes: u64) -> Result<(), DeviceError> {
        self.inner.cut(size_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlignedBuf, MemDevice};

    fn trace_of(byte: u8) -> Vec<TraceEntry> {
        let device = TraceDevice::new(MemDevice::new(1 << 20));
        device.write(4096, Arc::new(AlignedBuf::copy_of(&[byte; 512]))).unwrap();
        device.flush().unwrap();
        device.read(4096, 512).unwrap();
        device.discard(0, 4096).unwrap();
        device.take()
    }

    #[test]
    fn traces_are_equal_exactly_if_order_places_and_data_are() {
        assert_eq!(trace_of(1), trace_of(1));
        assert_ne!(trace_of(1), trace_of(2));
        assert_eq!(digest_of(&trace_of(1)), digest_of(&trace_of(1)));
        assert_ne!(digest_of(&trace_of(1)), digest_of(&trace_of(2)));
        let shown: Vec<String> = trace_of(1).iter().map(ToString::to_string).collect();
        assert_eq!(shown[1..], ["flush", "read 4096+512", "discard 0+4096"]);
        assert!(shown[0].starts_with("write 4096+512 "));
    }
}
