//! Full volumes: filled to ENOSPC with files of many sizes, partly deleted and refilled, a hundred times, with the power cut in
//! between. After each cut the accounting matches the audit to the byte, synced data is there, and the space that the volume
//! reports can be used.
//!
//! `FIRNFS_FULL_ROUNDS` sets the number of rounds.

use firnfs::FsError;
use firnfs::lfs::Options;
use firnfs::store::{Scope, Space};
use firnfs::vfs::SetAttr;
use firnfs_device::{Device, SparseImage};
use firnfs_format::{InodeNo, TimeNs};
use firnfs_sim::{CrashDisk, CrashState, DiscardMode, Fate, Replay};
use firnfs_torture::audit::audit;
use firnfs_torture::crash::{Firn, Subject};
use firnfs_torture::on_volume::OnVolume;
use firnfs_torture::ops::Rng;
use firnfs_torture::specimen::{make, pattern};
use std::collections::BTreeMap;
use std::sync::Arc;

const ROUNDS: u64 = 100;
/// Sizes that files are made of: inline, a fragment, some blocks, with an indirect block, larger than a segment.
const SIZES: [usize; 9] = [0, 300, 1_000, 3_000, 9_000, 40_000, 120_000, 300_000, 700_000];
/// Metadata that an operation may need, in bytes: a record, a block of its map, a table's leaf.
const METADATA_BYTES: u64 = 3 * 4096;
const PHYSICAL_BLOCK_BYTES: u32 = 4096;

/// Files by name with their accepted content: seed and length.
type Files = BTreeMap<String, (u64, usize)>;

struct Patient {
    disk: Arc<CrashDisk>,
    on: OnVolume,
    now: TimeNs,
    files: Files,
    /// Overwrites of existing data that ended with ENOSPC.
    refused: u64,
}

impl Patient {
    fn mount(image: SparseImage, now: TimeNs, files: Files, refused: u64) -> Self {
        let disk = Arc::new(CrashDisk::new(image, PHYSICAL_BLOCK_BYTES));
        let device: Arc<dyn Device> = disk.clone();
        let options = Options { write_threshold_bytes: 512 << 10, ..Firn::small().options };
        Self { disk, on: OnVolume::open(device, options, now).unwrap(), now, files, refused }
    }

    fn space(&self) -> Space {
        self.on.volume.run(|vfs, _| Ok(vfs.statfs())).unwrap()
    }

    fn sync(&self) {
        self.on.volume.sync(Scope::All).unwrap();
    }

    fn find(&self, name: &str) -> InodeNo {
        let found = self.on.volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, name.as_bytes(), false));
        found.unwrap_or_else(|e| panic!("{name}: {e}")).ino
    }

    /// Makes a file; returns false if there is no space for all of it: the file is then not there.
    fn add(&mut self, seed: u64, len: usize) -> bool {
        let name = format!("f{seed}");
        let made = make(&self.on.volume, InodeNo::ROOT, &name, firnfs::inode::Kind::Regular, b"");
        let Some(ino) = has_space(made) else { return false };
        if has_space(self.on.volume.write_all(ino, 0, &pattern(seed, len), false)).is_none() {
            self.remove(&name);
            return false;
        }
        self.files.insert(name, (seed, len));
        true
    }

    /// Deleting is never refused.
    fn remove(&mut self, name: &str) {
        self.on.volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, name.as_bytes())).unwrap();
        self.files.remove(name);
    }

    /// Fills the volume: ENOSPC for a size ends that size; ENOSPC for the smallest ends the filling.
    fn fill(&mut self, rng: &mut Rng, seed: &mut u64) {
        let mut sizes = SIZES.len();
        while sizes > 0 {
            let choice = rng.below(sizes as u64) as usize;
            *seed += 1;
            if !self.add(*seed, SIZES[choice]) {
                sizes = choice;
            }
        }
    }

    /// The README's promises about a full volume: overwriting in place and truncating need no space, and shrinking frees some.
    fn use_when_full(&mut self, rng: &mut Rng) {
        let names: Vec<String> = self.files.keys().cloned().collect();
        for _ in 0..6 {
            let name = &names[rng.below(names.len() as u64) as usize];
            let (seed, len) = self.files[name];
            let ino = self.find(name);
            if rng.percent(50) {
                // Overwrites all of it, with another seed.
                let new = seed + 1_000_000_000;
                if has_space(self.on.volume.write_all(ino, 0, &pattern(new, len), false)).is_some() {
                    self.files.insert(name.clone(), (new, len));
                } else {
                    // A part of it may be written: its content is unknown.
                    self.refused += 1;
                    self.remove(name);
                    break;
                }
            } else {
                self.sync();
                let shorter = rng.below(len as u64 + 1);
                let free = self.space().free_bytes;
                let set = SetAttr { size_bytes: Some(shorter), ..SetAttr::default() };
                self.on.volume.run(|vfs, now| vfs.setattr(now, ino, set)).unwrap();
                self.sync();
                self.let_time_pass();
                // The space that is cut off becomes free; but metadata blocks that change for it may have been holes before.
                let cut_off = len as u64 - shorter;
                let is_back = self.space().free_bytes + METADATA_BYTES >= free + cut_off;
                assert!(is_back, "{name} shrank from {len} to {shorter} bytes");
                let shorter = shorter as usize;
                self.files.insert(name.clone(), (seed, shorter));
            }
        }
    }

    /// Cuts the power at some moment after that many events of the disk: each write since the last flush before the cut is
    /// there, missing or torn, as `rng` draws.
    fn crash(self, since: usize, rng: &mut Rng) -> Self {
        let Self { disk, on, now, files, refused } = self;
        drop(on);
        let history = disk.history();
        let discards = DiscardMode::Mixed(rng.bits());
        let mut replay = Replay::new(&history, discards);
        let cut = since + rng.below((history.events().len() - since) as u64 + 1) as usize;
        replay.seek(cut);
        let fates: Vec<Fate> = (0..replay.volatile().len()).map(|_| fate(rng)).collect();
        let image = history.image(&CrashState { cut, fates, discards }).unwrap();
        Self::mount(image, TimeNs(now.0 + 60_000_000_000), files, refused)
    }

    /// Remounts after a clean unmount.
    fn remount(self) -> Self {
        let Self { disk, on, now, files, refused } = self;
        on.volume.close().unwrap();
        drop(on);
        Self::mount(disk.live_image(), TimeNs(now.0 + 60_000_000_000), files, refused)
    }

    /// Lets enough time pass for a commit and a checkpoint.
    fn let_time_pass(&mut self) {
        self.now = TimeNs(self.now.0 + 40_000_000_000);
        self.on.clock.set_ns(self.now.0);
        self.on.volume.background().unwrap();
    }

    /// Nothing is dirty: the accounting is exact.
    fn assert_accounts_are_exact(&mut self, when: &str) {
        self.sync();
        self.let_time_pass();
        let wrong = audit(&self.on.volume).unwrap();
        assert!(wrong.is_empty(), "{when}: {wrong:#?}");
    }

    fn assert_files_are_there(&self, files: &Files, when: &str) {
        for (name, &(seed, len)) in files {
            let mut bytes = vec![0; len];
            let read = self.on.volume.read(self.find(name), 0, &mut bytes);
            assert_eq!(read, Ok(len), "{when}: {name}");
            // Overwritten files have other seeds: the content is that of the seed, cut at the length.
            assert!(bytes == pattern(seed, len), "{when}: {name} of {len} bytes");
        }
    }
}

