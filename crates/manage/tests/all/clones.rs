//! Clones: each is a tree of its own that began as a retained point, however users, the cleaner, deletions and power cuts take turns in it and
//! around it; a check finds every byte that it holds, and deleting it gives back exactly that.

use crate::common::{assert_content, create, list, mount, new_device, seeds, step, unlink};
use firnfs::FsError;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options};
use firnfs::store::{Scope, Store};
use firnfs::vfs::{RenameMode, SetAttr};
use firnfs_device::Device;
use firnfs_format::{Epoch, InodeNo};
use firnfs_manage::check_all_points;
use firnfs_sim::seeded;
use firnfs_volume::Volume;
use rand::RngExt;
use rand_pcg::Pcg64;
use std::collections::BTreeMap;
use std::sync::Arc;

const LARGE_BYTES: usize = 1 << 20;
const SMALL_FILES: u64 = 120;
const POINTS_MAX: usize = 4;
const CLONES_MAX: usize = 3;
/// A seed in which a point is dropped while the cleaner's copies for it lie below a block of the inode map that the present has, too.
const COPIES_BELOW_A_SHARED_BLOCK: u64 = 9;

/// Content by path, "dir/file" or "file".
type Files = BTreeMap<String, Vec<u8>>;

fn options() -> Options {
    // Origins are rows of the file of points sooner or later.
    Options { commit_step_items: 8, slot_points: 2, ..Options::default() }
}

fn find(volume: &Volume<Lfs>, dir: InodeNo, path: &str) -> Result<InodeNo, FsError> {
    let mut at = dir;
    for name in path.split('/') {
        at = volume.run(|vfs, now| vfs.lookup(now, at, name.as_bytes(), false))?.ino;
    }
    Ok(at)
}

fn paths(volume: &Volume<Lfs>, dir: InodeNo, above: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (name, kind, ino) in list(volume, dir) {
        match kind {
            Kind::Directory => all.append(&mut paths(volume, ino, &format!("{above}{name}/"))),
            _ => all.push(format!("{above}{name}")),
        }
    }
    all
}

fn assert_files(volume: &Volume<Lfs>, root: InodeNo, files: &Files, what: &str) {
    let mut names = paths(volume, root, "");
    names.sort();
    assert_eq!(names, files.keys().cloned().collect::<Vec<_>>(), "{what}");
    for (name, bytes) in files {
        let ino = find(volume, root, name).unwrap();
        assert_content(volume, ino, bytes, &format!("{what}: {name}"));
    }
}

/// The volume itself or a clone.
#[derive(Clone)]
struct Tree {
    root: InodeNo,
    files: Files,
}

