//! The daemon's side of `firn resize`: one operation of the control socket.
//!
//! Caller: `mounting::operations`, and the command for volumes that are not mounted.

use crate::sizes::Bytes;
use firnfs::FsError;
use firnfs::lfs::Lfs;
use firnfs_fuse::control::{ErrorKind, OpError, Registry};
use firnfs_manage::{Grown, LogVolume};
use firnfs_volume::Volume;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::Weak;

/// Makes the volume larger: a [`Request`], answered with [`Resized`].
pub const RESIZE_OP: &str = "resize";

/// How large the volume is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// As large as its device.
    Device,
    /// The given number of bytes.
    To(u64),
    /// The given number of bytes more than now.
    More(u64),
}

/// See [`RESIZE_OP`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Request {
    /// How large the volume is to be.
    pub wanted: Wanted,
}

/// What changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Resized {
    /// Size before, in bytes.
    pub was_bytes: u64,
    /// Size now, in bytes.
    pub size_bytes: u64,
    /// Segments before.
    pub was_segments: u64,
    /// Segments now.
    pub segments: u64,
}

impl From<Grown> for Resized {
    fn from(grown: Grown) -> Self {
        let Grown { was_bytes, size_bytes, was_segments, segments } = grown;
        Self { was_bytes, size_bytes, was_segments, segments }
    }
}

/// Registers the operation. The volume is held weakly: it must close after the unmount.
pub fn register(registry: &mut Registry, volume: Weak<Volume<Lfs>>) {
    // Each request finds the size that the one before it made.
    let turn = Mutex::new(());
    let help = "makes the volume larger: 'wanted' is \"device\", {\"to\": bytes} or {\"more\": bytes}";
    registry.register(RESIZE_OP, help, move |request| {
        let closing = || OpError::new(ErrorKind::Closing, "the volume is being closed");
        let volume = volume.upgrade().ok_or_else(closing)?;
        let request = Request::deserialize(request)
            .map_err(|e| OpError::new(ErrorKind::InvalidArgument, e.to_string()))?;
        let _turn = turn.lock();
        let resized = resize(&volume, request.wanted)?;
        tracing::info!(
            "the volume has {} now; it had {}",
            Bytes(resized.size_bytes),
            Bytes(resized.was_bytes)
        );
        serde_json::to_value(resized).map_err(|e| OpError::new(ErrorKind::Failed, e.to_string()))
    });
}

/// Makes the volume larger.
///
/// # Errors
/// `InvalidArgument` for a size that it cannot have; those of [`LogVolume::grow`].
pub fn resize(volume: &Volume<Lfs>, wanted: Wanted) -> Result<Resized, OpError> {
    let refuse = |message: String| OpError::new(ErrorKind::InvalidArgument, message);
    let (has_bytes, segment_bytes) = volume
        .run_quietly(|vfs, _| Ok((vfs.store().size().0, vfs.store().geometry().segment_bytes)))
        .map_err(|e| OpError::from(&e))?;
    let size_bytes = match wanted {
        Wanted::To(size_bytes) => size_bytes,
        Wanted::More(more_bytes) => has_bytes.saturating_add(more_bytes),
        Wanted::Device => {
            let device =
                volume.device().ok_or_else(|| refuse("a volume in memory has no device".to_owned()))?;
            device.grow(has_bytes).map_err(|e| OpError::new(ErrorKind::Failed, e.to_string()))?;
            device.geometry().size_bytes
        }
    };
    if size_bytes < has_bytes {
        return Err(refuse(format!(
            "the volume has {}: it cannot be made smaller; copy its files to a new volume instead",
            Bytes(has_bytes)
        )));
    }
    match volume.grow(size_bytes) {
        Ok(grown) => Ok(grown.into()),
        Err(FsError::Invalid(_)) if size_bytes < has_bytes.saturating_add(2 * u64::from(segment_bytes)) => {
            Err(refuse(format!(
                "the volume has {} already; it grows by whole segments of {}",
                Bytes(has_bytes),
                Bytes(u64::from(segment_bytes))
            )))
        }
        Err(e @ FsError::Invalid(_)) => Err(refuse(e.to_string())),
        Err(e) => Err(OpError::from(&e)),
    }
}
