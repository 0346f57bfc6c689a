//! Requests to a device, and the sizes that bound them.

use crate::buffer::AlignedBuf;
use crate::error::{DeviceError, FailureKind};
use crate::write_data::WriteData;
use std::fmt;
use std::sync::Arc;

/// A device's sizes, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Usable size in bytes; a multiple of the logical block.
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
    /// Write bytes at `at_bytes`. It is durable only after a later [`Request::Flush`].
    Write {
        /// Offset on the device, in bytes.
        at_bytes: u64,
        /// The bytes; immutable from here on.
        data: WriteData,
    },
    /// Make every write completed before this request durable.
    Flush,
    /// Tell the device that the content of a range is no longer needed; the range may read as anything afterwards.
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

/// A byte range of a device, as messages show it; an empty range shows nothing.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub at_bytes: u64,
    pub len_bytes: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len_bytes {
            0 => Ok(()),
            len_bytes => write!(f, " of {len_bytes} bytes at byte {}", self.at_bytes),
        }
    }
}

impl Request {
    /// "read", "write", "flush" or "discard".
    #[must_use]
    pub fn action(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Flush => "flush",
            Self::Discard { .. } => "discard",
        }
    }

    /// First byte of the range; 0 for a flush.
    #[must_use]
    pub fn at_bytes(&self) -> u64 {
        self.place().at_bytes
    }

    /// Length of the range in bytes; 0 for a flush.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.place().len_bytes
    }

    pub(crate) fn place(&self) -> Place {
        match self {
            Self::Read { at_bytes, len_bytes } => {
                Place { at_bytes: *at_bytes, len_bytes: u64::from(*len_bytes) }
            }
            Self::Write { at_bytes, data } => {
                Place { at_bytes: *at_bytes, len_bytes: data.len_bytes() as u64 }
            }
            Self::Flush => Place { at_bytes: 0, len_bytes: 0 },
            Self::Discard { at_bytes, len_bytes } => Place { at_bytes: *at_bytes, len_bytes: *len_bytes },
        }
    }
}

impl Geometry {
    /// Whether the request lies on the device and is aligned to its logical block. Addresses come from bytes on the
    /// medium, so a bad one is an error and fails no assertion.
    ///
    /// # Errors
    /// [`FailureKind::OutOfRange`].
    pub fn check(&self, request: &Request, device: &Arc<str>) -> Result<(), DeviceError> {
        let refuse =
            |reason: String| Err(DeviceError::of(request, FailureKind::OutOfRange, device.clone(), reason));
        let Place { at_bytes, len_bytes } = request.place();
        let unit = u64::from(self.logical_block_bytes);
        if at_bytes.checked_add(len_bytes).is_none_or(|end| end > self.size_bytes) {
            return refuse(format!("beyond the end of the device ({} bytes)", self.size_bytes));
        }
        if !at_bytes.is_multiple_of(unit) || !len_bytes.is_multiple_of(unit) {
            return refuse(format!("not a multiple of the device's block of {unit} bytes"));
        }
        if len_bytes == 0 && !matches!(request, Request::Flush) {
            return refuse("empty range".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry =
        Geometry { size_bytes: 8192, logical_block_bytes: 512, physical_block_bytes: 4096 };

    fn check(request: Request) -> Result<(), String> {
        GEOMETRY.check(&request, &Arc::from("disk")).map_err(|e| {
            assert_eq!(e.kind, FailureKind::OutOfRange);
            e.to_string()
        })
    }

    #[test]
    fn ranges_off_the_device_or_off_its_grid_are_refused_with_their_place() {
        assert!(check(Request::Read { at_bytes: 7680, len_bytes: 512 }).is_ok());
        assert!(check(Request::Flush).is_ok());
        assert_eq!(
            check(Request::Read { at_bytes: 7680, len_bytes: 1024 }).unwrap_err(),
            "read of 1024 bytes at byte 7680 of disk: beyond the end of the device (8192 bytes)"
        );
        assert_eq!(
            check(Request::Read { at_bytes: u64::MAX - 511, len_bytes: 512 }).unwrap_err(),
            "read of 512 bytes at byte 18446744073709551104 of disk: beyond the end of the device (8192 bytes)"
        );
        assert_eq!(
            check(Request::Discard { at_bytes: 100, len_bytes: 512 }).unwrap_err(),
            "discard of 512 bytes at byte 100 of disk: not a multiple of the device's block of 512 bytes"
        );
        let data = crate::AlignedBuf::zeroed(700).into();
        assert!(check(Request::Write { at_bytes: 0, data }).is_err());
        assert!(check(Request::Read { at_bytes: 0, len_bytes: 0 }).is_err());
    }
}