struct World {
    rng: Pcg64,
    device: Arc<dyn Device>,
    volume: Volume<Lfs>,
    tree: Tree,
    points: BTreeMap<Epoch, Files>,
    clones: BTreeMap<String, (Epoch, Tree)>,
    made: u64,
    refused: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let device = new_device(32 << 20, if seed.is_multiple_of(2) { 0 } else { 2048 });
        let (volume, _) = mount(&device, options());
        volume.wait_for_work(0);
        create(&volume, InodeNo::ROOT, "dir", Kind::Directory);
        let mut world = Self {
            rng: seeded(seed, "clones"),
            device,
            volume,
            tree: Tree { root: InodeNo::ROOT, files: Files::new() },
            points: BTreeMap::new(),
            clones: BTreeMap::new(),
            made: 0,
            refused: 0,
        };
        let mut tree = world.tree.clone();
        world.make(&mut tree, "large".to_owned(), LARGE_BYTES);
        (0..SMALL_FILES).for_each(|_| world.make_small(&mut tree));
        world.tree = tree;
        world
    }

    fn make(&mut self, tree: &mut Tree, path: String, len_bytes: usize) {
        let (dir, name) = path.rsplit_once('/').unwrap_or((".", &path));
        let dir = find(&self.volume, tree.root, dir).unwrap();
        let ino = create(&self.volume, dir, name, Kind::Regular);
        let bytes: Vec<u8> = (0..len_bytes).map(|_| self.rng.random()).collect();
        match self.volume.write_all(ino, 0, &bytes, false) {
            Ok(()) => drop(tree.files.insert(path, bytes)),
            Err(FsError::NoSpace) => {
                self.refused += 1;
                unlink(&self.volume, dir, name).unwrap();
            }
            Err(why) => panic!("{path}: {why}"),
        }
    }

    fn make_small(&mut self, tree: &mut Tree) {
        self.made += 1;
        let len_bytes = self.rng.random_range(1..6_000);
        let dir = if self.rng.random_bool(0.5) { "dir/" } else { "" };
        self.make(tree, format!("{dir}small{}", self.made), len_bytes);
    }

    /// Changes the volume itself, or a clone of it.
    fn change(&mut self) {
        let at = self.rng.random_range(0..=self.clones.len());
        match self.clones.keys().nth(at).cloned() {
            None => {
                let mut tree = self.tree.clone();
                self.change_in(&mut tree);
                self.tree = tree;
            }
            Some(name) => {
                let mut tree = self.clones[&name].1.clone();
                self.change_in(&mut tree);
                self.clones.get_mut(&name).unwrap().1 = tree;
            }
        }
    }

    fn change_in(&mut self, tree: &mut Tree) {
        let any = self.rng.random_range(0..tree.files.len());
        let path = tree.files.keys().nth(any).unwrap().clone();
        let (dir, name) = path.rsplit_once('/').unwrap_or((".", &path));
        let dir = find(&self.volume, tree.root, dir).unwrap();
        match self.rng.random_range(0..20) {
            0..4 if name != "large" => {
                unlink(&self.volume, dir, name).unwrap();
                tree.files.remove(&path);
                self.make_small(tree);
            }
            4..7 if name != "large" => {
                self.made += 1;
                let (new, into) =
                    (format!("moved{}", self.made), find(&self.volume, tree.root, "dir").unwrap());
                let (from, to) = ((dir, name.as_bytes()), (into, new.as_bytes()));
                self.volume.run(|vfs, now| vfs.rename(now, from, to, RenameMode::NoReplace)).unwrap();
                let bytes = tree.files.remove(&path).unwrap();
                tree.files.insert(format!("dir/{new}"), bytes);
            }
            7 => {
                let ino = find(&self.volume, dir, name).unwrap();
                let bytes = tree.files.get_mut(&path).unwrap();
                let len =
                    if name == "large" { bytes.len() - 1 } else { self.rng.random_range(1..=bytes.len()) };
                let set = SetAttr { size_bytes: Some(len as u64), ..SetAttr::default() };
                self.volume.run(|vfs, now| vfs.setattr(now, ino, set)).unwrap();
                bytes.truncate(len);
            }
            8..13 => self.overwrite(tree, &path),
            _ => self.overwrite(tree, "large"),
        }
    }

    fn overwrite(&mut self, tree: &mut Tree, path: &str) {
        let ino = find(&self.volume, tree.root, path).unwrap();
        let bytes = tree.files.get_mut(path).unwrap();
        let at = self.rng.random_range(0..bytes.len());
        let end = bytes.len().min(at + self.rng.random_range(1..9_000));
        let mut new = vec![0; end - at];
        self.rng.fill(&mut new[..]);
        match self.volume.write_all(ino, at as u64, &new, false) {
            Ok(()) => bytes[at..end].copy_from_slice(&new),
            Err(FsError::NoSpace) => {
                // A part of it may have been written.
                self.refused += 1;
                assert_eq!(self.volume.read(ino, 0, bytes).unwrap(), bytes.len());
            }
            Err(why) => panic!("{path}: {why}"),
        }
    }

    fn until_durable(&self, epoch: Epoch) {
        self.volume.pump();
        while self.volume.run_quietly(|vfs, _| Ok(vfs.store().durable_epoch())).unwrap() <= epoch {
            step(&self.volume);
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
                self.until_durable(epoch);
                self.points.insert(epoch, self.tree.files.clone());
            }
            Err(FsError::NoSpace) => self.refused += 1,
            Err(why) => panic!("{name}: {why}"),
        }
    }

    fn drop_point(&mut self) {
        let any = self.rng.random_range(0..POINTS_MAX);
        let Some(epoch) = self.points.keys().nth(any).copied() else { return };
        let dropped = self.volume.run(|vfs, now| vfs.store_mut().drop_point(now, epoch));
        if self.clones.values().any(|(origin, _)| *origin == epoch) {
            assert!(matches!(dropped, Err(FsError::NotPermitted(_))), "{dropped:?}");
            return;
        }
        // A clone that was just deleted may still be there.
        match dropped {
            Ok(()) => drop(self.points.remove(&epoch)),
            Err(FsError::NotPermitted(_)) => {}
            Err(why) => panic!("{why}"),
        }
    }

    fn make_clone(&mut self) {
        let any = self.rng.random_range(0..POINTS_MAX);
        let Some(epoch) = self.points.keys().nth(any).copied() else { return };
        if self.clones.len() >= CLONES_MAX {
            return;
        }
        self.made += 1;
        let name = format!("clone{}", self.made);
        let made = self.volume.run(|vfs, now| vfs.store_mut().make_clone(now, epoch, &name)).unwrap();
        self.until_durable(made);
        let root = find(&self.volume, InodeNo::ROOT, &format!(".firn/clones/{name}")).unwrap();
        let files = self.points[&epoch].clone();
        self.clones.insert(name, (epoch, Tree { root, files }));
    }

    fn drop_clone(&mut self) {
        let any = self.rng.random_range(0..CLONES_MAX);
        let Some(name) = self.clones.keys().nth(any).cloned() else { return };
        self.drop_clone_of(&name);
    }

    fn drop_clone_of(&mut self, name: &str) {
        let root = self.clones.remove(name).unwrap().1.root;
        self.volume.run(|vfs, now| vfs.store_mut().drop_clone(now, name)).unwrap();
        assert_eq!(find(&self.volume, root, "large"), Err(FsError::Stale));
        assert_eq!(
            find(&self.volume, InodeNo::ROOT, &format!(".firn/clones/{name}")),
            Err(FsError::NotFound)
        );
    }

    /// Nothing leads from one tree into another.
    fn cross(&mut self) {
        let Some((_, tree)) = self.clones.values().next() else { return };
        let from = (InodeNo::ROOT, b"large".as_slice());
        let moved = |vfs: &mut firnfs::vfs::Vfs<Lfs>, now| {
            vfs.rename(now, from, (tree.root, b"gone"), RenameMode::NoReplace)
        };
        assert_eq!(self.volume.run(moved), Err(FsError::CrossDevice));
        let large = find(&self.volume, tree.root, "large").unwrap();
        let linked = self.volume.run(|vfs, now| vfs.link(now, large, InodeNo::ROOT, b"gone", false));
        assert_eq!(linked.map(drop), Err(FsError::CrossDevice));
        let clones = find(&self.volume, InodeNo::ROOT, ".firn/clones").unwrap();
        assert_eq!(find(&self.volume, tree.root, ".."), Ok(clones));
    }

    fn assert_all(&self) {
        assert_files(&self.volume, InodeNo::ROOT, &self.tree.files, "the volume itself");
        for (name, (_, tree)) in &self.clones {
            assert_files(&self.volume, tree.root, &tree.files, name);
        }
    }

    fn check(&self) {
        let report = check_all_points(&*self.device, &mut |_| {}).unwrap();
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{findings:#?}");
    }

    /// The power goes right after a sync, or the volume is unmounted.
    fn remount(self, is_crash: bool) -> Self {
        self.assert_all();
        self.volume.sync(Scope::All).unwrap();
        if !is_crash {
            self.volume.close().unwrap();
        }
        let Self { rng, device, volume, tree, points, mut clones, made, refused } = self;
        drop(volume);
        let (volume, _) = mount(&device, options());
        volume.wait_for_work(0);
        for (name, (_, tree)) in &mut clones {
            tree.root = find(&volume, InodeNo::ROOT, &format!(".firn/clones/{name}")).unwrap();
        }
        let world = Self { rng, device, volume, tree, points, clones, made, refused };
        world.check();
        world.assert_all();
        // A deletion that a power cut undid is done again.
        let clones = world.volume.run(|vfs, _| Ok(vfs.store().branches().unwrap())).unwrap();
        for name in clones.into_iter().map(|clone| clone.name).filter(|name| !world.clones.contains_key(name))
        {
            world.volume.run(|vfs, now| vfs.store_mut().drop_clone(now, &name)).unwrap();
        }
        let retained = world.volume.run(|vfs, _| Ok(Vec::from(vfs.store_mut().points()?.clone()))).unwrap();
        for epoch in
            retained.into_iter().map(|point| point.epoch).filter(|epoch| !world.points.contains_key(epoch))
        {
            _ = world.volume.run(|vfs, now| vfs.store_mut().drop_point(now, epoch));
        }
        world
    }
}

