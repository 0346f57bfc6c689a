//! The index alone, on the memory store, compared with a sorted list of pairs.

use super::node::Content;
use super::*;
use crate::error::{FsError, Stop};
use crate::mem::{MemOptions, MemStore};
use crate::store::OpKind;
use crate::ufs::in_place;
use firnfs_format::TimeNs;
use std::collections::BTreeSet;

const NOW: TimeNs = TimeNs(7);
const ROOT: InodeNo = InodeNo::ROOT;
const BLOCK_BYTES: u32 = 512;

/// Pseudo-random numbers (xorshift), the same in every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// The index of the root directory, and its expected content.
struct Fixture {
    store: MemStore,
    blocks: u64,
    pairs: BTreeSet<(u32, u32)>,
    /// The largest number of blocks that one insertion has changed.
    changed_max: usize,
}

impl Fixture {
    fn new() -> Self {
        let options = MemOptions { block_bytes: BLOCK_BYTES, ..MemOptions::with_capacity(1 << 40) };
        let store = MemStore::new(options, NOW);
        Self { store, blocks: 1, pairs: BTreeSet::new(), changed_max: 0 }
    }

    /// Inserts a pair; first removes another pair in the same operation, if one is given.
    fn replace(&mut self, old: Option<(u32, u32)>, (hash, place): (u32, u32)) -> Outcome<()> {
        let removal = old.map(|old| plan_remove(self.find(old).expect("it is there"), old.1));
        let store = &mut self.store;
        let insertion = plan_insert(store, ROOT, self.blocks, hash, removal.as_ref())?;
        let mut intents = Vec::new();
        insertion.declare(ROOT, BLOCK_BYTES, &mut intents);
        self.changed_max = self.changed_max.max(intents.len());
        removal.iter().for_each(|removal| removal.declare(ROOT, BLOCK_BYTES, &mut intents));
        let mut op = store.begin(NOW, OpKind::Names, &intents)?;
        removal.iter().for_each(|removal| removal.apply(store, &mut op, ROOT, true));
        self.blocks = insertion.apply(store, &mut op, ROOT, place);
        store.end(op);
        old.map(|old| self.pairs.remove(&old));
        self.pairs.insert((hash, place));
        Ok(())
    }

    fn remove(&mut self, old: (u32, u32)) {
        let removal = plan_remove(self.find(old).expect("it is there"), old.1);
        let mut intents = Vec::new();
        removal.declare(ROOT, BLOCK_BYTES, &mut intents);
        let mut op = self.store.begin(NOW, OpKind::Names, &intents).unwrap();
        removal.apply(&mut self.store, &mut op, ROOT, false);
        self.store.end(op);
        self.pairs.remove(&old);
    }

    fn find(&mut self, (hash, place): (u32, u32)) -> Option<Spot> {
        let mut wanted = |_: &mut MemStore, at: u32| Ok((at == place).then_some(()));
        find(&mut self.store, ROOT, self.blocks, hash, &mut wanted).unwrap().map(|found| found.1)
    }

    fn verify(&mut self) {
        let mut found = Vec::new();
        walk(&mut self.store, ROOT, self.blocks, &mut |hash, place| found.push((hash, place))).unwrap();
        found.sort_unstable();
        assert!(found.iter().eq(&self.pairs), "{} pairs, not {}", found.len(), self.pairs.len());
        for &pair in self.pairs.clone().iter().step_by(7) {
            assert!(self.find(pair).is_some(), "{pair:?}");
        }
    }

    fn content(&mut self, at: u32) -> Content {
        let node = block(&mut self.store, ROOT, at).unwrap();
        Content::of(&node, at).unwrap()
    }

    /// Changes a block without the index.
    fn edit(&mut self, at: u32, change: impl FnOnce(&mut [u8])) {
        let intent = in_place(ROOT, Fork::Index, u64::from(at), BLOCK_BYTES);
        let mut op = self.store.begin(NOW, OpKind::Names, &[intent]).unwrap();
        change(block_mut(&mut self.store, &mut op, ROOT, at));
        self.store.end(op);
    }
}

