//! A volume of the real Fast File System that lives through a workload, in the time of the workload, on a disk that takes none.
//!
//! Callers: `fragmented` and `lifetime`, which look at the volume on some dates and measure it afterwards; `rig`, which mounts volumes on disks that take time.

use super::{Setup, StoreKind};
use crate::age::replay::{By, OnVolume, Plan, Tally, clock_at, replay};
use crate::error::LabError;
use firnfs::FsError;
use firnfs::ffs::{Ffs, Variant};
use firnfs::store::Scope;
use firnfs::vfs::AtimeMode;
use firnfs_device::{Clock, Device, MemDevice, SparseImage};
use firnfs_format::TimeNs;
use firnfs_manage::{OpenFfsError, format_ffs, open_ffs};
use firnfs_volume::Volume;
use firnfs_workload::Reader;
use std::sync::Arc;

/// What became of a volume.
pub(super) struct Lived {
    pub image: SparseImage,
    /// The time at which it was unmounted.
    pub ended_ns: i64,
    pub tally: Tally,
}

/// What looks at the volume; everything is on the disk.
pub(super) type Look<'a> = dyn FnMut(&Volume<Ffs>) -> Result<(), LabError> + 'a;

/// For `map_err`: an error of the file system with the attempted action.
pub(super) fn failed(action: &'static str) -> impl Fn(FsError) -> LabError {
    move |source| LabError::Volume { action, source }
}

/// Mounts a volume.
pub(super) fn mount(
    device: Arc<dyn Device>,
    cache_bytes: u64,
    clock: Arc<dyn Clock>,
) -> Result<Volume<Ffs>, LabError> {
    let opened = open_ffs(device, StoreKind::options(cache_bytes), AtimeMode::Noatime, clock);
    opened.map_err(|error| match error {
        OpenFfsError::Fs(source) => LabError::Volume { action: "mount", source },
        OpenFfsError::NotFfs(other) => LabError::Setup(other.to_string()),
    })
}

/// An empty volume.
pub(super) fn empty(setup: &Setup, now_ns: i64) -> Result<Arc<MemDevice>, LabError> {
    let device = Arc::new(MemDevice::new(setup.volume_bytes()));
    let mkfs = StoreKind::mkfs(Variant::M8R0, &setup.fast, setup.volume_bytes(), TimeNs(now_ns));
    format_ffs(&*device, &mkfs).map_err(failed("make a volume"))?;
    Ok(device)
}

/// Looks at an empty volume.
pub(super) fn look_at_empty<T>(
    setup: &Setup,
    look: impl FnOnce(&Volume<Ffs>) -> Result<T, LabError>,
) -> Result<T, LabError> {
    look(&mount(empty(setup, 0)?, setup.cache_bytes, Arc::new(clock_at(0)))?)
}

/// Carries out a workload on a new volume. `look` sees the volume after the first operation behind each of the dates, and at the end.
///
/// # Errors
/// A volume cannot be made, the workload is damaged, the file system failed, or what exists in the end is not what should.
pub(super) fn live_through(
    setup: &Setup,
    by: By,
    workload: &[u8],
    dates_ns: &[i64],
    look: &mut Look<'_>,
) -> Result<Lived, LabError> {
    let reader = Reader::new(workload).map_err(|error| LabError::Setup(error.to_string()))?;
    let start_ns = i64::try_from(reader.header().start_ns).unwrap_or(i64::MAX);
    let device = empty(setup, start_ns)?;
    let clock = Arc::new(clock_at(start_ns));
    let volume = mount(device.clone(), setup.cache_bytes, clock.clone())?;
    let mut look = || {
        volume.sync(Scope::All).map_err(failed("sync"))?;
        look(&volume)
    };
    let plan = Plan { by, continues: false, identity: String::new() };
    let mut passed = 0;
    let outcome = replay(&plan, reader, &mut OnVolume::new(&volume, &clock), &mut |_, _| {
        while dates_ns.get(passed).is_some_and(|date_ns| clock.now_ns() > *date_ns) {
            passed += 1;
            look()?;
        }
        Ok(())
    })?;
    if outcome.mismatch_count > 0 {
        return Err(LabError::Setup(format!("after the workload: {}", outcome.mismatches.join("; "))));
    }
    look()?;
    volume.close().map_err(failed("unmount"))?;
    Ok(Lived { image: device.image(), ended_ns: clock.now_ns(), tally: outcome.tally })
}
