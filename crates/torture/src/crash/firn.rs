//! firnfs as the explorer's subject: the log-structured store under the real driver, in virtual time, on one thread.
//!
//! `operations` carries operations out, `nameless` holds files without names, `points` makes and drops retained points and
//! compares what they show, `sending` sends and receives them, `automatic` sees those that the volume makes by itself, `quotas` what a mount says about quotas, `readers` read slowly, `damage` flips bits for repairs.

use crate::listing::children;
use firnfs_manage::LogVolume;
mod automatic;
mod damage;
mod nameless;
mod operations;
mod points;
mod quotas;
mod readers;
mod sending;

use super::contents::{Plan, Shared};
use super::op::Op;
use super::subject::{Found, Made, Mounted, Promise, Refusal, Replica, Subject};
use super::tree::{Entry, NodeKind, Tree};
use super::world::{FILE_MODE, acl_name, rdev_bytes};
use firnfs::FsError;
use firnfs::check::{Finding, From, Problem, Report, Severity};
use firnfs::clean::Medium;
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, MkfsOptions, Options, ShrinkPhase};
use firnfs::store::Store;
use firnfs::vfs::{AtimeMode, Attr, Caller, Vfs};
use firnfs_device::{AlignedBuf, Clock, Device, DeviceError, MemDevice, SparseImage};
use firnfs_format::summary::{FLAG_CLEANER, Summary};
use firnfs_format::superblock::{
    CHECKPOINT_SLOT_BYTES, CHECKPOINT_SLOTS_AT, LOG_START_BYTES, SUPERBLOCK_BYTES, Superblock,
};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_manage::check;
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
pub(crate) use points::Keeper;
use readers::SlowRead;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The start time, in nanoseconds since 1970.
const START_NS: i64 = 1_700_000_000_000_000_000;
/// How long an operation takes, in nanoseconds.
const OP_NS: i64 = 1_000_000;
/// Larger than any file of a scenario, in bytes: a damaged size must not exhaust memory.
const SIZE_MAX_BYTES: u64 = 64 << 20;
/// How much a volume grows at a time, in bytes.
const GROWTH_BYTES: u64 = 2 << 20;
/// Bytes that one request overwrites of what a volume has left, and the distance from one request to the next: a segment. More of
/// them would multiply the states, and find nothing else.
const GARBAGE_BYTES: u64 = 64 << 10;
const GARBAGE_EVERY_BYTES: usize = 256 << 10;
/// How much a volume loses at a time, in bytes.
const SHRINKAGE_BYTES: u64 = 3 << 20;
/// Steps of a shrink that are done at a time, by turns: few, so that operations come in between, or all of them.
const SHRINK_STEPS: [u32; 3] = [2, 8, 64];
/// Size of a volume with hardly more segments than the reserve, in bytes.
const TINY_BYTES: u64 = (9 << 20) + (256 << 10);
/// Small files are stored close together, and a disk in memory has no head to move.
const READ_AHEAD_BYTES: u32 = 32 << 10;
const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0 };

/// firnfs with these parameters.
#[derive(Clone, Debug)]
pub struct Firn {
    /// How volumes are made.
    pub mkfs: MkfsOptions,
    /// With this many data logs; `None`: the number that suits the size.
    pub data_logs: Option<u8>,
    /// Mount options.
    pub options: Options,
    /// Size of the device, in bytes: the volume's, or more if it is to grow.
    pub device_bytes: u64,
    /// What is done besides when the volume is idle.
    pub when_idle: WhenIdle,
}

/// Work of an administrator on a volume in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenIdle {
    /// None.
    Nothing,
    /// It is trimmed.
    Trim,
    /// It grows by some segments, until it is as large as its device.
    Grow,
    /// It shrinks, a few steps at a time, and what it leaves is overwritten; it grows again when it cannot become smaller.
    Shrink,
}

impl Firn {
    /// A small volume (16 MiB, segments of 256 KiB) with such low thresholds that commits, checkpoints and segment changes
    /// are frequent.
    #[must_use]
    pub fn small() -> Self {
        let mkfs = MkfsOptions {
            size_bytes: 16 << 20,
            block_bytes: 4096,
            segment_bytes: 256 << 10,
            physical_block_bytes: super::runner::PHYSICAL_BLOCK_BYTES,
            inline_max_bytes: 1024,
            label: "explorer".to_owned(),
            uuid: *b"firnfs explorer!",
            hash_key: [17, 42],
            now: TimeNs(START_NS),
            root_owner: (0, 0),
        };
        let options = Options {
            cache_bytes: 4 << 20,
            write_threshold_bytes: 256 << 10,
            checkpoint_bytes: 512 << 10,
            discard: true,
            // Whenever it is idle.
            coalesce_age_ms: Some(0),
            // Others are rows of the file of points.
            slot_points: 2,
            ..Options::default()
        };
        let device_bytes = mkfs.size_bytes;
        Self { mkfs, data_logs: None, options, device_bytes, when_idle: WhenIdle::Nothing }
    }

