//! `Recall`: a device in memory that answers a read with the buffer of an earlier read of the same pages.
//!
//! Every view of a state reads the tail of the log, the tables and the inodes, and states that differ in a few sectors hold the
//! same pages almost everywhere. Copying those bytes out of the image again and again would take a third of the time. Pages are
//! copied on write and are kept here ([`Pages`]), so the same pages have the same bytes: the reader gets what it would read, and
//! does with it what it always does.
//!
//! Memory: the buffers of at most [`BYTES_MAX`], and the pages that they were read from.
//!
//! Callers: `verdict` and `mending`, which let every [`READ_ANEW_EVERY`]-th state be read anew in every view.

use firnfs_device::{
    AlignedBuf, Completion, Device, DeviceError, Geometry, MemDevice, Pages, Request, SparseImage, Tag,
};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// See the module's head.
pub const READ_ANEW_EVERY: u64 = 32;
/// Bytes that are kept; beyond that all are dropped.
const BYTES_MAX: usize = 64 << 20;
/// Shortest read that is worth keeping, in bytes.
const LEN_BYTES_MIN: u32 = 1 << 10;

/// The reads of all devices that share it.
#[derive(Default)]
pub struct Reads {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    reads: FxHashMap<(u64, u32), (Pages, Arc<AlignedBuf>)>,
    bytes: usize,
}

/// See the module's head.
pub struct Recall {
    inner: MemDevice,
    /// `None`: every read is carried out.
    reads: Option<Arc<Reads>>,
    /// Reads that were answered from memory; their tags are odd, those of the inner device are doubled.
    recalled: Mutex<Recalled>,
}

#[derive(Default)]
struct Recalled {
    next: u64,
    answers: Vec<(u64, AlignedBuf)>,
}

impl Recall {
    /// A device that holds an image.
    pub fn new(image: SparseImage, reads: Option<Arc<Reads>>) -> Self {
        Self { inner: MemDevice::from_image(image), reads, recalled: Mutex::default() }
    }

    /// The current content.
    pub fn image(&self) -> SparseImage {
        self.inner.image()
    }

    /// The bytes of a range; `None` if it is not a range of the device, or too short to be kept.
    fn recall(&self, at_bytes: u64, len_bytes: u32) -> Option<AlignedBuf> {
        let request = Request::Read { at_bytes, len_bytes };
        let known = self.reads.as_ref()?;
        if len_bytes < LEN_BYTES_MIN || self.geometry().check(&request, &self.describe()).is_err() {
            return None;
        }
        let image = self.image();
        let mut known = known.known.lock();
        if known.bytes > BYTES_MAX {
            *known = Known::default();
        }
        let Known { reads, bytes } = &mut *known;
        let read = || {
            let mut buf = AlignedBuf::scratch(len_bytes as usize);
            image.read(at_bytes, &mut buf);
            (image.pages_at(at_bytes, u64::from(len_bytes)), Arc::new(buf))
        };
        let buf = match reads.entry((at_bytes, len_bytes)) {
            Entry::Occupied(known) if image.has(&known.get().0) => known.get().1.clone(),
            Entry::Occupied(mut known) => {
                known.insert(read());
                known.get().1.clone()
            }
            Entry::Vacant(unknown) => {
                *bytes += len_bytes as usize;
                unknown.insert(read()).1.clone()
            }
        };
        Some(AlignedBuf::sharing(buf))
    }
}

impl Device for Recall {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn submit(&self, request: Request) -> Tag {
        if let Request::Read { at_bytes, len_bytes } = request
            && let Some(buf) = self.recall(at_bytes, len_bytes)
        {
            let mut recalled = self.recalled.lock();
            recalled.next += 1;
            let tag = recalled.next << 1 | 1;
            recalled.answers.push((tag, buf));
            return Tag(tag);
        }
        Tag(self.inner.submit(request).0 << 1)
    }
    fn wait(&self, tag: Tag) -> Completion {
        if tag.0 & 1 == 0 {
            return self.inner.wait(Tag(tag.0 >> 1));
        }
        let answers = &mut self.recalled.lock().answers;
        let at = answers.iter().position(|(known, _)| *known == tag.0).expect("waited for exactly once");
        Ok(Some(answers.swap_remove(at).1))
    }
    fn describe(&self) -> Arc<str> {
        self.inner.describe()
    }
    fn read_into(&self, at_bytes: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read_into(at_bytes, out)
    }
}
