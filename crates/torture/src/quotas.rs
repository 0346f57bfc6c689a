//! Random histories with quotas on, over every kind of volume.
//!
//! After every operation the usage that is kept is compared with a walk of all names and open files. Limits are low enough to be met all
//! the time, and a model of grace times runs along. An operation that succeeds must be within the limits of all who got more by it. One that
//! is refused is done again by a caller whom limits do not bind: then somebody must be beyond a limit, or past its grace time. Nothing else
//! may have changed, which the model of the file system sees to.
//!
//! Volumes are left cleanly or as after a crash, and mounted again: then the usage has been counted anew.

use crate::histories::{History, Kind, Ran, START, time};
use crate::model::Model;
use crate::on_volume::OnVolume;
use crate::ops::{Generator, HANDLES, Mix, Op, Rng};
use crate::run::{Reply, Runner, Target};
use firnfs::engine::Engine;
use firnfs::mem::{MemOptions, MemStore};
use firnfs::store::{Scope, Store};
use firnfs::ufs::quota::{Class, Usage};
use firnfs::vfs::{AtimeMode, LimitChange, QuotaReport, Vfs};
use firnfs_device::Device;
use firnfs_format::{InodeNo, TimeNs};
use firnfs_sim::VirtualClock;
use firnfs_volume::Volume;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Grace times, in seconds: some of the days that pass between two stretches of a history.
const GRACE_S: u32 = 24 * 60 * 60;
/// Users and groups with limits: those that files are made for or given to.
const LIMITED: [(Class, u32); 7] = [
    (Class::User, 1000),
    (Class::User, 1),
    (Class::User, 2),
    (Class::Group, 100),
    (Class::Group, 0),
    (Class::Group, 1),
    (Class::Group, 2),
];
/// Limits change after so many operations.
const LIMITS_EVERY: usize = 150;
/// Everything is written after so many operations.
const SYNC_EVERY: usize = 5;

type Id = (Class, u32);

/// Volumes in memory: they cannot be mounted again.
pub struct InMemory;

impl Kind for InMemory {
    type Store = MemStore;
    const MAY_CRASH: bool = false;

    fn format(_history: History, _device: &dyn Device) -> Result<(), String> {
        Ok(())
    }

    fn mount(history: History, _device: &Arc<dyn Device>, now: TimeNs) -> Result<OnVolume<MemStore>, String> {
        let options = MemOptions {
            block_bytes: [512, 4096][(history.seed % 2) as usize],
            inline_max_bytes: [0, 200, 512][(history.seed % 3) as usize],
            ..MemOptions::with_capacity(history.volume_bytes())
        };
        let clock = Arc::new(VirtualClock::at(now.0));
        let vfs = Vfs::new(MemStore::new(options, now), AtimeMode::Relatime);
        Ok(OnVolume { volume: Volume::new(vfs, None, clock.clone()), clock, is_exempt: false })
    }

    fn audit(_volume: &Volume<MemStore>) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    fn count(_volume: &Volume<MemStore>, _ran: &mut Ran) -> Result<(), String> {
        Ok(())
    }
}

/// What a history met.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Met {
    /// Operations.
    pub steps: u64,
    /// Refused because of a hard limit.
    pub beyond_hard: u64,
    /// Refused because a grace time was over.
    pub past_grace: u64,
    /// Mounts after a clean unmount, and after a sync without one.
    pub mounts: [u64; 2],
}

impl Met {
    /// Adds another history.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.beyond_hard += other.beyond_hard;
        self.past_grace += other.past_grace;
        self.mounts = [self.mounts[0] + other.mounts[0], self.mounts[1] + other.mounts[1]];
    }
}

/// What a user or group may have, as the test set it.
#[derive(Clone, Copy, Default)]
struct Expected {
    limits: LimitChange,
    /// Since when the usage is above the soft limit, of bytes and of inodes.
    above_since: [Option<TimeNs>; 2],
}

impl Expected {
    fn is_above(&self, usage: &Usage) -> [bool; 2] {
        let above = |soft: Option<u64>, used| soft.is_some_and(|soft| soft > 0 && used > soft);
        [above(self.limits.bytes_soft, usage.bytes), above(self.limits.inodes_soft, usage.inodes)]
    }

