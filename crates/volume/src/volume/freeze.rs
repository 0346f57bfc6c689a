//! Freezing: nothing is written to the device, so that the image can be copied while the volume is mounted; as fsfreeze(8).
//!
//! A freeze holds new changes, makes everything durable, waits until no request is under way, and then lets no request of the core
//! begin. Operations that would change something wait until the thaw; reads go on, and a sync returns at once.
//! Background work rests. A kernel that holds a directory's lock during a creation, as Linux does beneath FUSE, holds it while the
//! creation waits here, so a lookup of a name that it has not cached waits in front of the volume. Reading may still change access times in memory; they are written after the thaw.
//!
//! Invariants: while the device is frozen, the driver submits nothing but reads ([`Volume::take_jobs`] is the only source of other
//! requests), and nobody holds a [`DirectWrites`](super::direct::DirectWrites). A thread sleeps here without a timeout because the value that [`Volume::freeze`] returned thaws when it is dropped:
//! its owner must bound that time, as an adapter does with a thread.
//!
//! Callers: adapters; `run_to_end`, `background` and `events` ask.

use super::Volume;
use super::events::Event;
use crate::sync::atomic::Ordering;
use firnfs::FsError;
use firnfs::engine::Engine;
use firnfs::store::Scope;
use firnfs::vfs::{Frozen, Vfs};
use std::sync::Arc;

/// How long background work sleeps while it rests, in milliseconds; the thaw wakes it.
pub(super) const RESTING_MS: u64 = 60_000;

/// While an owner holds this, the volume is frozen: see [`Volume::freeze`].
#[must_use = "the volume is frozen as long as it is kept"]
pub struct Freeze<S: Engine> {
    volume: Arc<Volume<S>>,
}

impl<S: Engine> Drop for Freeze<S> {
    fn drop(&mut self) {
        self.volume.set_frozen(Frozen::No);
        self.volume.wake();
    }
}

impl<S: Engine> Volume<S> {
    fn wait_for_direct_writer(&self) {
        let mut core = self.core.lock();
        while self.has_direct_writer.load(Ordering::Relaxed) {
            self.sleep(&mut core, None);
        }
    }

    /// Makes everything durable and freezes the volume until the returned value is dropped: a copy of the device made meanwhile is
    /// the state of this moment, and mounts as after a crash, without loss.
    ///
    /// # Errors
    /// `Invalid` if it is frozen already; those of [`Volume::sync`]. The volume is not frozen then.
    pub fn freeze(self: &Arc<Self>) -> Result<Freeze<S>, FsError> {
        {
            let mut core = self.core.lock();
            if core.frozen() != Frozen::No {
                return Err(FsError::Invalid("the volume is frozen already"));
            }
            core.set_frozen(Frozen::Changes);
        }
        // From here on a failure thaws.
        let freeze = Freeze { volume: Arc::clone(self) };
        self.wait_for_direct_writer();
        self.sync(Scope::All)?;
        self.look_when_drained(|vfs, _| vfs.set_frozen(Frozen::Device))?;
        Ok(freeze)
    }

    fn set_frozen(&self, frozen: Frozen) {
        let mut core = self.core.lock();
        core.set_frozen(frozen);
        self.tell(core, Event::Progress);
    }

    /// True while an owner holds a [`Freeze`].
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.core.lock().frozen() != Frozen::No
    }

    /// True while no request may begin.
    pub(super) fn is_device_frozen(vfs: &Vfs<S>) -> bool {
        vfs.frozen() == Frozen::Device
    }

    /// Waits until changes are allowed again.
    pub fn wait_for_thaw(&self) {
        let mut core = self.core.lock();
        while core.frozen() != Frozen::No {
            self.sleep(&mut core, None);
        }
    }

    /// The same for an operation that has not changed anything.
    pub(super) fn wait_for_thaw_unless_given_up(&self) -> Result<(), FsError> {
        let mut core = self.core.lock();
        while core.frozen() != Frozen::No {
            self.ask_caller()?;
            self.sleep(&mut core, None);
        }
        Ok(())
    }
}
