//! The daemon's side of `firn resize`: three operations of the control socket.
//!
//! Invariant: no change of the size goes on when the volume is closed ([`Service::end`]).
//!
//! Caller: `mounting::operations`, and the command for volumes that are not mounted.

use crate::sizes::Bytes;
use crate::socket;
use firnfs::FsError;
use firnfs::lfs::{Lfs, Shrunk};
use firnfs_format::superblock::SIZE_LIMIT_BYTES;
use firnfs_fuse::control::{ErrorKind, OpError, Registry};
use firnfs_manage::{LogVolume, ShrinkEnd, SizeChange};
use firnfs_volume::Volume;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Makes the volume larger or smaller: a [`Request`], answered with [`Resized`] when it is done.
pub const RESIZE_OP: &str = "resize";
/// Answers with a [`ProgressView`] while the volume becomes smaller, otherwise with null.
pub const RESIZE_STATUS_OP: &str = "resize_status";
/// Stops making the volume smaller.
pub const RESIZE_STOP_OP: &str = "resize_stop";

/// Images of that grain end where a reader looks for the last copy of the superblock.
const COPY_BYTES: u64 = firnfs_format::superblock::SUPERBLOCK_BYTES as u64;

/// The errno of a refusal that holds until the volume is in another condition.
pub const NOT_NOW: &str = "EPERM";
/// Snapshots and clones lie where they lie; automatic states give way.
const DELETE_FIRST: &str =
    "delete them first (--delete); 'firn snapshot PATH --list' and 'firn clone PATH --list' show them";

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
    /// The given number of bytes less than now.
    Less(u64),
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
    /// It was stopped before the volume became smaller.
    #[serde(default)]
    pub stopped: bool,
}

impl From<SizeChange> for Resized {
    fn from(grown: SizeChange) -> Self {
        let SizeChange { was_bytes, size_bytes, was_segments, segments } = grown;
        Self { was_bytes, size_bytes, was_segments, segments, stopped: false }
    }
}

/// How far a volume has come that becomes smaller; what `resize_status` answers while there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProgressView {
    /// Live bytes that had to be moved.
    pub total_bytes: u64,
    /// Those that are still to be moved.
    pub left_bytes: u64,
}

impl From<Shrunk> for ProgressView {
    fn from(shrunk: Shrunk) -> Self {
        Self { total_bytes: shrunk.total_bytes, left_bytes: shrunk.left_bytes }
    }
}

/// The daemon's side: one change of the size at a time.
pub struct Service {
    volume: Weak<Volume<Lfs>>,
    turn: Mutex<()>,
    stop: AtomicBool,
    is_closing: AtomicBool,
    progress: Mutex<Option<ProgressView>>,
}

impl Service {
    /// For a volume that is being mounted. It is held weakly, except while its size changes.
    pub fn new(volume: Weak<Volume<Lfs>>) -> Arc<Self> {
        let [stop, is_closing] = [false; 2].map(AtomicBool::new);
        Arc::new(Self { volume, turn: Mutex::new(()), stop, is_closing, progress: Mutex::new(None) })
    }

    /// Registers the operations.
    pub fn register(self: &Arc<Self>, registry: &mut Registry) {
        let service = Arc::clone(self);
        let help = "makes the volume larger or smaller: 'wanted' is \"device\", {\"to\": bytes}, {\"more\": bytes} or {\"less\": bytes}";
        registry.register(RESIZE_OP, help, move |request| socket::answer(&service.resize(request)?));
        let service = Arc::clone(self);
        let help = "the progress of a volume that becomes smaller, or null";
        registry.register(RESIZE_STATUS_OP, help, move |_| socket::answer(&*service.progress.lock()));
        let service = Arc::clone(self);
        let help = "stops making the volume smaller: it keeps its size";
        registry.register(RESIZE_STOP_OP, help, move |_| {
            service.stop.store(true, Ordering::SeqCst);
            Ok(Value::Null)
        });
    }

    fn resize(&self, request: &Value) -> Result<Resized, OpError> {
        let volume = socket::open(&self.volume)?;
        let Request { wanted } = socket::arguments(request)?;
        let Some(_turn) = self.turn.try_lock() else {
            return Err(refuse("the size of the volume is changing already".to_owned()));
        };
        self.stop.store(false, Ordering::SeqCst);
        if self.is_closing.load(Ordering::SeqCst) {
            return Err(socket::closing());
        }
        let mut go_on = |so_far: Shrunk| {
            *self.progress.lock() = Some(so_far.into());
            !self.stop.load(Ordering::SeqCst) && !self.is_closing.load(Ordering::SeqCst)
        };
        let resized = resize(&volume, wanted, &mut go_on);
        *self.progress.lock() = None;
        let resized = resized?;
        tracing::info!(
            "the volume has {} now; it had {}",
            Bytes(resized.size_bytes),
            Bytes(resized.was_bytes)
        );
        Ok(resized)
    }

    /// Before the volume is closed: stops, and prevents another change.
    pub fn end(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        drop(self.turn.lock());
    }
}

fn refuse(message: String) -> OpError {
    OpError::new(ErrorKind::InvalidArgument, message)
}

