//! Traces: disk requests of programs on a real mount, explored like any other history.
//!
//! A trace is the history of a [`CrashDisk`](firnfs_sim::CrashDisk) under a mount, with marks 2n before and 2n + 1 after the
//! n-th step of the programs; everything that a step made durable must be there in every state from its end on. The caller
//! judges an image: what must be durable in it, and whether the programs accept what they find.
//!
//! Threads make a trace in real time, and it never comes out the same twice, so a failure carries the image.

use super::plan::Plan;
use super::record::Window;
use super::runner::stretches;
use firnfs_device::SparseImage;
use firnfs_sim::{CrashState, DiscardMode, History, Replay, seeded};
use rand::RngExt;
use rustc_hash::FxHashSet;

/// A state that broke a promise.
#[derive(Debug)]
pub struct TraceFailure {
    /// The state.
    pub state: CrashState,
    /// Steps that had ended and begun.
    pub window: Window,
    /// The error as text.
    pub reason: String,
    /// The disk.
    pub image: SparseImage,
}

/// Judges states of a trace, about `states_max` of those that `plan` has, spread over all by `seed`; returns their number.
///
/// # Errors
/// The first state that `verdict` rejects.
pub fn explore_trace(
    history: &History,
    plan: &Plan,
    states_max: u64,
    mut verdict: impl FnMut(&SparseImage, Window) -> Result<(), String>,
) -> Result<u64, Box<TraceFailure>> {
    let discards = DiscardMode::Mixed(plan.seed);
    let stretches = stretches(history);
    let planned: u64 = planned(history, plan, discards);
    let mut rng = seeded(plan.seed, "trace");
    let mut replay = Replay::new(history, discards);
    let mut seen = FxHashSet::default();
    let mut judged = 0;
    for stretch in stretches {
        replay.seek(stretch.cut);
        let items: Vec<_> = replay.volatile().iter().map(|&index| &history.items()[index as usize]).collect();
        for fates in plan.states(stretch.cut, &items) {
            let is_drawn = rng.random_range(0..planned.max(1)) < states_max;
            if !is_drawn || !seen.insert((replay.hash_of(&fates), stretch.window.ended)) {
                continue;
            }
            let image = replay.image_of(&fates);
            judged += 1;
            if let Err(reason) = verdict(&image, stretch.window) {
                let state = CrashState { cut: stretch.cut, fates, discards };
                return Err(Box::new(TraceFailure { state, window: stretch.window, reason, image }));
            }
        }
    }
    Ok(judged)
}

fn planned(history: &History, plan: &Plan, discards: DiscardMode) -> u64 {
    let mut replay = Replay::new(history, discards);
    let mut planned = 0;
    for stretch in stretches(history) {
        replay.seek(stretch.cut);
        let items: Vec<_> = replay.volatile().iter().map(|&index| &history.items()[index as usize]).collect();
        planned += plan.states(stretch.cut, &items).len() as u64;
    }
    planned
}
