//! Large directories on the memory store: churn, holes, listings while entries come and go, damage.

use super::*;
use crate::mem::{MemOptions, MemStore};
use crate::store::OpKind;
use crate::ufs::in_place;
use crate::vfs::{AtimeMode, Caller, NewNode, RenameMode, Vfs};
use firnfs_format::TimeNs;
use std::collections::BTreeMap;

const NOW: TimeNs = TimeNs(7);
const ROOT: InodeNo = InodeNo::ROOT;
const CALLER: Caller = Caller { uid: 0, gid: 0, umask: 0 };
const FILE: NewNode<'static> = NewNode { kind: Kind::Fifo, mode: 0o644, rdev: 0, target: b"" };

/// Pseudo-random numbers (xorshift), the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn vfs(block_bytes: u32, inline_max_bytes: u32) -> Vfs<MemStore> {
    let options = MemOptions { block_bytes, inline_max_bytes, ..MemOptions::with_capacity(1 << 40) };
    Vfs::new(MemStore::new(options, NOW), AtimeMode::Noatime)
}

fn name(number: u64) -> Vec<u8> {
    let mut name = format!("entry-{number}").into_bytes();
    name.resize(name.len() + (number % 23) as usize, b'_');
    name
}

impl Vfs<MemStore> {
    fn create(&mut self, name: &[u8]) -> InodeNo {
        self.make(NOW, CALLER, ROOT, name, FILE, false).unwrap().ino
    }

    fn create_all(&mut self, numbers: impl Iterator<Item = u64>) {
        for number in numbers {
            self.create(&name(number));
        }
    }

    fn root(&mut self) -> DirView {
        view(self.store_mut(), ROOT).unwrap()
    }

    fn verify(&mut self) {
        verify(self.store_mut(), ROOT).unwrap();
    }

    /// Up to `limit` entries from a cookie on, and the cookie to continue with.
    fn list_some(&mut self, cookie: u64, limit: usize) -> (u64, Vec<Vec<u8>>) {
        let (mut names, mut next) = (Vec::new(), cookie);
        self.readdir(NOW, ROOT, cookie, &mut |entry| {
            names.push(entry.name.to_vec());
            next = entry.next;
            names.len() < limit
        })
        .unwrap();
        (next, names)
    }
}

/// Depth of the index: levels of its nodes.
fn depth(fs: &mut Vfs<MemStore>) -> u8 {
    fs.store_mut().block(ROOT, Fork::Index, BlockIndex(0)).unwrap()[0] + 1
}

#[test]
fn churn_keeps_directory_and_index_in_step() {
    for inline_max in [0, 200] {
        let mut fs = vfs(512, inline_max);
        let mut dice = Dice(17 + u64::from(inline_max));
        let mut there = BTreeMap::new();
        let mut deepest = 0;
        for step in 0..30_000_u64 {
            // Grows for a while, then shrinks, to the end twice.
            let growing = step / 5_000 % 2 == 0;
            let number = dice.below(6_000);
            match dice.below(10) {
                0 => {
                    let to = dice.below(6_000);
                    let renamed =
                        fs.rename(NOW, (ROOT, &name(number)), (ROOT, &name(to)), RenameMode::Replace);
                    assert_eq!(renamed.is_ok(), there.contains_key(&number), "rename in step {step}");
                    if let Some(ino) = there.remove(&number) {
                        there.insert(to, ino);
                    }
                }
                dice if (dice < 8) == growing => {
                    if let std::collections::btree_map::Entry::Vacant(vacant) = there.entry(number) {
                        vacant.insert(fs.create(&name(number)));
                    }
                }
                _ => {
                    let gone = fs.unlink(NOW, ROOT, &name(number)).is_ok();
                    assert_eq!(gone, there.remove(&number).is_some(), "unlink in step {step}");
                }
            }
            let number = dice.below(6_000);
            let found = fs.lookup(NOW, ROOT, &name(number), false).ok().map(|attr| attr.ino);
            assert_eq!(found, there.get(&number).copied(), "lookup in step {step}");
            if step % 1_000 == 999 {
                fs.verify();
                if fs.root().index_blocks > 0 {
                    deepest = deepest.max(depth(&mut fs));
                }
            }
        }
        assert!(deepest >= 3, "an index of {deepest} levels tests too little");
        for number in there.into_keys() {
            fs.unlink(NOW, ROOT, &name(number)).unwrap();
        }
        let root = fs.root();
        assert_eq!((root.size_bytes, root.entries, root.entry_bytes, root.index_blocks), (0, 0, 0, 0));
        assert_eq!(fs.getattr(ROOT).unwrap().allocated_bytes, 0);
    }
}

#[test]
fn a_listing_returns_entries_that_exist_throughout_exactly_once() {
    for seed in 1..=40 {
        let mut fs = vfs(512, 200);
        let mut dice = Dice(seed);
        let size = [5, 30, 300, 1_500][(seed % 4) as usize];
        let stays = |number: u64| number.is_multiple_of(3);
        fs.create_all(0..size);
        let mut listed: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let mut cookie = 0;
        loop {
            let (next, names) = fs.list_some(cookie, 1 + dice.below(9) as usize);
            if names.is_empty() {
                break;
            }
            names.into_iter().for_each(|name| *listed.entry(name).or_default() += 1);
            cookie = next;
            for _ in 0..dice.below(12) {
                let number = dice.below(size);
                if !stays(number) && fs.unlink(NOW, ROOT, &name(number)).is_err() {
                    fs.create(&name(number));
                }
            }
        }
        for number in (0..size).filter(|&number| stays(number)) {
            assert_eq!(listed.get(&name(number)), Some(&1), "seed {seed}, entry {number}");
        }
        fs.verify();
    }
}

