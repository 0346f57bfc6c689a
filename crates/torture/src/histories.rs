//! Random histories on a volume against the model: with remounts and crashes after a sync in between, tiny caches that force every
//! kind of fetch, and the accounting recomputed at every remount. [`Kind`] has the differences between the kinds of volumes.
//!
//! The seed of a history determines everything: its operations, the volume, the memory, the times. Callers: the model tests
//! (hundreds of seeds), `firn-torture model` (thousands).

use crate::audit::audit;
use crate::crash::Keeper;
use crate::model::{Model, Seen};
use crate::on_volume::OnVolume;
use crate::ops::{Generator, HANDLES, Mix, Op, Path};
use crate::run::Runner;
use firnfs::FsError;
use firnfs::clean::Medium;
use firnfs::engine::Engine;
use firnfs::ffs::{self, Ffs};
use firnfs::lfs::{Lfs, MkfsOptions, Options};
use firnfs::store::{Scope, Store};
use firnfs::ufs::acl;
use firnfs::vfs::AtimeMode;
use firnfs::vfs::history::{HIDDEN_DIR, HISTORY_DIR};
use firnfs_device::{Device, MemDevice};
use firnfs_format::TimeNs;
use firnfs_format::ffs::Tuning;
use firnfs_manage::{check_ffs, format, format_ffs, open_ffs};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub(crate) const START: TimeNs = TimeNs(1_000_000);
/// Sizes of volumes, in bytes: the small ones run out of clean segments soon.
const VOLUME_BYTES: [u64; 3] = [10 << 20, 13 << 20, 32 << 20];
/// Every n-th history is a long one.
const LONG_EVERY: u64 = 21;
/// Every n-th history has retained points, ...
const POINTS_IN_EVERY: u64 = 4;
/// ... a new one after this many operations, ...
const POINT_EVERY: usize = 41;
/// ... and at most this many at a time.
const POINTS_MAX: usize = 3;
/// After this many operations, time passes without requests.
const IDLE_EVERY: usize = 23;

/// A history before its run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct History {
    /// The seed that determines it.
    pub seed: u64,
    /// Operations.
    pub steps: usize,
    /// Operations between two mounts.
    pub remount_every: usize,
}

/// The differences between the kinds of volumes.
pub trait Kind {
    /// Its store.
    type Store: Engine;
    /// It may be left without an unmount, after a sync.
    const MAY_CRASH: bool;

    /// Makes the volume of a history.
    ///
    /// # Errors
    /// The error as text.
    fn format(history: History, device: &dyn Device) -> Result<(), String>;

    /// Mounts it.
    ///
    /// # Errors
    /// The error as text.
    fn mount(
        history: History,
        device: &Arc<dyn Device>,
        now: TimeNs,
    ) -> Result<OnVolume<Self::Store>, String>;

    /// Recomputes its accounting; returns what is wrong, one line each.
    ///
    /// # Errors
    /// The error as text.
    fn audit(volume: &Volume<Self::Store>) -> Result<Vec<String>, String>;

    /// Makes a retained point, if such a volume can have some and it has room.
    ///
    /// # Errors
    /// The error as text.
    fn make_point(_volume: &Volume<Self::Store>, _name: &str) -> Result<bool, String> {
        Ok(false)
    }

    /// Begins to drop a point.
    ///
    /// # Errors
    /// The error as text.
    fn drop_point(_volume: &Volume<Self::Store>, _name: &str) -> Result<(), String> {
        Ok(())
    }

    /// Adds the work of the present mount.
    ///
    /// # Errors
    /// The error as text.
    fn count(volume: &Volume<Self::Store>, ran: &mut Ran) -> Result<(), String>;
}

/// Log-structured volumes.
pub struct OnLog;

impl Kind for OnLog {
    type Store = Lfs;
    const MAY_CRASH: bool = true;

    fn format(history: History, device: &dyn Device) -> Result<(), String> {
        let options = MkfsOptions {
            size_bytes: history.volume_bytes(),
            block_bytes: 4096,
            segment_bytes: 256 << 10,
            physical_block_bytes: 4096,
            inline_max_bytes: [0, 200, 2048][(history.seed / 3 % 3) as usize],
            label: String::new(),
            uuid: [7; 16],
            hash_key: [history.seed, 2],
            now: START,
            root_owner: (0, 0),
        };
        format(device, &options).map_err(|e| e.to_string())
    }

