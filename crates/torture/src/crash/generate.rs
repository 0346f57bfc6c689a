//! Random operations that are valid in the current world.

use super::op::Op;
use super::tree::NodeKind;
use super::world::{AclSpec, World};
use firnfs_sim::seeded;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_pcg::Pcg64;

/// `count` random operations, starting from a world. The same world and seed give the same operations.
#[must_use]
pub fn random_ops(world: &World, seed: u64, count: usize) -> Vec<Op> {
    let mut rng = seeded(seed, "operations");
    let mut world = world.clone();
    let mut ops = Vec::with_capacity(count);
    let mut attempt = 0;
    while ops.len() < count {
        attempt += 1;
        let op = random_op(&world, &mut rng, seed << 20 | attempt);
        if world.apply(&op).is_ok() {
            ops.push(op);
        }
    }
    ops
}

pub(super) fn random_op(world: &World, rng: &mut Pcg64, tag: u64) -> Op {
    let list = world.list();
    let of = |wanted: NodeKind| -> Vec<&str> {
        list.iter().filter(|(_, kind, _)| *kind == wanted).map(|(path, ..)| path.as_str()).collect()
    };
    let (files, directories) = (of(NodeKind::File), of(NodeKind::Directory));
    let any: Vec<&str> =
        list.iter().map(|(path, ..)| path.as_str()).filter(|path| !path.is_empty()).collect();
    let directory = *directories.choose(rng).expect("the root");
    let name =
        ["a", "b", "c", "d", "e", "f", "longer-name-for-entries-of-many-sizes"].choose(rng).expect("some");
    let fresh = if directory.is_empty() { (*name).to_owned() } else { format!("{directory}/{name}") };
    let (Some(file), Some(thing)) = (files.choose(rng), any.choose(rng)) else { return Op::Create(fresh) };
    let (file, thing) = ((*file).to_owned(), (*thing).to_owned());
    match rng.random_range(0..114) {
        100.. => attribute_or_room_op(rng, fresh, file, thing),
        0..12 => Op::Create(fresh),
        12..17 => Op::Mkdir(fresh),
        17..19 => Op::Symlink { target: format!("../{fresh}"), path: fresh },
        19..20 => Op::Mkfifo(fresh),
        20..25 => Op::Link { from: file, to: fresh },
        25..31 => Op::Unlink(thing),
        31..34 => Op::Rmdir(directory.to_owned()),
        34..42 => Op::Rename { from: thing, to: fresh },
        42..45 => Op::Exchange { from: thing, to: file },
        45..67 => random_write(world, rng, file, tag),
        67..71 => Op::Truncate { path: file, size_bytes: rng.random_range(0..30_000) },
        71..74 => Op::Punch {
            path: file,
            at_bytes: rng.random_range(0..20_000),
            len_bytes: rng.random_range(1..20_000),
        },
        74..77 => Op::Chmod { path: thing, mode: rng.random_range(0..0o1000) },
        77..80 => {
            let name = ["k", "l"].choose(rng).expect("two").to_string();
            Op::SetXattr { path: thing, name, len_bytes: rng.random_range(1..3000), tag }
        }
        80..90 => Op::Fsync(if rng.random_bool(0.7) { file } else { directory.to_owned() }),
        90..94 => Op::Sync,
        94..98 => Op::Idle { ms: rng.random_range(1..12_000) },
        _ => Op::Remount,
    }
}

/// The less frequent operations.
fn attribute_or_room_op(rng: &mut Pcg64, fresh: String, file: String, thing: String) -> Op {
    let (at_bytes, len_bytes) = (rng.random_range(0..30_000), rng.random_range(1..40_000));
    let (keep_size, default) = (rng.random_bool(0.5), rng.random_bool(0.4));
    match rng.random_range(0..14) {
        0..3 => Op::Allocate { path: file, at_bytes, len_bytes, keep_size },
        3..6 => Op::ZeroRange { path: file, at_bytes, len_bytes, keep_size },
        6..8 => {
            let kinds = [NodeKind::CharDevice, NodeKind::BlockDevice, NodeKind::Socket, NodeKind::Fifo];
            let kind = *kinds.choose(rng).expect("some");
            let is_device = matches!(kind, NodeKind::CharDevice | NodeKind::BlockDevice);
            let rdev = if is_device { rng.random_range(1..1 << 40) } else { 0 };
            Op::Mknod { path: fresh, kind, rdev }
        }
        8..11 => Op::SetAcl { path: thing, default, acl: random_acl(rng) },
        11 => Op::RemoveAcl { path: thing, default },
        _ => {
            let name = ["k", "l"].choose(rng).expect("two").to_string();
            Op::RemoveXattr { path: thing, name }
        }
    }
}

fn random_acl(rng: &mut Pcg64) -> AclSpec {
    let named = rng.random_bool(0.7).then(|| (rng.random_range(0..5000), perm(rng), perm(rng)));
    AclSpec { owner: perm(rng), named, group: perm(rng), other: perm(rng) }
}

fn perm(rng: &mut Pcg64) -> u8 {
    rng.random_range(0..8)
}

/// Appends, overwrites and leaves holes, of sizes from a few bytes to many blocks.
fn random_write(world: &World, rng: &mut Pcg64, path: String, tag: u64) -> Op {
    let size = world.list().into_iter().find(|(known, ..)| *known == path).map_or(0, |(.., size)| size);
    let at_bytes = match rng.random_range(0..4) {
        0 => 0,
        1 => size,
        2 => rng.random_range(0..=size),
        _ => rng.random_range(0..=size + 20_000),
    };
    let len_bytes = match rng.random_range(0..12) {
        0..3 => rng.random_range(1..200),
        3..6 => rng.random_range(1..5000),
        6..8 => 4096,
        8..11 => rng.random_range(1..60_000),
        // More than a segment of the explorer's volumes: a batch of several partial segments.
        _ => rng.random_range(150_000..400_000),
    };
    Op::Write { path, at_bytes, len_bytes, tag }
}
