//! The Fast File System as the explorer's subject. It promises less than the log ([`Promise::Ordered`]), and that only once a check has repaired
//! what a crash left. So a look at a raw image is a look at a repaired copy of it.
//!
//! Left out: the exchange of two names, which 4.4BSD did not have. Interrupted, it may leave one of the files in `lost+found`.

use super::firn::OpenVolume;
use super::subject::{Mounted, Promise, Subject};
use super::tree::{Entry, Tree};
use super::{Op, Refusal};
use firnfs::check::repair::LOST_AND_FOUND;
use firnfs::ffs::{MkfsOptions, Options};
use firnfs::vfs::AtimeMode;
use firnfs_device::{Clock, Device, MemDevice, SparseImage};
use firnfs_format::TimeNs;
use firnfs_manage::{check_ffs, format_ffs, open_ffs};
use firnfs_sim::VirtualClock;
use std::sync::{Arc, OnceLock};

/// The start time, in nanoseconds since 1970.
const START_NS: i64 = 1_700_000_000_000_000_000;
/// Bytes copied at a time.
const COPY_BYTES: u64 = 64 << 10;

/// The Fast File System with these parameters.
#[derive(Clone, Debug)]
pub struct Fast {
    /// How volumes are made.
    pub mkfs: MkfsOptions,
    /// Mount options.
    pub options: Options,
}

impl Fast {
    /// A small volume of 4 MiB in three groups, with such low thresholds that delayed writes are frequent.
    #[must_use]
    pub fn small() -> Self {
        let usual = MkfsOptions::with_size(4 << 20);
        let mkfs = MkfsOptions {
            block_bytes: 4096,
            frag_bytes: 512,
            group_bytes: Some(3 << 19),
            bytes_per_inode: 32 << 10,
            hash_key: [17, 42],
            now: TimeNs(START_NS),
            ..usual
        };
        let options = Options { cache_bytes: 1 << 20, write_threshold_bytes: 64 << 10, ..Options::default() };
        Self { mkfs, options }
    }

    fn open(&self, device: Arc<dyn Device>) -> Result<FastVolume, String> {
        let clock = Arc::new(VirtualClock::at(START_NS));
        let shared: Arc<dyn Clock> = clock.clone();
        let volume = open_ffs(device.clone(), self.options, AtimeMode::Noatime, shared);
        Ok(FastVolume(OpenVolume::new(volume.map_err(|e| e.to_string())?, device, clock)))
    }
}

struct FastVolume(OpenVolume<firnfs::ffs::Ffs>);

impl Mounted for FastVolume {
    fn apply(&mut self, op: &Op) -> Result<(), Refusal> {
        self.0.apply(op)
    }

    /// Without what a check put into `lost+found`: files that were being removed.
    fn tree(&mut self) -> Result<Tree, String> {
        let tree = self.0.tree()?;
        let home = String::from_utf8_lossy(LOST_AND_FOUND).into_owned();
        let below = format!("{home}/");
        let has_home = tree.entries().iter().any(|entry| entry.path == home);
        let kept = tree.entries().iter().filter(|e| e.path != home && !e.path.starts_with(&below));
        let entries = kept.map(|entry| {
            let is_parent = has_home && entry.path.is_empty();
            Entry { nlink: entry.nlink - u32::from(is_parent), ..entry.clone() }
        });
        Ok(Tree::new(entries.collect()).with_quotas(tree.quotas().clone()))
    }

    fn enforce_quotas(&mut self) -> Result<(), String> {
        self.0.enforce_quotas()
    }

    fn unmount(self: Box<Self>) -> Result<(), String> {
        Box::new(self.0).unmount()
    }
}

impl Subject for Fast {
    fn format(&self) -> SparseImage {
        let device = MemDevice::new(self.mkfs.size_bytes);
        format_ffs(&device, &self.mkfs).expect("the parameters of the subject make a volume");
        device.image()
    }

    fn promise(&self) -> Promise {
        static STATED: OnceLock<Promise> = OnceLock::new();
        *STATED.get_or_init(|| {
            let device = Arc::new(MemDevice::from_image(self.format()));
            let clock = Arc::new(VirtualClock::at(START_NS));
            let volume = open_ffs(device, self.options, AtimeMode::Noatime, clock);
            Promise::stated_by(&volume.expect("a new volume can be opened"))
        })
    }

    fn mount<'a>(&'a self, device: Arc<dyn Device>) -> Result<Box<dyn Mounted + 'a>, String> {
        Ok(Box::new(self.open(device)?))
    }

    fn look(&self, device: Arc<dyn Device>) -> Result<Tree, String> {
        let copy = MemDevice::new(device.geometry().size_bytes);
        let mut image = copy.image();
        for at in (0..device.geometry().size_bytes).step_by(COPY_BYTES as usize) {
            let mut bytes = vec![0; COPY_BYTES as usize];
            device.read_into(at, &mut bytes).map_err(|e| e.to_string())?;
            if bytes.iter().any(|byte| *byte != 0) {
                image.write(at, &bytes);
            }
        }
        self.open(Arc::new(MemDevice::from_image(image)))?.tree()
    }

    fn check(&self, device: Arc<dyn Device>) -> Result<(), String> {
        let report = check_ffs(&*device).map_err(|e| e.to_string())?;
        let severity = |f: &&firnfs::check::ffs::FfsFinding| f.severity() > firnfs::check::Severity::Note;
        let errors: Vec<String> = report.findings.iter().filter(severity).map(ToString::to_string).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }
}
