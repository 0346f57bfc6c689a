//! Retained points: each reads as the volume was when it was made, however users, the cleaner, later points and power cuts take turns; a
//! check finds every byte that they hold, and dropping them gives back exactly that.

use crate::common::{assert_content, create, list, mkfs_options, mount, new_device, seeds, step, unlink};
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::{Differing, Lfs, Options};
use firnfs::store::{Scope, Store};
use firnfs_device::{CountingDevice, Device, MemDevice};
use firnfs_format::{Epoch, InodeNo};
use firnfs_manage::{LogVolume, check_all_points, format, open_point};
use firnfs_sim::{VirtualClock, seeded};
use firnfs_volume::Volume;
use rand::RngExt;
use rand_pcg::Pcg64;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const LARGE_BYTES: usize = 1 << 20;
const SMALL_FILES: u64 = 120;
/// More than one mount needs for its operations between two power cuts.
const POINTS_MAX: usize = 5;

type Files = BTreeMap<String, (InodeNo, Vec<u8>)>;

fn options() -> Options {
    // All but two points are rows of their file.
    Options { commit_step_items: 8, slot_points: 2, ..Options::default() }
}

struct World {
    rng: Pcg64,
    device: Arc<dyn Device>,
    volume: Volume<Lfs>,
    files: Files,
    points: BTreeMap<Epoch, Files>,
    made: u64,
    refused: u64,
}

