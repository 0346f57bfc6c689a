//! The cleaner's port: whatever a cleaner sends or omits, no content is lost and the volume stays intact.

use crate::common::{create, mount, new_device, pattern, within_two_minutes};
use firnfs::FsError;
use firnfs::check::From;
use firnfs::inode::Kind;
use firnfs::lfs::port::{BlockInfo, Emptiness, Fate};
use firnfs::lfs::{Lfs, Options, WhyTaken};
use firnfs::store::{Preparation, Scope};
use firnfs_device::{AlignedBuf, Device};
use firnfs_format::summary::{Entry, EntryKind};
use firnfs_format::{InodeNo, SectorAddr, SegmentId};
use firnfs_manage::LogVolume;
use firnfs_manage::check;
use firnfs_volume::Volume;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const FILES: u64 = 40;
const FILE_BYTES: usize = 200_000;

struct Fixture {
    device: Arc<dyn Device>,
    volume: Volume<Lfs>,
    files: BTreeMap<InodeNo, Vec<u8>>,
}

impl Fixture {
    /// Files of which every third block was rewritten: segments with live and dead blocks.
    fn new(size_bytes: u64) -> Self {
        let device = new_device(size_bytes, 2048);
        let (volume, _) = mount(&device, Options::default());
        let mut files = BTreeMap::new();
        for n in 0..FILES {
            let ino = create(&volume, InodeNo::ROOT, &format!("f{n}"), Kind::Regular);
            let content = pattern(n, FILE_BYTES);
            volume.write_all(ino, 0, &content, false).unwrap();
            files.insert(ino, content);
        }
        volume.sync(Scope::All).unwrap();
        let mut fixture = Self { device, volume, files };
        fixture.overwrite(1);
        fixture
    }

    fn overwrite(&mut self, seed: u64) {
        for (ino, content) in &mut self.files {
            for at in (0..FILE_BYTES - 4096).step_by(3 * 4096) {
                content[at..at + 4096].copy_from_slice(&pattern(seed + ino.0, 4096));
                self.volume.write_all(*ino, at as u64, &content[at..at + 4096], false).unwrap();
            }
        }
        self.volume.sync(Scope::All).unwrap();
    }

    /// Segments with movable blocks, the emptiest first.
    fn candidates(&self) -> Vec<SegmentId> {
        let mut found = Vec::new();
        for leaf in 0.. {
            let infos = self.volume.run(|vfs, _| vfs.store_mut().segment_infos(leaf)).unwrap();
            if infos.is_empty() {
                break;
            }
            found
                .extend(infos.into_iter().filter(|i| i.usage.in_use && !i.is_busy && i.usage.live_bytes > 0));
        }
        found.sort_by_key(|i| i.usage.live_bytes);
        found.into_iter().map(|i| i.segment).collect()
    }

    fn entries(&self, segment: SegmentId) -> Vec<Entry> {
        let entries = self.volume.segment_entries(segment).unwrap();
        entries.into_iter().filter(|e| e.ptr.is_stored()).collect()
    }

    fn blocks(&self, segment: SegmentId) -> Vec<BlockInfo> {
        self.entries(segment).iter().map(BlockInfo::from).collect()
    }

    fn assert_intact(&self) {
        for (ino, content) in &self.files {
            let mut found = vec![0; content.len()];
            assert_eq!(self.volume.read(*ino, 0, &mut found).unwrap(), content.len());
            assert!(found == *content, "content of inode {ino}");
        }
        assert!(self.volume.check().unwrap().findings.is_empty());
    }

    /// Reads everything again, after a close or after dropping the volume without one.
    fn reopened(self, close: bool) -> Self {
        if close {
            self.volume.close().unwrap();
        }
        let Self { device, files, volume } = self;
        drop(volume);
        if close {
            let report = check(&*device, From::Newest, &mut |_| {}).unwrap();
            assert!(report.findings.is_empty(), "{:?}", report.findings);
        }
        let (volume, _) = mount(&device, Options::default());
        let fixture = Self { device, volume, files };
        fixture.assert_intact();
        fixture
    }
}

