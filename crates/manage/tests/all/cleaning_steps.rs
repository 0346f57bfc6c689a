//! Users change files between any two steps of the cleaner, and the power goes: everything that was synced is there, and a check
//! finds nothing.

use crate::common::{create, mount, new_device, unlink};
use firnfs::check::From;
use firnfs::engine::{Engine, Step};
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options};
use firnfs::store::Scope;
use firnfs_device::Device;
use firnfs_format::InodeNo;
use firnfs_manage::check;
use firnfs_sim::seeded;
use firnfs_volume::Volume;
use rand::RngExt;
use rand_pcg::Pcg64;
use std::collections::BTreeMap;
use std::sync::Arc;

const LARGE_BYTES: usize = 3 << 20;
const SMALL_FILES: u64 = 300;

fn options() -> Options {
    Options { commit_step_items: 8, ..Options::default() }
}

struct Users {
    rng: Pcg64,
    files: BTreeMap<String, (InodeNo, Vec<u8>)>,
    made: u64,
}

impl Users {
    fn make(&mut self, volume: &Volume<Lfs>, name: String, len_bytes: usize) {
        let ino = create(volume, InodeNo::ROOT, &name, Kind::Regular);
        let bytes: Vec<u8> = (0..len_bytes).map(|_| self.rng.random()).collect();
        volume.write_all(ino, 0, &bytes, false).unwrap();
        self.files.insert(name, (ino, bytes));
    }

    fn make_small(&mut self, volume: &Volume<Lfs>) {
        self.made += 1;
        let len_bytes = self.rng.random_range(1..6_000);
        self.make(volume, format!("small{}", self.made), len_bytes);
    }

    fn any_small(&mut self) -> String {
        let at = self.rng.random_range(1..self.files.len());
        self.files.keys().nth(at).unwrap().clone()
    }

    fn change(&mut self, volume: &Volume<Lfs>) {
        let name = match self.rng.random_range(0..10) {
            0..2 => {
                let name = self.any_small();
                unlink(volume, InodeNo::ROOT, &name).unwrap();
                self.files.remove(&name);
                return self.make_small(volume);
            }
            2..5 => self.any_small(),
            _ => "large".to_owned(),
        };
        let (ino, bytes) = self.files.get_mut(&name).unwrap();
        let at = self.rng.random_range(0..bytes.len());
        let end = bytes.len().min(at + self.rng.random_range(1..9_000));
        self.rng.fill(&mut bytes[at..end]);
        volume.write_all(*ino, at as u64, &bytes[at..end], false).unwrap();
    }

    /// Changes a few bytes of every file.
    fn change_each(&mut self, volume: &Volume<Lfs>) {
        for (ino, bytes) in self.files.values_mut() {
            let at = self.rng.random_range(0..bytes.len() - 100);
            self.rng.fill(&mut bytes[at..at + 100]);
            volume.write_all(*ino, at as u64, &bytes[at..at + 100], false).unwrap();
        }
    }

    fn assert_all_there(&self, volume: &Volume<Lfs>) {
        for (name, (ino, bytes)) in &self.files {
            let mut found = vec![0; bytes.len()];
            assert_eq!(volume.read(*ino, 0, &mut found).unwrap(), bytes.len(), "{name}");
            assert!(found == *bytes, "{name} has other bytes than were synced");
        }
    }
}

fn step(volume: &Volume<Lfs>) -> Step {
    let step = volume.run_quietly(|vfs, now| vfs.store_mut().step(now, true)).unwrap();
    volume.pump();
    step
}

/// The power goes right after a sync.
fn mount_after_crash(device: &Arc<dyn Device>, volume: Volume<Lfs>, users: &Users) -> Volume<Lfs> {
    volume.sync(Scope::All).unwrap();
    drop(volume);
    let report = check(&**device, From::Newest, &mut |_| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let (volume, _) = mount(device, options());
    users.assert_all_there(&volume);
    // A promise to do background work: operations leave it alone from now on.
    volume.wait_for_work(0);
    volume
}

/// Returns how many segments were cleaned since mkfs.
fn history(seed: u64) -> u64 {
    let device = new_device(16 << 20, if seed.is_multiple_of(2) { 0 } else { 2048 });
    let (mut volume, _) = mount(&device, options());
    let mut users = Users { rng: seeded(seed, "between steps"), files: BTreeMap::new(), made: 0 };
    users.make(&volume, "large".to_owned(), LARGE_BYTES);
    (0..SMALL_FILES).for_each(|_| users.make_small(&volume));
    volume = mount_after_crash(&device, volume, &users);
    let mut cleaned = 0;
    for _ in 0..14 {
        for _ in 0..users.rng.random_range(20..300) {
            (0..users.rng.random_range(0..4)).for_each(|_| users.change(&volume));
            (0..users.rng.random_range(0..12)).for_each(|_| _ = step(&volume));
        }
        cleaned = volume.run_quietly(|vfs, _| Ok(vfs.store().counters().segments_cleaned)).unwrap();
        volume = mount_after_crash(&device, volume, &users);
    }
    cleaned
}

#[test]
fn nothing_synced_is_lost_however_users_and_the_cleaner_take_turns() {
    for seed in 0..5 {
        let cleaned = history(seed);
        assert!(cleaned > 500, "seed {seed}: {cleaned} segments cleaned");
    }
}

/// The batch of a pass is laid out in steps; users change every file in it between two of them.
#[test]
fn a_pass_of_the_cleaner_ends_although_users_take_all_that_is_left_of_its_batch() {
    const FILES: usize = 4;
    let device = new_device(16 << 20, 2048);
    let (volume, _) = mount(&device, options());
    let mut users = Users { rng: seeded(0, "taken away"), files: BTreeMap::new(), made: 0 };
    (0..FILES).for_each(|n| users.make(&volume, format!("file{n}"), LARGE_BYTES / FILES));
    volume.sync(Scope::All).unwrap();
    volume.wait_for_work(0);
    for _ in 0..3_000 {
        users.change_each(&volume);
        step(&volume);
    }
    let passes = volume.run_quietly(|vfs, _| Ok(vfs.store().counters().cleaner_passes)).unwrap();
    assert!(passes > 10, "{passes} passes");
    mount_after_crash(&device, volume, &users);
}