fn assert_files(volume: &Volume<Lfs>, root: InodeNo, files: &Files, what: &str) {
    let mut names: Vec<String> = list(volume, root).into_iter().map(|(name, ..)| name).collect();
    names.sort();
    assert_eq!(names, files.keys().cloned().collect::<Vec<_>>(), "{what}");
    for (name, (_, bytes)) in files {
        let ino = volume.run(|vfs, now| vfs.lookup(now, root, name.as_bytes(), false)).unwrap().ino;
        assert_content(volume, ino, bytes, &format!("{what}: {name}"));
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let device = new_device(24 << 20, if seed.is_multiple_of(2) { 0 } else { 2048 });
        let (volume, _) = mount(&device, options());
        volume.wait_for_work(0);
        let mut world = Self {
            rng: seeded(seed, "points"),
            device,
            volume,
            files: BTreeMap::new(),
            points: BTreeMap::new(),
            made: 0,
            refused: 0,
        };
        world.make("large".to_owned(), LARGE_BYTES);
        (0..SMALL_FILES).for_each(|_| world.make_small());
        world
    }

    fn make(&mut self, name: String, len_bytes: usize) {
        let ino = create(&self.volume, InodeNo::ROOT, &name, Kind::Regular);
        // Blocks of many files are the same: a pointer tells them apart by their places alone.
        let bytes = crate::common::pattern(0, len_bytes);
        self.volume.write_all(ino, 0, &bytes, false).unwrap();
        self.files.insert(name, (ino, bytes));
    }

    fn make_small(&mut self) {
        self.made += 1;
        let len_bytes = if self.rng.random_bool(0.5) { 4096 } else { self.rng.random_range(1..6_000) };
        self.make(format!("small{}", self.made), len_bytes);
    }

    fn change(&mut self) {
        let any = self.rng.random_range(1..self.files.len());
        let any = self.files.keys().nth(any).unwrap().clone();
        let name = match self.rng.random_range(0..10) {
            0..2 => {
                unlink(&self.volume, InodeNo::ROOT, &any).unwrap();
                self.files.remove(&any);
                return self.make_small();
            }
            2..5 => any,
            _ => "large".to_owned(),
        };
        let (ino, bytes) = self.files.get_mut(&name).unwrap();
        let at = self.rng.random_range(0..bytes.len());
        let end = bytes.len().min(at + self.rng.random_range(1..9_000));
        let mut new = vec![0; end - at];
        self.rng.fill(&mut new[..]);
        match self.volume.write_all(*ino, at as u64, &new, false) {
            Ok(()) => bytes[at..end].copy_from_slice(&new),
            Err(FsError::NoSpace) => {
                // A part of it may have been written.
                self.refused += 1;
                assert_eq!(self.volume.read(*ino, 0, bytes).unwrap(), bytes.len());
            }
            Err(why) => panic!("{name}: {why}"),
        }
    }

    fn make_point(&mut self) {
        if self.points.len() >= POINTS_MAX {
            return;
        }
        self.made += 1;
        let name = format!("point{}", self.made);
        match self.volume.run(|vfs, now| vfs.store_mut().make_point(now, &name)) {
            Ok(epoch) => {
                self.volume.pump();
                while self.volume.run_quietly(|vfs, _| Ok(vfs.store().durable_epoch())).unwrap() < epoch {
                    step(&self.volume);
                }
                self.points.insert(epoch, self.files.clone());
            }
            Err(FsError::NoSpace) => self.refused += 1,
            Err(why) => panic!("{name}: {why}"),
        }
    }

    fn drop_point(&mut self) {
        if self.points.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.points.len());
        let epoch = *self.points.keys().nth(at).unwrap();
        self.drop_point_of(epoch);
    }

    fn drop_point_of(&mut self, epoch: Epoch) {
        self.volume.run(|vfs, now| vfs.store_mut().drop_point(now, epoch)).unwrap();
        self.points.remove(&epoch);
    }

    fn check(&self) {
        let report = check_all_points(&*self.device, &mut |_| {}).unwrap();
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        let points: Vec<&Epoch> = self.points.keys().collect();
        assert!(findings.is_empty(), "points {points:?}: {findings:#?}");
        for (epoch, files) in &self.points {
            let clock = Arc::new(VirtualClock::at(crate::common::START_NS));
            let past = open_point(self.device.clone(), options(), clock, *epoch).unwrap();
            assert_files(&past, InodeNo::ROOT, files, &format!("point {epoch}"));
        }
    }

    /// Reads a point through the volume that is in use.
    fn look_back(&mut self) {
        if self.points.is_empty() {
            return;
        }
        let at = self.rng.random_range(0..self.points.len());
        let (epoch, files) = self.points.iter().nth(at).unwrap();
        let name = self.volume.run(|vfs, _| {
            let mut states = vfs.store_mut().states(Epoch(0))?.unwrap();
            Ok(states.find(|state| state.epoch == *epoch).unwrap().title())
        });
        let name = &name.unwrap();
        let find = |dir, name: &str| self.volume.run(|vfs, now| vfs.lookup(now, dir, name.as_bytes(), false));
        let root =
            [".firn", "history", name].iter().fold(InodeNo::ROOT, |dir, name| find(dir, name).unwrap().ino);
        assert_files(&self.volume, root, files, &format!("point {epoch} beside the present"));
        let refused = self.volume.write_all(find(root, "large").unwrap().ino, 0, b"new", false);
        assert!(matches!(refused, Err(FsError::ReadOnly(_))), "{refused:?}");
        assert_eq!(
            find(root, "..").unwrap().ino,
            find(find(InodeNo::ROOT, ".firn").unwrap().ino, "history").unwrap().ino
        );
    }

    /// The inodes that a comparison of two states finds are those that differ, and what only moved is not among them.
    fn compare(&mut self) {
        if self.points.is_empty() {
            return;
        }
        let any = |rng: &mut Pcg64| rng.random_range(0..self.points.len());
        let (first, second) = (any(&mut self.rng), any(&mut self.rng));
        let (first, before) = self.points.iter().nth(first).unwrap();
        let (second, after) = match self.points.iter().nth(second).unwrap() {
            (epoch, files) if epoch > first => (Some(*epoch), files),
            _ => (None, &self.files),
        };
        let (mut found, mut from) = (Vec::new(), Some(InodeNo::ROOT));
        while let Some(start) = from {
            let step = |vfs: &mut firnfs::vfs::Vfs<Lfs>, _| {
                found.retain(|differing: &Differing| differing.ino < start);
                vfs.store_mut().differing_inodes(Some(*first), second, start, &mut found)
            };
            from = self.volume.run(step).unwrap();
        }
        // No name is used twice, but a number may be, and for a file with the same content.
        let by_number = |files: &Files| -> BTreeMap<InodeNo, (String, Vec<u8>)> {
            files.iter().map(|(name, (ino, bytes))| (*ino, (name.clone(), bytes.clone()))).collect()
        };
        let (before, after) = (by_number(before), by_number(after));
        let numbers = before.keys().chain(after.keys()).copied().collect::<BTreeSet<_>>();
        let differs = numbers.iter().filter(|ino| before.get(ino) != after.get(ino)).copied();
        let found_files = found.iter().filter(|differing| differing.ino != InodeNo::ROOT);
        let what = format!("{first} and {second:?}");
        assert_eq!(
            found_files.clone().map(|found| found.ino).collect::<Vec<_>>(),
            differs.collect::<Vec<_>>(),
            "{what}"
        );
        for found in found_files {
            let is_in = (before.contains_key(&found.ino), after.contains_key(&found.ino));
            assert_eq!((found.is_in_first, found.is_in_second), is_in, "{what}: {}", found.ino);
        }
    }

    /// Drops a point at once, and finds that this gives back what was counted before.
    fn drop_counted(&mut self) {
        let is_dropping = |volume: &Volume<Lfs>| {
            volume
                .run(|vfs, _| Ok(vfs.store_mut().points()?.iter().any(|point| point.dropped_to.is_some())))
                .unwrap()
        };
        let Some(epoch) = self.points.keys().nth(self.points.len() / 2).copied() else { return };
        self.volume.sync(Scope::All).unwrap();
        while is_dropping(&self.volume) {
            step(&self.volume);
        }
        let past_bytes = |world: &Self| world.volume.run(|vfs, _| Ok(vfs.store().past_bytes())).unwrap();
        let mut holdings = self.volume.run(|vfs, _| vfs.store_mut().count_held_by(epoch)).unwrap();
        let counted_bytes = loop {
            if let Some(bytes) = self.volume.run(|vfs, _| vfs.store_mut().count_on(&mut holdings)).unwrap() {
                break bytes;
            }
        };
        let before_bytes = past_bytes(self);
        self.drop_point_of(epoch);
        while is_dropping(&self.volume) {
            step(&self.volume);
        }
        assert_eq!(before_bytes - past_bytes(self), counted_bytes, "point {epoch}");
    }

    /// The power goes right after a sync, or the volume is unmounted.
    fn remount(self, is_crash: bool) -> Self {
        self.volume.sync(Scope::All).unwrap();
        let retained: Vec<Epoch> = self.retained();
        if !is_crash {
            self.volume.close().unwrap();
        }
        let Self { rng, device, volume, files, points, made, refused } = self;
        drop(volume);
        // What was dropped shortly before a power cut may be there still, being dropped or not.
        assert!(points.keys().all(|epoch| retained.contains(epoch)));
        let (volume, _) = mount(&device, options());
        volume.wait_for_work(0);
        let world = Self { rng, device, volume, files, points, made, refused };
        world.check();
        assert_files(&world.volume, InodeNo::ROOT, &world.files, "the present");
        world
    }

    fn retained(&self) -> Vec<Epoch> {
        self.volume
            .run(|vfs, _| Ok(vfs.store_mut().points()?.iter().map(|point| point.epoch).collect()))
            .unwrap()
    }
}