#[test]
fn bmapv_tells_live_blocks_from_dead_ones_and_moving_the_live_ones_empties_the_segment() {
    let fixture = Fixture::new(64 << 20);
    let victim = fixture.candidates()[0];
    let (blocks, live) = (fixture.blocks(victim), live_blocks(&fixture, victim));
    assert!(!live.is_empty() && live.len() < blocks.len(), "{} of {}", live.len(), blocks.len());
    let before = fixture.volume.run(|vfs, _| Ok(*vfs.store().counters())).unwrap();
    let marked = fixture.volume.markv(&live).unwrap();
    assert!(marked.fates.iter().all(|fate| *fate == Fate::Moved), "{:?}", marked.fates);
    assert_eq!(fixture.volume.segclean(&[victim]).unwrap(), [Emptiness::Clean]);
    let after = fixture.volume.run(|vfs, _| Ok(*vfs.store().counters())).unwrap();
    assert_eq!(after.segments_cleaned, before.segments_cleaned + 1);
    assert_eq!(after.cleaner_moved_bytes, before.cleaner_moved_bytes + marked.moved_bytes);
    fixture.assert_intact();
    fixture.reopened(true);
}

/// Blocks of one victim take records in another one along, so the other one has fewer live bytes when its turn comes.
#[test]
fn each_victim_of_a_request_counts_also_if_an_earlier_one_took_blocks_of_it_along() {
    let fixture = Fixture::new(64 << 20);
    // Until the segment with the records is full.
    for n in 0..8000 {
        create(&fixture.volume, InodeNo::ROOT, &format!("later{n}"), Kind::Regular);
    }
    fixture.volume.sync(Scope::All).unwrap();
    let holds_records = |segment: &SegmentId| {
        let blocks = live_blocks(&fixture, *segment);
        let mut records = blocks.iter().filter(|block| matches!(block.kind, EntryKind::Inode { .. }));
        records.any(|record| fixture.files.contains_key(&record.ino))
    };
    // A request moves them in the order of their numbers.
    let with_records = fixture.candidates().into_iter().filter(holds_records).max().unwrap();
    let others = fixture.candidates().into_iter().filter(|segment| *segment < with_records).take(3);
    let victims: Vec<SegmentId> = others.chain([with_records]).collect();
    let live: Vec<BlockInfo> = victims.iter().flat_map(|victim| live_blocks(&fixture, *victim)).collect();
    let counters = || fixture.volume.run(|vfs, _| Ok(*vfs.store().counters())).unwrap();
    let taken = || fixture.volume.run(|vfs, _| Ok(vfs.store().taken_for(WhyTaken::Asked))).unwrap();
    let before = counters();
    let marked = fixture.volume.markv(&live).unwrap();
    assert!(marked.fates.iter().all(|fate| *fate == Fate::Moved), "{:?}", marked.fates);
    assert_eq!(counters().segments_cleaned, before.segments_cleaned + victims.len() as u64);
    assert_eq!((taken().segments, taken().live_bytes), (victims.len() as u64, marked.moved_bytes));
    fixture.assert_intact();
    fixture.reopened(true);
}

/// The content of a new file goes to the log ahead of the file's first record, and a cleaner may look at it in between.
#[test]
fn content_that_was_laid_out_ahead_of_a_new_file_is_live_before_its_record_is_written() {
    let device = new_device(64 << 20, 2048);
    let (volume, _) = mount(&device, Options { commit_step_items: 256, ..Options::default() });
    let mut fixture = Fixture { device, volume, files: BTreeMap::new() };
    let volume = &fixture.volume;
    let ino = create(volume, InodeNo::ROOT, "new", Kind::Regular);
    // A promise to do background work: the write leaves its content to the next step.
    volume.wait_for_work(0);
    let content = pattern(9, 8 << 20);
    volume.write_all(ino, 0, &content, false).unwrap();
    for _ in 0..4 {
        volume
            .run_quietly(|vfs, now| vfs.prepare_commit(now, Scope::All, &mut Preparation::default()))
            .unwrap();
        volume.pump();
    }
    fixture.files.insert(ino, content);
    let mut victims = fixture.candidates();
    victims.retain(|victim| fixture.blocks(*victim).iter().all(|block| block.ino == ino));
    assert!(!victims.is_empty(), "no segment is full of content");
    for victim in victims {
        let stated = fixture.volume.run(|vfs, _| vfs.store_mut().segment_infos(0)).unwrap();
        let stated = stated.iter().find(|info| info.segment == victim).unwrap();
        let live = live_blocks(&fixture, victim);
        assert_eq!(live.len() as u64 * 4096, u64::from(stated.usage.live_bytes), "segment {victim}");
    }
    fixture.assert_intact();
    fixture.reopened(true);
}

