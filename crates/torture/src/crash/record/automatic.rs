//! Automatic points: those that the volume makes by itself, because its retention says so.
//!
//! The run is watched: after each operation the record learns which automatic points there are, and what the new ones show. So it knows
//! each by its epoch, with the operation in which it was made and the one in which retention let it go. While the run goes on:
//!
//! 1. a new point shows the world before or after the operation in which it was made (or something between, if that changes content);
//! 2. retention lets the oldest go first: all rules of these histories keep each point equally long;
//! 3. after a sync, if a rule keeps all, some point shows the present world, unless there is none, or none has lasted
//!    ([`Watched::is_spaced`]).
//!
//! After a cut:
//!
//! 4. a point that was known shows what it showed. Another one is of the operation under way, of a mount that recovered the volume, or came
//!    and went within one operation: it shows what the present may show, or might have shown then;
//! 5. a point is there once another one has followed it, or an operation that waits for a checkpoint, until retention lets it go;
//! 6. no point is missing between two others;
//! 7. a point that had gone before an unmount does not come back;
//! 8. the rule is that of the world whose names were found.
//!
//! A [`Loss`] weakens 5 and 8.

use super::{Record, Window};
use crate::crash::op::Op;
use crate::crash::subject::Found;
use crate::crash::tree::{Content, Tree};
use crate::crash::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Why automatic points may be missing that were durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// They may not.
    Nothing,
    /// The volume was recovered once before: that mount may have let the oldest go.
    Oldest,
    /// A place that is stored twice has rotten: a checkpoint slot has the newest points alone, and the newest rule.
    Slot,
}

/// The automatic points of a run, as they were seen.
#[derive(Clone, Default)]
pub(super) struct Watched {
    lives: BTreeMap<u32, Life>,
    /// No point has lasted since the last mount. The volume may make them less often, until one is still there when the next one is made.
    is_spaced: bool,
    /// Operations in which a point may have come and gone, counted from 1: all older ones had gone.
    passing: Vec<usize>,
}

/// An automatic point, with the operations in which it was made and was let go, counted from 1.
#[derive(Clone)]
struct Life {
    tree: Arc<Tree>,
    made: usize,
    gone: Option<usize>,
}

impl Watched {
    /// Takes over what was found after operation `number`.
    fn note(&mut self, found: &Found, number: usize, is_mount: bool) {
        let is_first = self.lives.is_empty();
        let living = self.lives.iter_mut().filter(|(_, life)| life.gone.is_none());
        let lost = living.filter(|(epoch, _)| !found.contains_key(*epoch));
        lost.for_each(|(_, life)| life.gone = Some(number));
        if self.living().next().is_none() {
            self.passing.push(number);
            self.is_spaced |= !is_first;
        }
        for (epoch, tree) in found {
            if let Some(tree) = tree {
                self.lives.insert(*epoch, Life { tree: tree.clone(), made: number, gone: None });
            }
        }
        if is_mount || found.len() > 1 {
            self.is_spaced = false;
        }
    }

    fn living(&self) -> impl Iterator<Item = (&u32, &Life)> {
        self.lives.iter().filter(|(_, life)| life.gone.is_none())
    }

    /// The epoch of the newest point that was made in one of the first operations.
    fn newest_of(&self, ended: usize) -> Option<u32> {
        self.lives.iter().rev().find(|(_, life)| life.made <= ended).map(|(epoch, _)| *epoch)
    }
}

impl Record {
    /// Whether the volume was ever told to make automatic points.
    #[must_use]
    pub fn has_retention(&self) -> bool {
        self.worlds.iter().any(|world| world.retention().percent > 0)
    }

    /// The epochs of the automatic points that are known.
    #[must_use]
    pub fn known_automatic(&self) -> BTreeSet<u32> {
        self.automatic.lives.keys().copied().collect()
    }

    /// Notes the automatic points after the last operation.
    ///
    /// # Errors
    /// What the volume should not have made, let go, or left out, as text.
    pub fn note_automatic(&mut self, found: Found) -> Result<(), String> {
        let number = self.ops.len();
        for (epoch, tree) in &found {
            let known = self.automatic.lives.get(epoch);
            if known.is_some_and(|life| life.gone.is_some()) {
                return Err(format!("the automatic point of epoch {epoch} is there again"));
            }
            if let Some(tree) = tree {
                let shows = self.is_of_moment(tree, number);
                shows.map_err(|why| format!("the automatic point of epoch {epoch} is new: {why}"))?;
            }
        }
        let is_mount = matches!(self.ops.last(), Some(Op::Remount));
        self.automatic.note(&found, number, is_mount);
        let gone = self.automatic.lives.iter().rev().find(|(_, life)| life.gone == Some(number));
        if let (Some((gone, _)), Some((oldest, _))) = (gone, found.first_key_value())
            && gone > oldest
        {
            return Err(format!("the automatic point of epoch {gone} went before that of {oldest}"));
        }
        self.requires_state_of_sync(number)
    }

    /// After a sync, some point shows the present.
    fn requires_state_of_sync(&self, number: usize) -> Result<(), String> {
        let world = self.world();
        let is_sync = matches!(self.ops.last(), Some(Op::Sync)) && self.names_floor.last() == Some(&number);
        let mut living = self.automatic.living().map(|(_, life)| &life.tree).peekable();
        if !is_sync || !keeps_all(world) || self.automatic.is_spaced || living.peek().is_none() {
            return Ok(());
        }
        let present = world.tree();
        // The newest is it, mostly.
        let trees: Vec<&Arc<Tree>> = living.chain(world.points().values()).collect();
        match trees.iter().rev().any(|tree| present.same_files(tree).is_ok()) {
            true => Ok(()),
            false => Err("no automatic point shows what was synced".to_owned()),
        }
    }

