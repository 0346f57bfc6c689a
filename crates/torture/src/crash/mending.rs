//! Interrupted repairs: a volume with a history is damaged, and the power is cut during its repair.
//!
//! The first repair runs to its end and gives the expected result: wherever a repair is cut, the next one must lead the volume
//! to that result, with everything that the first kept and nothing else. Everything follows from the seed.

use super::contents::{Contents, Shared};
use super::explorer::Explorer;
use super::generate::random_ops;
use super::op::Op;
use super::point_ops;
use super::recall::{READ_ANEW_EVERY, Reads, Recall};
use super::record::Window;
use super::retained_ops;
use super::runner::PHYSICAL_BLOCK_BYTES;
use super::seen::{Novelty, Seen};
use super::subject::Subject;
use super::totals::{Failure, Limits, Totals};
use super::tree::Tree;
use super::verdict::raw;
use super::world::World;
use firnfs_device::{MemDevice, SparseImage};
use firnfs_sim::{CrashDisk, CrashState, History};
use std::sync::Arc;

/// Operations before the damage.
const OPS: usize = 40;

/// A damaged volume, its repair, and the result.
struct Case {
    /// The damage as text.
    damage: String,
    /// The requests to the disk during the repair.
    history: History,
    kept: Tree,
    known: Known,
}

/// What views of earlier states have read.
#[derive(Default)]
struct Known {
    reads: Arc<Reads>,
    contents: Contents,
}

/// Judges the planned states of a repair.
///
/// # Errors
/// The first state that another repair does not lead to the same result; without states, if the first repair does not end.
pub(super) fn explore(
    subject: &dyn Subject,
    limits: Limits,
    seen: &Seen,
    seed: u64,
) -> (Totals, Result<(), Box<Failure>>) {
    let fail = |states, reason| {
        let window = Window { ended: OPS, begun: OPS };
        Box::new(Failure { states, rot: None, window, reason })
    };
    let states_max = usize::try_from(limits.states_max).unwrap_or(usize::MAX);
    let mut explorer = Explorer::new(subject, Limits { nested_states: states_max, ..limits }, seen);
    let case = match Case::new(subject, seed) {
        Ok(case) => case,
        Err(reason) => {
            let totals = Totals { scenarios: 1, ..Totals::default() };
            return (totals, Err(fail(Vec::new(), reason)));
        }
    };
    // The result of a repair follows from its initial image.
    let promise = case.history.base_hash();
    let (mut mended, mut verdict) = (0, Ok(()));
    for (state, hash) in explorer.states_during(&case.history) {
        let Some(novelty) = explorer.is_due(hash, promise) else { continue };
        mended += u64::from(novelty == Novelty::New);
        if let Err(reason) = case.judge(subject, &state, explorer.totals().judged) {
            verdict = Err(fail(vec![state], reason));
            break;
        }
    }
    (Totals { scenarios: 1, mended, ..explorer.totals() }, verdict)
}

/// Judges one state again, by its text.
///
/// # Errors
/// The error, or an error if there is no such state.
pub(super) fn replay(subject: &dyn Subject, seed: u64, cut: Option<&str>) -> Result<(), String> {
    let case = Case::new(subject, seed)?;
    match cut {
        None => Ok(()),
        Some(text) => case.judge(subject, &text.parse().map_err(|e| format!("{e}"))?, 0),
    }
}

/// The operations before the damage. Odd numbers make points, and every other one of the rest has the volume make some.
pub(super) fn ops(world: &World, seed: u64) -> Vec<Op> {
    let ops = random_ops(world, seed, OPS).into_iter().filter(|op| *op != Op::Remount).collect();
    match seed % 4 {
        0 => ops,
        2 => retained_ops::kept(ops),
        _ => point_ops::among(world, ops, seed),
    }
}

impl Known {
    fn shared<'a>(&'a self, image: &'a dyn Fn() -> SparseImage) -> Shared<'a> {
        Shared { contents: &self.contents, image }
    }
}

impl Case {
    fn new(subject: &dyn Subject, seed: u64) -> Result<Self, String> {
        let device = Arc::new(MemDevice::from_image(subject.format()));
        let mut mounted = subject.mount(device.clone())?;
        for op in ops(&World::new(), seed) {
            // If the volume has no room for something, it is not there.
            let _done_or_refused = mounted.apply(&op);
        }
        mounted.unmount()?;
        let mut image = device.image();
        let damage = subject.damage(&mut image, seed)?;
        let disk = Arc::new(CrashDisk::new(image, PHYSICAL_BLOCK_BYTES));
        let in_this = |why: String| format!("{damage}: {why}");
        subject.repair(disk.clone()).map_err(in_this)?;
        let kept = end_of(subject, disk.live_image(), None).map_err(in_this)?;
        Ok(Self { history: disk.history(), damage, kept, known: Known::default() })
    }

    /// Judges a state; `number` counts the judgements.
    fn judge(&self, subject: &dyn Subject, state: &CrashState, number: u64) -> Result<(), String> {
        let known = (!number.is_multiple_of(READ_ANEW_EVERY)).then_some(&self.known);
        let reads = || known.map(|known| known.reads.clone());
        let image =
            self.history.image(state).ok_or("the repair has no such cut: another version of the program")?;
        let in_this = |why: String| format!("{}, its repair cut short: {why}", self.damage);
        // However damaged it is: nothing panics, and nothing is written.
        let _errors = subject.check(raw(&image, reads()));
        let _told = match known {
            None => subject.look(raw(&image, None)),
            Some(known) => subject.look_sharing(raw(&image, reads()), &known.shared(&|| image.clone())),
        };
        let device = Arc::new(Recall::new(image, reads()));
        subject.repair(device.clone()).map_err(in_this)?;
        let found = end_of(subject, device.image(), known).map_err(in_this)?;
        self.kept.same_but_for_numbers(&found).map_err(in_this)
    }
}

/// The tree after a repair; the volume must be intact.
fn end_of(subject: &dyn Subject, image: SparseImage, known: Option<&Known>) -> Result<Tree, String> {
    let reads = || known.map(|known| known.reads.clone());
    let before = match known {
        None => subject.inspect(raw(&image, None)),
        Some(known) => subject.inspect_sharing(raw(&image, reads()), &known.shared(&|| image.clone())),
    };
    let before = before.map_err(|why| format!("after it: {why}"))?;
    let device = Arc::new(Recall::new(image, reads()));
    let mut mounted = subject.mount(device.clone())?;
    let after = match known {
        None => mounted.tree(),
        Some(known) => mounted.tree_sharing(&known.shared(&|| device.image())),
    }?;
    before.same(&after).map_err(|why| format!("after it a read-write mount finds something else: {why}"))?;
    Ok(before)
}