    /// [`Firn::small`] with as many logs as large volumes have, and data sorted into them. A commit goes to all of the
    /// logs.
    #[must_use]
    pub fn sorting() -> Self {
        Self { data_logs: Some(5), ..Self::small() }
    }

    /// [`Firn::small`] without its own discards, but trimmed again and again.
    #[must_use]
    pub fn trimming() -> Self {
        let small = Self::small();
        Self { options: Options { discard: false, ..small.options }, when_idle: WhenIdle::Trim, ..small }
    }

    /// [`Firn::small`] on a device that is larger than the volume, which grows into it again and again. Checkpoints are so rare that
    /// the log comes past the new segments before the first one that knows of them.
    #[must_use]
    pub fn growing() -> Self {
        let small = Self::small();
        let options = Options { checkpoint_bytes: 4 << 20, ..small.options };
        Self { options, device_bytes: 32 << 20, when_idle: WhenIdle::Grow, ..small }
    }

    /// [`Firn::small`], made smaller and larger again and again.
    #[must_use]
    pub fn shrinking() -> Self {
        Self { when_idle: WhenIdle::Shrink, ..Self::small() }
    }

    /// The same parameters for another volume; `None` if they do not differ.
    #[must_use]
    pub fn as_made(&self, made: Made) -> Option<Self> {
        let mut firn = self.clone();
        match made {
            Made::Small => return None,
            Made::Tiny => {
                // Each log beyond the usual two takes the segment that it is in, and the next one.
                let more_logs = u64::from(self.data_logs.unwrap_or(2).saturating_sub(2));
                firn.device_bytes -= firn.mkfs.size_bytes;
                firn.mkfs.size_bytes = TINY_BYTES + 2 * more_logs * u64::from(firn.mkfs.segment_bytes);
                firn.device_bytes += firn.mkfs.size_bytes;
                // It is cleaned again and again, and its victims are read in part.
                firn.options.medium = Medium::HEADLESS;
                // A pass takes many steps.
                firn.options.commit_step_items = 8;
            }
            // Operations find batches half laid out.
            Made::ShortSteps => {
                firn.options.commit_step_items = 2;
                firn.options.chunk_blocks = Options::CHUNK_BLOCKS_LEAST;
            }
            Made::CommitsLate => firn.options.write_threshold_bytes = 1 << 20,
        }
        Some(firn)
    }

    /// The counters since mkfs of the volume on an image: (name, count).
    ///
    /// # Errors
    /// Why it does not mount, as text.
    pub fn counters(&self, image: SparseImage) -> Result<Vec<(&'static str, u64)>, String> {
        let device = Arc::new(MemDevice::from_image(image));
        let open = self.open(device, Options { read_only: true, ..self.options })?;
        Ok(open.volume.into_vfs().store().counters().list())
    }

    /// A read-only mount in which a check found nothing.
    fn checked(&self, device: Arc<dyn Device>) -> Result<OpenVolume<Lfs>, String> {
        let open = self.open(device, Options { read_only: true, ..self.options })?;
        let report = open.volume.check().map_err(|e| e.to_string())?;
        is_clean(&report).map_err(|why| format!("the check finds: {why}"))?;
        Ok(open)
    }

    fn open(&self, device: Arc<dyn Device>, options: Options) -> Result<OpenVolume<Lfs>, String> {
        let clock = Arc::new(VirtualClock::at(START_NS));
        let shared: Arc<dyn Clock> = clock.clone();
        let volume = firnfs_manage::open(device.clone(), options, AtimeMode::Noatime, shared);
        let mut open = OpenVolume::new(volume.map_err(|e| e.to_string())?, device, clock);
        open.keeper = Keeper::LOG;
        open.is_resized = matches!(self.when_idle, WhenIdle::Grow | WhenIdle::Shrink);
        open.when_idle = match self.when_idle {
            WhenIdle::Nothing => None,
            WhenIdle::Trim => Some(trim as IdleWork<Lfs>),
            WhenIdle::Grow => Some(grow as IdleWork<Lfs>),
            WhenIdle::Shrink => Some(shrink as IdleWork<Lfs>),
        };
        open.volume.limit_read_ahead(READ_AHEAD_BYTES);
        open.takes_nothing_for_damage(options.read_only)?;
        Ok(open)
    }
}

