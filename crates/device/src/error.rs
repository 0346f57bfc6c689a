//! Why a request failed: one line that says which request failed, where, and what the system answered.

use crate::request::{Place, Request};
use std::sync::Arc;

/// The reason without Rust's ` (os error N)`, which most people do not understand.
#[must_use]
pub fn plain_reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// Kind of a failure, for callers that act on it rather than print it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureKind {
    /// The device or the system reported an I/O error, or transferred less than asked for.
    Io,
    /// The device does not support this request (mostly a discard); the content is unchanged.
    Unsupported,
    /// The range is not on the device, or is not a multiple of its logical block. Nothing was transferred.
    OutOfRange,
    /// The file system under a sparse image is full.
    NoSpace,
    /// The device was opened for reading only.
    ReadOnly,
    /// Another program writes to the device, or may do so.
    Replaced,
}

/// Why a request failed, with its place.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{action}{} of {device}: {reason}", Place { at_bytes: *at_bytes, len_bytes: *len_bytes })]
pub struct DeviceError {
    /// The kind of failure.
    pub kind: FailureKind,
    /// "read", "write", "flush", "discard", "growth", "cut", or "claim" of a device that another program writes to.
    pub action: &'static str,
    /// Offset in bytes (0 for a flush).
    pub at_bytes: u64,
    /// Length in bytes (0 for a flush).
    pub len_bytes: u64,
    /// Which device: a path or a description.
    pub device: Arc<str>,
    /// The system's error message.
    pub reason: String,
}

impl DeviceError {
    /// The failure of `request` on `device`.
    #[must_use]
    pub fn of(request: &Request, kind: FailureKind, device: Arc<str>, reason: impl Into<String>) -> Self {
        let Place { at_bytes, len_bytes } = request.place();
        Self { kind, action: request.action(), at_bytes, len_bytes, device, reason: reason.into() }
    }

    /// The device is another program's by now, or may be.
    #[must_use]
    pub fn replaced(device: Arc<str>, reason: impl Into<String>) -> Self {
        let (kind, reason) = (FailureKind::Replaced, reason.into());
        Self { kind, action: "claim", at_bytes: 0, len_bytes: 0, device, reason }
    }

    /// The device cannot become that large.
    #[must_use]
    pub fn of_growth(size_bytes: u64, device: Arc<str>, reason: impl Into<String>) -> Self {
        let (kind, reason) = (FailureKind::Unsupported, reason.into());
        Self { kind, action: "growth", at_bytes: 0, len_bytes: size_bytes, device, reason }
    }

    /// The failure of `request` that the operating system reported.
    #[must_use]
    pub fn system(request: &Request, device: Arc<str>, error: &std::io::Error) -> Self {
        Self::of(request, kind_of(error), device, plain_reason(error))
    }

    /// The operating system reported why the device cannot become that large.
    #[must_use]
    pub fn growth_refused(size_bytes: u64, device: Arc<str>, error: &std::io::Error) -> Self {
        Self { kind: kind_of(error), ..Self::of_growth(size_bytes, device, plain_reason(error)) }
    }

    /// The operating system reported why the device cannot lose its end.
    #[must_use]
    pub fn cut_refused(size_bytes: u64, device: Arc<str>, error: &std::io::Error) -> Self {
        Self { action: "cut", ..Self::growth_refused(size_bytes, device, error) }
    }
}

fn kind_of(error: &std::io::Error) -> FailureKind {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => FailureKind::NoSpace,
        std::io::ErrorKind::Unsupported => FailureKind::Unsupported,
        std::io::ErrorKind::ReadOnlyFilesystem => FailureKind::ReadOnly,
        _ => FailureKind::Io,
    }
}