#[test]
fn moving_changes_no_times() {
    let fixture = Fixture::new(64 << 20);
    let attributes = |fixture: &Fixture| -> Vec<_> {
        let look = |ino: &InodeNo| fixture.volume.run(|vfs, _| vfs.getattr(*ino)).unwrap();
        fixture.files.keys().map(look).collect()
    };
    let before = attributes(&fixture);
    for victim in fixture.candidates().into_iter().take(8) {
        fixture.volume.markv(&fixture.blocks(victim)).unwrap();
    }
    assert_eq!(attributes(&fixture), before);
}

#[test]
fn blocks_that_died_since_the_cleaner_looked_do_not_come_back() {
    let mut fixture = Fixture::new(64 << 20);
    let looked: Vec<_> = fixture.candidates().into_iter().take(6).map(|s| fixture.blocks(s)).collect();
    fixture.overwrite(77);
    let gone = *fixture.files.keys().next().unwrap();
    fixture.volume.run(|vfs, now| vfs.unlink(now, InodeNo::ROOT, b"f0")).unwrap();
    fixture.files.remove(&gone);
    let mut dead = 0;
    for blocks in &looked {
        let fates = fixture.volume.markv(blocks).unwrap().fates;
        dead += fates.iter().filter(|fate| **fate == Fate::Dead).count();
        // A second time: all blocks have moved, so none is at its old place.
        let again = fixture.volume.markv(blocks).unwrap();
        assert!(!again.fates.contains(&Fate::Moved));
    }
    assert!(dead > 0);
    fixture.assert_intact();
    fixture.reopened(true);
}

#[test]
fn false_requests_move_nothing_and_harm_nothing() {
    let fixture = Fixture::new(64 << 20);
    let victim = fixture.candidates()[0];
    let truth = *fixture.blocks(victim).last().unwrap();
    let open = fixture.volume.run(|vfs, _| Ok(vfs.store().geometry().segments)).unwrap();
    let sector = |addr: u64| SectorAddr(addr);
    let data = |level, index| EntryKind::Block { fork: 0, level, index };
    let lies = [
        (BlockInfo { ino: InodeNo(truth.ino.0 + 1), ..truth }, Fate::Unknown),
        (BlockInfo { version: truth.version + 1, ..truth }, Fate::Unknown),
        (BlockInfo { addr: sector(truth.addr.0 + 1), ..truth }, Fate::Unknown),
        (BlockInfo { kind: data(7, u64::MAX), ..truth }, Fate::Unknown),
        (BlockInfo { kind: EntryKind::Block { fork: 255, level: 255, index: 0 }, ..truth }, Fate::Unknown),
        (BlockInfo { ino: InodeNo(u64::MAX), ..truth }, Fate::Unknown),
        (BlockInfo { addr: sector(u64::MAX), ..truth }, Fate::Busy),
        (BlockInfo { addr: sector((open - 1) * 512 + 8), ..truth }, Fate::Busy),
    ];
    let (blocks, expected): (Vec<_>, Vec<_>) = lies.into_iter().unzip();
    let marked = fixture.volume.markv(&blocks).unwrap();
    assert_eq!((marked.fates, marked.moved_bytes), (expected, 0));
    for impossible in [data(8, 0), data(0, 1 << 48), EntryKind::Block { fork: 3, level: 0, index: 0 }] {
        let asked = [BlockInfo { kind: impossible, ..truth }];
        let error = fixture.volume.run(|vfs, _| vfs.store_mut().bmapv(&asked)).unwrap_err();
        assert!(matches!(error, FsError::Invalid(_)), "{error}");
    }
    for ino in [0, 1, 2, 5, 1 << 48, u64::MAX] {
        for kind in [data(0, (1 << 48) - 1), data(7, 0), EntryKind::Inode { orphan: true }, EntryKind::Freed]
        {
            let asked = [BlockInfo { ino: InodeNo(ino), kind, ..truth }];
            fixture.volume.run(|vfs, _| vfs.store_mut().bmapv(&asked)).unwrap();
        }
    }
    assert!(fixture.volume.segment_entries(SegmentId(u64::MAX)).is_err());
    // Not empty, although the cleaner says so; and a segment that does not exist.
    let said = fixture.volume.segclean(&[victim, SegmentId(u64::MAX)]).unwrap();
    assert!(matches!(said[..], [Emptiness::Live(_), Emptiness::Busy]), "{said:?}");
    // The same block a thousand times moves once.
    let one = live_blocks(&fixture, victim)[0];
    let fates = fixture.volume.markv(&vec![one; 1000]).unwrap().fates;
    assert_eq!(fates.iter().filter(|fate| **fate == Fate::Moved).count(), 1);
    fixture.assert_intact();
    fixture.reopened(true);
}