    fn mount(history: History, device: &Arc<dyn Device>, now: TimeNs) -> Result<OnVolume, String> {
        let seed = history.seed;
        let options = Options {
            cache_bytes: if seed.is_multiple_of(2) { 4 << 20 } else { 64 << 20 },
            write_threshold_bytes: [64 << 10, 1 << 20][(seed / 2 % 2) as usize],
            chunk_blocks: [Options::CHUNK_BLOCKS_LEAST, 512][(seed / 4 % 2) as usize],
            discard: seed.is_multiple_of(5),
            coalesce_age_ms: [None, Some(0)][(seed % 2) as usize],
            medium: Medium::of((seed / 2).is_multiple_of(2)),
            ..Options::default()
        };
        OnVolume::open(device.clone(), options, now).map_err(|e| format!("cannot be mounted: {e}"))
    }

    fn audit(volume: &Volume<Lfs>) -> Result<Vec<String>, String> {
        audit(volume).map_err(|e| e.to_string())
    }

    fn make_point(volume: &Volume<Lfs>, name: &str) -> Result<bool, String> {
        match (Keeper::LOG.make)(volume, name) {
            Ok(()) => Ok(true),
            Err(FsError::NoSpace) => Ok(false),
            Err(e) => Err(format!("point {name}: {e}")),
        }
    }

    fn drop_point(volume: &Volume<Lfs>, name: &str) -> Result<(), String> {
        (Keeper::LOG.drop)(volume, name).map_err(|e| format!("dropping point {name}: {e}"))
    }

    /// The difference of the volume's counters since it was made.
    fn count(volume: &Volume<Lfs>, ran: &mut Ran) -> Result<(), String> {
        let counters = volume.run(|vfs, _| Ok(*vfs.store().counters())).map_err(|e| e.to_string())?;
        ran.coalesced_bytes = ran.coalesced_bytes.max(counters.coalesced_bytes);
        ran.cleaned = ran.cleaned.max(counters.segments_cleaned + counters.segments_cleaned_empty);
        Ok(())
    }
}

/// Volumes of the Fast File System, of all sizes of blocks and fragments and all policies.
pub struct OnFfs;

impl Kind for OnFfs {
    type Store = Ffs;
    const MAY_CRASH: bool = true;

    fn format(history: History, device: &dyn Device) -> Result<(), String> {
        let seed = history.seed;
        let (block_bytes, per_block) =
            [(4096, 8), (8192, 8), (4096, 1), (16384, 4), (4096, 2), (65536, 8)][(seed / 3 % 6) as usize];
        let usual = ffs::MkfsOptions::with_size(history.volume_bytes());
        let tuning = Tuning {
            minfree_percent: [0, 10][(seed % 2) as usize],
            maxcontig: [1, 4, 8][(seed / 2 % 3) as usize],
            max_blocks_per_group: [4, 1024][(seed / 5 % 2) as usize],
            reallocates: seed % 7 == 3,
            no_switch: seed % 5 == 2,
            smart_frag: seed % 4 == 1,
            ..usual.tuning
        };
        let options = ffs::MkfsOptions {
            block_bytes,
            frag_bytes: block_bytes / per_block,
            group_bytes: [None, Some(3 << 20), Some(5 << 20)][(seed / 7 % 3) as usize],
            tuning,
            hash_key: [seed, 2],
            now: START,
            ..usual
        };
        format_ffs(device, &options).map_err(|e| e.to_string())
    }

    fn mount(history: History, device: &Arc<dyn Device>, now: TimeNs) -> Result<OnVolume<Ffs>, String> {
        let seed = history.seed;
        let options = ffs::Options {
            cache_bytes: if seed.is_multiple_of(2) { 1 << 20 } else { 64 << 20 },
            write_threshold_bytes: [64 << 10, 1 << 20][(seed / 2 % 2) as usize],
            ..ffs::Options::default()
        };
        let clock = Arc::new(VirtualClock::at(now.0));
        let volume = open_ffs(device.clone(), options, AtimeMode::Relatime, clock.clone())
            .map_err(|e| format!("cannot be mounted: {e}"))?;
        Ok(OnVolume { volume, clock, is_exempt: false })
    }

    /// The volume was mounted and nothing was written since: the device has it as it was unmounted.
    fn audit(volume: &Volume<Ffs>) -> Result<Vec<String>, String> {
        let device = volume.device().ok_or("a volume has a device")?;
        let report = check_ffs(device).map_err(|e| e.to_string())?;
        Ok(report.findings.iter().map(ToString::to_string).collect())
    }

