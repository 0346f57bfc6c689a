//! Random histories on a disk that reports its failures: errors, short writes, latent sectors, a device that vanishes.
//!
//! After each failed operation the fault is removed, and the mounted volume must hold exactly what it held before. Once a
//! write or flush of the log has failed, the volume may promise nothing any more. In the end the power is cut. Every
//! possible state of the disk, with the writes since the last flush there, missing or torn, is judged as in the crash
//! explorer.

use crate::faults::ends;
use firnfs_device::SparseImage;
use firnfs_sim::{CrashDisk, Effect, Fault, FaultyDisk, On, Trigger};
use firnfs_torture::crash::generate::random_ops;
use firnfs_torture::crash::runner::{PHYSICAL_BLOCK_BYTES, Run};
use firnfs_torture::crash::scenario::Scenario;
use firnfs_torture::crash::{
    Explorer, Firn, Limits, Loss, Mounted, Op, Record, Refusal, Seen, Subject, Window, World,
};
use std::sync::Arc;

const SEEDS: u64 = 24;
const OPS: usize = 60;
/// Crash states judged in each history.
const STATES_MAX: u64 = 100;

struct Trial<'s> {
    subject: &'s Firn,
    disk: Arc<FaultyDisk<CrashDisk>>,
    mounted: Option<Box<dyn Mounted + 's>>,
    record: Record,
    fault: Fault,
    /// The number of the operation, counted from 0, during which a write or flush of the log failed.
    broken_at: Option<usize>,
    place: String,
}

impl<'s> Trial<'s> {
    fn new(subject: &'s Firn, image: SparseImage, seed: u64, fault: &Fault) -> Self {
        let disk = Arc::new(FaultyDisk::new(CrashDisk::new(image, PHYSICAL_BLOCK_BYTES), seed));
        let mounted = Some(subject.mount(disk.clone()).unwrap());
        disk.arm(fault.clone());
        let (record, fault) = (Record::new(World::new()), fault.clone());
        Self { subject, disk, mounted, record, fault, broken_at: None, place: format!("seed {seed}") }
    }

    /// Returns false if from here on only the judgement at the end can tell what the volume holds.
    fn step(&mut self, index: usize, op: &Op) -> bool {
        self.place = format!("{} ({:?}), operation {index} ({op})", self.place_of(), self.fault);
        let failures = self.disk.injected().len();
        self.disk.inner().mark(2 * index as u64);
        let goes_on = if *op == Op::Remount { self.remount() } else { self.apply(op) };
        self.disk.inner().mark(2 * index as u64 + 1);
        let failed_now = self.disk.injected()[failures..].iter().any(|failure| {
            let is_honest = matches!(failure.effect, Effect::Fail | Effect::Short { .. } | Effect::Vanish);
            is_honest && matches!(failure.action, "write" | "flush")
        });
        if failed_now && self.broken_at.is_none() {
            self.broken_at = Some(index);
        }
        goes_on
    }

    fn place_of(&self) -> &str {
        self.place.split(" (").next().unwrap()
    }

    fn apply(&mut self, op: &Op) -> bool {
        let mut world = self.record.world().clone();
        let expected = world.apply(op);
        if matches!((op, &expected), (Op::Chmod { .. }, Err(_))) {
            // After a failed operation the path may lead to a symbolic link, whose mode can be set here.
            self.record.push(op.clone(), false, self.record.world().clone());
            return true;
        }
        let reply = self.mounted.as_mut().unwrap().apply(op);
        match (&reply, expected) {
            (Ok(()), Ok(())) => {
                let promises = op.is_sync() || matches!(op, Op::Create(_) | Op::Mkdir(_) | Op::Write { .. });
                assert!(!(promises && self.broken_at.is_some()), "{}: nothing can be promised", self.place);
                self.record.push(op.clone(), true, world);
            }
            (Err(Refusal::Invalid(_)), Err(_)) => {
                self.record.push(op.clone(), false, self.record.world().clone());
            }
            (Err(Refusal::NoSpace), _) => self.assert_unchanged(op),
            (Err(Refusal::Broken(why)), _) => {
                self.assert_tells(why);
                self.disk.clear();
                self.assert_unchanged(op);
                self.disk.arm(self.fault.clone());
            }
            other => panic!("{}: {other:?}", self.place),
        }
        true
    }

    /// The operation failed: the volume holds the same as before, except for the part of its file that a long write may
    /// have written.
    fn assert_unchanged(&mut self, op: &Op) {
        let tree =
            self.mounted.as_mut().unwrap().tree().unwrap_or_else(|why| panic!("{}: {why}", self.place));
        let mut world = self.record.world().clone();
        if let Op::Write { path, .. } = op {
            world.adopt_content(path, &tree);
        }
        let judged = Record::new(world.clone()).judge(&tree, Window { ended: 0, begun: 0 }, Loss::Nothing);
        assert_eq!(judged, Ok(()), "{}", self.place);
        self.record.push(op.clone(), false, world);
    }

