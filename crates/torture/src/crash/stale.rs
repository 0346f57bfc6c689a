//! Two mounts: the first is cut during its last batch, and the second writes beside and over its remains.
//!
//! The remains have the next serial and follow the last summary that counts. So only their incarnation distinguishes them
//! from the real log (remains in another log than the one that the second mount writes first), or the checksum of summaries
//! (remains below a torn summary). Even seeds make the first kind, odd seeds the second.

use super::op::Op;
use firnfs_sim::seeded;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

/// Small files of the second kind: their removals fill more than the first sector of a summary.
const FILES: u32 = 48;

pub(super) fn ops(seed: u64, round: u32) -> Vec<Op> {
    let mut rng = seeded(seed << 1 | u64::from(round), "stale remains");
    match (seed.is_multiple_of(2), round) {
        (true, 0) => large_batch(&mut rng),
        (true, _) => many_names(&mut rng),
        (false, 0) => small_files().chain(removals(&mut rng)).collect(),
        (false, _) => removals(&mut rng),
    }
}

/// The stretches at the end of the first round that are about its last batch: many writes, or one that is under way and then on
/// the disk.
pub(super) fn late_stretches(seed: u64) -> usize {
    if seed.is_multiple_of(2) { 10 } else { 2 }
}

/// More than a segment of content, whose end is in another log.
fn large_batch(rng: &mut Pcg64) -> Vec<Op> {
    let len_bytes = rng.random_range(400 << 10..900 << 10);
    vec![
        Op::Create("big".into()),
        Op::Sync,
        Op::Write { path: "big".into(), at_bytes: 0, len_bytes, tag: 1 },
        Op::Sync,
    ]
}

/// More than a segment of metadata, which goes to the log of metadata at once.
fn many_names(rng: &mut Pcg64) -> Vec<Op> {
    let count = rng.random_range(530..600);
    let mut ops: Vec<_> = (0..count).map(|number| Op::Mkdir(format!("d{number}"))).collect();
    ops.push(Op::Sync);
    ops.push(Op::Chmod { path: "d0".into(), mode: 0o700 });
    ops.push(Op::Sync);
    ops
}

fn small_files() -> impl Iterator<Item = Op> {
    let files = (0..FILES).map(|number| Op::Create(format!("{number}")));
    files.chain([Op::Sync, Op::Idle { ms: 40_000 }])
}

/// Many removals at once: a summary with hardly anything after it.
fn removals(rng: &mut Pcg64) -> Vec<Op> {
    let mut names: Vec<_> = (0..FILES).collect();
    names.shuffle(rng);
    let gone = &names[..rng.random_range(16..FILES as usize - 8)];
    gone.iter().map(|number| Op::Unlink(format!("{number}"))).chain([Op::Fsync(String::new())]).collect()
}