/// Checkpoints that are due later make the new segments clean: operations come in between.
fn grow(volume: &Volume<Lfs>) -> Result<(), FsError> {
    let device_bytes = volume.device().map_or(0, |device| device.geometry().size_bytes);
    let (is_growing, (size_bytes, _)) =
        volume.run(|vfs, _| Ok((vfs.store().is_growing(), vfs.store().size())))?;
    let larger_bytes = size_bytes + GROWTH_BYTES;
    if is_growing || larger_bytes > device_bytes {
        return Ok(());
    }
    volume.begin_growing(larger_bytes)
}

/// Goes on with a shrink that has begun, or begins one; a volume that cannot become smaller grows to the size of its device.
fn shrink(volume: &Volume<Lfs>) -> Result<(), FsError> {
    let state = |vfs: &mut Vfs<Lfs>, _| {
        let store = vfs.store();
        let steps = SHRINK_STEPS[store.counters().checkpoints as usize % SHRINK_STEPS.len()];
        Ok((store.size().0, store.is_shrinking(), store.is_growing(), store.has_larger_superblock(), steps))
    };
    let (size_bytes, is_shrinking, is_growing, has_left, steps) = volume.run(state)?;
    if is_growing {
        return Ok(());
    }
    if has_left {
        // A crash came before the superblock was written.
        return leave_end(volume);
    }
    let device_bytes = volume.device().map_or(0, |device| device.geometry().size_bytes);
    if !is_shrinking {
        let smaller_bytes = size_bytes.saturating_sub(SHRINKAGE_BYTES);
        match volume.run(|vfs, _| vfs.store_mut().begin_shrinking(smaller_bytes)) {
            Ok(_) => {}
            Err(FsError::NoSpace) if size_bytes < device_bytes => return volume.begin_growing(device_bytes),
            Err(FsError::NoSpace) => return Ok(()),
            Err(e) => return Err(e),
        }
    }
    for _ in 0..steps {
        match volume.shrink_part() {
            Ok(shrunk) if shrunk.phase == ShrinkPhase::Left => return leave_end(volume),
            Ok(_) => {}
            // It gave up.
            Err(FsError::NoSpace) => {
                volume.run(|vfs, _| Ok(vfs.store_mut().stop_shrinking()))?;
                return Ok(());
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The device keeps its size, and somebody else uses what the volume has left.
fn leave_end(volume: &Volume<Lfs>) -> Result<(), FsError> {
    let failed = |e: DeviceError| FsError::Io(e.to_string());
    volume.leave_end()?;
    let (size_bytes, _) = volume.run(|vfs, _| Ok(vfs.store().size()))?;
    let Some(device) = volume.device() else { return Ok(()) };
    let end_bytes = device.geometry().size_bytes;
    for at_bytes in (size_bytes.next_multiple_of(GARBAGE_BYTES)..end_bytes).step_by(GARBAGE_EVERY_BYTES) {
        let len_bytes = GARBAGE_BYTES.min(end_bytes - at_bytes) as usize;
        device.write(at_bytes, Arc::new(AlignedBuf::copy_of(&vec![0xa5; len_bytes]))).map_err(failed)?;
    }
    Ok(())
}

fn trim(volume: &Volume<Lfs>) -> Result<(), FsError> {
    let mut part = Some(0);
    while let Some(from) = part {
        part = volume.trim(from)?.next;
    }
    Ok(())
}

impl Subject for Firn {
    fn format(&self) -> SparseImage {
        let device = MemDevice::new(self.device_bytes);
        firnfs_manage::format_with_logs(&device, &self.mkfs, self.data_logs)
            .expect("the parameters of the subject make a volume");
        device.image()
    }

    fn promise(&self) -> Promise {
        static STATED: OnceLock<Promise> = OnceLock::new();
        *STATED.get_or_init(|| {
            let device = Arc::new(MemDevice::from_image(self.format()));
            let clock = Arc::new(VirtualClock::at(START_NS));
            let volume = firnfs_manage::open(device, self.options, AtimeMode::Noatime, clock);
            Promise::stated_by(&volume.expect("a new volume can be opened"))
        })
    }

    fn mount<'a>(&'a self, device: Arc<dyn Device>) -> Result<Box<dyn Mounted + 'a>, String> {
        Ok(Box::new(self.open(device, self.options)?))
    }

    fn made(&self, made: Made) -> Option<Box<dyn Subject + '_>> {
        Some(Box::new(self.as_made(made)?))
    }

    fn is_cleaning(&self, bytes: &[u8]) -> bool {
        Summary::decode_header(bytes).is_ok_and(|summary| summary.flags & FLAG_CLEANER != 0)
    }

    fn log(&self) -> Range<u64> {
        let end = Superblock::places(self.device_bytes).into_iter().filter(|at| *at >= LOG_START_BYTES).min();
        LOG_START_BYTES..end.unwrap_or(self.device_bytes)
    }

    fn replicated(&self) -> Vec<Replica> {
        let slots = CHECKPOINT_SLOTS_AT
            .map(|at| Replica { range: at..at + u64::from(CHECKPOINT_SLOT_BYTES), is_told: false });
        // The last copy moves with the volume's end.
        let moves = matches!(self.when_idle, WhenIdle::Grow | WhenIdle::Shrink);
        let count = if moves { 2 } else { 3 };
        let superblocks = Superblock::places(self.mkfs.size_bytes);
        let superblocks = superblocks
            .into_iter()
            .take(count)
            .map(|at| Replica { range: at..at + SUPERBLOCK_BYTES as u64, is_told: true });
        slots.into_iter().chain(superblocks).collect()
    }

    fn look(&self, device: Arc<dyn Device>) -> Result<Tree, String> {
        self.open(device, Options { read_only: true, ..self.options })?.tree()
    }

    fn look_sharing(&self, device: Arc<dyn Device>, shared: &Shared<'_>) -> Result<Tree, String> {
        self.open(device, Options { read_only: true, ..self.options })?.walk(Some(shared))
    }

    fn check(&self, device: Arc<dyn Device>) -> Result<(), String> {
        let report = check(&*device, From::Newest, &mut |_| {}).map_err(|e| e.to_string())?;
        is_clean(&report)
    }

    /// The check runs on the volume as the read-only mount recovered it: the work that both begin with is done once.
    fn inspect(&self, device: Arc<dyn Device>) -> Result<Tree, String> {
        self.checked(device)?.walk(None)
    }

    fn inspect_sharing(&self, device: Arc<dyn Device>, shared: &Shared<'_>) -> Result<Tree, String> {
        self.checked(device)?.walk(Some(shared))
    }

    fn tells_rot(&self, device: Arc<dyn Device>, place: usize) -> Result<bool, String> {
        let start = self.replicated()[place].range.start;
        let report = check(&*device, From::Newest, &mut |_| {}).map_err(|e| e.to_string())?;
        let tells = |finding: &Finding| matches!(finding.problem, Problem::SuperblockCopy { at_bytes, .. } if at_bytes == start);
        Ok(report.findings.iter().any(tells))
    }

    fn damage(&self, image: &mut SparseImage, seed: u64) -> Result<String, String> {
        damage::damage(self, image, seed)
    }

    fn receive(&self, streams: &[(String, Vec<u8>)]) -> Result<Option<Tree>, String> {
        self.replica_of(streams).map(Some)
    }

    fn repair(&self, device: Arc<dyn Device>) -> Result<(), String> {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::at(START_NS));
        firnfs_manage::repair(&device, &clock, &mut |_| true, &mut |_| {})
            .map(drop)
            .map_err(|e| e.to_string())
    }
}