/// Lets success and ENOSPC pass: a caller who fills a volume must get no other error.
fn has_space<T>(result: Result<T, FsError>) -> Option<T> {
    result.map_err(|error| assert_eq!(error, FsError::NoSpace)).ok()
}

fn fate(rng: &mut Rng) -> Fate {
    match rng.below(4) {
        0 => Fate::Lands,
        1 => Fate::Missing,
        2 => Fate::Garbage(rng.bits()),
        _ => Fate::Mixed { seed: rng.bits(), unit_bytes: 512 },
    }
}

#[test]
fn filled_and_emptied_a_hundred_times_with_the_power_cut_in_between_the_accounts_stay_exact() {
    let rounds =
        std::env::var("FIRNFS_FULL_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    fill_and_empty(rounds);
}

#[test]
fn overwriting_in_place_is_never_refused_on_a_full_volume() {
    assert_eq!(fill_and_empty(ROUNDS), 0);
}

/// Returns how many overwrites were refused.
fn fill_and_empty(rounds: u64) -> u64 {
    let mut rng = Rng::new(100);
    let mut seed = 0;
    // Rounds in which the cut kept some deletions and lost others.
    let mut partly = 0;
    let mut patient = Patient::mount(Firn::small().format(), TimeNs(1 << 60), Files::new(), 0);
    let capacity_bytes = patient.space().free_bytes;
    for round in 0..rounds {
        let when = format!("round {round}");
        patient.fill(&mut rng, &mut seed);
        let space = patient.space();
        assert!(
            space.free_bytes < space.total_bytes / 50,
            "{when}: ENOSPC for an empty file with {} of {} bytes free",
            space.free_bytes,
            space.total_bytes
        );
        patient.use_when_full(&mut rng);
        // Accepted data is never refused later.
        patient.sync();
        let synced = patient.files.clone();
        // A part is deleted, and then the power fails: files deleted since the sync may be there again.
        let names: Vec<String> = synced.keys().cloned().collect();
        let gone: Vec<&String> = names.iter().filter(|_| rng.percent(40)).collect();
        if round % 4 == 0 {
            patient = patient.remount();
        } else {
            let since = patient.disk.history().events().len();
            for (n, name) in gone.iter().enumerate() {
                patient.remove(name);
                if n == gone.len() / 2 {
                    patient.let_time_pass();
                }
            }
            patient = patient.crash(since, &mut rng);
            let there = |name: &&String| {
                let found =
                    patient.on.volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, name.as_bytes(), false));
                found.is_ok()
            };
            // Names are a prefix of the history: of the deletions, the first ones.
            let still: Vec<bool> = gone.iter().map(there).collect();
            partly += u64::from(still.contains(&false) && still.contains(&true));
            assert!(still.is_sorted(), "{when}: deletions out of order");
            let back = gone.iter().zip(&still).filter(|(_, still)| **still).map(|(name, _)| (*name).clone());
            patient.files.extend(back.map(|name| (name.clone(), synced[&name])));
        }
        patient.assert_files_are_there(&patient.files, &when);
        patient.assert_accounts_are_exact(&when);
        gone.iter().filter(|name| synced.contains_key(**name)).for_each(|name| {
            if patient.files.contains_key(*name) {
                patient.remove(name);
            }
        });
        if round % 10 == 9 {
            // Everything is deleted; all space but the last tables' blocks becomes free again.
            patient.files.clone().keys().for_each(|name| patient.remove(name));
            patient.assert_accounts_are_exact(&when);
            let space = patient.space();
            assert_eq!(space.inodes_used, 1, "{when}: the root is left");
            let missing = capacity_bytes - space.free_bytes;
            assert!(missing <= 64 << 10, "{when}: {missing} bytes of the empty volume are gone");
        }
    }
    assert!(partly > rounds / 10, "the power was cut between deletions in {partly} rounds");
    patient.refused
}
