//! `Counts`: how many requests and bytes a device was asked for; `CountingDevice` counts them. Used by tests that bound the I/O
//! (the number of blocks that a mount reads does not grow with the volume), and by simulated disks, which count for themselves.

use crate::device::Device;
use crate::error::DeviceError;
use crate::request::{Completion, Geometry, Request, Tag};
use parking_lot::Mutex;
use std::sync::Arc;

/// Totals since the device was opened; requests are counted when they are submitted, whether they succeed or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Reads.
    pub reads: u64,
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of all writes.
    pub write_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Bytes of all discards.
    pub discard_bytes: u64,
}

impl Counts {
    /// Counts one more request.
    pub fn add(&mut self, request: &Request) {
        let bytes = request.len_bytes();
        match request {
            Request::Read { .. } => {
                self.reads += 1;
                self.read_bytes += bytes;
            }
            Request::Write { .. } => {
                self.writes += 1;
                self.write_bytes += bytes;
            }
            Request::Flush => self.flushes += 1,
            Request::Discard { .. } => {
                self.discards += 1;
                self.discard_bytes += bytes;
            }
        }
    }

    /// The difference from `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            writes: self.writes - earlier.writes,
            write_bytes: self.write_bytes - earlier.write_bytes,
            flushes: self.flushes - earlier.flushes,
            discards: self.discards - earlier.discards,
            discard_bytes: self.discard_bytes - earlier.discard_bytes,
        }
    }
}

/// Counts the requests that pass through to `inner`.
pub struct CountingDevice<D> {
    inner: D,
    counts: Mutex<Counts>,
}

impl<D: Device> CountingDevice<D> {
    /// Counts from zero.
    pub fn new(inner: D) -> Self {
        Self { inner, counts: Mutex::default() }
    }

    /// The totals now.
    pub fn counts(&self) -> Counts {
        *self.counts.lock()
    }

    /// The device underneath.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

impl<D: Device> Device for CountingDevice<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        self.counts.lock().add(&request);
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

    #[test]
    fn every_request_is_counted_once_with_its_bytes() {
        let device = CountingDevice::new(MemDevice::new(1 << 20));
        device.write(0, Arc::new(AlignedBuf::zeroed(4096))).unwrap();
        let before = device.counts();
        device.read(0, 1024).unwrap();
        device.read(512, 512).unwrap();
        device.flush().unwrap();
        device.discard(0, 8192).unwrap();
        let expected = Counts {
            reads: 2,
            read_bytes: 1536,
            flushes: 1,
            discards: 1,
            discard_bytes: 8192,
            ..Counts::default()
        };
        assert_eq!(device.counts().since(&before), expected);
        assert_eq!((before.writes, before.write_bytes), (1, 4096));
    }
}