/// How a history draws its hashes.
type Draw = fn(u64) -> u32;

const DRAWS: [Draw; 4] = [
    |dice| dice as u32,
    // Rising: all pairs go to the last child.
    |dice| (dice % 1_000 + dice / 1_000 % 4_000_000) as u32,
    // Skewed, with many pairs of one hash.
    |dice| ((dice % 300) * (dice % 300) / 7) as u32 * 0x1_0000,
    // The ends of the range.
    |dice| if dice % 3 == 0 { u32::MAX - (dice / 3 % 99) as u32 } else { (dice / 3 % 700) as u32 },
];

#[test]
fn pairs_come_and_go_and_are_found_whatever_their_hashes() {
    for (seed, draw) in DRAWS.into_iter().enumerate() {
        let (mut fixture, mut dice) = (Fixture::new(), Dice(seed as u64 + 99));
        let (mut refused, mut alive) = (0, Vec::new());
        for place in 0..12_000_u32 {
            let old = (place % 5 == 0 && place > 500)
                .then(|| alive.swap_remove(dice.next() as usize % alive.len()));
            let pair = (draw(dice.next()), place);
            match (place % 10, fixture.replace(old.filter(|_| place % 10 > 0), pair)) {
                (_, Ok(())) => alive.push(pair),
                (_, Err(Stop::Fail(FsError::NoSpace))) => {
                    refused += 1;
                    alive.extend(old.filter(|_| place % 10 > 0));
                }
                (_, other) => panic!("{other:?}"),
            }
            if let Some(old) = old.filter(|_| place % 10 == 0) {
                fixture.remove(old);
            }
            if place % 1_500 == 0 {
                fixture.verify();
            }
        }
        fixture.verify();
        assert!(seed > 1 || refused == 0, "{refused} refused under draw {seed}");
        assert!(fixture.content(0).level > 1 || seed > 1, "draw {seed} makes no deep index");
        assert!(fixture.changed_max <= 3 * DEPTH_MAX, "{} blocks in one insertion", fixture.changed_max);
        for pair in alive {
            fixture.remove(pair);
        }
        fixture.verify();
    }
}

#[test]
fn one_hash_is_refused_when_its_nodes_are_full() {
    let mut fixture = Fixture::new();
    let capacity = capacity(BLOCK_BYTES as usize) as u32;
    // Two hashes, one of them rare: the leaf must be split between them, far from its middle.
    let hash_of = |place: u32| if place.is_multiple_of(4) { 1_000 } else { 1_001 };
    let refused = (0..).find(|&place| fixture.replace(None, (hash_of(place), place)).is_err()).unwrap();
    assert!(refused > capacity, "{refused} names, a leaf takes {capacity} of one hash");
    let full = fixture.replace(None, (1_001, 9_999));
    assert!(matches!(full, Err(Stop::Fail(FsError::NoSpace))), "{full:?}");
    fixture.verify();
    let mut found = Vec::new();
    let mut wanted = |_: &mut MemStore, place| {
        found.push(place);
        Ok(None::<()>)
    };
    assert!(find(&mut fixture.store, ROOT, fixture.blocks, 1_001, &mut wanted).unwrap().is_none());
    found.sort_unstable();
    assert!(found.into_iter().eq((0..refused).filter(|&place| hash_of(place) == 1_001)));
}

#[test]
fn new_pairs_change_few_leaves_of_a_large_index() {
    let (mut fixture, mut dice) = (Fixture::new(), Dice(5));
    for place in 0..30_000 {
        fixture.replace(None, (dice.next() as u32, place)).unwrap();
    }
    let leaves = |fixture: &mut Fixture| {
        let all: Vec<_> = (0..fixture.blocks as u32).map(|at| fixture.content(at)).collect();
        all.into_iter().filter(|content| content.level == 0).collect::<BTreeSet<_>>()
    };
    let before = leaves(&mut fixture);
    let new = before.len() as u32 / 2;
    for place in 0..new {
        fixture.replace(None, (dice.next() as u32, 30_000 + place)).unwrap();
    }
    let changed = leaves(&mut fixture).difference(&before).count() as u32;
    assert!(changed * 3 < new, "{new} pairs changed {changed} of {} leaves", before.len());
}

