//! `Setup`: the model, the cleaner, the disk and how full it is; and the volume made from them for a trace.

use super::driver::IdleRule;
use super::replay::START_NS;
use super::survey::Survey;
use crate::error::LabError;
use crate::hardware::{ChosenDisk, find_disk};
use firnfs::clean::{Medium, PlacementName, Policy};
use firnfs::lfs::{Lfs, MkfsOptions, Options, read_superblock};
use firnfs::store::Store;
use firnfs_device::{Device, MemDevice};
use firnfs_format::TimeNs;
use firnfs_sim::disk::DiskParams;
use serde::Serialize;

const MIB: u64 = 1 << 20;
/// Traces of fewer bytes than this get smaller segments: otherwise a dozen segments in reserve would be most of the disk.
const SMALL_BYTES: u64 = 400 * MIB;
/// Smallest segment in bytes.
const SEGMENT_MIN_BYTES: u64 = 256 << 10;
/// Fewest segments of a volume.
const SEGMENTS_MIN: u64 = 64;
/// The largest share of the space for files that a trace may take at any moment, and the same on a small volume.
const FULLEST: f64 = 0.985;
const SMALL_FULLEST: f64 = 0.9;

/// How users' changes reach the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// They wait in non-volatile memory of two segments until there is a segment's worth.
    Async,
    /// Each changing request is written at once, as a partial segment.
    Sync,
}

impl Model {
    /// Both, in the order of the paper.
    pub const ALL: [Self; 2] = [Self::Async, Self::Sync];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Async => "async",
            Self::Sync => "sync",
        }
    }
}

/// Which cleaner works, and when.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub enum Cleaner {
    /// That of 1995: while the disk is idle, whole segments, the emptiest first, one request at a time, one log of data.
    #[serde(rename = "1995")]
    Of1995,
    /// That of firnfs with its defaults: while no user makes requests.
    #[serde(rename = "today")]
    Today,
}

impl Cleaner {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Of1995 => "1995",
            Self::Today => "today",
        }
    }

    /// When the log is told that users are active.
    pub(super) fn rule(self) -> IdleRule {
        match self {
            Self::Of1995 => IdleRule::Disk,
            Self::Today => IdleRule::Requests,
        }
    }

    /// Its requests in the disk's queue at a time: the driver of a mount has eight under way.
    pub(super) fn depth(self) -> usize {
        match self {
            Self::Of1995 => 1,
            Self::Today => 8,
        }
    }
}

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How changes reach the log.
    pub model: Model,
    /// Which cleaner works.
    pub cleaner: Cleaner,
    /// The disk.
    pub disk: ChosenDisk,
    /// Share of the space for files that the trace takes on average.
    pub utilisation: f64,
    /// Milliseconds of idle time before the cleaner begins.
    pub idle_after_ms: u64,
    /// The cleaner learns another time from the idle intervals of the disk.
    pub learns_idle: bool,
    /// Memory for file data above the log, in bytes.
    pub page_cache_bytes: u64,
    /// Memory of the log for metadata and for changes that are not written yet, in bytes.
    pub log_cache_bytes: u64,
}

/// A volume that is made for a trace, and empty.
pub(super) struct Volume {
    pub device: MemDevice,
    pub segment_bytes: u64,
}

impl Setup {
    /// The paper's: 90% full, a DSP 3501, an idle time of 2 s, a cache of 10 MB. The log gets 8 MiB, two of which are the non-volatile
    /// memory, and file data the other 4 MiB.
    ///
    /// # Errors
    /// None with the files that come along.
    pub fn of_1995(model: Model) -> Result<Self, LabError> {
        Ok(Self {
            model,
            cleaner: Cleaner::Of1995,
            disk: find_disk("dsp3501")?,
            utilisation: 0.9,
            idle_after_ms: 2_000,
            learns_idle: false,
            page_cache_bytes: 4 * MIB,
            log_cache_bytes: 8 * MIB,
        })
    }