/// Requires that the file system check finds nothing that a crash does not explain. A damaged copy of the superblock is
/// the explorer's own damage (see [`Subject::replicated`]).
fn is_clean(report: &Report) -> Result<(), String> {
    let errors = report.findings.iter().filter(|finding| finding.severity() == Severity::Error);
    let errors: Vec<String> = errors.map(ToString::to_string).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
}

/// Work on an idle volume beside the background's.
type IdleWork<S> = fn(&Volume<S>) -> Result<(), FsError>;

/// A volume of any kind that operations are carried out on.
pub(super) struct OpenVolume<S: Engine> {
    keeper: Keeper<S>,
    volume: Volume<S>,
    device: Arc<dyn Device>,
    clock: Arc<VirtualClock>,
    when_idle: Option<IdleWork<S>>,
    /// Its size changes. The header of a stream has the size, so streams change, too.
    is_resized: bool,
    /// Open files that have lost a name; with their content once they have no name left and were used.
    nameless: Vec<(InodeNo, Option<Vec<u8>>)>,
    /// Open files that never had a name, the oldest first.
    unnamed: VecDeque<InodeNo>,
    /// Slow reads under way.
    reads: Vec<SlowRead>,
}

impl<S: Engine> Mounted for OpenVolume<S> {
    fn apply(&mut self, op: &Op) -> Result<(), Refusal> {
        self.clock.advance_ns(OP_NS);
        self.carry_out(op).map_err(|e| match e {
            FsError::NoSpace | FsError::OverQuota => Refusal::NoSpace,
            FsError::NotFound
            | FsError::Exists
            | FsError::NotDirectory
            | FsError::IsDirectory
            | FsError::NotEmpty
            | FsError::Invalid(_)
            | FsError::NoAttribute
            | FsError::Access
            | FsError::Unsupported(_)
            | FsError::NotPermitted(_) => Refusal::Invalid(e.to_string()),
            other => Refusal::Broken(other.to_string()),
        })
    }

