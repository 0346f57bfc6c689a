//! Random histories on the memory store: against the model, and against the same history on a store that stops at
//! random.

use firnfs::Stop;
use firnfs::inode::Kind;
use firnfs::mem::{MemOptions, MemStore};
use firnfs::store::Space;
use firnfs::vfs::{AtimeMode, Caller, NewNode, Vfs};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_torture::model::{Model, Seen};
use firnfs_torture::ops::{Generator, Mix, Op, Path};
use firnfs_torture::run::{InMemory, Reply, Runner, Target};
use firnfs_torture::skittish::Skittish;
use std::collections::BTreeMap;

const START: TimeNs = TimeNs(1_000_000);

fn time(step: usize) -> TimeNs {
    // Sometimes two operations at the same time, sometimes days apart.
    TimeNs(START.0 + (step as i64 / 2) * 1_000 + (step as i64 / 37) * 90_000_000_000_000)
}

/// Stores of all shapes: tiny blocks make deep indexes, tiny inline limits make conversions.
fn options(seed: u64) -> MemOptions {
    let block_bytes = if seed.is_multiple_of(3) { 4096 } else { 512 };
    MemOptions {
        block_bytes,
        inline_max_bytes: [0, 40, 200, 512][(seed / 3 % 4) as usize],
        inline_xattr_max_bytes: [0, 60, 300][(seed / 5 % 3) as usize],
        op_max_bytes: [4096, 1 << 20][(seed / 7 % 2) as usize],
        ..MemOptions::with_capacity(if seed % 4 == 1 { 120_000 } else { 1 << 40 })
    }
}

fn mix(seed: u64) -> Mix {
    match seed % 5 {
        0 => Mix { names: 400, names_percent: 97, ..Mix::default() },
        1 => Mix { names: 40, names_percent: 80, ..Mix::default() },
        _ => Mix::default(),
    }
}

fn vfs(seed: u64) -> Vfs<MemStore> {
    Vfs::new(MemStore::new(options(seed), START), AtimeMode::Relatime)
}

/// Runs a history against the model; returns it with its answers.
fn run_against_model(seed: u64, steps: usize) -> (Runner<InMemory<MemStore>>, Vec<Op>, Vec<Reply>) {
    let mut model = Model::new(START);
    model.may_be_full = options(seed).capacity_bytes < 1 << 30;
    let mut runner = Runner::new(InMemory(vfs(seed)));
    let mut generator = Generator::new(seed, mix(seed));
    let (mut ops, mut replies) = (Vec::new(), Vec::new());
    for step in 0..steps {
        let op = generator.next_op(&model);
        let reply = runner.apply(time(step), &op);
        if let Err(right) = model.judge(time(step), &op, &reply) {
            panic!("seed {seed}, step {step}, {op:?}: answered {reply:?}, right is {right}");
        }
        ops.push(op);
        replies.push(reply);
    }
    let mut expected = model.seen();
    let mut found = runner.seen(time(steps)).unwrap();
    same_identities(seed, &mut expected, &mut found);
    assert!(expected == found, "seed {seed}: the trees differ: {:?}", difference(&expected, &found));
    (runner, ops, replies)
}

/// Inode numbers and the model's numbers correspond one to one; the numbers are then replaced.
fn same_identities(seed: u64, expected: &mut BTreeMap<Path, Seen>, found: &mut BTreeMap<Path, Seen>) {
    let mut there = BTreeMap::new();
    let mut back = BTreeMap::new();
    for (path, seen) in found {
        let Some(model) = expected.get(path) else { continue };
        assert_eq!(*there.entry(seen.identity).or_insert(model.identity), model.identity, "seed {seed}");
        assert_eq!(*back.entry(model.identity).or_insert(seen.identity), seen.identity, "seed {seed}");
        seen.identity = model.identity;
    }
}

fn difference(one: &BTreeMap<Path, Seen>, other: &BTreeMap<Path, Seen>) -> Vec<String> {
    let keys: std::collections::BTreeSet<&Path> = one.keys().chain(other.keys()).collect();
    let differ = keys.into_iter().filter(|key| one.get(*key) != other.get(*key));
    differ
        .take(2)
        .map(|key| {
            format!(
                "{key:?}: {:?} against {:?}",
                one.get(key).map(|s| s.stat),
                other.get(key).map(|s| s.stat)
            )
        })
        .collect()
}

#[test]
fn histories_agree_with_the_model() {
    for seed in 0..2_000 {
        run_against_model(seed, 150);
    }
    for seed in 2_000..2_060 {
        run_against_model(seed, 3_000);
    }
}

/// Everything visible from outside, including cookies and the order of entries.
#[derive(PartialEq, Debug)]
struct Whole {
    tree: BTreeMap<Path, Seen>,
    listings: Vec<Vec<(u64, Vec<u8>)>>,
    space: Space,
}

fn whole<T: Target>(runner: &mut Runner<T>, now: TimeNs, space: Space) -> Whole {
    let tree = runner.seen(now).unwrap();
    let dirs = tree.values().filter(|seen| seen.stat.kind == Kind::Directory);
    let listings = dirs
        .map(|seen| {
            let all = runner.list_raw(now, InodeNo(seen.identity)).unwrap();
            all.into_iter().map(|entry| (entry.next, entry.name)).collect()
        })
        .collect();
    Whole { tree, listings, space }
}

