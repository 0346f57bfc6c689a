//! The measurements that the rows of the comparison are computed from.

use super::Scale;
use super::by_size::{self, Files, Rates};
use super::tpcb;
use crate::error::LabError;
use crate::hardware::bandwidth::{self, Point};
use crate::hardware::{
    FastLayout, Profile, Setup, StoreKind, find_disk, find_machine, large_file, small_files,
};
use firnfs::ffs::Variant;

/// Sprite LFS, figures 8 and 9, and USENIX'95, figures 1 and 2, by one file system.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::hardware) struct Micro {
    pub small: small_files::Rates,
    /// Files created a second by a processor four times as fast.
    pub faster: f64,
    pub large: large_file::Figure,
}

/// The file systems of USENIX'95, section 3, at one size of file.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::hardware) struct Sized {
    pub file_bytes: u64,
    pub log: Rates,
    pub m8r2: Rates,
    pub m8r0: Rates,
}

/// The same of File System Aging: with and without NoSwitch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::hardware) struct Indirect {
    pub direct: Rates,
    pub baseline: Rates,
    pub no_switch: Rates,
}

/// BSD-LFS, figures 9, 10 and 12, at one size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::hardware) struct Bandwidth {
    pub log: Point,
    pub ffs: Point,
    pub efs: Point,
}

/// See the module's head.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::hardware) struct Results {
    pub sprite_log: Micro,
    pub sun: Micro,
    pub bsd_log: Micro,
    pub m1r2: Micro,
    pub m8r2: Micro,
    pub half: Bandwidth,
    pub four: Bandwidth,
    pub sizes: Vec<Sized>,
    pub indirect: Indirect,
    /// Transactions a second.
    pub tpcb_log: f64,
    pub tpcb_fast: f64,
}

/// Sizes of files in KiB for USENIX'95's figures 3 to 6.
pub(super) const SIZES_KIB: [u64; 8] = [1, 2, 32, 64, 256, 512, 1024, 4096];
/// Benchmarks that [`Results::measure`] runs.
pub(super) const STEPS: usize = 5 + 2 * 3 + SIZES_KIB.len() * 3 + 3 + 2;

const KIB: u64 = 1024;

fn fast(variant: Variant) -> StoreKind {
    StoreKind::Fast(variant)
}

/// Counts the benchmarks that are done.
struct Steps<'a> {
    done: f64,
    progress: &'a mut dyn FnMut(f64),
}

impl Steps<'_> {
    fn step<T>(&mut self, result: Result<T, LabError>) -> Result<T, LabError> {
        self.done += 1.0;
        (self.progress)(self.done);
        result
    }
}

impl Results {
    /// Runs all benchmarks.
    ///
    /// # Errors
    /// A volume cannot be made, or a file system failed.
    pub fn measure(scale: &Scale, progress: &mut dyn FnMut(f64)) -> Result<Self, LabError> {
        let steps = &mut Steps { done: 0.0, progress };
        let sprite = Setup::sprite_lfs(Profile::Of1993)?;
        let gap = FastLayout { gap_blocks: Some(1), ..sprite.fast };
        let sun = Setup { store: fast(Variant::M1R2), fast: gap, ..sprite.clone() };
        let bsd = Setup::usenix_95(Profile::Of1993)?;
        let of = |variant| Setup { store: fast(variant), ..bsd.clone() };
        Ok(Self {
            sprite_log: steps.step(Micro::measure(&sprite, scale))?,
            sun: steps.step(Micro::measure(&sun, scale))?,
            bsd_log: steps.step(Micro::measure(&bsd, scale))?,
            m1r2: steps.step(Micro::measure(&of(Variant::M1R2), scale))?,
            m8r2: steps.step(Micro::measure(&of(Variant::M8R2), scale))?,
            half: Bandwidth::measure(512 * KIB, scale, steps)?,
            four: Bandwidth::measure(4096 * KIB, scale, steps)?,
            sizes: sizes(&bsd, scale, steps)?,
            indirect: Indirect::measure(scale, steps)?,
            tpcb_log: steps.step(transactions(&bsd, StoreKind::Log, scale))?,
            tpcb_fast: steps.step(transactions(&bsd, fast(Variant::M8R2), scale))?,
        })
    }