    fn tree(&mut self) -> Result<Tree, String> {
        self.walk(None)
    }

    fn tree_sharing(&mut self, shared: &Shared<'_>) -> Result<Tree, String> {
        self.walk(Some(shared))
    }

    fn look_for_automatic(&mut self, known: &BTreeSet<u32>) -> Result<Found, String> {
        OpenVolume::look_for_automatic(self, known)
    }

    fn enforce_quotas(&mut self) -> Result<(), String> {
        OpenVolume::enforce_quotas(self)
    }

    fn settle_points(&mut self, all: bool) -> Result<(), String> {
        (self.keeper.settle)(&self.volume, all)
    }

    fn points_by_age(&mut self) -> Result<Vec<String>, String> {
        self.names_by_age()
    }

    fn send(&mut self, from: Option<&str>, to: &str, skip_bytes: u64) -> Result<Vec<u8>, String> {
        self.stream(from, to, skip_bytes)
    }

    fn unmount(mut self: Box<Self>) -> Result<(), String> {
        self.finish_reads().map_err(|e| e.to_string())?;
        self.volume.close().map_err(|e| e.to_string())
    }
}

impl OpenVolume<Lfs> {
    /// Requires that the crash is not taken for damage: the log is never called damaged, nothing is quarantined, and a
    /// writable volume stays writable.
    fn takes_nothing_for_damage(&self, asked_read_only: bool) -> Result<(), String> {
        // A walk comes first: see there.
        let _promise = self.volume.promise_background();
        let told = self.volume.run(|vfs, _| {
            let store = vfs.store();
            let aside = store.quarantined().map(|(thing, why)| format!("{thing} was quarantined: {why}"));
            let read_only = store.read_only().filter(|_| !asked_read_only).map(str::to_owned);
            Ok((store.recovered().lost, read_only, aside.collect::<Vec<_>>()))
        });
        match told.map_err(|e| e.to_string())? {
            (None, None, aside) if aside.is_empty() => Ok(()),
            wrong => Err(format!("taken for damage after a crash: {wrong:?}")),
        }
    }
}

impl<S: Engine> OpenVolume<S> {
    /// An open volume that nothing was done to.
    pub(super) fn new(volume: Volume<S>, device: Arc<dyn Device>, clock: Arc<VirtualClock>) -> Self {
        Self {
            keeper: Keeper::NONE,
            volume,
            device,
            clock,
            when_idle: None,
            is_resized: false,
            nameless: Vec::new(),
            unnamed: VecDeque::new(),
            reads: Vec::new(),
        }
    }

    /// Everything that is visible, with every byte; contents that are known to be the same come from `shared`.
    fn walk(&self, shared: Option<&Shared<'_>>) -> Result<Tree, String> {
        // Nothing that is due comes between, such as a drop of automatic points.
        let _promise = self.volume.promise_background();
        let mut entries = self.entries_below(InodeNo::ROOT, shared)?;
        let (quotas, points) = (self.quotas(&entries)?, self.points(shared)?);
        let (clones, mut of_clones) = self.clones(shared)?;
        entries.append(&mut of_clones);
        let tree = Tree::new(entries).with_quotas(quotas).with_points(points).with_clones(clones);
        Ok(tree.with_automatic(self.automatic_points(shared)?, (self.keeper.retention)(&self.volume)?))
    }

