//! Carries out a workload on a new volume of the real Fast File System, in the time of the workload, on a disk that takes none.

use super::CACHE_BYTES;
use crate::age::layout::FreeSpace;
use crate::age::replay::{By, OnVolume, Plan, Tally, clock_at, replay};
use crate::age::snapshot::Snapshot;
use crate::age::take::image;
use crate::error::LabError;
use crate::hardware::{Setup, StoreKind};
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

/// A volume that has lived through a workload.
pub(super) struct Aged {
    pub image: SparseImage,
    /// The time at which it was unmounted.
    pub ended_ns: i64,
    pub tally: Tally,
}

/// What sees the volume at night.
pub(super) type Look<'a> = dyn FnMut(Snapshot) -> Result<(), LabError> + 'a;

pub(super) fn failed(action: &'static str) -> impl Fn(FsError) -> LabError {
    move |source| LabError::Volume { action, source }
}

/// Mounts a volume on a disk that takes no time.
pub(super) fn mount(device: Arc<dyn Device>, clock: Arc<dyn Clock>) -> Result<Volume<Ffs>, LabError> {
    let opened = open_ffs(device, StoreKind::options(CACHE_BYTES), AtimeMode::Noatime, clock);
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

/// Carries out a workload. `look` sees the volume as it is at the end of each of the `nights`, and at the end of the workload.
///
/// # Errors
/// A volume cannot be made, the workload is damaged, or the file system failed.
pub(super) fn age(
    setup: &Setup,
    by: By,
    workload: &[u8],
    nights_ns: &[i64],
    look: &mut Look<'_>,
) -> Result<Aged, LabError> {
    let reader = Reader::new(workload).map_err(|error| LabError::Setup(error.to_string()))?;
    let start_ns = i64::try_from(reader.header().start_ns).unwrap_or(i64::MAX);
    let device = empty(setup, start_ns)?;
    let clock = Arc::new(clock_at(start_ns));
    let volume = mount(device.clone(), clock.clone())?;
    let snapshot = || -> Result<Snapshot, LabError> {
        volume.sync(Scope::All).map_err(failed("sync"))?;
        image(&volume, &mut |_| Ok(()))
    };
    let plan = Plan { by, continues: false, identity: String::new() };
    let mut night = 0;
    let outcome = replay(&plan, reader, &mut OnVolume::new(&volume, &clock), &mut |_, _| {
        while nights_ns.get(night).is_some_and(|night_ns| clock.now_ns() >= *night_ns) {
            night += 1;
            look(snapshot()?)?;
        }
        Ok(())
    })?;
    if outcome.mismatch_count > 0 {
        return Err(LabError::Setup(format!("after the workload: {}", outcome.mismatches.join("; "))));
    }
    look(snapshot()?)?;
    volume.close().map_err(failed("unmount"))?;
    Ok(Aged { image: device.image(), ended_ns: clock.now_ns(), tally: outcome.tally })
}

/// Space for data on an empty volume.
pub(super) fn free_bytes(setup: &Setup) -> Result<u64, LabError> {
    let volume = mount(empty(setup, 0)?, Arc::new(clock_at(0)))?;
    let snapshot = image(&volume, &mut |_| Ok(()))?;
    Ok(free(&snapshot))
}

fn free(snapshot: &Snapshot) -> u64 {
    snapshot.meta.free.as_ref().map_or(0, FreeSpace::free_bytes)
}

/// How full a volume is: the share of the space for data that is not free.
pub(super) fn full(snapshot: &Snapshot, data_bytes: u64) -> f64 {
    1.0 - free(snapshot) as f64 / data_bytes.max(1) as f64
}