    /// Whether a point that is made during an operation may show that.
    fn is_of_moment(&self, tree: &Tree, number: usize) -> Result<(), String> {
        let are_alike = |known: &Content, found: &Content| self.alike.are(known, found);
        let is_as = |n: usize| self.worlds[n].tree().same_files_by(tree, &are_alike);
        let Err(why) = is_as(number) else { return Ok(()) };
        if is_as(number - 1).is_ok() {
            return Ok(());
        }
        match self.ops[number - 1] {
            Op::Write { .. }
            | Op::Truncate { .. }
            | Op::Punch { .. }
            | Op::Allocate { .. }
            | Op::ZeroRange { .. } => {
                self.judge_state(tree, Window { ended: number - 1, begun: number }, &|_, _| Ok(()))
            }
            _ => Err(format!("it does not show the world after operation {number}: {why}")),
        }
    }

    /// Judges the automatic points of a tree, and its rule for them.
    pub(super) fn judge_automatic(&self, tree: &Tree, window: Window, loss: Loss) -> Result<(), String> {
        for (epoch, found) in tree.automatic() {
            self.judge_one(*epoch, found, window, loss)
                .map_err(|why| format!("the automatic point of epoch {epoch}: {why}"))?;
        }
        let lives = &self.automatic.lives;
        let found = tree.automatic();
        let ends = found.first_key_value().zip(found.last_key_value());
        let (oldest, newest) = ends.map_or((u32::MAX, 0), |((oldest, _), (newest, _))| (*oldest, *newest));
        // The newest may be the recovery's.
        let newest = if loss == Loss::Oldest { self.newest_followed(window).unwrap_or(0) } else { newest };
        for (epoch, life) in lives.iter().filter(|(epoch, _)| !found.contains_key(*epoch)) {
            let is_between = (oldest..newest).contains(epoch) && life.made <= window.ended;
            let is_required = match loss {
                Loss::Nothing => self.stays(*epoch, life, window),
                Loss::Oldest => *epoch > oldest && self.stays(*epoch, life, window),
                Loss::Slot => false,
            };
            if is_between || is_required {
                let there: Vec<&u32> = found.keys().collect();
                return Err(format!(
                    "the automatic point of epoch {epoch}, of operation {}, is missing beside {there:?}",
                    life.made
                ));
            }
        }
        Ok(())
    }

    fn judge_one(&self, epoch: u32, found: &Tree, window: Window, loss: Loss) -> Result<(), String> {
        let life = self.automatic.lives.get(&epoch).filter(|life| life.made <= window.begun);
        if let Some(life) = life {
            match life.tree.same_files_by(found, &|known, found| self.alike.are(known, found)) {
                Ok(()) => return self.has_not_come_back(life, window),
                Err(why) if loss != Loss::Oldest || self.is_followed(epoch, life, window) => {
                    return Err(format!(
                        "it was made in operation {}, and shows something else: {why}",
                        life.made
                    ));
                }
                // A recovery has made another one of that epoch.
                Err(_) => {}
            }
        }
        let passing = self.automatic.passing.iter().rev().filter(|number| **number <= window.begun);
        if passing.clone().any(|number| self.is_of_moment(found, *number).is_ok()) {
            return Ok(());
        }
        match self.newest_followed(window).is_some_and(|newest| epoch < newest) {
            false => self.judge_state(found, window, &|_, _| Ok(())),
            true => Err("nobody saw it being made, and it shows no moment when that could be".to_owned()),
        }
    }

    fn has_not_come_back(&self, life: &Life, window: Window) -> Result<(), String> {
        let is_final =
            |unmount: &usize| life.gone.is_some_and(|gone| gone < *unmount) && *unmount <= window.ended;
        match self.unmounts.iter().any(is_final) {
            true => Err("it is there, but had gone before an unmount".to_owned()),
            false => Ok(()),
        }
    }

    /// Whether a point must be there.
    fn stays(&self, epoch: u32, life: &Life, window: Window) -> bool {
        life.gone.is_none_or(|gone| gone > window.begun) && self.is_followed(epoch, life, window)
    }

    /// Whether its checkpoint is durable: the next one begins only then, and some operations wait for it.
    fn is_followed(&self, epoch: u32, life: &Life, window: Window) -> bool {
        let has_waited = |n: &usize| (life.made..=window.ended).contains(n);
        self.automatic.newest_of(window.ended).is_some_and(|newest| newest > epoch)
            || self.checkpointed.iter().any(has_waited)
    }

    fn newest_followed(&self, window: Window) -> Option<u32> {
        let mut lives = self.automatic.lives.iter().rev();
        lives.find(|(epoch, life)| self.is_followed(**epoch, life, window)).map(|(epoch, _)| *epoch)
    }

    /// A number that grows when more automatic points must be there.
    pub(super) fn automatic_floor(&self, ended: usize) -> usize {
        self.automatic.lives.values().map(|life| life.made).filter(|made| *made <= ended).max().unwrap_or(0)
    }
}

/// Whether each sync becomes a point.
fn keeps_all(world: &World) -> bool {
    world.retention().percent > 0 && world.retention().rules.iter().any(|rule| rule.every_s == 0)
}
