//! `OnVolume`: an open volume of any kind as a [`Target`], in virtual time.

use crate::run::Target;
use firnfs::engine::Engine;
use firnfs::lfs::{Lfs, Options};
use firnfs::vfs::{AtimeMode, Vfs};
use firnfs::{FsError, Outcome};
use firnfs_device::Device;
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::{OpenError, open};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::sync::Arc;

/// See the module's head.
pub struct OnVolume<S: Engine = Lfs> {
    /// The volume.
    pub volume: Volume<S>,
    /// Its clock.
    pub clock: Arc<VirtualClock>,
    /// Quotas do not bind whoever operates on it.
    pub is_exempt: bool,
}

impl OnVolume {
    /// Opens the log-structured volume on `device` (relatime) with a clock that shows `now`.
    ///
    /// # Errors
    /// As [`firnfs_manage::open`].
    pub fn open(device: Arc<dyn Device>, options: Options, now: TimeNs) -> Result<Self, OpenError> {
        let clock = Arc::new(VirtualClock::at(now.0));
        let volume = open(device, options, AtimeMode::Relatime, clock.clone())?;
        Ok(Self { volume, clock, is_exempt: false })
    }
}

impl<S: Engine> Target for OnVolume<S> {
    type Store = S;

    fn run<T>(&mut self, mut op: impl FnMut(&mut Vfs<S>) -> Outcome<T>) -> Result<T, FsError> {
        self.volume.run_for(self.is_exempt, |vfs, _| op(vfs))
    }

    fn read(&mut self, now: TimeNs, ino: InodeNo, at_bytes: u64, len_bytes: u64) -> Result<Vec<u8>, FsError> {
        self.clock.set_ns(now.0);
        let mut out = vec![0; len_bytes as usize];
        let len = self.volume.read(ino, at_bytes, &mut out)?;
        out.truncate(len);
        Ok(out)
    }
}
