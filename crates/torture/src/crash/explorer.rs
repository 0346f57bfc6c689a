//! `Explorer`: builds crash states, mounts them and judges what is there.
//!
//! A state is looked at once for each promise it is held to: images are told apart by their hash, promises by
//! [`Record::floor`]. Everything follows from the scenario and the plan's seed, so that the text of a state is all that
//! is needed to see a failure again.

use super::plan::Plan;
use super::record::{Record, Window};
use super::runner::{PHYSICAL_BLOCK_BYTES, Run, Stretch, stretches};
use super::subject::Subject;
use super::tree::Tree;
use firnfs_device::{MemDevice, SparseImage};
use firnfs_sim::crash::{Item, ItemKind};
use firnfs_sim::{CrashDisk, CrashState, DiscardMode, Fate, History, Replay, fill_garbage, seeded};
use rand::RngExt;
use rustc_hash::FxHashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Stretches at the end of a run that count as late: about the last batch.
const LATE_STRETCHES: usize = 10;

/// Bounds of an exploration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Which states of a history to look at.
    pub plan: Plan,
    /// Every how many-th state is mounted on a disk that crashes again during recovery; 0 for none.
    pub nested_every: u64,
    /// How many states of such a recovery to look at, spread over all of them.
    pub nested_states: usize,
    /// Every how many-th state is looked at again with rot in one of the places that are kept twice; 0 for none.
    pub rot_every: u64,
    /// Whether the structure is checked after each mount.
    pub check: bool,
    /// Planned states of one scenario beyond which only every n-th is looked at.
    pub states_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            plan: Plan::default(),
            nested_every: 40,
            nested_states: 12,
            rot_every: 5,
            check: true,
            states_max: 50_000,
        }
    }
}

/// What has been looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Scenarios explored.
    pub scenarios: u64,
    /// Distinct crash states mounted and judged, nested ones included.
    pub states: u64,
    /// Of these, states of a recovery that was cut itself.
    pub nested: u64,
    /// Of these, states with rot in something that is kept twice.
    pub rotten: u64,
    /// Of these, states of a repair that was cut.
    pub mended: u64,
    /// States left out because an equal one had been judged.
    pub duplicates: u64,
}

impl Totals {
    /// Adds those of another explorer.
    pub fn add(&mut self, other: &Self) {
        self.scenarios += other.scenarios;
        self.states += other.states;
        self.nested += other.nested;
        self.rotten += other.rotten;
        self.mended += other.mended;
        self.duplicates += other.duplicates;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} distinct crash states ({} during recovery, {} with rot, {} during repair) of {} scenarios, {} duplicates left out",
            self.states, self.nested, self.rotten, self.mended, self.scenarios, self.duplicates
        )
    }
}

/// A state that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The state; a second one is a state of the recovery of the first.
    pub states: Vec<CrashState>,
    /// Which of [`Subject::replicated`] holds garbage besides.
    pub rot: Option<usize>,
    /// What had ended and begun.
    pub window: Window,
    /// What is wrong, in words.
    pub reason: String,
}

impl Failure {
    /// The states as text, as [`Explorer::replay`] takes them.
    #[must_use]
    pub fn cuts(&self) -> String {
        let states = self.states.iter().map(ToString::to_string);
        let rot = self.rot.map(|place| format!("rot{place}"));
        states.chain(rot).collect::<Vec<_>>().join(",")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Window { ended, begun } = self.window;
        write!(f, "{}: after {ended} operations ({begun} begun): {}", self.cuts(), self.reason)
    }
}

/// See the module's head.
pub struct Explorer<'s> {
    subject: &'s dyn Subject,
    limits: Limits,
    totals: Totals,
}

impl<'s> Explorer<'s> {
    /// Explores a file system within limits.
    #[must_use]
    pub fn new(subject: &'s dyn Subject, limits: Limits) -> Self {
        Self { subject, limits, totals: Totals::default() }
    }