fn story(seed: u64) -> u64 {
    let mut world = World::new(seed);
    world = world.remount(true);
    for round in 0..10 {
        eprintln!("seed {seed} round {round}: clones {:?}", world.clones.keys().collect::<Vec<_>>());
        for _ in 0..world.rng.random_range(20..200) {
            (0..world.rng.random_range(0..4)).for_each(|_| world.change());
            (0..world.rng.random_range(0..12)).for_each(|_| _ = step(&world.volume));
            match world.rng.random_range(0..40) {
                0 => world.make_point(),
                1 => world.drop_point(),
                2 | 3 => world.make_clone(),
                4 => world.drop_clone(),
                5 => world.cross(),
                _ => {}
            }
        }
        world = world.remount(round % 3 > 0);
    }
    let cleaned = world.volume.run_quietly(|vfs, _| Ok(vfs.store().counters().segments_cleaned)).unwrap();
    let names: Vec<String> = world.clones.keys().cloned().collect();
    names.iter().for_each(|name| world.drop_clone_of(name));
    while world.volume.run(|vfs, _| Ok(vfs.store().is_erasing())).unwrap() {
        step(&world.volume);
    }
    let retained = world.volume.run(|vfs, _| Ok(Vec::from(vfs.store_mut().points()?.clone()))).unwrap();
    for point in retained {
        world.volume.run(|vfs, now| vfs.store_mut().drop_point(now, point.epoch)).unwrap();
    }
    world.points.clear();
    (0..1000).for_each(|_| _ = step(&world.volume));
    world.volume.run(|vfs, now| vfs.store_mut().checkpoint_now(now)).unwrap();
    let held_bytes = world.volume.run_quietly(|vfs, _| Ok(vfs.store().past_bytes())).unwrap();
    let inodes = world.volume.run_quietly(|vfs, _| Ok(vfs.statfs().inodes_used)).unwrap();
    // The root, the directory, and the files.
    assert_eq!((held_bytes, inodes), (0, 2 + world.tree.files.len() as u64), "seed {seed}");
    world.remount(false);
    cleaned
}

#[test]
fn every_clone_is_a_tree_of_its_own() {
    for seed in seeds().chain([COPIES_BELOW_A_SHARED_BLOCK]) {
        let cleaned = story(seed);
        assert!(cleaned > 100, "seed {seed}: {cleaned} segments cleaned");
    }
}

/// A stream may ask for any number.
#[test]
fn no_file_of_the_volume_itself_gets_a_number_of_a_clone() {
    let (volume, _) = mount(&new_device(32 << 20, 0), options());
    let wanted = |ino: u64| volume.run_quietly(|vfs, _| Ok(vfs.store_mut().want_number(InodeNo(ino))?));
    assert!(matches!(wanted(1 << 40 | 20), Err(FsError::Invalid(_))));
    wanted(5000).unwrap();
    assert_eq!(create(&volume, InodeNo::ROOT, "wanted", Kind::Regular), InodeNo(5000));
    volume.close().unwrap();
}