/// Makes the volume larger or smaller. While it becomes smaller, it goes on as long as `go_on` returns true.
///
/// # Errors
/// `InvalidArgument` for a size that it cannot have; [`NOT_NOW`] if it is frozen, or has snapshots or clones; those of
/// [`LogVolume::grow`] and [`LogVolume::shrink`].
pub fn resize(
    volume: &Volume<Lfs>,
    wanted: Wanted,
    go_on: &mut dyn FnMut(Shrunk) -> bool,
) -> Result<Resized, OpError> {
    let (has_bytes, segment_bytes, has_left) = volume
        .run_quietly(|vfs, _| {
            let store = vfs.store();
            Ok((store.size().0, store.geometry().segment_bytes, store.has_larger_superblock()))
        })
        .map_err(|e| OpError::from(&e))?;
    let size_bytes = match wanted {
        Wanted::To(size_bytes) => size_bytes,
        Wanted::More(more_bytes) => has_bytes.saturating_add(more_bytes),
        Wanted::Less(less_bytes) => has_bytes.saturating_sub(less_bytes),
        Wanted::Device => {
            let device =
                volume.device().ok_or_else(|| refuse("a volume in memory has no device".to_owned()))?;
            device.grow(has_bytes).map_err(|e| OpError::new(ErrorKind::Failed, e.to_string()))?;
            device.geometry().size_bytes
        }
    };
    if size_bytes >= SIZE_LIMIT_BYTES {
        let (size, limit) = (Bytes(size_bytes), Bytes(SIZE_LIMIT_BYTES));
        return Err(refuse(format!("{size} is too large: a volume has less than {limit}")));
    }
    // A crash may have left the superblock of a volume that had become smaller.
    let is_smaller = size_bytes < has_bytes || size_bytes == has_bytes && has_left;
    let changed = if is_smaller {
        volume.shrink(size_bytes.next_multiple_of(COPY_BYTES).min(has_bytes), go_on)
    } else {
        volume.grow(size_bytes).map(ShrinkEnd::Done)
    };
    match changed {
        Ok(ShrinkEnd::Done(change)) => Ok(change.into()),
        Ok(ShrinkEnd::Stopped) => {
            let (size_bytes, segments) =
                volume.run_quietly(|vfs, _| Ok(vfs.store().size())).map_err(|e| OpError::from(&e))?;
            let (was_bytes, was_segments) = (size_bytes, segments);
            Ok(Resized { was_bytes, size_bytes, was_segments, segments, stopped: true })
        }
        Err(FsError::NoSpace) if is_smaller => Err(too_small(volume, size_bytes)),
        Err(FsError::Invalid(_)) if size_bytes.abs_diff(has_bytes) < 2 * u64::from(segment_bytes) => {
            Err(refuse(format!(
                "the volume has {} already; its size changes by whole segments of {}",
                Bytes(has_bytes),
                Bytes(u64::from(segment_bytes))
            )))
        }
        Err(FsError::Invalid(why)) => Err(refuse(why.to_owned())),
        Err(FsError::NotPermitted(why)) if is_smaller => Err(not_now(format!("{why}: {DELETE_FIRST}"))),
        Err(FsError::NotPermitted(why)) => Err(not_now(why.to_owned())),
        Err(e) => Err(OpError::from(&e)),
    }
}

/// The volume could have that size in another condition.
fn not_now(message: String) -> OpError {
    OpError { errno: Some(NOT_NOW.to_owned()), ..OpError::new(ErrorKind::Failed, message) }
}

/// Why the volume cannot become that small.
fn too_small(volume: &Volume<Lfs>, size_bytes: u64) -> OpError {
    let least_bytes = volume.run_quietly(|vfs, _| Ok(vfs.store().least_size_bytes())).unwrap_or(u64::MAX);
    if least_bytes > size_bytes {
        return refuse(format!(
            "the volume holds too much for {}: about {} is the least",
            Bytes(size_bytes),
            Bytes(rounded_up(least_bytes))
        ));
    }
    let message = "the end of the volume cannot be emptied now: it is too full; it keeps its size";
    OpError { errno: Some("ENOSPC".to_owned()), ..OpError::new(ErrorKind::Failed, message) }
}

/// At least that many bytes, and as [`Bytes`] shows them: who takes the least size at its word is not refused.
fn rounded_up(bytes: u64) -> u64 {
    let scale = 1_u128 << (10 * (bytes.max(1).ilog2() / 10));
    let tenths = (u128::from(bytes) * 10).div_ceil(scale);
    u64::try_from((tenths * scale).div_ceil(10)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizes::parse_size;

    #[test]
    fn the_least_size_that_is_named_is_enough() {
        for bytes in [1, 1023, 1025, 34_799_617, 34_799_616, 1_395_864_371, (1 << 40) - 1, 1 << 40] {
            let named = Bytes(rounded_up(bytes)).to_string();
            let typed = parse_size(&named).unwrap();
            assert!(typed >= bytes && typed <= bytes + bytes / 9 + 1, "{bytes}: {named}");
        }
    }
}
