//! The trait that connects `fs` and its drivers to storage.

use crate::buffer::AlignedBuf;
use crate::error::{DeviceError, FailureKind};
use crate::own_reads::OwnReads;
use crate::request::{Completion, Geometry, Request, Tag};
use std::io::IoSliceMut;
use std::sync::Arc;

/// Something that stores blocks. Requests complete in any order; only [`Request::Flush`] orders durability.
///
/// A write counts as completed once [`Device::wait`] has returned for it. A flush covers only such writes submitted
/// before it; a device may cover more, but callers must not rely on that.
///
/// A thread that needs several reads submits all of them before it waits for the first: a device may start reads only in
/// [`Device::wait`], and then starts every read that this thread has submitted. A thread that has nothing to wait for calls
/// [`Device::start_reads`].
pub trait Device: Send + Sync {
    /// Sizes. They do not change while the device is open, except by [`Device::grow`] and [`Device::cut`].
    fn geometry(&self) -> Geometry;

    /// Makes the device at least `size_bytes` large, durably, or finds that it is: an image file can grow, and a block device may
    /// have grown since it was opened. The new bytes may hold anything.
    ///
    /// # Errors
    /// [`FailureKind::Unsupported`] if this device is smaller and cannot grow; as the system reports.
    fn grow(&self, size_bytes: u64) -> Result<(), DeviceError> {
        let has_bytes = self.geometry().size_bytes;
        let reason = || format!("it has {has_bytes} bytes and cannot grow");
        if size_bytes <= has_bytes {
            Ok(())
        } else {
            Err(DeviceError::of_growth(size_bytes, self.describe(), reason()))
        }
    }

    /// Gives the bytes from `size_bytes` on back, durably, if this device can: an image file becomes shorter, others keep their
    /// size. No request for those bytes is under way.
    ///
    /// # Errors
    /// As the system reports.
    fn cut(&self, size_bytes: u64) -> Result<(), DeviceError> {
        let _stays = size_bytes;
        Ok(())
    }

    /// Hands over one request. It may run at once, on another thread, or in [`Device::wait`].
    fn submit(&self, request: Request) -> Tag;

    /// Starts the reads that this thread has submitted, without waiting for any of them. Only a head start: reads that cannot be
    /// started now begin when they are waited for.
    fn start_reads(&self) {}

    /// Waits until that request is complete. Each tag is waited for exactly once.
    fn wait(&self, tag: Tag) -> Completion;

    /// For messages: a path or a description of the device.
    fn describe(&self) -> Arc<str>;

