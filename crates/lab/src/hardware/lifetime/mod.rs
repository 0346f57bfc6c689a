//! Seven months of a file system, and what they do to it (File System Aging, sections 3.4 and 4).
//!
//! `people` makes up home directories and what happens in them. `history` carries that out on the real Fast File System, takes a snapshot each
//! night, and derives a workload from the snapshots as the paper does, with short-lived files from `short_lived`. `life` ages a file system of one
//! [`Policy`] by that workload and runs the paper's two benchmarks on it, and on an empty one. [`super::lived`] carries workloads out.
//! Caller: the figures of the papers.

mod history;
mod life;
mod people;
mod short_lived;
#[cfg(test)]
mod tests;

pub(in crate::hardware) use history::{History, live_history};
pub(in crate::hardware) use life::{Hot, Life, Speed, live};

use crate::age::layout::FreeSpace;
use crate::age::snapshot::Snapshot;
use crate::age::take::image;
use crate::error::LabError;
use crate::hardware::lived::look_at_empty;
use crate::hardware::{FastLayout, Profile, Setup, StoreKind, find_disk, find_machine};
use firnfs::ffs::Variant;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const DAY_NS: i64 = 86_400_000_000_000;
const CACHE_BYTES: u64 = 16 * MIB;
/// Data that is written in files of one size (section 4).
const DATA_BYTES: u64 = 32 * MIB;
/// Files of it in a directory.
const PER_DIRECTORY: u64 = 25;

/// Sizes of the files of the sequential benchmark, in KiB, for figures 1, 2, 5 and 6.
pub(in crate::hardware) const SIZES_KIB: [u64; 20] =
    [16, 24, 32, 48, 64, 80, 96, 104, 112, 128, 160, 192, 256, 384, 512, 1024, 2048, 4096, 8192, 16384];
/// The same for figures 7 and 8: most end in a fragment.
pub(in crate::hardware) const SMALL_KIB: [u64; 29] = [
    4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 68, 72, 76, 80, 84, 88, 92, 96, 100, 104,
    108, 112, 116,
];

/// How the Fast File System places blocks. All but the first move blocks that do not lie behind one another to where they do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::hardware) enum Policy {
    /// 4.4BSD as it was.
    Original,
    /// The paper's baseline.
    Realloc,
    /// The first indirect block stays in the group of the file (section 4.1).
    NoSwitch,
    /// The last fragments of a file lie behind its last block (section 4.2).
    SmartFrag,
}

/// How much of the paper's history is lived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::hardware) struct Span {
    /// Size of the file system in bytes.
    pub size_bytes: u64,
    /// Days.
    pub days: u32,
}

impl Span {
    /// As in the paper.
    pub const PAPER: Self = Self { size_bytes: 1 << 30, days: 215 };
    /// For a quick look: an eighth of the size and of the time.
    pub const SHORT: Self = Self { size_bytes: 1 << 27, days: 27 };

    /// The share of the paper's file system.
    fn share(self) -> f64 {
        self.size_bytes as f64 / Self::PAPER.size_bytes as f64
    }

    /// Bytes of a run of the sequential benchmark.
    fn data_bytes(self) -> u64 {
        (DATA_BYTES as f64 * self.share()) as u64
    }

    /// The machine, the disk and the file system of table 1: blocks of 8 KB, fragments of 1 KB, clusters of 56 KB, 63 groups.
    fn setup(self, policy: Policy) -> Result<Setup, LabError> {
        let fast = FastLayout {
            gap_blocks: Some(0),
            cluster_blocks: Some(7),
            group_bytes: Some(16_648 * KIB),
            reallocates: policy != Policy::Original,
            no_switch: policy == Policy::NoSwitch,
            smart_frag: policy == Policy::SmartFrag,
            ..FastLayout::of_blocks(8192)
        };
        Ok(Setup {
            cpu: find_machine("pentium-pro")?,
            disk: find_disk("m2694")?,
            store: StoreKind::Fast(Variant::M8R0),
            fast,
            cache_bytes: CACHE_BYTES,
            size_max_bytes: self.size_bytes,
            ..Setup::usenix_95(Profile::Of1993)?
        })
    }
}

/// Space for data on an empty volume.
fn free_bytes(setup: &Setup) -> Result<u64, LabError> {
    look_at_empty(setup, |volume| Ok(free(&image(volume, &mut |_| Ok(()))?)))
}

fn free(snapshot: &Snapshot) -> u64 {
    snapshot.meta.free.as_ref().map_or(0, FreeSpace::free_bytes)
}

/// How full a volume is: the share of the space for data that is not free.
fn full(snapshot: &Snapshot, data_bytes: u64) -> f64 {
    1.0 - free(snapshot) as f64 / data_bytes.max(1) as f64
}
