//! Devices and clocks: what firnfs runs on.
//!
//! A [`Device`] takes requests and completes them later (submit/complete, not blocking calls), so that a file, a raw
//! block device, a power-cut disk and a simulated disk with a queue all fit behind it.

pub mod buffer;

pub use buffer::AlignedBuf;
use std::sync::Arc;

/// What a device is: sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Usable size in bytes.
    pub size_bytes: u64,
    /// Smallest unit of a request (power of two, at least 512).
    pub logical_block_bytes: u32,
    /// Unit that the medium writes without harming its neighbours (power of two, at least the logical block).
    pub physical_block_bytes: u32,
}

/// One request. Offsets and lengths are multiples of the logical block.
#[derive(Clone, Debug)]
pub enum Request {
    /// Read `len_bytes` at `at_bytes`.
    Read {
        /// Offset on the device, in bytes.
        at_bytes: u64,
        /// Length in bytes.
        len_bytes: u32,
    },
    /// Write the buffer at `at_bytes`. It is durable only after a later [`Request::Flush`].
    Write {
        /// Offset on the device, in bytes.
        at_bytes: u64,
        /// The bytes; immutable from here on.
        data: Arc<AlignedBuf>,
    },
    /// Make every write completed before this request durable.
    Flush,
    /// Tell the device that a range holds nothing of worth; it may read as anything afterwards.
    Discard {
        /// Offset on the device, in bytes.
        at_bytes: u64,
        /// Length in bytes.
        len_bytes: u64,
    },
}

/// Names a submitted request until it is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Tag(pub u64);

/// Outcome of a request: for a read the bytes, else `None`.
pub type Completion = Result<Option<AlignedBuf>, DeviceError>;

/// Why a request failed, with its place.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{action} of {len_bytes} bytes at byte {at_bytes} of {device}: {reason}")]
pub struct DeviceError {
    /// "read", "write", "flush" or "discard".
    pub action: &'static str,
    /// Offset in bytes (0 for a flush).
    pub at_bytes: u64,
    /// Length in bytes (0 for a flush).
    pub len_bytes: u64,
    /// Which device: a path or a description.
    pub device: Arc<str>,
    /// What the system said.
    pub reason: String,
}

/// Something that stores blocks. Requests complete in any order; only [`Request::Flush`] orders durability.
pub trait Device: Send + Sync {
    /// Sizes. They do not change while the device is open.
    fn geometry(&self) -> Geometry;

    /// Hands over one request. It may run at once, on another thread, or in [`Device::wait`].
    fn submit(&self, request: Request) -> Tag;

    /// Waits until that request is complete. Each tag is waited for exactly once.
    fn wait(&self, tag: Tag) -> Completion;

    /// For messages: a path, or what the device is.
    fn describe(&self) -> Arc<str>;

    /// Submits one read and waits for it.
    ///
    /// # Errors
    /// As the device reports; a short read is an error.
    fn read(&self, at_bytes: u64, len_bytes: u32) -> Result<AlignedBuf, DeviceError> {
        let tag = self.submit(Request::Read { at_bytes, len_bytes });
        self.wait(tag)?.ok_or_else(|| DeviceError {
            action: "read",
            at_bytes,
            len_bytes: u64::from(len_bytes),
            device: self.describe(),
            reason: "the device returned no data".into(),
        })
    }

    /// Submits one write and waits for it. Not durable before a flush.
    ///
    /// # Errors
    /// As the device reports; a short write is an error.
    fn write(&self, at_bytes: u64, data: Arc<AlignedBuf>) -> Result<(), DeviceError> {
        let tag = self.submit(Request::Write { at_bytes, data });
        self.wait(tag).map(drop)
    }

    /// Submits a flush and waits for it.
    ///
    /// # Errors
    /// As the device reports. After a failed flush nothing written since the last one may be trusted.
    fn flush(&self) -> Result<(), DeviceError> {
        let tag = self.submit(Request::Flush);
        self.wait(tag).map(drop)
    }
}

/// Where the time comes from; `fs` itself reads no clock.
pub trait Clock: Send + Sync {
    /// Wall-clock nanoseconds since 1970-01-01 UTC.
    fn now_ns(&self) -> i64;
}
