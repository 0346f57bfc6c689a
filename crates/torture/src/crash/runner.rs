//! Carries a scenario out on a crash disk and on the model.

use super::op::Op;
use super::record::{Record, Window};
use super::streams::replicate;
use super::subject::{Mounted, Refusal, Subject};
use super::world::World;
use firnfs_device::SparseImage;
use firnfs_sim::crash::Event;
use firnfs_sim::{CrashDisk, History};
use std::sync::Arc;

/// Physical block of the explorer's disks, in bytes.
pub const PHYSICAL_BLOCK_BYTES: u32 = 4096;

/// A run: what happened on the disk, and in the world.
pub struct Run {
    /// Requests and marks; see [`stretches`].
    pub history: History,
    /// Worlds and promises.
    pub record: Record,
}

/// Mounts `image`, which holds `world`, and carries out `ops`.
///
/// # Errors
/// As text, if the file system does not mount, fails, disagrees with the model on whether an operation is possible, or
/// has concurrent writes to one place under way.
pub fn run(subject: &dyn Subject, image: SparseImage, world: World, ops: &[Op]) -> Result<Run, String> {
    let disk = Arc::new(CrashDisk::new(image, PHYSICAL_BLOCK_BYTES));
    let mut record = Record::of(world, subject.promise());
    let mut mounted = subject.mount(disk.clone()).map_err(|why| format!("does not mount: {why}"))?;
    if record.has_points() {
        record.streams.note(mounted.as_mut())?;
    }
    for (index, op) in ops.iter().enumerate() {
        let place = |why: String| format!("operation {} ({op}): {why}", index + 1);
        disk.mark(2 * index as u64);
        if *op == Op::Remount {
            mounted.unmount().map_err(place)?;
            mounted = subject.mount(disk.clone()).map_err(place)?;
            let mut world = record.world().clone();
            world.apply(op).map_err(|why| place(why.to_owned()))?;
            record.push(op.clone(), true, world);
        } else {
            let is_done = step(mounted.as_mut(), op, &mut record).map_err(place)?;
            if !is_done && matches!(op, Op::HeldBack { .. }) {
                drop(mounted);
                mounted = subject.mount(disk.clone()).map_err(place)?;
                drop_again(mounted.as_mut(), record.world()).map_err(place)?;
            }
        }
        if record.has_retention() {
            let found = mounted.look_for_automatic(&record.known_automatic()).map_err(place)?;
            record.note_automatic(found).map_err(place)?;
        }
        if op.changes_points() {
            record.streams.note(mounted.as_mut()).map_err(place)?;
        } else if *op == Op::Remount {
            record.streams.send_again(mounted.as_mut()).map_err(place)?;
        }
        disk.mark(2 * index as u64 + 1);
    }
    sends_to_the_end(subject, mounted.as_mut(), &record).map_err(|why| format!("at the end: {why}"))?;
    let history = disk.history();
    match history.hazards().first() {
        Some(hazard) => Err(format!("the order of writes is undefined: {hazard}")),
        None => Ok(Run { history, record }),
    }
}

/// Drops the points that a mount finds although they were dropped: only an unmount makes that durable.
fn drop_again(mounted: &mut (dyn Mounted + '_), world: &World) -> Result<(), String> {
    for name in mounted.tree()?.points().keys().filter(|name| !world.points().contains_key(*name)) {
        mounted
            .apply(&Op::DropPoint(name.clone()))
            .map_err(|e| format!("{name:?} is not dropped again: {e:?}"))?;
    }
    Ok(())
}

/// Requires that all that was sent of points that are still there is sent again, and that a replica receives them.
fn sends_to_the_end(
    subject: &dyn Subject,
    mounted: &mut (dyn Mounted + '_),
    record: &Record,
) -> Result<(), String> {
    if record.world().points().is_empty() {
        return Ok(());
    }
    record.streams.send_again(mounted)?;
    replicate(subject, mounted, record.world().points())
}

/// Returns whether the operation was carried out.
fn step(mounted: &mut (dyn Mounted + '_), op: &Op, record: &mut Record) -> Result<bool, String> {
    let mut world = record.world().clone();
    let expected = world.apply(op);
    let found = mounted.apply(op);
    let is_done = found.is_ok();
    match (found, expected) {
        (Ok(()), Ok(())) => record.push(op.clone(), true, world),
        (Err(Refusal::Invalid(_)), Err(_)) => record.push(op.clone(), false, record.world().clone()),
        (Err(Refusal::NoSpace), _) => {
            let mut world = record.world().clone();
            if let Op::Write { path, .. }
            | Op::Allocate { path, .. }
            | Op::ZeroRange { path, .. }
            | Op::CopyBack { path, .. } = op
            {
                world.adopt_content(path, &mounted.tree()?);
            }
            record.push(op.clone(), false, world);
        }
        (Err(Refusal::Broken(why)), _) => return Err(why),
        (Ok(()), Err(why)) => return Err(format!("succeeded, although: {why}")),
        (Err(Refusal::Invalid(why)), Ok(())) => return Err(format!("refused: {why}")),
    }
    Ok(is_done)
}

/// A stretch of a history in which the disk does not change: a cut anywhere in it leaves the same states. The strictest
/// judgement combines what had begun at its start with what had ended at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    /// First cut in it.
    pub cut: usize,
    /// The progress of the operations.
    pub window: Window,
}

/// All stretches of a history whose marks were made by [`run`], in order.
#[must_use]
pub fn stretches(history: &History) -> Vec<Stretch> {
    let mut stretches = vec![Stretch { cut: 0, window: Window { ended: 0, begun: 0 } }];
    let (mut ended, mut begun) = (0, 0);
    for (index, event) in history.events().iter().enumerate() {
        let last = stretches.last_mut().expect("never empty");
        match event {
            Event::Mark(mark) if mark % 2 == 0 => begun = *mark as usize / 2 + 1,
            Event::Mark(mark) => {
                ended = *mark as usize / 2 + 1;
                last.window.ended = ended;
            }
            Event::Submitted(_) | Event::FlushDone(_) => {
                stretches.push(Stretch { cut: index + 1, window: Window { ended, begun } });
            }
            Event::Done(_) | Event::Flush(_) => {}
        }
    }
    stretches
}