    /// The measurements at a size of file; no numbers, so that no row holds, if there are none.
    pub fn at_kib(&self, kib: u64) -> Sized {
        let nothing = Rates { create: f64::NAN, read: f64::NAN, overwrite: f64::NAN, delete: f64::NAN };
        let none = Sized { file_bytes: kib * KIB, log: nothing, m8r2: nothing, m8r0: nothing };
        self.sizes.iter().find(|sized| sized.file_bytes == kib * KIB).copied().unwrap_or(none)
    }
}

impl Micro {
    fn measure(setup: &Setup, scale: &Scale) -> Result<Self, LabError> {
        let faster = Setup { cpu: setup.cpu.faster(4.0), ..setup.clone() };
        Ok(Self {
            small: small_files::rates(setup, scale.small_files)?,
            faster: small_files::create_rate(&faster, scale.small_files)?,
            large: large_file::run(setup, scale.large_bytes, 1, &mut |_| ())?,
        })
    }
}

impl Bandwidth {
    fn measure(bytes: u64, scale: &Scale, steps: &mut Steps<'_>) -> Result<Self, LabError> {
        let log = Setup::bsd_lfs(Profile::Of1993)?;
        // A rotdelay of 4 ms is three blocks of 4 KB: one block in four is a file's (figure 11).
        let gap = FastLayout { gap_blocks: Some(3), ..log.fast };
        let of = |variant| Setup { store: fast(variant), fast: gap, ..log.clone() };
        let mut point = |setup: &Setup| steps.step(bandwidth::point(setup, bytes, scale.runs));
        Ok(Self { log: point(&log)?, ffs: point(&of(Variant::M1R2))?, efs: point(&of(Variant::Efs))? })
    }
}

fn sizes(bsd: &Setup, scale: &Scale, steps: &mut Steps<'_>) -> Result<Vec<Sized>, LabError> {
    let eight = Setup { log_block_bytes: 8192, ..bsd.clone() };
    let measure = |kib: &u64| {
        let file_bytes = kib * KIB;
        let files = scale.files(file_bytes, 100);
        let mut of = |store| steps.step(by_size::run(&Setup { store, ..eight.clone() }, &files));
        Ok(Sized {
            file_bytes,
            log: of(StoreKind::Log)?,
            m8r2: of(fast(Variant::M8R2))?,
            m8r0: of(fast(Variant::M8R0))?,
        })
    };
    SIZES_KIB.iter().map(measure).collect()
}

impl Indirect {
    /// The baseline of the paper: 63 groups on 1 GB, clusters of 56 KB, no gaps, reallocation.
    fn measure(scale: &Scale, steps: &mut Steps<'_>) -> Result<Self, LabError> {
        let baseline = FastLayout {
            gap_blocks: Some(0),
            group_bytes: Some(16 << 20),
            cluster_blocks: Some(7),
            reallocates: true,
            ..FastLayout::of_blocks(8192)
        };
        let mut of = |kib: u64, fast| {
            let setup = Setup {
                cpu: find_machine("pentium-pro")?,
                disk: find_disk("m2694")?,
                store: StoreKind::Fast(Variant::M8R0),
                fast,
                cache_bytes: 16 << 20,
                size_max_bytes: 1 << 30,
                ..Setup::bsd_lfs(Profile::Of1993)?
            };
            steps.step(by_size::run(&setup, &scale.files(kib * KIB, 25)))
        };
        Ok(Self {
            direct: of(96, baseline)?,
            baseline: of(104, baseline)?,
            no_switch: of(104, FastLayout { no_switch: true, ..baseline })?,
        })
    }
}

impl Scale {
    fn files(&self, file_bytes: u64, per_directory: u64) -> Files {
        let count = (self.data_bytes / file_bytes).clamp(self.least_files, self.most_files);
        Files { file_bytes, count, per_directory }
    }
}

fn transactions(bsd: &Setup, store: StoreKind, scale: &Scale) -> Result<f64, LabError> {
    let setup = Setup { store, fast: FastLayout::of_blocks(4096), ..bsd.clone() };
    tpcb::run(&setup, scale.account_bytes, scale.transactions)
}