    fn remount(&mut self) -> bool {
        let unmounted = self.mounted.take().unwrap().unmount();
        if let Err(why) = unmounted {
            self.assert_tells(&why);
            self.record.push(Op::Remount, false, self.record.world().clone());
            return false;
        }
        assert!(self.broken_at.is_none(), "{}: a clean unmount after a failed write", self.place);
        self.record.push(Op::Remount, true, self.record.world().clone());
        let mounted = self.subject.mount(self.disk.clone()).or_else(|why| {
            self.assert_tells(&why);
            self.disk.clear();
            let mounted = self.subject.mount(self.disk.clone());
            self.disk.arm(self.fault.clone());
            mounted
        });
        self.mounted = Some(mounted.unwrap_or_else(|why| panic!("{}: {why}", self.place)));
        true
    }

    /// The error is one line that says what the disk said, and where.
    fn assert_tells(&self, why: &str) {
        assert!(why.contains("(injected)") && why.contains("crash disk"), "{}: {why}", self.place);
        assert!(!why.contains('\n'), "{}: {why}", self.place);
    }

    /// Cuts the power. Returns whether anything had failed before.
    fn judge(self) -> bool {
        let Self { subject, disk, mounted, record, place, .. } = self;
        drop(mounted);
        let run = Run { history: disk.inner().history(), record };
        let limits = Limits { states_max: STATES_MAX, nested_every: 0, ..Limits::default() };
        let explored = Explorer::new(subject, limits, &Seen::new()).explore(&run);
        assert!(explored.is_ok(), "after {place}: {}", explored.unwrap_err());
        !disk.injected().is_empty()
    }
}

/// Operations, with a remount at regular intervals: reads come after mounts.
fn ops(seed: u64, remount_every: usize) -> Vec<Op> {
    let some = random_ops(&World::new(), seed, OPS);
    some.chunks(remount_every).flat_map(|ops| ops.iter().cloned().chain([Op::Remount])).collect()
}

/// Runs histories, each with a fault of its own; returns in how many the fault happened.
fn survive(remount_every: usize, fault: impl Fn(u64) -> Fault + Send + 'static) -> u64 {
    ends("histories", move || survive_here(remount_every, fault))
}

fn survive_here(remount_every: usize, fault: impl Fn(u64) -> Fault) -> u64 {
    let subject = Firn::small();
    let image = subject.format();
    let mut happened = 0;
    for seed in 0..SEEDS {
        let fault = fault(seed);
        let mut trial = Trial::new(&subject, image.clone(), seed, &fault);
        for (index, op) in ops(seed, remount_every).iter().enumerate() {
            if !trial.step(index, op) {
                break;
            }
        }
        happened += u64::from(trial.judge());
    }
    happened
}

#[test]
fn a_failed_write_ends_all_promises_and_loses_nothing_synced() {
    let fault = |seed| Fault::anywhere(On::Write, Trigger::Once { after: seed * 5 % 29 }, Effect::Fail);
    assert!(survive(23, fault) > SEEDS / 2);
}

#[test]
fn writes_that_fail_from_some_moment_on_lose_nothing_synced() {
    let fault = |seed| Fault::anywhere(On::Write, Trigger::From { after: seed * 3 % 31 }, Effect::Fail);
    assert!(survive(17, fault) > SEEDS / 2);
}

#[test]
fn a_failed_flush_ends_all_promises_and_loses_nothing_synced() {
    let fault = |seed| Fault::anywhere(On::Flush, Trigger::Once { after: seed % 19 }, Effect::Fail);
    assert!(survive(23, fault) > SEEDS / 2);
}

#[test]
fn a_write_that_stops_short_ends_all_promises_and_loses_nothing_synced() {
    let fault = |seed| {
        let effect = Effect::Short { bytes: seed * 1536 };
        Fault::anywhere(On::Write, Trigger::Once { after: seed * 5 % 29 }, effect)
    };
    assert!(survive(23, fault) > SEEDS / 2);
}

#[test]
fn a_disk_that_vanishes_loses_nothing_synced() {
    let fault = |seed| Fault::anywhere(On::Any, Trigger::Once { after: seed * 7 % 53 }, Effect::Vanish);
    assert!(survive(11, fault) > SEEDS / 2);
}

#[test]
fn reads_that_fail_now_and_then_change_nothing() {
    for (chance, remount_every) in [(0.02, 5), (0.3, 7), (0.9, 3)] {
        let fault = move |_| Fault::anywhere(On::Read, Trigger::Chance(chance), Effect::Fail);
        assert!(survive(remount_every, fault) > SEEDS / 2, "{chance}");
    }
}

#[test]
fn sectors_that_cannot_be_read_back_are_errors_and_nothing_else() {
    let fault = |_| Fault::anywhere(On::Write, Trigger::Chance(0.1), Effect::Spoil);
    assert!(survive(5, fault) > SEEDS / 2);
}

#[test]
fn discards_that_fail_do_no_harm() {
    let subject = Firn::small();
    let fault = Fault::anywhere(On::Discard, Trigger::Always, Effect::Fail);
    let mut trial = Trial::new(&subject, subject.format(), 1, &fault);
    // The cleaner empties segments, which are discarded.
    for (index, op) in (Scenario::Full { seed: 1 }).ops(&World::new()).iter().enumerate() {
        assert!(trial.step(index, op));
    }
    assert_eq!(trial.broken_at, None);
    assert!(trial.judge(), "a discard failed");
}