/// The blocks of a segment that are still where its summaries say.
fn live_blocks(fixture: &Fixture, segment: SegmentId) -> Vec<BlockInfo> {
    let blocks = fixture.blocks(segment);
    let now_at = fixture.volume.run(|vfs, _| vfs.store_mut().bmapv(&blocks)).unwrap();
    blocks.iter().zip(&now_at).filter(|(b, ptr)| b.addr == ptr.addr).map(|(b, _)| *b).collect()
}

/// Flips a bit of a sector.
fn damage(device: &dyn Device, at_bytes: u64) {
    let mut sector = device.read(at_bytes, 512).unwrap().to_vec();
    sector[17] ^= 4;
    device.write(at_bytes, Arc::new(AlignedBuf::copy_of(&sector))).unwrap();
}

#[test]
fn a_segment_whose_files_have_damaged_records_is_not_cleaned_and_the_request_ends() {
    within_two_minutes(|| {
        let fixture = Fixture::new(64 << 20);
        let segments = fixture.candidates();
        let owners = |segment: &SegmentId| -> BTreeSet<InodeNo> {
            live_blocks(&fixture, *segment).iter().map(|block| block.ino).collect()
        };
        let victim = *segments.iter().find(|segment| owners(segment).len() > 2).unwrap();
        let damaged: Vec<InodeNo> = owners(&victim).into_iter().rev().take(2).collect();
        let other = *segments
            .iter()
            .find(|segment| damaged.iter().all(|ino| !owners(segment).contains(ino)))
            .unwrap();
        let (blocks, others) = (live_blocks(&fixture, victim), live_blocks(&fixture, other));
        let geo = fixture.volume.run(|vfs, _| Ok(vfs.store().geometry())).unwrap();
        let records = (0..geo.segments).flat_map(|segment| live_blocks(&fixture, SegmentId(segment)));
        let records: Vec<SectorAddr> = records
            .filter(|b| matches!(b.kind, EntryKind::Inode { .. }) && damaged.contains(&b.ino))
            .map(|b| b.addr)
            .collect();
        assert_eq!(records.len(), 2);
        fixture.volume.close().unwrap();
        let Fixture { device, mut files, volume } = fixture;
        drop(volume);
        records.iter().for_each(|addr| damage(&*device, geo.device_bytes(*addr)));
        let (volume, _) = mount(&device, Options::default());
        // Both have to be read to find the live blocks of the segment.
        let marked = volume.markv(&blocks).unwrap();
        assert_eq!((marked.fates, marked.moved_bytes), (vec![Fate::Damaged; blocks.len()], 0));
        assert!(matches!(volume.segclean(&[victim]).unwrap()[..], [Emptiness::Live(_)]));
        let again = volume.markv(&blocks).unwrap();
        assert_eq!(again.fates, vec![Fate::Damaged; blocks.len()]);
        // The rest of the volume is still cleaned and read.
        let marked = volume.markv(&others).unwrap();
        assert_eq!(marked.fates, vec![Fate::Moved; others.len()]);
        assert_eq!(volume.segclean(&[other]).unwrap(), [Emptiness::Clean]);
        damaged.iter().for_each(|ino| drop(files.remove(ino)));
        for (ino, content) in &files {
            let mut found = vec![0; content.len()];
            assert_eq!(volume.read(*ino, 0, &mut found).unwrap(), content.len());
            assert!(found == *content, "content of inode {ino}");
        }
        for ino in damaged {
            let error = volume.read(ino, 0, &mut [0; 10]).unwrap_err();
            assert!(matches!(error, FsError::Corrupt { .. }), "{error}");
        }
    });
}