fn history(seed: u64) -> u64 {
    let mut world = World::new(seed);
    world = world.remount(true);
    for round in 0..10 {
        eprintln!("seed {seed} round {round}: {:?}", world.retained());
        for _ in 0..world.rng.random_range(20..200) {
            (0..world.rng.random_range(0..4)).for_each(|_| world.change());
            (0..world.rng.random_range(0..12)).for_each(|_| _ = step(&world.volume));
            match world.rng.random_range(0..30) {
                0 => world.make_point(),
                1 => world.drop_point(),
                2 => world.look_back(),
                3 => world.compare(),
                _ => {}
            }
        }
        world.drop_counted();
        world = world.remount(round % 3 > 0);
    }
    let cleaned = world.volume.run_quietly(|vfs, _| Ok(vfs.store().counters().segments_cleaned)).unwrap();
    // Also those whose drop a power cut undid.
    world.retained().into_iter().for_each(|epoch| world.drop_point_of(epoch));
    (0..1000).for_each(|_| _ = step(&world.volume));
    world.volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
    let held_bytes = world.volume.run_quietly(|vfs, _| Ok(vfs.store().past_bytes())).unwrap();
    assert_eq!((world.retained(), held_bytes), (vec![], 0), "seed {seed}");
    world.remount(false);
    cleaned
}

#[test]
fn every_point_reads_as_the_volume_was_when_it_was_made() {
    for seed in seeds() {
        let cleaned = history(seed);
        assert!(cleaned > 100, "seed {seed}: {cleaned} segments cleaned");
    }
}

#[test]
fn a_point_cannot_have_the_name_that_an_automatic_one_may_get() {
    let (volume, _) = mount(&new_device(24 << 20, 0), options());
    let make = |name: &str| volume.make_point(name);
    let refused = make("2026-11-24T13:45:10Z").unwrap_err();
    assert!(matches!(refused, FsError::Invalid(why) if why.contains("automatic")), "{refused}");
    for name in ["2026-11-24", "2026-11-24T13:45:10", "x026-11-24T13:45:10Z"] {
        make(name).unwrap();
    }
    volume.close().unwrap();
}

#[test]
fn what_writers_wait_for_goes_before_a_drop() {
    let counting = Arc::new(CountingDevice::new(MemDevice::new(256 << 20)));
    format(&*counting, &mkfs_options(256 << 20, 0)).unwrap();
    let device: Arc<dyn Device> = counting.clone();
    let threshold_bytes: u64 = 1 << 20;
    let options = Options { write_threshold_bytes: threshold_bytes, ..Options::default() };
    let (volume, _) = mount(&device, options);
    let bytes = vec![7; 64 << 20];
    let old = create(&volume, InodeNo::ROOT, "old", Kind::Regular);
    let new = create(&volume, InodeNo::ROOT, "new", Kind::Regular);
    volume.write_all(old, 0, &bytes, false).unwrap();
    let point = volume.make_point("overwritten").unwrap();
    volume.write_all(old, 0, &bytes, false).unwrap();
    volume.sync(Scope::All).unwrap();
    // Background work is left to this test.
    volume.wait_for_work(0);
    volume.run(|vfs, now| vfs.store_mut().drop_point(now, point.epoch)).unwrap();
    // The next write would have to wait.
    volume.write_all(new, 0, &bytes[..2 * threshold_bytes as usize], false).unwrap();
    let before = counting.counts();
    let is_dropping = || volume.run(|vfs, _| Ok(vfs.store().is_dropping())).unwrap();
    while counting.counts().since(&before).write_bytes < threshold_bytes {
        step(&volume);
        assert!(is_dropping(), "the drop came to its end first");
    }
    volume.background().unwrap();
    assert!(!is_dropping());
    volume.close().unwrap();
}
