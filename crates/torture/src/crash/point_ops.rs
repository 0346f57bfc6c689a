//! Histories with retained points: users overwrite, remove and rename files that points have seen, the cleaner moves their
//! blocks, and points are made and dropped in between, several drops in a row, also across remounts. Clones of points are made,
//! changed and deleted. Every fourth history ends with a rollback, and another one that undoes it.

use super::op::{CLONES, Op};
use super::rollback_ops::roll_back;
use super::shape::{History, overwrite};
use super::tree::NodeKind;
use super::world::World;
use firnfs_sim::seeded;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_pcg::Pcg64;

/// Points at a time: each may hold as much as the present.
const POINTS_MAX: usize = 3;
/// Clones at a time.
const CLONES_MAX: usize = 2;
const SMALL_FILES: u64 = 20;
/// Large enough for an indirect block that covers only a part of the file.
const LARGE_BYTES: u64 = 200 << 10;
const ROUNDS: u32 = 60;

pub(super) fn ops(seed: u64) -> Vec<Op> {
    let mut rng = seeded(seed, "points");
    let mut history = History::default();
    history.push(Op::Mkdir("D".into()));
    for file in ["large0", "large1"] {
        history.push(Op::Create(file.into()));
        history.push(Op::Write { path: file.into(), at_bytes: 0, len_bytes: LARGE_BYTES, tag: seed << 20 });
    }
    for number in 0..SMALL_FILES {
        let path = format!("D/s{number}");
        history.push(Op::Create(path.clone()));
        let len_bytes = rng.random_range(1..6000);
        history.push(Op::Write { path, at_bytes: 0, len_bytes, tag: seed << 20 | 0xf_0000 | number });
    }
    history.push(point(&history));
    for _ in 0..ROUNDS {
        round(&mut history, &mut rng, seed);
    }
    if seed % 4 == 3 {
        there_and_back(&mut history, seed);
    }
    history.ops
}

/// Rolls the volume back to its oldest point, and back again. Other points go first, because both rollbacks need room.
fn there_and_back(history: &mut History, seed: u64) {
    let mut rng = seeded(seed, "rollback");
    let number = |name: &&String| name[1..].parse::<u64>().ok();
    let Some(oldest) = history.world.points().keys().min_by_key(number).cloned() else { return };
    let clones: Vec<String> = history.world.clones().map(|(name, _)| name.to_owned()).collect();
    clones.into_iter().for_each(|name| history.push(Op::DropClone(name)));
    let others: Vec<String> =
        history.world.points().keys().filter(|name| **name != oldest).cloned().collect();
    others.into_iter().for_each(|name| history.push(Op::DropPoint(name)));
    let undo = "before-rollback".to_owned();
    history.push(Op::Idle { ms: rng.random_range(6_000..12_000) });
    history.push(Op::MakePoint(undo.clone()));
    roll_back(history, &oldest, &mut rng);
    history.push(Op::Idle { ms: rng.random_range(1..12_000) });
    roll_back(history, &undo, &mut rng);
}

fn round(history: &mut History, rng: &mut Pcg64, seed: u64) {
    let tag = seed << 20 | history.ops.len() as u64;
    for part in 0..rng.random_range(0..3) {
        change(history, rng, tag << 2 | part);
    }
    let more = match rng.random_range(0..20) {
        0..3 => clone_of_one(history, rng),
        3 => drop_of_clone(&history.world, rng),
        _ => None,
    };
    more.into_iter().for_each(|op| history.push(op));
    if rng.random_bool(0.4) {
        change_in_both(history, rng, tag << 2 | 3);
    }
    match rng.random_range(0..100) {
        0..45 => {
            for _ in 0..rng.random_range(1..16) {
                history.push(Op::CleanStep);
            }
        }
        45..57 => history.push(point(history)),
        57..62 => {
            let op = held_back(history, rng, tag).unwrap_or(Op::Sync);
            history.push(op);
        }
        62..67 => history.push(drop_of_one(&history.world, rng).unwrap_or(Op::Sync)),
        67..75 => history.push(Op::Step { ms: rng.random_range(0..6000) }),
        75..83 => history.push(Op::Idle { ms: rng.random_range(1..12_000) }),
        83..90 => history.push(Op::Sync),
        90..95 => history.push(Op::Fsync("large0".into())),
        _ => history.push(Op::Remount),
    }
}

fn change(history: &mut History, rng: &mut Pcg64, tag: u64) {
    let files = history.files("D/");
    let small = files.choose(rng).cloned().unwrap_or_else(|| "D/s0".to_owned());
    let large = format!("large{}", rng.random_range(0..2));
    let fresh = format!("D/s{}", rng.random_range(0..SMALL_FILES));
    history.push(match rng.random_range(0..20) {
        0..8 => overwrite(rng, large, 24 << 10, LARGE_BYTES, tag),
        8..11 => Op::Write { path: small, at_bytes: 0, len_bytes: rng.random_range(1..9000), tag },
        11..13 => Op::Unlink(small),
        13..15 => Op::Create(fresh),
        15 => Op::Rename { from: small, to: fresh },
        16 => Op::Truncate { path: small, size_bytes: rng.random_range(0..5000) },
        17 => Op::Chmod { path: small, mode: rng.random_range(0..0o1000) },
        18 => Op::SetXattr { path: small, name: "k".into(), len_bytes: rng.random_range(1..5000), tag },
        _ => Op::Punch { path: large, at_bytes: 4096 * rng.random_range(0..40), len_bytes: 20_000 },
    });
}