    fn settle(&mut self, now: TimeNs, usage: &Usage) {
        let above = self.is_above(usage);
        for (since, is_above) in self.above_since.iter_mut().zip(above) {
            *since = if is_above { since.or(Some(now)) } else { None };
        }
    }

    /// Whether the grace times of bytes and of inodes are over.
    fn is_late(&self, now: TimeNs) -> [bool; 2] {
        let grace_ns = i64::from(GRACE_S) * 1_000_000_000;
        self.above_since.map(|since| since.is_some_and(|since| now.0 >= since.0 + grace_ns))
    }

    /// By how much a usage is beyond the hard limits, or would be with that many bytes more.
    fn exceeds(&self, usage: &Usage, more_bytes: u64) -> bool {
        let beyond = |hard: Option<u64>, used| hard.is_some_and(|hard| hard > 0 && used > hard);
        beyond(self.limits.bytes_hard, usage.bytes + more_bytes)
            || beyond(self.limits.inodes_hard, usage.inodes)
    }
}

/// Runs the history of a seed with quotas on.
///
/// # Errors
/// What is wrong, with the operation.
pub fn run<K: Kind>(history: History, slack_bytes: u64) -> Result<Met, String>
where
    K::Store: Engine,
{
    let device: Arc<dyn Device> = Arc::new(firnfs_device::MemDevice::new(history.volume_bytes()));
    K::format(history, &*device)?;
    let target = K::mount(history, &device, START)?;
    let mut model = Model::new(START);
    (model.may_be_full, model.may_lose_atime) = (true, true);
    let text = |e: firnfs::FsError| e.to_string();
    model.file_max_bytes =
        target.volume.run(|vfs, _| Ok(vfs.store().facts().file_max_bytes)).map_err(text)?;
    target.volume.turn_quotas(true).map_err(text)?;
    let mut run = Run::<K> {
        history,
        device,
        model,
        runner: Runner::new(target),
        generator: Generator::new(history.seed, Mix::default()),
        rng: Rng::new(history.seed ^ 0x9107),
        expected: BTreeMap::new(),
        slack_bytes,
        met: Met::default(),
    };
    for class in Class::ALL {
        run.on_volume(|vfs, now| vfs.set_grace(now, class, Some(GRACE_S), Some(GRACE_S)))?;
    }
    for step in 0..history.steps {
        run.step(step).map_err(|why| format!("operation {step}: {why}"))?;
    }
    run.met.steps = history.steps as u64;
    Ok(run.met)
}

struct Run<K: Kind> {
    history: History,
    device: Arc<dyn Device>,
    model: Model,
    runner: Runner<OnVolume<K::Store>>,
    generator: Generator,
    rng: Rng,
    expected: BTreeMap<Id, Expected>,
    /// What stores may charge more than an operation takes in the end, in bytes.
    slack_bytes: u64,
    met: Met,
}

impl<K: Kind> Run<K> {
    fn on_volume<T>(
        &self,
        op: impl FnMut(&mut Vfs<K::Store>, TimeNs) -> firnfs::Outcome<T>,
    ) -> Result<T, String> {
        self.runner.target.volume.run(op).map_err(|e| e.to_string())
    }

    fn step(&mut self, step: usize) -> Result<(), String> {
        let now = time(step);
        self.runner.target.clock.set_ns(now.0);
        if step % self.history.remount_every == self.history.remount_every - 1 && self.device_has_it() {
            self.remount(step)?;
        }
        if step.is_multiple_of(LIMITS_EVERY) {
            self.change_limits(now)?;
        }
        if step % 23 == 22 {
            self.runner.target.volume.background().map_err(|e| e.to_string())?;
        }
        if step % SYNC_EVERY == 1 {
            self.sync(now, step % (2 * SYNC_EVERY) == 1)?;
        }
        let op = self.generator.next_op(&self.model);
        let before = self.compare(now)?;
        let reply = self.judged(now, &op)?;
        if reply == Err("EDQUOT") {
            return self.justify(now, &op, &before);
        }
        let after = self.compare(now)?;
        for (id, usage) in &after {
            self.check_growth(now, *id, before.get(id).copied().unwrap_or_default(), *usage)
                .map_err(|why| format!("{op:?}: answered {reply:?}: {why}"))?;
        }
        self.settle(now, &after);
        Ok(())
    }