#[test]
fn stopping_anywhere_changes_nothing() {
    let mut stops = 0;
    for seed in 0..600 {
        let steps = 200;
        let (mut calm, ops, replies) = run_against_model(seed, steps);
        let store = Skittish::new(MemStore::new(options(seed), START), seed);
        let mut nervous = Runner::new(InMemory(Vfs::new(store, AtimeMode::Relatime)));
        for (step, (op, reply)) in ops.iter().zip(&replies).enumerate() {
            assert_eq!(nervous.apply(time(step), op), *reply, "seed {seed}, step {step}, {op:?}");
        }
        let now = time(steps);
        // Reading back renews access times, so it must happen equally often on both.
        nervous.seen(now).unwrap();
        let spaces = (calm.target.0.statfs(), nervous.target.0.statfs());
        let (calm, nervous_whole) = (whole(&mut calm, now, spaces.0), whole(&mut nervous, now, spaces.1));
        assert!(calm == nervous_whole, "seed {seed}: another state after stops");
        stops += nervous.target.0.store().stops;
    }
    assert!(stops > 20_000, "only {stops} stops: the test would see nothing");
}

#[test]
fn a_volume_emptied_again_has_all_its_space_back() {
    for seed in 0..300 {
        let (mut runner, ..) = run_against_model(seed, 200);
        let fresh = vfs(seed).statfs();
        let now = time(1_000);
        for slot in 0..firnfs_torture::ops::HANDLES {
            runner.apply(now, &Op::Close { slot }).unwrap();
        }
        let tree = runner.seen(now).unwrap();
        for (path, seen) in tree.iter().rev().filter(|(path, _)| !path.is_empty()) {
            let path = path.clone();
            let is_dir = seen.stat.kind == Kind::Directory;
            let op = if is_dir { Op::Rmdir { path } } else { Op::Unlink { path } };
            runner.apply(now, &op).unwrap();
        }
        for name in ["user.a", "user.bb", "trusted.c", "security.d"] {
            let op =
                Op::RemoveXattr { file: firnfs_torture::ops::File::Path(Path::new()), name: name.into() };
            let _absent_or_removed = runner.apply(now, &op);
        }
        assert_eq!(runner.target.0.statfs(), fresh, "seed {seed}");
    }
}

/// The number of looks at the store for one create (with the lookup before it), at two sizes of a directory.
fn looks_per_create(sizes: [u64; 2]) -> [u64; 2] {
    const SAMPLE: u64 = 2_000;
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
    let store = Skittish::steady(MemStore::new(MemOptions::with_capacity(1 << 40), START));
    let mut vfs = Vfs::new(store, AtimeMode::Relatime);
    let mut made = 0;
    sizes.map(|size| {
        let mut before = 0;
        while made < size {
            if made == size - SAMPLE {
                before = vfs.store().looks;
            }
            let name = format!("file-{made}").into_bytes();
            assert!(vfs.lookup(START, InodeNo::ROOT, &name, false).is_err());
            vfs.make(START, caller, InodeNo::ROOT, &name, node, false).unwrap();
            made += 1;
        }
        vfs.store().looks - before
    })
}

#[test]
fn creating_costs_as_many_looks_in_a_huge_directory_as_in_a_small_one() {
    let [small, huge] = looks_per_create([10_000, 300_000]);
    assert!(
        huge * 10 <= small * 13,
        "2,000 creates took {small} looks among 10,000 files, {huge} among 300,000"
    );
}

/// Regression: 100,000 orphans after a crash took 100,000 searches of all of them when every stop began from the start.
#[test]
fn releasing_orphans_lists_each_once_however_often_it_is_stopped() {
    const ORPHANS: u64 = 3_000;
    let caller = Caller { uid: 0, gid: 0, umask: 0 };
    let node = NewNode { kind: Kind::Regular, mode: 0o644, rdev: 0, target: b"" };
    let mut vfs = Vfs::new(MemStore::new(MemOptions::with_capacity(1 << 40), START), AtimeMode::Relatime);
    let fresh = vfs.statfs();
    for n in 0..ORPHANS {
        let name = format!("file-{n}").into_bytes();
        let ino = vfs.make(START, caller, InodeNo::ROOT, &name, node, false).unwrap().ino;
        vfs.hold(ino).unwrap();
        vfs.unlink(START, InodeNo::ROOT, &name).unwrap();
    }
    let mut vfs = Vfs::new(Skittish::new(vfs.into_store(), 5), AtimeMode::Relatime);
    while let Err(stop) = vfs.release_orphans(START) {
        assert!(!matches!(stop, Stop::Fail(_)), "{stop:?}");
    }
    let store = vfs.store();
    assert!(store.stops > ORPHANS / 10, "only {} stops", store.stops);
    assert_eq!(store.orphans_listed, ORPHANS);
    assert!(store.looks < 6 * ORPHANS, "{} looks", store.looks);
    assert_eq!(vfs.statfs().inodes_used, fresh.inodes_used);
}