#[test]
fn any_cookie_is_safe() {
    let mut fs = vfs(512, 0);
    fs.create_all(0..200);
    let all = fs.list_some(0, usize::MAX).1;
    for cookie in (0..4_000).chain([u64::MAX, 1 << 62]) {
        let names = fs.list_some(cookie, usize::MAX).1;
        assert!(all.ends_with(&names), "from cookie {cookie} on");
    }
}

#[test]
fn appended_entries_stay_in_creation_order() {
    let mut fs = vfs(4096, 512);
    fs.create_all(0..2_000);
    let names: Vec<_> = (0..2_000).map(name).collect();
    assert_eq!(fs.list_some(super::FIRST_COOKIE, usize::MAX).1, names);
}

#[test]
fn space_of_removed_entries_is_found_again() {
    let mut fs = vfs(4096, 0);
    fs.create_all(0..20_000);
    let full_bytes = fs.root().size_bytes;
    for round in 0..5 {
        let odd = |number: u64| number % 2 == round % 2;
        (0..20_000).filter(|&n| odd(n)).for_each(|n| fs.unlink(NOW, ROOT, &name(n)).unwrap());
        fs.create_all((0..20_000).filter(|&n| odd(n)));
        fs.verify();
    }
    let grown_bytes = fs.root().size_bytes;
    assert!(grown_bytes <= full_bytes * 3 / 2, "{full_bytes} bytes grew to {grown_bytes}");
}

#[test]
fn removing_gives_blocks_back_from_either_end() {
    for backwards in [false, true] {
        let mut fs = vfs(4096, 0);
        fs.create_all(0..5_000);
        let full = fs.getattr(ROOT).unwrap();
        let order: Vec<u64> = if backwards { (500..5_000).rev().collect() } else { (0..4_500).collect() };
        order.into_iter().for_each(|number| fs.unlink(NOW, ROOT, &name(number)).unwrap());
        let left = fs.getattr(ROOT).unwrap();
        // The index frees only nodes that are completely empty.
        assert!(left.allocated_bytes < full.allocated_bytes / 2, "{backwards}: {}", left.allocated_bytes);
        assert_eq!(left.size_bytes < full.size_bytes / 5, backwards, "the end is cut, the start punched");
        assert_eq!(fs.list_some(super::FIRST_COOKIE, usize::MAX).1.len(), 500);
        fs.verify();
    }
}

#[test]
fn an_index_is_built_for_any_number_of_entries() {
    let mut fs = vfs(512, 0);
    // The shortest names: most entries in the blocks that are scanned.
    for number in 0..300_u32 {
        let short = [b'a' + (number % 26) as u8, b'a' + (number / 26) as u8];
        fs.create(&short);
        fs.verify();
    }
    assert!(fs.root().index_blocks > 1);
}

#[test]
fn damaged_directories_are_reported_and_nothing_panics() {
    let mut reported = 0;
    for seed in 1..=400 {
        let mut fs = vfs(512, 0);
        let mut dice = Dice(seed * 77);
        let size = [20, 100, 1_500][(seed % 3) as usize];
        fs.create_all(0..size);
        damage(&mut fs, &mut dice);
        for _ in 0..300 {
            let (one, other) = (name(dice.below(size * 2)), name(dice.below(size * 2)));
            let outcome = match dice.below(5) {
                0 => fs.make(NOW, CALLER, ROOT, &one, FILE, false).map(drop),
                1 => fs.unlink(NOW, ROOT, &one),
                2 => fs.rename(NOW, (ROOT, &one), (ROOT, &other), RenameMode::Replace),
                3 => fs.readdir(NOW, ROOT, dice.below(5_000), &mut |_| true),
                _ => fs.lookup(NOW, ROOT, &one, false).map(drop),
            };
            reported += u32::from(matches!(outcome, Err(Stop::Fail(FsError::Corrupt { .. }))));
        }
    }
    assert!(reported > 1_000, "only {reported} reports: the damage was not met");
}

/// Overwrites a few bytes of a block of the directory or of its index.
fn damage(fs: &mut Vfs<MemStore>, dice: &mut Dice) {
    let root = fs.root();
    let store = fs.store_mut();
    let in_index = root.index_blocks > 0 && dice.below(2) == 0;
    let (fork, blocks) =
        if in_index { (Fork::Index, root.index_blocks) } else { (Fork::Data, root.blocks()) };
    for _ in 0..1 + dice.below(4) {
        let block = dice.below(blocks);
        let intent = in_place(ROOT, fork, block, 512);
        let mut op = store.begin(NOW, OpKind::File, &[intent]).unwrap();
        let bytes = store.block_mut(&mut op, ROOT, fork, BlockIndex(block));
        let reach = if dice.below(2) == 0 { 24 } else { 500 };
        let start = dice.below(reach) as usize;
        let len = 1 + dice.below(8) as usize;
        bytes[start..start + len].iter_mut().for_each(|byte| *byte = dice.below(256) as u8);
        store.end(op);
    }
}
