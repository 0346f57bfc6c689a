//! A sync or fsync of much is laid out in short parts, and others go on in between.

use crate::common::{create, mount, new_device, pattern};
use firnfs::engine::Engine;
use firnfs::inode::Kind;
use firnfs::lfs::{Lfs, Options};
use firnfs::store::{Preparation, Prepared, Scope, Ticket};
use firnfs_device::Device;
use firnfs_format::InodeNo;
use firnfs_volume::Volume;
use std::sync::Arc;

const STEP_ITEMS: usize = 16;
const SMALL_FILES: u64 = 400;
const SMALL_BYTES: usize = 3_000;
const LARGE_BYTES: usize = 600 * 4096;
/// What a step may lay out: its blocks and records, a summary in each of two logs, and an inode with its directory that an
/// operation had laid out before.
const PART_MAX_BYTES: u64 = (STEP_ITEMS as u64 + 4) * (4096 + 512) + (64 << 10);

fn options() -> Options {
    Options { commit_step_items: STEP_ITEMS, ..Options::default() }
}

struct Stage {
    device: Arc<dyn Device>,
    volume: Volume<Lfs>,
    small: Vec<InodeNo>,
    large: InodeNo,
}

fn log_bytes(volume: &Volume<Lfs>) -> u64 {
    volume.run_quietly(|vfs, _| Ok(vfs.store().counters().log_bytes)).unwrap()
}

impl Stage {
    /// Much is dirty: many small files, and a large one.
    fn new() -> Self {
        let device = new_device(64 << 20, 0);
        let (volume, _) = mount(&device, options());
        // A promise to do background work: operations leave it alone from now on.
        volume.wait_for_work(0);
        let large = create(&volume, InodeNo::ROOT, "large", Kind::Regular);
        volume.write_all(large, 0, &pattern(0, LARGE_BYTES), false).unwrap();
        let small = (0..SMALL_FILES)
            .map(|n| {
                let ino = create(&volume, InodeNo::ROOT, &format!("small{n}"), Kind::Regular);
                volume.write_all(ino, 0, &pattern(n, SMALL_BYTES), false).unwrap();
                ino
            })
            .collect();
        let before = log_bytes(&volume);
        assert!(before < PART_MAX_BYTES, "{before} bytes were laid out before the commit");
        Self { device, volume, small, large }
    }

    /// Prepares a commit, with `others` between its parts. Returns how many parts there were, and the ticket.
    fn prepare(&self, scope: Scope, mut others: impl FnMut(u64)) -> (u64, Ticket) {
        let mut preparation = Preparation::default();
        let mut before = log_bytes(&self.volume);
        for parts in 0.. {
            let prepared =
                self.volume.run_quietly(|vfs, now| vfs.prepare_commit(now, scope, &mut preparation));
            let after = log_bytes(&self.volume);
            assert!(after - before <= PART_MAX_BYTES, "part {parts} laid out {} bytes", after - before);
            match prepared.unwrap() {
                Prepared::Part => others(parts),
                Prepared::Whole(ticket) => return (parts, ticket),
                Prepared::Rest => panic!("much is dirty, and there is room for it"),
            }
            before = log_bytes(&self.volume);
        }
        unreachable!("the parts are counted from 0 on")
    }

    /// The volume as a crash leaves it.
    fn after_crash(self, ticket: Ticket) -> Volume<Lfs> {
        self.volume.pump();
        assert!(self.volume.run_quietly(|vfs, _| Ok(vfs.store().durable())).unwrap() >= ticket);
        drop(self.volume);
        mount(&self.device, options()).0
    }
}

fn content(volume: &Volume<Lfs>, ino: InodeNo, len_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; len_bytes];
    volume.read(ino, 0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_sync_is_done_in_short_parts_and_keeps_all_that_was_there_when_it_began() {
    let stage = Stage::new();
    let (parts, ticket) = stage.prepare(Scope::All, |n| {
        let ino = stage.small[(n * 7 % SMALL_FILES) as usize];
        stage.volume.write_all(ino, 0, &pattern(1_000 + n, SMALL_BYTES), false).unwrap();
        create(&stage.volume, InodeNo::ROOT, &format!("new{n}"), Kind::Regular);
    });
    assert!(parts > 1_000 / STEP_ITEMS as u64, "{parts} parts");
    let (small, large) = (stage.small.clone(), stage.large);
    let volume = stage.after_crash(ticket);
    assert!(content(&volume, large, LARGE_BYTES) == pattern(0, LARGE_BYTES));
    for (n, &ino) in (0..).zip(&small) {
        let found = content(&volume, ino, SMALL_BYTES);
        let newer = (0..parts).filter(|part| part * 7 % SMALL_FILES == n).map(|part| 1_000 + part);
        let is_known = std::iter::once(n).chain(newer).any(|tag| found == pattern(tag, SMALL_BYTES));
        assert!(is_known, "small{n} has a content that was never written");
    }
}

#[test]
fn an_fsync_is_done_in_short_parts_and_takes_all_new_names_along() {
    let stage = Stage::new();
    let (parts, ticket) = stage.prepare(Scope::File(stage.large), |n| {
        stage.volume.write_all(stage.small[n as usize % 40], 0, &pattern(n, 5_000), false).unwrap();
    });
    assert!(parts > 600 / STEP_ITEMS as u64, "{parts} parts");
    let large = stage.large;
    let volume = stage.after_crash(ticket);
    assert!(content(&volume, large, LARGE_BYTES) == pattern(0, LARGE_BYTES));
    for n in 0..SMALL_FILES {
        let name = format!("small{n}");
        volume.run(|vfs, now| vfs.lookup(now, InodeNo::ROOT, name.as_bytes(), false)).unwrap();
    }
}

#[test]
fn a_sync_ends_however_fast_others_write() {
    let stage = Stage::new();
    let (parts, _) = stage.prepare(Scope::All, |n| {
        // Three times as much as a part lays out.
        let more = create(&stage.volume, InodeNo::ROOT, &format!("more{n}"), Kind::Regular);
        stage.volume.write_all(more, 0, &pattern(n, 3 * STEP_ITEMS * 4096), false).unwrap();
        // Some 1,000 blocks were there at the beginning, and some 3,000 more when their content was laid out.
        assert!(n < 400, "part {n}");
    });
    assert!(parts > 0);
}
