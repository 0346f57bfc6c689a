//! Histories of a volume that makes points by itself: users overwrite, remove and rename what it has kept, sync, and let time pass, so
//! that commits by age are points, too; the rule changes; the volume is mounted anew. In three of four, points have to give way: to a
//! small share, or to files and reserved room.

use super::op::Op;
use super::shape::{History, overwrite};
use firnfs_format::checkpoint::{Retention, Rule};
use firnfs_sim::seeded;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_pcg::Pcg64;

/// Points with names at a time.
const NAMED_MAX: usize = 2;
/// Few, because each state is read with all its points.
const SMALL_FILES: u64 = 8;
/// Large enough for an indirect block that covers only a part of the file.
const LARGE_BYTES: u64 = 100 << 10;
const ROUNDS: u32 = 45;
/// Operations between the states of [`kept`].
const OPS_KEPT: usize = 5;
/// Keeps points for longer than a history lasts: the oldest always go first.
const HOUR: Rule = Rule { every_s: 0, for_s: 3_600 };

pub(super) fn ops(seed: u64) -> Vec<Op> {
    let mut rng = seeded(seed, "retained");
    let mut history = History::default();
    history.push(Op::Retain(rule(if seed % 4 == 1 { 2 } else { 60 })));
    history.push(Op::Mkdir("D".into()));
    history.push(Op::Create("large".into()));
    history.push(Op::Write { path: "large".into(), at_bytes: 0, len_bytes: LARGE_BYTES, tag: seed << 20 });
    for number in 0..SMALL_FILES {
        let path = format!("D/s{number}");
        history.push(Op::Create(path.clone()));
        let len_bytes = rng.random_range(1..6000);
        history.push(Op::Write { path, at_bytes: 0, len_bytes, tag: seed << 20 | 0xf_0000 | number });
    }
    if seed % 4 > 1 {
        // Room that is reserved takes no time to read.
        let len_bytes = rng.random_range(2 << 20..5 << 20);
        history.push(Op::Create("taken".into()));
        history.push(Op::Allocate { path: "taken".into(), at_bytes: 0, len_bytes, keep_size: true });
    }
    history.push(Op::Sync);
    for _ in 0..ROUNDS {
        round(&mut history, &mut rng, seed);
    }
    history.ops
}

/// Other operations on a volume that makes a point of every few of them.
pub(super) fn kept(ops: Vec<Op>) -> Vec<Op> {
    let parts = ops.chunks(OPS_KEPT).flat_map(|part| part.iter().cloned().chain([Op::Sync]));
    std::iter::once(Op::Retain(rule(60))).chain(parts).collect()
}

/// Keeps each state, in that share of the volume.
fn rule(percent: u32) -> Retention {
    Retention { percent, rules: vec![HOUR] }
}

fn round(history: &mut History, rng: &mut Pcg64, seed: u64) {
    let tag = seed << 20 | history.ops.len() as u64;
    for part in 0..rng.random_range(0..4) {
        change(history, rng, tag << 2 | part);
    }
    if seed % 4 == 3 && rng.random_bool(0.2) {
        fill_up(history, rng, tag);
    }
    match rng.random_range(0..100) {
        0..32 => history.push(Op::Sync),
        32..42 => history.push(Op::Idle { ms: rng.random_range(1..12_000) }),
        42..54 => history.push(Op::Step { ms: rng.random_range(0..6_000) }),
        54..70 => {
            for _ in 0..rng.random_range(1..12) {
                history.push(Op::CleanStep);
            }
        }
        70..78 => history.push(Op::Remount),
        78..84 if history.world.retention().percent > 0 => history.push(Op::Fsync("large".into())),
        84..88 => {
            let name = format!("p{}", history.ops.len());
            let has_room = history.world.points().len() < NAMED_MAX;
            history.push(if has_room { Op::MakePoint(name) } else { Op::Sync });
        }
        88..92 => {
            let names: Vec<String> = history.world.points().keys().cloned().collect();
            history.push(names.choose(rng).cloned().map_or(Op::Sync, Op::DropPoint));
        }
        _ => change_rule(history, rng),
    }
}

/// Another rule; most histories return to one that keeps points.
fn change_rule(history: &mut History, rng: &mut Pcg64) {
    let keeps = history.world.retention().percent > 0;
    history.push(Op::Retain(match rng.random_range(0..6) {
        0 if keeps => Retention::default(),
        0..4 => rule(60),
        4 => rule(2),
        _ => rule(10),
    }));
}

fn change(history: &mut History, rng: &mut Pcg64, tag: u64) {
    let files = history.files("D/");
    let small = files.choose(rng).cloned().unwrap_or_else(|| "D/s0".to_owned());
    let fresh = format!("D/s{}", rng.random_range(0..SMALL_FILES));
    history.push(match rng.random_range(0..20) {
        0..6 => overwrite(rng, "large".into(), 24 << 10, LARGE_BYTES, tag),
        6..10 => Op::Write { path: small, at_bytes: 0, len_bytes: rng.random_range(1..9000), tag },
        10..12 => Op::Unlink(small),
        12..15 => Op::Create(fresh),
        15 => Op::Rename { from: small, to: fresh },
        16 => Op::Truncate { path: small, size_bytes: rng.random_range(0..5000) },
        17 => Op::Chmod { path: small, mode: rng.random_range(0..0o1000) },
        18 => Op::SetXattr { path: small, name: "k".into(), len_bytes: rng.random_range(1..5000), tag },
        _ => Op::Punch { path: "large".into(), at_bytes: 4096 * rng.random_range(0..20), len_bytes: 20_000 },
    });
}

/// Takes most of the room that there is, or gives it back.
fn fill_up(history: &mut History, rng: &mut Pcg64, tag: u64) {
    let path = || "junk".to_owned();
    if history.world.find("junk").is_some() {
        return history.push(Op::Unlink(path()));
    }
    let taken_bytes = rng.random_range(100 << 10..900 << 10);
    history.push(Op::Create(path()));
    history.push(Op::Write { path: path(), at_bytes: 0, len_bytes: taken_bytes, tag });
    let reserved_bytes = rng.random_range(0..4 << 20);
    history.push(Op::Allocate { path: path(), at_bytes: 0, len_bytes: reserved_bytes + 1, keep_size: true });
}
