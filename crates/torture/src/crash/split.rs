//! A mirror whose halves were mounted separately. Both continue from the same state, with the same incarnation and the same
//! serials. Then they become a mirror again, which reads some blocks from one half and some from the other.
//!
//! No file system can keep both histories. It may refuse to mount, or fail some reads; but everything that it shows must be
//! some moment of one history, never a mixture. Everything follows from the seed; the number that draws a state also names it.

use super::generate::random_ops;
use super::op::Op;
use super::record::{Loss, Window};
use super::runner::{Run, run};
use super::seen::{Novelty, Seen};
use super::subject::Subject;
use super::totals::{Limits, Totals};
use super::verdict::{Verdict, raw};
use super::world::World;
use firnfs_device::{MemDevice, SparseImage};
use firnfs_sim::crash::{Item, ItemKind, image_hash};
use firnfs_sim::seeded;
use rand::RngExt;
use std::sync::Arc;

/// Operations before the halves separate.
const OPS_BEFORE: usize = 20;
/// Most operations on each half.
const OPS_APART: u64 = 12;

/// Two histories that begin with the same image.
struct Halves {
    left: Run,
    right: Run,
}

/// The operations before the separation.
pub(super) fn ops(seed: u64) -> Vec<Op> {
    random_ops(&World::new(), seed, OPS_BEFORE).into_iter().filter(|op| *op != Op::Remount).collect()
}

/// The operations on one half: the same on both, except for names and content.
fn ops_apart(seed: u64, half: char) -> Vec<Op> {
    let mut rng = seeded(seed, "halves");
    let mut ops = Vec::new();
    for step in 0..rng.random_range(2..OPS_APART) {
        let path = format!("{half}-{step}");
        let tag = seed << 20 | step << 8 | half as u64;
        ops.push(Op::Create(path.clone()));
        if rng.random_bool(0.8) {
            let len_bytes = rng.random_range(1..30_000);
            ops.push(Op::Write { path: path.clone(), at_bytes: 0, len_bytes, tag });
        }
        ops.push(if rng.random_bool(0.8) { Op::Fsync(path) } else { Op::Sync });
    }
    ops
}

impl Halves {
    fn new(subject: &dyn Subject, seed: u64) -> Result<Self, String> {
        let device = Arc::new(MemDevice::from_image(subject.format()));
        let mut mounted = subject.mount(device.clone())?;
        for op in ops(seed) {
            // If the volume has no room for something, it is not there.
            let _done_or_refused = mounted.apply(&op);
        }
        mounted.apply(&Op::Sync).map_err(|why| format!("sync: {why:?}"))?;
        drop(mounted);
        let image = device.image();
        let world = World::of_tree(&subject.look(raw(&image, None))?);
        let half = |name| run(subject, image.clone(), world.clone(), &ops_apart(seed, name));
        Ok(Self { left: half('l')?, right: half('r')? })
    }

    /// The first writes of one half and the later writes of the other; or each write from a randomly drawn half.
    fn image(&self, number: u64) -> SparseImage {
        let mut rng = seeded(number, "mirror");
        let (mut first, mut second) = (&self.left, &self.right);
        if rng.random_bool(0.5) {
            std::mem::swap(&mut first, &mut second);
        }
        let (first, second) = (first.history.items(), second.history.items());
        let mut image = self.left.history.base().clone();
        let mut land = |item: &Item| {
            if let ItemKind::Write(data) = &item.kind {
                image.write(item.at_bytes, data);
            }
        };
        if rng.random_bool(0.7) {
            let meet = rng.random_range(0..=first.len());
            first[..meet].iter().for_each(&mut land);
            second.iter().skip(meet).for_each(&mut land);
        } else {
            first.iter().for_each(&mut land);
            second.iter().filter(|_| rng.random_bool(0.5)).for_each(&mut land);
        }
        image
    }

    fn judge(&self, verdict: &Verdict<'_>, image: &SparseImage) -> Result<(), String> {
        verdict.of_damage(image, &mut |tree| {
            let of = |run: &Run| {
                let window = Window { ended: 0, begun: run.record.ops().len() };
                run.record.judge(tree, window, Loss::Nothing)
            };
            of(&self.left)
                .or_else(|why| of(&self.right).map_err(|other| format!("left: {why}; right: {other}")))
        })
    }
}

/// Judges mixtures.
///
/// # Errors
/// The number of the first one that shows something from neither history; no number if the halves could not be made.
pub(super) fn explore(
    subject: &dyn Subject,
    limits: Limits,
    seen: &Seen,
    seed: u64,
) -> (Totals, Result<(), (Option<u64>, String)>) {
    let mut totals = Totals { scenarios: 1, ..Totals::default() };
    let halves = match Halves::new(subject, seed) {
        Ok(halves) => halves,
        Err(why) => return (totals, Err((None, why))),
    };
    let verdict = Verdict::new(subject, limits.check);
    let promise = halves.left.history.base_hash();
    for number in 0..limits.states_max {
        let image = halves.image(number);
        match seen.note(image_hash(&image), promise) {
            Novelty::Repeat => {
                totals.repeats += 1;
                continue;
            }
            Novelty::New => totals.distinct += 1,
            Novelty::Known => {}
        }
        totals.judged += 1;
        if let Err(why) = halves.judge(&verdict, &image) {
            return (totals, Err((Some(number), why)));
        }
    }
    (totals, Ok(()))
}

/// Judges one mixture again.
///
/// # Errors
/// The error.
pub(super) fn replay(subject: &dyn Subject, seed: u64, number: Option<&str>) -> Result<(), String> {
    let halves = Halves::new(subject, seed)?;
    let Some(number) = number else { return Ok(()) };
    let image = halves.image(number.parse().map_err(|e| format!("{number:?}: {e}"))?);
    halves.judge(&Verdict::new(subject, true), &image)
}