    fn entries_below(&self, root: InodeNo, shared: Option<&Shared<'_>>) -> Result<Vec<Entry>, String> {
        let root = self.attr(root).map_err(|e| format!("root: {e}"))?;
        let mut pending = vec![(String::new(), root)];
        let mut entries = Vec::new();
        while let Some((path, attr)) = pending.pop() {
            let place = |e: FsError| format!("{path:?}: {e}");
            if attr.kind == Kind::Directory {
                for (name, ino) in children(&self.volume, attr.ino).map_err(place)? {
                    let name = String::from_utf8_lossy(&name).into_owned();
                    let path = if path.is_empty() { name } else { format!("{path}/{name}") };
                    let child = self.attr(ino).map_err(|e| format!("{path:?}: {e}"))?;
                    pending.push((path, child));
                }
            }
            entries.push(self.entry(path.clone(), &attr, shared).map_err(place)?);
        }
        Ok(entries)
    }

    fn entry(&self, path: String, attr: &Attr, shared: Option<&Shared<'_>>) -> Result<Entry, FsError> {
        let (kind, content) = match attr.kind {
            Kind::Directory => (NodeKind::Directory, Vec::new()),
            Kind::Symlink => (NodeKind::Symlink, self.volume.run(|vfs, now| vfs.readlink(now, attr.ino))?),
            Kind::Fifo => (NodeKind::Fifo, Vec::new()),
            Kind::Socket => (NodeKind::Socket, Vec::new()),
            Kind::CharDevice => (NodeKind::CharDevice, rdev_bytes(attr.rdev)),
            Kind::BlockDevice => (NodeKind::BlockDevice, rdev_bytes(attr.rdev)),
            Kind::Regular if attr.size_bytes > SIZE_MAX_BYTES => {
                return Err(FsError::Invalid("a size that no scenario makes"));
            }
            Kind::Regular => (NodeKind::File, Vec::new()),
        };
        let content = match (kind, shared) {
            (NodeKind::File, Some(shared)) => self.content_sharing(attr, shared)?,
            (NodeKind::File, None) => Arc::new(self.content(attr.ino)?),
            _ => Arc::new(content),
        };
        let (ino, nlink, mode, owner) = (attr.ino.0, attr.nlink, attr.mode, (attr.uid, attr.gid));
        Ok(Entry { path, kind, ino, nlink, mode, owner, content, xattrs: self.xattrs(attr.ino)? })
    }

    /// The content of a file: read, unless it is known.
    fn content_sharing(&self, attr: &Attr, shared: &Shared<'_>) -> Result<Arc<Vec<u8>>, FsError> {
        let plan = self.plan(attr)?;
        if let Some(known) = plan.as_ref().and_then(|plan| shared.find(plan)) {
            return Ok(known);
        }
        let content = Arc::new(self.content(attr.ino)?);
        // It belongs to the plan only if it was read by that one.
        if let Some(plan) = plan
            && self.plan(attr)?.as_ref() == Some(&plan)
        {
            shared.note(plan, content.clone());
        }
        Ok(content)
    }

    /// How a file would be read now; `None` if some of it is not on the device, or one plan does not cover it.
    fn plan(&self, attr: &Attr) -> Result<Option<Plan>, FsError> {
        let plan = self.volume.run(|vfs, now| {
            let plan = vfs.read(now, attr.ino, 0, attr.size_bytes)?;
            if plan.pin != 0 {
                vfs.store_mut().unpin(plan.pin);
            }
            Ok(plan)
        })?;
        Ok(Plan::of(&plan).filter(|_| plan.len_bytes() as u64 == attr.size_bytes))
    }

    /// User attributes without their prefix, and ACLs.
    fn xattrs(&self, ino: InodeNo) -> Result<BTreeMap<String, Vec<u8>>, FsError> {
        let names = self.volume.run(|vfs, _| vfs.listxattr(ino))?;
        let known = |name: &[u8]| {
            let name = String::from_utf8_lossy(name).into_owned();
            let is_acl = name == acl_name(false) || name == acl_name(true);
            name.strip_prefix("user.").map(str::to_owned).or(is_acl.then_some(name))
        };
        let names = names.split(|byte| *byte == 0).filter_map(|name| Some((known(name)?, name)));
        let get = |(known, name): (String, &[u8])| Ok((known, self.xattr(ino, name)?));
        names.map(get).collect()
    }
}