    /// Writes everything, after work in the background or without it. Nobody has more by that: operations have paid for it.
    fn sync(&mut self, now: TimeNs, works: bool) -> Result<(), String> {
        let before = self.compare(now)?;
        let volume = &self.runner.target.volume;
        let worked = if works { volume.background().map(drop) } else { Ok(()) };
        worked.and_then(|()| volume.sync(Scope::All)).map_err(|e| e.to_string())?;
        let after = self.compare(now)?;
        let more = after.iter().find(|(id, usage)| usage.bytes > before.get(id).map_or(0, |had| had.bytes));
        if let Some((id, usage)) = more {
            return Err(format!("a sync takes {id:?} from {:?} to {usage:?}", before.get(id)));
        }
        self.settle(now, &after);
        Ok(())
    }

    fn device_has_it(&self) -> bool {
        self.runner.target.volume.device().is_some()
    }

    /// To the model of the file system a refusal is as if the volume were full.
    fn judged(&mut self, now: TimeNs, op: &Op) -> Result<Reply, String> {
        let reply = self.runner.apply(now, op);
        let known = if reply == Err("EDQUOT") { Err("ENOSPC") } else { reply.clone() };
        let judged = self.model.judge(now, op, &known);
        judged.map_err(|right| format!("{op:?}: answered {reply:?}, right is {right}"))?;
        Ok(reply)
    }

    /// Nobody gets more who is past a grace time, or beyond a hard limit.
    fn check_growth(&self, now: TimeNs, id: Id, before: Usage, after: Usage) -> Result<(), String> {
        let Some(expected) = self.expected.get(&id) else { return Ok(()) };
        let late = expected.is_late(now);
        let grown = [after.bytes > before.bytes + self.slack_bytes, after.inodes > before.inodes];
        if grown[0] && late[0] || grown[1] && late[1] {
            return Err(format!("{id:?} went from {before:?} to {after:?} past its grace time"));
        }
        let allowed = Usage { bytes: after.bytes.saturating_sub(self.slack_bytes), ..after };
        if (grown[0] || grown[1]) && expected.exceeds(&allowed, 0) && !expected.exceeds(&before, 0) {
            return Err(format!("{id:?} went from {before:?} to {after:?}, limits {:?}", expected.limits));
        }
        Ok(())
    }

    /// A refused operation has changed nothing. Done by one whom limits do not bind, it must exceed one.
    fn justify(&mut self, now: TimeNs, op: &Op, before: &BTreeMap<Id, Usage>) -> Result<(), String> {
        let same = self.compare(now)?;
        if same != *before {
            return Err(format!("{op:?} was refused and changed {before:?} to {same:?}"));
        }
        self.runner.target.is_exempt = true;
        let reply = self.judged(now, op);
        self.runner.target.is_exempt = false;
        let reply = reply?;
        let after = self.compare(now)?;
        let (mut hard, mut late) = (false, false);
        for (id, expected) in &self.expected {
            let usage = after.get(id).copied().unwrap_or_default();
            hard |= expected.exceeds(&usage, self.slack_bytes);
            late |= expected.is_late(now) != [false; 2];
        }
        let is_full = reply == Err("ENOSPC");
        if !hard && !late && !is_full {
            return Err(format!("{op:?} was refused, but takes {before:?} to {after:?} only"));
        }
        self.met.beyond_hard += u64::from(hard);
        self.met.past_grace += u64::from(late && !hard);
        self.settle(now, &after);
        Ok(())
    }

    fn settle(&mut self, now: TimeNs, usage: &BTreeMap<Id, Usage>) {
        for (id, expected) in &mut self.expected {
            expected.settle(now, &usage.get(id).copied().unwrap_or_default());
        }
    }

