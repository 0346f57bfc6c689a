//! The share of a device's bandwidth that firnfs uses when it writes one large file, durably.
//!
//! Like is compared with like: both sides write the same distinct, incompressible data, from buffers that are together larger than
//! the processor's caches, to the same device, past the page cache. Both hand over the buffers themselves, 1 MiB each, the raw side to the
//! device, several under way, and the other one to the library ([`Volume::write_lent`](firnfs_volume::Volume::write_lent)). Two devices: a loop device with direct I/O over an image (root only), and the image itself throttled to
//! [`THROTTLED_BYTES_PER_S`]. Neither side keeps what it has written in memory. A disk in memory shows what the processor costs, a throttled one what the log costs.

use super::library::{self, SPARE_BYTES, UNIT_BYTES};
use super::loop_device::LoopDevice;
use super::processor::{Meter, Taken};
use super::scenario::content;
use super::stop::Stop;
use super::task::Task;
use super::throttled::Throttled;
use super::{Durability, Sample, target};
use crate::LabError;
use firnfs::store::Scope;
use firnfs_device::{AlignedBuf, Device, FileDevice, FileOptions, Request};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Speed of the throttled device.
pub const THROTTLED_BYTES_PER_S: u64 = 500_000_000;
/// Raw writes under way at a time.
const DEPTH: usize = 4;
/// Names of the devices in samples.
pub const LOOP: &str = "a loop device with direct I/O";
/// See [`LOOP`].
pub const THROTTLED: &str = "an image throttled to 500 MB/s";

/// The devices and the data; image and loop device are removed at the end.
pub struct Bandwidth {
    image: PathBuf,
    loop_device: Option<LoopDevice>,
    units: Vec<Arc<AlignedBuf>>,
}

impl Bandwidth {
    /// Preallocates an image in `directory`, puts a loop device over it if this is root, and makes the data.
    ///
    /// # Errors
    /// Errors of writing, or of losetup(8); `Interrupted`.
    pub fn prepare(directory: &Path, bytes: u64, stop: &Stop) -> Result<Self, LabError> {
        let units = bytes.div_ceil(UNIT_BYTES as u64);
        let image = directory.join("firn-bench-bandwidth.img");
        let mut bandwidth = Self { image, loop_device: None, units: Vec::new() };
        let len_bytes = units * UNIT_BYTES as u64 + SPARE_BYTES;
        library::preallocate(&bandwidth.image, len_bytes, stop)?;
        if target::may_drop_caches() {
            bandwidth.loop_device = Some(LoopDevice::over(&bandwidth.image)?);
        }
        for unit in 0..units {
            stop.check()?;
            bandwidth.units.push(Arc::new(AlignedBuf::copy_of(&content(unit, UNIT_BYTES))));
        }
        Ok(bandwidth)
    }

    /// Measures each device once, raw and through the library, in turns.
    ///
    /// # Errors
    /// The first error; `Interrupted`.
    pub fn round(&self, round: u32, samples: &mut Vec<Sample>, stop: &Stop) -> Result<(), LabError> {
        let places = self.loop_device.iter().map(|_| LOOP).chain([THROTTLED]);
        for place in places {
            // The second finds the device in the state that the first has left, so they take turns.
            let tasks = [Task::RawWrite, Task::SegmentWrite];
            for turn in 0..tasks.len() {
                let task = tasks[(turn + round as usize) % tasks.len()];
                let device = self.open(place)?;
                let taken = match task {
                    Task::RawWrite => self.write_raw(&*device, stop)?,
                    _ => self.write_through(device, stop)?,
                };
                let target = place.to_owned();
                samples.push(Sample { task, durability: Durability::Durable, target, round, taken });
            }
        }
        Ok(())
    }

    fn open(&self, place: &str) -> Result<Arc<dyn Device>, LabError> {
        let open = |path: &Path| {
            FileDevice::open(path, &FileOptions::default()).map_err(|e| LabError::Setup(e.to_string()))
        };
        match &self.loop_device {
            Some(over) if place == LOOP => Ok(Arc::new(open(over.path())?)),
            _ => Ok(Arc::new(Throttled::new(open(&self.image)?, THROTTLED_BYTES_PER_S))),
        }
    }

    fn write_raw(&self, device: &dyn Device, stop: &Stop) -> Result<Taken, LabError> {
        let failed = |e: firnfs_device::DeviceError| LabError::Setup(e.to_string());
        let mut meter = Meter::start(None);
        let mut under_way = VecDeque::new();
        for (n, unit) in self.units.iter().enumerate() {
            stop.check()?;
            if under_way.len() == DEPTH
                && let Some(tag) = under_way.pop_front()
            {
                device.wait(tag).map_err(failed)?;
            }
            let at_bytes = (n * UNIT_BYTES) as u64;
            under_way.push_back(device.submit(Request::Write { at_bytes, data: unit.clone().into() }));
        }
        for tag in under_way {
            device.wait(tag).map_err(failed)?;
        }
        device.flush().map_err(failed)?;
        Ok(meter.read())
    }

    fn write_through(&self, device: Arc<dyn Device>, stop: &Stop) -> Result<Taken, LabError> {
        library::timed(device, |volume| {
            library::hand_over(volume, b"sequential", &self.units, stop)?;
            volume.sync(Scope::All).map_err(library::writing)
        })
    }
}

impl Drop for Bandwidth {
    fn drop(&mut self) {
        self.loop_device = None;
        // The error would be useless: the run is over or has failed already.
        let _ = std::fs::remove_file(&self.image);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_write_the_same_distinct_data_to_each_device_and_nothing_stays() {
        let home = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (mut samples, stop) = (Vec::new(), Stop::default());
        let bandwidth = Bandwidth::prepare(home.path(), 8 << 20, &stop).unwrap();
        assert_ne!(bandwidth.units[0][..], bandwidth.units[7][..]);
        bandwidth.round(0, &mut samples, &stop).unwrap();
        bandwidth.round(1, &mut samples, &stop).unwrap();
        let of = |place: &str, task| -> Vec<u64> {
            let wanted = samples.iter().filter(|s| s.target == place && s.task == task);
            wanted.map(|s| s.taken.elapsed_ns).collect()
        };
        for task in [Task::RawWrite, Task::SegmentWrite] {
            assert_eq!(of(LOOP, task).len(), if target::may_drop_caches() { 2 } else { 0 });
            let least_ns = (8 << 20) * 1_000_000_000 / THROTTLED_BYTES_PER_S;
            assert!(of(THROTTLED, task).iter().all(|&ns| ns >= least_ns) && of(THROTTLED, task).len() == 2);
        }
        // In the second round firnfs came first and the raw side last, so the image holds the raw data.
        let image = FileDevice::open(&bandwidth.image, &FileOptions::default()).unwrap();
        assert_eq!(image.read(7 << 20, 1 << 20).unwrap()[..], bandwidth.units[7][..]);
        drop((image, bandwidth));
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