#[test]
fn a_cleaner_that_keeps_moving_parts_of_segments_does_not_use_the_reserve() {
    within_two_minutes(|| {
        let mut fixture = Fixture::new(17 << 20);
        let mut refused = 0;
        for round in 0..30 {
            let victims: Vec<SegmentId> = fixture.candidates().into_iter().rev().take(16).collect();
            let mut halves = Vec::new();
            let mut segments = BTreeMap::new();
            for victim in victims {
                let blocks = fixture.blocks(victim);
                halves.extend_from_slice(&blocks[..blocks.len() / 2]);
                let geo = fixture.volume.run(|vfs, _| Ok(vfs.store().geometry())).unwrap();
                let at_bytes = geo.device_bytes(geo.addr(victim, 0));
                segments.insert(victim, fixture.device.read(at_bytes, geo.segment_bytes).unwrap().to_vec());
            }
            // Checked before background work makes room again.
            let (marked, room) = fixture
                .volume
                .run(|vfs, now| {
                    let marked = vfs.store_mut().markv(now, &halves, &segments)?;
                    Ok((marked, vfs.store().room()))
                })
                .unwrap();
            refused += marked.fates.iter().filter(|fate| **fate == Fate::NoRoom).count();
            let is_kept = room.ready_segments >= room.reserve_segments || marked.moved_bytes == 0;
            assert!(is_kept, "round {round}: {} moved, {room:?}", marked.moved_bytes);
            if round % 10 == 9 {
                fixture.overwrite(round);
            }
        }
        assert!(refused > 0, "there was always room");
        // Users' writes still find room.
        fixture.overwrite(1000);
        fixture.assert_intact();
        fixture.reopened(true);
    });
}

#[test]
fn a_cleaner_that_dies_at_any_point_and_a_daemon_that_dies_then_lose_nothing() {
    for steps in 0..4 {
        let fixture = Fixture::new(64 << 20);
        let victims: Vec<SegmentId> = fixture.candidates().into_iter().take(4).collect();
        for victim in &victims {
            let blocks = fixture.blocks(*victim);
            match steps {
                0 => {}
                1 => drop(fixture.volume.markv(&blocks[..blocks.len() / 2]).unwrap()),
                _ => drop(fixture.volume.markv(&blocks).unwrap()),
            }
        }
        if steps == 3 {
            fixture.volume.segclean(&victims).unwrap();
        }
        // Without a close, then with one.
        fixture.reopened(false).reopened(true);
    }
}

#[test]
fn two_cleaners_and_a_writer_at_once_do_not_disturb_each_other() {
    within_two_minutes(|| {
        let mut fixture = Fixture::new(64 << 20);
        for round in 0..3 {
            let fixture = &fixture;
            let stop = AtomicBool::new(false);
            let moved: u64 = std::thread::scope(|scope| {
                let cleaners: Vec<_> = [false, true]
                    .map(|backwards| {
                        scope.spawn(move || {
                            let mut victims = fixture.candidates();
                            if backwards {
                                victims.reverse();
                            }
                            let mut moved = 0;
                            for victim in victims {
                                moved += fixture.volume.markv(&fixture.blocks(victim)).unwrap().moved_bytes;
                                fixture.volume.segclean(&[victim]).unwrap();
                            }
                            moved
                        })
                    })
                    .into_iter()
                    .collect();
                let stop = &stop;
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        for (ino, content) in fixture.files.iter().take(4) {
                            fixture.volume.write_all(*ino, 0, &content[..50_000], false).unwrap();
                        }
                        fixture.volume.sync(Scope::All).unwrap();
                    }
                });
                let moved = cleaners.into_iter().map(|c| c.join().unwrap()).sum();
                stop.store(true, Ordering::Relaxed);
                moved
            });
            assert!(moved > 0, "round {round}");
            fixture.assert_intact();
        }
        fixture.overwrite(9);
        fixture.reopened(true);
    });
}
