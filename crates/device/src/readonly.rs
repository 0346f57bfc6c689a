//! `ReadOnlyDevice`: rejects every request that would change the device. For read-only mounts, fsck without repair, and
//! dumps: they promise not to write a byte, and this type enforces it.

use crate::buffer::AlignedBuf;
use crate::device::Device;
use crate::error::{DeviceError, FailureKind};
use crate::outbox::Outbox;
use crate::own_reads::OwnReads;
use crate::request::{Completion, Geometry, Request, Tag};
use std::io::IoSliceMut;
use std::sync::Arc;

/// Passes reads on; writes and discards fail; flushes succeed, since there is nothing to flush.
pub struct ReadOnlyDevice<D> {
    inner: D,
    /// Completions of requests that are not passed on. Their tags are odd; the inner device's tags are doubled.
    ended_here: Outbox,
}

impl<D: Device> ReadOnlyDevice<D> {
    /// Protects `inner`.
    pub fn new(inner: D) -> Self {
        Self { inner, ended_here: Outbox::default() }
    }
}

impl<D: Device> Device for ReadOnlyDevice<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        let completion = match request {
            Request::Read { .. } => return Tag(self.inner.submit(request).0 << 1),
            Request::Flush => Ok(None),
            Request::Write { .. } | Request::Discard { .. } => Err(DeviceError::of(
                &request,
                FailureKind::ReadOnly,
                self.describe(),
                "opened for reading only",
            )),
        };
        Tag(self.ended_here.put(completion).0 << 1 | 1)
    }
    fn start_reads(&self) {
        self.inner.start_reads();
    }
    fn wait(&self, tag: Tag) -> Completion {
        let lower = Tag(tag.0 >> 1);
        if tag.0 & 1 == 1 { self.ended_here.take(lower) } else { self.inner.wait(lower) }
    }
    fn read_into(&self, at_bytes: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read_into(at_bytes, out)
    }
    fn read_parts(&self, at_bytes: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), DeviceError> {
        self.inner.read_parts(at_bytes, parts)
    }
    fn own_reads(&self) -> Option<Box<dyn OwnReads>> {
        self.inner.own_reads()
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
    fn fence(&self) -> Result<(), DeviceError> {
        self.inner.fence()
    }
    fn read(&self, at_bytes: u64, len_bytes: u32) -> Result<AlignedBuf, DeviceError> {
        self.inner.read(at_bytes, len_bytes)
    }
    fn read_all(&self, ranges: &[(u64, u32)]) -> Vec<Result<AlignedBuf, DeviceError>> {
        self.inner.read_all(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemDevice;

    #[test]
    fn no_request_that_changes_the_device_gets_through() {
        let memory = Arc::new(MemDevice::new(8192));
        memory.write(0, Arc::new(AlignedBuf::copy_of(&[1; 4096]))).unwrap();
        let device = ReadOnlyDevice::new(memory.clone());
        let read = device.submit(Request::Read { at_bytes: 0, len_bytes: 512 });
        let error = device.write(0, Arc::new(AlignedBuf::zeroed(512))).unwrap_err();
        assert_eq!(error.to_string(), "write of 512 bytes at byte 0 of memory: opened for reading only");
        assert_eq!(device.discard(0, 512).unwrap_err().kind, FailureKind::ReadOnly);
        device.flush().unwrap();
        assert_eq!(&*device.wait(read).unwrap().unwrap(), &[1; 512]);
        assert_eq!(&*memory.read(0, 4096).unwrap(), &[1; 4096]);
    }
}
