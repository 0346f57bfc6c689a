//! `Explorer`: builds crash states and judges them.
//!
//! It judges a state once for each promise: images are distinguished by their hash, promises by [`Record::floors`] within a
//! history and by [`Record::promise`] within a campaign. Everything follows from the scenario and the plan's seed, so the text
//! of a state suffices to reproduce a failure.

use super::record::{Loss, Record, Window};
use super::runner::{PHYSICAL_BLOCK_BYTES, Run, Stretch, stretches};
use super::seen::{Novelty, Seen};
use super::subject::Subject;
use super::totals::{Failure, Limits, Rot, Totals};
use super::tree::Tree;
use super::verdict::{Found, Verdict};
use firnfs_device::{MemDevice, SparseImage};
use firnfs_sim::crash::{Item, ItemKind};
use firnfs_sim::{CrashDisk, CrashState, DiscardMode, Fate, History, Replay, seeded};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// See the module's head.
pub struct Explorer<'s> {
    subject: &'s dyn Subject,
    verdict: Verdict<'s>,
    limits: Limits,
    seen: &'s Seen,
    totals: Totals,
}

/// A state to judge.
struct Case<'r> {
    image: SparseImage,
    state: CrashState,
    history: &'r History,
    record: &'r Record,
    window: Window,
    promise: u128,
}

impl<'s> Explorer<'s> {
    /// Explores a file system within limits; states in `seen` are not judged again.
    #[must_use]
    pub fn new(subject: &'s dyn Subject, limits: Limits, seen: &'s Seen) -> Self {
        let verdict = Verdict::new(subject, limits.check);
        Self { subject, verdict, limits, seen, totals: Totals::default() }
    }