#[test]
fn an_index_built_at_once_holds_the_pairs_it_was_built_from() {
    for entries in [1, 40, 63, 64, 700, 9_000] {
        let (mut fixture, mut dice) = (Fixture::new(), Dice(entries));
        fixture.pairs = (0..entries as u32).map(|place| (dice.next() as u32 % 1_000_000, place)).collect();
        let mut pairs: Vec<_> = fixture.pairs.iter().copied().collect();
        let (hash, place) = pairs.swap_remove(dice.next() as usize % entries as usize);
        let building = plan_build(pairs, hash, BLOCK_BYTES).unwrap();
        let mut intents = Vec::new();
        building.declare(ROOT, BLOCK_BYTES, &mut intents);
        let mut op = fixture.store.begin(NOW, OpKind::Names, &intents).unwrap();
        fixture.blocks = building.apply(&mut fixture.store, &mut op, ROOT, place);
        fixture.store.end(op);
        fixture.verify();
        for place in 0..500 {
            fixture.replace(None, (dice.next() as u32, 100_000 + place)).unwrap();
        }
        fixture.verify();
    }
}

#[test]
fn nodes_with_many_children_and_nothing_waiting_are_split_when_they_are_full() {
    let (mut fixture, mut dice) = (Fixture::new(), Dice(8));
    // The index as it is built without waiting pairs: 63 leaves below one node.
    let capacity = capacity(BLOCK_BYTES as usize) as u32;
    let children: Vec<_> = (0..capacity).map(|n| (n * 1_000, n + 1)).collect();
    let root = Content { level: 1, children, places: Vec::new() };
    fixture.edit(0, |node| root.write(node));
    for block in 1..=capacity {
        let hash = (block - 1) * 1_000 + 500;
        fixture.pairs.insert((hash, block));
        let leaf = Content { level: 0, children: Vec::new(), places: vec![(hash, block)] };
        fixture.edit(block, |node| leaf.write(node));
    }
    fixture.blocks = u64::from(capacity) + 1;
    for place in 0..3_000 {
        fixture.replace(None, (dice.next() as u32 % 63_000, 10_000 + place)).unwrap();
    }
    fixture.verify();
}

#[test]
fn damaged_nodes_are_reported_and_nothing_panics() {
    let mut reported = 0;
    for seed in 1..600 {
        let (mut fixture, mut dice) = (Fixture::new(), Dice(seed * 77));
        for place in 0..1_500 {
            fixture.replace(None, (dice.next() as u32, place)).unwrap();
        }
        let at = dice.next() as u32 % fixture.blocks as u32;
        fixture.edit(at, |bytes| {
            for _ in 0..=dice.next() % 3 {
                // The head, or any byte.
                let bound = if dice.next() % 2 == 0 { 32 } else { bytes.len() as u64 };
                bytes[(dice.next() % bound) as usize] = dice.next() as u8;
            }
        });
        let is_damage = |stop: &Stop| matches!(stop, Stop::Fail(FsError::Corrupt { .. } | FsError::NoSpace));
        for place in 0..300 {
            let hash = dice.next() as u32;
            let missed = find(&mut fixture.store, ROOT, fixture.blocks, hash, &mut |_, _| Ok(None::<()>));
            let inserted = fixture.replace(None, (hash, 50_000 + place));
            for stop in [missed.err(), inserted.err()].into_iter().flatten() {
                assert!(is_damage(&stop), "{stop:?}");
                reported += 1;
            }
        }
    }
    assert!(reported > 1_000, "{reported}");
}