    fn count(_volume: &Volume<Ffs>, _ran: &mut Ran) -> Result<(), String> {
        Ok(())
    }
}

/// What a history did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ran {
    /// Operations.
    pub steps: u64,
    /// Number of remounts.
    pub remounts: u64,
    /// Bytes that were put in order in idle times.
    pub coalesced_bytes: u64,
    /// Segments that became clean, whether cleaned or found empty.
    pub cleaned: u64,
    /// Points that were read back after a remount.
    pub points_read: u64,
}

impl Ran {
    /// Adds another history.
    pub fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.remounts += other.remounts;
        self.coalesced_bytes += other.coalesced_bytes;
        self.cleaned += other.cleaned;
        self.points_read += other.points_read;
    }
}

pub(crate) fn time(step: usize) -> TimeNs {
    TimeNs(START.0 + (step as i64 / 2) * 1_000 + (step as i64 / 37) * 90_000_000_000_000)
}

impl History {
    /// The history of a seed: short with many remounts, or now and then long.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let (steps, remount_every) =
            if seed % LONG_EVERY == LONG_EVERY - 1 { (4_000, 500) } else { (400, 60) };
        Self { seed, steps, remount_every }
    }

    /// Runs it on a volume of that kind.
    ///
    /// # Errors
    /// The answer of the file system and the right answer; a panic of the file system counts, too.
    pub fn run<K: Kind>(self) -> Result<Ran, String> {
        catch_unwind(AssertUnwindSafe(|| Run::<K>::new(self)?.finish())).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
            Err(format!("panic: {}", text.unwrap_or_default()))
        })
    }

    /// Whether points are made and dropped.
    fn has_points(self) -> bool {
        self.seed % POINTS_IN_EVERY == 1
    }

    /// Size of its volume, in bytes.
    #[must_use]
    pub fn volume_bytes(self) -> u64 {
        VOLUME_BYTES[(self.seed % 3) as usize]
    }
}

/// A history under way.
struct Run<K: Kind> {
    history: History,
    device: Arc<dyn Device>,
    model: Model,
    runner: Runner<OnVolume<K::Store>>,
    generator: Generator,
    /// Retained points, oldest first, with the model's tree of then.
    points: Vec<(String, BTreeMap<Path, Seen>)>,
    ran: Ran,
}

impl<K: Kind> Run<K> {
    fn new(history: History) -> Result<Self, String> {
        let device: Arc<dyn Device> = Arc::new(MemDevice::new(history.volume_bytes()));
        K::format(history, &*device)?;
        let mut model = Model::new(START);
        model.may_be_full = true;
        model.may_lose_atime = true;
        let target = K::mount(history, &device, START)?;
        model.file_max_bytes =
            target.volume.run(|vfs, _| Ok(vfs.store().facts().file_max_bytes)).map_err(|e| e.to_string())?;
        let generator = Generator::new(history.seed, Mix::default());
        Ok(Self {
            history,
            device,
            model,
            runner: Runner::new(target),
            generator,
            points: Vec::new(),
            ran: Ran::default(),
        })
    }

    fn finish(mut self) -> Result<Ran, String> {
        for step in 0..self.history.steps {
            self.step(step).map_err(|why| format!("operation {step}: {why}"))?;
        }
        self.compare_trees()?;
        K::count(&self.runner.target.volume, &mut self.ran)?;
        self.ran.steps = self.history.steps as u64;
        Ok(self.ran)
    }

    fn step(&mut self, step: usize) -> Result<(), String> {
        let now = time(step);
        self.runner.target.clock.set_ns(now.0);
        if step % self.history.remount_every == self.history.remount_every - 1 {
            self.remount(step)?;
        }
        if step % IDLE_EVERY == IDLE_EVERY - 1 {
            self.idle()?;
            self.runner.target.clock.set_ns(now.0);
        }
        if self.history.has_points() && step % POINT_EVERY == POINT_EVERY - 1 {
            self.turn_point(step)?;
        }
        let op = self.generator.next_op(&self.model);
        self.apply(now, &op)
    }

    fn apply(&mut self, now: TimeNs, op: &Op) -> Result<(), String> {
        let reply = self.runner.apply(now, op);
        self.model
            .judge(now, op, &reply)
            .map_err(|right| format!("{op:?}: answered {reply:?}, right is {right}"))
    }