    /// What has been looked at so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Looks at the planned states of a run.
    ///
    /// # Errors
    /// The first state that breaks a promise.
    pub fn explore(&mut self, run: &Run) -> Result<(), Box<Failure>> {
        self.totals.scenarios += 1;
        let stretches = stretches(&run.history);
        let mut seen = FxHashSet::default();
        let modes = self.discard_modes(&run.history);
        let planned = modes.len() as u64 * self.planned(&run.history, &stretches);
        let every = planned.div_ceil(self.limits.states_max.max(1)).max(1);
        let mut number = 0;
        for discards in modes {
            let mut replay = Replay::new(&run.history, discards);
            for &Stretch { cut, window } in &stretches {
                replay.seek(cut);
                let floor = run.record.floor(window.ended);
                let items = volatile_items(&replay, &run.history);
                for fates in self.limits.plan.states(cut, &items) {
                    number += 1;
                    if number % every != 0 {
                        continue;
                    }
                    if !seen.insert((replay.hash_of(&fates), floor)) {
                        self.totals.duplicates += 1;
                        continue;
                    }
                    let image = replay.image_of(&fates);
                    let state = CrashState { cut, fates, discards };
                    self.judge(image, state, &items, &run.record, window)?;
                }
            }
        }
        Ok(())
    }