/// Makes a point, unless there are enough.
fn point(history: &History) -> Op {
    make(&history.world, format!("p{}", history.ops.len())).unwrap_or(Op::Sync)
}

/// Makes a point with a name that no point has had: a point that is being dropped keeps its name.
fn make(world: &World, name: String) -> Option<Op> {
    (world.points().len() < POINTS_MAX).then_some(Op::MakePoint(name))
}

/// Changes that a replica receives, unless there are enough points.
fn held_back(history: &History, rng: &mut Pcg64, tag: u64) -> Option<Op> {
    let name = format!("r{}", history.ops.len());
    let mut changes = History { ops: Vec::new(), world: history.world.clone() };
    for part in 0..rng.random_range(1..6) {
        change(&mut changes, rng, tag << 3 | part);
        if rng.random_bool(0.3) {
            changes.push(Op::Step { ms: rng.random_range(0..6000) });
        }
    }
    make(&history.world, name.clone()).map(|_| Op::HeldBack { changes: changes.ops, name })
}

/// Drops a point that is not the origin of a clone.
fn drop_of_one(world: &World, rng: &mut Pcg64) -> Option<Op> {
    let is_free = |name: &&String| !world.clones().any(|(_, point)| point == *name);
    let names: Vec<&String> = world.points().keys().filter(is_free).collect();
    names.choose(rng).map(|name| Op::DropPoint((*name).clone()))
}

/// Makes a clone of a point, unless there are enough.
fn clone_of_one(history: &History, rng: &mut Pcg64) -> Option<Op> {
    let points: Vec<&String> = history.world.points().keys().collect();
    let has_room = history.world.clones().count() < CLONES_MAX;
    let point = points.choose(rng).filter(|_| has_room)?;
    Some(Op::MakeClone { point: (*point).clone(), name: format!("c{}", history.ops.len()) })
}

fn drop_of_clone(world: &World, rng: &mut Pcg64) -> Option<Op> {
    let clones: Vec<&str> = world.clones().map(|(name, _)| name).collect();
    clones.choose(rng).map(|name| Op::DropClone((*name).to_owned()))
}

/// Changes something in a clone, and often the same file in the volume itself: the block that the clone shares dies there.
fn change_in_both(history: &mut History, rng: &mut Pcg64, tag: u64) {
    let Some((path, op)) = change_of_clone(&history.world, rng, tag) else { return };
    history.push(op);
    let size_bytes = history.world.list().into_iter().find(|(known, ..)| *known == path).map(|found| found.2);
    if let Some(size_bytes) = size_bytes.filter(|_| rng.random_bool(0.5)) {
        let len_bytes = size_bytes.clamp(1, 24 << 10);
        let at_bytes = rng.random_range(0..=size_bytes.saturating_sub(len_bytes));
        history.push(Op::Write { path, at_bytes, len_bytes, tag: tag ^ 0x8_0000 });
    }
}

/// A change or a sync of something in a clone, and the path in the volume itself of the original.
fn change_of_clone(world: &World, rng: &mut Pcg64, tag: u64) -> Option<(String, Op)> {
    let clones: Vec<&str> = world.clones().map(|(name, _)| name).collect();
    let above = format!("{CLONES}{}/", clones.choose(rng)?);
    let is_file =
        |(path, kind, _): &(String, NodeKind, u64)| *kind == NodeKind::File && path.starts_with(&above);
    let files: Vec<(String, NodeKind, u64)> = world.list().into_iter().filter(is_file).collect();
    let (path, _, size_bytes) = files.choose(rng)?.clone();
    let (fresh, below) = (format!("{above}new{tag}"), path[above.len()..].to_owned());
    let op = match rng.random_range(0..16) {
        0..4 if size_bytes > 0 => {
            let at_bytes = rng.random_range(0..size_bytes);
            Op::Write { path, at_bytes, len_bytes: rng.random_range(1..20_000), tag }
        }
        0..5 => Op::Write { path, at_bytes: 0, len_bytes: rng.random_range(1..9_000), tag },
        // Then the record is the clone's own, and it shares everything below the record.
        5 => Op::SetXattr { path, name: "k".into(), len_bytes: rng.random_range(1..5_000), tag },
        11..15 => Op::Chmod { path, mode: rng.random_range(0..0o1000) },
        6 => Op::Unlink(path),
        7 => Op::Create(fresh),
        8 => Op::Rename { from: path, to: fresh },
        9 => Op::Truncate { path, size_bytes: rng.random_range(0..5_000) },
        10 => Op::Punch { path, at_bytes: 4096 * rng.random_range(0..8), len_bytes: 20_000 },
        _ => Op::Fsync(path),
    };
    Some((below, op))
}

/// Points made and dropped between the operations of another history, on a volume that holds `world`.
pub(super) fn among(world: &World, ops: Vec<Op>, seed: u64) -> Vec<Op> {
    let mut rng = seeded(seed, "points between");
    let mut history = History { ops: Vec::new(), world: world.clone() };
    for op in ops {
        history.push(op);
        let more = match rng.random_range(0..16) {
            0 => make(&history.world, format!("p{seed}.{}", history.ops.len())),
            1 => drop_of_one(&history.world, &mut rng),
            2 => clone_of_one(&history, &mut rng),
            3 => drop_of_clone(&history.world, &mut rng),
            4..6 => {
                let tag = seed << 20 | 0xe_0000 | history.ops.len() as u64;
                change_in_both(&mut history, &mut rng, tag);
                None
            }
            _ => None,
        };
        more.into_iter().for_each(|op| history.push(op));
    }
    history.ops
}