    /// Proves that this program is the only one that writes to the device. The driver calls it right before each request that
    /// makes what was written before the volume's truth, and carries that request out only if it succeeds. A device that no
    /// other program can reach has nothing to prove.
    ///
    /// # Errors
    /// [`FailureKind::Replaced`]: another program writes to it, or may do so.
    fn fence(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Submits one read and waits for it.
    ///
    /// # Errors
    /// As the device reports; a short read is an error.
    fn read(&self, at_bytes: u64, len_bytes: u32) -> Result<AlignedBuf, DeviceError> {
        let request = Request::Read { at_bytes, len_bytes };
        let tag = self.submit(request.clone());
        data_of(self.wait(tag), &request, || self.describe())
    }

    /// Submits every read, given as offset and length in bytes, and then waits for each: a device that is able to
    /// carries them out together. The results have the order of `ranges`; one failure does not affect the others.
    fn read_all(&self, ranges: &[(u64, u32)]) -> Vec<Result<AlignedBuf, DeviceError>> {
        if let &[(at_bytes, len_bytes)] = ranges {
            return vec![self.read(at_bytes, len_bytes)];
        }
        let tags: Vec<(Request, Tag)> = ranges
            .iter()
            .map(|&(at_bytes, len_bytes)| {
                let request = Request::Read { at_bytes, len_bytes };
                (request.clone(), self.submit(request))
            })
            .collect();
        tags.iter().map(|(request, tag)| data_of(self.wait(*tag), request, || self.describe())).collect()
    }

    /// Reads into the caller's buffer, whose length is the length of the read. A device in memory copies once.
    ///
    /// # Errors
    /// As [`Device::read`].
    fn read_into(&self, at_bytes: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        out.copy_from_slice(&self.read(at_bytes, out.len() as u32)?);
        Ok(())
    }

    /// Reads into buffers of the caller, one behind the other on the device.
    ///
    /// # Errors
    /// As [`Device::read`].
    fn read_parts(&self, at_bytes: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), DeviceError> {
        let len_bytes: usize = parts.iter().map(|part| part.len()).sum();
        deal_out(&self.read(at_bytes, len_bytes as u32)?, parts);
        Ok(())
    }

    /// Reads that the calling thread starts and is told of, so that it can wait for other things as well; `None` if this device or the
    /// system has no such way.
    fn own_reads(&self) -> Option<Box<dyn OwnReads>> {
        None
    }

    /// Submits one write and waits for it. Not durable before a flush.
    ///
    /// # Errors
    /// As the device reports; a short write is an error.
    fn write(&self, at_bytes: u64, data: Arc<AlignedBuf>) -> Result<(), DeviceError> {
        let tag = self.submit(Request::Write { at_bytes, data: data.into() });
        self.wait(tag).map(drop)
    }

    /// Submits a flush and waits for it.
    ///
    /// # Errors
    /// As the device reports. After a failed flush, assume that every write since the last successful flush is lost.
    fn flush(&self) -> Result<(), DeviceError> {
        let tag = self.submit(Request::Flush);
        self.wait(tag).map(drop)
    }

    /// Submits a discard and waits for it.
    ///
    /// # Errors
    /// As the device reports; [`FailureKind::Unsupported`] if it cannot discard, which is no reason to stop.
    fn discard(&self, at_bytes: u64, len_bytes: u64) -> Result<(), DeviceError> {
        let tag = self.submit(Request::Discard { at_bytes, len_bytes });
        self.wait(tag).map(drop)
    }
}

/// Copies bytes into buffers that are as long together.
pub(crate) fn deal_out(mut bytes: &[u8], parts: &mut [IoSliceMut<'_>]) {
    for part in parts {
        let (first, behind) = bytes.split_at(part.len());
        part.copy_from_slice(first);
        bytes = behind;
    }
}

fn data_of(
    completion: Completion,
    request: &Request,
    device: impl FnOnce() -> Arc<str>,
) -> Result<AlignedBuf, DeviceError> {
    completion?
        .ok_or_else(|| DeviceError::of(request, FailureKind::Io, device(), "the device returned no data"))
}

impl<D: Device + ?Sized> Device for Arc<D> {
    fn geometry(&self) -> Geometry {
        (**self).geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        (**self).submit(request)
    }
    fn start_reads(&self) {
        (**self).start_reads();
    }
    fn wait(&self, tag: Tag) -> Completion {
        (**self).wait(tag)
    }
    fn describe(&self) -> Arc<str> {
        (**self).describe()
    }
    fn fence(&self) -> Result<(), DeviceError> {
        (**self).fence()
    }
    fn grow(&self, size_bytes: u64) -> Result<(), DeviceError> {
        (**self).grow(size_bytes)
    }
    fn cut(&self, size_bytes: u64) -> Result<(), DeviceError> {
        (**self).cut(size_bytes)
    }
    fn read(&self, at_bytes: u64, len_bytes: u32) -> Result<AlignedBuf, DeviceError> {
        (**self).read(at_bytes, len_bytes)
    }
    fn read_all(&self, ranges: &[(u64, u32)]) -> Vec<Result<AlignedBuf, DeviceError>> {
        (**self).read_all(ranges)
    }
    fn read_into(&self, at_bytes: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        (**self).read_into(at_bytes, out)
    }
    fn read_parts(&self, at_bytes: u64, parts: &mut [IoSliceMut<'_>]) -> Result<(), DeviceError> {
        (**self).read_parts(at_bytes, parts)
    }
    fn own_reads(&self) -> Option<Box<dyn OwnReads>> {
        (**self).own_reads()
    }
}