    /// Judges one state again, by its text (`cuts` of a failure).
    ///
    /// # Errors
    /// The failure, or that the text does not fit the run.
    pub fn replay(&mut self, run: &Run, cuts: &str) -> Result<(), String> {
        let (cuts, rot) = match cuts.rsplit_once(",rot") {
            None => (cuts, None),
            Some((cuts, place)) => (cuts, Some(place.parse::<usize>().map_err(|e| e.to_string())?)),
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
        if let Some(place) = rot {
            let places = self.subject.replicated();
            rot_away(&mut image, places.get(place).ok_or("there is no such place to rot")?);
        }
        self.verdict(image, &run.record, window).map(drop)
    }

    /// A random state of a run (one of its last, if `late`), and what a mount finds there: where the next round of
    /// crash - write - crash begins.
    ///
    /// # Errors
    /// If the state does not mount.
    pub fn pick(&self, run: &Run, seed: u64, late: bool) -> Result<(SparseImage, Tree), String> {
        let mut rng = seeded(seed, "pick");
        let mut stretches = stretches(&run.history);
        let skipped = if late { stretches.len().saturating_sub(LATE_STRETCHES) } else { 0 };
        stretches.drain(..skipped);
        let stretch = stretches[rng.random_range(0..stretches.len())];
        let mut replay = Replay::new(&run.history, DiscardMode::Mixed(seed));
        replay.seek(stretch.cut);
        let items = volatile_items(&replay, &run.history);
        let mut states = self.limits.plan.states(stretch.cut, &items);
        let fates = states.swap_remove(rng.random_range(0..states.len()));
        let image = replay.image_of(&fates);
        let tree = self.subject.mount(Arc::new(MemDevice::from_image(image.clone())))?.tree()?;
        Ok((image, tree))
    }

    /// Number of states that the plan has for a history, in one world.
    fn planned(&self, history: &History, stretches: &[Stretch]) -> u64 {
        let mut replay = Replay::new(history, DiscardMode::Old);
        let mut planned = 0;
        for stretch in stretches {
            replay.seek(stretch.cut);
            let items = volatile_items(&replay, history);
            planned += self.limits.plan.states(stretch.cut, &items).len() as u64;
        }
        planned
    }

    /// Discards make worlds of their own only where there are any.
    fn discard_modes(&self, history: &History) -> Vec<DiscardMode> {
        let seed = self.limits.plan.seed;
        if history.items().iter().any(|item| matches!(item.kind, ItemKind::Discard)) {
            vec![DiscardMode::Zeros, DiscardMode::Old, DiscardMode::Garbage(seed), DiscardMode::Mixed(seed)]
        } else {
            vec![DiscardMode::Zeros]
        }
    }

    fn judge(
        &mut self,
        image: SparseImage,
        state: CrashState,
        items: &[&Item],
        record: &Record,
        window: Window,
    ) -> Result<(), Box<Failure>> {
        self.totals.states += 1;
        let fail = |states: Vec<CrashState>, rot, reason| Box::new(Failure { states, rot, window, reason });
        let nests =
            self.limits.nested_every > 0 && self.totals.states.is_multiple_of(self.limits.nested_every);
        if let Err(reason) = self.verdict(image.clone(), record, window) {
            return Err(fail(vec![state], None, reason));
        }
        if let Some((place, rotten)) = self.rotten(&image, &state, items) {
            self.totals.states += 1;
            self.totals.rotten += 1;
            if let Err(reason) = self.verdict(rotten, record, window) {
                return Err(fail(vec![state], Some(place), reason));
            }
        }
        if !nests {
            return Ok(());
        }
        let recovery = self.recovery(image);
        for nested in self.states_during(&recovery) {
            let image = recovery.image(&nested).expect("a state of this history");
            self.totals.states += 1;
            self.totals.nested += 1;
            if let Err(reason) = self.verdict(image, record, window) {
                return Err(fail(vec![state, nested], None, reason));
            }
        }
        Ok(())
    }

    /// The image with one of the places that are kept twice rotten, if it is this state's turn and the cut itself has
    /// damaged none of them.
    fn rotten(
        &self,
        image: &SparseImage,
        state: &CrashState,
        items: &[&Item],
    ) -> Option<(usize, SparseImage)> {
        let places = self.subject.replicated();
        let (every, count) = (self.limits.rot_every, places.len() as u64);
        if every == 0 || count == 0 || !self.totals.states.is_multiple_of(every) {
            return None;
        }
        let damaged = items.iter().zip(&state.fates).any(|(item, fate)| {
            let torn = !matches!(fate, Fate::Lands | Fate::Missing);
            torn && places.iter().any(|place| item.at_bytes < place.end && place.start < item.end_bytes())
        });
        let place = (self.totals.states / every % count) as usize;
        let mut image = image.clone();
        rot_away(&mut image, &places[place]);
        (!damaged).then_some((place, image))
    }

    /// Mounts an image and judges what is there.
    fn verdict(&self, image: SparseImage, record: &Record, window: Window) -> Result<(), String> {
        let device = Arc::new(MemDevice::from_image(image));
        let mut mounted =
            self.subject.mount(device.clone()).map_err(|why| format!("does not mount: {why}"))?;
        let tree = mounted.tree().map_err(|why| format!("cannot be walked: {why}"))?;
        drop(mounted);
        record.judge(&tree, window)?;
        if self.limits.check {
            let device = Arc::new(MemDevice::from_image(device.image()));
            self.subject.check(device).map_err(|why| format!("the check after recovery finds: {why}"))?;
        }
        Ok(())
    }

    /// What a disk is asked while the image on it is mounted, recovered, and unmounted again: everything that a mount
    /// writes is written at the latest then.
    fn recovery(&self, image: SparseImage) -> History {
        let disk = Arc::new(CrashDisk::new(image, PHYSICAL_BLOCK_BYTES));
        // That it mounts was judged already, and what an unmount leaves behind is judged like any other state.
        if let Ok(mounted) = self.subject.mount(disk.clone()) {
            let _ = mounted.unmount();
        }
        disk.history()
    }

    /// Some of the planned states of a recovery, or of anything else that was done to a disk, spread evenly over all of
    /// them: [`Limits::nested_states`] at most, or a few more.
    #[must_use]
    pub fn states_during(&self, recovery: &History) -> Vec<CrashState> {
        let mut replay = Replay::new(recovery, DiscardMode::Zeros);
        let mut seen = FxHashSet::default();
        let mut all = Vec::new();
        for stretch in stretches(recovery) {
            replay.seek(stretch.cut);
            let items = volatile_items(&replay, recovery);
            for fates in self.limits.plan.states(stretch.cut, &items) {
                // Without any of its writes a recovery leaves the state it began with, judged already.
                let is_new = fates.iter().any(|fate| *fate != Fate::Missing) || stretch.cut > 0;
                if is_new && seen.insert(replay.hash_of(&fates)) {
                    all.push(CrashState { cut: stretch.cut, fates, discards: DiscardMode::Zeros });
                }
            }
        }
        let step = all.len().div_ceil(self.limits.nested_states.max(1)).max(1);
        all.into_iter().step_by(step).collect()
    }
}

/// Fills a place with garbage.
fn rot_away(image: &mut SparseImage, place: &Range<u64>) {
    let mut garbage = vec![0; (place.end - place.start) as usize];
    fill_garbage(0, place.start, &mut garbage);
    image.write(place.start, &garbage);
}

fn volatile_items<'h>(replay: &Replay<'h>, history: &'h History) -> Vec<&'h Item> {
    replay.volatile().iter().map(|&index| &history.items()[index as usize]).collect()
}
