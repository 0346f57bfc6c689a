//! `MemDevice`: a device in memory, sparse, never failing.
//!
//! Every request runs in `submit`. Discarded ranges read as zeros. Callers: the library's example, tests, benchmarks.

use crate::buffer::AlignedBuf;
use crate::device::Device;
use crate::error::DeviceError;
use crate::image::SparseImage;
use crate::outbox::Outbox;
use crate::request::{Completion, Geometry, Request, Tag};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module's head.
pub struct MemDevice {
    geometry: Geometry,
    /// The size now: at most the image's.
    size_bytes: AtomicU64,
    name: Arc<str>,
    image: RwLock<SparseImage>,
    outbox: Outbox,
}

impl MemDevice {
    /// A device of zeros with 512-byte logical and 4 KiB physical blocks. The size is rounded down to whole logical
    /// blocks.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        Self::from_image(SparseImage::new(size_bytes / 512 * 512))
    }

    /// A device that holds the image; the image's other owners do not see its writes.
    #[must_use]
    pub fn from_image(image: SparseImage) -> Self {
        let geometry =
            Geometry { size_bytes: image.size_bytes(), logical_block_bytes: 512, physical_block_bytes: 4096 };
        Self::with_geometry(image, geometry)
    }

    /// As [`MemDevice::from_image`], with block sizes of the caller's choice, and a size from which it can grow to the image's.
    ///
    /// # Panics
    /// If the geometry is larger than the image.
    #[must_use]
    pub fn with_geometry(image: SparseImage, geometry: Geometry) -> Self {
        assert!(geometry.size_bytes <= image.size_bytes(), "the image holds the whole device");
        let size_bytes = AtomicU64::new(geometry.size_bytes);
        let (name, image) = (Arc::from("memory"), RwLock::new(image));
        Self { geometry, size_bytes, name, image, outbox: Outbox::default() }
    }

    /// The current content. Takes constant time; later writes do not change it.
    #[must_use]
    pub fn image(&self) -> SparseImage {
        self.image.read().clone()
    }

    fn run(&self, request: &Request) -> Completion {
        self.geometry().check(request, &self.name)?;
        match request {
            Request::Read { at_bytes, len_bytes } => {
                let mut buf = AlignedBuf::scratch(*len_bytes as usize);
                self.image.read().read(*at_bytes, &mut buf);
                Ok(Some(buf))
            }
            Request::Write { at_bytes, data } => {
                let mut image = self.image.write();
                data.write_to(*at_bytes, |at_bytes, bytes| image.write(at_bytes, bytes));
                Ok(None)
            }
            Request::Flush => Ok(None),
            Request::Discard { at_bytes, len_bytes } => {
                self.image.write().zero(*at_bytes, *len_bytes);
                Ok(None)
            }
        }
    }
}

impl Device for MemDevice {
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: self.size_bytes.load(Ordering::Relaxed), ..self.geometry }
    }
    fn grow(&self, size_bytes: u64) -> Result<(), DeviceError> {
        let most_bytes = self.image.read().size_bytes();
        if size_bytes > most_bytes {
            let reason = format!("it has {most_bytes} bytes and cannot grow");
            return Err(DeviceError::of_growth(size_bytes, self.name.clone(), reason));
        }
        self.size_bytes.fetch_max(size_bytes.next_multiple_of(512).min(most_bytes), Ordering::Relaxed);
        Ok(())
    }
    fn cut(&self, size_bytes: u64) -> Result<(), DeviceError> {
        let (from, has_bytes) = (size_bytes.next_multiple_of(512), self.geometry().size_bytes);
        if from < has_bytes {
            self.image.write().zero(from, has_bytes - from);
            self.size_bytes.store(from, Ordering::Relaxed);
        }
        Ok(())
    }
    fn submit(&self, request: Request) -> Tag {
        self.outbox.put(self.run(&request))
    }
    fn wait(&self, tag: Tag) -> Completion {
        self.outbox.take(tag)
    }
    fn describe(&self) -> Arc<str> {
        self.name.clone()
    }
    fn read_into(&self, at_bytes: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.geometry().check(&Request::Read { at_bytes, len_bytes: out.len() as u32 }, &self.name)?;
        self.image.read().read(at_bytes, out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FailureKind;

    #[test]
    fn a_volume_of_one_tebibyte_costs_what_was_written() {
        let device = MemDevice::new(1 << 40);
        device.write((1 << 40) - 4096, Arc::new(AlignedBuf::copy_of(&[5; 4096]))).unwrap();
        assert_eq!(&*device.read((1 << 40) - 4096, 4096).unwrap(), &[5; 4096]);
        assert_eq!(&*device.read(1 << 39, 512).unwrap(), &[0; 512]);
        assert_eq!(device.image().pages(), 1);
        device.discard(0, 1 << 40).unwrap();
        assert_eq!(device.image().pages(), 0);
    }

    #[test]
    fn requests_off_the_device_fail_and_change_nothing() {
        let device = MemDevice::new(8192);
        let error = device.write(4096, Arc::new(AlignedBuf::copy_of(&[1; 8192]))).unwrap_err();
        assert_eq!(error.kind, FailureKind::OutOfRange);
        assert_eq!(device.image().pages(), 0);
        assert_eq!(device.read(8192, 512).unwrap_err().kind, FailureKind::OutOfRange);
    }

    #[test]
    fn completions_can_be_fetched_in_any_order() {
        let device = MemDevice::new(8192);
        let data = Arc::new(AlignedBuf::copy_of(&[3; 512]));
        let write = device.submit(Request::Write { at_bytes: 512, data: data.into() });
        let read = device.submit(Request::Read { at_bytes: 512, len_bytes: 512 });
        let flush = device.submit(Request::Flush);
        assert!(device.wait(flush).unwrap().is_none());
        assert_eq!(&*device.wait(read).unwrap().unwrap(), &[3; 512]);
        assert!(device.wait(write).unwrap().is_none());
    }
}