    /// How the log is run.
    pub(super) fn options(&self, segment_bytes: u64) -> Options {
        let base = Options {
            cache_bytes: self.log_cache_bytes,
            write_threshold_bytes: segment_bytes,
            // In both models memory that survives power cuts, or the disk, has all changes at all times.
            commit_interval_ms: u64::MAX / 4,
            cache_file_data: false,
            coalesce_age_ms: None,
            idle_after_ms: self.idle_after_ms,
            medium: Medium::of(self.disk.params.kind.has_head()),
            ..Options::default()
        };
        match self.cleaner {
            Cleaner::Today => base,
            Cleaner::Of1995 => Options {
                held_indirect_bytes: 0,
                checkpoint_interval_ms: u64::MAX / 4,
                cleaning_policy: Policy::Greedy,
                placement: Some(PlacementName::One),
                // A second request would take longer than any segment: whole segments are read.
                medium: Medium { request_ns: 60_000_000_000, ..Medium::HEAD },
                ..base
            },
        }
    }

    fn mkfs(&self, size_bytes: u64, segment_bytes: u64) -> MkfsOptions {
        MkfsOptions {
            size_bytes,
            block_bytes: 4096,
            segment_bytes: segment_bytes as u32,
            // The summary of a partial segment takes 512 bytes, as in the paper, and not a block.
            physical_block_bytes: 512,
            inline_max_bytes: 0,
            label: "trace".to_owned(),
            uuid: *b"firnfs: a trace.",
            hash_key: [19, 95],
            now: TimeNs(START_NS),
            root_owner: (0, 0),
        }
    }

    /// The empty volume on which a trace takes the share of the space that the setup says.
    ///
    /// # Errors
    /// The log cannot be made.
    pub(super) fn volume(&self, survey: &Survey) -> Result<Volume, LabError> {
        let wanted = survey.mean_bytes() as f64 / self.utilisation;
        // At its fullest the trace still has to fit. What is kept for metadata weighs more on a small volume.
        let fullest = if wanted < SMALL_BYTES as f64 { SMALL_FULLEST } else { FULLEST };
        let wanted = wanted.max(survey.max_bytes() as f64 / fullest);
        let segment_bytes = if wanted < SMALL_BYTES as f64 { SEGMENT_MIN_BYTES } else { MIB };
        let least_bytes = SEGMENTS_MIN * segment_bytes;
        let mut size_bytes = least_bytes;
        // The space for files is not quite proportional to the size.
        for _ in 0..4 {
            let (_, total_bytes) = self.try_volume(size_bytes, segment_bytes)?;
            let scaled = size_bytes as f64 * wanted / total_bytes.max(1) as f64;
            size_bytes = (scaled as u64).next_multiple_of(segment_bytes).max(least_bytes);
        }
        let (device, _) = self.try_volume(size_bytes, segment_bytes)?;
        Ok(Volume { device, segment_bytes })
    }

    /// An empty volume of a size, and the space that it has for files.
    fn try_volume(&self, size_bytes: u64, segment_bytes: u64) -> Result<(MemDevice, u64), LabError> {
        let failed = |source| LabError::Volume { action: "make a volume", source };
        let device = MemDevice::new(size_bytes);
        firnfs_manage::format(&device, &self.mkfs(size_bytes, segment_bytes)).map_err(failed)?;
        let image = device.image();
        let mut read = |at_bytes: u64, len_bytes: u32| {
            let mut bytes = vec![0; len_bytes as usize];
            image.read(at_bytes, &mut bytes);
            Ok(bytes)
        };
        let sb = read_superblock(&mut read, device.geometry().size_bytes)
            .map_err(|error| LabError::Setup(error.to_string()))?;
        let lfs = Lfs::open(&mut read, sb, self.options(segment_bytes), TimeNs(START_NS)).map_err(failed)?;
        Ok((device, lfs.space().total_bytes))
    }

    /// The disk's parameters, if the volume fits on it.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn disk_for(&self, device: &MemDevice) -> Result<DiskParams, LabError> {
        let (needed, params) = (device.geometry().size_bytes, &self.disk.params);
        match params.kind.size_bytes() {
            Some(size_bytes) if size_bytes < needed => Err(LabError::Setup(format!(
                "the trace needs a disk of {} MiB; {} has {} MiB",
                needed / MIB,
                self.disk.name,
                size_bytes / MIB
            ))),
            _ => Ok(params.clone()),
        }
    }
}