    /// Makes a point, after the oldest of enough was dropped.
    fn turn_point(&mut self, step: usize) -> Result<(), String> {
        let volume = &self.runner.target.volume;
        if self.points.len() == POINTS_MAX {
            K::drop_point(volume, &self.points.remove(0).0)?;
        }
        let name = format!("p{step}");
        if K::make_point(volume, &name)? {
            self.points.push((name, self.model.seen()));
        }
        Ok(())
    }

    /// Every point shows what the model had when it was made. Permissions may be narrower today.
    fn compare_points(&mut self, step: usize) -> Result<(), String> {
        let comparable = |seen: Seen| {
            let mut stat = seen.stat;
            (stat.mode, stat.atime) = (0, TimeNs(0));
            let xattrs = seen.xattrs.into_iter().filter(|(name, _)| name != acl::ACCESS);
            Seen { stat, identity: 0, xattrs: xattrs.collect(), ..seen }
        };
        for (name, expected) in &self.points {
            let root = [HIDDEN_DIR, HISTORY_DIR, name.as_bytes()].map(<[u8]>::to_vec);
            let found = self.runner.seen_below(time(step), &root);
            let mut found = found.map_err(|e| format!("the tree of point {name}: {e}"))?;
            for (path, then) in expected {
                let now = found.remove(path).map(comparable);
                if now.as_ref() != Some(&comparable(then.clone())) {
                    return Err(format!("point {name} differs at {path:?}: {now:?}"));
                }
            }
            if let Some((path, _)) = found.first_key_value() {
                return Err(format!("point {name} has {path:?} besides"));
            }
            self.ran.points_read += 1;
        }
        Ok(())
    }

    /// Closes the volume, or leaves it as a crash after a sync does; mounts it again, and recomputes its accounting.
    fn remount(&mut self, step: usize) -> Result<(), String> {
        let is_clean = !K::MAY_CRASH || (step / self.history.remount_every).is_multiple_of(2);
        for slot in 0..HANDLES {
            self.apply(time(step), &Op::Close { slot })?;
        }
        K::count(&self.runner.target.volume, &mut self.ran)?;
        let volume = &self.runner.target.volume;
        let left = if is_clean { volume.close() } else { volume.sync(Scope::All) };
        left.map_err(|e| format!("left {}: {e}", if is_clean { "cleanly" } else { "after a sync" }))?;
        self.runner.target = K::mount(self.history, &self.device, time(step))?;
        self.ran.remounts += 1;
        let wrong = K::audit(&self.runner.target.volume)?;
        if wrong.is_empty() {
            return self.compare_points(step);
        }
        Err(format!("the accounts are wrong after a remount, clean {is_clean}: {wrong:#?}"))
    }

    /// Lets time pass for the commit interval, for idle time, and for the work done then.
    fn idle(&self) -> Result<(), String> {
        for _ in 0..12 {
            self.runner.target.clock.advance_ms(1000);
            self.runner.target.volume.background().map_err(|e| format!("background work: {e}"))?;
        }
        Ok(())
    }

    fn compare_trees(&mut self) -> Result<(), String> {
        let mut expected = self.model.seen();
        let mut found = self.runner.seen(time(self.history.steps)).map_err(|e| format!("the tree: {e}"))?;
        same_identities(&mut expected, &mut found)?;
        expected.values_mut().chain(found.values_mut()).for_each(|seen| seen.stat.atime = TimeNs(0));
        let paths = expected.keys().chain(found.keys());
        let differ: Vec<_> = paths.filter(|path| expected.get(*path) != found.get(*path)).collect();
        if differ.is_empty() { Ok(()) } else { Err(format!("the trees differ at {differ:?}")) }
    }
}

/// Checks that inode numbers of the volume and identities of the model correspond one to one; then replaces the numbers by the
/// model's identities.
fn same_identities(
    expected: &mut BTreeMap<Path, Seen>,
    found: &mut BTreeMap<Path, Seen>,
) -> Result<(), String> {
    let mut there = BTreeMap::new();
    for (path, seen) in found {
        let Some(model) = expected.get(path) else { continue };
        if *there.entry(seen.identity).or_insert(model.identity) != model.identity {
            return Err(format!("{path:?} shares its inode with a file of another identity"));
        }
        seen.identity = model.identity;
    }
    Ok(())
}