    /// What has been judged so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Judges the planned states of a run.
    ///
    /// # Errors
    /// The first state that breaks a promise.
    pub fn explore(&mut self, run: &Run) -> Result<(), Box<Failure>> {
        self.totals.scenarios += 1;
        let history = &run.history;
        let stretches = stretches(history);
        let cleaning = self.cleaning_items(history);
        let modes = discard_modes(history, self.limits.plan.seed);
        let planned =
            self.planned(history, &stretches, &cleaning).map(|planned| planned * modes.len() as u64);
        let every = self.thinning(planned);
        let (mut numbers, mut local) = ([0; 2], FxHashSet::default());
        for discards in modes {
            let mut replay = Replay::new(history, discards);
            for &Stretch { cut, window } in &stretches {
                replay.seek(cut);
                let floors = run.record.floors(window.ended);
                let promise = run.record.promise(history.base_hash(), window);
                let is_cleaning = is_cut_short(&replay, &cleaning);
                let items = volatile_items(&replay, history);
                for fates in self.limits.plan.states(cut, &items) {
                    numbers[usize::from(is_cleaning)] += 1;
                    if numbers[usize::from(is_cleaning)] % every[usize::from(is_cleaning)] != 0 {
                        continue;
                    }
                    let hash = replay.hash_of(&fates);
                    if !local.insert((hash, floors)) {
                        self.totals.repeats += 1;
                    } else if let Some(novelty) = self.is_due(hash, promise) {
                        self.totals.cleaning += u64::from(is_cleaning && novelty == Novelty::New);
                        let image = replay.image_of(&fates);
                        let state = CrashState { cut, fates, discards };
                        let record = &run.record;
                        let case = Case { image, state, history, record, window, promise };
                        let found = self.judge(case, hash, &items)?;
                        self.totals.with_points += u64::from(found.has_points && novelty == Novelty::New);
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts a state, and returns whether it has to be judged.
    pub(super) fn is_due(&mut self, image: u128, promise: u128) -> Option<Novelty> {
        let novelty = self.seen.note(image, promise);
        match novelty {
            Novelty::Repeat => {
                self.totals.repeats += 1;
                return None;
            }
            Novelty::New => self.totals.distinct += 1,
            Novelty::Known => {}
        }
        self.totals.judged += 1;
        Some(novelty)
    }

    /// The cleaner's writes, by their index in a history.
    fn cleaning_items(&self, history: &History) -> FxHashSet<u32> {
        let is_cleaning = |item: &Item| match &item.kind {
            ItemKind::Write(data) => self.subject.is_cleaning(data),
            ItemKind::Discard => false,
        };
        (0..).zip(history.items()).filter(|(_, item)| is_cleaning(item)).map(|(index, _)| index).collect()
    }

    /// Judges one state again, by its text (`cuts` of a failure).
    ///
    /// # Errors
    /// The failure, or an error if the text does not fit the run.
    pub fn replay(&mut self, run: &Run, cuts: &str) -> Result<(), String> {
        let (cuts, rot) = match cuts.rfind(",rot") {
            None => (cuts, None),
            Some(at) => (&cuts[..at], Some(cuts[at + 1..].parse::<Rot>()?)),
        };
        let parse = |text: &str| text.parse::<CrashState>().map_err(|e| e.to_string());
        let states = cuts.split(',').map(parse).collect::<Result<Vec<_>, _>>()?;
        let short = "the run has no such cut: another scenario, or another version of the program";
        let stretches = stretches(&run.history);
        let stretch = stretches.iter().rfind(|s| s.cut <= states[0].cut).ok_or(short)?;
        let window = stretch.window;
        let mut image = run.history.image(&states[0]).ok_or(short)?;
        for nested in &states[1..] {
            image = self.recovery(image).image(nested).ok_or(short)?;
        }
        match rot {
            // Whatever was done at the n-th state only: all of it is done now.
            None => {
                let loss = if states.len() > 1 { Loss::Oldest } else { Loss::Nothing };
                self.verdict.of_crash(&image, &run.record, (window, loss), 0).map(drop)
            }
            Some(rot) => {
                let rotten = self.verdict.rotten(&image, 0, rot);
                let (image, _) = rotten.ok_or("there is no such place to rot")?;
                self.verdict.of_rot(&image, rot, &run.record, window, 0)
            }
        }
    }

    /// Picks a random state of a run, and the tree that a mount finds there: the start of the next round of crash, write,
    /// crash. `late`: the number of stretches, from the end of the run, that it is drawn from.
    ///
    /// # Errors
    /// If the state does not mount.
    pub fn pick(&self, run: &Run, seed: u64, late: Option<usize>) -> Result<(SparseImage, Tree), String> {
        let mut rng = seeded(seed, "pick");
        let mut stretches = stretches(&run.history);
        let skipped = late.map_or(0, |late| stretches.len().saturating_sub(late));
        stretches.drain(..skipped);
        let stretch = stretches[rng.random_range(0..stretches.len())];
        let mut replay = Replay::new(&run.history, DiscardMode::Mixed(seed));
        replay.seek(stretch.cut);
        let items = volatile_items(&replay, &run.history);
        let mut states = self.limits.plan.states(stretch.cut, &items);
        let is_torn =
            |fates: &Vec<Fate>| !fates.iter().all(|fate| matches!(fate, Fate::Lands | Fate::Missing));
        if late.is_some() && states.iter().any(is_torn) && rng.random_bool(0.7) {
            // Parts of a batch, which the next round overwrites.
            states.retain(is_torn);
        }
        let fates = states.swap_remove(rng.random_range(0..states.len()));
        let image = replay.image_of(&fates);
        let tree = self.subject.mount(Arc::new(MemDevice::from_image(image.clone())))?.tree()?;
        Ok((image, tree))
    }

    /// Number of states that the plan has for a history, for one behaviour of discards: outside cleaning, and during it.
    fn planned(&self, history: &History, stretches: &[Stretch], cleaning: &FxHashSet<u32>) -> [u64; 2] {
        let mut replay = Replay::new(history, DiscardMode::Old);
        let mut planned = [0; 2];
        for stretch in stretches {
            replay.seek(stretch.cut);
            let items = volatile_items(&replay, history);
            let states = self.limits.plan.states(stretch.cut, &items).len() as u64;
            planned[usize::from(is_cut_short(&replay, cleaning))] += states;
        }
        planned
    }

    /// Judge every n-th state, with n for outside cleaning and for during it; cleaning gets three quarters if it has enough
    /// states.
    fn thinning(&self, planned: [u64; 2]) -> [u64; 2] {
        let most = self.limits.states_max.max(4);
        if planned[0].saturating_add(planned[1]) <= most {
            return [1, 1];
        }
        let during = (most / 4 * 3).min(planned[1]);
        [planned[0].div_ceil(most - during).max(1), planned[1].div_ceil(during.max(1)).max(1)]
    }

    fn judge(&mut self, case: Case<'_>, hash: u128, items: &[&Item]) -> Result<Found, Box<Failure>> {
        let Case { ref image, record, window, promise, .. } = case;
        let number = self.totals.judged;
        let fail = |states: Vec<CrashState>, rot, reason| Box::new(Failure { states, rot, window, reason });
        let found = match self.verdict.of_crash(image, record, (window, Loss::Nothing), number) {
            Ok(found) => found,
            Err(reason) => return Err(fail(vec![case.state], None, reason)),
        };
        self.totals.sent += found.sent;
        if let Some(rot) = self.draw_rot(hash, &case, items)
            && let Some((rotten, hash)) = self.verdict.rotten(image, hash, rot)
            && let Some(novelty) = self.is_due(hash, promise)
        {
            self.totals.rotten += u64::from(novelty == Novelty::New);
            if let Err(reason) = self.verdict.of_rot(&rotten, rot, record, window, number) {
                return Err(fail(vec![case.state], Some(rot), reason));
            }
        }
        if self.limits.nested_every == 0 || !number.is_multiple_of(self.limits.nested_every) {
            return Ok(found);
        }
        let recovery = self.recovery(image.clone());
        for (nested, hash) in self.states_during(&recovery) {
            let Some(novelty) = self.is_due(hash, promise) else { continue };
            let image = recovery.image(&nested).expect("a state of this history");
            self.totals.nested += u64::from(novelty == Novelty::New);
            match self.verdict.of_crash(&image, record, (window, Loss::Oldest), self.totals.judged) {
                Ok(found) => self.totals.sent += found.sent,
                Err(reason) => return Err(fail(vec![case.state, nested], None, reason)),
            }
        }
        Ok(found)
    }

    /// Draws the rot of a state, if one is due: a replicated place that the cut has not damaged, as a whole or in one bit, or
    /// one bit of the written log.
    fn draw_rot(&self, hash: u128, case: &Case<'_>, items: &[&Item]) -> Option<Rot> {
        let every = self.limits.rot_every;
        if every == 0 || !self.totals.judged.is_multiple_of(every) {
            return None;
        }
        let mut rng = seeded(hash as u64, "rot");
        let is_log = |item: &&Item| self.verdict.log().contains(&item.at_bytes);
        let written = case.history.items().iter().filter(|item| item.submitted_at < case.state.cut);
        let written: Vec<&Item> = written.filter(is_log).collect();
        if let Some(item) = written.choose(&mut rng)
            && rng.random_bool(0.5)
        {
            return Some(Rot::Bit(rng.random_range(item.at_bytes * 8..item.end_bytes() * 8)));
        }
        let places = self.verdict.replicated();
        let is_torn = items.iter().zip(&case.state.fates).any(|(item, fate)| {
            let torn = !matches!(fate, Fate::Lands | Fate::Missing);
            torn && places.iter().any(|p| item.at_bytes < p.range.end && p.range.start < item.end_bytes())
        });
        if is_torn || places.is_empty() {
            return None;
        }
        let place = rng.random_range(0..places.len());
        let bit = rng.random_range(0..1 << 20);
        // Most bits of a checkpoint slot are unused; if all of it is rotten, recovery begins with the other slot.
        let whole = if places[place].is_told { 0.5 } else { 0.9 };
        Some(if rng.random_bool(whole) { Rot::Place(place) } else { Rot::PlaceBit(place, bit) })
    }

    /// The requests of mounting an image, recovering it, and unmounting it again: the unmount at the latest writes everything
    /// that a mount writes.
    fn recovery(&self, image: SparseImage) -> History {
        let disk = Arc::new(CrashDisk::new(image, PHYSICAL_BLOCK_BYTES));
        // Whether it mounts was judged already, and the state after an unmount is judged like any other.
        if let Ok(mounted) = self.subject.mount(disk.clone()) {
            let _ = mounted.unmount();
        }
        disk.history()
    }

    /// Some of the planned states of a recovery, or of any other history, spread evenly over all of them: at most
    /// [`Limits::nested_states`], or a few more; each with the hash of its image.
    #[must_use]
    pub fn states_during(&self, recovery: &History) -> Vec<(CrashState, u128)> {
        let mut replay = Replay::new(recovery, DiscardMode::Zeros);
        let mut seen = FxHashSet::default();
        let mut all = Vec::new();
        for stretch in stretches(recovery) {
            replay.seek(stretch.cut);
            let items = volatile_items(&replay, recovery);
            for fates in self.limits.plan.states(stretch.cut, &items) {
                // If none of its writes landed, a recovery leaves its initial state, which was judged already.
                let is_new = fates.iter().any(|fate| *fate != Fate::Missing) || stretch.cut > 0;
                let hash = replay.hash_of(&fates);
                if is_new && seen.insert(hash) {
                    all.push((CrashState { cut: stretch.cut, fates, discards: DiscardMode::Zeros }, hash));
                }
            }
        }
        let step = all.len().div_ceil(self.limits.nested_states.max(1)).max(1);
        all.into_iter().step_by(step).collect()
    }
}

/// The behaviours of discards to try: several only if the history has discards.
fn discard_modes(history: &History, seed: u64) -> Vec<DiscardMode> {
    if history.items().iter().any(|item| matches!(item.kind, ItemKind::Discard)) {
        vec![DiscardMode::Zeros, DiscardMode::Old, DiscardMode::Garbage(seed), DiscardMode::Mixed(seed)]
    } else {
        vec![DiscardMode::Zeros]
    }
}

/// Whether a write of the cleaner is volatile.
fn is_cut_short(replay: &Replay<'_>, cleaning: &FxHashSet<u32>) -> bool {
    replay.volatile().iter().any(|index| cleaning.contains(index))
}

fn volatile_items<'h>(replay: &Replay<'h>, history: &'h History) -> Vec<&'h Item> {
    replay.volatile().iter().map(|&index| &history.items()[index as usize]).collect()
}
