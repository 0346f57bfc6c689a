//! Histories with quotas: three users and two groups with low limits, which change. Files are made for users, change hands, grow until they
//! are refused, shrink, lose their names while open, and are replaced; work goes on after remounts, when their blocks are not in memory.

use super::op::Op;
use super::quota::Bounds;
use super::shape::History;
use firnfs::ufs::quota::Class;
use firnfs_sim::seeded;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_pcg::Pcg64;

const USERS: [u32; 3] = [1000, 1001, 1002];
const GROUPS: [u32; 2] = [100, 101];
/// Operations after the beginning.
const OPS: usize = 60;

pub(super) fn ops(seed: u64) -> Vec<Op> {
    let mut rng = seeded(seed, "quotas");
    let mut history = History::default();
    history.push(Op::Mkdir("D".into()));
    // Some have files before quotas are on.
    let early = rng.random_range(0..6);
    (0..early).for_each(|number| make(&mut history, &mut rng, seed, number));
    history.push(Op::TurnQuotas(true));
    (0..4).for_each(|_| history.push(limits(&mut rng)));
    (early..6).for_each(|number| make(&mut history, &mut rng, seed, number));
    if rng.random_bool(0.5) {
        history.push(Op::Sync);
    }
    let end = history.ops.len() + OPS;
    while history.ops.len() < end {
        let tag = seed << 20 | history.ops.len() as u64;
        let op = next(&history, &mut rng, tag);
        history.push(op);
    }
    history.ops
}

fn make(history: &mut History, rng: &mut Pcg64, seed: u64, number: u64) {
    let path = format!("D/u{number}");
    let (uid, gid) = owner(rng);
    history.push(Op::CreateFor { path: path.clone(), uid, gid });
    // Large ones have indirect blocks.
    let len_bytes = if number == 0 { rng.random_range(80_000..300_000) } else { rng.random_range(1..20_000) };
    history.push(Op::Write { path, at_bytes: 0, len_bytes, tag: seed << 20 | 0xf_0000 | number });
}

fn owner(rng: &mut Pcg64) -> (u32, u32) {
    (*USERS.choose(rng).expect("some"), *GROUPS.choose(rng).expect("some"))
}

fn limits(rng: &mut Pcg64) -> Op {
    let (uid, gid) = owner(rng);
    let (class, id) = if rng.random_bool(0.7) { (Class::User, uid) } else { (Class::Group, gid) };
    let mut pick = |of: [u64; 4]| of[rng.random_range(0..of.len())];
    let (bytes_hard, inodes_hard) = (pick([0, 20_000, 60_000, 200_000]), pick([0, 0, 3, 6]));
    let bounds =
        Bounds { bytes_hard, bytes_soft: bytes_hard / 2, inodes_hard, inodes_soft: pick([0, 0, 0, 2]) };
    Op::SetLimits { class, id, bounds }
}

fn next(history: &History, rng: &mut Pcg64, tag: u64) -> Op {
    let files = history.files("");
    let fresh = format!("D/u{}", rng.random_range(0..12));
    let (uid, gid) = owner(rng);
    let Some(file) = files.choose(rng).cloned() else { return Op::CreateFor { path: fresh, uid, gid } };
    let at_bytes = rng.random_range(0..24_000);
    match rng.random_range(0..100) {
        0..12 => Op::CreateFor { path: fresh, uid, gid },
        12..32 => Op::Write { path: file, at_bytes, len_bytes: rng.random_range(1..40_000), tag },
        32..42 => Op::Truncate { path: file, size_bytes: rng.random_range(0..30_000) },
        42..52 => Op::Chown { path: file, uid, gid },
        52..56 => Op::Unlink(file),
        56..60 => Op::UnlinkOpen(file),
        60..63 => Op::UseOpen { len_bytes: rng.random_range(1..20_000), tag },
        63..65 => Op::CloseOpen,
        65..71 => Op::Rename { from: file, to: files.choose(rng).cloned().unwrap_or(fresh) },
        71..75 => limits(rng),
        75..77 => Op::TurnQuotas(rng.random_bool(0.5)),
        77..79 => Op::SetXattr { path: file, name: "k".into(), len_bytes: rng.random_range(1..3000), tag },
        79..81 => Op::Allocate { path: file, at_bytes, len_bytes: 30_000, keep_size: rng.random_bool(0.5) },
        81..83 => Op::Punch { path: file, at_bytes, len_bytes: 20_000 },
        83..88 => Op::Fsync(if rng.random_bool(0.6) { file } else { "D".into() }),
        88..92 => Op::Sync,
        92..96 => Op::Idle { ms: rng.random_range(1..12_000) },
        _ => Op::Remount,
    }
}