    /// Compares the usage that is kept with a walk; returns it.
    fn compare(&mut self, now: TimeNs) -> Result<BTreeMap<Id, Usage>, String> {
        let walked = self.walk(now)?;
        let report = self.report(now)?;
        let kept: BTreeMap<Id, Usage> = report
            .lines
            .iter()
            .filter(|line| line.usage != Usage::default())
            .map(|line| ((line.class, line.id), line.usage))
            .collect();
        if !report.is_counted || kept != walked {
            return Err(format!("kept {kept:?}\nwalked {walked:?}"));
        }
        Ok(walked)
    }

    fn report(&self, now: TimeNs) -> Result<QuotaReport, String> {
        self.on_volume(|vfs, _| vfs.quota_report(now))
    }

    /// What everyone has, from the names and the open files.
    fn walk(&mut self, now: TimeNs) -> Result<BTreeMap<Id, Usage>, String> {
        let mut todo = vec![InodeNo::ROOT];
        let mut seen: BTreeSet<InodeNo> = self.runner.held().collect();
        seen.insert(InodeNo::ROOT);
        while let Some(dir) = todo.pop() {
            for entry in self.runner.list_raw(now, dir)? {
                let looked = self.runner.target.run(|vfs| vfs.lookup(now, dir, &entry.name, false));
                let ino = looked.map_err(|e| e.to_string())?.ino;
                seen.insert(ino);
                // A directory has one name.
                if entry.kind == firnfs::inode::Kind::Directory {
                    todo.push(ino);
                }
            }
        }
        let mut sums: BTreeMap<Id, Usage> = BTreeMap::new();
        // Together: looking into directories may have moved what the log has of them.
        let attrs = self.on_volume(|vfs, _| {
            seen.iter().map(|ino| vfs.getattr(*ino)).collect::<firnfs::Outcome<Vec<_>>>()
        })?;
        for attr in attrs {
            for id in [(Class::User, attr.uid), (Class::Group, attr.gid)] {
                let sum = sums.entry(id).or_default();
                sum.bytes += attr.allocated_bytes;
                sum.inodes += 1;
            }
        }
        Ok(sums)
    }

    fn change_limits(&mut self, now: TimeNs) -> Result<(), String> {
        let usage = self.compare(now)?;
        for (class, id) in LIMITED {
            let bytes_soft = self.rng.pick(&[0, 40_000, 200_000]);
            let inodes_soft = self.rng.pick(&[0, 4, 12]);
            let limits = LimitChange {
                bytes_soft: Some(bytes_soft),
                bytes_hard: Some(self.rng.pick(&[0, bytes_soft.max(80_000), bytes_soft.max(300_000)])),
                inodes_soft: Some(inodes_soft),
                inodes_hard: Some(self.rng.pick(&[0, inodes_soft.max(10), inodes_soft.max(20)])),
            };
            self.on_volume(|vfs, _| vfs.set_limits(now, class, id, limits))?;
            let expected = self.expected.entry((class, id)).or_default();
            let before = expected.limits;
            expected.limits = limits;
            if before.bytes_soft != limits.bytes_soft {
                expected.above_since[0] = None;
            }
            if before.inodes_soft != limits.inodes_soft {
                expected.above_since[1] = None;
            }
            expected.settle(now, &usage.get(&(class, id)).copied().unwrap_or_default());
        }
        // The tables themselves take space on the root directory.
        let usage = self.compare(now)?;
        self.settle(now, &usage);
        Ok(())
    }

    /// Closes the volume, or leaves it as a crash after a sync does, and mounts it again.
    fn remount(&mut self, step: usize) -> Result<(), String> {
        let is_clean = (step / self.history.remount_every).is_multiple_of(2);
        for slot in 0..HANDLES {
            self.judged(time(step), &Op::Close { slot })?.map_err(str::to_owned)?;
        }
        let volume = &self.runner.target.volume;
        let left = if is_clean { volume.close() } else { volume.sync(Scope::All) };
        left.map_err(|e| e.to_string())?;
        self.runner.target = K::mount(self.history, &self.device, time(step))?;
        self.met.mounts[usize::from(!is_clean)] += 1;
        let usage = self.compare(time(step))?;
        self.settle(time(step), &usage);
        Ok(())
    }
}
