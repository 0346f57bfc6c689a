//! The fence, and writes to the device beside the core.
//!
//! What makes the bytes written before it the volume's truth, or changes the volume as a whole, is done only right after the device has
//! proved that no other program writes to it ([`Device::fence`]): jobs that the core marks so, and all that a [`DirectWrites`] does.
//! Invariant: [`behind_fence`] is the only caller of that proof.
//!
//! Callers: `background`, which starts jobs; programs that change a superblock or the size of the device, through
//! [`Volume::write_directly`].

use super::Volume;
use super::events::Event;
use crate::sync::atomic::Ordering;
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::vfs::Frozen;
use firnfs_device::{AlignedBuf, Device, DeviceError};
use std::sync::Arc;

/// Does something to a device, if the device proves that nobody else writes to it.
pub(super) fn behind_fence<T>(device: &dyn Device, work: impl FnOnce() -> T) -> Result<T, DeviceError> {
    device.fence()?;
    Ok(work())
}

/// While this exists, its owner alone may write to the device beside the core, and no freeze begins: see [`Volume::write_directly`].
#[must_use = "a freeze may begin once it is dropped"]
pub struct DirectWrites<'a, S: Engine> {
    volume: &'a Volume<S>,
}

impl<S: Engine> Drop for DirectWrites<'_, S> {
    fn drop(&mut self) {
        let core = self.volume.core.lock();
        self.volume.has_direct_writer.store(false, Ordering::Relaxed);
        self.volume.tell(core, Event::Progress);
    }
}

impl<S: Engine> DirectWrites<'_, S> {
    /// Writes to places given in bytes, in this order, each durable before the next one.
    ///
    /// # Errors
    /// `Io`: the device failed, or another program may write to it; `Invalid` if there is no device.
    pub fn write_in_order(&self, writes: Vec<(u64, Vec<u8>)>) -> Result<(), FsError> {
        self.alone(|device| {
            for (at_bytes, bytes) in writes {
                device.write(at_bytes, Arc::new(AlignedBuf::copy_of(&bytes)))?;
                device.flush()?;
            }
            Ok(())
        })
    }

    /// Makes the device larger, if it has not that size yet.
    ///
    /// # Errors
    /// As [`Self::write_in_order`]; `Io` if the device cannot grow.
    pub fn grow_device(&self, size_bytes: u64) -> Result<(), FsError> {
        self.alone(|device| device.grow(size_bytes))
    }

    /// Gives the end of the device back, if it is a file.
    ///
    /// # Errors
    /// As [`Self::write_in_order`].
    pub fn cut_device(&self, size_bytes: u64) -> Result<(), FsError> {
        self.alone(|device| device.cut(size_bytes))
    }

    fn alone(&self, work: impl FnOnce(&dyn Device) -> Result<(), DeviceError>) -> Result<(), FsError> {
        let device = self.volume.device().ok_or(FsError::Invalid("a volume in memory has no device"))?;
        behind_fence(device, || work(device)).flatten().map_err(|e| FsError::Io(e.to_string()))
    }
}

impl<S: Engine> Volume<S> {
    /// Lets the caller write to the device beside the core, until the returned value is dropped: one caller at a time. Waits while the
    /// volume is frozen; a freeze waits for the drop.
    pub fn write_directly(&self) -> DirectWrites<'_, S> {
        let mut core = self.core.lock();
        while core.frozen() != Frozen::No || self.has_direct_writer.load(Ordering::Relaxed) {
            self.sleep(&mut core, None);
        }
        self.has_direct_writer.store(true, Ordering::Relaxed);
        DirectWrites { volume: self }
    }
}
